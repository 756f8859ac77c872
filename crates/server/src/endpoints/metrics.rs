//! `/metrics`, in the text form of Prometheus.

use std::fmt::Write as _;

use http::StatusCode;

use crate::api::Api;
use crate::cache::Collection;
use crate::fairness::write_metrics;
use crate::http::body::Response;
use crate::observe::{escape, family, line, prometheus};
use crate::respond;

/// Answers `/metrics`: what the server counts, then the sizes of the watch cache.
pub(crate) fn answer(api: &Api) -> Response {
    let mut text = prometheus(&api.metrics);
    cache(api, &mut text);
    write_metrics(&api.fairness, &mut text);
    audit(api, &mut text);
    respond::full(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text.into())
}

fn audit(api: &Api, out: &mut String) {
    let Some(audit) = &api.audit else { return };
    let (written, dropped) = audit.counts();
    for (name, help, count) in [
        ("apiserver_audit_event_total", "Audit events written.", written),
        ("listwatch_audit_dropped_total", "Audit events dropped because the log was slower.", dropped),
    ] {
        family(out, name, "counter", help);
        let _ = writeln!(out, "{name} {count}");
    }
}

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
    of("watch_cache_capacity", "Events kept in memory by resource.", &|collection| collection.log_state().0);
}
