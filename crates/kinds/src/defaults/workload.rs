//! Defaults of Deployments, ReplicaSets, StatefulSets, DaemonSets, ReplicationControllers and autoscalers.
//!
//! Numbers of a rolling update are filled only for that strategy; for a StatefulSet they are not, if the type was named
//! without them. Autoscaler defaults depend on the version: `v1` has one CPU target, `v2` a list of metrics. A
//! ReplicationController takes selector and labels from its template, which newer workloads refuse to guess.

use listwatch_wire::json::{Map, Value, json};

use super::{empty, pod};
use crate::convert;
use crate::tree::Tree;

/// The annotation that counts the templates of a DaemonSet.
pub(crate) const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Returns the workload's spec after completing its pod template and setting its replicas.
fn replicated(object: &mut Map) -> Option<&mut Map> {
    let spec = object.inner_or_new("spec")?;
    pod::template(spec);
    spec.fill("replicas", 1);
    Some(spec)
}

/// Defaults of a Deployment: a rolling update by quarters, ten old ReplicaSets, ten minutes to make progress.
pub(crate) fn deployment(object: &mut Map) {
    let Some(spec) = replicated(object) else { return };
    spec.fill("revisionHistoryLimit", 10);
    spec.fill("progressDeadlineSeconds", 600);
    if let Some(strategy) = spec.inner_or_new("strategy") {
        strategy.fill_text("type", "RollingUpdate");
        rolling(strategy, &[("maxUnavailable", json!("25%")), ("maxSurge", json!("25%"))]);
    }
}

/// Completes `rollingUpdate` if that is the type chosen.
fn rolling(strategy: &mut Map, defaults: &[(&str, Value)]) {
    if strategy.text("type") != "RollingUpdate" {
        return;
    }
    if let Some(rolling) = strategy.inner_or_new("rollingUpdate") {
        for (key, value) in defaults {
            rolling.fill(key, value.clone());
        }
    }
}

pub(crate) fn replica_set(object: &mut Map) {
    replicated(object);
}

/// Claim templates get the type and the status of a new claim, as in kube-apiserver.
pub(crate) fn stateful_set(object: &mut Map) {
    let Some(spec) = replicated(object) else { return };
    spec.fill_text("podManagementPolicy", "OrderedReady");
    spec.fill("revisionHistoryLimit", 10);
    if let Some(strategy) = spec.inner_or_new("updateStrategy") {
        if strategy.text("type").is_empty() {
            strategy.put("type", "RollingUpdate");
            strategy.fill("rollingUpdate", empty());
        }
        // A strategy with a type and no numbers gets no defaults for them.
        if strategy.has("rollingUpdate") {
            rolling(strategy, &[("partition", json!(0)), ("maxUnavailable", json!(1))]);
        }
    }
    if let Some(policy) = spec.inner_or_new("persistentVolumeClaimRetentionPolicy") {
        policy.fill_text("whenDeleted", "Retain");
        policy.fill_text("whenScaled", "Retain");
    }
    for claim in spec.each("volumeClaimTemplates") {
        claim.fill("apiVersion", "v1");
        claim.fill("kind", "PersistentVolumeClaim");
        if let Some(spec) = claim.inner_or_new("spec") {
            spec.fill("volumeMode", "Filesystem");
        }
        claim.fill("status", json!({"phase": "Pending"}));
    }
}

/// Defaults of a DaemonSet: one node at a time, without a second Pod beside the old one.
pub(crate) fn daemon_set(object: &mut Map) {
    // The template generation is set when the object is prepared; the writer becomes its owner even if it leaves it
    // out.
    if let Some(annotations) =
        object.inner_or_new("metadata").and_then(|meta| meta.inner_or_new("annotations"))
    {
        annotations.fill_text(TEMPLATE_GENERATION, "0");
    }
    let Some(spec) = object.inner_or_new("spec") else { return };
    pod::template(spec);
    spec.fill("revisionHistoryLimit", 10);
    if let Some(strategy) = spec.inner_or_new("updateStrategy") {
        strategy.fill_text("type", "RollingUpdate");
        rolling(strategy, &[("maxUnavailable", json!(1)), ("maxSurge", json!(0))]);
        // With another type kube-apiserver fills in the zero values of the block.
        if let Some(unused) = strategy.inner("rollingUpdate") {
            unused.fill("maxUnavailable", 0);
            unused.fill("maxSurge", 0);
        }
    }
}

/// The oldest workload takes its selector and labels from its template.
pub(crate) fn replication_controller(object: &mut Map) {
    let labels = object.at("spec").path(&["template", "metadata", "labels"]).clone();
    if !object.at("spec").has("template") {
        if let Some(spec) = object.inner_or_new("spec") {
            spec.fill("replicas", 1);
        }
        return;
    }
    let Some(spec) = replicated(object) else { return };
    if labels.is_object() {
        if spec.count("selector") == 0 {
            spec.put("selector", labels.clone());
        }
        if let Some(meta) = object.inner_or_new("metadata")
            && meta.count("labels") == 0
        {
            meta.put("labels", labels);
        }
    }
}

/// Defaults of an autoscaler in its older form.
///
/// kube-apiserver computes with a form that has the fields of `v2`: the default target is set by the conversion, which knows the
/// metrics of the annotations, and annotations that cannot be read are gone afterwards.
pub(crate) fn autoscaler_v1(object: &mut Map) {
    if let Some(spec) = object.inner_or_new("spec") {
        spec.fill("minReplicas", 1);
    }
    convert::complete_v1_spec(object);
}

/// Defaults of an autoscaler in the form that is stored.
pub(crate) fn autoscaler_v2(object: &mut Map) {
    // They would be read as fields by clients of `v1`.
    convert::drop_autoscaler_annotations(object);
    let Some(spec) = object.inner_or_new("spec") else { return };
    spec.fill("minReplicas", 1);
    default_target(spec);
    let Some(behavior) = spec.inner("behavior") else { return };
    let up = json!([
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15}
    ]);
    scaling_rules(behavior, "scaleUp", up, Some(0));
    scaling_rules(
        behavior,
        "scaleDown",
        json!([{"type": "Percent", "value": 100, "periodSeconds": 15}]),
        None,
    );
}

/// The metric of an autoscaler that names none: 80% of the CPU requested.
pub(crate) fn default_target(spec: &mut Map) {
    if spec.count("metrics") == 0 {
        let cpu = json!({"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}});
        spec.put("metrics", json!([{"type": "Resource", "resource": cpu}]));
    }
}

/// Policies are filled as a whole: a list with one policy is a choice and not a part.
fn scaling_rules(behavior: &mut Map, direction: &str, policies: Value, window: Option<i64>) {
    behavior.fill(direction, empty());
    let Some(rules) = behavior.inner(direction) else { return };
    rules.fill("selectPolicy", "Max");
    if let Some(window) = window {
        rules.fill("stabilizationWindowSeconds", window);
    }
    rules.fill("policies", policies);
}
