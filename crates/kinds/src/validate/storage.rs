//! Volumes, claims and storage classes.

use std::cmp::Ordering;

use listwatch_wire::json::Value;
use listwatch_wire::names::{label_key_errors, subdomain_errors};

use super::container::resources;
use super::workload::without;
use crate::field::{Errors, Path};
use crate::quantity;
use crate::tree::Tree;

const ACCESS_MODES: &[&str] = &["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"];

fn access_modes(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let at = path.child("accessModes");
    if spec.count("accessModes") == 0 {
        errors.required(&at, "at least 1 access mode is required");
    }
    for mode in spec.list("accessModes").iter().filter_map(Value::as_str) {
        errors.one_of(&at, mode, ACCESS_MODES);
    }
}

pub(super) fn claim(new: &Value, errors: &mut Errors) {
    let (spec, path) = (new.at("spec"), Path::root("spec"));
    access_modes(spec, &path, errors);
    let at = path.child("resources");
    let storage = spec.path(&["resources", "requests"]).text("storage");
    if storage.is_empty() {
        errors.required(&at.key("storage"), "");
    } else if matches!(quantity::compare(storage, "0"), Ok(Ordering::Less | Ordering::Equal)) {
        errors.invalid(&at.key("storage"), storage, "must be greater than zero");
    }
    let modes = spec.list("accessModes");
    if modes.len() > 1 && modes.iter().any(|mode| mode == "ReadWriteOncePod") {
        let detail = "may not use ReadWriteOncePod with other access modes";
        errors.forbidden(&path.child("accessModes"), detail);
    }
    let class = spec.text("storageClassName");
    if !class.is_empty() {
        errors.invalid_all(&path.child("storageClassName"), class, subdomain_errors(class));
    }
    resources(spec.at("resources"), &path.child("resources"), errors);
    errors.one_of(&path.child("volumeMode"), spec.text("volumeMode"), &["Block", "Filesystem"]);
}

pub(super) fn claim_change(new: &Value, old: &Value, errors: &mut Errors) {
    const DETAIL: &str = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
    let bound = old.at("status").text("phase") == "Bound";
    let mut free = vec!["volumeAttributesClassName"];
    if bound {
        free.push("resources");
    }
    // A claim is bound by its volume name being filled in.
    if old.at("spec").text("volumeName").is_empty() {
        free.push("volumeName");
    }
    // A class may still be found for a claim that was made before there was one.
    if !old.at("spec").has("storageClassName") {
        free.push("storageClassName");
    }
    if without(new.at("spec"), &free) != without(old.at("spec"), &free) {
        errors.forbidden(&Path::root("spec"), DETAIL);
    }
    volume_mode(new, old, errors);
}

/// The reference forgets where the field is.
fn volume_mode(new: &Value, old: &Value, errors: &mut Errors) {
    let (new, old) = (new.at("spec").at("volumeMode"), old.at("spec").at("volumeMode"));
    errors.immutable(&Path::root("volumeMode"), new, old);
}

pub(super) fn volume(new: &Value, errors: &mut Errors) {
    const NO_SOURCE: [&str; 8] = [
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeMode",
    ];
    let (spec, path) = (new.at("spec"), Path::root("spec"));
    access_modes(spec, &path, errors);
    if spec.count("capacity") == 0 {
        errors.required(&path.child("capacity"), "");
    }
    capacity(spec.at("capacity"), &path.child("capacity"), errors);
    let policies = &["Delete", "Recycle", "Retain"];
    errors.one_of(
        &path.child("persistentVolumeReclaimPolicy"),
        spec.text("persistentVolumeReclaimPolicy"),
        policies,
    );
    if spec.has("volumeMode") {
        errors.one_of(&path.child("volumeMode"), spec.text("volumeMode"), &["Block", "Filesystem"]);
    }
    let mut sources =
        without(spec, &NO_SOURCE).into_iter().filter(|(key, _)| *key != "volumeAttributesClassName");
    if sources.next().is_none() {
        errors.required(&path, "must specify a volume type");
    }
    for (key, _) in sources {
        errors.forbidden(&path.child(key), "may not specify more than 1 volume type");
    }
}

/// A volume has room, and nothing else to give.
fn capacity(capacity: &Value, path: &Path<'_>, errors: &mut Errors) {
    if !capacity.has("storage") || capacity.as_object().is_some_and(|amounts| amounts.len() > 1) {
        errors.not_supported(path, "", &["storage"]);
    }
    for (name, amount) in capacity.as_object().into_iter().flatten() {
        let amount = amount.as_str().unwrap_or_default();
        let order = quantity::compare(amount, "0");
        if order == Ok(Ordering::Less) {
            errors.invalid(&path.key(name), amount, "must be a valid resource quantity");
        }
        if matches!(order, Ok(Ordering::Less | Ordering::Equal)) {
            errors.invalid(&path.key(name), amount, "must be greater than zero");
        }
    }
}

pub(super) fn volume_change(new: &Value, old: &Value, errors: &mut Errors) {
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
    if without(new.at("spec"), &FREE) != without(old.at("spec"), &FREE) {
        errors.forbidden(
            &Path::root("spec").child("persistentvolumesource"),
            "spec.persistentvolumesource is immutable after creation",
        );
    }
    volume_mode(new, old, errors);
    let (now, before) = (new.at("spec").at("nodeAffinity"), old.at("spec").at("nodeAffinity"));
    if !before.is_null() && now != before {
        let detail = "field is immutable, except for updating from beta label to GA";
        errors.invalid(&Path::root("spec").child("nodeAffinity"), now.clone(), detail);
    }
}

pub(super) fn class(new: &Value, errors: &mut Errors) {
    let provisioner = new.text("provisioner").to_lowercase();
    if provisioner.is_empty() {
        errors.required(&Path::root("provisioner"), "");
    } else {
        errors.invalid_all(&Path::root("provisioner"), &provisioner, label_key_errors(&provisioner));
    }
    errors.one_of(&Path::root("reclaimPolicy"), new.text("reclaimPolicy"), &["Delete", "Retain"]);
    let modes = &["Immediate", "WaitForFirstConsumer"];
    errors.required_one_of(&Path::root("volumeBindingMode"), new.text("volumeBindingMode"), modes);
}

pub(super) fn class_change(new: &Value, old: &Value, errors: &mut Errors) {
    for key in ["parameters", "provisioner", "reclaimPolicy"] {
        if new.at(key) != old.at(key) {
            errors.forbidden(&Path::root(key), format!("updates to {key} are forbidden."));
        }
    }
    errors.immutable(
        &Path::root("volumeBindingMode"),
        new.at("volumeBindingMode"),
        old.at("volumeBindingMode"),
    );
}
