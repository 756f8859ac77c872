//! `fieldPath` of a rule: from its JSONPath form to the form of field errors, checked against the schema.
//!
//! A path may only use fields and map keys that the schema declares, never list indexes, because it is fixed with the
//! definition and must be valid for every object. `.spec.names['a']` becomes `spec.names[a]`. Paths that lead nowhere
//! are an error of the definition.

use listwatch_wire::json::Value;

/// A path such as `.spec.names['a']` as field errors write it, or `None` if the schema has no such field.
///
/// Done when a definition is compiled; evaluation only appends the result to the path of the value.
pub(crate) fn normalized(schema: &Value, path: &str) -> Option<String> {
    let (mut rest, mut place, mut written) = (path, schema, String::new());
    while !rest.is_empty() {
        let (step, tail) = match rest.strip_prefix("['") {
            Some(quoted) => {
                let end = closing_quote(quoted)?;
                (unescaped(quoted.get(..end)?)?, quoted.get(end + 1..)?.strip_prefix(']')?)
            }
            None => {
                let named = rest.strip_prefix('.')?;
                let end = named.find(['.', '[', ']']).unwrap_or(named.len());
                let (name, tail) = named.split_at_checked(end)?;
                (name.to_owned(), tail)
            }
        };
        if let Some(properties) = place.get("properties") {
            place = properties.get(&step)?;
            if !written.is_empty() {
                written.push('.');
            }
            written.push_str(&step);
        } else {
            place = place.get("additionalProperties").filter(|values| values.is_object())?;
            written.push_str(&format!("[{step}]"));
        }
        rest = tail;
    }
    Some(written)
}

/// The place of the quote that ends a step.
fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(at, c)| {
        let ends = c == '\'' && !escaped;
        escaped = c == '\\' && !escaped;
        ends.then_some(at)
    })
}

/// Resolves the escapes of Go's rune literals; `None` for unknown ones.
fn unescaped(text: &str) -> Option<String> {
    let (mut out, mut chars) = (String::new(), text.chars());
    while let Some(c) = chars.next() {
        out.push(match c {
            '\\' => match chars.next()? {
                'a' => '\x07',
                'b' => '\x08',
                'f' => '\x0c',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'v' => '\x0b',
                sign @ ('\'' | '\\') => sign,
                _ => return None,
            },
            other => other,
        });
    }
    Some(out)
}
