//! Volumes of a pod spec.

use std::collections::HashSet;

use listwatch_wire::json::Value;
use listwatch_wire::names::label_errors;

use crate::field::{Errors, Path};
use crate::tree::Tree;

/// Checks the volumes; the names that mounts may refer to.
pub(super) fn check<'a>(volumes: &'a [Value], path: &Path<'_>, errors: &mut Errors) -> HashSet<&'a str> {
    let mut names = HashSet::new();
    for (index, volume) in volumes.iter().enumerate() {
        let path = path.index(index);
        source(volume, &path, errors);
        let name = volume.text("name");
        if name.is_empty() {
            errors.required(&path.child("name"), "");
        } else {
            errors.invalid_all(&path.child("name"), name, label_errors(name));
            if !names.insert(name) {
                errors.duplicate(&path.child("name"), name);
            }
        }
    }
    names
}

fn source(volume: &Value, path: &Path<'_>, errors: &mut Errors) {
    let given =
        volume.fields().into_iter().flatten().filter(|(key, value)| *key != "name" && !value.is_null());
    let mut first = true;
    for (key, _) in given {
        if !std::mem::take(&mut first) {
            errors.forbidden(&path.child(key), "may not specify more than 1 volume type");
        }
    }
    if first {
        errors.required(path, "must specify a volume type");
    }
    for (source, key) in [
        ("secret", "secretName"),
        ("persistentVolumeClaim", "claimName"),
        ("configMap", "name"),
        ("hostPath", "path"),
    ] {
        if volume.has(source) && volume.at(source).text(key).is_empty() {
            errors.required(&path.child(source).child(key), "");
        }
    }
    if volume.at("hostPath").text("path").split('/').any(|part| part == "..") {
        errors.invalid(
            &path.child("hostPath").child("path"),
            volume.at("hostPath").text("path"),
            "must not contain '..'",
        );
    }
}
