//! Pods and pod templates.

use std::collections::{HashMap, HashSet};

use listwatch_wire::json::Value;
use listwatch_wire::names::{label_errors, label_key_errors, subdomain_errors};

use super::{container, scheduling, security, selector, volume};
use crate::field::{Errors, Path};
use crate::meta;
use crate::prepare::qos_class;
use crate::tree::Tree;

const RESTART_POLICIES: &[&str] = &["Always", "OnFailure", "Never"];
const DNS_POLICIES: &[&str] = &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];
const MAX_NAMESERVERS: usize = 3;
const FROZEN: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub(super) fn pod(new: &Value, errors: &mut Errors) {
    spec(new.at("spec"), &Path::root("spec"), errors);
}

/// What a Pod cannot be born with.
pub(super) fn created(spec: &Value, errors: &mut Errors) {
    let path = Path::root("spec");
    if spec.count("ephemeralContainers") > 0 {
        errors.forbidden(&path.child("ephemeralContainers"), "cannot be set on create");
    }
    if spec.count("schedulingGates") > 0 && !spec.text("nodeName").is_empty() {
        errors
            .forbidden(&path.child("nodeName"), "cannot be set until all schedulingGates have been cleared");
    }
}

/// A template; `selector` is the workload's, which must take the template's labels.
pub(super) fn template(
    template: &Value,
    path: &Path<'_>,
    owner_selector: Option<&Value>,
    errors: &mut Errors,
) {
    let metadata = path.child("metadata");
    if let Some(selector) = owner_selector
        && (selector.is_null()
            || (!selector::is_empty(selector)
                && !selector::matches(selector, template.at("metadata").at("labels"))))
    {
        let labels = template.at("metadata").at("labels").clone();
        errors.invalid(&metadata.child("labels"), labels, "`selector` does not match template `labels`");
    }
    meta::validate_labels(template.at("metadata"), &path.child("labels"), errors);
    meta::validate_annotations(template.at("metadata"), &path.child("annotations"), errors);
    let (pod, path) = (template.at("spec"), path.child("spec"));
    spec(pod, &path, errors);
    if pod.count("ephemeralContainers") > 0 {
        let detail = "ephemeral containers not allowed in pod template";
        errors.forbidden(&path.child("ephemeralContainers"), detail);
    }
}

fn spec(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let volumes = volume::check(spec.list("volumes"), &path.child("volumes"), errors);
    container::all(spec, &volumes, path, errors);
    errors.one_of(&path.child("restartPolicy"), spec.text("restartPolicy"), RESTART_POLICIES);
    errors.one_of(&path.child("dnsPolicy"), spec.text("dnsPolicy"), DNS_POLICIES);
    selector::check_labels(spec.at("nodeSelector"), &path.child("nodeSelector"), errors);
    names(spec, path, errors);
    errors.non_negative(
        &path.child("terminationGracePeriodSeconds"),
        spec.int("terminationGracePeriodSeconds"),
    );
    if let Some(seconds) =
        spec.int("activeDeadlineSeconds").filter(|s| !(1..=i64::from(i32::MAX)).contains(s))
    {
        errors.invalid(
            &path.child("activeDeadlineSeconds"),
            seconds,
            "must be between 1 and 2147483647, inclusive",
        );
    }
    tolerations(spec.list("tolerations"), &path.child("tolerations"), errors);
    host_aliases(spec.list("hostAliases"), &path.child("hostAliases"), errors);
    scheduling::check(spec, path, errors);
    dns_config(spec, &path.child("dnsConfig"), errors);
    security::pod(spec.at("securityContext"), &path.child("securityContext"), errors);
    namespaces(spec, path, errors);
}

/// How names are resolved, if not as everywhere else.
fn dns_config(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (config, none) = (spec.at("dnsConfig"), spec.text("dnsPolicy") == "None");
    let servers = path.child("nameservers");
    if none && config.is_null() {
        errors.required(path, "must provide `dnsConfig` when `dnsPolicy` is None");
        return;
    }
    if none && config.count("nameservers") == 0 {
        errors.required(&servers, "must provide at least one DNS nameserver when `dnsPolicy` is None");
        return;
    }
    if config.count("nameservers") > MAX_NAMESERVERS {
        let detail = format!("must not have more than {MAX_NAMESERVERS} nameservers");
        errors.invalid(&servers, config.at("nameservers").clone(), detail);
    }
    for (index, server) in config.list("nameservers").iter().filter_map(Value::as_str).enumerate() {
        if server.parse::<std::net::IpAddr>().is_err() {
            let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            errors.invalid(&servers.index(index), server, detail);
        }
    }
    let options = path.child("options");
    for (index, option) in config.list("options").iter().enumerate() {
        if option.text("name").is_empty() {
            errors.required(&options.index(index), "must not be empty");
        }
    }
}

/// What a Pod shares with its node, or its containers with each other.
fn namespaces(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    if spec.flag("shareProcessNamespace") && spec.flag("hostPID") {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.invalid(&path.child("shareProcessNamespace"), true, detail);
    }
    if spec.has("os") {
        let path = path.child("os");
        errors.required_one_of(&path.child("name"), spec.at("os").text("name"), &["linux", "windows"]);
    }
}

fn names(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    for key in ["serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName"] {
        let name = spec.text(key);
        if !name.is_empty() {
            errors.invalid_all(&path.child(key), name, subdomain_errors(name));
        }
    }
    for key in ["hostname", "subdomain"] {
        let name = spec.text(key);
        if !name.is_empty() {
            errors.invalid_all(&path.child(key), name, label_errors(name));
        }
    }
}

fn tolerations(list: &[Value], path: &Path<'_>, errors: &mut Errors) {
    for (index, toleration) in list.iter().enumerate() {
        let path = path.index(index);
        let (key, operator) = (toleration.text("key"), toleration.text("operator"));
        if !key.is_empty() {
            errors.invalid_all(&path.child("key"), key, label_key_errors(key));
        }
        if toleration.text("key").is_empty() && operator != "Exists" {
            errors.invalid(
                &path.child("operator"),
                operator,
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
            );
        }
        if toleration.has("tolerationSeconds") && toleration.text("effect") != "NoExecute" {
            errors.invalid(
                &path.child("effect"),
                toleration.text("effect"),
                "effect must be 'NoExecute' when `tolerationSeconds` is set",
            );
        }
        match operator {
            "" | "Equal" | "Lt" | "Gt" => {}
            "Exists" if toleration.text("value").is_empty() => {}
            "Exists" => errors.invalid(
                &path.child("operator"),
                toleration.text("value"),
                "value must be empty when `operator` is 'Exists'",
            ),
            other => errors.not_supported(&path.child("operator"), other, &["Equal", "Exists"]),
        }
        let effect = toleration.text("effect");
        if !effect.is_empty() {
            errors.one_of(&path.child("effect"), effect, EFFECTS);
        }
    }
}

fn host_aliases(list: &[Value], path: &Path<'_>, errors: &mut Errors) {
    for (index, alias) in list.iter().enumerate() {
        let path = path.index(index);
        if alias.text("ip").parse::<std::net::IpAddr>().is_err() {
            let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            errors.invalid(&path.child("ip"), alias.text("ip"), detail);
        }
        for (index, name) in alias.list("hostnames").iter().filter_map(Value::as_str).enumerate() {
            errors.invalid_all(&path.child("hostnames").index(index), name, subdomain_errors(name));
        }
    }
}

/// Of a Pod that exists only a few fields may still change.
pub(super) fn change(new: &Value, old: &Value, errors: &mut Errors) {
    let path = Path::root("spec");
    let (new, old) = (new.at("spec"), old.at("spec"));
    for key in ["containers", "initContainers"] {
        if new.count(key) != old.count(key) {
            errors.forbidden(&path.child(key), "pod updates may not add or remove containers");
            return;
        }
    }
    deadline_change(new, old, &path, errors);
    gates_change(new, old, &path, errors);
    tolerations_change(new, old, &path, errors);
    if frozen(new, old) != *old {
        errors.forbidden(&path, FROZEN);
    }
}

/// What holds a Pod back can only go.
fn gates_change(new: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    let known: HashSet<&Value> = old.list("schedulingGates").iter().collect();
    for gate in new.list("schedulingGates").iter().filter(|gate| !known.contains(gate)) {
        let detail =
            format!("only deletion is allowed, but found new scheduling gate '{}'", gate.text("name"));
        errors.forbidden(&path.child("schedulingGates"), detail);
    }
}

fn deadline_change(new: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    const KEY: &str = "activeDeadlineSeconds";
    let Some(before) = old.int(KEY) else { return };
    let path = path.child(KEY);
    match new.int(KEY) {
        None => errors.invalid(&path, Value::Null, "must not update from a positive integer to nil value"),
        Some(after) if after > before => {
            errors.invalid(&path, after, format!("must be less than or equal to previous value: {before}"));
        }
        Some(_) => {}
    }
}

fn tolerations_change(new: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    let kept: HashSet<&Value> = new.list("tolerations").iter().collect();
    if old.list("tolerations").iter().any(|toleration| !kept.contains(toleration)) {
        errors.forbidden(
            &path.child("tolerations"),
            "existing toleration can not be modified except its tolerationSeconds",
        );
    }
}

/// The new spec with everything that may change set back.
fn frozen(new: &Value, old: &Value) -> Value {
    let mut frozen = new.clone();
    for key in ["containers", "initContainers"] {
        for (item, before) in frozen.each(key).zip(old.list(key)) {
            item.put("image", before.at("image").clone());
        }
    }
    let Some(fields) = frozen.as_object_mut() else { return frozen };
    let mut changeable = vec!["activeDeadlineSeconds", "tolerations", "schedulingGates"];
    if old.int("terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0) {
        changeable.push("terminationGracePeriodSeconds");
    }
    // A gated Pod is not scheduled yet, so where it may go can still be narrowed.
    if old.count("schedulingGates") > 0 {
        changeable.extend(["nodeSelector", "affinity"]);
    }
    for key in changeable {
        match old.fields().and_then(|old| old.get(key)) {
            Some(before) => fields.insert(key.to_owned(), before.clone()),
            None => fields.remove(key),
        };
    }
    frozen
}

/// Debugging containers are only ever added.
pub(super) fn ephemeral_change(new: &Value, old: &Value, errors: &mut Errors) {
    const KEY: &str = "ephemeralContainers";
    let path = Path::root("spec");
    let path = path.child(KEY);
    // The first of several counts.
    let by_name: HashMap<&str, &Value> =
        new.list(KEY).iter().rev().map(|container| (container.text("name"), container)).collect();
    for before in old.list(KEY) {
        let name = before.text("name");
        match by_name.get(name).copied() {
            None => errors
                .forbidden(&path, format!("existing ephemeral containers {name:?} may not be removed\n")),
            Some(after) if after != before => {
                errors
                    .forbidden(&path, format!("existing ephemeral containers {name:?} may not be changed\n"));
            }
            Some(_) => {}
        }
    }
}

/// The class a Pod was scheduled under stays.
pub(super) fn resize_change(new: &Value, old: &Value, errors: &mut Errors) {
    let class = qos_class(new);
    if class != qos_class(old) {
        let detail = "Pod QOS Class may not change as a result of resizing";
        errors.invalid(&Path::root("spec"), class, detail);
    }
}

pub(super) fn status(new: &Value, old: &Value, errors: &mut Errors) {
    let (path, was) = (Path::root("status"), old.at("status"));
    let now = new.at("status");
    if !was.text("nominatedNodeName").is_empty() && !now.text("nominatedNodeName").is_empty() {
        let name = now.text("nominatedNodeName");
        errors.invalid_all(&path.child("nominatedNodeName"), name, subdomain_errors(name));
    }
    if was.has("qosClass") {
        errors.immutable(&path.child("qosClass"), now.at("qosClass"), was.at("qosClass"));
    }
}
