//! Volumes, claims and storage classes.

use listwatch_wire::json::Value;

use super::container::{amounts, resources};
use super::workload::without;
use crate::field::{Errors, Path};
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
    if !spec.path(&["resources", "requests"]).has("storage") {
        errors.required(&path.child("resources").key("storage"), "");
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
    if without(new.at("spec"), &free) != without(old.at("spec"), &free) {
        errors.forbidden(&Path::root("spec"), DETAIL);
    }
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
    amounts(spec.at("capacity"), &path.child("capacity"), errors);
    let policies = &["Delete", "Recycle", "Retain"];
    errors.one_of(
        &path.child("persistentVolumeReclaimPolicy"),
        spec.text("persistentVolumeReclaimPolicy"),
        policies,
    );
    let mut sources =
        without(spec, &NO_SOURCE).into_iter().filter(|(key, _)| *key != "volumeAttributesClassName");
    if sources.next().is_none() {
        errors.required(&path, "must specify a volume type");
    }
    for (key, _) in sources {
        errors.forbidden(&path.child(key), "may not specify more than 1 volume type");
    }
}

pub(super) fn volume_change(new: &Value, old: &Value, errors: &mut Errors) {
    const FREE: [&str; 7] = [
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
    ];
    if without(new.at("spec"), &FREE) != without(old.at("spec"), &FREE) {
        errors.forbidden(
            &Path::root("spec").child("persistentvolumesource"),
            "spec.persistentvolumesource is immutable after creation",
        );
    }
}

pub(super) fn class(new: &Value, errors: &mut Errors) {
    if new.text("provisioner").is_empty() {
        errors.required(&Path::root("provisioner"), "");
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
