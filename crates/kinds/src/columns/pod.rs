//! Table columns of Pods and PodTemplates.
//!
//! `STATUS` is derived from many fields in a fixed order of precedence (`printPod` of kube-apiserver): scheduling
//! gates, init containers, the reason of a waiting or terminated container, deletion. Monitoring scripts match on the
//! words, so the order matters more than it seems. Sidecars (init containers that are restarted always) count as
//! containers once they have started. Restarts carry the time of the last one.

use std::collections::HashSet;

use jiff::Timestamp;
use listwatch_wire::json::{Value, json};

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

/// The condition of the row of a Pod that has ended, by which clients may leave it out.
pub(crate) fn row_condition(pod: &Value) -> Option<Value> {
    let phase = pod.at("status").text("phase");
    let message = match phase {
        "Succeeded" => "The pod has completed successfully.",
        "Failed" => "The pod failed.",
        _ => return None,
    };
    Some(json!({"type": "Completed", "status": "True", "reason": phase, "message": message}))
}

/// The cells of a Pod, as kubectl's printers make them.
fn row(pod: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (pod.at("spec"), pod.at("status"));
    let summary = PodSummary::of(pod);
    let sidecars = spec.list("initContainers").iter().filter(|container| is_sidecar(container)).count();
    vec![
        name(pod),
        format!("{}/{}", summary.ready, spec.count("containers") + sidecars).into(),
        summary.state.into(),
        summary.restarts.text(now).into(),
        age_of(pod, now),
        or_none(status.list("podIPs").first().map_or("", |first| first.text("ip"))),
        or_none(spec.text("nodeName")),
        or_none(status.text("nominatedNodeName")),
        gates(spec, status).into(),
    ]
}

/// An init container that keeps running beside the containers.
fn is_sidecar(container: &Value) -> bool {
    container.text("restartPolicy") == "Always"
}

/// Restarts of containers, and the end of the last run before one of them.
#[derive(Clone, Copy, Default)]
struct Restarts<'a> {
    count: i64,
    last: &'a str,
}

impl<'a> Restarts<'a> {
    fn add(&mut self, container: &'a Value) {
        self.count += container.int("restartCount").unwrap_or(0);
        let ended = container.path(&["lastState", "terminated", "finishedAt"]).as_str().unwrap_or_default();
        self.last = self.last.max(ended);
    }

    /// Writes the number of restarts with the age of the last one, as in `3 (5m ago)`.
    fn text(self, now: Timestamp) -> String {
        match self {
            Self { count, last } if count != 0 && !last.is_empty() => {
                format!("{count} ({} ago)", age::since(last, now))
            }
            Self { count, .. } => count.to_string(),
        }
    }
}

/// The summary of the containers of a Pod: its state, and the numbers of ready containers and restarts.
struct PodSummary<'a> {
    state: String,
    ready: usize,
    restarts: Restarts<'a>,
}

impl<'a> PodSummary<'a> {
    /// Computes the summary that kubectl shows: an init container that is not done hides the containers, and a
    /// deletion hides both.
    fn of(pod: &'a Value) -> Self {
        let status = pod.at("status");
        let mut summary = Self { state: phase(status), ready: 0, restarts: Restarts::default() };
        let (initializing, sidecars) = summary.add_init_containers(pod);
        if !initializing || has_condition(status, "Initialized") {
            summary.restarts = sidecars;
            summary.add_containers(status);
        }
        match (pod.at("metadata").has("deletionTimestamp"), status.text("reason")) {
            (true, "NodeLost") => summary.state = "Unknown".to_owned(),
            (true, _) if !matches!(status.text("phase"), "Succeeded" | "Failed") => {
                summary.state = "Terminating".to_owned();
            }
            _ => {}
        }
        summary
    }

    /// Continues to the first init container that is not done, which determines the state. Returns true if there is one, and
    /// the restarts of sidecars, which count for the whole life of a Pod.
    fn add_init_containers(&mut self, pod: &'a Value) -> (bool, Restarts<'a>) {
        let specs = pod.at("spec").list("initContainers");
        let sidecar_names: HashSet<&str> =
            specs.iter().filter(|spec| is_sidecar(spec)).map(|spec| spec.text("name")).collect();
        let mut sidecars = Restarts::default();
        for (done, container) in pod.at("status").list("initContainerStatuses").iter().enumerate() {
            let is_sidecar = sidecar_names.contains(container.text("name"));
            self.restarts.add(container);
            if is_sidecar {
                sidecars.add(container);
            }
            let ended = container.at("state").at("terminated");
            if !ended.is_null() && ended.int("exitCode").unwrap_or(0) == 0 {
                continue;
            }
            if is_sidecar && container.flag("started") {
                self.ready += usize::from(container.flag("ready"));
                continue;
            }
            self.state = match problem(container) {
                Some(reason) if reason != "PodInitializing" => format!("Init:{reason}"),
                _ => format!("Init:{done}/{}", specs.len()),
            };
            return (true, sidecars);
        }
        (false, sidecars)
    }

    /// Containers decide over the phase: a Pod that crashes is `Running` and shows `CrashLoopBackOff`.
    fn add_containers(&mut self, status: &'a Value) {
        let containers = status.list("containerStatuses");
        containers.iter().for_each(|container| self.restarts.add(container));
        let is_running = |container: &&Value| {
            problem(container).is_none() && container.flag("ready") && container.at("state").has("running")
        };
        let running = containers.iter().filter(is_running).count();
        self.ready += running;
        if let Some(reason) = containers.iter().find_map(problem) {
            self.state = reason;
        }
        if self.state == "Completed" {
            // One container has completed. Others that run or have failed decide the state that is shown.
            let failed = containers.iter().find(|container| {
                container.path(&["state", "terminated", "exitCode"]).as_i64().unwrap_or(0) != 0
            });
            self.state = match failed.and_then(problem) {
                _ if running > 0 && has_condition(status, "Ready") => "Running".to_owned(),
                Some(reason) => reason,
                None if running > 0 => "NotReady".to_owned(),
                None => return,
            };
        }
    }
}

/// The state unless a container has a more specific one.
fn phase(status: &Value) -> String {
    let gated = |condition: &Value| {
        condition.text("type") == "PodScheduled" && condition.text("reason") == "SchedulingGated"
    };
    match status.text("reason") {
        _ if status.list("conditions").iter().any(gated) => "SchedulingGated".to_owned(),
        "" => status.text("phase").to_owned(),
        reason => reason.to_owned(),
    }
}

/// True if a condition is there and true.
fn has_condition(status: &Value, name: &str) -> bool {
    let holds = |condition: &Value| condition.text("type") == name && condition.text("status") == "True";
    status.list("conditions").iter().any(holds)
}

/// `met/all`, or `<none>`.
fn gates(spec: &Value, status: &Value) -> String {
    let gates = spec.list("readinessGates");
    let met = |gate: &&Value| has_condition(status, gate.text("conditionType"));
    if gates.is_empty() {
        super::NONE.to_owned()
    } else {
        format!("{}/{}", gates.iter().filter(met).count(), gates.len())
    }
}

/// The reason why a container is not running, if its status has one.
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
