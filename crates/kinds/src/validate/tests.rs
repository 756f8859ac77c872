//! Validation of whole objects: field errors as users read them.
//!
//! Each case is an object and its complete list of errors, so that an additional error fails the test as well as a
//! missing one. Defaults are applied first, as in a request. Parsing of the tables is tested in `rules`.

mod jobs;
mod pods;

use listwatch_wire::json::json;

use super::*;
use crate::{by_kind, defaults};

fn decided(group: &str, kind: &str, mut object: Value) -> Vec<String> {
    let kind = by_kind(group, "v1", kind).unwrap();
    object.inner_or_new("metadata").unwrap().fill("name", "x");
    if kind.is_namespaced() {
        object.inner("metadata").unwrap().fill("namespace", "n");
    }
    defaults::apply(kind, &mut object);
    create(kind, &object).iter().map(ToString::to_string).collect()
}

fn workload(labels: Value) -> Value {
    json!({"spec": {"selector": {"matchLabels": {"app": "d"}}, "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "m", "image": "i"}]}}}})
}

#[test]
fn field_errors_of_new_objects() {
    let none: [&str; 0] = [];
    for (group, kind, object, expected) in [
        (
            "",
            "ConfigMap",
            json!({"data": {"a b": ""}}),
            vec![
                "data[a b]: Invalid value: \"a b\": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
            ],
        ),
        ("", "ConfigMap", json!({"data": {"k": "v"}}), none.to_vec()),
        (
            "",
            "Secret",
            json!({"type": "kubernetes.io/tls"}),
            vec!["data[tls.crt]: Required value", "data[tls.key]: Required value"],
        ),
        ("", "Service", json!({"spec": {"ports": []}}), vec!["spec.ports: Required value"]),
        (
            "resource.k8s.io",
            "ResourceClaimTemplate",
            json!({"spec": {"metadata": {"name": "x"}, "spec": {}}}),
            vec!["spec.metadata.name: Forbidden: cannot be set"],
        ),
        (
            "resource.k8s.io",
            "ResourceSlice",
            json!({"spec": {"driver": "a.b", "nodeName": "n", "pool": {"name": "p", "resourceSliceCount": 1}, "devices": [], "sharedCounters": []}}),
            vec!["spec: Invalid value: \"\": only one of `sharedCounters` or `devices` is allowed"],
        ),
        (
            "",
            "Service",
            json!({"spec": {"ports": [{"port": 0}]}}),
            vec![
                "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
                "spec.ports[0].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive",
            ],
        ),
        (
            "",
            "Service",
            json!({"spec": {"ports": [{"port": 80}, {"port": 81}]}}),
            vec!["spec.ports[0].name: Required value", "spec.ports[1].name: Required value"],
        ),
        ("", "Pod", json!({"spec": {}}), vec!["spec.containers: Required value"]),
        (
            "",
            "Pod",
            json!({"spec": {"containers": [{"name": "A"}]}}),
            vec![
                "spec.containers[0].name: Invalid value: \"A\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
                "spec.containers[0].image: Required value",
            ],
        ),
        (
            "",
            "Pod",
            json!({"spec": {"containers": [{"name": "a", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]}}),
            vec!["spec.containers[0].volumeMounts[0].name: Not found: \"v\""],
        ),
        (
            "",
            "Pod",
            json!({"spec": {"restartPolicy": "Maybe", "containers": [{"name": "a", "image": "i"}]}}),
            vec![
                "spec.restartPolicy: Unsupported value: \"Maybe\": supported values: \"Always\", \"OnFailure\", \"Never\"",
            ],
        ),
        ("apps", "Deployment", workload(json!({"app": "d"})), none.to_vec()),
        (
            "apps",
            "Deployment",
            workload(json!({"app": "e"})),
            vec![
                "spec.template.metadata.labels: Invalid value: {\"app\":\"e\"}: `selector` does not match template `labels`",
            ],
        ),
        ("apps", "ReplicaSet", workload(json!({"app": "d"})), none.to_vec()),
        ("apps", "StatefulSet", workload(json!({"app": "d"})), none.to_vec()),
        ("apps", "DaemonSet", workload(json!({"app": "d"})), none.to_vec()),
        (
            "batch",
            "Job",
            json!({"spec": {"manualSelector": true, "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "m", "image": "i"}]}}}}),
            vec!["spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\""],
        ),
        (
            "batch",
            "CronJob",
            json!({"spec": {"schedule": "* * *", "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "m", "image": "i"}]}}}}}}),
            vec!["spec.schedule: Invalid value: \"* * *\": expected exactly 5 fields, found 3: [* * *]"],
        ),
        (
            "coordination.k8s.io",
            "Lease",
            json!({"spec": {"leaseDurationSeconds": 0}}),
            vec!["spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"],
        ),
        (
            "rbac.authorization.k8s.io",
            "Role",
            json!({"rules": [{"verbs": []}]}),
            vec![
                "rules[0].verbs: Required value",
                "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
                "rules[0].resources: Required value: resource rules must supply at least one resource",
            ],
        ),
        (
            "rbac.authorization.k8s.io",
            "RoleBinding",
            json!({"roleRef": {"kind": "Role"}}),
            vec!["roleRef.name: Required value"],
        ),
        (
            "networking.k8s.io",
            "Ingress",
            json!({"spec": {}}),
            vec!["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"],
        ),
        (
            "",
            "PersistentVolumeClaim",
            json!({"spec": {"accessModes": ["ReadWriteOnce"]}}),
            vec!["spec.resources[storage]: Required value"],
        ),
        (
            "policy",
            "PodDisruptionBudget",
            json!({"spec": {"minAvailable": 1, "maxUnavailable": 1}}),
            vec![
                "spec: Invalid value: {\"maxUnavailable\":1,\"minAvailable\":1}: minAvailable and maxUnavailable cannot be both set",
            ],
        ),
        (
            "policy",
            "PodDisruptionBudget",
            json!({"spec": {"minAvailable": "150%"}}),
            vec!["spec.minAvailable: Invalid value: \"150%\": must not be greater than 100%"],
        ),
        ("storage.k8s.io", "StorageClass", json!({}), vec!["provisioner: Required value"]),
    ] {
        assert_eq!(decided(group, kind, object.clone()), expected, "{kind} {object}");
    }
}

fn changed(group: &str, kind: &str, old: Value, change: Value) -> Vec<String> {
    let kind = by_kind(group, "v1", kind).unwrap();
    let mut old = old;
    old.inner_or_new("metadata")
        .unwrap()
        .extend(json!({"name": "x", "namespace": "n", "uid": "u"}).as_object().unwrap().clone());
    defaults::apply(kind, &mut old);
    let mut new = old.clone();
    merge(&mut new, &change);
    defaults::apply(kind, &mut new);
    update(kind, &new, &old)
        .into_iter()
        .map(|error| format!("{} {}", error.field, error.kind.reason()))
        .collect()
}

fn merge(into: &mut Value, from: &Value) {
    match (into.as_object_mut(), from.as_object()) {
        (Some(into), Some(from)) => {
            for (key, value) in from {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        _ => *into = from.clone(),
    }
}

#[test]
fn immutable_fields_are_reported() {
    let pod = json!({"spec": {"containers": [{"name": "a", "image": "i"}]}});
    let claim =
        json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    for (group, kind, old, change, expected) in [
        ("", "Secret", json!({}), json!({"type": "t/u"}), vec!["type FieldValueInvalid"]),
        (
            "",
            "ConfigMap",
            json!({"immutable": true, "data": {"a": "1"}}),
            json!({"data": {"a": "2"}}),
            vec!["data FieldValueForbidden"],
        ),
        (
            "",
            "ConfigMap",
            json!({"immutable": true}),
            json!({"immutable": false}),
            vec!["immutable FieldValueForbidden"],
        ),
        (
            "",
            "Pod",
            pod.clone(),
            json!({"spec": {"containers": [{"name": "b", "image": "j"}]}}),
            vec!["spec FieldValueForbidden"],
        ),
        (
            "",
            "Pod",
            pod.clone(),
            json!({"spec": {"containers": [{"name": "a", "image": " j "}]}}),
            // Without its defaults the container is another one.
            vec!["spec.containers[0].image FieldValueInvalid", "spec FieldValueForbidden"],
        ),
        (
            "",
            "PersistentVolumeClaim",
            claim.clone(),
            json!({"metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "c"}}}),
            vec!["metadata.annotations.volume.beta.kubernetes.io/storage-class FieldValueInvalid"],
        ),
        (
            "",
            "PersistentVolumeClaim",
            json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "volumeAttributesClassName": "v"},
                "status": {"phase": "Bound", "currentVolumeAttributesClassName": "v"}}),
            json!({"spec": {"volumeAttributesClassName": ""}}),
            vec!["spec.volumeAttributesClassName FieldValueForbidden"],
        ),
        (
            "",
            "PersistentVolumeClaim",
            json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}, "status": {"phase": "Bound"}}),
            json!({"spec": {"resources": {"requests": {"storage": "2Gi"}, "limits": {"storage": "3Gi"}}}}),
            vec!["spec FieldValueForbidden"],
        ),
        (
            "",
            "Pod",
            pod.clone(),
            json!({"spec": {"restartPolicy": "Never"}}),
            vec!["spec FieldValueForbidden"],
        ),
        ("", "Pod", pod, json!({"spec": {"activeDeadlineSeconds": 5}}), vec![]),
        (
            "apps",
            "Deployment",
            workload(json!({"app": "d"})),
            json!({"spec": {"selector": {"matchLabels": {"app": "z"}}, "template": {"metadata": {"labels": {"app": "z"}}}}}),
            vec!["spec.selector FieldValueInvalid"],
        ),
        ("apps", "Deployment", workload(json!({"app": "d"})), json!({"spec": {"replicas": 3}}), vec![]),
        (
            "apps",
            "StatefulSet",
            workload(json!({"app": "d"})),
            json!({"spec": {"serviceName": "z"}}),
            vec!["spec.serviceName FieldValueInvalid"],
        ),
        (
            "",
            "PersistentVolumeClaim",
            claim,
            json!({"spec": {"accessModes": ["ReadWriteMany"]}}),
            vec!["spec FieldValueForbidden"],
        ),
        (
            "rbac.authorization.k8s.io",
            "RoleBinding",
            json!({"roleRef": {"kind": "Role", "name": "a"}}),
            json!({"roleRef": {"name": "b"}}),
            vec!["roleRef FieldValueInvalid"],
        ),
    ] {
        assert_eq!(changed(group, kind, old, change.clone()), expected, "{kind} {change}");
    }
}

/// The status of an autoscaler of the old version was not checked at all.
#[test]
fn an_autoscaler_of_any_version_is_checked_in_its_stored_form() {
    for version in ["v1", "v2"] {
        let kind = by_kind("autoscaling", version, "HorizontalPodAutoscaler").unwrap();
        let scaler = |replicas: i64| {
            json!({"metadata": {"name": "x", "namespace": "n", "resourceVersion": "1"}, "spec": {"maxReplicas": 3},
                "status": {"currentReplicas": replicas, "desiredReplicas": 1}})
        };
        let fields = |new| status_update(kind, &scaler(new), &scaler(1)).into_iter().map(|error| error.field);
        assert_eq!(fields(-1).collect::<Vec<_>>(), ["status.currentReplicas"], "{version}");
        assert_eq!(fields(2).count(), 0, "{version}");
    }
}

#[test]
fn what_is_shared_with_a_valid_object_is_not_looked_into() {
    let kind = by_kind("", "v1", "Pod").unwrap();
    let pod = |image: &str| {
        let spec = json!({"containers": [{"name": "m", "image": image}], "volumes": [{"name": "v", "emptyDir": {}}]});
        let mut pod = json!({"metadata": {"name": "x", "namespace": "n"}, "spec": spec});
        defaults::apply(kind, &mut pod);
        pod
    };
    let (known, mut changed, unlike) = (pod("i"), pod("i"), pod(""));
    assert_eq!(create_like(kind, &known, None), []);
    changed["spec"] = known["spec"].clone();
    assert_eq!(create_like(kind, &changed, Some(&known)), []);
    *changed.pointer_mut("/spec/volumes/0/name").unwrap() = "V".into();
    assert!(changed["spec"]["containers"].is_same(&known["spec"]["containers"]));
    let errors = create(kind, &changed);
    assert_eq!(errors.len(), 1);
    assert_eq!(create_like(kind, &changed, Some(&known)), errors, "what changed is looked at");
    assert_eq!(
        create_like(kind, &unlike, Some(&known)),
        create(kind, &unlike),
        "equal or not, it shares nothing"
    );
    assert_eq!(create_like(kind, &unlike, Some(&unlike)), [], "by pointers alone");
}

/// The paths of devices were looked up among all mounts, one by one: 18 seconds for a Pod of 1.5 MB.
#[test]
fn a_long_list_is_compared_with_another_at_the_cost_of_both() {
    const MANY: usize = 20_000;
    let list = |field: &str, root: &str| -> Vec<_> {
        (0..MANY).map(|n| json!({"name": format!("{root}{n}"), field: format!("/{root}{n}")})).collect()
    };
    let container = json!({"name": "c", "image": "x", "volumeMounts": list("mountPath", "m"), "volumeDevices": list("devicePath", "d")});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": [container]}});
    let began = std::time::Instant::now();
    let found = create(by_kind("", "v1", "Pod").unwrap(), &pod);
    assert!(!found.is_empty(), "no volume is there");
    assert!(began.elapsed() < std::time::Duration::from_secs(20), "{:?}", began.elapsed());
}

/// The errors of an object that was refused for fewer reasons, or for more, than kube-apiserver gives.
#[test]
fn fields_with_errors_are_those_of_kube_apiserver() {
    let mounted = json!({"name": "i", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]});
    let queue = json!({"limitResponse": {"type": "Queue"}});
    let volume =
        json!({"capacity": {"storage": "1"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}});
    let with = |key: &str, value: Value| {
        let mut spec = volume.clone();
        spec.put(key, value);
        spec
    };
    let options = json!({"volume.beta.kubernetes.io/mount-options": "ro"});
    for (group, kind, object, expected) in [
        ("", "LimitRange", json!({"spec": {"limits": [{}, {"type": ""}]}}), "spec.limits[1].type: Duplicate"),
        (
            "",
            "LimitRange",
            json!({"spec": {"limits": [{"type": "Pod", "max": {"cpu": "1"}, "default": {"cpu": "2"}}]}}),
            "",
        ),
        (
            "storage.k8s.io",
            "CSINode",
            json!({"spec": {"drivers": [{"name": "", "nodeID": "a"}, {"nodeID": "b"}]}}),
            "spec.drivers[1].name: Duplicate",
        ),
        (
            "",
            "Pod",
            json!({"spec": {"containers": [], "initContainers": [mounted]}}),
            "spec.initContainers[0].volumeMounts[0].name: Not found",
        ),
        (
            "",
            "Pod",
            json!({"spec": {"containers": [{"image": "i"}, {"image": "i"}]}}),
            "spec.containers[1].name: Duplicate",
        ),
        (
            "flowcontrol.apiserver.k8s.io",
            "PriorityLevelConfiguration",
            json!({"spec": {"type": "Exempt", "limited": queue}}),
            "spec.limited.limitResponse.queuing: Required",
        ),
        (
            "",
            "PersistentVolume",
            json!({"spec": with("volumeAttributesClassName", json!(""))}),
            "spec.csi: Required",
        ),
        (
            "",
            "PersistentVolume",
            json!({"metadata": {"annotations": options}, "spec": volume}),
            "metadata.annotations.volume.beta.kubernetes.io/mount-options: Forbidden",
        ),
    ] {
        let errors = decided(group, kind, object);
        let found = errors.iter().filter(|error| !expected.is_empty() && error.starts_with(expected)).count();
        assert_eq!(found, usize::from(!expected.is_empty()), "{expected}: {errors:?}");
        assert!(!errors.iter().any(|error| error.contains("default value")), "{errors:?}");
    }
}

/// A name that was accepted once is no longer checked, only kept.
#[test]
fn the_service_of_a_stateful_set_is_checked_once() {
    let kind = by_kind("apps", "v1", "StatefulSet").unwrap();
    let set = |service: &str| {
        let mut set = workload(json!({"app": "d"}));
        set.put("metadata", json!({"name": "x", "namespace": "n", "resourceVersion": "1"}));
        set.inner("spec").unwrap().put("serviceName", service);
        defaults::apply(kind, &mut set);
        set
    };
    let errors = |new: &str| {
        let errors = update(kind, &set(new), &set("Odd_name"));
        errors.into_iter().filter(|error| error.field == "spec.serviceName").count()
    };
    assert_eq!((errors("Odd_name"), errors("Other_name")), (0, 1));
}
