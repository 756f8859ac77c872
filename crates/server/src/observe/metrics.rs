//! [`Metrics`]: what is counted, and its text form.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use http::StatusCode;
use parking_lot::Mutex;

use super::watches::Watches;
use crate::api::Api;
use crate::http::request_info::RequestInfo;
use std::sync::atomic::Ordering;

/// What is counted.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Every open watch.
    pub watches: Watches,
    requests: Mutex<BTreeMap<RequestLabels, Requests>>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RequestLabels {
    verb: &'static str,
    group: String,
    resource: String,
    code: u16,
}

#[derive(Clone, Copy, Debug, Default)]
struct Requests {
    count: u64,
    seconds: f64,
}

/// Resources come from paths, and anybody can make those up: beyond this many combinations the rest is counted as one.
const REQUEST_LABELS: usize = 2000;

impl Metrics {
    pub(crate) fn request(&self, info: &RequestInfo, code: StatusCode, took: Duration) {
        let mut labels = match info {
            RequestInfo::Other => {
                RequestLabels { verb: "other", group: String::new(), resource: String::new(), code: 0 }
            }
            RequestInfo::Resource(info) => RequestLabels {
                verb: info.verb.as_str(),
                group: info.group.clone(),
                resource: info.resource.clone(),
                code: 0,
            },
        };
        labels.code = code.as_u16();
        let mut requests = self.requests.lock();
        if requests.len() >= REQUEST_LABELS && !requests.contains_key(&labels) {
            labels.group.clear();
            labels.resource.clear();
        }
        let entry = requests.entry(labels).or_default();
        entry.count += 1;
        entry.seconds += took.as_secs_f64();
    }
}

/// The text that Prometheus reads.
pub(crate) fn prometheus(api: &Api) -> String {
    let mut out = String::new();
    requests(api, &mut out);
    watches(api, &mut out);
    cache(api, &mut out);
    out
}

fn family(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn requests(api: &Api, out: &mut String) {
    let requests = api.metrics.requests.lock().clone();
    family(out, "apiserver_request_total", "counter", "Requests by verb, resource and code.");
    for (labels, entry) in &requests {
        let RequestLabels { verb, group, resource, code } = labels;
        let verb = verb.to_ascii_uppercase();
        let _ = writeln!(
            out,
            "apiserver_request_total{{verb=\"{verb}\",group=\"{}\",resource=\"{}\",code=\"{code}\"}} {}",
            escape(group),
            escape(resource),
            entry.count
        );
    }
    family(out, "apiserver_request_duration_seconds", "summary", "Time spent on requests.");
    for (labels, entry) in &requests {
        let RequestLabels { verb, group, resource, code } = labels;
        let verb = verb.to_ascii_uppercase();
        let labels = format!(
            "verb=\"{verb}\",group=\"{}\",resource=\"{}\",code=\"{code}\"",
            escape(group),
            escape(resource)
        );
        let _ = writeln!(out, "apiserver_request_duration_seconds_sum{{{labels}}} {}", entry.seconds);
        let _ = writeln!(out, "apiserver_request_duration_seconds_count{{{labels}}} {}", entry.count);
    }
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn watches(api: &Api, out: &mut String) {
    let mut open: BTreeMap<(String, String), u64> = BTreeMap::new();
    for watch in api.metrics.watches.list() {
        let resource = watch.resource();
        *open.entry((resource.group.to_string(), resource.plural.to_string())).or_default() += 1;
    }
    family(out, "apiserver_longrunning_requests", "gauge", "Open watches.");
    for ((group, resource), count) in open {
        let labels =
            format!("verb=\"WATCH\",group=\"{}\",resource=\"{}\"", escape(&group), escape(&resource));
        let _ = writeln!(out, "apiserver_longrunning_requests{{{labels}}} {count}");
    }
    let totals = api.metrics.watches.totals();
    family(out, "apiserver_watch_events_total", "counter", "Events sent to watchers.");
    for (kind, total) in
        [("ADDED", &totals.added), ("MODIFIED", &totals.modified), ("DELETED", &totals.deleted)]
    {
        let _ = writeln!(
            out,
            "apiserver_watch_events_total{{type=\"{kind}\"}} {}",
            total.load(Ordering::Relaxed)
        );
    }
    for (name, help, total) in [
        ("apiserver_init_events_total", "Events of initial states sent to watchers.", &totals.initial),
        ("listwatch_watch_bytes_total", "Bytes sent to watchers.", &totals.bytes),
        ("listwatch_watches_opened_total", "Watches opened.", &totals.opened),
    ] {
        family(out, name, "counter", help);
        let _ = writeln!(out, "{name} {}", total.load(Ordering::Relaxed));
    }
}

fn cache(api: &Api, out: &mut String) {
    let position = api.cache.position().get().0;
    family(out, "apiserver_watch_cache_resource_version", "gauge", "How far the cache has come.");
    let _ = writeln!(out, "apiserver_watch_cache_resource_version {position}");
    family(out, "apiserver_resource_objects", "gauge", "Objects by resource.");
    let collections = api.cache.collections();
    for collection in &collections {
        let objects = collection.snapshot().len();
        let _ = writeln!(
            out,
            "apiserver_resource_objects{{resource=\"{}\"}} {objects}",
            escape(collection.name())
        );
    }
    family(out, "watch_cache_capacity", "gauge", "Events kept in memory by resource.");
    for collection in &collections {
        let (events, _, _) = collection.log_state();
        let _ = writeln!(out, "watch_cache_capacity{{resource=\"{}\"}} {events}", escape(collection.name()));
    }
}
