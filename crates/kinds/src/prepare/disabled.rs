//! Fields of features that are off by default: they are dropped before defaulting and validation, as in kube-apiserver.
//!
//! A path is names with dots between them; `*` stands for every element of a list. Fields that the stored object has
//! are kept.

use listwatch_wire::json::{Map, Value};

use crate::Kind;
use crate::tree::Tree;

/// Fields of a pod spec whose feature gates are off in Kubernetes 1.37.
const POD_SPEC: &[&str] = &[
    "evictionResponders",
    "schedulingGroup",
    "containers.*.lifecycle.stopSignal",
    "containers.*.lifecycle.postStart.httpGet.protocol",
    "containers.*.lifecycle.preStop.httpGet.protocol",
    "containers.*.livenessProbe.httpGet.protocol",
    "containers.*.readinessProbe.httpGet.protocol",
    "containers.*.startupProbe.httpGet.protocol",
    "containers.*.livenessProbe.grpc.mode",
    "containers.*.readinessProbe.grpc.mode",
    "containers.*.startupProbe.grpc.mode",
    "containers.*.volumeMounts.*.bindMountOptions",
];

/// Drops the fields of an object whose features are off, unless the stored one has them. An object without any is not touched,
/// so that what it shares with the stored one stays shared.
///
/// Looks before it changes anything: a look costs a few lookups, a change would copy what is shared.
pub(super) fn drop_disabled(kind: &Kind, object: &mut Value, old: Option<&Value>) {
    let place = kind.strategy.pod_spec;
    let used = |object: &Value| {
        kind.strategy.disabled.iter().any(|path| has_path(object, path))
            || place.is_some_and(|place| {
                let spec = object.path(place);
                POD_SPEC.iter().any(|path| {
                    has_path(spec, path)
                        || path.strip_prefix("containers.").is_some_and(|rest| {
                            ["initContainers", "ephemeralContainers"]
                                .iter()
                                .any(|list| spec.has(list) && has_path(spec, &format!("{list}.{rest}")))
                        })
                })
            })
    };
    if !used(object) || old.is_some_and(used) {
        return;
    }
    for path in kind.strategy.disabled {
        drop_path(object.as_object_mut(), path);
    }
    let Some(place) = place else { return };
    let found = place.iter().try_fold(object.as_object_mut(), |at, key| Some(at?.inner(key)));
    let Some(Some(spec)) = found else { return };
    for path in POD_SPEC {
        drop_path(Some(spec), path);
    }
    let inner = POD_SPEC.iter().filter_map(|path| path.strip_prefix("containers.*."));
    let paths: Vec<&str> = inner.collect();
    for list in ["initContainers", "ephemeralContainers"] {
        for container in spec.each(list) {
            for path in &paths {
                drop_path(Some(container), path);
            }
        }
    }
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        for container in spec.each(list) {
            if container.inner("lifecycle").is_some_and(|lifecycle| lifecycle.is_empty()) {
                container.remove("lifecycle");
            }
        }
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
