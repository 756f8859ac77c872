//! Validation of Pod templates and of the selectors that must match them.
//!
//! A workload whose selector does not match its own template would create Pods for ever without finding them, so
//! kube-apiserver refuses it. The kinds differ in details that are kept: an absent selector, an empty one and one that
//! cannot be evaluated lead to different errors in a Deployment, a DaemonSet and a Job. The Pod spec inside the
//! template is checked by the rows for Pods.

use listwatch_wire::json::{Value, json};

use crate::field::{Errors, Path};
use crate::rules::{At, Check};
use crate::tree::Tree;
use crate::{meta, selector};

pub(super) const CHECKS: &[(&str, Check)] = checks![
    template_metadata_is_valid,
    template_metadata_is_plain,
    template_labels_are_valid,
    template_matches_selector,
    daemon_template_matches_selector,
    controller_template_matches_selector,
    job_template_matches_selector,
    revision_is_an_object,
    selector_is_usable
];

/// kube-apiserver reports labels and annotations of a template beside its metadata.
fn template_metadata_is_valid(at: &At<'_>, errors: &mut Errors) {
    let meta = at.value.at("metadata");
    meta::validate_labels(meta, &at.path.child("labels"), errors);
    meta::validate_annotations(meta, &at.path.child("annotations"), errors);
}

/// The same, reported where they are.
fn template_labels_are_valid(at: &At<'_>, errors: &mut Errors) {
    meta::validate_labels(at.value, &at.path.child("labels"), errors);
    meta::validate_annotations(at.value, &at.path.child("annotations"), errors);
}

/// A template of a claim has labels and annotations, and is given the rest.
fn template_metadata_is_plain(at: &At<'_>, errors: &mut Errors) {
    meta::validate_labels(at.value, &at.path.child("labels"), errors);
    for (key, _) in at.value.fields().into_iter().flatten() {
        if !matches!(key.as_str(), "labels" | "annotations" | "creationTimestamp") {
            errors.forbidden(&at.path.child(key), "cannot be set");
        }
    }
}

/// The error is about the labels of the template, not about the selector, which is immutable in most kinds. No selector matches
/// nothing, an empty one everything.
fn labels_match(chosen: &Value, spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let labels = spec.below("template.metadata.labels");
    if chosen.is_null() || !selector::matches(chosen, labels) {
        let detail = "`selector` does not match template `labels`";
        errors.invalid(&path.child("template.metadata.labels"), labels.clone(), detail);
    }
}

/// Pods of a workload are restarted for as long as it exists.
fn always_restarts(spec: &Value, path: &Path<'_>, kind: &str, errors: &mut Errors) {
    let (pod, path) = (spec.below("template.spec"), path.child("template.spec"));
    if pod.text("restartPolicy") != "Always" {
        errors.not_supported(&path.child("restartPolicy"), pod.text("restartPolicy"), &["Always"]);
    }
    if pod.has("activeDeadlineSeconds") {
        let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.forbidden(&path.child("activeDeadlineSeconds"), detail);
    }
}

/// Deployments, ReplicaSets and StatefulSets. A selector that cannot be evaluated takes nothing to be compared with.
fn template_matches_selector(at: &At<'_>, errors: &mut Errors) {
    let chosen = at.value.at("selector");
    if !selector::is_usable(chosen) {
        return errors.invalid(&at.path.child("selector"), chosen.clone(), "invalid label selector");
    }
    labels_match(chosen, at.value, at.path, errors);
    always_restarts(at.value, at.path, "ReplicaSet", errors);
}

/// A selector that cannot be evaluated has been reported by its rows.
fn daemon_template_matches_selector(at: &At<'_>, errors: &mut Errors) {
    let chosen = at.value.at("selector");
    if selector::is_usable(chosen) {
        labels_match(chosen, at.value, at.path, errors);
    }
    always_restarts(at.value, at.path, "DaemonSet", errors);
}

/// A ReplicationController has a plain map as its selector, and may have no template at all.
fn controller_template_matches_selector(at: &At<'_>, errors: &mut Errors) {
    if !at.value.has("template") {
        return;
    }
    if at.value.count("selector") > 0 {
        labels_match(&json!({"matchLabels": at.value.at("selector")}), at.value, at.path, errors);
    }
    always_restarts(at.value, at.path, "ReplicationController", errors);
}

/// Only after the selector was generated or chosen; `job` checks which.
fn job_template_matches_selector(at: &At<'_>, errors: &mut Errors) {
    let chosen = at.value.at("selector");
    if !chosen.is_null() && selector::is_usable(chosen) {
        labels_match(chosen, at.value, at.path, errors);
    }
}

/// A ControllerRevision holds an earlier template, as an object of any kind.
fn revision_is_an_object(at: &At<'_>, errors: &mut Errors) {
    if !at.value.is_null() && !at.value.is_object() {
        errors.required(at.path, "data must be a valid JSON object");
    }
}

/// Reported at the selector as a whole; the kinds with rows for its parts do not name this check.
fn selector_is_usable(at: &At<'_>, errors: &mut Errors) {
    if !selector::is_usable(at.value) {
        errors.invalid(at.path, at.value.clone(), "invalid label selector.");
    }
}
