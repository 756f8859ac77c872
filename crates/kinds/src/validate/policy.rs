//! Leases, events, budgets, priorities, certificates: small kinds with few rules.

use listwatch_wire::json::Value;
use listwatch_wire::names::label_key_errors;

use super::selector;
use super::workload::{at_most_all, count_or_percent};
use crate::field::{Errors, Path};
use crate::tree::Tree;

/// Above this priorities are the system's own.
const MAX_USER_PRIORITY: i64 = 1_000_000_000;

pub(super) fn lease(new: &Value, errors: &mut Errors) {
    let (spec, path) = (new.at("spec"), Path::root("spec"));
    errors.positive(&path.child("leaseDurationSeconds"), spec.int("leaseDurationSeconds"));
    errors.non_negative(&path.child("leaseTransitions"), spec.int("leaseTransitions"));
    if spec.has("holderIdentity") && spec.text("holderIdentity").is_empty() && spec.has("strategy") {
        errors.invalid(&path.child("holderIdentity"), "", "must not be empty");
    }
}

pub(super) fn event(new: &Value, errors: &mut Errors) {
    let involved = new.at("involvedObject").text("namespace");
    let own = new.at("metadata").text("namespace");
    let path = Path::root("involvedObject");
    // Events about cluster-scoped objects live in the default namespace.
    let fits = involved == own || (involved.is_empty() && (own == "default" || own == "kube-system"));
    if !fits {
        errors.invalid(&path.child("namespace"), involved, "does not match event.namespace");
    }
}

/// Events of their own group say who reports what, and when.
pub(super) fn new_event(new: &Value, errors: &mut Errors) {
    for key in ["eventTime", "reportingController", "reportingInstance", "action", "reason"] {
        if new.text(key).is_empty() {
            errors.required(&Path::root(key), "");
        }
    }
    let controller = new.text("reportingController");
    if !controller.is_empty() {
        errors.invalid_all(&Path::root("reportingController"), controller, label_key_errors(controller));
    }
    let kind = new.text("type");
    if !matches!(kind, "Normal" | "Warning") {
        errors.invalid(&Path::root("type"), "", format!("has invalid value: {kind}"));
    }
}

pub(super) fn disruption_budget(new: &Value, errors: &mut Errors) {
    let (spec, path) = (new.at("spec"), Path::root("spec"));
    if spec.has("minAvailable") && spec.has("maxUnavailable") {
        errors.invalid(&path, spec.clone(), "minAvailable and maxUnavailable cannot be both set");
    }
    for key in ["minAvailable", "maxUnavailable"] {
        count_or_percent(spec.at(key), &path.child(key), errors);
        at_most_all(spec.at(key), &path.child(key), errors);
    }
    if spec.has("unhealthyPodEvictionPolicy") {
        let policies = &["AlwaysAllow", "IfHealthyBudget"];
        let policy = spec.text("unhealthyPodEvictionPolicy");
        errors.one_of(&path.child("unhealthyPodEvictionPolicy"), policy, policies);
    }
    selector::check(spec.at("selector"), &path.child("selector"), errors);
}

pub(super) fn priority_class(new: &Value, errors: &mut Errors) {
    let name = new.at("metadata").text("name");
    let system = matches!(name, "system-cluster-critical" | "system-node-critical");
    if name.starts_with("system-") && !system {
        let path = Path::root("metadata");
        errors.forbidden(
            &path.child("name"),
            "priority class names with 'system-' prefix are reserved for system use only. error: ",
        );
    }
    if let Some(value) = new.int("value").filter(|value| *value > MAX_USER_PRIORITY && !system) {
        let detail = format!("maximum allowed value of a user defined priority is {MAX_USER_PRIORITY}");
        errors.forbidden(&Path::root("value"), format!("{detail}, got {value}"));
    }
    errors.one_of(
        &Path::root("preemptionPolicy"),
        new.text("preemptionPolicy"),
        &["Never", "PreemptLowerPriority"],
    );
}

pub(super) fn priority_class_change(new: &Value, old: &Value, errors: &mut Errors) {
    if new.int("value").unwrap_or(0) != old.int("value").unwrap_or(0) {
        errors.forbidden(&Path::root("value"), "may not be changed in an update.");
    }
    errors.immutable(&Path::root("preemptionPolicy"), new.at("preemptionPolicy"), old.at("preemptionPolicy"));
}

pub(super) fn certificate_request(new: &Value, errors: &mut Errors) {
    let (spec, path) = (new.at("spec"), Path::root("spec"));
    if spec.text("request").is_empty() {
        errors.invalid(&path.child("request"), "", "PEM block type must be CERTIFICATE REQUEST");
    }
    if spec.count("usages") == 0 {
        errors.required(&path.child("usages"), "usages must contain at least one value");
    }
    let signer = spec.text("signerName");
    match signer.split_once('/') {
        _ if signer.is_empty() => errors.required(&path.child("signerName"), ""),
        Some((domain, path_part)) if !path_part.is_empty() && domain.contains('.') => {}
        _ => errors.invalid(
            &path.child("signerName"),
            signer,
            "must be a fully qualified domain and path of the form 'example.com/signer-name'",
        ),
    }
    if let Some(seconds) = spec.int("expirationSeconds").filter(|seconds| *seconds < 600) {
        errors.invalid(
            &path.child("expirationSeconds"),
            seconds,
            "may not specify a duration less than 600 seconds (10 minutes)",
        );
    }
}
