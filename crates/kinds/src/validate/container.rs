//! Containers of a pod spec.

use std::cmp::Ordering;
use std::collections::HashSet;

use listwatch_wire::json::Value;
use listwatch_wire::names::{label_errors, label_key_errors};

use super::ephemeral;
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
    environment(item, path, errors);
    mounts(item.list("volumeMounts"), volumes, &path.child("volumeMounts"), errors);
    resources(item.at("resources"), &path.child("resources"), errors);
    probes(item, path, errors);
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

fn environment(item: &Value, path: &Path<'_>, errors: &mut Errors) {
    let env = path.child("env");
    for (index, variable) in item.list("env").iter().enumerate() {
        let path = env.index(index);
        let name = variable.text("name");
        if name.is_empty() {
            errors.required(&path.child("name"), "");
        } else {
            errors.invalid_all(&path.child("name"), name, names::env_name(name));
        }
        if variable.has("valueFrom") {
            value_source(variable, &path.child("valueFrom"), errors);
        }
    }
    let from = path.child("envFrom");
    for (index, source) in item.list("envFrom").iter().enumerate() {
        let path = from.index(index);
        match (source.has("configMapRef"), source.has("secretRef")) {
            (false, false) => errors.invalid(&path, "", "must specify one of: `configMapRef` or `secretRef`"),
            (true, true) => errors.invalid(&path, "", "may not have more than one field specified at a time"),
            _ => {}
        }
    }
}

fn value_source(variable: &Value, path: &Path<'_>, errors: &mut Errors) {
    const SOURCES: [&str; 5] =
        ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
    let source = variable.at("valueFrom");
    let given = SOURCES.iter().filter(|key| source.has(key)).count();
    if given == 0 {
        errors.invalid(path, "", "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`");
    } else if !variable.text("value").is_empty() {
        errors.invalid(path, "", "may not be specified when `value` is not empty");
    } else if given > 1 {
        errors.invalid(path, "", "may not have more than one field specified at a time");
    }
    for key in ["configMapKeyRef", "secretKeyRef"] {
        let (reference, path) = (source.at(key), path.child(key));
        if source.has(key) {
            for part in ["name", "key"] {
                if reference.text(part).is_empty() {
                    errors.required(&path.child(part), "");
                }
            }
        }
    }
    if source.has("fieldRef") && source.at("fieldRef").text("fieldPath").is_empty() {
        errors.required(&path.child("fieldRef").child("fieldPath"), "");
    }
}

fn mounts(mounts: &[Value], volumes: &HashSet<&str>, path: &Path<'_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for (index, mount) in mounts.iter().enumerate() {
        let path = path.index(index);
        let (name, place) = (mount.text("name"), mount.text("mountPath"));
        if name.is_empty() {
            errors.required(&path.child("name"), "");
        } else if !volumes.contains(name) {
            errors.not_found(&path.child("name"), name);
        }
        if place.is_empty() {
            errors.required(&path.child("mountPath"), "");
        } else if !seen.insert(place) {
            errors.invalid(&path.child("mountPath"), place, "must be unique");
        }
        let below = mount.text("subPath");
        if below.starts_with('/') {
            errors.invalid(&path.child("subPath"), below, "must be a relative path");
        } else if below.split('/').any(|part| part == "..") {
            errors.invalid(&path.child("subPath"), below, "must not contain '..'");
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

fn is_standard_resource(name: &str) -> bool {
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

fn probes(item: &Value, path: &Path<'_>, errors: &mut Errors) {
    for (key, must_be_one) in [("livenessProbe", true), ("readinessProbe", false), ("startupProbe", true)] {
        if !item.has(key) {
            continue;
        }
        let (probe, path) = (item.at(key), path.child(key));
        handler(probe, &path, errors);
        for number in
            ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
        {
            errors.non_negative(&path.child(number), probe.int(number));
        }
        let threshold = probe.int("successThreshold").unwrap_or(1);
        if must_be_one && threshold != 1 {
            errors.invalid(&path.child("successThreshold"), threshold, "must be 1");
        }
    }
    for hook in ["postStart", "preStop"] {
        let found = item.at("lifecycle").at(hook);
        if !found.is_null() {
            handler(found, &path.child("lifecycle").child(hook), errors);
        }
    }
}

fn handler(handler: &Value, path: &Path<'_>, errors: &mut Errors) {
    let mut given = 0;
    for key in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        if !handler.has(key) {
            continue;
        }
        given += 1;
        let path = path.child(key);
        if given > 1 {
            errors.forbidden(&path, "may not specify more than 1 handler type");
            continue;
        }
        match key {
            "exec" if handler.at(key).count("command") == 0 => errors.required(&path.child("command"), ""),
            "httpGet" | "tcpSocket" => {
                port_number_or_name(handler.at(key).at("port"), &path.child("port"), errors)
            }
            _ => {}
        }
        if key == "httpGet" {
            errors.one_of(&path.child("scheme"), handler.at(key).text("scheme"), &["HTTP", "HTTPS"]);
        }
    }
    if given == 0 {
        errors.required(path, "must specify a handler type");
    }
}
