//! Validation of the volumes of a Pod spec together with the mounts and devices that refer to them.
//!
//! Checks that concern several fields run after those of single volumes: a volume with errors is not offered to mounts,
//! so that kube-apiserver's further "not found" error appears too. The claims of a StatefulSet count as volumes of its
//! template. Projected sources are in `projected`, PersistentVolumes in `storage`.

use std::collections::{HashMap, HashSet};

use listwatch_wire::json::Value;
use listwatch_wire::names::label_errors;

use super::{container, each};
use crate::field::{Errors, Path};
use crate::rules::{At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] =
    checks![volumes_and_mounts_agree, claimed_volumes_and_mounts_agree];

/// Runs after the volumes themselves were checked: one that is not valid cannot be mounted.
fn volumes_and_mounts_agree(at: &At<'_>, errors: &mut Errors) {
    mounts(at.parent, &HashSet::new(), &at.path.above(), errors);
}

/// The claims of a StatefulSet are volumes of its Pods.
fn claimed_volumes_and_mounts_agree(at: &At<'_>, errors: &mut Errors) {
    let claims = at.value.list("volumeClaimTemplates").iter();
    let mut claimed: HashSet<&str> = claims.map(|claim| claim.at("metadata").text("name")).collect();
    let path = at.path.child("template.spec");
    // kube-apiserver puts the volumes of claims before the others, in no order.
    let volumes = path.child("volumes");
    for (index, name) in claimed.iter().enumerate() {
        let volume = volumes.index(index);
        if name.is_empty() {
            errors.required(&volume.child("persistentVolumeClaim").child("claimName"), "");
            errors.required(&volume.child("name"), "");
        } else {
            errors.invalid_all(&volume.child("name"), name, label_errors(name));
        }
    }
    claimed.retain(|name| !name.is_empty() && label_errors(name).is_empty());
    mounts(at.value.below("template.spec"), &claimed, &path, errors);
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
        each(item, "volumeMounts", path, |mount, path| {
            let name = mount.text("name");
            if !known.contains_key(name) && !claimed.contains(name) {
                errors.not_found(&path.child("name"), name);
            }
        });
        each(item, "volumeDevices", path, |device, path| {
            let (name, path) = (device.text("name"), path.child("name"));
            match known.get(name) {
                _ if claimed.contains(name) => {}
                None => errors.not_found(&path, name),
                Some(volume) if !volume.has("persistentVolumeClaim") && !volume.has("ephemeral") => {
                    let detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                    errors.invalid(&path, name, detail);
                }
                Some(_) => {}
            }
        });
    });
}

/// A variable may come from a file in an empty directory of the Pod.
fn variables_of_files(
    container: &Value,
    known: &HashMap<&str, &Value>,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    each(container, "env", path, |variable, path| {
        let file = variable.below("valueFrom.fileKeyRef");
        let (name, path) = (file.text("volumeName"), path.child("valueFrom.fileKeyRef.volumeName"));
        match known.get(name) {
            _ if file.is_null() => {}
            None => errors.not_found(&path, name),
            Some(volume) if volume.has("emptyDir") => {}
            Some(_) => errors.invalid(&path, name, "referenced volume must be of type emptyDir"),
        }
    });
}
