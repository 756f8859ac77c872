//! Containers of a pod spec: their names, mounts and ports, together.

use std::collections::{HashMap, HashSet};

use listwatch_wire::json::Value;

use super::checks;
use crate::field::{Errors, Path};
use crate::names;
use crate::rules::{At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] = checks![
    mounts_are_unique,
    header_names_are_valid,
    container_names_are_unique,
    host_ports_are_unique,
    resize_policies_are_valid,
    only_sidecars_restart_on_resize,
    hooks_fit_the_pod,
];

/// The lists of containers in a pod spec.
pub(super) const LISTS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// Calls back for each container of the lists, with its path.
pub(super) fn each<'a>(
    spec: &'a Value,
    lists: &[&str],
    path: &Path<'_>,
    mut visit: impl FnMut(&str, &'a Value, &Path<'_>),
) {
    for list in lists {
        let path = path.child(list);
        for (index, container) in spec.list(list).iter().enumerate() {
            visit(list, container, &path.index(index));
        }
    }
}

/// Places inside a container are mounted once. kube-apiserver reports some errors at the list and not at its element.
fn mounts_are_unique(at: &At<'_>, errors: &mut Errors) {
    let (mounts, devices) = (at.path.child("volumeMounts"), at.path.child("volumeDevices"));
    let keys = |list: &str, key: &'static str| -> HashSet<&str> {
        at.value.list(list).iter().map(|item| item.text(key)).filter(|text| !text.is_empty()).collect()
    };
    let (device_names, device_paths) = (keys("volumeDevices", "name"), keys("volumeDevices", "devicePath"));
    let privileged = at.value.at("securityContext").flag("privileged");
    let mut seen = HashSet::new();
    for (index, mount) in at.value.list("volumeMounts").iter().enumerate() {
        let path = mounts.index(index);
        let (name, place) = (mount.text("name"), mount.text("mountPath"));
        if !seen.insert(place) {
            errors.invalid(&path.child("mountPath"), place, "must be unique");
        }
        if device_names.contains(name) {
            errors.invalid(&path.child("name"), name, "must not already exist in volumeDevices");
        }
        if device_paths.contains(place) {
            let detail = "must not already exist as a path in volumeDevices";
            errors.invalid(&path.child("mountPath"), place, detail);
        }
        for key in ["subPath", "subPathExpr"] {
            descending(mount.text(key), &mounts.child(key), errors);
        }
        propagation(mount, privileged, &mounts, errors);
    }
    block_devices(at.value, &devices, errors);
}

fn propagation(mount: &Value, privileged: bool, mounts: &Path<'_>, errors: &mut Errors) {
    let (mode, path) = (mount.text("mountPropagation"), mounts.child("mountPropagation"));
    if mount.has("mountPropagation") {
        errors.one_of(&path, mode, &["Bidirectional", "HostToContainer", "None"]);
        if mode == "Bidirectional" && !privileged {
            let detail = "Bidirectional mount propagation is available only to privileged containers";
            errors.forbidden(&path, detail);
        }
    }
    let path = mounts.child("recursiveReadOnly");
    match mount.text("recursiveReadOnly") {
        "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if !mount.flag("readOnly") {
                errors.forbidden(&path, "may only be specified when readOnly is true");
            }
            if !matches!(mode, "" | "None") {
                let detail = "may only be specified when mountPropagation is None or not specified";
                errors.forbidden(&path, detail);
            }
        }
        other if mount.has("recursiveReadOnly") => {
            errors.not_supported(&path, other, &["Disabled", "Enabled", "IfPossible"]);
        }
        _ => {}
    }
}

fn block_devices(container: &Value, path: &Path<'_>, errors: &mut Errors) {
    let mounts = container.list("volumeMounts");
    let names: HashSet<&str> = mounts.iter().map(|mount| mount.text("name")).collect();
    let places: HashSet<&str> = mounts.iter().map(|mount| mount.text("mountPath")).collect();
    let (mut seen_names, mut seen_places) = (HashSet::new(), HashSet::new());
    for (index, device) in container.list("volumeDevices").iter().enumerate() {
        let path = path.index(index);
        let (name, place) = (device.text("name"), device.text("devicePath"));
        if !name.is_empty() && !seen_names.insert(name) {
            errors.invalid(&path.child("name"), name, "must be unique");
        }
        if !seen_places.insert(place) {
            errors.invalid(&path.child("devicePath"), place, "must be unique");
        }
        if names.contains(name) {
            errors.invalid(&path.child("name"), name, "must not already exist in volumeMounts");
        }
        if places.contains(place) {
            let detail = "must not already exist as a path in volumeMounts";
            errors.invalid(&path.child("devicePath"), place, detail);
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

/// kube-apiserver does not say which header it means.
fn header_names_are_valid(at: &At<'_>, errors: &mut Errors) {
    for header in at.value.as_array().into_iter().flatten() {
        let name = header.text("name");
        errors.invalid_all(at.path, name, names::http_header(name));
    }
}

/// Names are unique over all lists of containers, and an ephemeral container may aim at one of the others.
fn container_names_are_unique(at: &At<'_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    each(at.value, &["containers", "initContainers"], at.path, |_, container, path| {
        let name = container.text("name");
        if !name.is_empty() && !seen.insert(name) {
            errors.duplicate(&path.child("name"), name);
        }
    });
    let others = seen.clone();
    each(at.value, &["ephemeralContainers"], at.path, |_, container, path| {
        let (name, target) = (container.text("name"), container.text("targetContainerName"));
        if !seen.insert(name) {
            errors.duplicate(&path.child("name"), name);
        }
        if !target.is_empty() && !others.contains(target) {
            errors.not_found(&path.child("targetContainerName"), target);
        }
    });
}

/// Ports that containers take on their node. Init containers run one after the other.
fn host_ports_are_unique(at: &At<'_>, errors: &mut Errors) {
    let host_network = at.value.flag("hostNetwork");
    let mut taken = HashSet::new();
    each(at.value, &["containers", "initContainers"], at.path, |list, container, path| {
        let mut alone = HashSet::new();
        let taken = if list == "containers" { &mut taken } else { &mut alone };
        let ports = path.child("ports");
        for (index, port) in container.list("ports").iter().enumerate() {
            let (host, own) = (port.int("hostPort").unwrap_or(0), port.int("containerPort").unwrap_or(0));
            let path = ports.index(index);
            let place = format!("{}/{}/{host}", port.text("protocol"), port.text("hostIP"));
            if host != 0 && !taken.insert(place.clone()) {
                errors.duplicate(&path.child("hostPort"), place);
            }
            if host_network && list == "containers" && host != 0 && host != own {
                let detail = "must match `containerPort` when `hostNetwork` is true";
                errors.invalid(&path.child("hostPort"), host, detail);
            }
        }
    });
}

/// kube-apiserver reports these at the list of policies.
fn resize_policies_are_valid(at: &At<'_>, errors: &mut Errors) {
    let restart = at.value.text("restartPolicy");
    each(at.value, &["containers", "initContainers"], at.path, |_, container, path| {
        let path = path.child("resizePolicy");
        let mut seen: HashMap<&str, ()> = HashMap::new();
        for (index, policy) in container.list("resizePolicy").iter().enumerate() {
            let (resource, action) = (policy.text("resourceName"), policy.text("restartPolicy"));
            if seen.insert(resource, ()).is_some() {
                errors.duplicate(&path.index(index), resource);
            }
            errors.required_one_of(&path, resource, &["cpu", "memory"]);
            errors.required_one_of(&path, action, &["NotRequired", "RestartContainer"]);
            if restart == "Never" && action != "NotRequired" {
                let detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
                errors.invalid(&path, action, detail);
            }
        }
    });
}

fn only_sidecars_restart_on_resize(at: &At<'_>, errors: &mut Errors) {
    if at.value.text("restartPolicy") == "Always" {
        return;
    }
    let path = at.path.child("resizePolicy");
    for (index, policy) in at.value.list("resizePolicy").iter().enumerate() {
        if policy.text("restartPolicy") == "RestartContainer" {
            let detail = "must not be set to 'RestartContainer' for non-sidecar initContainers";
            errors.invalid(&path.index(index).child("restartPolicy"), "RestartContainer", detail);
        }
    }
}

/// A hook must not sleep longer than the Pod has to end, and a signal needs to know the system that it is sent on.
fn hooks_fit_the_pod(at: &At<'_>, errors: &mut Errors) {
    let grace = at.value.int("terminationGracePeriodSeconds");
    let system = at.value.at("os").text("name");
    each(at.value, &["containers", "initContainers"], at.path, |_, container, path| {
        let (lifecycle, path) = (container.at("lifecycle"), path.child("lifecycle"));
        for hook in ["postStart", "preStop"] {
            let sleep = lifecycle.at(hook).at("sleep");
            let seconds = sleep.int("seconds").unwrap_or(0);
            if let Some(grace) = grace.filter(|grace| !sleep.is_null() && !(0..=*grace).contains(&seconds)) {
                let detail =
                    format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
                errors.invalid(&path.child(hook).child("sleep"), seconds, detail);
            }
        }
        let (signal, path) = (lifecycle.text("stopSignal"), path.child("stopSignal"));
        match system {
            _ if signal.is_empty() => {}
            "" => errors.forbidden(&path, "may not be set for containers with empty `spec.os.name`"),
            "windows" => errors.one_of(&path, signal, &["SIGKILL", "SIGTERM"]),
            _ if !signal.starts_with("SIG") => errors.not_supported(&path, signal, &[]),
            _ => {}
        }
    });
}
