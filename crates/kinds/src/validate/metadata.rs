//! Rules that belong to no kind alone.

use crate::field::Errors;
use crate::rules::{At, Check};

pub(super) const CHECKS: &[(&str, Check)] = checks![wildcard_is_alone, revision_is_an_object];

fn wildcard_is_alone(at: &At<'_>, errors: &mut Errors) {
    let items = at.value.as_array().map(Vec::as_slice).unwrap_or_default();
    if items.len() > 1 && items.iter().any(|item| item == "*") {
        let what = at.path.to_string();
        let what = match what.rsplit('.').next().unwrap_or_default() {
            "apiGroups" => "API groups",
            "apiVersions" => "API versions",
            other => other,
        };
        let detail = format!("if '*' is present, must not specify other {what}");
        errors.invalid(at.path, at.value.clone(), detail);
    }
}

/// Content of a revision is an object of any kind.
fn revision_is_an_object(at: &At<'_>, errors: &mut Errors) {
    if !at.value.is_null() && !at.value.is_object() {
        errors.required(at.path, "data must be a valid JSON object");
    }
}
