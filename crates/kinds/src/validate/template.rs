//! Validation of the metadata of templates.
//!
//! A template has labels and annotations and no name. The Pod spec in it is checked by the rows for Pods; that a selector matches
//! the labels is a row of each workload (`selected-by`).

use crate::field::Errors;
use crate::meta;
use crate::rules::{At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] = checks![template_metadata_is_plain, template_labels_are_valid];

/// Labels and annotations. kube-apiserver reports those of a Pod template beside its metadata (`flat`).
fn template_labels_are_valid(at: &At<'_>, errors: &mut Errors) {
    meta::validate_labels(at.value, &at.path.child("labels"), errors);
    meta::validate_annotations(at.value, &at.path.child("annotations"), errors);
}

/// A template of a claim has labels and annotations, and is given the rest.
fn template_metadata_is_plain(at: &At<'_>, errors: &mut Errors) {
    template_labels_are_valid(at, errors);
    for (key, _) in at.value.fields().into_iter().flatten() {
        if !matches!(key.as_str(), "labels" | "annotations" | "creationTimestamp") {
            errors.forbidden(&at.path.child(key), "cannot be set");
        }
    }
}
