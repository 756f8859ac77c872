//! HorizontalPodAutoscalers: what they scale, by which metrics, how fast.

use std::cmp::Ordering;

use listwatch_wire::json::Value;
use listwatch_wire::names::label_errors;

use super::resources;
use crate::field::{Errors, Path};
use crate::tree::Tree;
use crate::{Kind, convert, names, quantity};

/// The longest an autoscaler may look back, in seconds.
const MAX_WINDOW: i64 = 3600;
/// The longest period of a policy, in seconds.
const MAX_PERIOD: i64 = 1800;

/// Checks an autoscaler of any version; `old` is what it replaces. All versions are checked in the form that is stored,
/// which is the one that complaints are about.
pub(super) fn check(kind: &Kind, new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let mut new = new.clone();
    convert::to_stored(kind, &mut new);
    stored(&new, old, errors);
}

fn stored(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let (spec, path) = (new.at("spec"), Path::root("spec"));
    let (least, most) = (spec.int("minReplicas"), spec.int("maxReplicas").unwrap_or(0));
    if most < least.unwrap_or(1) {
        errors.invalid(&path.child("maxReplicas"), most, "must be greater than or equal to `minReplicas`");
    }
    let target = spec.at("scaleTargetRef");
    reference(target, &path.child("scaleTargetRef"), errors);
    let before = old.map(|old| old.at("spec").at("scaleTargetRef"));
    // What was stored before versions were checked may stay.
    if !before.is_some_and(|before| same_type(before, target)) {
        let grouped = target.text("kind") != "ReplicationController";
        version(target, grouped, &path.child("scaleTargetRef"), errors);
    }
    let list = spec.list("metrics");
    for (index, one) in list.iter().enumerate() {
        metric(one, &path.child("metrics").index(index), errors);
    }
    if least == Some(0) && !list.iter().any(|one| matches!(one.text("type"), "Object" | "External")) {
        let detail =
            "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.forbidden(&path.child("metrics"), detail);
    }
    let behavior = path.child("behavior");
    for key in ["scaleUp", "scaleDown"] {
        if spec.at("behavior").has(key) {
            scaling_rules(spec.at("behavior").at(key), &behavior.child(key), errors);
        }
    }
    bounds(least, most, &path, errors);
}

/// The bounds are declared with the types: the reference checks them after all that is written by hand, and a zero that
/// must be given counts as missing.
fn bounds(least: Option<i64>, most: i64, path: &Path<'_>, errors: &mut Errors) {
    let detail = "must be greater than or equal to 1";
    if let Some(least) = least.filter(|least| *least < 1) {
        errors.invalid(&path.child("minReplicas"), least, detail);
    }
    match most {
        0 => errors.required(&path.child("maxReplicas"), ""),
        ..0 => errors.invalid(&path.child("maxReplicas"), most, detail),
        _ => {}
    }
}

fn same_type(a: &Value, b: &Value) -> bool {
    ["apiVersion", "kind"].iter().all(|key| a.text(key) == b.text(key))
}

fn reference(target: &Value, path: &Path<'_>, errors: &mut Errors) {
    for key in ["kind", "name"] {
        named(target.text(key), &path.child(key), "", errors);
    }
}

/// A name that becomes part of a path.
fn named(name: &str, path: &Path<'_>, missing: &str, errors: &mut Errors) {
    if name.is_empty() {
        errors.required(path, missing);
    } else {
        errors.invalid_all(path, name, names::path_segment(name, false));
    }
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
fn metric(metric: &Value, path: &Path<'_>, errors: &mut Errors) {
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
        // The reference complains twice.
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
            reference(source.at("describedObject"), &described, errors);
            version(source.at("describedObject"), false, &described, errors);
        }
        "resource" | "containerResource" => resource(key, source, path, errors),
        _ => {}
    }
    if matches!(key, "object" | "external" | "pods") {
        let name = source.at("metric").text("name");
        named(name, &path.child("metric").child("name"), "must specify a metric name", errors);
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
        resources::name(name, &path.child("name"), errors);
    }
    let container = source.text("container");
    if contained && container.is_empty() {
        errors.required(&path.child("container"), "must specify a container");
    } else if contained {
        errors.invalid_all(&path.child("container"), container, label_errors(container));
    }
}

/// What holds for the target of any metric.
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

fn scaling_rules(rules: &Value, path: &Path<'_>, errors: &mut Errors) {
    let key = "stabilizationWindowSeconds";
    if let Some(window) = rules.int(key).filter(|window| *window < 0) {
        errors.invalid(&path.child(key), window, "must be greater than or equal to zero");
    }
    at_most(rules.int(key), MAX_WINDOW, &path.child(key), errors);
    if rules.has("selectPolicy") {
        let chosen = rules.text("selectPolicy");
        errors.one_of(&path.child("selectPolicy"), chosen, &["Disabled", "Max", "Min"]);
    }
    let policies = path.child("policies");
    if rules.count("policies") == 0 {
        errors.required(&policies, "must specify at least one Policy");
    }
    for (index, policy) in rules.list("policies").iter().enumerate() {
        let path = policies.index(index);
        errors.one_of(&path.child("type"), policy.text("type"), &["Percent", "Pods"]);
        for key in ["value", "periodSeconds"] {
            let number = policy.int(key).unwrap_or(0);
            if number <= 0 {
                errors.invalid(&path.child(key), number, "must be greater than zero");
            }
        }
        at_most(policy.int("periodSeconds"), MAX_PERIOD, &path.child("periodSeconds"), errors);
    }
    let tolerance = rules.text("tolerance");
    if quantity::compare(tolerance, "0") == Ok(Ordering::Less) {
        errors.invalid(&path.child("tolerance"), tolerance, "must be greater than or equal to 0");
    }
}

fn at_most(number: Option<i64>, most: i64, path: &Path<'_>, errors: &mut Errors) {
    if let Some(number) = number.filter(|number| *number > most) {
        errors.invalid(path, number, format!("must be less than or equal to {most}"));
    }
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    fn complaints(spec: Value, old: Option<Value>) -> Vec<String> {
        let mut errors = Errors::new();
        let old = old.map(|spec| json!({ "spec": spec }));
        stored(&json!({ "spec": spec }), old.as_ref(), &mut errors);
        errors.into_vec().iter().map(ToString::to_string).collect()
    }

    fn spec(key: &str, value: Value) -> Value {
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
        let mut spec = json!({"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 3});
        spec.put(key, value);
        spec
    }

    #[test]
    fn bounds_come_last() {
        assert_eq!(
            complaints(
                json!({"scaleTargetRef": {"kind": "Deployment", "name": "a/b"}, "minReplicas": 0}),
                None
            ),
            [
                "spec.scaleTargetRef.name: Invalid value: \"a/b\": may not contain '/'",
                "spec.scaleTargetRef.apiVersion: Invalid value: \"\": apiVersion must specify API group",
                "spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to zero replicas",
                "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1",
                "spec.maxReplicas: Required value",
            ]
        );
    }

    #[test]
    fn the_version_of_a_target_is_checked_when_it_changes() {
        let ungrouped =
            || spec("scaleTargetRef", json!({"apiVersion": "v1", "kind": "Deployment", "name": "d"}));
        assert_eq!(complaints(ungrouped(), None).len(), 1);
        assert_eq!(complaints(ungrouped(), Some(ungrouped())).len(), 0);
        let controller = json!({"apiVersion": "v1", "kind": "ReplicationController", "name": "d"});
        assert_eq!(complaints(spec("scaleTargetRef", controller), None).len(), 0);
    }

    #[test]
    fn metrics_describe_themselves() {
        let metrics = json!([
            {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 0}}},
            {"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "Value", "value": "-1"}}},
            {"type": "External", "external": {"metric": {"name": "m"}, "target": {"type": "Value", "value": "1"}}},
            {"type": "Object", "resource": {"name": "cpu", "target": {}}},
        ]);
        let found = complaints(spec("metrics", metrics), None);
        let found: Vec<&str> = found.iter().map(|text| text.trim_start_matches("spec.metrics")).collect();
        assert_eq!(
            found,
            [
                "[0].resource.target.averageUtilization: Invalid value: 0: must be greater than 0",
                "[1].pods.target.value: Invalid value: \"-1\": must be positive",
                "[1].pods.target.averageValue: Required value: must specify a positive target averageValue",
                "[3].resource.target.type: Required value: must specify a metric target type",
                "[3].resource.target.type: Invalid value: \"\": must be either Utilization, Value, or AverageValue",
                "[3].resource.target.averageUtilization: Required value: must set either a target raw value or a target utilization",
                "[3].object: Required value: must populate information for the given metric source",
            ]
        );
    }

    #[test]
    fn the_target_of_v1_is_a_metric() {
        let mut errors = Errors::new();
        let v1 = crate::by_kind("autoscaling", "v1", "HorizontalPodAutoscaler").unwrap();
        let object = json!({ "spec": spec("targetCPUUtilizationPercentage", 0.into()) });
        check(v1, &object, None, &mut errors);
        let found: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
        let path = "spec.metrics[0].resource.target.averageUtilization";
        assert_eq!(found, [format!("{path}: Invalid value: 0: must be greater than 0")]);
    }

    #[test]
    fn speed_is_limited() {
        let up = json!({"stabilizationWindowSeconds": 3601, "selectPolicy": "Most", "policies": [{"type": "Pod", "value": 0, "periodSeconds": 1801}]});
        let found = complaints(spec("behavior", json!({ "scaleUp": up })), None);
        let found: Vec<&str> =
            found.iter().map(|text| text.trim_start_matches("spec.behavior.scaleUp.")).collect();
        assert_eq!(
            found,
            [
                "stabilizationWindowSeconds: Invalid value: 3601: must be less than or equal to 3600",
                "selectPolicy: Unsupported value: \"Most\": supported values: \"Disabled\", \"Max\", \"Min\"",
                "policies[0].type: Unsupported value: \"Pod\": supported values: \"Percent\", \"Pods\"",
                "policies[0].value: Invalid value: 0: must be greater than zero",
                "policies[0].periodSeconds: Invalid value: 1801: must be less than or equal to 1800",
            ]
        );
    }
}
