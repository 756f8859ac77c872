//! Validation of PersistentVolumes and PersistentVolumeClaims.
//!
//! Most of it is about changes: a claim may be bound (`volumeName` filled in), given a class, and, once bound, grow; it
//! may only shrink to what is above its actual capacity, which is how a failed expansion is taken back. The source of a
//! volume is immutable. Binding and expansion are done by controllers; validation only keeps the fields consistent for
//! them.

use std::cmp::Ordering;

use listwatch_wire::json::Value;
use listwatch_wire::names::label_key_errors;

use super::freeze::set_back;
use crate::field::{Errors, Path};
use crate::quantity;
use crate::rules::{At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] = checks![
    claim_changes_little,
    volume_changes_little,
    claimed_resources_are_known,
    resize_statuses_are_known
];

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
    if set_back(now, before, &free) != *before {
        errors.forbidden(&path, DETAIL);
    }
    shrinking(at.value, old, &path, errors);
}

/// Equal to the capacity is refused as well: there would be nothing to take back.
fn shrinking(new: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    fn asked(claim: &Value) -> &str {
        claim.below("spec.resources.requests").text("storage")
    }
    let held = old.below("status.capacity").text("storage");
    let held = if held.is_empty() { "0" } else { held };
    let wanted = if asked(new).is_empty() { "0" } else { asked(new) };
    let less = quantity::compare(wanted, asked(old)) == Ok(Ordering::Less);
    if less && matches!(quantity::compare(wanted, held), Ok(Ordering::Less | Ordering::Equal)) {
        let path = path.child("resources.requests.storage");
        errors.forbidden(&path, "field can not be less than status.capacity");
    }
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

/// Keys are names of resources, values the state of their expansion. Unknown states would stop the controllers.
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

/// Everything but a list of fields is immutable, hence the source with all that belongs to it: drivers have mounted
/// it.
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
    if set_back(at.value.at("spec"), old.at("spec"), &FREE) != *old.at("spec") {
        let detail = "spec.persistentvolumesource is immutable after creation";
        errors.forbidden(&at.path.child("spec.persistentvolumesource"), detail);
    }
}
