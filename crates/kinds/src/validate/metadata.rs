//! Rules that belong to no kind alone.
//!
//! Rules of `metadata` itself are in [`crate::meta`]. What is here is named by rows of several kinds: the star in
//! lists of admission rules, and the contents of a ControllerRevision, which may be an object of any kind.

use crate::field::Errors;
use crate::rules::{At, Check};

pub(super) const CHECKS: &[(&str, Check)] = checks![wildcard_is_alone, revision_is_an_object];

/// The last step of the path is part of the message, so one function serves `operations`, `apiGroups` and others.
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
