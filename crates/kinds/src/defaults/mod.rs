//! Defaults of fields that a request leaves out.
//!
//! The row of a kind in [`crate::table`] names the function. [`apply`] runs it on every decoded object of a built-in
//! kind, before validation, on create and on update. It depends on the object alone. Values that depend on anything
//! else (a generated selector, an address, the time) are set in [`crate::prepare`].

pub(crate) mod batch;
pub(crate) mod cluster;
pub(crate) mod pod;
pub(crate) mod service;
pub(crate) mod storage;
pub(crate) mod workload;

use listwatch_wire::json::{Map, Text, Value, json};

use crate::Kind;
use crate::tree::Tree;

/// Fills in the defaults of a changed object. Where it shares everything they look at with the one `before`, it has them.
///
/// Defaults look at spec and data; a change of metadata or status alone cannot need them, with the few exceptions
/// that a strategy names.
pub fn apply_change(kind: &Kind, object: &mut Value, before: &Value) {
    if kind.strategy.defaults_metadata || !is_settled(object, before) {
        apply(kind, object);
    } else if !object.at("status").is_same(before.at("status"))
        && let Some(object) = object.as_object_mut()
    {
        (kind.strategy.status_defaults)(object);
    }
}

/// Returns true if all but metadata and status is shared, and nothing was removed that may have a default.
fn is_settled(object: &Value, before: &Value) -> bool {
    let settled = |(key, value): (&Text, &Value)| {
        matches!(key.as_str(), "metadata" | "status") || before.get(key).is_some_and(|old| value.is_same(old))
    };
    let kept = |(key, _): (&Text, &Value)| key == "status" || object.has(key);
    object.fields().is_some_and(|fields| fields.iter().all(settled))
        && before.fields().is_some_and(|fields| fields.iter().all(kept))
}

/// Fills in the defaults of a kind.
///
/// Adds and derives, and never removes what a client set, apart from fields that are there for writing only.
///
/// ```
/// use listwatch_kinds::{defaults, table};
/// use listwatch_wire::json::json;
///
/// let pod = table::by_kind("", "v1", "Pod").unwrap();
/// let mut object = json!({"spec": {"containers": [{"name": "web", "image": "nginx"}]}});
/// defaults::apply(pod, &mut object);
/// assert_eq!(object["spec"]["restartPolicy"], json!("Always"));
/// assert_eq!(object["spec"]["containers"][0]["imagePullPolicy"], json!("Always"), "no tag means latest");
/// ```
pub fn apply(kind: &Kind, object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    (kind.strategy.defaults)(object);
    (kind.strategy.status_defaults)(object);
}

/// `stringData` is a convenience for writing: it lands in `data` and is never shown.
///
/// A key in both places takes the value of `stringData`.
pub(crate) fn secret(object: &mut Map) {
    use base64::Engine as _;

    object.fill_text("type", "Opaque");
    let Some(Value::Object(clear)) = object.remove("stringData") else { return };
    if clear.is_empty() {
        return;
    }
    let Some(data) = object.inner_or_new("data") else { return };
    for (key, value) in clear {
        let text = value.as_str().unwrap_or_default();
        data.insert(key, base64::engine::general_purpose::STANDARD.encode(text).into());
    }
}

/// Every namespace is selectable by its own name.
pub(crate) fn namespace(object: &mut Map) {
    let name = object.at("metadata").text("name").to_owned();
    if name.is_empty() {
        return;
    }
    let Some(meta) = object.inner_or_new("metadata") else { return };
    if let Some(labels) = meta.inner_or_new("labels") {
        labels.put("kubernetes.io/metadata.name", name);
    }
}

/// Sets the protocol of every port that has none.
fn port_protocols(owner: &mut Map) {
    for port in owner.each("ports") {
        port.fill_text("protocol", "TCP");
    }
}

/// Defaults the protocol of ports where it is absent. An empty one stays, because it is an error.
fn given_port_protocols(owner: &mut Map) {
    for port in owner.each("ports") {
        port.fill("protocol", "TCP");
    }
}

/// An empty object.
fn empty() -> Value {
    json!({})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::by_kind;

    fn applied(group: &str, kind: &str, mut object: Value) -> Value {
        apply(by_kind(group, "v1", kind).unwrap(), &mut object);
        object
    }

    #[test]
    fn string_data_wins_over_data_and_vanishes() {
        let secret = applied(
            "",
            "Secret",
            json!({"stringData": {"a": "clear", "b": "over"}, "data": {"b": "eA==", "c": "eQ=="}}),
        );
        assert_eq!(
            secret,
            json!({"data": {"a": "Y2xlYXI=", "b": "b3Zlcg==", "c": "eQ=="}, "type": "Opaque"})
        );
    }

    #[test]
    fn removed_fields_get_their_default_again() {
        let kind = crate::by_kind("", "v1", "Secret").unwrap();
        let before = applied("", "Secret", json!({"data": {"a": "eA=="}}));
        let mut object = before.clone();
        object.as_object_mut().unwrap().remove("type");
        apply_change(kind, &mut object, &before);
        assert_eq!(object, before);
    }

    #[test]
    fn an_unused_rolling_update_has_the_zero_values() {
        let set =
            |strategy: Value| applied("apps", "DaemonSet", json!({"spec": {"updateStrategy": strategy}}));
        let unused = set(json!({"type": "OnDelete", "rollingUpdate": {}}));
        let rolling = unused.at("spec").at("updateStrategy").at("rollingUpdate");
        assert_eq!(rolling, &json!({"maxUnavailable": 0, "maxSurge": 0}));
        assert!(!set(json!({"type": "OnDelete"})).at("spec").at("updateStrategy").has("rollingUpdate"));
    }

    #[test]
    fn annotations_of_the_older_autoscaler_are_none_of_the_newer_one() {
        let kind = by_kind("autoscaling", "v2", "HorizontalPodAutoscaler").unwrap();
        let mut scaler = json!({"metadata": {"name": "h", "annotations": {"autoscaling.alpha.kubernetes.io/metrics": "[]", "a": "b"}}, "spec": {}});
        apply(kind, &mut scaler);
        assert_eq!(scaler.at("metadata").at("annotations"), &json!({"a": "b"}));
    }

    #[test]
    fn a_namespace_carries_its_name_as_a_label() {
        let namespace = applied("", "Namespace", json!({"metadata": {"name": "n"}}));
        assert_eq!(
            namespace,
            json!({"metadata": {"name": "n", "labels": {"kubernetes.io/metadata.name": "n"}}})
        );
    }

    #[test]
    fn a_minimal_pod_is_completed() {
        let pod = applied(
            "",
            "Pod",
            json!({"spec": {"containers": [{"name": "m", "image": "example.test/app:1"}]}}),
        );
        assert_eq!(
            pod,
            json!({"spec": {
                "containers": [{
                    "name": "m", "image": "example.test/app:1", "imagePullPolicy": "IfNotPresent", "resources": {},
                    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"
                }],
                "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
                "schedulerName": "default-scheduler", "enableServiceLinks": true, "securityContext": {}
            }})
        );
    }

    #[test]
    fn the_pull_policy_follows_the_tag() {
        for (image, policy) in [
            ("app", "Always"),
            ("app:latest", "Always"),
            ("host:5000/app", "Always"),
            ("host:5000/app:1", "IfNotPresent"),
            ("app@sha256:0000", "IfNotPresent"),
        ] {
            let pod = applied("", "Pod", json!({"spec": {"containers": [{"name": "m", "image": image}]}}));
            assert_eq!(pod.pointer("/spec/containers/0/imagePullPolicy").unwrap(), policy, "{image}");
        }
    }

    #[test]
    fn limits_are_also_requests() {
        let pod = applied(
            "",
            "Pod",
            json!({"spec": {"containers": [{"name": "m", "image": "i", "resources": {"limits": {"cpu": "1"}}}]}}),
        );
        assert_eq!(pod.pointer("/spec/containers/0/resources/requests").unwrap(), &json!({"cpu": "1"}));
    }

    #[test]
    fn a_deployment_rolls_by_quarters() {
        let deployment =
            applied("apps", "Deployment", json!({"spec": {"template": {"spec": {"containers": []}}}}));
        let spec = deployment.at("spec");
        assert_eq!(
            spec.at("strategy"),
            &json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}})
        );
        assert_eq!(
            (spec.int("replicas"), spec.int("revisionHistoryLimit"), spec.int("progressDeadlineSeconds")),
            (Some(1), Some(10), Some(600))
        );
    }

    #[test]
    fn a_service_is_filled_in_as_far_as_no_address_is_needed() {
        let service = applied("", "Service", json!({"spec": {"ports": [{"port": 80}]}}));
        assert_eq!(
            service.at("spec"),
            &json!({"type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster", "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]})
        );
    }

    #[test]
    fn a_job_runs_once() {
        let job = applied("batch", "Job", json!({"spec": {"template": {"spec": {"containers": []}}}}));
        let spec = job.at("spec");
        assert_eq!(
            (spec.int("parallelism"), spec.int("completions"), spec.int("backoffLimit")),
            (Some(1), Some(1), Some(6))
        );
        let queue = applied(
            "batch",
            "Job",
            json!({"spec": {"parallelism": 3, "template": {"spec": {"containers": []}}}}),
        );
        assert_eq!(queue.at("spec").int("completions"), None);
    }

    #[test]
    fn allocated_devices_default_tolerations_like_requested_ones() {
        let results = json!([{"tolerations": [{"key": "k"}]}]);
        let claim = json!({"status": {"allocation": {"devices": {"results": results}}}});
        let claim = applied("resource.k8s.io", "ResourceClaim", claim);
        let result = &claim.path(&["status", "allocation", "devices"]).list("results")[0];
        assert_eq!(result.list("tolerations")[0].text("operator"), "Equal");
    }

    #[test]
    fn defaults_are_a_fixed_point_for_every_kind() {
        for kind in crate::all() {
            let mut once = json!({
                "metadata": {"name": "x"},
                "spec": {"ports": [{"port": 1}], "template": {"spec": {"containers": [{"name": "a", "image": "b"}]}}, "containers": [{"name": "a", "image": "b"}]},
            });
            apply(kind, &mut once);
            let mut twice = once.clone();
            apply(kind, &mut twice);
            assert_eq!(once, twice, "{}", kind.kind);
        }
    }
}
