//! Horizontal pod autoscalers: `v1` knows one CPU target, `v2` any metrics.
//!
//! The metrics, behaviour and conditions that `v1` has no fields for are JSON in annotations, metrics in the flat form that
//! `v1` once had. Clients that read `v1` see these texts, so that they are written as kube-apiserver writes them
//! ([`super::go_text`]); annotations under these keys are always consumed, even with unreadable content.

use listwatch_wire::json::{Map, Value, json};

use super::Direction;
use super::autoscaler_fields::{BEHAVIOR_FIELDS, CONDITION, INTERNAL_BEHAVIOR, METRIC_SPEC, METRIC_STATUS};
use super::go_text::{GoField, list_text, read_list, read_struct, struct_text};
use crate::defaults::workload::default_target;

type JsonObject = Map;

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
/// Keys of former releases, which are removed as well.
const FORMER: [&str; 2] = [
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
];

/// One side of a metric: what is wanted, or what is seen.
struct Side {
    /// Name of the block in `v2`.
    block: &'static str,
    /// The names of value, average value and utilization in `v1`, by kind of metric.
    prefix: &'static str,
    /// The structs of `v1`.
    metric: &'static [GoField],
}

const TARGET: Side = Side { block: "target", prefix: "target", metric: &METRIC_SPEC };
const CURRENT: Side = Side { block: "current", prefix: "current", metric: &METRIC_STATUS };

/// Converts a `v1` autoscaler to the stored `v2`, or back.
pub(crate) fn autoscaler_v1(object: &mut JsonObject, direction: Direction) {
    match direction {
        Direction::ToStored => to_v2(object),
        Direction::FromStored => to_v1(object),
    }
}

/// Completes the spec of a `v1` autoscaler as a conversion to `v2` and back does. The status is left as it is, with the
/// annotations that belong to it: most writes replace it by the stored one afterwards.
pub(crate) fn complete_v1_spec(object: &mut JsonObject) {
    let status = object.remove("status");
    let texts = [CURRENT_METRICS, CONDITIONS].map(|key| (key, take_annotation(object, key)));
    to_v2(object);
    to_v1(object);
    object.remove("status");
    if let Some(status) = status {
        object.insert("status", status);
    }
    for (key, text) in texts {
        annotate(object, key, text);
    }
}

/// Converts from `v2`: CPU utilization has a field in `v1`, everything else moves into annotations. Measurements are
/// kept there whole, because the raw value of the CPU has no field.
fn to_v1(object: &mut JsonObject) {
    drop_annotations(object);
    let metrics = take_list(object, "spec", "metrics");
    let cpu = metrics.iter().find_map(|metric| cpu_utilization(metric, &TARGET)).cloned();
    put(object, "spec", "targetCPUUtilizationPercentage", cpu);
    let others: Vec<Value> =
        metrics.into_iter().filter(|metric| cpu_utilization(metric, &TARGET).is_none()).collect();
    annotate(object, METRICS, flat_text(&others, &TARGET));
    let current = take_list(object, "status", "currentMetrics");
    let cpu = current.iter().rev().find_map(|metric| cpu_utilization(metric, &CURRENT)).cloned();
    put(object, "status", "currentCPUUtilizationPercentage", cpu);
    annotate(object, CURRENT_METRICS, flat_text(&current, &CURRENT));
    let behavior = take(object, "spec", "behavior").filter(|behavior| !behavior.is_null());
    annotate(object, BEHAVIOR, behavior.map(|behavior| struct_text(&behavior, &INTERNAL_BEHAVIOR)));
    let conditions = take_list(object, "status", "conditions");
    annotate(object, CONDITIONS, (!conditions.is_empty()).then(|| list_text(&conditions, &CONDITION)));
    if let Some(Value::Object(status)) = object.get_mut("status") {
        status.entry("currentReplicas").or_insert_with(|| 0.into());
    }
}

/// Converts from `v1`: the reverse of `to_v1`. The CPU metric comes last, and measurements of the annotation replace the
/// field, as they say more. The default target is set here, since it depends on the annotation.
fn to_v2(object: &mut JsonObject) {
    let cpu = take(object, "spec", "targetCPUUtilizationPercentage").map(|cpu| cpu_metric(cpu, &TARGET));
    let others = annotation(object, METRICS).and_then(|value| read_list(&value, TARGET.metric));
    let others = others.unwrap_or_default().into_iter().map(|metric| nested(&metric, &TARGET));
    let metrics: Vec<Value> = others.chain(cpu).collect();
    put(object, "spec", "metrics", (!metrics.is_empty()).then(|| metrics.into()));
    let cpu = take(object, "status", "currentCPUUtilizationPercentage");
    let current = annotation(object, CURRENT_METRICS).and_then(|value| read_list(&value, CURRENT.metric));
    let current = match current {
        Some(list) => list.iter().map(|metric| nested(metric, &CURRENT)).collect(),
        None => cpu.map(|cpu| vec![cpu_metric(cpu, &CURRENT)]).unwrap_or_default(),
    };
    // In `v2` the field is always present, null if there is no value.
    let current = if current.is_empty() { Value::Null } else { current.into() };
    put(object, "status", "currentMetrics", Some(current));
    let behavior = annotation(object, BEHAVIOR).and_then(|value| read_struct(&value, &BEHAVIOR_FIELDS));
    let said = behavior.filter(|value| value.as_object().is_some_and(|behavior| !behavior.is_empty()));
    put(object, "spec", "behavior", said);
    let conditions = annotation(object, CONDITIONS).and_then(|value| read_list(&value, &CONDITION));
    let conditions = conditions.filter(|list| !list.is_empty());
    put(object, "status", "conditions", conditions.map(|list| list.into_iter().map(with_time).collect()));
    drop_annotations(object);
    if let Some(Value::Object(spec)) = object.get_mut("spec") {
        default_target(spec);
    }
    if let Some(Value::Object(status)) = object.get_mut("status")
        && status.get("currentReplicas").is_some_and(|replicas| *replicas == 0)
    {
        status.remove("currentReplicas");
    }
}

/// In `v2` a condition always has its time, null if it is not known.
fn with_time(mut condition: Value) -> Value {
    if let Value::Object(condition) = &mut condition {
        condition.entry("lastTransitionTime").or_insert(Value::Null);
    }
    condition
}

fn take(object: &mut JsonObject, part: &str, field: &str) -> Option<Value> {
    object.get_mut(part)?.as_object_mut()?.remove(field)
}

fn take_list(object: &mut JsonObject, part: &str, field: &str) -> Vec<Value> {
    take(object, part, field).and_then(|value| value.as_array().cloned()).unwrap_or_default()
}

/// Nothing is written for `None`, and an empty `spec` or `status` is made only if there is something to write.
fn put(object: &mut JsonObject, part: &str, field: &str, value: Option<Value>) {
    if let Some(value) = value
        && let Value::Object(part) = object.entry(part).or_insert_with(|| json!({}))
    {
        part.insert(field.to_owned(), value);
    }
}

fn annotate(object: &mut JsonObject, key: &str, text: Option<String>) {
    let Some(text) = text else { return };
    if let Value::Object(meta) = object.entry("metadata").or_insert_with(|| json!({}))
        && let Value::Object(annotations) = meta.entry("annotations").or_insert_with(|| json!({}))
    {
        annotations.insert(key.to_owned(), text.into());
    }
}

/// Reads an annotation; `None` if it is no JSON.
fn annotation(object: &JsonObject, key: &str) -> Option<Value> {
    let annotations = object.get("metadata")?.get("annotations")?;
    serde_json::from_str(annotations.get(key)?.as_str()?).ok()
}

/// Removes the annotations of the conversion, those that could not be read too.
pub(crate) fn drop_annotations(object: &mut JsonObject) {
    let Some(Value::Object(meta)) = object.get_mut("metadata") else { return };
    let Some(Value::Object(annotations)) = meta.get_mut("annotations") else { return };
    let keys = [METRICS, CURRENT_METRICS, CONDITIONS, BEHAVIOR].into_iter().chain(FORMER);
    let dropped = keys.filter(|key| annotations.remove(key).is_some()).count();
    if dropped > 0 && annotations.is_empty() {
        meta.remove("annotations");
    }
}

fn take_annotation(object: &mut JsonObject, key: &str) -> Option<String> {
    let annotations = object.get_mut("metadata")?.as_object_mut()?.get_mut("annotations")?.as_object_mut()?;
    annotations.remove(key)?.as_str().map(str::to_owned)
}

/// The CPU utilization of a metric, which `v1` has a field for.
fn cpu_utilization<'a>(metric: &'a Value, side: &Side) -> Option<&'a Value> {
    let resource =
        metric.get("resource").filter(|_| metric.get("type").is_some_and(|ty| ty == "Resource"))?;
    resource.get("name").filter(|name| *name == "cpu")?;
    resource.get(side.block)?.get("averageUtilization")
}

/// The metric of `v2` for the field of `v1`.
fn cpu_metric(utilization: Value, side: &Side) -> Value {
    let block = match side.block {
        "target" => json!({"type": "Utilization", "averageUtilization": utilization}),
        _ => json!({ "averageUtilization": utilization }),
    };
    json!({"type": "Resource", "resource": {"name": "cpu", side.block: block}})
}

/// The text of metrics for the annotation, in the flat form of `v1`; `None` without metrics.
fn flat_text(metrics: &[Value], side: &Side) -> Option<String> {
    let flat: Vec<Value> = metrics.iter().map(|m| each_source(m, |s, k| flatten(s, k, side))).collect();
    (!flat.is_empty()).then(|| list_text(&flat, side.metric))
}

/// A metric of the annotation in the form of `v2`.
fn nested(metric: &Value, side: &Side) -> Value {
    each_source(metric, |source, kind| nest(source, kind, side))
}

/// A metric is its type and one source, under the name of the type.
fn each_source(metric: &Value, change: impl Fn(&JsonObject, &str) -> JsonObject) -> Value {
    let Value::Object(metric) = metric else { return metric.clone() };
    let changed = metric.iter().map(|(key, value)| match value {
        Value::Object(source) => (key.clone(), change(source, key).into()),
        other => (key.clone(), other.clone()),
    });
    Value::Object(changed.collect())
}

/// The names of value, average value and utilization of a source in `v1`.
fn flat_names(source: &str, side: &Side) -> [String; 3] {
    let prefix = side.prefix;
    let average =
        if source == "object" { "averageValue".to_owned() } else { format!("{prefix}AverageValue") };
    [format!("{prefix}Value"), average, format!("{prefix}AverageUtilization")]
}

/// The names in `v2`, in the order of [`flat_names`].
const NESTED_NAMES: [&str; 3] = ["value", "averageValue", "averageUtilization"];

/// The names that a metric source has in `v1` for its object and selector.
fn selector_name(source: &str) -> &'static str {
    if source == "external" { "metricSelector" } else { "selector" }
}

/// The flat form of a metric source: `target.averageValue` becomes `targetAverageValue`.
fn flatten(source: &JsonObject, name: &str, side: &Side) -> JsonObject {
    let mut flat = source.clone();
    if let Some(Value::Object(mut metric)) = flat.remove("metric") {
        rename(&mut metric, "name", &mut flat, "metricName");
        rename(&mut metric, "selector", &mut flat, selector_name(name));
    }
    let block = flat.remove(side.block);
    if let Some(described) = flat.remove("describedObject") {
        flat.insert("target".to_owned(), described);
    }
    if let Some(Value::Object(mut block)) = block {
        for (nested, flat_name) in NESTED_NAMES.iter().zip(flat_names(name, side)) {
            rename(&mut block, nested, &mut flat, &flat_name);
        }
    }
    flat
}

/// The nested form of a metric source.
fn nest(source: &JsonObject, name: &str, side: &Side) -> JsonObject {
    let (mut nested, mut block, mut metric) = (source.clone(), JsonObject::new(), JsonObject::new());
    for (to, from) in NESTED_NAMES.iter().zip(flat_names(name, side)) {
        rename(&mut nested, &from, &mut block, to);
    }
    if name == "object"
        && let Some(described) = nested.remove("target")
    {
        nested.insert("describedObject".to_owned(), described);
    }
    rename(&mut nested, "metricName", &mut metric, "name");
    rename(&mut nested, selector_name(name), &mut metric, "selector");
    if !metric.is_empty() {
        nested.insert("metric".to_owned(), metric.into());
    }
    if side.block == "target" {
        let ty = target_type(name, &mut block);
        block.insert("type".to_owned(), ty.into());
    }
    nested.insert(side.block.to_owned(), block.into());
    nested
}

/// The type of a target, from the fields that are set. `v1` cannot leave out the value of an object's metric: a zero
/// beside an average value means none.
fn target_type(source: &str, block: &mut JsonObject) -> &'static str {
    let has = |name: &str| block.contains_key(name);
    match source {
        "object" if has("averageValue") => {
            if block.get("value").is_some_and(|value| value == "0") {
                block.remove("value");
            }
            "AverageValue"
        }
        "object" => "Value",
        "external" if has("value") => "Value",
        "resource" | "containerResource" if has("averageUtilization") => "Utilization",
        _ => "AverageValue",
    }
}

/// Moves a field between maps; absent ones stay absent.
fn rename(from: &mut JsonObject, old: &str, to: &mut JsonObject, new: &str) {
    if let Some(value) = from.remove(old) {
        to.insert(new.to_owned(), value);
    }
}
