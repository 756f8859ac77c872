//! Validation: what an object of a built-in kind must look like, at the depth users meet.
//!
//! Runs after the type check and the defaults, so every field has its declared type. [`create`], [`update`] and
//! [`status_update`] return complaints with the field paths and words of kube-apiserver; none means the write may go on.
//! Rules of `metadata` are in [`crate::meta`].

mod autoscaler;
mod batch;
mod config;
mod container;
mod env;
mod ephemeral;
mod hooks;
mod host_ports;
mod job_policy;
mod namespace;
mod network;
mod network_policy;
mod node;
mod pod;
mod policy;
mod quota;
mod rbac;
mod resources;
mod scheduling;
mod security;
mod selector;
mod service;
mod storage;
mod volume;
mod webhook;
mod workload;

use listwatch_wire::json::Value;
use listwatch_wire::status::FieldError;

use crate::field::{Errors, Path};
use crate::tree::Tree;
use crate::{Kind, meta};

pub use selector::matches as selector_matches;

/// Checks a new object.
#[must_use]
pub fn create(kind: &Kind, new: &Value) -> Vec<FieldError> {
    let mut errors = Errors::new();
    meta::validate_new(new.at("metadata"), kind.is_namespaced(), kind.name_rule, &mut errors);
    finalizers(kind, new, &mut errors);
    content(kind, new, &mut errors);
    match (kind.group, kind.kind) {
        ("", "Pod") => pod::created(new.at("spec"), &mut errors),
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaler::check(kind, new, None, &mut errors),
        _ => {}
    }
    errors.into_vec()
}

/// The kinds that define kinds are as lenient with finalizers as the kinds they define.
fn finalizers(kind: &Kind, new: &Value, errors: &mut Errors) {
    if !matches!(kind.group, "apiextensions.k8s.io" | "apiregistration.k8s.io") {
        meta::validate_qualified_finalizers(new.at("metadata"), errors);
    }
}

/// Checks a changed object against the stored one.
#[must_use]
pub fn update(kind: &Kind, new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Errors::new();
    meta::validate_update(new.at("metadata"), old.at("metadata"), &mut errors);
    finalizers(kind, new, &mut errors);
    content(kind, new, &mut errors);
    change(kind, new, old, &mut errors);
    errors.into_vec()
}

/// Checks a write to the status of an object. Its spec is the stored one and was checked when it was written.
#[must_use]
pub fn status_update(kind: &Kind, new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Errors::new();
    meta::validate_update(new.at("metadata"), old.at("metadata"), &mut errors);
    finalizers(kind, new, &mut errors);
    status(kind, new, old, &mut errors);
    errors.into_vec()
}

/// Checks the debugging containers a Pod is given while it runs.
#[must_use]
pub fn ephemeral_update(kind: &Kind, new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Errors::new();
    meta::validate_update(new.at("metadata"), old.at("metadata"), &mut errors);
    finalizers(kind, new, &mut errors);
    pod::pod(new, &mut errors);
    pod::ephemeral_change(new.at("spec"), old.at("spec"), &mut errors);
    errors.into_vec()
}

/// Checks what the containers of a running Pod may use from now on.
#[must_use]
pub fn resize_update(kind: &Kind, new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Errors::new();
    meta::validate_update(new.at("metadata"), old.at("metadata"), &mut errors);
    finalizers(kind, new, &mut errors);
    pod::pod(new, &mut errors);
    pod::resize_change(new.at("spec"), old.at("spec"), &mut errors);
    errors.into_vec()
}

/// What holds for an object by itself.
fn content(kind: &Kind, new: &Value, errors: &mut Errors) {
    match (kind.group, kind.kind) {
        ("", "ConfigMap") => config::config_map(new, errors),
        ("", "Namespace") => namespace::namespace(new, errors),
        ("", "Secret") => config::secret(new, errors),
        ("", "Pod") => pod::pod(new, errors),
        ("", "PodTemplate") => pod::template(new.at("template"), &Path::root("template"), None, errors),
        ("", "Service") => service::service(new, errors),
        ("", "Endpoints") => network::endpoints(new, errors),
        ("", "Event") => policy::event(new, errors),
        ("events.k8s.io", "Event") => policy::new_event(new, errors),
        ("", "Node") => node::node(new, errors),
        ("node.k8s.io", "RuntimeClass") => node::runtime_class(new, errors),
        ("", "LimitRange") => quota::limit_range(new, errors),
        ("", "ResourceQuota") => quota::resource_quota(new, errors),
        ("", "PersistentVolume") => storage::volume(new, errors),
        ("", "PersistentVolumeClaim") => storage::claim(new, errors),
        ("", "ReplicationController") => workload::replication_controller(new, errors),
        ("apps", "ControllerRevision") => errors.non_negative(&Path::root("revision"), new.int("revision")),
        ("apps", "Deployment") => workload::deployment(new, errors),
        ("apps", "ReplicaSet") => workload::replica_set(new, errors),
        ("apps", "StatefulSet") => workload::stateful_set(new, errors),
        ("apps", "DaemonSet") => workload::daemon_set(new, errors),
        ("batch", "Job") => batch::job(new, errors),
        ("batch", "CronJob") => batch::cron_job(new, errors),
        ("autoscaling", "Scale") => {
            errors.non_negative(&Path::root("spec").child("replicas"), new.at("spec").int("replicas"))
        }
        ("coordination.k8s.io", "Lease") => policy::lease(new, errors),
        ("policy", "PodDisruptionBudget") => policy::disruption_budget(new, errors),
        ("scheduling.k8s.io", "PriorityClass") => policy::priority_class(new, errors),
        ("storage.k8s.io", "StorageClass") => storage::class(new, errors),
        ("networking.k8s.io", "Ingress") => network::ingress(new, errors),
        ("networking.k8s.io", "IngressClass") => network::ingress_class(new, errors),
        ("networking.k8s.io", "NetworkPolicy") => network_policy::check(new, errors),
        ("discovery.k8s.io", "EndpointSlice") => network::endpoint_slice(new, errors),
        ("rbac.authorization.k8s.io", "Role") => rbac::role(new, true, errors),
        ("rbac.authorization.k8s.io", "ClusterRole") => rbac::role(new, false, errors),
        ("rbac.authorization.k8s.io", "RoleBinding") => rbac::binding(new, true, errors),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding") => rbac::binding(new, false, errors),
        ("certificates.k8s.io", "CertificateSigningRequest") => policy::certificate_request(new, errors),
        (
            "admissionregistration.k8s.io",
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
        ) => {
            webhook::configuration(new, errors);
        }
        _ => {}
    }
}

/// What holds between an object and its predecessor.
fn change(kind: &Kind, new: &Value, old: &Value, errors: &mut Errors) {
    match (kind.group, kind.kind) {
        ("", "ConfigMap") => config::immutable(new, old, &["data", "binaryData"], errors),
        ("", "Secret") => {
            errors.immutable(&Path::root("type"), new.at("type"), old.at("type"));
            config::immutable(new, old, &["data"], errors);
        }
        ("", "Pod") => pod::change(new, old, errors),
        ("", "Service") => service::change(new, old, errors),
        ("", "Node") => node::change(new, old, errors),
        ("", "ResourceQuota") => same_spec(new, old, &["scopes"], errors),
        ("node.k8s.io", "RuntimeClass") => {
            errors.immutable(&Path::root("handler"), new.at("handler"), old.at("handler"));
        }
        ("apps", "ControllerRevision") => {
            errors.immutable(&Path::root("data"), new.at("data"), old.at("data"));
        }
        ("", "PersistentVolumeClaim") => storage::claim_change(new, old, errors),
        ("", "PersistentVolume") => storage::volume_change(new, old, errors),
        ("apps", "Deployment" | "ReplicaSet" | "DaemonSet") => same_spec(new, old, &["selector"], errors),
        ("apps", "StatefulSet") => workload::stateful_set_change(new, old, errors),
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaler::check(kind, new, Some(old), errors),
        ("batch", "Job") => batch::job_change(new, old, errors),
        ("scheduling.k8s.io", "PriorityClass") => policy::priority_class_change(new, old, errors),
        ("storage.k8s.io", "StorageClass") => storage::class_change(new, old, errors),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
            rbac::binding_change(new, old, errors)
        }
        ("discovery.k8s.io", "EndpointSlice") => {
            errors.immutable(&Path::root("addressType"), new.at("addressType"), old.at("addressType"));
        }
        ("networking.k8s.io", "IngressClass") => {
            let path = Path::root("spec");
            let (new, old) = (new.at("spec"), old.at("spec"));
            errors.immutable(&path.child("controller"), new.at("controller"), old.at("controller"));
        }
        _ => {}
    }
}

/// Fields of the spec that stay as they were made.
fn same_spec(new: &Value, old: &Value, keys: &[&str], errors: &mut Errors) {
    let spec = Path::root("spec");
    for key in keys {
        errors.immutable(&spec.child(key), new.at("spec").at(key), old.at("spec").at(key));
    }
}

fn status(kind: &Kind, new: &Value, old: &Value, errors: &mut Errors) {
    match (kind.group, kind.kind) {
        ("", "Pod") => pod::status(new, old, errors),
        ("", "Namespace") => namespace::status(new, errors),
        ("apps", "Deployment" | "ReplicaSet" | "StatefulSet") | ("", "ReplicationController") => {
            workload::replica_counts(new.at("status"), errors);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
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
    fn complaints_of_new_objects() {
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
                    "spec.restartPolicy: Unsupported value: \"Maybe\": supported values: \"Always\", \"Never\", \"OnFailure\"",
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
                vec![
                    "spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\"",
                ],
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
                    "rules[0].verbs: Required value: verbs must contain at least one value",
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
                vec!["spec: Invalid value: {}: either `defaultBackend` or `rules` must be specified"],
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
    fn what_may_not_change() {
        let pod = json!({"spec": {"containers": [{"name": "a", "image": "i"}]}});
        let claim = json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
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
                vec!["spec FieldValueForbidden"],
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

    #[test]
    fn what_was_added_to_a_running_pod_stays() {
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
        let errors = resize_update(kind, &pod(json!({})), &old);
        assert_eq!(errors.iter().map(|error| &*error.field).collect::<Vec<_>>(), ["spec"]);
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
}
