//! HorizontalPodAutoscalers: bounds, targets and metrics.

use std::cmp::Ordering;

use listwatch_wire::json::Value;
use listwatch_wire::names::label_errors;

use super::{checks, resources};
use crate::field::{Errors, Path};
use crate::rules::{At, Check};
use crate::tree::Tree;
use crate::{names, quantity};

pub(super) const CHECKS: &[(&str, Check)] = checks![
    autoscaler_target_has_a_group,
    bounds_are_ordered,
    scaling_to_zero_has_metrics,
    metric_describes_its_type,
];

/// Objects that were stored before versions were checked may stay as they are.
fn autoscaler_target_has_a_group(at: &At<'_>, errors: &mut Errors) {
    let target = at.value.at("spec").at("scaleTargetRef");
    let before = at.old.map(|old| old.at("spec").at("scaleTargetRef"));
    if !before.is_some_and(|before| same_type(before, target)) {
        let grouped = target.text("kind") != "ReplicationController";
        let path = at.path.child("spec");
        version(target, grouped, &path.child("scaleTargetRef"), errors);
    }
}

fn bounds_are_ordered(at: &At<'_>, errors: &mut Errors) {
    let (least, most) = (at.parent.int("minReplicas"), at.value.as_i64().unwrap_or(0));
    if least.is_some_and(|least| most < least) {
        errors.invalid(at.path, most, "must be greater than or equal to `minReplicas`");
    }
}

fn scaling_to_zero_has_metrics(at: &At<'_>, errors: &mut Errors) {
    let mut metrics = at.value.as_array().into_iter().flatten();
    let counted = metrics.any(|metric| matches!(metric.text("type"), "Object" | "External"));
    if at.parent.int("minReplicas") == Some(0) && !counted {
        let detail =
            "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.forbidden(at.path, detail);
    }
}

fn same_type(a: &Value, b: &Value) -> bool {
    ["apiVersion", "kind"].iter().all(|key| a.text(key) == b.text(key))
}

fn version(target: &Value, grouped: bool, path: &Path<'_>, errors: &mut Errors) {
    let text = target.text("apiVersion");
    let path = path.child("apiVersion");
    if text.matches('/').count() > 1 {
        errors.invalid(&path, text, format!("unexpected GroupVersion string: {text}"));
    } else if grouped && text.split_once('/').is_none_or(|(group, _)| group.is_empty()) {
        errors.invalid(&path, text, "apiVersion must specify API group");
    }
}

/// Types of metrics and the fields that describe them, in the order in which they are looked at.
const METRICS: &[(&str, &str)] = &[
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];

/// Each metric says of which type it is and describes that one and no other.
fn metric_describes_its_type(at: &At<'_>, errors: &mut Errors) {
    let (metric, path) = (at.value, at.path);
    let kind = metric.text("type");
    let expected = METRICS.iter().find(|(name, _)| *name == kind).map(|(_, key)| *key);
    let types: Vec<&str> = METRICS.iter().map(|(name, _)| *name).collect();
    if kind.is_empty() {
        errors.required(&path.child("type"), "must specify a metric source type");
    }
    if expected.is_none() {
        errors.not_supported(&path.child("type"), kind, &types);
    }
    let present: Vec<&str> = METRICS.iter().map(|(_, key)| *key).filter(|key| metric.has(key)).collect();
    if let Some(first) = present.first() {
        source(first, metric.at(first), &path.child(first), errors);
    }
    match expected {
        Some(key) if !metric.has(key) => {
            errors.required(&path.child(key), "must populate information for the given metric source");
        }
        Some(_) => {}
        // kube-apiserver says so twice.
        None => errors.not_supported(&path.child("type"), kind, &types),
    }
    if present.len() > 1 {
        for key in present.iter().filter(|key| Some(**key) != expected) {
            errors.forbidden(&path.child(key), "must populate the given metric source only");
        }
    }
}

fn source(key: &str, source: &Value, path: &Path<'_>, errors: &mut Errors) {
    match key {
        "object" => {
            let described = path.child("describedObject");
            version(source.at("describedObject"), false, &described, errors);
        }
        "resource" | "containerResource" => resource(key, source, path, errors),
        _ => {}
    }
    if matches!(key, "object" | "external" | "pods") {
        let name = source.at("metric").text("name");
        let path = path.child("metric");
        match name.is_empty() {
            true => errors.required(&path.child("name"), "must specify a metric name"),
            false => errors.invalid_all(&path.child("name"), name, names::path_segment(name, false)),
        }
    }
    let goal = source.at("target");
    let path = path.child("target");
    target(goal, &path, errors);
    wanted(key, goal, &path, errors);
}

fn resource(key: &str, source: &Value, path: &Path<'_>, errors: &mut Errors) {
    let contained = key == "containerResource";
    let name = source.text("name");
    if name.is_empty() {
        errors.required(&path.child("name"), "must specify a resource name");
    } else if contained {
        resources::container_name(name, &path.child("name"), errors);
    }
    let container = source.text("container");
    if contained && container.is_empty() {
        errors.required(&path.child("container"), "must specify a container");
    } else if contained {
        errors.invalid_all(&path.child("container"), container, label_errors(container));
    }
}

/// Rules for the target of any metric.
fn target(target: &Value, path: &Path<'_>, errors: &mut Errors) {
    let kind = target.text("type");
    if kind.is_empty() {
        errors.required(&path.child("type"), "must specify a metric target type");
    }
    if !matches!(kind, "Utilization" | "Value" | "AverageValue") {
        errors.invalid(&path.child("type"), kind, "must be either Utilization, Value, or AverageValue");
    }
    for key in ["value", "averageValue"] {
        let amount = target.text(key);
        if target.has(key) && quantity::compare(amount, "0") != Ok(Ordering::Greater) {
            errors.invalid(&path.child(key), amount, "must be positive");
        }
    }
    errors.positive(&path.child("averageUtilization"), target.int("averageUtilization"));
}

/// Which amounts the target of a metric of this type must and must not have.
fn wanted(key: &str, target: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (value, average) = (target.has("value"), target.has("averageValue"));
    let utilization = target.has("averageUtilization");
    let (missing, detail) = match key {
        "object" => (!value && !average, "must set either a target value or averageValue"),
        "external" => (!value && !average, "must set either a target value for metric or a per-pod target"),
        "pods" => (!average, "must specify a positive target averageValue"),
        _ => (!utilization && !average, "must set either a target raw value or a target utilization"),
    };
    let of_resource = matches!(key, "resource" | "containerResource");
    if missing {
        errors.required(&path.child(if of_resource { "averageUtilization" } else { "averageValue" }), detail);
    }
    if key == "external" && value && average {
        let detail = "may not set both a target value for metric and a per-pod target";
        errors.forbidden(&path.child("value"), detail);
    }
    if of_resource && utilization && average {
        let detail = "may not set both a target raw value and a target utilization";
        errors.forbidden(&path.child("averageValue"), detail);
    }
}
