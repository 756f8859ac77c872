//! The fields in which two versions of an object differ, as one short line for `watch` and `history`.
//!
//! It is for people: six fields and 40 characters per value, larger parts as counts. `resourceVersion` and
//! `managedFields` are left out because they change with every write. Arrays are compared by index, so an insertion in
//! front shows as many changes; the exact difference is `listwatch diff`, which the server computes.

use serde_json::Value;

use crate::terminal::counted;

/// Fields named on one line; the rest is counted.
const MAX_FIELDS: usize = 6;
/// Fields of an object that came or went as a whole and is still named field by field.
const MAX_UNFOLDED: usize = 3;
/// Characters of a value that are shown.
const MAX_VALUE: usize = 40;

/// Returns the changed fields as `path: old → new, path: + new`, without resourceVersion and managedFields, which change
/// with every write.
///
/// The whole difference is collected before it is cut, so the cost is that of the objects and not of the line.
pub(super) fn describe(before: &Value, after: &Value) -> String {
    let mut found = Vec::new();
    walk(before, after, &mut String::new(), &mut found);
    let more = found.len().saturating_sub(MAX_FIELDS);
    found.truncate(MAX_FIELDS);
    let mut line = found.join(", ");
    if more > 0 {
        line.push_str(&format!(" and {more} more"));
    }
    line
}

/// Collects the differences, depth first. Lists of different lengths are shown as a whole, since nothing says which
/// elements stayed.
fn walk(before: &Value, after: &Value, path: &mut String, found: &mut Vec<String>) {
    if matches!(path.as_str(), "metadata.resourceVersion" | "metadata.managedFields") {
        return;
    }
    let is_root = path.is_empty();
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            for (key, value) in old {
                step(path, key, '.', |path| match new.get(key) {
                    Some(other) => walk(value, other, path, found),
                    None => one_sided(value, '-', path, found),
                });
            }
            // The items of a list do not carry their type, watch events do.
            let is_type = |key: &str| is_root && matches!(key, "apiVersion" | "kind");
            for (key, value) in new.iter().filter(|(key, _)| !old.contains_key(*key) && !is_type(key)) {
                step(path, key, '.', |path| one_sided(value, '+', path, found));
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (index, (one, other)) in old.iter().zip(new).enumerate() {
                step(path, &index.to_string(), '.', |path| walk(one, other, path, found));
            }
        }
        _ if before == after => {}
        _ => found.push(format!("{path}: {} → {}", short(before), short(after))),
    }
}

/// Names something that only one version has. A small object is named by its fields: a first label is more to the point
/// than a map with one entry.
fn one_sided(value: &Value, sign: char, path: &mut String, found: &mut Vec<String>) {
    match value {
        Value::Object(map) if (1..=MAX_UNFOLDED).contains(&map.len()) => {
            for (key, value) in map {
                step(path, key, '.', |path| one_sided(value, sign, path, found));
            }
        }
        _ => found.push(format!("{path}: {sign} {}", short(value))),
    }
}

/// Runs something one step further down.
fn step(path: &mut String, key: &str, separator: char, then: impl FnOnce(&mut String)) {
    let length = path.len();
    if !path.is_empty() {
        path.push(separator);
    }
    path.push_str(key);
    then(path);
    path.truncate(length);
}

/// Counts for nested values, and one line for texts of several.
fn short(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.replace(['\n', '\r'], " "),
        Value::Object(map) => format!("{{{}}}", counted(map.len(), "field")),
        Value::Array(list) => format!("[{}]", counted(list.len(), "item")),
        other => other.to_string(),
    };
    if text.chars().count() <= MAX_VALUE {
        return text;
    }
    text.chars().take(MAX_VALUE - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_differs_is_named() {
        let before = json!({"metadata": {"resourceVersion": "1", "labels": {"a": "x"}}, "status": {"phase": "Pending", "old": 1}});
        let after = json!({"metadata": {"resourceVersion": "2", "labels": {"a": "x"}}, "status": {"phase": "Running", "ip": "10.0.0.1"}});
        assert_eq!(
            describe(&before, &after),
            "status.old: - 1, status.phase: Pending → Running, status.ip: + 10.0.0.1"
        );
    }

    /// The first change of an object that was listed used to name its kind as new.
    #[test]
    fn the_type_that_a_list_leaves_out_is_no_change() {
        let event = json!({"kind": "ConfigMap", "apiVersion": "v1", "data": {"kind": "new"}});
        assert_eq!(describe(&json!({"data": {}}), &event), "data.kind: + new");
    }

    /// The first label of an object used to be shown as `metadata.labels: + {1 fields}`.
    #[test]
    fn small_parts_that_come_or_go_are_named_by_their_fields() {
        let before = json!({"metadata": {"name": "a"}, "spec": {"ports": [1]}});
        let after = json!({"metadata": {"name": "a", "labels": {"app": "web"}}, "spec": {"ports": [1, 2]}});
        assert_eq!(describe(&before, &after), "metadata.labels.app: + web, spec.ports: [1 item] → [2 items]");
        assert_eq!(describe(&after, &before), "metadata.labels.app: - web, spec.ports: [2 items] → [1 item]");
    }

    #[test]
    fn a_line_stays_short() {
        let after: Value = (0..20)
            .map(|i| (format!("k{i}"), json!("v".repeat(100))))
            .collect::<serde_json::Map<_, _>>()
            .into();
        let line = describe(&json!({}), &after);
        assert!(line.ends_with(" and 14 more") && line.chars().count() < 400, "{line}");
    }
}
