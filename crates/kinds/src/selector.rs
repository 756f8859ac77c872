//! `LabelSelector` structs inside objects (`matchLabels`, `matchExpressions`): which labels they match.
//!
//! They are not the text form of the query parameter, which is `listwatch_wire::selector`. Validity and matching are
//! apart: a stored selector that is not usable must still be handled, and matches nothing it cannot evaluate. Field errors about
//! selectors are rows of the tables in `rules`. [`matches()`] is public because the server evaluates selectors of policies and
//! disruption budgets with it.

use listwatch_wire::json::Value;
use listwatch_wire::names::{label_key_errors, label_value_errors};

use crate::tree::Tree;

/// Returns true if a `LabelSelector` matches the labels; the empty one matches all.
///
/// Proportional to the terms. Labels are looked up by name in the object's map.
///
/// ```
/// use listwatch_kinds::validate::selector_matches as matches;
/// use listwatch_wire::json::json;
///
/// let selector = json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "api"]}]});
/// assert!(matches(&selector, &json!({"app": "web"})));
/// assert!(!matches(&selector, &json!({"tier": "web"})));
/// assert!(matches(&json!({}), &json!({"app": "web"})));
/// ```
#[must_use]
pub fn matches(selector: &Value, labels: &Value) -> bool {
    selector.entries("matchLabels").all(|(key, value)| labels.at(key) == value)
        && selector.list("matchExpressions").iter().all(|term| expression_matches(term, labels))
}

/// An unknown operator matches nothing, so a damaged selector takes no objects rather than all.
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

/// True if the selector can be evaluated at all. No selector is one that takes nothing.
pub(crate) fn is_usable(selector: &Value) -> bool {
    let mut labels = selector.entries("matchLabels");
    let well_formed =
        |key: &str, value: &str| label_key_errors(key).is_empty() && label_value_errors(value).is_empty();
    let mut terms = selector.list("matchExpressions").iter();
    labels.all(|(key, value)| well_formed(key, value.as_str().unwrap_or_default()))
        && terms.all(|term| match term.text("operator") {
            "In" | "NotIn" => {
                let mut values = term.list("values").iter().filter_map(Value::as_str);
                term.count("values") > 0 && values.all(|value| well_formed(term.text("key"), value))
            }
            "Exists" | "DoesNotExist" => {
                term.count("values") == 0 && label_key_errors(term.text("key")).is_empty()
            }
            _ => false,
        })
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
