//! Volumes of a pod spec.

use std::collections::HashSet;

use listwatch_wire::json::Value;
use listwatch_wire::names::label_errors;

use super::{container, env};
use crate::field::{Errors, Path};
use crate::quantity;
use crate::tree::Tree;

/// What a volume of a kind cannot do without.
const REQUIRED: &[(&str, &str)] = &[
    ("configMap", "name"),
    ("csi", "driver"),
    ("hostPath", "path"),
    ("iscsi", "targetPortal"),
    ("nfs", "server"),
    ("nfs", "path"),
    ("persistentVolumeClaim", "claimName"),
    ("secret", "secretName"),
];

const HOST_PATH_TYPES: &[&str] =
    &["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

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
    for (source, key) in REQUIRED {
        if volume.has(source) && volume.at(source).text(key).is_empty() {
            errors.required(&path.child(source).child(key), "");
        }
    }
    host_path(volume.at("hostPath"), &path.child("hostPath"), errors);
    empty_dir(volume.at("emptyDir"), &path.child("emptyDir"), errors);
    for key in ["secret", "configMap"] {
        files(volume.at(key), &path.child(key), errors);
    }
    downward(volume.at("downwardAPI"), &path.child("downwardAPI"), errors);
}

fn host_path(host: &Value, path: &Path<'_>, errors: &mut Errors) {
    let place = host.text("path");
    if place.split('/').any(|part| part == "..") {
        errors.invalid(&path.child("path"), place, "must not contain '..'");
    }
    errors.one_of(&path.child("type"), host.text("type"), HOST_PATH_TYPES);
}

fn empty_dir(dir: &Value, path: &Path<'_>, errors: &mut Errors) {
    if quantity::compare(dir.text("sizeLimit"), "0") == Ok(std::cmp::Ordering::Less) {
        errors.forbidden(&path.child("sizeLimit"), "SizeLimit field must be a valid resource quantity");
    }
}

/// Keys that become files.
fn files(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    mode(source.int("defaultMode"), &path.child("defaultMode"), errors);
    let items = path.child("items");
    for (index, item) in source.list("items").iter().enumerate() {
        let path = items.index(index);
        if item.text("key").is_empty() {
            errors.required(&path.child("key"), "");
        }
        file(item, &path, errors);
    }
}

fn file(item: &Value, path: &Path<'_>, errors: &mut Errors) {
    let place = item.text("path");
    if place.is_empty() {
        errors.required(&path.child("path"), "");
    }
    container::descending(place, &path.child("path"), errors);
    if place.starts_with("..") && !place.starts_with("../") {
        errors.invalid(&path.child("path"), place, "must not start with '..'");
    }
    mode(item.int("mode"), &path.child("mode"), errors);
}

fn mode(mode: Option<i64>, path: &Path<'_>, errors: &mut Errors) {
    if let Some(mode) = mode.filter(|mode| !(0..=0o777).contains(mode)) {
        errors.invalid(path, mode, "must be a number between 0 and 0777 (octal), both inclusive");
    }
}

fn downward(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    mode(source.int("defaultMode"), &path.child("defaultMode"), errors);
    let items = path.child("items");
    for (index, item) in source.list("items").iter().enumerate() {
        let path = items.index(index);
        file(item, &path, errors);
        match (item.has("fieldRef"), item.has("resourceFieldRef")) {
            (true, true) => {
                let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.invalid(&path, "resource", detail);
            }
            (true, false) => {
                let at = path.child("fieldRef");
                env::field_selector(item.at("fieldRef"), env::IN_VOLUMES, &at, errors);
            }
            (false, true) => {
                let at = path.child("resourceFieldRef");
                env::resource_selector(item.at("resourceFieldRef"), true, &at, errors);
            }
            (false, false) => {
                errors.required(&path.child("fieldRef"), "one of fieldRef and resourceFieldRef is required");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    #[test]
    fn each_kind_of_volume_has_its_rules() {
        let found = |volume: Value| -> Vec<String> {
            let mut errors = Errors::new();
            source(&volume, &Path::root("v"), &mut errors);
            errors.into_vec().iter().map(|error| format!("{} {:?}", error.field, error.kind)).collect()
        };
        assert_eq!(
            found(json!({"name": "v", "hostPath": {"path": "/a", "type": "Odd"}})),
            ["v.hostPath.type NotSupported"]
        );
        assert_eq!(found(json!({"name": "v", "nfs": {}})), ["v.nfs.server Required", "v.nfs.path Required"]);
        assert_eq!(
            found(json!({"name": "v", "emptyDir": {"sizeLimit": "-1"}})),
            ["v.emptyDir.sizeLimit Forbidden"]
        );
        let items = json!([{"key": "", "path": "/a"}, {"key": "k", "path": "../x"}]);
        assert_eq!(
            found(json!({"name": "v", "secret": {"secretName": "s", "items": items, "defaultMode": 512}})),
            [
                "v.secret.defaultMode Invalid",
                "v.secret.items[0].key Required",
                "v.secret.items[0].path Invalid",
                "v.secret.items[1].path Invalid"
            ]
        );
        let field = json!({"path": "a", "fieldRef": {"fieldPath": "spec.nodeName"}});
        assert_eq!(
            found(json!({"name": "v", "downwardAPI": {"items": [field]}})),
            ["v.downwardAPI.items[0].fieldRef.fieldPath NotSupported"]
        );
    }
}
