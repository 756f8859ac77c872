//! Approval of definitions in the groups of the Kubernetes community (`*.k8s.io`, `*.kubernetes.io`).
//!
//! Such a definition names its review in an annotation, or says there that it has none. The condition
//! `KubernetesAPIApprovalPolicyConformant` repeats it.

use listwatch_wire::json::Value;
use listwatch_wire::status::FieldError;

use super::{set_condition, text};

const ANNOTATION: &str = "api-approved.kubernetes.io";
const CONDITION: &str = "KubernetesAPIApprovalPolicyConformant";
const MISSING: &str = "protected groups must have approval annotation \"api-approved.kubernetes.io\", see https://github.com/kubernetes/enhancements/pull/1111";
const INVALID: &str = "protected groups must have approval annotation \"api-approved.kubernetes.io\" with either a URL or a reason starting with \"unapproved\", see https://github.com/kubernetes/enhancements/pull/1111";

/// The meanings of the annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Approval {
    Missing,
    Bypassed,
    Approved,
    Invalid,
}

/// Returns the error of a definition whose annotation is missing or wrong. One that was so before may stay so.
pub(super) fn approval_error(object: &Value, old: Option<&Value>) -> Option<FieldError> {
    let approval = approval(object);
    if !is_protected(object) || old.is_some_and(|old| self::approval(old) == approval) {
        return None;
    }
    let field = format!("metadata.annotations[{ANNOTATION}]");
    match approval {
        Approval::Missing => Some(FieldError::required(field, MISSING)),
        Approval::Invalid => Some(FieldError::invalid(field, annotation(object), INVALID)),
        Approval::Bypassed | Approval::Approved => None,
    }
}

/// Sets the condition of a definition in a protected group; others have none.
pub fn set_approval_condition(object: &mut Value, now: &str) {
    if !is_protected(object) {
        return;
    }
    let said = annotation(object).to_owned();
    let (reason, message) = match approval(object) {
        Approval::Missing => ("MissingAnnotation", MISSING.to_owned()),
        Approval::Invalid => ("InvalidAnnotation", INVALID.to_owned()),
        Approval::Bypassed => ("UnapprovedAnnotation", format!("not approved: {said:?}")),
        Approval::Approved => ("ApprovedAnnotation", format!("approved in {said}")),
    };
    set_condition(object, CONDITION, reason == "ApprovedAnnotation", (reason, &message), now);
}

fn is_protected(object: &Value) -> bool {
    let group = object.pointer("/spec/group").and_then(Value::as_str).unwrap_or_default();
    ["k8s.io", "kubernetes.io"].iter().any(|own| group == *own || group.ends_with(&format!(".{own}")))
}

fn annotation(object: &Value) -> &str {
    let annotations = object.pointer("/metadata/annotations");
    annotations.and_then(|annotations| text(annotations, ANNOTATION)).unwrap_or_default()
}

fn approval(object: &Value) -> Approval {
    match annotation(object) {
        "" => Approval::Missing,
        said if said.starts_with("unapproved") => Approval::Bypassed,
        said if has_scheme_and_host(said) => Approval::Approved,
        _ => Approval::Invalid,
    }
}

/// A coarse test for a URL: a full parser would only refuse what nobody writes.
fn has_scheme_and_host(said: &str) -> bool {
    let parts = said.split_once("://");
    parts.is_some_and(|(scheme, rest)| !scheme.is_empty() && !rest.is_empty() && !rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    fn definition(group: &str, said: &str) -> Value {
        json!({"metadata": {"annotations": {ANNOTATION: said}}, "spec": {"group": group}})
    }

    #[test]
    fn the_communitys_groups_need_approval() {
        assert!(approval_error(&definition("example.test", ""), None).is_none());
        for (said, refused) in
            [("", true), ("unapproved, a test", false), ("https:///x", true), ("yes", true)]
        {
            assert_eq!(approval_error(&definition("foo.k8s.io", said), None).is_some(), refused, "{said}");
        }
    }

    /// The annotation could be removed from a definition, since it was checked on create only.
    #[test]
    fn an_approval_stays() {
        let [none, approved] = ["", "https://github.com/kubernetes/enhancements/pull/1111"]
            .map(|said| definition("k8s.io", said));
        assert!(approval_error(&none, Some(&approved)).is_some());
        assert!(approval_error(&none, Some(&none)).is_none());
        assert!(approval_error(&approved, Some(&none)).is_none());
    }

    #[test]
    fn the_condition_repeats_the_annotation() {
        for (said, status, message) in [
            ("https://example.test/1", "True", "approved in https://example.test/1"),
            ("unapproved, a test", "False", "not approved: \"unapproved, a test\""),
            ("", "False", MISSING),
        ] {
            let mut object = definition("foo.kubernetes.io", said);
            set_approval_condition(&mut object, "1");
            let condition = &object["status"]["conditions"][0];
            assert_eq!((&condition["status"], &condition["message"]), (&json!(status), &json!(message)));
        }
        let mut object = definition("example.test", "");
        set_approval_condition(&mut object, "1");
        assert_eq!(object, definition("example.test", ""));
    }
}
