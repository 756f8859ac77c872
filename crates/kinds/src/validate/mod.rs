//! Validation: whether an object of a built-in kind may be stored.
//!
//! Runs after the type check and the defaults, so every field has its declared type. [`create`], [`update`] and
//! [`status_update`] return field errors with the paths and words of kube-apiserver; none means the write may go on.
//!
//! Most rules are rows of the tables in [`crate::rules`]; rules of `metadata` are in [`crate::meta`]. The files here hold what spans
//! fields: functions named after their rule, which a table names where they hold. To add one, write it in the file of its kind,
//! list it in that file's `CHECKS`, and put `check=NAME` into a row.

mod autoscaler;
mod certificate;
mod config;
mod container;
mod device;
mod env;
mod event;
mod flow;
mod ingress;
mod job;
mod job_policy;
mod job_status;
mod metadata;
mod network_policy;
mod node;
mod node_affinity;
mod operating_system;
mod pod;
mod pod_change;
mod pod_status;
mod policy;
mod projected;
mod quota;
mod registration;
mod resource_slice;
mod resources;
mod scheduling;
mod selector;
mod service;
mod service_address;
mod slices;
mod storage;
mod storage_class;
mod template;
#[cfg(test)]
mod tests;
mod time_zone;
mod volume;
mod webhook;
mod workload;

use listwatch_wire::json::Value;
use listwatch_wire::status::FieldError;

use crate::field::Errors;
use crate::rules::{self, Check, ObjectPart};
use crate::tree::Tree;
use crate::{Kind, convert, meta};

pub use selector::matches as selector_matches;

/// Lists functions under their own names.
macro_rules! checks {
    ($($name:ident),* $(,)?) => { &[$((stringify!($name), $name as crate::rules::Check)),*] };
}
use checks;

/// Every function that a row may name.
pub(crate) fn all_checks() -> impl Iterator<Item = (&'static str, Check)> {
    let files: [&[(&str, Check)]; 30] = [
        autoscaler::CHECKS,
        certificate::CHECKS,
        config::CHECKS,
        container::CHECKS,
        env::CHECKS,
        event::CHECKS,
        flow::CHECKS,
        ingress::CHECKS,
        job::CHECKS,
        job_policy::CHECKS,
        metadata::CHECKS,
        network_policy::CHECKS,
        node::CHECKS,
        node_affinity::CHECKS,
        operating_system::CHECKS,
        pod::CHECKS,
        pod_change::CHECKS,
        policy::CHECKS,
        projected::CHECKS,
        quota::CHECKS,
        registration::CHECKS,
        resources::CHECKS,
        scheduling::CHECKS,
        selector::CHECKS,
        service::CHECKS,
        slices::CHECKS,
        storage::CHECKS,
        storage_class::CHECKS,
        template::CHECKS,
        volume::CHECKS,
    ];
    let more: [&[(&str, Check)]; 6] = [
        device::CHECKS,
        resource_slice::CHECKS,
        service_address::CHECKS,
        time_zone::CHECKS,
        webhook::CHECKS,
        workload::CHECKS,
    ];
    files.into_iter().chain(more).flatten().copied()
}

/// Checks a new object.
#[must_use]
pub fn create(kind: &Kind, new: &Value) -> Vec<FieldError> {
    let mut errors = before_all_else(kind, new);
    if !errors.is_empty() {
        return errors.into_vec();
    }
    meta::validate_new(new.at("metadata"), kind.is_namespaced(), kind.name_rule, &mut errors);
    finalizers(kind, new, &mut errors);
    content(kind, new, None, &mut errors);
    errors.into_vec()
}

/// Runs the rules that keep the others from being asked.
fn before_all_else(kind: &Kind, new: &Value) -> Errors {
    let mut errors = Errors::new();
    if (kind.group, kind.kind) == ("", "Service") {
        service_address::before_allocation(new, &mut errors);
    }
    errors
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
    let mut errors = before_all_else(kind, new);
    if !errors.is_empty() {
        return errors.into_vec();
    }
    meta::validate_update(new.at("metadata"), old.at("metadata"), &mut errors);
    finalizers(kind, new, &mut errors);
    content(kind, new, Some(old), &mut errors);
    errors.into_vec()
}

/// Checks a write to the status of an object. Its spec is the stored one and was checked when it was written.
#[must_use]
pub fn status_update(kind: &Kind, new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Errors::new();
    meta::validate_update(new.at("metadata"), old.at("metadata"), &mut errors);
    finalizers(kind, new, &mut errors);
    rules::run(kind, ObjectPart::Status, new, Some(old), &mut errors);
    match (kind.group, kind.kind) {
        ("", "Pod") => pod_status::status(new, old, &mut errors),
        ("", "Namespace") => config::namespace_status(new, &mut errors),
        ("", "Service") => service::status(new, &mut errors),
        ("", "Node") => node::status(new, &mut errors),
        ("batch", "Job") => job_status::status(new, old, &mut errors),
        _ => {}
    }
    errors.into_vec()
}

/// Checks the finalizers that a namespace is to have from now on.
#[must_use]
pub fn finalize_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Errors::new();
    meta::validate_update(new.at("metadata"), old.at("metadata"), &mut errors);
    config::namespace_finalizers(new, &mut errors);
    errors.into_vec()
}

/// Checks the ephemeral containers that a running Pod is given.
#[must_use]
pub fn ephemeral_update(kind: &Kind, new: &Value, old: &Value) -> Vec<FieldError> {
    subresource_update(kind, new, old, pod_change::ephemeral_containers)
}

/// Checks the resources that the containers of a running Pod may use from now on.
#[must_use]
pub fn resize_update(kind: &Kind, new: &Value, old: &Value) -> Vec<FieldError> {
    subresource_update(kind, new, old, pod_change::resize)
}

fn subresource_update(
    kind: &Kind,
    new: &Value,
    old: &Value,
    change: fn(&Value, &Value, &mut Errors),
) -> Vec<FieldError> {
    let mut errors = Errors::new();
    meta::validate_update(new.at("metadata"), old.at("metadata"), &mut errors);
    finalizers(kind, new, &mut errors);
    pod_change::without_freeze(kind, new, &mut errors);
    change(new.at("spec"), old.at("spec"), &mut errors);
    errors.into_vec()
}

/// Runs the rules of a kind. An autoscaler of any version is checked in the form that is stored, which is the one that errors
/// are about.
fn content(kind: &Kind, new: &Value, old: Option<&Value>, errors: &mut Errors) {
    if (kind.group, kind.kind, kind.version) != ("autoscaling", "HorizontalPodAutoscaler", "v1") {
        rules::run(kind, ObjectPart::Main, new, old, errors);
        return;
    }
    let Some(stored) = crate::by_kind(kind.group, "v2", kind.kind) else { return };
    let mut converted = new.clone();
    convert::to_stored(kind, &mut converted);
    rules::run(stored, ObjectPart::Main, &converted, old, errors);
}
