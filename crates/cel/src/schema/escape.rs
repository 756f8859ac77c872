//! Escaping of field names that are no CEL identifiers.
//!
//! The scheme is Kubernetes': `.`, `-`, `/` and `__` become `__dot__`, `__dash__`, `__slash__` and `__underscores__`,
//! and reserved words get two underscores on each side. A name with other characters, or one that begins with a digit,
//! cannot be written and is not visible to expressions. The mapping is reversible, which evaluation relies on.

use std::borrow::Cow;

use crate::parser::RESERVED;

/// Literals and operators, which no field can be named after either.
const LITERALS: [&str; 4] = ["true", "false", "null", "in"];

const PARTS: [(&str, &str); 4] =
    [("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__")];

fn is_reserved(name: &str) -> bool {
    LITERALS.contains(&name) || RESERVED.contains(&name)
}

/// Returns true if an expression can refer to a variable of that name as it is.
///
/// ```
/// assert!(listwatch_cel::is_identifier("replicas_1"));
/// assert!(!listwatch_cel::is_identifier("while") && !listwatch_cel::is_identifier("1st"));
/// ```
#[must_use]
pub fn is_identifier(name: &str) -> bool {
    let start = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(start) && name.chars().all(|c| start(c) || c.is_ascii_digit()) && !is_reserved(name)
}

/// The identifier for a name, or `None` if expressions cannot write it.
#[must_use]
pub fn escape(name: &str) -> Option<Cow<'_, str>> {
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if is_reserved(name) {
        return Some(format!("__{name}__").into());
    }
    if !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/')) {
        return None;
    }
    if !name.contains(['.', '-', '/']) && !name.contains("__") {
        return Some(name.into());
    }
    let (mut escaped, mut rest) = (String::new(), name);
    while let Some(c) = rest.chars().next() {
        let part = PARTS.iter().find(|(sign, _)| rest.starts_with(sign));
        let taken = part.map_or(c.len_utf8(), |(sign, _)| sign.len());
        match part {
            Some((_, written)) => escaped.push_str(written),
            None => escaped.push(c),
        }
        rest = rest.get(taken..).unwrap_or("");
    }
    Some(escaped.into())
}

/// The name that an identifier stands for, or `None` if it stands for none.
///
/// Borrowed for names without a double underscore, which are nearly all.
pub(crate) fn unescape(identifier: &str) -> Option<Cow<'_, str>> {
    if !identifier.contains("__") {
        return Some(identifier.into());
    }
    let (mut name, mut rest) = (String::new(), identifier);
    while let Some(start) = rest.find("__") {
        let inside = rest.get(start + 2..)?;
        // Between the underscores there is at least one other character.
        let closed = |end: &usize| *end > 0 && inside.get(*end..).is_some_and(|tail| tail.starts_with("__"));
        let end = inside.find('_').filter(closed);
        let Some(end) = end else {
            name.push_str(rest.get(..start + 1)?);
            rest = rest.get(start + 1..)?;
            continue;
        };
        let word = inside.get(..end)?;
        name.push_str(rest.get(..start)?);
        match PARTS.iter().find(|(_, written)| written.trim_matches('_') == word) {
            Some((sign, _)) => name.push_str(sign),
            None if is_reserved(word) && identifier.len() == word.len() + 4 => name.push_str(word),
            None => return None,
        }
        rest = inside.get(end + 2..)?;
    }
    name.push_str(rest);
    Some(name.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_and_unescaped() {
        for (name, written) in [
            ("a-b", "a__dash__b"),
            ("namespace", "__namespace__"),
            ("a__b", "a__underscores__b"),
            ("a.b/c", "a__dot__b__slash__c"),
            ("_a_b", "_a_b"),
        ] {
            assert_eq!(escape(name).as_deref(), Some(written));
            assert_eq!(unescape(written).as_deref(), Some(name));
        }
        assert_eq!(escape("a b"), None);
        assert_eq!(unescape("__nothing__"), None);
    }
}
