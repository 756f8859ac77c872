//! Where a Pod may run: tolerations, affinities and spreading.

use std::collections::{HashMap, HashSet};

use listwatch_wire::json::Value;
use listwatch_wire::names::{label_errors, label_key_errors, label_value_errors};

use super::checks;
use crate::field::{Errors, Path};
use crate::rules::{At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] = checks![
    toleration_operator_fits,
    namespaces_are_labels,
    label_keys_are_apart,
    topology_key_is_valid,
    constraints_are_unique,
];

fn toleration_operator_fits(at: &At<'_>, errors: &mut Errors) {
    toleration(at.parent, at.path, errors);
}

fn toleration(toleration: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (operator, value) = (toleration.text("operator"), toleration.text("value"));
    if toleration.text("key").is_empty() && operator != "Exists" {
        let detail =
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        errors.invalid(path, operator, detail);
    }
    if toleration.has("tolerationSeconds") && toleration.text("effect") != "NoExecute" {
        let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        errors.invalid(&path.sibling("effect"), toleration.text("effect"), detail);
    }
    match operator {
        "" | "Equal" => {
            let found = label_value_errors(value);
            if !found.is_empty() {
                errors.invalid(path, value, found.join(";"));
            }
        }
        "Exists" if value.is_empty() => {}
        "Exists" => errors.invalid(path, value, "value must be empty when `operator` is 'Exists'"),
        "Lt" | "Gt" if value.parse::<i64>().is_err() => {
            errors.invalid(
                &path.sibling("value"),
                value,
                "must be a valid decimal integer in canonical form",
            );
        }
        "Lt" | "Gt" => {}
        other => errors.not_supported(path, other, &["Equal", "Exists"]),
    }
}

/// kube-apiserver reports these in the singular.
fn namespaces_are_labels(at: &At<'_>, errors: &mut Errors) {
    let path = at.path.sibling("namespace");
    for name in at.value.as_array().into_iter().flatten().filter_map(Value::as_str) {
        errors.invalid_all(&path, name, label_errors(name));
    }
}

/// Keys that are added to a selector from the Pod's own labels.
fn label_keys_are_apart(at: &At<'_>, errors: &mut Errors) {
    let selector = at.value.at("labelSelector");
    for list in ["matchLabelKeys", "mismatchLabelKeys"] {
        let (keys, path) = (at.value.list(list), at.path.child(list));
        if !keys.is_empty() && selector.is_null() {
            errors.forbidden(&path, "must not be specified when labelSelector is not set");
            continue;
        }
        for (index, key) in keys.iter().filter_map(Value::as_str).enumerate() {
            errors.invalid_all(&path.index(index), key, label_key_errors(key));
        }
    }
    let mismatched: HashSet<&str> =
        at.value.list("mismatchLabelKeys").iter().filter_map(Value::as_str).collect();
    let path = at.path.child("matchLabelKeys");
    let mut terms: HashMap<&str, usize> = HashMap::new();
    for term in selector.list("matchExpressions") {
        *terms.entry(term.text("key")).or_default() += 1;
    }
    for (index, key) in at.value.list("matchLabelKeys").iter().filter_map(Value::as_str).enumerate() {
        if mismatched.contains(key) {
            let detail = "exists in both matchLabelKeys and mismatchLabelKeys";
            errors.invalid(&path.index(index), key, detail);
        }
        let times = terms.get(key).copied().unwrap_or(0);
        if times > 0 && times + usize::from(selector.at("matchLabels").has(key)) > 1 {
            errors.invalid(&at.path.index(index), key, "exists in both matchLabelKeys and labelSelector");
        }
    }
}

fn topology_key_is_valid(at: &At<'_>, errors: &mut Errors) {
    let key = at.value.as_str().unwrap_or_default();
    if key.is_empty() {
        errors.required(at.path, "can not be empty");
    }
    errors.invalid_all(at.path, key, label_key_errors(key));
}

fn constraints_are_unique(at: &At<'_>, errors: &mut Errors) {
    let list = at.value.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut seen = HashSet::new();
    // The later one is right and the earlier one is repeated.
    for (index, constraint) in list.iter().enumerate().rev() {
        let (key, action) = (constraint.text("topologyKey"), constraint.text("whenUnsatisfiable"));
        if !seen.insert((key, action)) {
            let path = at.path.index(index);
            let pair = path.child("{topologyKey, whenUnsatisfiable}");
            errors.duplicate(&pair, format!("{{{key}, {action}}}"));
        }
    }
}
