//! Deployments, ReplicaSets, StatefulSets, DaemonSets: strategies and counts.

use listwatch_wire::json::Value;

use super::checks;
use crate::field::{Errors, Path};
use crate::rules::{At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] = checks![
    deployment_strategy_is_valid,
    daemon_set_strategy_is_valid,
    stateful_set_strategy_is_valid,
    pod_management_policy_is_known,
    deadline_exceeds_readiness,
    replica_counts_add_up,
    revision_has_data,
];

/// A count or a percentage as a number, and whether it is a percentage. Text that is neither counts as zero.
fn share(value: &Value) -> (i64, bool) {
    match value {
        Value::String(text) => {
            let digits = text.strip_suffix('%').filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
            let percent = digits.and_then(|digits| digits.parse().ok());
            percent.map_or((0, false), |percent| (percent, true))
        }
        other => (other.as_i64().unwrap_or(0), false),
    }
}

fn count_or_percent(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    match value {
        Value::String(text) if !share(value).1 || text == "%" => {
            let detail = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
            errors.invalid(path, text.as_str(), detail);
        }
        other => errors.non_negative(path, other.as_i64()),
    }
}

fn at_most_all(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    if let (101.., true) = share(value) {
        errors.invalid(path, value.clone(), "must not be greater than 100%");
    }
}

fn deployment_strategy_is_valid(at: &At<'_>, errors: &mut Errors) {
    let (rolling, path) = (at.value.at("rollingUpdate"), at.path.child("rollingUpdate"));
    match at.value.text("type") {
        "Recreate" if at.value.has("rollingUpdate") => {
            errors.forbidden(&path, "may not be specified when strategy `type` is 'Recreate'");
        }
        "Recreate" => {}
        "RollingUpdate" => {
            for key in ["maxUnavailable", "maxSurge"] {
                count_or_percent(rolling.at(key), &path.child(key), errors);
            }
            let unavailable = rolling.at("maxUnavailable");
            if share(unavailable).0 == 0 && share(rolling.at("maxSurge")).0 == 0 {
                let detail = "may not be 0 when `maxSurge` is 0";
                errors.invalid(&path.child("maxUnavailable"), unavailable.clone(), detail);
            }
            at_most_all(unavailable, &path.child("maxUnavailable"), errors);
        }
        other => errors.not_supported(at.path, other, &["Recreate", "RollingUpdate"]),
    }
}

fn daemon_set_strategy_is_valid(at: &At<'_>, errors: &mut Errors) {
    let (rolling, path) = (at.value.at("rollingUpdate"), at.path.child("rollingUpdate"));
    match at.value.text("type") {
        "OnDelete" => {}
        "RollingUpdate" if rolling.is_null() => errors.required(&path, ""),
        "RollingUpdate" => {
            for key in ["maxUnavailable", "maxSurge"] {
                count_or_percent(rolling.at(key), &path.child(key), errors);
            }
            for key in ["maxUnavailable", "maxSurge"] {
                at_most_all(rolling.at(key), &path.child(key), errors);
            }
            let set = |key: &str| share(rolling.at(key)).0 != 0;
            match (set("maxUnavailable"), set("maxSurge")) {
                (true, true) => {
                    let detail = "may not be set when maxUnavailable is non-zero";
                    errors.invalid(&path.child("maxSurge"), rolling.at("maxSurge").clone(), detail);
                }
                (false, false) => {
                    errors.required(&path.child("maxUnavailable"), "cannot be 0 when maxSurge is 0");
                }
                _ => {}
            }
        }
        other => errors.not_supported(at.path, other, &["OnDelete", "RollingUpdate"]),
    }
}

fn stateful_set_strategy_is_valid(at: &At<'_>, errors: &mut Errors) {
    let (rolling, path) = (at.value.at("rollingUpdate"), at.path.child("rollingUpdate"));
    match at.value.text("type") {
        "" => errors.required(at.path, ""),
        "OnDelete" if !rolling.is_null() => {
            errors.invalid(&path, rolling.clone(), "only allowed for updateStrategy 'RollingUpdate'");
        }
        "OnDelete" => {}
        "RollingUpdate" => {
            errors.non_negative(&path.child("partition"), rolling.int("partition"));
            if rolling.has("maxUnavailable") {
                let (value, path) = (rolling.at("maxUnavailable"), path.child("maxUnavailable"));
                count_or_percent(value, &path, errors);
                if share(value).0 == 0 {
                    errors.invalid(&path, value.clone(), "cannot be 0");
                }
                at_most_all(value, &path, errors);
            }
        }
        _ => errors.invalid(at.path, at.value.clone(), "must be 'RollingUpdate' or 'OnDelete'"),
    }
}

fn pod_management_policy_is_known(at: &At<'_>, errors: &mut Errors) {
    let policy = at.value.as_str().unwrap_or_default();
    if !matches!(policy, "OrderedReady" | "Parallel") {
        errors.invalid(at.path, policy, "must be 'OrderedReady' or 'Parallel'");
    }
}

fn revision_has_data(at: &At<'_>, errors: &mut Errors) {
    match at.value {
        _ if at.old.is_some() => {}
        Value::Object(_) => {}
        Value::Null => errors.required(at.path, "data is mandatory"),
        _ => errors.required(at.path, "data must be a valid JSON object"),
    }
}

fn deadline_exceeds_readiness(at: &At<'_>, errors: &mut Errors) {
    let least = at.parent.int("minReadySeconds").unwrap_or(0);
    if let Some(deadline) = at.value.as_i64().filter(|deadline| *deadline <= least) {
        errors.invalid(at.path, deadline, "must be greater than minReadySeconds");
    }
}

fn replica_counts_add_up(at: &At<'_>, errors: &mut Errors) {
    const COUNTS: [&str; 7] = [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "updatedReplicas",
        "currentReplicas",
        "terminatingReplicas",
    ];
    let status = at.value;
    for key in COUNTS.into_iter().chain(["observedGeneration", "collisionCount", "unavailableReplicas"]) {
        errors.non_negative(&at.path.child(key), status.int(key));
    }
    let total = status.int("replicas").unwrap_or(0);
    for key in COUNTS.iter().filter(|key| !matches!(**key, "replicas" | "terminatingReplicas")) {
        if let Some(count) = status.int(key).filter(|count| *count > total) {
            errors.invalid(&at.path.child(key), count, "cannot be greater than status.replicas");
        }
    }
    let available = status.int("availableReplicas").unwrap_or(0);
    if available > status.int("readyReplicas").unwrap_or(0) {
        errors.invalid(
            &at.path.child("availableReplicas"),
            available,
            "cannot be greater than readyReplicas",
        );
    }
    let before = at.old.and_then(|old| old.int("collisionCount"));
    let now = status.int("collisionCount").unwrap_or(0);
    if before.is_some_and(|before| now < before) {
        errors.invalid(&at.path.child("collisionCount"), now, "cannot be decremented");
    }
}
