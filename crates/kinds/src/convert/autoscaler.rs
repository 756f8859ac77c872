//! Horizontal pod autoscalers: `v1` knows one CPU target, `v2` any metrics.
//!
//! The metrics, behaviour and conditions that `v1` has no fields for are JSON in annotations, metrics in the flat form that
//! `v1` once had.

use listwatch_wire::json::{Map, Value, json};

use super::Direction;

type JsonObject = Map;

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

/// One side of a metric: what is wanted, or what is seen.
struct Side {
    /// Name of the block in `v2`.
    block: &'static str,
    /// The names of value, average value and utilization in `v1`, by kind of metric.
    prefix: &'static str,
}

const TARGET: Side = Side { block: "target", prefix: "target" };
const CURRENT: Side = Side { block: "current", prefix: "current" };

/// Converts a `v1` autoscaler to the stored `v2`, or back.
pub(crate) fn autoscaler_v1(object: &mut JsonObject, direction: Direction) {
    match direction {
        Direction::ToStored => to_v2(object),
        Direction::FromStored => to_v1(object),
    }
}

/// Converts from `v2`: CPU utilization has a field in `v1`, everything else moves into annotations.
///
/// Annotations that the user wrote under these keys are overwritten.
fn to_v1(object: &mut JsonObject) {
    let metrics = take(object, "spec", "metrics");
    let (cpu, others) = split_cpu(metrics, &TARGET);
    put(object, "spec", "targetCPUUtilizationPercentage", cpu);
    let current = take(object, "status", "currentMetrics");
    let (cpu, other_current) = split_cpu(current, &CURRENT);
    put(object, "status", "currentCPUUtilizationPercentage", cpu);
    annotate(object, METRICS, flattened(&others, &TARGET));
    annotate(object, CURRENT_METRICS, flattened(&other_current, &CURRENT));
    let behavior = take(object, "spec", "behavior");
    annotate(object, BEHAVIOR, behavior);
    let conditions = take(object, "status", "conditions");
    annotate(object, CONDITIONS, conditions);
    if let Some(Value::Object(status)) = object.get_mut("status") {
        status.entry("currentReplicas").or_insert_with(|| 0.into());
    }
}

/// Converts from `v1`: the reverse of `to_v1`. The CPU metric comes first, where kube-apiserver puts it.
///
/// Annotations that were understood are removed, so a round trip leaves the object as it was.
fn to_v2(object: &mut JsonObject) {
    let cpu = take(object, "spec", "targetCPUUtilizationPercentage");
    let metrics = joined(cpu, annotation(object, METRICS), &TARGET);
    put(object, "spec", "metrics", metrics);
    let cpu = take(object, "status", "currentCPUUtilizationPercentage");
    let current = joined(cpu, annotation(object, CURRENT_METRICS), &CURRENT);
    // Always there in `v2`, if only as null.
    put(object, "status", "currentMetrics", Some(current.unwrap_or_default()));
    let behavior = annotation(object, BEHAVIOR);
    put(object, "spec", "behavior", behavior);
    let conditions = annotation(object, CONDITIONS);
    put(object, "status", "conditions", conditions);
    if let Some(Value::Object(status)) = object.get_mut("status")
        && status.get("currentReplicas").is_some_and(|replicas| *replicas == 0)
    {
        status.remove("currentReplicas");
    }
}

fn take(object: &mut JsonObject, part: &str, field: &str) -> Option<Value> {
    object.get_mut(part)?.as_object_mut()?.remove(field)
}

/// Nothing is written for `None`, and an empty `spec` or `status` is made only if there is something to write.
fn put(object: &mut JsonObject, part: &str, field: &str, value: Option<Value>) {
    if let Some(value) = value
        && let Value::Object(part) = object.entry(part).or_insert_with(|| json!({}))
    {
        part.insert(field.to_owned(), value);
    }
}

/// Compact JSON as text, with sorted keys.
fn annotate(object: &mut JsonObject, key: &str, value: Option<Value>) {
    let Some(value) = value else { return };
    if let Value::Object(meta) = object.entry("metadata").or_insert_with(|| json!({}))
        && let Value::Object(annotations) = meta.entry("annotations").or_insert_with(|| json!({}))
    {
        annotations.insert(key.to_owned(), value.to_string().into());
    }
}

/// Takes an annotation out; one that is no JSON stays, as something the user wrote.
fn annotation(object: &mut JsonObject, key: &str) -> Option<Value> {
    let meta = object.get_mut("metadata")?.as_object_mut()?;
    let annotations = meta.get_mut("annotations")?.as_object_mut()?;
    let value = serde_json::from_str(annotations.get(key)?.as_str()?).ok()?;
    annotations.remove(key);
    if annotations.is_empty() {
        meta.remove("annotations");
    }
    Some(value)
}

/// Separates the CPU utilization, which `v1` has a field for.
/// Only the first is taken: a second one, which validation does not forbid, stays with the others.
fn split_cpu(metrics: Option<Value>, side: &Side) -> (Option<Value>, Vec<Value>) {
    let Some(Value::Array(metrics)) = metrics else { return (None, Vec::new()) };
    let (mut cpu, mut others) = (None, Vec::new());
    for metric in metrics {
        let resource = metric.get("resource").filter(|r| r.get("name").is_some_and(|n| n == "cpu"));
        match resource.and_then(|r| r.get(side.block)?.get("averageUtilization")) {
            Some(utilization) if cpu.is_none() => cpu = Some(utilization.clone()),
            _ => others.push(metric),
        }
    }
    (cpu, others)
}

/// The metrics of `v2` from the CPU field and the annotation.
fn joined(cpu: Option<Value>, others: Option<Value>, side: &Side) -> Option<Value> {
    let cpu = cpu.map(|utilization| {
        let block = match side.block {
            "target" => json!({"type": "Utilization", "averageUtilization": utilization}),
            _ => json!({ "averageUtilization": utilization }),
        };
        json!({"type": "Resource", "resource": {"name": "cpu", side.block: block}})
    });
    let others = others.as_ref().and_then(Value::as_array);
    let metrics: Vec<Value> = cpu
        .into_iter()
        .chain(others.into_iter().flatten().map(|m| each_source(m, |s, k| nest(s, k, side))))
        .collect();
    (!metrics.is_empty()).then(|| metrics.into())
}

/// The metrics for the annotation, in the flat form that older clients wrote there.
fn flattened(metrics: &[Value], side: &Side) -> Option<Value> {
    let flat: Vec<Value> = metrics.iter().map(|m| each_source(m, |s, k| flatten(s, k, side))).collect();
    (!flat.is_empty()).then(|| flat.into())
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

/// The nested form of a metric source. The type of a target is found from the field that is set; of several the last in
/// the order of the API counts.
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
    let kind = NESTED_NAMES
        .iter()
        .zip(["Value", "AverageValue", "Utilization"])
        .rfind(|(k, _)| block.contains_key(k));
    if let (Some((_, kind)), "target") = (kind, side.block) {
        block.insert("type".to_owned(), kind.into());
    }
    nested.insert(side.block.to_owned(), block.into());
    nested
}

/// Moves a field between maps; absent ones stay absent.
fn rename(from: &mut JsonObject, old: &str, to: &mut JsonObject, new: &str) {
    if let Some(value) = from.remove(old) {
        to.insert(new.to_owned(), value);
    }
}
