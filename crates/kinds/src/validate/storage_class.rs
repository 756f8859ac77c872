//! Validation of StorageClasses, CSIDrivers, CSINodes and VolumeAttachments.
//!
//! Parameters are passed to drivers unread, so only their number and size are bounded. Of a driver on a CSINode only
//! `allocatable` may change, because the kubelet registers it once. Claims and volumes are in `storage`.

use std::collections::{HashMap, HashSet};

use listwatch_wire::json::Value;

use crate::field::Errors;
use crate::rules::{At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] =
    checks![drivers_stay_the_same, parameters_are_small, topologies_are_unique];

/// Bytes of all parameters of a class together.
const MAX_PARAMETERS: usize = 256 * 1024;
/// The number of parameters of a class, as in kube-apiserver.
const MAX_PARAMETER_COUNT: usize = 512;

/// Bounds the number and the size of parameters, which kube-apiserver does to keep them out of larger uses.
fn parameters_are_small(at: &At<'_>, errors: &mut Errors) {
    let mut size = 0;
    for (key, value) in at.value.as_object().into_iter().flatten() {
        if key.is_empty() {
            errors.invalid(at.path, "", "field can not be empty.");
        }
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if at.value.as_object().is_some_and(|all| all.len() > MAX_PARAMETER_COUNT) {
        errors.too_long(at.path, MAX_PARAMETER_COUNT);
    }
    if size > MAX_PARAMETERS {
        errors.too_long(at.path, MAX_PARAMETERS);
    }
}

/// Compared as text, which is canonical after the type check. A term without expressions counts as a repetition.
fn topologies_are_unique(at: &At<'_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for (index, term) in at.value.as_array().into_iter().flatten().enumerate() {
        if term.count("matchLabelExpressions") == 0
            || !seen.insert(term.at("matchLabelExpressions").to_string())
        {
            errors.duplicate(&at.path.index(index).child("matchLabelExpressions"), "");
        }
    }
}

/// For a driver that a node has, only the number of volumes may change.
fn drivers_stay_the_same(at: &At<'_>, errors: &mut Errors) {
    let listed = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let identity = |driver: &Value| {
        let mut driver = driver.clone();
        driver.drop_field("allocatable");
        if driver.count("topologyKeys") == 0 {
            driver.drop_field("topologyKeys");
        }
        driver
    };
    let old = at.old.map(listed).unwrap_or_default();
    let old: HashMap<&str, &Value> = old.iter().map(|driver| (driver.text("name"), driver)).collect();
    for new in listed(at.value) {
        let before = old.get(new.text("name")).copied().map(identity);
        if before.is_some_and(|before| before != identity(&new)) {
            errors.invalid(at.path, new, "field is immutable");
        }
    }
}
