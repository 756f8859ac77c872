//! Fields of features that are off by default: they are dropped before defaulting and validation, as in kube-apiserver.
//!
//! A path is names with dots between them; `*` stands for every element of a list. Fields that the stored object has
//! are kept.

use listwatch_wire::json::{Map, Value};

use crate::Kind;
use crate::tree::Tree;

/// Fields of a pod spec whose feature gates are off in Kubernetes 1.37.
const POD_SPEC: &[&str] = &["evictionResponders", "schedulingGroup"];

/// Fields of a container whose feature gates are off in Kubernetes 1.37.
const CONTAINER: &[&str] = &[
    "lifecycle.stopSignal",
    "lifecycle.postStart.httpGet.protocol",
    "lifecycle.preStop.httpGet.protocol",
    "livenessProbe.httpGet.protocol",
    "readinessProbe.httpGet.protocol",
    "startupProbe.httpGet.protocol",
    "livenessProbe.grpc.mode",
    "readinessProbe.grpc.mode",
    "startupProbe.grpc.mode",
    "volumeMounts.*.bindMountOptions",
];

/// The lists of containers of a pod spec.
const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// Drops the fields of an object whose features are off, unless the stored one has them. An object without any is not touched,
/// so that what it shares with the stored one stays shared.
///
/// Looks before it changes anything: a look costs a few lookups, a change would copy what is shared.
pub(super) fn drop_disabled(kind: &Kind, object: &mut Value, old: Option<&Value>) {
    if !uses_disabled(kind, object) || old.is_some_and(|old| uses_disabled(kind, old)) {
        return;
    }
    for path in kind.strategy.disabled {
        drop_path(object.as_object_mut(), path);
    }
    let Some(place) = kind.strategy.pod_spec else { return };
    let found = place.iter().try_fold(object.as_object_mut(), |at, key| Some(at?.inner(key)));
    let Some(Some(spec)) = found else { return };
    for path in POD_SPEC {
        drop_path(Some(spec), path);
    }
    for list in CONTAINERS {
        spec.each(list).for_each(drop_of_container);
    }
}

/// Returns true if an object has a field of a feature that is off.
fn uses_disabled(kind: &Kind, object: &Value) -> bool {
    let has_any = |value: &Value, paths: &[&str]| paths.iter().any(|path| has_path(value, path));
    has_any(object, kind.strategy.disabled)
        || kind.strategy.pod_spec.is_some_and(|place| {
            let spec = object.path(place);
            let mut containers = CONTAINERS.iter().flat_map(|list| spec.list(list));
            has_any(spec, POD_SPEC) || containers.any(|container| has_any(container, CONTAINER))
        })
}

/// Drops the fields of a container, and its lifecycle if nothing is left of it.
fn drop_of_container(container: &mut Map) {
    for path in CONTAINER {
        drop_path(Some(container), path);
    }
    if container.inner("lifecycle").is_some_and(|lifecycle| lifecycle.is_empty()) {
        container.remove("lifecycle");
    }
}

/// Lists are searched to the first hit.
fn has_path(object: &Value, path: &str) -> bool {
    match path.split_once('.') {
        None => object.has(path),
        Some((key, rest)) => match rest.strip_prefix("*.") {
            Some(rest) => object.list(key).iter().any(|item| has_path(item, rest)),
            None => has_path(object.at(key), rest),
        },
    }
}

/// Empty objects that remain are kept, as in kube-apiserver, where dropping sets a field to nil.
fn drop_path(object: Option<&mut Map>, path: &str) {
    let Some(object) = object else { return };
    match path.split_once('.') {
        None => drop(object.remove(path)),
        Some((key, rest)) => match rest.strip_prefix("*.") {
            Some(rest) => {
                for item in object.each(key) {
                    drop_path(Some(item), rest);
                }
            }
            None => drop_path(object.inner(key), rest),
        },
    }
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    #[test]
    fn fields_of_features_that_are_off_are_dropped_in_pods_and_templates() {
        let pod = json!({"containers": [{"name": "a", "lifecycle": {"stopSignal": "SIGHUP"}}], "schedulingGroup": {}});
        let mut object = json!({"spec": {"template": {"spec": pod}}});
        drop_disabled(crate::by_kind("apps", "v1", "Deployment").unwrap(), &mut object, None);
        assert_eq!(object, json!({"spec": {"template": {"spec": {"containers": [{"name": "a"}]}}}}));
    }
}
