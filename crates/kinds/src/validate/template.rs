//! Validation of Pod templates and of the selectors that must match them.
//!
//! A workload whose selector does not match its own template would create Pods for ever without finding them, so
//! kube-apiserver refuses it. The kinds differ in details that are kept: an absent selector, an empty one and one that
//! cannot be evaluated lead to different errors in a Deployment, a DaemonSet and a Job. The Pod spec inside the
//! template is checked by the rows for Pods.

use listwatch_wire::json::{Value, json};

use super::selector;
use crate::field::{Errors, Path};
use crate::meta;
use crate::rules::{At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] = checks![
    template_metadata_is_valid,
    template_metadata_is_plain,
    template_labels_are_valid,
    template_matches_selector,
    daemon_template_matches_selector,
    controller_template_matches_selector,
    job_template_matches_selector
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

/// The error is about the labels of the template, not about the selector, which is immutable in most kinds.
fn labels_match(chosen: &Value, spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let labels = spec.path(&["template", "metadata", "labels"]);
    if !selector::matches(chosen, labels) {
        let path = path.child("template");
        let path = path.child("metadata");
        let detail = "`selector` does not match template `labels`";
        errors.invalid(&path.child("labels"), labels.clone(), detail);
    }
}

/// Pods of a workload are restarted for as long as it exists.
fn always_restarts(spec: &Value, path: &Path<'_>, kind: &str, errors: &mut Errors) {
    let (pod, path) = (spec.path(&["template", "spec"]), path.child("template"));
    let path = path.child("spec");
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
    if chosen.is_null() {
        let labels = at.value.path(&["template", "metadata", "labels"]).clone();
        let path = at.path.child("template");
        let path = path.child("metadata");
        errors.invalid(&path.child("labels"), labels, "`selector` does not match template `labels`");
    } else if !selector::is_usable(chosen) {
        errors.invalid(&at.path.child("selector"), chosen.clone(), "invalid label selector");
        return;
    } else if !selector::is_empty(chosen) {
        labels_match(chosen, at.value, at.path, errors);
    }
    always_restarts(at.value, at.path, "ReplicaSet", errors);
}

/// An absent selector is compared as one that matches nothing; one that cannot be evaluated has been reported by its
/// rows.
fn daemon_template_matches_selector(at: &At<'_>, errors: &mut Errors) {
    let chosen = at.value.at("selector");
    if chosen.is_null() || selector::is_usable(chosen) {
        let nothing = json!({"matchExpressions": [{}]});
        labels_match(if chosen.is_null() { &nothing } else { chosen }, at.value, at.path, errors);
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
