//! Validation of PersistentVolumes and PersistentVolumeClaims.
//!
//! Most of it is about changes: a claim may be bound (`volumeName` filled in), given a class, and, once bound, grow; it
//! may only shrink to what is above its actual capacity, which is how a failed expansion is taken back. The source of a
//! volume is immutable. Binding and expansion are done by controllers; validation only keeps the fields consistent for
//! them.

use std::cmp::Ordering;

use listwatch_wire::json::{Text, Value};
use listwatch_wire::names::label_key_errors;

use super::checks;
use crate::field::{Errors, Path};
use crate::quantity;
use crate::rules::{At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] = checks![
    once_per_pod_is_alone,
    claim_asks_for_storage,
    data_sources_agree,
    default_group_has_claims,
    claim_changes_little,
    capacity_is_storage,
    affinity_has_required_terms,
    local_volume_has_affinity,
    root_is_not_recycled,
    volume_changes_little,
    claimed_resources_are_known,
    resize_statuses_are_known,
];

/// Sources that are looked at before local ones; only the first counts.
const SOURCES_BEFORE_LOCAL: [&str; 10] =
    ["hostPath", "nfs", "csi", "iscsi", "cinder", "fc", "azureFile", "azureDisk", "rbd", "glusterfs"];

fn once_per_pod_is_alone(at: &At<'_>, errors: &mut Errors) {
    let modes = at.value.as_array().map(Vec::as_slice).unwrap_or_default();
    if modes.len() > 1 && modes.iter().any(|mode| mode == "ReadWriteOncePod") {
        errors.forbidden(at.path, "may not use ReadWriteOncePod with other access modes");
    }
}

fn claim_asks_for_storage(at: &At<'_>, errors: &mut Errors) {
    let (storage, path) = (at.value.at("requests").text("storage"), at.path.key("storage"));
    if storage.is_empty() {
        errors.required(&path, "");
    } else if matches!(quantity::compare(storage, "0"), Ok(Ordering::Less | Ordering::Equal)) {
        errors.invalid(&path, storage, "must be greater than zero");
    }
}

fn data_sources_agree(at: &At<'_>, errors: &mut Errors) {
    let (source, reference) = (at.value.at("dataSource"), at.value.at("dataSourceRef"));
    if source.is_null() || reference.is_null() {
        return;
    }
    if !reference.text("namespace").is_empty() {
        let detail = "may not be specified when dataSourceRef.namespace is specified";
        errors.invalid(at.path, "dataSource", detail);
    } else if ["apiGroup", "kind", "name"].iter().any(|key| source.at(key) != reference.at(key)) {
        errors.invalid(at.path, "dataSource", "must match dataSourceRef");
    }
}

fn default_group_has_claims(at: &At<'_>, errors: &mut Errors) {
    let kind = at.value.text("kind");
    if at.value.text("apiGroup").is_empty() && kind != "PersistentVolumeClaim" {
        let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errors.invalid(at.path, kind, detail);
    }
}

/// The object's entries apart from some.
fn without<'a>(object: &'a Value, keys: &[&str]) -> Vec<(&'a Text, &'a Value)> {
    object.fields().into_iter().flatten().filter(|(key, _)| !keys.contains(&key.as_str())).collect()
}

fn claim_changes_little(at: &At<'_>, errors: &mut Errors) {
    const DETAIL: &str = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
    let Some(old) = at.old else { return };
    let (now, before) = (at.value.at("spec"), old.at("spec"));
    let bound = at.value.at("status").text("phase") == "Bound";
    let mut free = if bound { vec!["volumeAttributesClassName", "resources"] } else { Vec::new() };
    // A claim is bound by its volume name being filled in.
    if before.text("volumeName").is_empty() {
        free.push("volumeName");
    }
    // A class may still be found for a claim that was made before there was one.
    if !before.has("storageClassName") && now.has("storageClassName") {
        free.push("storageClassName");
    }
    let path = at.path.child("spec");
    if without(now, &free) != without(before, &free) {
        errors.forbidden(&path, DETAIL);
    }
    shrinking(at.value, old, &path, errors);
    volume_mode(at.value, old, errors);
}

fn shrinking(new: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    fn asked(claim: &Value) -> &str {
        claim.path(&["spec", "resources", "requests"]).text("storage")
    }
    let held = old.path(&["status", "capacity"]).text("storage");
    let held = if held.is_empty() { "0" } else { held };
    let wanted = if asked(new).is_empty() { "0" } else { asked(new) };
    let less = quantity::compare(wanted, asked(old)) == Ok(Ordering::Less);
    if less && matches!(quantity::compare(wanted, held), Ok(Ordering::Less | Ordering::Equal)) {
        let path = path.child("resources");
        let path = path.child("requests");
        errors.forbidden(&path.child("storage"), "field can not be less than status.capacity");
    }
}

/// kube-apiserver reports it without the spec.
fn volume_mode(new: &Value, old: &Value, errors: &mut Errors) {
    let (new, old) = (new.at("spec").at("volumeMode"), old.at("spec").at("volumeMode"));
    errors.immutable(&Path::root("volumeMode"), new, old);
}

/// A claim is about storage, or about what somebody else has a name for.
fn claimed_resources_are_known(at: &At<'_>, errors: &mut Errors) {
    for (name, _) in at.value.as_object().into_iter().flatten() {
        let found = label_key_errors(name);
        errors.invalid_all(at.path, name, found.clone());
        let plain = found.is_empty() && name != "storage" && !name.contains('/');
        let reserved = name.starts_with("kubernetes.io/") || name.contains(".kubernetes.io/");
        if plain || reserved {
            errors.not_supported(at.path, name, &["storage"]);
        }
    }
}

fn resize_statuses_are_known(at: &At<'_>, errors: &mut Errors) {
    const KNOWN: [&str; 5] = [
        "ControllerResizeInProgress",
        "ControllerResizeInfeasible",
        "NodeResizePending",
        "NodeResizeInProgress",
        "NodeResizeInfeasible",
    ];
    for (name, status) in at.value.as_object().into_iter().flatten() {
        if !KNOWN.iter().any(|known| status == known) {
            errors.not_supported(at.path, name, &KNOWN);
        }
    }
}

/// A volume has room, and nothing else to give.
fn capacity_is_storage(at: &At<'_>, errors: &mut Errors) {
    if !at.value.has("storage") || at.value.as_object().is_some_and(|amounts| amounts.len() > 1) {
        errors.not_supported(at.path, "", &["storage"]);
    }
    for (name, amount) in at.value.as_object().into_iter().flatten() {
        let amount = amount.as_str().unwrap_or_default();
        let order = quantity::compare(amount, "0");
        if order == Ok(Ordering::Less) {
            errors.invalid(&at.path.key(name), amount, "must be greater than or equal to 0");
        }
        if matches!(order, Ok(Ordering::Less | Ordering::Equal)) {
            errors.invalid(&at.path.key(name), amount, "must be greater than zero");
        }
    }
}

fn affinity_has_required_terms(at: &At<'_>, errors: &mut Errors) {
    if !at.value.is_null() && !at.value.has("required") {
        errors.required(&at.path.child("required"), "must specify required node constraints");
    }
}

fn local_volume_has_affinity(at: &At<'_>, errors: &mut Errors) {
    let alone =
        !at.value.fields().into_iter().flatten().any(|(key, _)| SOURCES_BEFORE_LOCAL.contains(&key.as_str()));
    if at.value.has("local") && alone && !at.value.has("nodeAffinity") {
        errors.required(&at.path.child("nodeAffinity"), "Local volume requires node affinity");
    }
}

fn root_is_not_recycled(at: &At<'_>, errors: &mut Errors) {
    let place = at.value.at("hostPath").text("path");
    let root = place.starts_with('/') && place.split('/').all(|part| part.is_empty() || part == ".");
    if root && at.value.text("persistentVolumeReclaimPolicy") == "Recycle" {
        let path = at.path.child("persistentVolumeReclaimPolicy");
        errors.forbidden(&path, "may not be 'recycle' for a hostPath mount of '/'");
    }
}

fn volume_changes_little(at: &At<'_>, errors: &mut Errors) {
    const FREE: [&str; 9] = [
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    ];
    let Some(old) = at.old else { return };
    let path = at.path.child("spec");
    if without(at.value.at("spec"), &FREE) != without(old.at("spec"), &FREE) {
        let detail = "spec.persistentvolumesource is immutable after creation";
        errors.forbidden(&path.child("persistentvolumesource"), detail);
    }
    volume_mode(at.value, old, errors);
    let (now, before) = (at.value.at("spec").at("nodeAffinity"), old.at("spec").at("nodeAffinity"));
    if !before.is_null() && now != before {
        let detail = "field is immutable, except for updating from beta label to GA";
        errors.invalid(&Path::root("nodeAffinity"), now.clone(), detail);
    }
}
