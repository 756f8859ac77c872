//! Deployments, ReplicaSets, StatefulSets, DaemonSets, ReplicationControllers.

use listwatch_wire::json::{Text, Value, json};

use super::{pod, selector};
use crate::field::{Errors, Path};
use crate::tree::Tree;

/// Selector, template and counts, which all workloads share. `kind` is what they say they are not supported in.
fn common(new: &Value, what: &str, kind: &str, errors: &mut Errors) {
    let (spec, path) = (new.at("spec"), Path::root("spec"));
    errors.non_negative(&path.child("replicas"), spec.int("replicas"));
    errors.non_negative(&path.child("minReadySeconds"), spec.int("minReadySeconds"));
    errors.non_negative(&path.child("revisionHistoryLimit"), spec.int("revisionHistoryLimit"));
    let chosen = spec.at("selector");
    if chosen.is_null() && kind != "DaemonSet" {
        errors.required(&path.child("selector"), "");
    }
    if !chosen.is_null() {
        selector::check(chosen, &path.child("selector"), errors);
        if selector::is_empty(chosen) {
            let detail = format!("empty selector is invalid for {what}");
            errors.invalid(&path.child("selector"), chosen.clone(), detail);
        }
    }
    // A selector that means nothing takes nothing to be compared with.
    if kind != "DaemonSet" && !selector::is_usable(chosen) {
        errors.invalid(&path.child("selector"), chosen.clone(), "invalid label selector");
        return;
    }
    pod::template(&with_claims(spec), &path.child("template"), Some(chosen), errors);
    always_restart(spec, &path, kind, errors);
}

/// The Pod template of a workload, with a volume for each claim template: containers may mount those, too.
fn with_claims(spec: &Value) -> Value {
    let mut template = spec.at("template").clone();
    let claims = spec.list("volumeClaimTemplates");
    let Some(pod) = template.get_mut("spec").filter(|_| !claims.is_empty()) else { return template };
    let mut volumes = pod.list("volumes").to_vec();
    for claim in claims {
        let name = claim.at("metadata").text("name");
        if !volumes.iter().any(|volume| volume.text("name") == name) {
            volumes.push(json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
        }
    }
    pod.put("volumes", volumes);
    template
}

fn always_restart(spec: &Value, path: &Path<'_>, kind: &str, errors: &mut Errors) {
    let policy = spec.path(&["template", "spec", "restartPolicy"]).as_str().unwrap_or_default();
    if policy != "Always" {
        errors.not_supported(
            &path.child("template").child("spec").child("restartPolicy"),
            policy,
            &["Always"],
        );
    }
    if spec.path(&["template", "spec"]).has("activeDeadlineSeconds") {
        let path = path.child("template");
        errors.forbidden(
            &path.child("spec").child("activeDeadlineSeconds"),
            format!("activeDeadlineSeconds in {kind} is not Supported"),
        );
    }
}

pub(super) fn deployment(new: &Value, errors: &mut Errors) {
    common(new, "deployment", "ReplicaSet", errors);
    let (spec, path) = (new.at("spec"), Path::root("spec"));
    let (strategy, at) = (spec.at("strategy"), path.child("strategy"));
    match strategy.text("type") {
        "Recreate" if strategy.has("rollingUpdate") => {
            errors.forbidden(
                &at.child("rollingUpdate"),
                "may not be specified when strategy `type` is 'Recreate'",
            );
        }
        "Recreate" => {}
        "RollingUpdate" => rolling(strategy.at("rollingUpdate"), &at.child("rollingUpdate"), errors),
        other => errors.not_supported(&at.child("type"), other, &["Recreate", "RollingUpdate"]),
    }
    errors.non_negative(&path.child("progressDeadlineSeconds"), spec.int("progressDeadlineSeconds"));
    if let Some(deadline) =
        spec.int("progressDeadlineSeconds").filter(|d| *d <= spec.int("minReadySeconds").unwrap_or(0))
    {
        errors.invalid(
            &path.child("progressDeadlineSeconds"),
            deadline,
            "must be greater than minReadySeconds",
        );
    }
}

fn rolling(rolling: &Value, path: &Path<'_>, errors: &mut Errors) {
    for key in ["maxUnavailable", "maxSurge"] {
        count_or_percent(rolling.at(key), &path.child(key), errors);
    }
    at_most_all(rolling.at("maxUnavailable"), &path.child("maxUnavailable"), errors);
    if is_zero(rolling.at("maxUnavailable")) && is_zero(rolling.at("maxSurge")) {
        let unavailable = rolling.at("maxUnavailable").clone();
        errors.invalid(&path.child("maxUnavailable"), unavailable, "may not be 0 when `maxSurge` is 0");
    }
}

pub(super) fn count_or_percent(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    match value {
        Value::String(text) => {
            let digits = text.strip_suffix('%').unwrap_or_default();
            if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                let detail = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
                errors.invalid(path, text.as_str(), detail);
            }
        }
        other => errors.non_negative(path, other.as_i64()),
    }
}

/// A share of what there is cannot be more than all of it.
pub(super) fn at_most_all(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    let percent = value.as_str().and_then(|text| text.strip_suffix('%')?.parse::<u64>().ok());
    if percent.is_some_and(|percent| percent > 100) {
        errors.invalid(path, value.clone(), "must not be greater than 100%");
    }
}

pub(super) fn replica_set(new: &Value, errors: &mut Errors) {
    common(new, "deployment", "ReplicaSet", errors);
}

pub(super) fn daemon_set(new: &Value, errors: &mut Errors) {
    common(new, "daemonset", "DaemonSet", errors);
    let path = Path::root("spec");
    let strategy = new.at("spec").at("updateStrategy").text("type");
    errors.one_of(&path.child("updateStrategy").child("type"), strategy, &["RollingUpdate", "OnDelete"]);
    if strategy == "RollingUpdate" {
        let (rolling, path) =
            (new.at("spec").at("updateStrategy").at("rollingUpdate"), path.child("updateStrategy"));
        let path = path.child("rollingUpdate");
        let set = |key: &str| !matches!(rolling.at(key), Value::Null) && !is_zero(rolling.at(key));
        match (set("maxUnavailable"), set("maxSurge")) {
            (true, true) => errors.invalid(
                &path.child("maxSurge"),
                rolling.at("maxSurge").clone(),
                "may not be set when maxUnavailable is non-zero",
            ),
            (false, false) => {
                errors.required(&path.child("maxUnavailable"), "cannot be 0 when maxSurge is 0")
            }
            _ => {}
        }
    }
}

fn is_zero(value: &Value) -> bool {
    value == &json!(0) || value == &json!("0%")
}

pub(super) fn stateful_set(new: &Value, errors: &mut Errors) {
    common(new, "statefulset", "StatefulSet", errors);
    let (spec, path) = (new.at("spec"), Path::root("spec"));
    let policies = &["OrderedReady", "Parallel"];
    errors.one_of(&path.child("podManagementPolicy"), spec.text("podManagementPolicy"), policies);
    let strategy = spec.at("updateStrategy").text("type");
    let at = path.child("updateStrategy");
    errors.one_of(&at.child("type"), strategy, &["RollingUpdate", "OnDelete"]);
    let rolling = spec.at("updateStrategy").at("rollingUpdate");
    if strategy == "OnDelete" && !rolling.is_null() {
        let detail = "only allowed for updateStrategy 'RollingUpdate'";
        errors.invalid(&at.child("rollingUpdate"), rolling.clone(), detail);
    }
    let partition = rolling.int("partition");
    errors.non_negative(&at.child("rollingUpdate").child("partition"), partition);
    errors.non_negative(&path.child("ordinals").child("start"), spec.at("ordinals").int("start"));
    let policy = spec.at("persistentVolumeClaimRetentionPolicy");
    let at = path.child("persistentVolumeClaimRetentionPolicy");
    for key in ["whenDeleted", "whenScaled"].into_iter().filter(|key| policy.has(key)) {
        errors.one_of(&at.child(key), policy.text(key), &["Delete", "Retain"]);
    }
}

pub(super) fn stateful_set_change(new: &Value, old: &Value, errors: &mut Errors) {
    const FREE: [&str; 7] = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    const DETAIL: &str = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
    if without(new.at("spec"), &FREE) != without(old.at("spec"), &FREE) {
        errors.forbidden(&Path::root("spec"), DETAIL);
    }
}

/// The object's entries apart from some.
pub(super) fn without<'a>(object: &'a Value, keys: &[&str]) -> Vec<(&'a Text, &'a Value)> {
    object.fields().into_iter().flatten().filter(|(key, _)| !keys.contains(&key.as_str())).collect()
}

pub(super) fn replication_controller(new: &Value, errors: &mut Errors) {
    let (spec, path) = (new.at("spec"), Path::root("spec"));
    errors.non_negative(&path.child("replicas"), spec.int("replicas"));
    if spec.count("selector") == 0 {
        errors.required(&path.child("selector"), "");
    }
    if !spec.has("template") {
        errors.required(&path.child("template"), "");
        return;
    }
    let chosen = json!({"matchLabels": spec.at("selector")});
    pod::template(spec.at("template"), &path.child("template"), Some(&chosen), errors);
    always_restart(spec, &path, "ReplicationController", errors);
}

pub(super) fn replica_counts(status: &Value, errors: &mut Errors) {
    let path = Path::root("status");
    for key in [
        "replicas",
        "readyReplicas",
        "availableReplicas",
        "updatedReplicas",
        "observedGeneration",
        "collisionCount",
    ] {
        errors.non_negative(&path.child(key), status.int(key));
    }
    let total = status.int("replicas").unwrap_or(0);
    for key in ["fullyLabeledReplicas", "readyReplicas", "availableReplicas", "updatedReplicas"] {
        if let Some(count) = status.int(key).filter(|count| *count > total) {
            errors.invalid(&path.child(key), count, "cannot be greater than status.replicas");
        }
    }
}
