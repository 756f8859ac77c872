//! Metrics: [`Metrics`] is what an exporter implements, [`Prometheus`] the one that writes Prometheus text.
//!
//! Figures are collected when somebody asks, from counters that the informers keep anyway: an informer does not know
//! that it is measured.

use std::fmt::Write as _;

use crate::informer::InformerStatus;

/// Whether a figure only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
}

/// One figure.
#[derive(Clone, Debug)]
pub struct Sample<'a> {
    /// What is measured, for example `listwatch_informer_objects`.
    pub name: &'static str,
    /// One sentence about it.
    pub help: &'static str,
    /// Whether it only grows.
    pub kind: MetricKind,
    /// Of what: names and values.
    pub labels: &'a [(&'static str, &'a str)],
    /// How much.
    pub value: f64,
}

/// Receives figures. All samples of one name come one after the other.
pub trait Metrics {
    /// One figure.
    fn sample(&mut self, sample: &Sample<'_>);
}

/// Reports every figure of some informers.
pub fn collect(informers: &[InformerStatus], metrics: &mut impl Metrics) {
    for (name, help, kind, value) in INFORMER {
        for status in informers {
            let labels = [("informer", status.name.as_str())];
            metrics.sample(&Sample { name, help, kind: *kind, labels: &labels, value: value(status) });
        }
    }
    for status in informers {
        for (reason, count) in &status.problems {
            metrics.sample(&Sample {
                name: "listwatch_informer_problems_total",
                help: "Failed lists and watches, unusable objects and the like, by kind.",
                kind: MetricKind::Counter,
                labels: &[("informer", &status.name), ("reason", reason)],
                value: *count as f64,
            });
        }
    }
    for (name, help, kind, value) in HANDLER {
        for status in informers {
            for handler in &status.handlers {
                let labels = [("informer", status.name.as_str()), ("handler", handler.name.as_str())];
                metrics.sample(&Sample { name, help, kind: *kind, labels: &labels, value: value(handler) });
            }
        }
    }
}

type Row<T> = (&'static str, &'static str, MetricKind, fn(&T) -> f64);

const INFORMER: &[Row<InformerStatus>] = {
    use MetricKind::{Counter, Gauge};
    &[
        ("listwatch_informer_synced", "Whether the cache holds its initial state.", Gauge, |s| {
            f64::from(u8::from(s.synced))
        }),
        ("listwatch_informer_objects", "Objects in the cache.", Gauge, |s| s.objects as f64),
        ("listwatch_informer_queued_objects", "Objects received and not yet applied.", Gauge, |s| {
            s.queued as f64
        }),
        ("listwatch_informer_revision", "Resource version of the cache.", Gauge, |s| s.revision.0 as f64),
        ("listwatch_informer_received_revision", "Last resource version received.", Gauge, |s| {
            s.received.0 as f64
        }),
        ("listwatch_informer_lists_total", "Lists made.", Counter, |s| s.lists as f64),
        ("listwatch_informer_listed_objects_total", "Objects received by lists.", Counter, |s| {
            s.listed_objects as f64
        }),
        ("listwatch_informer_streaming_lists_total", "Streaming lists opened.", Counter, |s| {
            s.streaming_lists as f64
        }),
        ("listwatch_informer_watches_total", "Watches opened.", Counter, |s| s.watches as f64),
    ]
};

const HANDLER: &[Row<crate::processor::HandlerStatus>] = {
    use MetricKind::{Counter, Gauge};
    &[
        ("listwatch_handler_backlog", "Events the handler has yet to read.", Gauge, |h| h.backlog as f64),
        ("listwatch_handler_folds_total", "Times a backlog was folded by key.", Counter, |h| h.folds as f64),
        ("listwatch_handler_events_total", "Events told to the handler.", Counter, |h| h.delivered as f64),
        ("listwatch_handler_panics_total", "Calls that panicked.", Counter, |h| h.panics as f64),
        ("listwatch_handler_busy_seconds_total", "Time spent in the handler.", Counter, |h| {
            h.busy.as_secs_f64()
        }),
    ]
};

/// Writes the Prometheus text format.
///
/// ```
/// use listwatch::metrics::{Prometheus, collect};
/// use listwatch::{SharedInformer, lister_watcher::InMemory};
/// use serde_json::Value;
///
/// let informer = SharedInformer::<Value>::builder(InMemory::new(10)).name("pods").build();
/// let mut prometheus = Prometheus::default();
/// collect(&[informer.status()], &mut prometheus);
/// assert!(prometheus.text().contains("listwatch_informer_objects{informer=\"pods\"} 0\n"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Prometheus {
    text: String,
    last: &'static str,
}

impl Prometheus {
    /// What was written so far.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl Metrics for Prometheus {
    fn sample(&mut self, sample: &Sample<'_>) {
        // Writing to a string cannot fail.
        let text = &mut self.text;
        if self.last != sample.name {
            let kind = if sample.kind == MetricKind::Counter { "counter" } else { "gauge" };
            let _ = writeln!(text, "# HELP {0} {1}\n# TYPE {0} {kind}", sample.name, sample.help);
            self.last = sample.name;
        }
        let _ = write!(text, "{}{{", sample.name);
        for (at, (label, value)) in sample.labels.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(text, "{comma}{label}=\"{value}\"");
        }
        let _ = writeln!(text, "}} {}", sample.value);
    }
}
