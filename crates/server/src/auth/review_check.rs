//! Validation of access reviews: exactly one kind of attributes, a user or group, and no metadata.
//!
//! All errors of a review are reported together, in the order of kube-apiserver. Token reviews and rules reviews have no fields
//! that could contradict each other.

use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::{Value, json};
use listwatch_wire::names::{label_key_errors, label_value_errors};
use listwatch_wire::status::FieldError;

use crate::auth::review::AUTHORIZATION;

/// Checks a review of access.
///
/// # Errors
/// 422 with all errors.
pub(super) fn check(plural: &str, namespace: Option<&str>, review: &Value) -> Result<(), Status> {
    let (spec, metadata) = (review.at("spec"), review.at("metadata"));
    let mut errors = match plural {
        "selfsubjectaccessreviews" | "subjectaccessreviews" | "localsubjectaccessreviews" => one_thing(spec),
        _ => return Ok(()),
    };
    if plural != "selfsubjectaccessreviews" {
        errors.extend(subject_error(spec));
    }
    selector_errors(spec.at("resourceAttributes"), &mut errors);
    match plural {
        "localsubjectaccessreviews" => {
            let detail = "must be empty except for namespace";
            errors.extend(unnamed(metadata, &["managedFields", "namespace"], detail));
            errors.extend(local_errors(spec, namespace.unwrap_or_default()));
        }
        _ => errors.extend(unnamed(metadata, &["managedFields"], "must be empty")),
    }
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid(AUTHORIZATION, "", "", &errors)) }
}

/// A review is about a resource or about a path, never both.
fn one_thing(spec: &Value) -> Vec<FieldError> {
    let path = spec.at("nonResourceAttributes");
    let (resource, paths) = (spec.has("resourceAttributes"), spec.has("nonResourceAttributes"));
    if resource != paths {
        return Vec::new();
    }
    let asked = if paths { shown(path) } else { Value::Null };
    let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
    vec![FieldError::invalid("spec", asked, detail)]
}

fn subject_error(spec: &Value) -> Option<FieldError> {
    let nobody = spec.text("user").is_empty() && spec.count("groups") == 0;
    nobody.then(|| FieldError::invalid("spec.user", "", "at least one of user or group must be specified"))
}

/// A selector is written in one of two ways. Operators of the future are accepted.
fn selector_errors(attributes: &Value, errors: &mut Vec<FieldError>) {
    for key in ["fieldSelector", "labelSelector"].into_iter().filter(|key| attributes.has(key)) {
        let (selector, path) = (attributes.at(key), format!("spec.resourceAttributes.{key}"));
        let (raw, listed) = (selector.text("rawSelector"), selector.count("requirements") > 0);
        if !raw.is_empty() && listed {
            let detail = "may not specified at the same time as requirements";
            errors.push(FieldError::invalid(format!("{path}.rawSelector"), raw, detail));
        }
        if raw.is_empty() && !listed {
            let detail = format!("when {path} is specified, requirements or rawSelector is required");
            errors.push(FieldError::required(format!("{path}.requirements"), detail));
        }
        for (index, requirement) in selector.list("requirements").iter().enumerate() {
            let path = format!("{path}.requirements[{index}]");
            requirement_errors(requirement, key == "labelSelector", &path, errors);
        }
    }
}

/// Keys of labels have a form, and so have their values; fields have any.
fn requirement_errors(requirement: &Value, is_label: bool, path: &str, errors: &mut Vec<FieldError>) {
    let (name, values) = (requirement.text("key"), requirement.list("values"));
    if !is_label && name.is_empty() {
        errors.push(FieldError::required(format!("{path}.key"), "must be specified"));
    }
    match requirement.text("operator") {
        "In" | "NotIn" if values.is_empty() => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(FieldError::required(format!("{path}.values"), detail));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(format!("{path}.values"), detail));
        }
        _ => {}
    }
    if !is_label {
        return;
    }
    let wrong = label_key_errors(name).into_iter();
    errors.extend(wrong.map(|why| FieldError::invalid(format!("{path}.key"), name, why)));
    for (index, value) in values.iter().filter_map(Value::as_str).enumerate() {
        let wrong = label_value_errors(value).into_iter();
        errors.extend(wrong.map(|why| FieldError::invalid(format!("{path}.values[{index}]"), value, why)));
    }
}

/// An access review must not have metadata of a stored object.
fn unnamed(metadata: &Value, allowed: &[&str], detail: &str) -> Option<FieldError> {
    let other = metadata.as_object()?.keys().any(|key| !allowed.contains(&key.as_str()));
    other.then(|| FieldError::invalid("metadata", metadata.clone(), detail))
}

/// A LocalSubjectAccessReview is about its own namespace only.
fn local_errors(spec: &Value, namespace: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let asked = spec.at("resourceAttributes").text("namespace");
    if spec.has("resourceAttributes") && asked != namespace {
        let detail = "must match metadata.namespace";
        errors.push(FieldError::invalid("spec.resourceAttributes.namespace", asked, detail));
    }
    if spec.has("nonResourceAttributes") {
        let (path, detail) = (spec.at("nonResourceAttributes"), "disallowed on this kind of request");
        errors.push(FieldError::invalid("spec.nonResourceAttributes", shown(path), detail));
    }
    errors
}

/// A path as the texts of kube-apiserver show it.
fn shown(path: &Value) -> Value {
    json!({"Path": path.text("path"), "Verb": path.text("verb")})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(plural: &str, review: Value) -> Vec<String> {
        let refused = check(plural, Some("n"), &review).err();
        let causes = refused.and_then(|status| status.details).map(|details| details.causes);
        causes.into_iter().flatten().map(|cause| cause.field).collect()
    }

    /// The first error hid the others.
    #[test]
    fn all_errors_of_a_review_are_reported() {
        let named = json!({"metadata": {"name": "x"}, "spec": {}});
        assert_eq!(fields("subjectaccessreviews", named.clone()), ["spec", "spec.user", "metadata"]);
        assert_eq!(fields("selfsubjectaccessreviews", named), ["spec", "metadata"]);
        let both = json!({"spec": {"user": "u", "nonResourceAttributes": {}, "resourceAttributes": {}}});
        assert_eq!(
            fields("localsubjectaccessreviews", both),
            ["spec", "spec.resourceAttributes.namespace", "spec.nonResourceAttributes"]
        );
    }

    #[test]
    fn requirements_are_checked_by_their_operator() {
        let selector = |key: &str| {
            json!({"spec": {"user": "u", "resourceAttributes": {key: {"requirements": [
                {"key": "", "operator": "In"}, {"key": "k", "operator": "Exists", "values": ["v"]},
                {"key": "k", "operator": "New"},
            ]}}}})
        };
        let at = |key: &str, rest: &str| format!("spec.resourceAttributes.{key}.requirements{rest}");
        let wrong = fields("subjectaccessreviews", selector("fieldSelector"));
        assert_eq!(wrong, ["[0].key", "[0].values", "[1].values"].map(|rest| at("fieldSelector", rest)));
        let mut wrong = fields("subjectaccessreviews", selector("labelSelector"));
        wrong.dedup();
        assert_eq!(wrong, ["[0].values", "[0].key", "[1].values"].map(|rest| at("labelSelector", rest)));
    }
}
