//! Containers of a pod spec.

use std::cmp::Ordering;
use std::collections::HashSet;

use listwatch_wire::json::Value;
use listwatch_wire::names::{label_errors, label_key_errors};

use super::{env, ephemeral, hooks, host_ports, resources, security};
use crate::field::{Errors, Path};
use crate::names;
use crate::quantity;
use crate::tree::Tree;

pub(super) const PORT_RANGE: &str = "must be between 1 and 65535, inclusive";
pub(super) const PROTOCOLS: &[&str] = &["TCP", "UDP", "SCTP"];
const PULL_POLICIES: &[&str] = &["Always", "IfNotPresent", "Never"];

/// Checks all containers of a pod spec; their names are unique over all kinds of them.
pub(super) fn all(spec: &Value, volumes: &HashSet<&str>, path: &Path<'_>, errors: &mut Errors) {
    let seen = regular(spec, volumes, path, errors);
    host_ports::check(spec, path, errors);
    ephemeral::check(spec, volumes, seen, &path.child("ephemeralContainers"), errors);
}

fn regular<'a>(
    spec: &'a Value,
    volumes: &HashSet<&str>,
    path: &Path<'_>,
    errors: &mut Errors,
) -> HashSet<&'a str> {
    if spec.count("containers") == 0 {
        errors.required(&path.child("containers"), "");
    }
    let mut seen = HashSet::new();
    for key in ["containers", "initContainers"] {
        let path = path.child(key);
        for (index, item) in spec.list(key).iter().enumerate() {
            let path = path.index(index);
            container(item, volumes, &path, errors);
            if key == "initContainers" && item.text("restartPolicy") != "Always" {
                hooks::forbid(item, &path, errors);
            } else {
                hooks::check(item, spec.int("terminationGracePeriodSeconds"), &path, errors);
            }
            if key == "initContainers" && item.has("restartPolicy") {
                errors.one_of(&path.child("restartPolicy"), item.text("restartPolicy"), &["Always"]);
            }
            let name = item.text("name");
            if !name.is_empty() && !seen.insert(name) {
                errors.duplicate(&path.child("name"), name);
            }
        }
    }
    seen
}

pub(super) fn container(item: &Value, volumes: &HashSet<&str>, path: &Path<'_>, errors: &mut Errors) {
    let name = item.text("name");
    if name.is_empty() {
        errors.required(&path.child("name"), "");
    } else {
        errors.invalid_all(&path.child("name"), name, label_errors(name));
    }
    let image = item.text("image");
    if image.is_empty() {
        errors.required(&path.child("image"), "");
    } else if image.trim() != image {
        errors.invalid(&path.child("image"), image, "must not have leading or trailing whitespace");
    }
    errors.one_of(&path.child("imagePullPolicy"), item.text("imagePullPolicy"), PULL_POLICIES);
    errors.one_of(
        &path.child("terminationMessagePolicy"),
        item.text("terminationMessagePolicy"),
        &["File", "FallbackToLogsOnError"],
    );
    ports(item.list("ports"), &path.child("ports"), errors);
    env::check(item, path, errors);
    mounts(item.list("volumeMounts"), volumes, &path.child("volumeMounts"), errors);
    devices(item, volumes, &path.child("volumeDevices"), errors);
    resources::check(item.at("resources"), &path.child("resources"), errors);
    security::container(item.at("securityContext"), &path.child("securityContext"), errors);
}

fn ports(ports: &[Value], path: &Path<'_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for (index, port) in ports.iter().enumerate() {
        let path = path.index(index);
        let name = port.text("name");
        if !name.is_empty() {
            errors.invalid_all(&path.child("name"), name, names::port_name(name));
            if !seen.insert(name) {
                errors.duplicate(&path.child("name"), name);
            }
        }
        match port.int("containerPort") {
            None | Some(0) => errors.required(&path.child("containerPort"), ""),
            Some(number) => port_number(number, &path.child("containerPort"), errors),
        }
        if let Some(number) = port.int("hostPort").filter(|number| *number != 0) {
            port_number(number, &path.child("hostPort"), errors);
        }
        errors.required_one_of(&path.child("protocol"), port.text("protocol"), PROTOCOLS);
    }
}

/// A port number of the transport layer.
pub(super) fn port_number(number: i64, path: &Path<'_>, errors: &mut Errors) {
    if !(1..=65_535).contains(&number) {
        errors.invalid(path, number, PORT_RANGE);
    }
}

/// A port by number or by name.
pub(super) fn port_number_or_name(port: &Value, path: &Path<'_>, errors: &mut Errors) {
    match port {
        Value::String(name) => errors.invalid_all(path, name, names::port_name(name)),
        other => port_number(other.as_i64().unwrap_or(0), path, errors),
    }
}

fn mounts(mounts: &[Value], volumes: &HashSet<&str>, path: &Path<'_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for (index, mount) in mounts.iter().enumerate() {
        let at = path.index(index);
        let (name, place) = (mount.text("name"), mount.text("mountPath"));
        if name.is_empty() {
            errors.required(&at.child("name"), "");
        }
        if !volumes.contains(name) {
            errors.not_found(&at.child("name"), name);
        }
        if place.is_empty() {
            errors.required(&at.child("mountPath"), "");
        }
        if !seen.insert(place) {
            errors.invalid(&at.child("mountPath"), place, "must be unique");
        }
        // The reference does not say which mount it means.
        for key in ["subPath", "subPathExpr"] {
            descending(mount.text(key), &path.child(key), errors);
        }
        if !mount.text("subPath").is_empty() && !mount.text("subPathExpr").is_empty() {
            let detail = "subPathExpr and subPath are mutually exclusive";
            errors.invalid(&at.child("subPathExpr"), mount.text("subPathExpr"), detail);
        }
    }
}

/// A path that stays below where it begins.
pub(super) fn descending(place: &str, path: &Path<'_>, errors: &mut Errors) {
    if place.starts_with('/') {
        errors.invalid(path, place, "must be a relative path");
    }
    if place.split('/').any(|part| part == "..") {
        errors.invalid(path, place, "must not contain '..'");
    }
}

fn devices(container: &Value, volumes: &HashSet<&str>, path: &Path<'_>, errors: &mut Errors) {
    for (index, device) in container.list("volumeDevices").iter().enumerate() {
        let path = path.index(index);
        if device.text("name").is_empty() {
            errors.required(&path.child("name"), "");
        }
        if !volumes.contains(device.text("name")) {
            errors.not_found(&path.child("name"), device.text("name"));
        }
        if device.text("devicePath").is_empty() {
            errors.required(&path.child("devicePath"), "");
        }
    }
}

pub(super) fn resources(resources: &Value, path: &Path<'_>, errors: &mut Errors) {
    for key in ["limits", "requests"] {
        amounts(resources.at(key), &path.child(key), errors);
    }
    for (name, request) in resources.entries("requests") {
        let (asked, most) = (request.as_str().unwrap_or_default(), resources.at("limits").text(name));
        if quantity::compare(asked, most) == Ok(Ordering::Greater) {
            let detail = format!("must be less than or equal to {name} limit of {most}");
            errors.invalid(&path.child("requests"), asked, detail);
        }
    }
}

/// Amounts of named resources: names well-formed, none negative.
pub(super) fn amounts(amounts: &Value, path: &Path<'_>, errors: &mut Errors) {
    for (name, amount) in amounts.as_object().into_iter().flatten() {
        let path = path.key(name);
        errors.invalid_all(&path, name, label_key_errors(name));
        if !name.contains('/') && !is_standard_resource(name) {
            errors.invalid(&path, name.as_str(), "must be a standard resource type or fully qualified");
        }
        let text = amount.as_str().unwrap_or_default();
        if quantity::compare(text, "0") == Ok(Ordering::Less) {
            errors.invalid(&path, text, "must be greater than or equal to 0");
        }
    }
}

pub(super) fn is_standard_resource(name: &str) -> bool {
    matches!(
        name,
        "cpu" | "memory" | "ephemeral-storage" | "storage" | "pods" | "services" | "secrets" | "configmaps"
    ) || name.starts_with("hugepages-")
        || name.starts_with("requests.")
        || name.starts_with("limits.")
        || name.starts_with("count/")
        || name.starts_with("services.")
        || matches!(name, "replicationcontrollers" | "resourcequotas" | "persistentvolumeclaims")
}
