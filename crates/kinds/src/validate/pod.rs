//! Pods and what their specs say about names, networks and users.

use std::collections::HashSet;

use listwatch_wire::json::Value;
use listwatch_wire::names::label_key_errors;

use super::{checks, container};
use crate::field::{Errors, Path};
use crate::prepare::{APPARMOR, profile_of};
use crate::rules::{At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] = checks![
    grace_is_given,
    dns_policy_has_servers,
    at_most_three_nameservers,
    search_list_is_short,
    dns_option_is_named,
    readiness_gate_is_named,
    scheduling_gate_is_named,
    gates_are_unique,
    user_namespaces_are_apart,
    privileges_are_consistent,
    pod_annotations_are_valid,
    pod_can_be_created,
];

const MAX_NAMESERVERS: usize = 3;
const MAX_SEARCH_PATHS: usize = 32;
const MAX_SEARCH_LIST: usize = 2048;

fn grace_is_given(at: &At<'_>, errors: &mut Errors) {
    if at.value.is_null() {
        errors.required(at.path, "");
    }
}

fn dns_policy_has_servers(at: &At<'_>, errors: &mut Errors) {
    let (config, path) = (at.value.at("dnsConfig"), at.path.child("dnsConfig"));
    if at.value.text("dnsPolicy") != "None" {
        return;
    }
    if config.is_null() {
        errors.required(&path, "must provide `dnsConfig` when `dnsPolicy` is None");
    } else if config.count("nameservers") == 0 {
        let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
        errors.required(&path.child("nameservers"), detail);
    }
}

fn at_most_three_nameservers(at: &At<'_>, errors: &mut Errors) {
    if at.value.as_array().is_some_and(|list| list.len() > MAX_NAMESERVERS) {
        let detail = format!("must not have more than {MAX_NAMESERVERS} nameservers");
        errors.invalid(at.path, at.value.clone(), detail);
    }
}

fn search_list_is_short(at: &At<'_>, errors: &mut Errors) {
    let list = at.value.as_array().map(Vec::as_slice).unwrap_or_default();
    if list.len() > MAX_SEARCH_PATHS {
        let detail = format!("must not have more than {MAX_SEARCH_PATHS} search paths");
        errors.invalid(at.path, at.value.clone(), detail);
    }
    let letters: usize = list.iter().filter_map(Value::as_str).map(|path| path.len() + 1).sum();
    if letters > MAX_SEARCH_LIST + 1 {
        let detail = format!(
            "must not have more than {MAX_SEARCH_LIST} characters (including spaces) in the search list"
        );
        errors.invalid(at.path, at.value.clone(), detail);
    }
}

fn dns_option_is_named(at: &At<'_>, errors: &mut Errors) {
    if at.value.text("name").is_empty() {
        errors.required(at.path, "must not be empty");
    }
}

fn readiness_gate_is_named(at: &At<'_>, errors: &mut Errors) {
    let name = at.value.text("conditionType");
    errors.invalid_all(&at.path.child("conditionType"), name, label_key_errors(name));
}

fn scheduling_gate_is_named(at: &At<'_>, errors: &mut Errors) {
    let name = at.value.text("name");
    errors.invalid_all(at.path, name, label_key_errors(name));
}

fn gates_are_unique(at: &At<'_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for (index, gate) in at.value.as_array().into_iter().flatten().enumerate() {
        if !seen.insert(gate.text("name")) {
            errors.duplicate(&at.path.index(index), gate.text("name"));
        }
    }
}

/// Users of their own exclude the namespaces of the host.
fn user_namespaces_are_apart(at: &At<'_>, errors: &mut Errors) {
    if at.value.at("hostUsers") != &Value::Bool(false) {
        check_unmasked(at.value, at.path, errors);
        return;
    }
    for (key, shown) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if at.value.flag(key) {
            errors.forbidden(&at.path.child(shown), "when `hostUsers` is false");
        }
    }
}

/// All of `/proc` is only for who has users of his own.
fn check_unmasked(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    container::each(spec, &container::LISTS, path, |_, item, path| {
        if item.at("securityContext").text("procMount") == "Unmasked" {
            let path = path.child("securityContext");
            let detail = "`hostUsers` must be false to use `Unmasked`";
            errors.invalid(&path.child("procMount"), "Unmasked", detail);
        }
    });
}

fn privileges_are_consistent(at: &At<'_>, errors: &mut Errors) {
    if at.value.at("allowPrivilegeEscalation") != &Value::Bool(false) {
        return;
    }
    if at.value.flag("privileged") {
        let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        errors.invalid(at.path, at.value.clone(), detail);
    }
    if at.value.at("capabilities").list("add").iter().any(|added| added == "CAP_SYS_ADMIN") {
        let detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
        errors.invalid(at.path, at.value.clone(), detail);
    }
}

fn pod_annotations_are_valid(at: &At<'_>, errors: &mut Errors) {
    let metadata = at.path.child("metadata");
    annotations(at.value.at("metadata"), at.value.at("spec"), &metadata.child("annotations"), errors);
    let volumes = at.path.child("spec");
    let volumes = volumes.child("volumes");
    if !at.value.at("spec").text("serviceAccountName").is_empty() {
        return;
    }
    for (index, volume) in at.value.at("spec").list("volumes").iter().enumerate() {
        let path = volumes.index(index);
        let path = path.child("projected");
        let sources = path.child("sources");
        for (index, source) in volume.at("projected").list("sources").iter().enumerate() {
            if source.has("serviceAccountToken") {
                let detail = "must not be specified when serviceAccountName is not set";
                errors.forbidden(&sources.index(index).child("serviceAccountToken"), detail);
            }
        }
    }
}

/// Annotations that mean something to the system itself.
pub(super) fn annotations(meta: &Value, spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    const MIRROR: &str = "kubernetes.io/config.mirror";
    const COST: &str = "controller.kubernetes.io/pod-deletion-cost";
    const SECCOMP: &str = "seccomp.security.alpha.kubernetes.io/pod";
    const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
    let mut names = None;
    for (key, value) in meta.entries("annotations") {
        let text = value.as_str().unwrap_or_default();
        if key == MIRROR && spec.text("nodeName").is_empty() {
            let detail = "must set spec.nodeName if mirror pod annotation is set";
            errors.invalid(&path.key(key), text, detail);
        } else if key == COST && !is_cost(text) {
            errors.invalid(&path.key(key), text, "must be a 32bit integer");
        } else if (key == SECCOMP || key.starts_with(SECCOMP_CONTAINER)) && !is_seccomp(text) {
            errors.invalid(&path.child(key), text, "must be a valid seccomp profile");
        } else if let Some(name) = key.strip_prefix(APPARMOR) {
            let names = names.get_or_insert_with(|| container_names(spec));
            apparmor(name, text, names, &path.key(key), errors);
        }
    }
}

fn container_names(spec: &Value) -> HashSet<&str> {
    container::LISTS.iter().flat_map(|list| spec.list(list)).map(|item| item.text("name")).collect()
}

fn is_cost(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = digits == "0" || !digits.starts_with('0');
    plain && text != "-0" && !text.starts_with('+') && text.parse::<i32>().is_ok()
}

fn is_seccomp(profile: &str) -> bool {
    let local = |rest: &str| !rest.starts_with('/') && !rest.split('/').any(|part| part == "..");
    matches!(profile, "runtime/default" | "docker/default" | "unconfined")
        || profile.strip_prefix("localhost/").is_some_and(local)
}

fn apparmor(name: &str, profile: &str, names: &HashSet<&str>, path: &Path<'_>, errors: &mut Errors) {
    if !names.contains(name) {
        errors.invalid(path, name, "container not found");
    }
    let known = matches!(profile, "" | "runtime/default" | "unconfined") || profile.starts_with("localhost/");
    if !known {
        errors.invalid(path, profile, "invalid AppArmor profile name");
    }
}

/// A Pod cannot be created with what only a running one has.
fn pod_can_be_created(at: &At<'_>, errors: &mut Errors) {
    if at.old.is_some() {
        return;
    }
    let (spec, path) = (at.value.at("spec"), at.path.child("spec"));
    if spec.count("ephemeralContainers") > 0 {
        errors.forbidden(&path.child("ephemeralContainers"), "cannot be set on create");
    }
    if spec.count("schedulingGates") > 0 && !spec.text("nodeName").is_empty() {
        errors
            .forbidden(&path.child("nodeName"), "cannot be set until all schedulingGates have been cleared");
    }
    containers_of_pods(spec, &path, errors);
    profiles_agree(at.value, &path, errors);
}

/// An annotation and the field that it became say the same.
fn profiles_agree(pod: &Value, path: &Path<'_>, errors: &mut Errors) {
    let annotations = pod.at("metadata").at("annotations");
    let general = pod.at("spec").at("securityContext").at("appArmorProfile");
    container::each(pod.at("spec"), &container::LISTS, path, |_, item, path| {
        let name = item.text("name");
        if !annotations.has(&format!("{APPARMOR}{name}")) {
            return;
        }
        let own = item.at("securityContext").at("appArmorProfile");
        let profile = if own.is_null() { general } else { own };
        let named = profile_of(annotations, name).unwrap_or_default();
        let path = path.child("securityContext");
        let path = path.child("appArmorProfile");
        if profile.text("type") != named.text("type") {
            let detail = "apparmor type in annotation and field must match";
            errors.forbidden(&path.child("type"), detail);
        } else if profile.text("localhostProfile") != named.text("localhostProfile") {
            let detail = "apparmor profile in annotation and field must match";
            errors.forbidden(&path.child("localhostProfile"), detail);
        }
    });
}

/// Only a Pod itself, and no template, is checked for blanks around the names of its images.
fn containers_of_pods(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    container::each(spec, &container::LISTS, path, |_, item, path| {
        let image = item.text("image");
        if image.trim() != image {
            errors.invalid(&path.child("image"), image, "must not have leading or trailing whitespace");
        }
    });
}
