//! Validation: whether an object of a built-in kind may be stored.
//!
//! Runs after the type check and the defaults, so every field has its declared type. [`create`], [`update`] and
//! [`status_update`] return field errors with the paths and words of kube-apiserver; none means the write may go on.
//!
//! Most rules are rows of the tables in [`crate::rules`]; rules of `metadata` are in [`crate::meta`]. The files here
//! hold what spans fields: functions named after their rule, which a table names where they hold. To add one, write it
//! in the file of its kind, list it in that file's `CHECKS`, and put `check=NAME` into a row.
//!
//! A check reads what is below its place and reports under the path that it was given. It runs only where something
//! there changed, so it must not depend on other parts of the object; one that does is put at the struct that has
//! both.

/// Lists functions under their own names.
macro_rules! checks {
    ($($name:ident),* $(,)?) => { &[$((stringify!($name), $name as crate::rules::Check)),*] };
}

/// The `CHECKS` of files, one after the other.
macro_rules! checks_of {
    { $($file:ident)* } => { [$($file::CHECKS),*].into_iter().flatten().copied() };
}

mod certificate;
mod config;
mod container;
mod device;
mod flow;
pub(crate) mod freeze;
mod job;
mod job_indexes;
mod node;
mod object_name;
mod pod;
mod pod_change;
mod pod_resize;
mod pod_status;
mod projected;
mod quota;
mod resources;
mod scheduling;
pub(crate) mod service_address;
mod slices;
mod storage;
mod storage_class;
mod template;
#[cfg(test)]
mod tests;
mod trust_bundle;
mod volume;
mod webhook;

use listwatch_wire::json::Value;
use listwatch_wire::status::FieldError;

use crate::field::{Errors, Path};
use crate::rules::{self, Check, ObjectPart};
use crate::tree::Tree;
use crate::{Kind, convert, meta};

pub use crate::selector::matches as selector_matches;

/// Every function that a row may name.
pub(crate) fn all_checks() -> impl Iterator<Item = (&'static str, Check)> {
    checks_of! {
        certificate config container device flow job job_indexes node object_name pod pod_change pod_status projected quota
        resources scheduling slices storage storage_class template trust_bundle volume webhook
    }
}

/// Calls back for each element of a list, with its path.
fn each<'a>(parent: &'a Value, list: &str, path: &Path<'_>, mut visit: impl FnMut(&'a Value, &Path<'_>)) {
    let path = path.child(list);
    for (index, item) in parent.list(list).iter().enumerate() {
        visit(item, &path.index(index));
    }
}

/// Checks a new object.
///
/// ```
/// use listwatch_kinds::{table, validate};
/// use listwatch_wire::json::json;
///
/// let service = table::by_kind("", "v1", "Service").unwrap();
/// let errors = validate::create(service, &json!({
///     "metadata": {"name": "web", "namespace": "default"},
///     "spec": {"type": "ClusterIP", "sessionAffinity": "None", "ports": [{"port": 0, "protocol": "TCP"}]},
/// }));
/// let paths: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
/// assert!(paths.contains(&"spec.ports[0].port"), "{paths:?}");
/// ```
#[must_use]
pub fn create(kind: &Kind, new: &Value) -> Vec<FieldError> {
    create_like(kind, new, None)
}

/// Checks a new object, some fields of which may be those of another one that was found valid: what the two share is not looked
/// into again.
#[must_use]
pub fn create_like(kind: &Kind, new: &Value, valid: Option<&Value>) -> Vec<FieldError> {
    let mut errors = validate_first(kind, new);
    if !errors.is_empty() {
        return errors.into_vec();
    }
    let (meta, scoped) = (new.at("metadata"), kind.is_namespaced());
    if !kind.strategy.metadata_last {
        meta::validate_new(meta, scoped, kind.name_rule, &mut errors);
        finalizers(kind, new, &mut errors);
    }
    match valid.filter(|_| kind.stored_as.is_none()) {
        Some(valid) => rules::run_like(kind, new, valid, &mut errors),
        None => content(kind, ObjectPart::Main, new, None, &mut errors),
    }
    if kind.strategy.metadata_last && errors.is_empty() {
        meta::validate_new(meta, scoped, kind.name_rule, &mut errors);
    }
    errors.into_vec()
}

/// Runs the rules that keep the others from being asked.
fn validate_first(kind: &Kind, new: &Value) -> Errors {
    let mut errors = Errors::new();
    (kind.strategy.validate_first)(new, &mut errors);
    errors
}

/// The kinds that define kinds are as lenient with finalizers as the kinds they define.
fn finalizers(kind: &Kind, new: &Value, errors: &mut Errors) {
    if kind.strategy.qualified_finalizers {
        meta::validate_qualified_finalizers(new.at("metadata"), errors);
    }
}

/// Checks a changed object against the stored one.
#[must_use]
pub fn update(kind: &Kind, new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = validate_first(kind, new);
    if !errors.is_empty() {
        return errors.into_vec();
    }
    meta::validate_update(new.at("metadata"), old.at("metadata"), &mut errors);
    if kind.flags.rechecks_prefix {
        meta::validate_prefix(new.at("metadata"), kind.name_rule, &mut errors);
    }
    finalizers(kind, new, &mut errors);
    content(kind, ObjectPart::Main, new, Some(old), &mut errors);
    errors.into_vec()
}

/// Checks a write to the status of an object. Its spec is the stored one and was checked when it was written.
#[must_use]
pub fn status_update(kind: &Kind, new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Errors::new();
    meta::validate_update(new.at("metadata"), old.at("metadata"), &mut errors);
    finalizers(kind, new, &mut errors);
    if kind.group.is_empty() && kind.kind == "Pod" {
        pod_change::status_annotations(new, old, &mut errors);
    }
    content(kind, ObjectPart::Status, new, Some(old), &mut errors);
    errors.into_vec()
}

/// Checks the finalizers that a namespace is to have from now on.
#[must_use]
pub fn finalize_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Errors::new();
    meta::validate_update(new.at("metadata"), old.at("metadata"), &mut errors);
    rules::run_variant("core.v1.Namespace@finalize", new, &mut errors);
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
    let mut errors = Errors::new();
    rules::run_variant("core.v1.Pod@resize", old, &mut errors);
    if !errors.is_empty() {
        return errors.into_vec();
    }
    subresource_update(kind, new, old, pod_resize::resize)
}

/// The checks that every update through a subresource shares, and those of the subresource itself.
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
    change(new, old, &mut errors);
    errors.into_vec()
}

/// Runs the rules of a kind. An autoscaler of any version is checked in the form that is stored, which is the one that errors
/// are about.
fn content(kind: &Kind, part: ObjectPart, new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let stored = kind.stored_as.filter(|(group, _)| *group == kind.group);
    let Some(stored) = stored.and_then(|(group, version)| crate::by_kind(group, version, kind.kind)) else {
        rules::run(kind, part, new, old, errors);
        return;
    };
    let mut converted = new.clone();
    convert::to_validated(kind, &mut converted);
    rules::run(stored, part, &converted, old, errors);
}
