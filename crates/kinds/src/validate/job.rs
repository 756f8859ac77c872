//! Validation of Jobs: generated selectors, and the Pods that the status counts.
//!
//! A Job's Pods are found by a selector that the server generates, unless `manualSelector` is set; these checks reject
//! other values in its place, because a selector that matches Pods of another Job would make two Jobs fight over them.
//! Index lists are in `job_indexes`.

use std::collections::HashSet;

use listwatch_wire::json::json;

use super::each;
use crate::field::Errors;
use crate::rules::{At, Check};
use crate::selector;
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] = checks![selector_was_generated, pods_are_counted_once];

/// A Job whose selector is not chosen by hand gets one that takes the Pods of this Job and no others.
fn selector_was_generated(at: &At<'_>, errors: &mut Errors) {
    let (spec, path) = (at.value.at("spec"), at.path.child("spec"));
    let (chosen, meta) = (spec.at("selector"), at.value.at("metadata"));
    let (uid, name) = (meta.text("uid"), meta.text("name"));
    let labels = json!({
        "controller-uid": uid, "job-name": name,
        "batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": name,
    });
    let template = path.child("template.metadata.labels");
    let given = spec.below("template.metadata.labels");
    for (key, expected) in labels.fields().into_iter().flatten() {
        if given.at(key) != expected {
            let detail = format!("must be '{}'", expected.as_str().unwrap_or_default());
            match given.has(key) {
                true => errors.invalid(&template.key(key), given.clone(), detail),
                false => errors.required(&template.key(key), detail),
            }
        }
    }
    if selector::is_usable(chosen) && !selector::matches(chosen, &labels) {
        errors.invalid(&path.child("selector"), chosen.clone(), "`selector` not auto-generated");
    }
}

/// Each Pod is counted in one of the figures only.
fn pods_are_counted_once(at: &At<'_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for key in ["succeeded", "failed"] {
        each(at.value, key, at.path, |uid, path| {
            let uid = uid.as_str().unwrap_or_default();
            if uid.is_empty() {
                errors.invalid(path, uid, "must not be empty");
            } else if !seen.insert(uid) {
                errors.duplicate(path, uid);
            }
        });
    }
}
