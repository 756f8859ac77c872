//! Schemas inside `allOf`, `anyOf`, `oneOf` and `not`: they restrict values and describe nothing by themselves.
//!
//! They may not have the keywords of the structure itself, which [`super`] checks.

use listwatch_wire::json::{Value, json};
use listwatch_wire::status::{FieldError, FieldErrors};

use super::{anywhere, text};
use crate::schema::Pattern;

/// Keywords of the structure itself, which alternatives beside it may not have.
const STRUCTURE: [(&str, &str); 13] = [
    ("type", "empty"),
    ("additionalProperties", "undefined"),
    ("default", "undefined"),
    ("title", "empty"),
    ("description", "empty"),
    ("nullable", "false"),
    ("x-kubernetes-preserve-unknown-fields", "false"),
    ("x-kubernetes-embedded-resource", "false"),
    ("x-kubernetes-int-or-string", "false"),
    ("x-kubernetes-list-map-keys", "empty"),
    ("x-kubernetes-list-type", "undefined"),
    ("x-kubernetes-map-type", "undefined"),
    ("x-kubernetes-validations", "empty"),
];
/// Alternatives may restrict what the structure describes, and describe nothing by themselves.
///
/// `value` `describes` structure or is itself an alternative. Recursion follows the alternatives of alternatives; its depth is
/// bounded by that of the parsed JSON.
pub(super) fn check(
    value: &Value,
    structure: Option<(&Value, &str)>,
    describes: bool,
    path: &str,
    errors: &mut FieldErrors,
) {
    let either = json!([{"type": "integer"}, {"type": "string"}]);
    for key in ["allOf", "anyOf", "oneOf"] {
        let list = value.get(key).and_then(Value::as_array).into_iter().flatten();
        for (index, alternative) in list.enumerate() {
            // Two forms of "integer or string" that are older than `x-kubernetes-int-or-string`.
            let says_it_again = describes
                && match key {
                    "anyOf" => value.get("anyOf") == Some(&either),
                    "allOf" => index == 0 && alternative.get("anyOf") == Some(&either),
                    _ => false,
                };
            if !says_it_again {
                restriction(alternative, structure, &format!("{path}.{key}[{index}]"), errors);
            }
        }
    }
    if let Some(not) = value.get("not") {
        restriction(not, structure, &format!("{path}.not"), errors);
    }
}

/// Checks a schema inside `allOf`, `anyOf`, `oneOf` or `not`. It may restrict values but not define structure.
///
/// `structure` is the node that describes the same value and its path, for alternatives at the root: each field that those
/// name must be described. kube-apiserver asks that of no others.
fn restriction(value: &Value, structure: Option<(&Value, &str)>, path: &str, errors: &mut FieldErrors) {
    for (key, wanted) in STRUCTURE {
        if value.get(key).is_some_and(|said| !is_zero(said)) {
            let detail = format!("must be {wanted} to be structural");
            errors.push(FieldError::forbidden(format!("{path}.{key}"), detail));
        }
    }
    anywhere(value, path, errors);
    super::super::pattern(&Pattern::from(text(value, "pattern").to_owned()), path, errors);
    if !matches!(text(value, "type"), "" | "null") && !super::super::TYPES.contains(&text(value, "type")) {
        let found = text(value, "type");
        errors.push(FieldError::not_supported(format!("{path}.type"), found, &super::super::TYPES));
    }
    let mut below = |value: &Value, there: Option<&Value>, step: &str| {
        let path = format!("{path}{step}");
        match (structure, there) {
            (None, _) => restriction(value, None, &path, errors),
            (Some((_, at)), Some(there)) => {
                restriction(value, Some((there, &format!("{at}{step}"))), &path, errors);
            }
            (Some((_, at)), None) => {
                let detail = format!("because it is defined in {path}");
                errors.push(FieldError::required(format!("{at}{step}"), detail));
            }
        }
    };
    let structural = structure.map(|(structure, _)| structure);
    for (name, inner) in value.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let there = structural.and_then(|node| node.get("properties")?.get(name));
        below(inner, there, &format!(".properties[{name}]"));
    }
    if let Some(items) = value.get("items").filter(|items| items.is_object()) {
        below(items, structural.and_then(|node| node.get("items")), ".items");
    }
    check(value, structure, false, path, errors);
}

/// Returns true for values that a Go struct cannot distinguish from an absent field.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Bool(set) => !set,
        Value::Array(items) => items.is_empty(),
        Value::Null => true,
        _ => false,
    }
}
