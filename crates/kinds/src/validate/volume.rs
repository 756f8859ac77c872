//! Validation of the volumes of a Pod spec together with the mounts and devices that refer to them.
//!
//! Checks that concern several fields run after those of single volumes: a volume with errors is not offered to mounts,
//! so that kube-apiserver's further "not found" error appears too. The claims of a StatefulSet count as volumes of its
//! template. Projected sources are in `projected`, PersistentVolumes in `storage`.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use listwatch_wire::json::Value;
use listwatch_wire::names::label_errors;

use super::{checks, container};
use crate::field::{Errors, Path};
use crate::quantity;
use crate::rules::{At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] = checks![
    volumes_and_mounts_agree,
    claimed_volumes_and_mounts_agree,
    size_limit_is_not_negative,
    azure_disk_is_where_its_kind_is,
    path_is_absolute,
    dataset_is_named_once,
    given_text_is_not_empty,
];

/// Runs after the volumes themselves were checked: one that is not valid cannot be mounted.
fn volumes_and_mounts_agree(at: &At<'_>, errors: &mut Errors) {
    mounts(at.parent, &HashSet::new(), &at.path.above(), errors);
}

/// The claims of a StatefulSet are volumes of its Pods.
fn claimed_volumes_and_mounts_agree(at: &At<'_>, errors: &mut Errors) {
    let claims = at.value.list("volumeClaimTemplates").iter();
    let claimed: HashSet<&str> = claims.map(|claim| claim.at("metadata").text("name")).collect();
    let path = at.path.child("template");
    let path = path.child("spec");
    if claimed.contains("") {
        let first = path.child("volumes");
        let first = first.index(0);
        errors.required(&first.child("persistentVolumeClaim").child("claimName"), "");
        errors.required(&first.child("name"), "");
    }
    mounts(at.value.path(&["template", "spec"]), &claimed, &path, errors);
}

/// Volumes have names of their own, which mounts and devices refer to. A volume that is not valid cannot be mounted.
fn mounts(spec: &Value, claimed: &HashSet<&str>, at: &Path<'_>, errors: &mut Errors) {
    let path = at.child("volumes");
    let wrong = errors.elements(&path);
    let mut known: HashMap<&str, &Value> = HashMap::new();
    for (index, volume) in spec.list("volumes").iter().enumerate() {
        let name = volume.text("name");
        if name.is_empty() || !label_errors(name).is_empty() {
            continue;
        }
        if known.contains_key(name) {
            errors.duplicate(&path.index(index).child("name"), name);
        }
        if !wrong.contains(&index) {
            known.insert(name, volume);
        }
    }
    container::each(spec, &container::LISTS, at, |_, item, path| {
        variables_of_files(item, &known, path, errors);
        let mounts = path.child("volumeMounts");
        for (index, mount) in item.list("volumeMounts").iter().enumerate() {
            let name = mount.text("name");
            if !known.contains_key(name) && !claimed.contains(name) {
                errors.not_found(&mounts.index(index).child("name"), name);
            }
        }
        let devices = path.child("volumeDevices");
        for (index, device) in item.list("volumeDevices").iter().enumerate() {
            let (name, path) = (device.text("name"), devices.index(index));
            match known.get(name) {
                _ if claimed.contains(name) => {}
                None => errors.not_found(&path.child("name"), name),
                Some(volume) if !volume.has("persistentVolumeClaim") && !volume.has("ephemeral") => {
                    let detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                    errors.invalid(&path.child("name"), name, detail);
                }
                Some(_) => {}
            }
        }
    });
}

/// A variable may come from a file in an empty directory of the Pod.
fn variables_of_files(
    container: &Value,
    known: &HashMap<&str, &Value>,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let path = path.child("env");
    for (index, variable) in container.list("env").iter().enumerate() {
        let file = variable.at("valueFrom").at("fileKeyRef");
        if file.is_null() {
            continue;
        }
        let path = path.index(index);
        let path = path.child("valueFrom");
        let path = path.child("fileKeyRef");
        let name = file.text("volumeName");
        match known.get(name) {
            None => errors.not_found(&path.child("volumeName"), name),
            Some(volume) if !volume.has("emptyDir") => {
                let detail = "referenced volume must be of type emptyDir";
                errors.invalid(&path.child("volumeName"), name, detail);
            }
            Some(_) => {}
        }
    }
}

/// Managed disks have a path of their own, others a web address.
fn azure_disk_is_where_its_kind_is(at: &At<'_>, errors: &mut Errors) {
    const MANAGED: &str =
        "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
    const BLOB: &str = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
    let (kind, place) = (at.value.text("kind"), at.value.text("diskURI"));
    let path = at.path.child("diskURI");
    match kind {
        "" => {}
        "Managed" if !place.starts_with("/subscriptions/") => errors.not_supported(&path, place, &[MANAGED]),
        "Managed" => {}
        _ if !place.starts_with("https://") => errors.not_supported(&path, place, &[BLOB]),
        _ => {}
    }
}

fn size_limit_is_not_negative(at: &At<'_>, errors: &mut Errors) {
    if quantity::compare(at.value.as_str().unwrap_or_default(), "0") == Ok(Ordering::Less) {
        errors.forbidden(at.path, "SizeLimit field must be a valid resource quantity");
    }
}

fn path_is_absolute(at: &At<'_>, errors: &mut Errors) {
    let place = at.value.as_str().unwrap_or_default();
    if place.is_empty() {
        errors.required(at.path, "");
    }
    if !place.starts_with('/') {
        errors.invalid(at.path, place, "must be an absolute path");
    }
}

fn dataset_is_named_once(at: &At<'_>, errors: &mut Errors) {
    let (name, id) = (at.value.text("datasetName"), at.value.text("datasetUUID"));
    match (name.is_empty(), id.is_empty()) {
        (true, true) => errors.required(at.path, "one of datasetName and datasetUUID is required"),
        (false, false) => {
            let detail = "datasetName and datasetUUID can not be specified simultaneously";
            errors.invalid(at.path, "resource", detail);
        }
        _ => {}
    }
    if name.contains('/') {
        errors.invalid(&at.path.child("datasetName"), name, "must not contain '/'");
    }
}

fn given_text_is_not_empty(at: &At<'_>, errors: &mut Errors) {
    if at.value == "" {
        errors.required(at.path, "");
    }
}
