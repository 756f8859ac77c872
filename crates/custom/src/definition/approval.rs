//! The approval of definitions in groups of the Kubernetes community (`*.k8s.io`, `*.kubernetes.io`).
//!
//! An annotation has the URL of the approval, or the reason why there is none. A new definition must have it; the
//! condition `KubernetesAPIApprovalPolicyConformant` shows it, also of definitions whose annotation was removed later.

use listwatch_wire::json::Value;
use listwatch_wire::status::FieldError;

use super::text;

const ANNOTATION: &str = "api-approved.kubernetes.io";
const MISSING: &str = "protected groups must have approval annotation \"api-approved.kubernetes.io\", see https://github.com/kubernetes/enhancements/pull/1111";
const INVALID: &str = "protected groups must have approval annotation \"api-approved.kubernetes.io\" with either a URL or a reason starting with \"unapproved\", see https://github.com/kubernetes/enhancements/pull/1111";

/// Returns the error of a new definition without a usable approval.
///
/// Checked on create only, so that the groups of stored definitions stay usable.
pub(super) fn error(object: &Value) -> Option<FieldError> {
    let field = format!("metadata.annotations[{ANNOTATION}]");
    match Approval::of(object)? {
        Approval::Missing => Some(FieldError::required(field, MISSING)),
        Approval::Invalid(said) => Some(FieldError::invalid(field, said, INVALID)),
        Approval::Approved(_) | Approval::Bypassed(_) => None,
    }
}

/// Returns the condition `KubernetesAPIApprovalPolicyConformant` of a definition in a protected group: its status,
/// reason and message.
#[must_use]
#[doc(alias = "KubernetesAPIApprovalPolicyConformantConditionController")]
pub fn approval_condition(object: &Value) -> Option<(bool, &'static str, String)> {
    Some(match Approval::of(object)? {
        Approval::Missing => (false, "MissingAnnotation", MISSING.to_owned()),
        Approval::Invalid(_) => (false, "InvalidAnnotation", INVALID.to_owned()),
        Approval::Approved(url) => (true, "ApprovedAnnotation", format!("approved in {url}")),
        Approval::Bypassed(why) => (false, "UnapprovedAnnotation", format!("not approved: {why:?}")),
    })
}

/// The approval that the annotation of a definition in a protected group states.
enum Approval<'a> {
    Missing,
    Invalid(&'a str),
    Approved(&'a str),
    Bypassed(&'a str),
}

impl<'a> Approval<'a> {
    /// Returns `None` for a group that is not protected.
    fn of(object: &'a Value) -> Option<Self> {
        let group = object.pointer("/spec/group").and_then(Value::as_str)?;
        let within =
            |own: &str| group.strip_suffix(own).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
        if !within("k8s.io") && !within("kubernetes.io") {
            return None;
        }
        let annotations = object.pointer("/metadata/annotations");
        let said = annotations.and_then(|annotations| text(annotations, ANNOTATION)).unwrap_or_default();
        Some(match said {
            "" => Self::Missing,
            why if why.starts_with("unapproved") => Self::Bypassed(why),
            url if has_host(url) => Self::Approved(url),
            other => Self::Invalid(other),
        })
    }
}

/// Returns true for a URL with a scheme and a host.
fn has_host(url: &str) -> bool {
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    };
    url.split_once("://").is_some_and(|(scheme, rest)| {
        is_scheme(scheme) && !rest.is_empty() && !rest.starts_with(['/', '?', '#'])
    })
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    fn object(group: &str, said: &str) -> Value {
        json!({"metadata": {"annotations": {ANNOTATION: said}}, "spec": {"group": group}})
    }

    #[test]
    fn the_communitys_groups_need_approval() {
        for (group, said, refused, condition) in [
            ("example.test", "", false, None),
            ("notk8s.io", "", false, None),
            ("k8s.io", "", true, Some((false, "MissingAnnotation"))),
            ("foo.k8s.io", "unapproved, a test", false, Some((false, "UnapprovedAnnotation"))),
            ("foo.kubernetes.io", "https://example.test/1", false, Some((true, "ApprovedAnnotation"))),
            ("foo.k8s.io", "https:///1", true, Some((false, "InvalidAnnotation"))),
            ("foo.k8s.io", "perhaps", true, Some((false, "InvalidAnnotation"))),
        ] {
            let object = object(group, said);
            assert_eq!(error(&object).is_some(), refused, "{group} {said}");
            let found = approval_condition(&object).map(|(holds, reason, _)| (holds, reason));
            assert_eq!(found, condition, "{group} {said}");
        }
        let message = approval_condition(&object("foo.k8s.io", "unapproved, a test")).unwrap().2;
        assert_eq!(message, "not approved: \"unapproved, a test\"");
    }
}
