//! Containers that join a Pod while it runs, to look into it.

use std::collections::HashSet;

use listwatch_wire::json::Value;

use super::container;
use crate::field::{Errors, Path};
use crate::tree::Tree;

/// What a container that nobody restarts and no probe watches cannot have.
const NOT_ALLOWED: [&str; 7] =
    ["lifecycle", "livenessProbe", "ports", "readinessProbe", "resizePolicy", "resources", "startupProbe"];

/// `taken` are the names of the other containers.
pub(super) fn check<'a>(
    spec: &'a Value,
    volumes: &HashSet<&str>,
    mut taken: HashSet<&'a str>,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let targets = taken.clone();
    for (index, item) in spec.list("ephemeralContainers").iter().enumerate() {
        let path = path.index(index);
        container::container(item, volumes, &path, errors);
        let name = item.text("name");
        if !name.is_empty() && !taken.insert(name) {
            errors.duplicate(&path.child("name"), name);
        }
        let target = item.text("targetContainerName");
        if !target.is_empty() && !targets.contains(target) {
            errors.not_found(&path.child("targetContainerName"), target);
        }
        let mounts = path.child("volumeMounts");
        for (index, mount) in item.list("volumeMounts").iter().enumerate() {
            for key in ["subPath", "subPathExpr"].into_iter().filter(|key| !mount.text(key).is_empty()) {
                errors.forbidden(&mounts.index(index).child(key), "cannot be set for an Ephemeral Container");
            }
        }
        for key in NOT_ALLOWED.into_iter().filter(|key| is_set(item.at(key))) {
            errors.forbidden(&path.child(key), "cannot be set for an Ephemeral Container");
        }
    }
}

fn is_set(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        // Resources are always there, if only as an empty object.
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    #[test]
    fn they_have_names_of_their_own_and_little_else() {
        let container = |name: &str, more: Value| {
            let mut item = json!({"name": name, "image": "i", "imagePullPolicy": "Always", "terminationMessagePolicy": "File", "resources": {}});
            item.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            item
        };
        let spec = json!({"ephemeralContainers": [
            container("a", json!({"targetContainerName": "a"})),
            container("b", json!({"targetContainerName": "z", "ports": [{"containerPort": 1, "protocol": "TCP"}]})),
            container("b", json!({"resources": {"limits": {"cpu": "1"}}})),
        ]});
        let mut errors = Errors::new();
        check(&spec, &HashSet::new(), HashSet::from(["a"]), &Path::root("spec"), &mut errors);
        let found: Vec<String> =
            errors.into_vec().iter().map(|e| format!("{} {:?}", e.field, e.kind)).collect();
        let wanted = [
            "spec[0].name Duplicate",
            "spec[1].targetContainerName NotFound",
            "spec[1].ports Forbidden",
            "spec[2].name Duplicate",
            "spec[2].resources Forbidden",
        ];
        assert_eq!(found, wanted);
    }
}
