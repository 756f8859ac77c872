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
#[cfg(test)]
mod tests;
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
