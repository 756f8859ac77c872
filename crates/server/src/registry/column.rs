//! [`Column`]: what a custom resource's Table shows, and finding it in an object.

use jiff::Timestamp;
use listwatch_kinds::age;
use serde_json::Value;

/// A column of a custom resource's Table.
#[derive(Clone, Debug)]
pub struct Column {
    /// Heading.
    pub name: String,
    /// OpenAPI type: `string`, `integer`, `date` and so on.
    pub kind: String,
    /// OpenAPI format, often empty.
    pub format: String,
    /// For people.
    pub description: String,
    /// Zero is always shown, more only with `-o wide`.
    pub priority: i32,
    /// Where the value is.
    pub json_path: String,
}

impl Column {
    /// The cell of one object: null if there is nothing to show.
    #[must_use]
    pub fn cell(&self, object: &Value, now: Timestamp) -> Value {
        let found = find(object, &self.json_path);
        match (self.kind.as_str(), found) {
            (_, None | Some(Value::Null)) => Value::Null,
            ("date", Some(value)) => age::since(value.as_str().unwrap_or_default(), now).into(),
            ("string", Some(Value::String(text))) => text.as_str().into(),
            ("string", Some(value)) => value.to_string().into(),
            ("integer", Some(value)) => value.as_i64().map_or(Value::Null, Into::into),
            ("number", Some(value)) => value.as_f64().map_or(Value::Null, Into::into),
            ("boolean", Some(value)) => value.as_bool().map_or(Value::Null, Into::into),
            (_, Some(value)) => value.clone(),
        }
    }
}

/// The first value at a JSONPath of the simple kind that definitions use: fields, `[index]`, `['field']` and
/// `[?(@.field=="text")]`.
fn find<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    let mut at = object;
    let mut rest = path.trim().trim_start_matches('$');
    while !rest.is_empty() {
        (at, rest) = match rest.strip_prefix('[') {
            Some(bracket) => {
                let (inside, rest) = bracket.split_once(']')?;
                (select(at, inside)?, rest)
            }
            None => {
                let name = rest.trim_start_matches('.');
                let end = name.find(['.', '[']).unwrap_or(name.len());
                let (name, rest) = name.split_at(end);
                (at.get(name)?, rest)
            }
        };
    }
    Some(at)
}

fn select<'a>(at: &'a Value, inside: &str) -> Option<&'a Value> {
    if let Ok(index) = inside.parse::<usize>() {
        return at.get(index);
    }
    let unquoted = |text: &str| text.trim().trim_matches(['\'', '"']).to_owned();
    let Some(condition) = inside.strip_prefix("?(") else { return at.get(unquoted(inside)) };
    let (field, wanted) = condition.trim_end_matches(')').split_once("==")?;
    let (field, wanted) = (field.trim().strip_prefix("@.")?, unquoted(wanted));
    let holds = |item: &&Value| match find(item, field) {
        Some(Value::String(text)) => *text == wanted,
        Some(Value::Bool(flag)) => wanted == if *flag { "true" } else { "false" },
        Some(Value::Number(number)) => {
            wanted.parse().is_ok_and(|wanted: serde_json::Number| wanted == *number)
        }
        _ => false,
    };
    at.as_array()?.iter().find(holds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_that_definitions_use() {
        let object = json!({"spec": {"a": [1, {"b": "x"}], "c.d": 5},
            "status": {"conditions": [{"type": "Other", "status": "No"}, {"type": "Ready", "status": "True"}]}});
        for (path, expected) in [
            (".spec.a[0]", json!(1)),
            (".spec.a[1].b", json!("x")),
            (".spec['c.d']", json!(5)),
            (".status.conditions[?(@.type==\"Ready\")].status", json!("True")),
            (".spec.nothing.here", Value::Null),
            (".spec.a[7]", Value::Null),
            (".spec.a[", Value::Null),
        ] {
            assert_eq!(find(&object, path).cloned().unwrap_or_default(), expected, "{path}");
        }
    }
}
