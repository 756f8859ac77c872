//! Table columns of workloads, autoscalers and disruption budgets.
//!
//! Container names, images and selectors are wide columns (priority 1), shown with `-o wide` only. Some numbers are
//! declared as text (`Up-to-date` of a Deployment but not of a DaemonSet), because kube-apiserver always did. Targets
//! of an autoscaler are matched with measurements by position, and only two are shown.

use jiff::Timestamp;
use listwatch_wire::json::Value;

use super::{
    AGE, Column, KindColumns, NAME, NONE, age_of, containers, count_at, name, number, selector, text, wide,
};
use crate::age;
use crate::tree::Tree;

const CONTAINERS: Column = wide("Containers");
const IMAGES: Column = wide("Images");
const SELECTOR: Column = wide("Selector");
/// Numbers that have always been declared as text.
const UP_TO_DATE: Column = text("Up-to-date");
const AVAILABLE: Column = text("Available");

/// `Ready` is `ready/desired`. kubectl shows the last three columns with `-o wide`.
pub(crate) const DEPLOYMENT: KindColumns = KindColumns {
    columns: &[NAME, text("Ready"), UP_TO_DATE, AVAILABLE, AGE, CONTAINERS, IMAGES, SELECTOR],
    cells: deployment,
};

/// Counts of Pods; ReplicationControllers share the columns.
pub(crate) const REPLICA_SET: KindColumns = KindColumns {
    columns: &[
        NAME,
        number("Desired"),
        number("Current"),
        number("Ready"),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    cells: replica_set,
};

/// Without a selector, which kubectl has never shown for it.
pub(crate) const STATEFUL_SET: KindColumns =
    KindColumns { columns: &[NAME, text("Ready"), AGE, CONTAINERS, IMAGES], cells: stateful_set };

pub(crate) const DAEMON_SET: KindColumns = KindColumns {
    columns: &[
        NAME,
        number("Desired"),
        number("Current"),
        number("Ready"),
        number("Up-to-date"),
        number("Available"),
        text("Node Selector"),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    cells: daemon_set,
};

/// `Status` is that of the conditions, in the order of what matters most; `Duration` ends with the Job.
pub(crate) const JOB: KindColumns = KindColumns {
    columns: &[
        NAME,
        text("Status"),
        text("Completions"),
        text("Duration"),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    cells: job,
};

/// `Suspend` is declared as boolean and sent as text (`True`, `False`), as kube-apiserver does.
pub(crate) const CRON_JOB: KindColumns = KindColumns {
    columns: &[
        NAME,
        text("Schedule"),
        text("Timezone"),
        Column { name: "Suspend", kind: "boolean", format: "", priority: 0 },
        number("Active"),
        text("Last Schedule"),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    cells: cron_job,
};

/// `Targets` are the current and the wanted value of each metric.
pub(crate) const HORIZONTAL_POD_AUTOSCALER: KindColumns = KindColumns {
    columns: &[
        NAME,
        text("Reference"),
        text("Targets"),
        text("MinPods"),
        text("MaxPods"),
        text("Replicas"),
        AGE,
    ],
    cells: autoscaler,
};

/// The one of the two limits that is not set is `N/A`.
pub(crate) const POD_DISRUPTION_BUDGET: KindColumns = KindColumns {
    columns: &[NAME, text("Min Available"), text("Max Unavailable"), number("Allowed Disruptions"), AGE],
    cells: disruption_budget,
};

/// The owner that the revision is of, and its number.
pub(crate) const CONTROLLER_REVISION: KindColumns = KindColumns {
    columns: &[NAME, text("Controller"), text("Revision"), AGE],
    cells: |object, now| {
        vec![name(object), controller(object).into(), count_at(object, &["revision"]), age_of(object, now)]
    },
};

/// Ready replicas of the wanted ones. Wanted are those of the spec, not of the status, so a scale-up shows at once.
fn ready(object: &Value) -> Value {
    let have = object.at("status").int("readyReplicas").unwrap_or(0);
    format!("{have}/{}", object.at("spec").int("replicas").unwrap_or(0)).into()
}

/// The wide columns that all workloads with a template end with.
fn tail(object: &Value) -> (Value, Value, Value) {
    let (names, images) = containers(object.path(&["spec", "template", "spec"]));
    (names, images, selector(object.at("spec").at("selector")).into())
}

/// Desired Pods are those of the spec, so that a Deployment without a controller shows `0/3`.
fn deployment(object: &Value, now: Timestamp) -> Vec<Value> {
    let (names, images, chosen) = tail(object);
    let (updated, available) = (
        count_at(object, &["status", "updatedReplicas"]),
        count_at(object, &["status", "availableReplicas"]),
    );
    vec![name(object), ready(object), updated, available, age_of(object, now), names, images, chosen]
}

/// The status lags behind the spec while Pods are started.
fn replica_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let (names, images, chosen) = tail(object);
    let (desired, current) =
        (count_at(object, &["spec", "replicas"]), count_at(object, &["status", "replicas"]));
    let ready = count_at(object, &["status", "readyReplicas"]);
    vec![name(object), desired, current, ready, age_of(object, now), names, images, chosen]
}

/// Ready and desired Pods in one column.
fn stateful_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let (names, images, _) = tail(object);
    vec![name(object), ready(object), age_of(object, now), names, images]
}

/// Desired Pods are counted by the controller, from the nodes that match.
fn daemon_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let (names, images, chosen) = tail(object);
    let status = |key: &str| count_at(object, &["status", key]);
    vec![
        name(object),
        status("desiredNumberScheduled"),
        status("currentNumberScheduled"),
        status("numberReady"),
        status("updatedNumberScheduled"),
        status("numberAvailable"),
        super::labels(object.path(&["spec", "template", "spec", "nodeSelector"])).into(),
        age_of(object, now),
        names,
        images,
        chosen,
    ]
}

/// `Completions` of a Job without a number of completions counts to one, as any success ends it.
fn job(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (object.at("spec"), object.at("status"));
    let succeeded = status.int("succeeded").unwrap_or(0);
    let completions = match (spec.int("completions"), spec.int("parallelism").unwrap_or(0)) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, parallel) if parallel > 1 => format!("{succeeded}/1 of {parallel}"),
        (None, _) => format!("{succeeded}/1"),
    };
    let (names, images, chosen) = tail(object);
    vec![
        name(object),
        job_state(object).into(),
        completions.into(),
        duration(status, now).into(),
        age_of(object, now),
        names,
        images,
        chosen,
    ]
}

/// The first condition that holds decides, in the order of kube-apiserver: a Job that is both failed and suspended
/// has failed.
fn job_state(object: &Value) -> &'static str {
    let holds = |kind: &str| {
        object
            .at("status")
            .list("conditions")
            .iter()
            .any(|c| c.text("type") == kind && c.text("status") == "True")
    };
    match () {
        () if holds("Complete") => "Complete",
        () if holds("Failed") => "Failed",
        () if object.at("metadata").has("deletionTimestamp") => "Terminating",
        () if holds("Suspended") => "Suspended",
        () if holds("FailureTarget") => "FailureTarget",
        () if holds("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

/// Until now for a Job that runs; empty for one that has not started.
fn duration(status: &Value, now: Timestamp) -> String {
    let Ok(start) = status.text("startTime").parse::<Timestamp>() else { return String::new() };
    let end = status.text("completionTime").parse::<Timestamp>().unwrap_or(now);
    age::human_duration(end.as_second() - start.as_second())
}

/// The time of the last start, `<none>` before the first.
fn cron_job(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (object.at("spec"), object.at("status"));
    let last = match status.text("lastScheduleTime") {
        "" => NONE.to_owned(),
        time => age::since(time, now),
    };
    let (names, images) = containers(spec.path(&["jobTemplate", "spec", "template", "spec"]));
    let suspend = if spec.flag("suspend") { "True" } else { "False" };
    vec![
        name(object),
        spec.text("schedule").into(),
        super::or_none(spec.text("timeZone")),
        suspend.into(),
        status.count("active").into(),
        last.into(),
        age_of(object, now),
        names,
        images,
        selector(spec.path(&["jobTemplate", "spec", "selector"])).into(),
    ]
}

/// An unset minimum is `<unset>`, although one is assumed.
fn autoscaler(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, target) = (object.at("spec"), object.at("spec").at("scaleTargetRef"));
    let least = spec.int("minReplicas").map_or_else(|| super::UNSET.to_owned(), |number| number.to_string());
    vec![
        name(object),
        format!("{}/{}", target.text("kind"), target.text("name")).into(),
        targets(object).into(),
        least.into(),
        count_at(object, &["spec", "maxReplicas"]),
        count_at(object, &["status", "currentReplicas"]),
        age_of(object, now),
    ]
}

/// `cpu: 10%/80%`, one per metric; unknown until something measures it.
fn targets(object: &Value) -> String {
    const SHOWN: usize = 2;
    let (metrics, measured) = (object.at("spec").list("metrics"), object.at("status").list("currentMetrics"));
    let texts: Vec<_> = metrics
        .iter()
        .enumerate()
        .take(SHOWN)
        .map(|(index, metric)| target(metric, measured.get(index).unwrap_or(&Value::Null)))
        .collect();
    match metrics.len() {
        0 => NONE.to_owned(),
        many if many > SHOWN => {
            format!("{} + {} more...", texts.join(", "), many - SHOWN)
        }
        _ => texts.join(", "),
    }
}

/// The metric's type in lower case is the field that holds its source, in the spec and in the status alike.
fn target(metric: &Value, measured: &Value) -> String {
    let kind = metric.text("type");
    let mut key = kind.to_owned();
    key.get_mut(..1).map(str::make_ascii_lowercase);
    let (wanted, current) = (metric.at(&key).at("target"), measured.at(&key).at("current"));
    let prefix = match metric.at(&key).text("name") {
        "" => String::new(),
        name => format!("{name}: "),
    };
    match wanted.int("averageUtilization") {
        Some(percent) => {
            let now =
                current.int("averageUtilization").map_or("<unknown>".to_owned(), |value| format!("{value}%"));
            format!("{prefix}{now}/{percent}%")
        }
        None => {
            let amount = |target: &Value| {
                [target.text("averageValue"), target.text("value")]
                    .into_iter()
                    .find(|t| !t.is_empty())
                    .map(str::to_owned)
            };
            format!(
                "{prefix}{}/{}",
                amount(current).unwrap_or("<unknown>".to_owned()),
                amount(wanted).unwrap_or_default()
            )
        }
    }
}

/// Percentages stay as they were written.
fn disruption_budget(object: &Value, now: Timestamp) -> Vec<Value> {
    let amount = |key: &str| match object.at("spec").at(key) {
        Value::Null => Value::from("N/A"),
        Value::String(percent) => percent.as_str().into(),
        other => other.to_string().into(),
    };
    vec![
        name(object),
        amount("minAvailable"),
        amount("maxUnavailable"),
        count_at(object, &["status", "disruptionsAllowed"]),
        age_of(object, now),
    ]
}

/// Kind, group and name, with the kind in lower case as kubectl writes references.
fn controller(object: &Value) -> String {
    let owner = object.at("metadata").list("ownerReferences").iter().find(|owner| owner.flag("controller"));
    owner.map_or(NONE.to_owned(), |owner| {
        let kind = owner.text("kind").to_lowercase();
        match owner.text("apiVersion").split_once('/') {
            Some((group, _)) => format!("{kind}.{group}/{}", owner.text("name")),
            None => format!("{kind}/{}", owner.text("name")),
        }
    })
}
