//! Validation of Jobs: generated selectors, changes of the template, and the Pods that the status counts.
//!
//! A Job's Pods are found by a selector that the server generates, unless `manualSelector` is set; these checks reject
//! other values in its place, because a selector that matches Pods of another Job would make two Jobs fight over them.
//! Index lists are in `job_indexes`.

use std::collections::HashSet;

use listwatch_wire::json::{Value, json};
use listwatch_wire::names::label_errors;

use super::freeze::set_back;
use crate::field::Errors;
use crate::rules::{At, Check};
use crate::selector;
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] =
    checks![indexed_name_fits, selector_was_generated, job_template_changes_little, pods_are_counted_once];

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
            match given.has(key) {
                true => errors.invalid(&template.key(key), given.at(key).clone(), "must be the Job's own"),
                false => errors.required(&template.key(key), ""),
            }
        }
    }
    if selector::is_usable(chosen) && !selector::matches(chosen, &labels) {
        errors.invalid(&path.child("selector"), chosen.clone(), "`selector` not auto-generated");
    }
}

/// The Pods of an indexed Job are named after it and their index.
/// The last index is the longest, so it is the one that is tried.
fn indexed_name_fits(at: &At<'_>, errors: &mut Errors) {
    let (spec, name) = (at.value.at("spec"), at.value.at("metadata").text("name"));
    let Some(last) = spec.int("completions").filter(|count| *count > 0) else { return };
    let pod = format!("{name}-{}", last - 1);
    if spec.text("completionMode") == "Indexed" && !label_errors(&pod).is_empty() {
        let detail = format!("will not able to create pod with invalid DNS label: {pod}");
        errors.invalid(&at.path.child("metadata.name"), name, detail);
    }
}

/// Each Pod is counted once, whatever became of it.
fn pods_are_counted_once(at: &At<'_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for key in ["succeeded", "failed"] {
        let path = at.path.child(key);
        for (index, uid) in at.value.list(key).iter().filter_map(Value::as_str).enumerate() {
            if uid.is_empty() {
                errors.invalid(&path.index(index), uid, "must not be empty");
            } else if !seen.insert(uid) {
                errors.duplicate(&path.index(index), uid);
            }
        }
    }
}

/// Where the Pods of a template run, and what they use.
const MOVABLE: [&str; 8] = [
    "metadata.labels",
    "metadata.annotations",
    "spec.nodeSelector",
    "spec.tolerations",
    "spec.schedulingGates",
    "spec.affinity.nodeAffinity",
    "spec.containers[].resources",
    "spec.initContainers[].resources",
];

/// A Job that is suspended and has not started may still change where its Pods run and what they ask for: queueing
/// systems place it at that moment. Everything else of the template is immutable.
fn job_template_changes_little(at: &At<'_>, errors: &mut Errors) {
    let Some(old) = at.old else { return };
    let path = at.path.child("spec");
    let (now, before) = (at.value.at("spec"), old.at("spec"));
    let template = path.child("template");
    let movable = before.flag("suspend") && !old.at("status").has("startTime");
    let free: &[&str] = if movable { &MOVABLE } else { &[] };
    if set_back(now.at("template"), before.at("template"), free) == *before.at("template") {
        return;
    }
    if movable {
        errors.invalid(&template.child("spec"), now.below("template.spec").clone(), "field is immutable");
    } else {
        errors.invalid(&template, now.at("template").clone(), "field is immutable");
    }
}
