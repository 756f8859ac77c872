//! [`ServerMetrics`]: the counters of a server, and their Prometheus text form.
//!
//! The text is written by hand instead of by a client library: the samples live as atomics where the work is counted,
//! and kube-apiserver's names and labels are needed exactly. [`family`] and [`line()`] are used by the
//! other writers (cache, storage, fairness, process), which `endpoints/metrics.rs` puts together. Every family has
//! its HELP and TYPE lines even without samples.

use std::collections::{BTreeMap, HashMap};
use std::fmt::{Display, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::observe::labels::{COMPONENT, ResourceLabels};
use crate::observe::native_histogram::NativeHistogram;
use crate::observe::recent_errors::RecentErrors;
use crate::observe::requests::RequestMetrics;
use crate::observe::tasks::Tasks;
use crate::observe::watches::{OpenWatch, WatchLag, Watches};

/// The counters of one server. Each is updated where the work is done, without a lock on hot paths.
#[derive(Debug, Default)]
pub struct ServerMetrics {
    /// Every open watch.
    pub watches: Watches,
    /// The background tasks.
    pub tasks: Arc<Tasks>,
    /// Requests whose handler panicked.
    pub(crate) panics: AtomicU64,
    pub(crate) requests: RequestMetrics,
    pub(crate) errors: RecentErrors,
}

const REQUEST_DURATIONS: &str = "apiserver_request_duration_seconds";
const EVENT_SIZES: &str = "apiserver_watch_events_sizes";

/// Native histograms, by the name of the family and the labels as the text has them, without braces.
pub(crate) type NativeHistograms = HashMap<&'static str, HashMap<String, NativeHistogram>>;

/// Returns the native form of the histograms that [`prometheus`] writes in the classic form.
pub(crate) fn native_histograms(metrics: &ServerMetrics) -> NativeHistograms {
    let (requests, watches) = (metrics.requests.all(), metrics.watches.series());
    let durations = requests.iter().map(|series| (series.labels.to_string(), series.durations.native()));
    let sizes = watches.iter().map(|series| (series.labels.clone(), series.sizes.native()));
    HashMap::from([(REQUEST_DURATIONS, durations.collect()), (EVENT_SIZES, sizes.collect())])
}

/// Returns the metrics of requests, watches and tasks in Prometheus text form. Other modules append theirs.
pub(crate) fn prometheus(metrics: &ServerMetrics) -> String {
    let mut out = String::new();
    requests(&metrics.requests, &mut out);
    in_flight(&metrics.requests, &mut out);
    watches(&metrics.watches, &mut out);
    faults(metrics, &mut out);
    out
}

/// Both should be constant: a panic is a defect, and a task that is down needs a restart.
fn faults(metrics: &ServerMetrics, out: &mut String) {
    let name = "listwatch_request_panics_total";
    family(out, name, "counter", "Requests whose handler panicked.");
    let _ = writeln!(out, "{name} {}", metrics.panics.load(Ordering::Relaxed));
    let name = "listwatch_task_up";
    family(out, name, "gauge", "Whether a background task runs.");
    for task in metrics.tasks.all() {
        line(out, name, format_args!("task=\"{}\"", task.name), u8::from(!task.is_over()));
    }
}

/// Writes the head of a metric family.
pub(crate) fn family(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// Writes one sample. `labels` must be escaped ([`super::escape`]) and must not be empty.
pub(crate) fn line(out: &mut String, name: &str, labels: impl Display, value: impl Display) {
    let _ = writeln!(out, "{name}{{{labels}}} {value}");
}

/// Writes the counters and durations of requests, under kube-apiserver's names.
fn requests(requests: &RequestMetrics, out: &mut String) {
    let all = requests.all();
    let name = "apiserver_request_total";
    family(out, name, "counter", "Requests answered, by what they were about and the code of the answer.");
    for series in &all {
        for (code, count) in series.codes() {
            line(out, name, format_args!("{},code=\"{code}\"", series.labels), count);
        }
    }
    let name = REQUEST_DURATIONS;
    family(out, name, "histogram", "How long requests took, a watch from its beginning to its end.");
    for series in &all {
        series.durations.write(out, name, &series.labels.to_string());
    }
}

/// Writes the number of requests in progress.
fn in_flight(requests: &RequestMetrics, out: &mut String) {
    let name = "apiserver_current_inflight_requests";
    family(out, name, "gauge", "Requests being served now, without watches.");
    let now = &requests.in_flight;
    for (kind, count) in [("mutating", &now.mutating), ("readOnly", &now.read_only)] {
        line(out, name, format_args!("request_kind=\"{kind}\""), count.load(Ordering::Relaxed));
    }
}

/// Lists all open watches at each scrape, which takes a lock for as long as copying the pointers takes.
fn watches(watches: &Watches, out: &mut String) {
    let mut open: BTreeMap<String, u64> = BTreeMap::new();
    watches.list().iter().for_each(|watch| *open.entry(long_running(watch)).or_default() += 1);
    let name = "apiserver_longrunning_requests";
    family(out, name, "gauge", "Open watches.");
    open.iter().for_each(|(labels, count)| line(out, name, labels, count));
    lag(watches, out);
    let all = watches.series();
    let of = |out: &mut String, name, help, count: fn(&super::watches::WatchSeries) -> u64| {
        family(out, name, "counter", help);
        all.iter().for_each(|series| line(out, name, &series.labels, count(series)));
    };
    of(out, "apiserver_watch_events_total", "Events sent to watchers.", |series| series.sizes.count());
    of(out, "apiserver_init_events_total", "Events of initial states sent to watchers.", |series| {
        series.initial.load(Ordering::Relaxed)
    });
    let name = "listwatch_watch_changes_total";
    family(out, name, "counter", "Changes sent to watchers, with the whole object or as a delta.");
    for series in &all {
        for (form, count) in [("whole", &series.whole), ("delta", &series.deltas)] {
            let labels = format_args!("{},form=\"{form}\"", series.labels);
            line(out, name, labels, count.load(Ordering::Relaxed));
        }
    }
    let name = EVENT_SIZES;
    family(out, name, "histogram", "Bytes of events sent to watchers, before compression.");
    all.iter().for_each(|series| series.sizes.write(out, name, &series.labels));
    let totals = watches.totals();
    for (name, help, total) in [
        ("listwatch_watch_bytes_total", "Bytes sent to watchers.", &totals.bytes),
        ("listwatch_watches_opened_total", "Watches opened.", &totals.opened),
    ] {
        family(out, name, "counter", help);
        let _ = writeln!(out, "{name} {}", total.load(Ordering::Relaxed));
    }
}

/// Writes how far watches are behind. A watch that reads older history has no known lag, but is behind.
fn lag(watches: &Watches, out: &mut String) {
    let lags: Vec<WatchLag> = watches.list().iter().map(|watch| watch.lag()).collect();
    let behind = lags.iter().filter(|lag| lag.waiting != Some(0)).count();
    let seconds = lags.iter().map(|lag| lag.seconds).fold(0.0, f64::max);
    for (name, help, value) in [
        ("listwatch_watches_behind", "Open watches for which events wait.", behind as f64),
        ("listwatch_watch_lag_seconds", "Age of the oldest event that waits for any watch.", seconds),
    ] {
        family(out, name, "gauge", help);
        let _ = writeln!(out, "{name} {value}");
    }
}

/// The labels of kube-apiserver for a watch. Streams of many watches count once per watch.
fn long_running(watch: &OpenWatch) -> String {
    let [group, version, resource] = watch.resource();
    let labels = ResourceLabels(group, version, resource);
    let scope = if watch.is_namespaced() { "namespace" } else { "cluster" };
    format!("verb=\"WATCH\",{labels},subresource=\"\",scope=\"{scope}\",component=\"{COMPONENT}\"")
}
