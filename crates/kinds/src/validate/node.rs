//! Nodes, and the ways in which Pods run on them.

use std::collections::HashSet;

use listwatch_wire::json::Value;
use listwatch_wire::names::{label_key_errors, label_value_errors};

use super::{checks, resources, selector};
use crate::field::{Errors, Path};
use crate::names;
use crate::rules::{At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] = checks![
    node_is_valid,
    node_changes_little,
    addresses_are_unique,
    features_are_sorted,
    runtime_scheduling_is_valid,
];

const EFFECTS: &[&str] = &["NoExecute", "NoSchedule", "PreferNoSchedule"];

/// kube-apiserver checks taints where a Node has had them before they were fields.
fn node_is_valid(at: &At<'_>, errors: &mut Errors) {
    let path = at.path.child("metadata");
    let path = path.child("taints");
    let mut seen = HashSet::new();
    for (index, taint) in at.value.at("spec").list("taints").iter().enumerate() {
        let path = path.index(index);
        let (key, effect, value) = (taint.text("key"), taint.text("effect"), taint.text("value"));
        errors.invalid_all(&path.child("key"), key, label_key_errors(key));
        let found = label_value_errors(value);
        if !found.is_empty() {
            errors.invalid(&path.child("value"), value, found.join(";"));
        }
        errors.required_one_of(&path.child("effect"), effect, EFFECTS);
        if !seen.insert((key, effect)) {
            errors.duplicate(&path, taint.clone());
        }
    }
    status(at.value, errors);
    two_ranges(at.value.at("spec"), &at.path.child("spec"), errors);
}

/// Amounts of resources in the status of a node.
pub(super) fn status(node: &Value, errors: &mut Errors) {
    let (status, path) = (node.at("status"), Path::root("status"));
    for key in ["capacity", "allocatable"] {
        let path = path.child(key);
        for (name, amount) in status.entries(key) {
            resources::amount(name, amount, &path.child(name), errors);
        }
    }
}

fn two_ranges(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let ranges: Vec<&str> = spec.list("podCIDRs").iter().filter_map(Value::as_str).collect();
    let is_v6 = |range: &str| range.contains(':');
    let dual = matches!(ranges.as_slice(), [first, second] if is_v6(first) != is_v6(second));
    if ranges.len() > 1
        && let Some(index) = ranges.iter().position(|range| !names::is_cidr(range))
    {
        let wrong = ranges.get(index).copied().unwrap_or_default();
        let detail = format!(
            "invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[{index}]: <nil> (invalid CIDR address: {wrong})"
        );
        errors.internal(&path.child("podCIDRs"), detail);
    }
    if ranges.len() > 1 && !dual {
        let detail = "may specify no more than one CIDR for each IP family";
        errors.invalid(&path.child("podCIDRs"), spec.at("podCIDRs").clone(), detail);
    }
}

/// The place of a node and the addresses of its Pods are set once.
fn node_changes_little(at: &At<'_>, errors: &mut Errors) {
    let Some(old) = at.old else { return };
    let (new, old, path) = (at.value.at("spec"), old.at("spec"), at.path.child("spec"));
    if old.count("podCIDRs") > 0 && new.at("podCIDRs") != old.at("podCIDRs") {
        let detail = "node updates may not change podCIDR except from \"\" to valid";
        errors.forbidden(&path.child("podCIDRs"), detail);
    }
    let (now, before) = (new.text("providerID"), old.text("providerID"));
    if !before.is_empty() && now != before {
        let what = if now.is_empty() { "cleared" } else { "modified" };
        errors.invalid(&path.child("providerID"), Value::Null, format!("field cannot be {what} once set"));
    }
    if new.text("externalID") != old.text("externalID") {
        errors.forbidden(&path.child("externalID"), "may not be updated");
    }
}

fn addresses_are_unique(at: &At<'_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for (index, address) in at.value.as_array().into_iter().flatten().enumerate() {
        if !seen.insert((address.text("type"), address.text("address"))) {
            errors.duplicate(&at.path.index(index), address.clone());
        }
    }
}

fn features_are_sorted(at: &At<'_>, errors: &mut Errors) {
    let features: Vec<&str> = at.value.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (index, pair) in (1..).zip(features.windows(2)) {
        match pair {
            [first, second] if first == second => errors.duplicate(&at.path.index(index), *second),
            [first, second] if first > second => {
                errors.invalid(&at.path.index(index), *second, "list must be sorted alphabetically");
            }
            _ => {}
        }
    }
}

/// Tolerations of a runtime class are added to Pods as a set.
fn runtime_scheduling_is_valid(at: &At<'_>, errors: &mut Errors) {
    selector::labels(at.value.at("nodeSelector"), &at.path.child("nodeSelector"), errors);
    let path = at.path.child("tolerations");
    let mut seen = HashSet::new();
    for (index, toleration) in at.value.list("tolerations").iter().enumerate() {
        if !seen.insert(["key", "operator", "value", "effect"].map(|key| toleration.text(key))) {
            errors.duplicate(&path.index(index), toleration.clone());
        }
    }
}
