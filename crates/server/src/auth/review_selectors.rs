//! The selectors of an access review. Requirements that cannot be understood are left out, which makes the question broader, and
//! the response says so.
//!
//! Their form is checked before ([`super::review_check`]); [`super::review`] asks the question.

use listwatch_kinds::tree::Tree;
use listwatch_wire::json::Value;
use listwatch_wire::selector::{FieldSelector, FieldTerm, LabelSelector};

/// The selectors of a review, as far as they could be parsed.
#[derive(Debug, Default)]
pub(super) struct ReviewSelectors {
    /// The field selector; `None` if nothing of it was understood. Label selectors narrow no permission here.
    pub(super) fields: Option<FieldSelector>,
    /// The `evaluationError` of the response; empty if everything was understood.
    pub(super) error: String,
}

impl ReviewSelectors {
    /// Reads the selectors of `spec.resourceAttributes`.
    pub(super) fn read(asked: &Value) -> Self {
        let (fields, wrong_fields) = field_selector(asked.at("fieldSelector"));
        let labels = label_problem(asked.at("labelSelector"));
        let told = |name: &str, problem| match problem {
            Ignored::Nothing => None,
            Ignored::Some => {
                Some(format!("spec.resourceAttributes.{name} partially ignored due to parse error"))
            }
            Ignored::All => Some(format!("spec.resourceAttributes.{name} ignored due to parse error")),
        };
        let errors = [told("fieldSelector", wrong_fields), told("labelSelector", labels)];
        Self { fields, error: errors.into_iter().flatten().collect::<Vec<_>>().join("; ") }
    }
}

/// The part of a selector that was not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ignored {
    Nothing,
    Some,
    All,
}

impl Ignored {
    /// The requirements that were understood, of so many.
    fn of(all: usize, understood: usize) -> Self {
        match understood {
            _ if understood == all => Self::Nothing,
            0 => Self::All,
            _ => Self::Some,
        }
    }
}

/// Parses a field selector: its raw text if there is one, else its requirements. Those that cannot be parsed are ignored,
/// which widens the question and never the permission.
fn field_selector(asked: &Value) -> (Option<FieldSelector>, Ignored) {
    let raw = asked.text("rawSelector");
    if !raw.is_empty() {
        let parsed: Option<FieldSelector> = raw.parse().ok();
        let ignored = if parsed.is_some() { Ignored::Nothing } else { Ignored::All };
        return (parsed, ignored);
    }
    let requirements = asked.list("requirements");
    let terms: Vec<FieldTerm> = requirements.iter().filter_map(field_term).collect();
    let ignored = Ignored::of(requirements.len(), terms.len());
    (Some(FieldSelector::new(terms)).filter(|selector| !selector.is_empty()), ignored)
}

/// Fields are compared with one value; other operators are not supported yet, as in kube-apiserver.
fn field_term(requirement: &Value) -> Option<FieldTerm> {
    let negated = match requirement.text("operator") {
        "In" => false,
        "NotIn" => true,
        _ => return None,
    };
    let [value] = requirement.list("values") else { return None };
    Some(FieldTerm { field: requirement.text("key").to_owned(), value: value.as_str()?.to_owned(), negated })
}

/// The part of a label selector that is ignored, because its raw text or an operator is unknown.
fn label_problem(asked: &Value) -> Ignored {
    let raw = asked.text("rawSelector");
    if !raw.is_empty() {
        return if raw.parse::<LabelSelector>().is_ok() { Ignored::Nothing } else { Ignored::All };
    }
    let is_known = |requirement: &&Value| {
        matches!(requirement.text("operator"), "In" | "NotIn" | "Exists" | "DoesNotExist")
    };
    let requirements = asked.list("requirements");
    Ignored::of(requirements.len(), requirements.iter().filter(is_known).count())
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    fn error(asked: Value) -> String {
        ReviewSelectors::read(&asked).error
    }

    #[test]
    fn what_is_not_understood_is_named() {
        let odd = json!({"key": "a", "operator": "Odd"});
        let one = |name: &str| json!({name: {"requirements": [odd.clone()]}});
        assert_eq!(
            error(one("labelSelector")),
            "spec.resourceAttributes.labelSelector ignored due to parse error"
        );
        assert_eq!(
            error(one("fieldSelector")),
            "spec.resourceAttributes.fieldSelector ignored due to parse error"
        );
        assert_eq!(
            error(json!({"labelSelector": {"requirements": [odd, {"key": "a", "operator": "Exists"}]}})),
            "spec.resourceAttributes.labelSelector partially ignored due to parse error"
        );
        assert_eq!(
            error(json!({"fieldSelector": {"rawSelector": "x"}, "labelSelector": {"rawSelector": "=x"}})),
            "spec.resourceAttributes.fieldSelector ignored due to parse error; spec.resourceAttributes.labelSelector ignored due to parse error"
        );
    }

    #[test]
    fn what_is_understood_narrows_the_question() {
        let asked = json!({"fieldSelector": {"requirements": [
            {"key": "spec.nodeName", "operator": "In", "values": ["n"]}, {"key": "a", "operator": "NotIn", "values": ["b"]},
        ]}, "labelSelector": {"rawSelector": "a in (b)"}});
        let read = ReviewSelectors::read(&asked);
        assert_eq!(read.error, "");
        assert_eq!(read.fields.map(|fields| fields.to_string()).as_deref(), Some("spec.nodeName=n,a!=b"));
    }
}
