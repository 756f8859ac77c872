//! Validation of a container's environment, and of the downward API that it shares with volumes.
//!
//! The environment and volumes may name different fields of the Pod: labels and annotations as a whole only fit into a
//! file. A field that can be named nowhere is an error of conversion in kube-apiserver, with another text than one that
//! is not supported here, hence two lists. Divisors are a closed set of units. The environment is not expanded here;
//! references such as `$(NAME)` are the kubelet's.

use listwatch_wire::json::Value;
use listwatch_wire::names::label_key_errors;

use crate::field::{Errors, Path};
use crate::quantity;
use crate::rules::{At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] = checks![
    environment_field_is_supported,
    resource_is_supported,
    volume_field_is_supported,
    volume_resource_is_supported
];

/// Fields of a Pod that its environment may name.
const IN_ENVIRONMENT: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// Fields of a Pod that its volumes may name.
const IN_VOLUMES: &[&str] =
    &["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

/// Fields that can be named at all, though not everywhere.
const ANYWHERE: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.host",
    "status.phase",
];

const RESOURCES: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

fn environment_field_is_supported(at: &At<'_>, errors: &mut Errors) {
    field_selector(at.value, IN_ENVIRONMENT, at.path, errors);
}

fn resource_is_supported(at: &At<'_>, errors: &mut Errors) {
    resource_selector(at.value, false, at.path, errors);
}

fn volume_field_is_supported(at: &At<'_>, errors: &mut Errors) {
    field_selector(at.value, IN_VOLUMES, at.path, errors);
}

fn volume_resource_is_supported(at: &At<'_>, errors: &mut Errors) {
    resource_selector(at.value, true, at.path, errors);
}

/// A field of the Pod, perhaps one label or annotation of it. Null is no selector.
fn field_selector(selector: &Value, allowed: &[&str], path: &Path<'_>, errors: &mut Errors) {
    if selector.is_null() {
        return;
    }
    let field = selector.text("fieldPath");
    if field.is_empty() {
        errors.required(&path.child("fieldPath"), "");
        return;
    }
    let version = selector.text("apiVersion");
    if !matches!(version, "" | "v1") {
        let detail = format!(
            "error converting fieldPath: field label conversion not supported for kind: {version}, Kind=Pod"
        );
        errors.invalid(&path.child("fieldPath"), field, detail);
        return;
    }
    match subscripted(field) {
        Some(("metadata.annotations", key)) => {
            let key = key.to_lowercase();
            errors.invalid_all(path, &key, label_key_errors(&key));
        }
        Some(("metadata.labels", key)) => errors.invalid_all(path, key, label_key_errors(key)),
        Some(_) | None if !is_known(field) => {
            let detail = format!("error converting fieldPath: field label not supported: {field}");
            errors.invalid(&path.child("fieldPath"), field, detail);
        }
        Some(_) => {}
        None if !allowed.contains(&field) => {
            errors.not_supported(&path.child("fieldPath"), field, allowed);
        }
        None => {}
    }
}

fn is_known(field: &str) -> bool {
    IN_ENVIRONMENT.contains(&field) || ANYWHERE.contains(&field)
}

/// The parts of `path['key']`.
fn subscripted(field: &str) -> Option<(&str, &str)> {
    field.strip_suffix("']")?.split_once("['")
}

/// An amount that a container asks for or is limited to. In a volume it must say which container.
fn resource_selector(selector: &Value, in_volume: bool, path: &Path<'_>, errors: &mut Errors) {
    if selector.is_null() {
        return;
    }
    let resource = selector.text("resource");
    let huge = resource.starts_with("limits.hugepages-") || resource.starts_with("requests.hugepages-");
    if in_volume && selector.text("containerName").is_empty() {
        errors.required(&path.child("containerName"), "");
    } else if resource.is_empty() {
        errors.required(&path.child("resource"), "");
    } else if !RESOURCES.contains(&resource) && !huge {
        errors.not_supported(&path.child("resource"), resource, RESOURCES);
    }
    divisor(selector, resource, &path.child("divisor"), errors);
}

fn divisor(selector: &Value, resource: &str, path: &Path<'_>, errors: &mut Errors) {
    const SIZES: [&str; 13] =
        ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
    let given = quantity::canonical(selector.text("divisor")).unwrap_or_default();
    if given.is_empty() || given == "0" {
        return;
    }
    let (fits, detail) = if resource.ends_with(".cpu") {
        (matches!(&*given, "1m" | "1"), "only divisor's values 1m and 1 are supported with the cpu resource")
    } else {
        (
            SIZES.contains(&&*given),
            "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with this resource",
        )
    };
    if !fits {
        errors.invalid(path, resource, detail);
    }
}
