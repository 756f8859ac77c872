//! `/metrics`, in Prometheus text form, or as protobuf with native histograms ([`super::metrics_protobuf`]).
//!
//! Every family is written with its HELP and TYPE lines even while it has no samples, so that dashboards and
//! `docs/reference/metrics.md`, which is made from this text, know all of them from the start. The counters live
//! where the work is done ([`crate::observe`], [`crate::fairness`]); this file adds those of the cache and the store.
//! To add a metric: count it where the work is, write its family in one of these.

use std::fmt::Write as _;

use http::StatusCode;
use http::header::ACCEPT;
use listwatch_storage::{Health, SYNC_BOUNDS, SyncTimes};

use crate::api::Api;
use crate::cache::Collection;
use crate::endpoints::{metrics_protobuf, version};
use crate::fairness::write_metrics;
use crate::http::body::Response;
use crate::http::request::Request;
use crate::observe::{escape, family, line, native_histograms, prometheus, write_process};
use crate::respond;

const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";
const PROTOBUF: &str = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited; \
                        escaping=underscores";

/// Answers `/metrics`: what the server counts, then the watch cache, the store and the process.
pub(crate) async fn answer(api: &Api, request: &Request) -> Response {
    let text = page(api).await;
    if !accepts_protobuf(request.header(ACCEPT).unwrap_or_default()) {
        return respond::full(StatusCode::OK, TEXT, text.into());
    }
    let families = metrics_protobuf::families(&text, &native_histograms(&api.metrics));
    respond::full(StatusCode::OK, PROTOBUF, families.into())
}

/// Returns true if the client prefers delimited protobuf to text. Other media types are passed over, and a client that
/// names none of the two gets text.
fn accepts_protobuf(accept: &str) -> bool {
    let mut wanted = (0.0, false);
    for clause in accept.split(',') {
        let mut parts = clause.split(';').map(str::trim);
        let (media_type, parameters) = (parts.next().unwrap_or_default(), parts.collect::<Vec<_>>());
        let parameter = |name| parameters.iter().find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        let quality: f64 = parameter("q").and_then(|q| q.parse().ok()).unwrap_or(1.0);
        let protobuf = media_type == "application/vnd.google.protobuf"
            && parameter("proto") == Some("io.prometheus.client.MetricFamily")
            && parameter("encoding") == Some("delimited");
        let text = media_type == "text/plain" && matches!(parameter("version"), None | Some("0.0.4"));
        if (protobuf || text) && quality > wanted.0 {
            wanted = (quality, protobuf);
        }
    }
    wanted.1
}

/// The text form.
async fn page(api: &Api) -> String {
    let mut text = prometheus(&api.metrics);
    cache(api, &mut text);
    storage(api, &mut text).await;
    damage(api, &mut text);
    nodes(api, &mut text);
    write_metrics(&api.fairness, &mut text);
    audit(api, &mut text);
    api.authorizer.write_metrics(&mut text);
    version::write_metric(api, &mut text);
    write_process(&mut text);
    text
}

/// Writes the figures of the audit log; zeros if there is none.
fn audit(api: &Api, out: &mut String) {
    let (written, dropped) = api.audit.as_ref().map(|audit| audit.counts()).unwrap_or_default();
    for (name, help, count) in [
        ("apiserver_audit_event_total", "Audit events written.", written),
        ("listwatch_audit_dropped_total", "Audit events dropped because the log was slower.", dropped),
    ] {
        family(out, name, "counter", help);
        let _ = writeln!(out, "{name} {count}");
    }
}

/// Waits for the store only to ask for the oldest revision; a failing store leaves the sample out and does not fail
/// the page.
async fn storage(api: &Api, out: &mut String) {
    let usage = api.engine.usage();
    let name = "apiserver_storage_size_bytes";
    family(out, name, "gauge", "Bytes of the store on disk; no sample for stores that do not know.");
    if let Some(bytes) = usage.bytes {
        line(out, name, "storage_cluster_id=\"embedded\"", bytes);
    }
    let healthy = u8::from(matches!(api.engine.health(), Health::Ready));
    let oldest = api.engine.compacted().await.map(|revision| revision.0);
    for (name, help, value) in [
        ("listwatch_storage_healthy", "Whether the store takes reads and writes.", Some(healthy.into())),
        (
            "listwatch_storage_history_start_revision",
            "The oldest revision that watches can resume from.",
            oldest.ok(),
        ),
    ] {
        family(out, name, "gauge", help);
        if let Some(value) = value {
            let _ = writeln!(out, "{name} {value}");
        }
    }
    syncs(&usage.syncs.unwrap_or_default(), out);
}

/// A histogram with the bounds of the store. Buckets are cumulative in Prometheus' form and single in [`SyncTimes`].
fn syncs(times: &SyncTimes, out: &mut String) {
    const SECOND: f64 = 1e6;
    let name = "listwatch_storage_sync_duration_seconds";
    family(
        out,
        name,
        "histogram",
        "Durations of commits of the embedded store, each with one sync of the disk.",
    );
    let mut count = 0;
    for (bound, commits) in SYNC_BOUNDS.iter().zip(times.counts) {
        count += commits;
        let _ = writeln!(out, "{name}_bucket{{le=\"{}\"}} {count}", *bound as f64 / SECOND);
    }
    count += times.beyond;
    let sum = times.total_micros as f64 / SECOND;
    let _ = writeln!(out, "{name}_bucket{{le=\"+Inf\"}} {count}\n{name}_sum {sum}\n{name}_count {count}");
}

/// Zero in normal operation. Worth an alert, since every object counted here is invisible to clients.
fn damage(api: &Api, out: &mut String) {
    let name = "listwatch_storage_damaged_objects";
    family(out, name, "gauge", "Stored objects that cannot be read.");
    let _ = writeln!(out, "{name} {}", api.cache.damage.count());
}

/// Logs, tunnels and proxied requests that are open. They take no seats, so that no other metric counts them.
fn nodes(api: &Api, out: &mut String) {
    let name = "listwatch_node_connections";
    family(out, name, "gauge", "Open connections to kubelets, Pods and Services for clients.");
    let _ = writeln!(out, "{name} {}", api.nodes.count());
}

/// One line per collection, custom ones included: the cardinality is that of served resources.
fn cache(api: &Api, out: &mut String) {
    let name = "apiserver_watch_cache_resource_version";
    family(out, name, "gauge", "How far the cache has come.");
    let _ = writeln!(out, "{name} {}", api.cache.position().get().0);
    let collections = api.cache.collections();
    let mut of = |name, help, count: &dyn Fn(&Collection) -> usize| {
        family(out, name, "gauge", help);
        for collection in &collections {
            line(out, name, format_args!("resource=\"{}\"", escape(collection.name())), count(collection));
        }
    };
    of("apiserver_resource_objects", "Objects by resource.", &|collection| collection.snapshot().len());
    of("watch_cache_capacity", "Events kept in memory by resource.", &|collection| {
        collection.log_state().events
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protobuf_is_sent_to_those_who_prefer_it() {
        let protobuf =
            "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
        let prometheus = format!("{protobuf};q=0.7,text/plain;version=0.0.4;q=0.3,*/*;q=0.1");
        for accept in [protobuf, &protobuf.replace(';', "; "), &prometheus] {
            assert!(accepts_protobuf(accept), "{accept}");
        }
        for accept in ["", "*/*", "application/vnd.google.protobuf", &format!("{protobuf};q=0.5,text/plain")]
        {
            assert!(!accepts_protobuf(accept), "{accept}");
        }
    }
}
