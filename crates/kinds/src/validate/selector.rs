//! Label selectors inside objects: well-formed, and whether they take a set of labels.

use listwatch_wire::json::Value;
use listwatch_wire::names::{label_key_errors, label_value_errors};

use crate::field::{Errors, Path};
use crate::tree::Tree;

/// Whether a `LabelSelector` takes the labels; the empty one takes all.
#[must_use]
pub fn matches(selector: &Value, labels: &Value) -> bool {
    selector.entries("matchLabels").all(|(key, value)| labels.at(key) == value)
        && selector.list("matchExpressions").iter().all(|term| expression_matches(term, labels))
}

fn expression_matches(term: &Value, labels: &Value) -> bool {
    let label = labels.at(term.text("key"));
    let listed = term.list("values").contains(label);
    match term.text("operator") {
        "In" => !label.is_null() && listed,
        "NotIn" => label.is_null() || !listed,
        "Exists" => !label.is_null(),
        "DoesNotExist" => label.is_null(),
        _ => false,
    }
}

/// Whether nothing is asked for.
pub(super) fn is_empty(selector: &Value) -> bool {
    selector.count("matchLabels") == 0 && selector.count("matchExpressions") == 0
}

/// Whether it can be asked at all. No selector is one that takes nothing.
pub(super) fn is_usable(selector: &Value) -> bool {
    let mut terms = selector.list("matchExpressions").iter();
    terms.all(|term| match term.text("operator") {
        "In" | "NotIn" => term.count("values") > 0,
        "Exists" | "DoesNotExist" => term.count("values") == 0,
        _ => false,
    })
}

pub(super) fn check(selector: &Value, path: &Path<'_>, errors: &mut Errors) {
    check_labels(selector.at("matchLabels"), &path.child("matchLabels"), errors);
    let expressions = path.child("matchExpressions");
    for (index, term) in selector.list("matchExpressions").iter().enumerate() {
        expression(term, &expressions.index(index), errors);
    }
}

pub(super) fn check_labels(labels: &Value, path: &Path<'_>, errors: &mut Errors) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        errors.invalid_all(path, key, label_key_errors(key));
        let value = value.as_str().unwrap_or_default();
        errors.invalid_all(path, value, label_value_errors(value));
    }
}

fn expression(term: &Value, path: &Path<'_>, errors: &mut Errors) {
    let values = term.count("values");
    match term.text("operator") {
        "In" | "NotIn" if values == 0 => {
            errors.required(&path.child("values"), "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if values > 0 => {
            errors.forbidden(
                &path.child("values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            );
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => errors.invalid(&path.child("operator"), other, "not a valid selector operator"),
    }
    let key = term.text("key");
    errors.invalid_all(&path.child("key"), key, label_key_errors(key));
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    #[test]
    fn selectors_take_labels() {
        let labels = json!({"app": "d", "tier": "x"});
        for (selector, expected) in [
            (json!({}), true),
            (json!({"matchLabels": {"app": "d"}}), true),
            (json!({"matchLabels": {"app": "e"}}), false),
            (json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["c", "d"]}]}), true),
            (json!({"matchExpressions": [{"key": "none", "operator": "In", "values": ["d"]}]}), false),
            (json!({"matchExpressions": [{"key": "none", "operator": "NotIn", "values": ["d"]}]}), true),
            (json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]}), true),
            (json!({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}), false),
        ] {
            assert_eq!(matches(&selector, &labels), expected, "{selector}");
        }
    }
}
