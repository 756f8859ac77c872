//! Table columns of Pods and PodTemplates.
//!
//! `STATUS` is derived from many fields in a fixed order of precedence (`printPod` of kube-apiserver): scheduling
//! gates, init containers, the reason of a waiting or terminated container, deletion. Monitoring scripts match on the
//! words, so the order matters more than it seems. Restarts carry the time of the last one.

use jiff::Timestamp;
use listwatch_wire::json::Value;

use super::{AGE, KindColumns, NAME, age_of, containers, labels, name, or_none, text, wide};
use crate::age;
use crate::tree::Tree;

pub(crate) const POD: KindColumns = KindColumns {
    columns: &[
        NAME,
        text("Ready"),
        text("Status"),
        text("Restarts"),
        AGE,
        wide("IP"),
        wide("Node"),
        wide("Nominated Node"),
        wide("Readiness Gates"),
    ],
    cells: row,
};

pub(crate) const TEMPLATE: KindColumns = KindColumns {
    columns: &[NAME, text("Containers"), text("Images"), text("Pod Labels")],
    cells: |object, _| {
        let (names, images) = containers(object.at("template").at("spec"));
        vec![name(object), names, images, labels(object.at("template").at("metadata").at("labels")).into()]
    },
};

fn row(pod: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (pod.at("spec"), pod.at("status"));
    let statuses = status.list("containerStatuses");
    let ready = statuses.iter().filter(|container| container.flag("ready")).count();
    let address = match status.list("podIPs").first() {
        Some(first) => first.text("ip"),
        None => status.text("podIP"),
    };
    vec![
        name(pod),
        format!("{ready}/{}", spec.count("containers")).into(),
        state(pod).into(),
        restarts(statuses, now).into(),
        age_of(pod, now),
        or_none(address),
        or_none(spec.text("nodeName")),
        or_none(status.text("nominatedNodeName")),
        gates(spec, status).into(),
    ]
}

fn restarts(statuses: &[Value], now: Timestamp) -> String {
    let total: i64 = statuses.iter().filter_map(|container| container.int("restartCount")).sum();
    let ended = |container: &Value| {
        container.path(&["lastState", "terminated", "finishedAt"]).as_str().unwrap_or_default().to_owned()
    };
    match statuses.iter().map(ended).max() {
        Some(last) if total > 0 && !last.is_empty() => format!("{total} ({} ago)", age::since(&last, now)),
        _ => total.to_string(),
    }
}

fn gates(spec: &Value, status: &Value) -> String {
    let gates = spec.list("readinessGates");
    let met = |gate: &&Value| {
        status.list("conditions").iter().any(|condition| {
            condition.text("type") == gate.text("conditionType") && condition.text("status") == "True"
        })
    };
    if gates.is_empty() {
        super::NONE.to_owned()
    } else {
        format!("{}/{}", gates.iter().filter(met).count(), gates.len())
    }
}

/// Why a container is not running, as far as it says.
fn problem(container: &Value) -> Option<String> {
    let state = container.at("state");
    let (waiting, ended) = (state.at("waiting"), state.at("terminated"));
    if !waiting.text("reason").is_empty() {
        return Some(waiting.text("reason").to_owned());
    }
    if ended.is_null() {
        return None;
    }
    Some(match (ended.text("reason"), ended.int("signal").unwrap_or(0)) {
        ("", 0) => format!("ExitCode:{}", ended.int("exitCode").unwrap_or(0)),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    })
}

/// The first init container that is not done, in the form `Init:...`.
fn initializing(pod: &Value) -> Option<String> {
    let total = pod.at("spec").count("initContainers");
    for (done, container) in pod.at("status").list("initContainerStatuses").iter().enumerate() {
        let ended = container.at("state").at("terminated");
        if !ended.is_null() && ended.int("exitCode").unwrap_or(0) == 0 {
            continue;
        }
        return Some(match problem(container) {
            Some(reason) if reason != "PodInitializing" => format!("Init:{reason}"),
            _ => format!("Init:{done}/{total}"),
        });
    }
    None
}

fn state(pod: &Value) -> String {
    let status = pod.at("status");
    let mut state =
        if status.text("reason").is_empty() { status.text("phase") } else { status.text("reason") }
            .to_owned();
    let gated = |condition: &&Value| {
        condition.text("type") == "PodScheduled" && condition.text("reason") == "SchedulingGated"
    };
    if status.list("conditions").iter().any(|condition| gated(&condition)) {
        state = "SchedulingGated".to_owned();
    }
    if let Some(init) = initializing(pod) {
        state = init;
    } else if let Some(reason) = status.list("containerStatuses").iter().find_map(problem) {
        state = reason;
        let running = |container: &Value| container.flag("ready") && container.at("state").has("running");
        if state == "Completed" && status.list("containerStatuses").iter().any(running) {
            state = "Running".to_owned();
        }
    }
    match (pod.at("metadata").has("deletionTimestamp"), status.text("reason")) {
        (true, "NodeLost") => "Unknown".to_owned(),
        (true, _) if !matches!(status.text("phase"), "Succeeded" | "Failed") => "Terminating".to_owned(),
        _ => state,
    }
}
