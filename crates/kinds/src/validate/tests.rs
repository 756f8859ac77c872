//! Validation of whole objects: field errors as users read them.
//!
//! Each case is an object and its complete list of errors, so that an additional error fails the test as well as a
//! missing one. Defaults are applied first, as in a request. Parsing of the tables is tested in `rules`.

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

/// A user with permission to write a Pod or its status could turn it into a mirror Pod, and its kubelet lost access to
/// what the Pod needs.
#[test]
fn the_annotations_that_decide_about_a_pod_stay() {
    let kind = by_kind("", "v1", "Pod").unwrap();
    let pod = |annotations: Value| {
        let mut pod = json!({
            "metadata": {"name": "x", "namespace": "n", "resourceVersion": "1", "annotations": annotations},
            "spec": {"nodeName": "a", "containers": [{"name": "c", "image": "i"}]},
        });
        defaults::apply(kind, &mut pod);
        pod
    };
    let mirror = |value: &str| json!({"kubernetes.io/config.mirror": value});
    let profile = |value: &str| json!({"container.apparmor.security.beta.kubernetes.io/c": value});
    for (old, new, expected) in [
        (
            json!({}),
            mirror("h"),
            "[kubernetes.io/config.mirror]: Forbidden: may not add mirror pod annotation",
        ),
        (
            mirror("h"),
            json!({}),
            "[kubernetes.io/config.mirror]: Forbidden: may not remove or update mirror pod annotation",
        ),
        (
            mirror("h"),
            mirror("i"),
            "[kubernetes.io/config.mirror]: Forbidden: may not remove or update mirror pod annotation",
        ),
        (mirror("h"), mirror("h"), ""),
        (json!({}), json!({"other": "o"}), ""),
        (
            json!({}),
            profile("unconfined"),
            "[container.apparmor.security.beta.kubernetes.io/c]: Forbidden: may not add AppArmor annotations",
        ),
        (
            profile("runtime/default"),
            profile("unconfined"),
            "[container.apparmor.security.beta.kubernetes.io/c]: Forbidden: may not remove or update AppArmor annotations",
        ),
    ] {
        let (old, new) = (pod(old), pod(new));
        for errors in [update(kind, &new, &old), status_update(kind, &new, &old)] {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            let expected: Vec<String> = [expected]
                .iter()
                .filter(|text| !text.is_empty())
                .map(|text| format!("metadata.annotations{text}"))
                .collect();
            assert_eq!(errors, expected);
        }
    }
}

#[test]
fn ephemeral_containers_cannot_be_removed() {
    let kind = by_kind("", "v1", "Pod").unwrap();
    let pod = |ephemeral: Value| {
        let mut pod = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": [{"name": "a", "image": "i"}], "ephemeralContainers": ephemeral}});
        defaults::apply(kind, &mut pod);
        pod
    };
    let old = pod(json!([{"name": "d", "image": "i"}]));
    for (ephemeral, expected) in [
        (json!([{"name": "d", "image": "i"}, {"name": "e", "image": "i"}]), vec![]),
        (json!([{"name": "d", "image": "j"}]), vec!["spec.ephemeralContainers"]),
        (json!([]), vec!["spec.ephemeralContainers"]),
    ] {
        let fields: Vec<_> = ephemeral_update(kind, &pod(ephemeral.clone()), &old)
            .into_iter()
            .map(|error| error.field)
            .collect();
        assert_eq!(fields, expected, "{ephemeral}");
    }
}

#[test]
fn a_resized_pod_keeps_its_quality_of_service() {
    let kind = by_kind("", "v1", "Pod").unwrap();
    let pod = |resources: Value| {
        let mut pod = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": [{"name": "a", "image": "i", "resources": resources}]}});
        defaults::apply(kind, &mut pod);
        pod
    };
    let old = pod(json!({"requests": {"cpu": "1"}}));
    assert_eq!(resize_update(kind, &pod(json!({"requests": {"cpu": "2"}})), &old), []);
    let mut windows = old.clone();
    windows["spec"]["os"] = json!({"name": "windows"});
    let errors = resize_update(kind, &windows, &windows);
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(errors, ["[]: Forbidden: windows pods cannot be resized"]);
    let errors = resize_update(kind, &pod(json!({})), &old);
    let fields: Vec<&str> = errors.iter().map(|error| &*error.field).collect();
    assert_eq!(fields, ["spec", "spec.containers[0].resources.requests"]);
}

/// A resize could take away limits, claim disk and change the policy of restarts.
#[test]
fn a_resize_changes_amounts_of_cpu_and_memory_only() {
    let kind = by_kind("", "v1", "Pod").unwrap();
    let pod = |resources: Value, policy: &str| {
        let policy = json!([{"resourceName": "cpu", "restartPolicy": policy}, {"resourceName": "memory", "restartPolicy": "NotRequired"}]);
        let mut pod = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": [{"name": "a", "image": "i", "resources": resources, "resizePolicy": policy}]}});
        defaults::apply(kind, &mut pod);
        pod
    };
    let old = pod(json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}), "NotRequired");
    for (resources, policy, expected) in [
        (json!({"requests": {"cpu": "2"}, "limits": {"cpu": "3", "memory": "1Gi"}}), "NotRequired", vec![]),
        (json!({"requests": {"cpu": "1"}}), "NotRequired", vec!["spec.containers[0].resources.limits"]),
        (
            json!({"requests": {"cpu": "1", "ephemeral-storage": "1Gi"}, "limits": {"cpu": "2"}}),
            "NotRequired",
            vec!["spec"],
        ),
        (json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}), "RestartContainer", vec!["spec"]),
    ] {
        let errors = resize_update(kind, &pod(resources, policy), &old);
        assert_eq!(errors.iter().map(|error| &*error.field).collect::<Vec<_>>(), expected);
    }
    let mut two = old.clone();
    two["spec"]["containers"].as_array_mut().unwrap().push(json!({"name": "b", "image": "i"}));
    let errors = resize_update(kind, &two, &old);
    assert!(errors.iter().any(|error| error.field == "spec.containers"), "{errors:?}");
}

/// Of a Windows Pod the security of containers was not looked at, nor whether all of them run on the host.
#[test]
fn a_windows_pod_has_no_settings_of_linux() {
    let kind = by_kind("", "v1", "Pod").unwrap();
    let errors = |spec: Value| -> Vec<String> {
        let mut pod = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": spec});
        defaults::apply(kind, &mut pod);
        create(kind, &pod).into_iter().map(|error| error.field).collect()
    };
    let container = |security: Value| json!([{"name": "a", "image": "i", "securityContext": security}]);
    let own = json!({"privileged": false, "capabilities": {"drop": ["ALL"]}});
    let fields = errors(json!({"os": {"name": "windows"}, "containers": container(own)}));
    let expected =
        ["capabilities", "privileged"].map(|key| format!("spec.containers[0].securityContext.{key}"));
    assert_eq!(fields, expected);
    let plain = json!([{"name": "a", "image": "i"}]);
    let users = errors(json!({"os": {"name": "windows"}, "hostUsers": false, "containers": plain}));
    assert_eq!(users, ["spec.hostUsers"]);
    let host = json!({"windowsOptions": {"hostProcess": true}});
    assert_eq!(errors(json!({"containers": container(host.clone())})), ["spec.hostNetwork"]);
    let mut both = json!({"hostNetwork": true, "containers": container(host)});
    both["containers"].as_array_mut().unwrap().push(json!({"name": "b", "image": "i"}));
    assert_eq!(errors(both), ["spec"]);
}

#[test]
fn the_image_of_a_running_container_may_change() {
    let mut old = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": [{"name": "a", "image": "i"}]}});
    let kind = by_kind("", "v1", "Pod").unwrap();
    defaults::apply(kind, &mut old);
    let mut new = old.clone();
    *new.pointer_mut("/spec/containers/0/image").unwrap() = json!("j");
    assert_eq!(update(kind, &new, &old), []);
}

/// StatefulSets whose containers mount a claim template were refused.
#[test]
fn containers_may_mount_the_claims_of_a_stateful_set() {
    let set = |mounted: &str| {
        json!({"metadata": {"name": "db"}, "spec": {
            "podManagementPolicy": "OrderedReady", "updateStrategy": {"type": "RollingUpdate"},
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Always", "containers": [
                {"name": "c", "image": "i", "volumeMounts": [{"name": mounted, "mountPath": "/d"}]},
            ]}},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}}],
        }})
    };
    let kind = by_kind("apps", "v1", "StatefulSet").unwrap();
    let missing = |set: Value| {
        create(kind, &set).into_iter().filter(|error| error.field.contains("volumeMounts")).count()
    };
    assert_eq!((missing(set("data")), missing(set("other"))), (0, 1));
}

/// The fields with errors when a Job of three completions gets a status.
fn job_status_fields(new: Value, old: Value) -> Vec<String> {
    let kind = by_kind("batch", "v1", "Job").unwrap();
    let job = |status: Value| json!({"metadata": {"name": "x", "namespace": "n", "resourceVersion": "1"}, "spec": {"completions": 3, "parallelism": 1}, "status": status});
    status_update(kind, &job(new), &job(old)).into_iter().map(|error| error.field).collect()
}

#[test]
fn a_job_completes_with_its_times_and_its_reason() {
    let done = json!({"startTime": "2020-01-01T00:00:00Z", "completionTime": "2020-01-01T00:00:01Z", "conditions": [
        {"type": "SuccessCriteriaMet", "status": "True"}, {"type": "Complete", "status": "True"}]});
    assert_eq!(job_status_fields(done, json!({})), [""; 0]);
    let bare = json!({"conditions": [{"type": "Complete", "status": "True"}]});
    assert_eq!(
        job_status_fields(bare, json!({})),
        ["status.completionTime", "status.conditions", "status.startTime"]
    );
}

#[test]
fn counters_and_outcomes_of_a_job_are_not_taken_back() {
    let failed = json!({"failed": 2, "startTime": "2020-01-01T00:00:00Z", "conditions": [
        {"type": "FailureTarget", "status": "True"}, {"type": "Failed", "status": "True"}]});
    assert_eq!(job_status_fields(failed.clone(), failed.clone()), [""; 0]);
    let less = json!({"failed": 1, "startTime": "2020-01-01T00:00:00Z"});
    assert_eq!(job_status_fields(less, failed), ["status.conditions", "status.conditions", "status.failed"]);
}

#[test]
fn a_job_status_that_breaks_a_newer_rule_can_still_be_written() {
    let old = json!({"ready": 3, "active": 1});
    assert_eq!(job_status_fields(json!({"ready": 3, "active": 1, "succeeded": 1}), old), [""; 0]);
    assert_eq!(job_status_fields(json!({"ready": 3, "active": 1}), json!({})), ["status.ready"]);
}

#[test]
fn indexes_of_a_job_are_in_order_and_end_in_one_way() {
    let status = json!({"completedIndexes": "0-1", "failedIndexes": "1,0"});
    let fields = job_status_fields(status, json!({}));
    // The completion mode is not Indexed, and failed indexes are not counted.
    assert_eq!(fields, ["status.completedIndexes", "status.failedIndexes", "status.failedIndexes"]);
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
