//! Metrics: [`Metrics`] is what an exporter implements, [`Prometheus`] the one that writes Prometheus text.
//! [`collect`] reports informers and their handlers, [`collect_each`] everything else that keeps count.
//!
//! Figures are collected on demand, from counters that the informers keep anyway, so measuring costs an informer
//! nothing.

use std::fmt::Write as _;

use crate::event_recorder::RecorderStats;
use crate::informer::InformerStatus;
use crate::leader_election::ElectionStatus;
use crate::mutation_cache::MutationStats;
use crate::processor::HandlerStatus;

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// It only grows.
    Counter,
    /// A value that goes up and down.
    Gauge,
}

/// One value of one metric, with its labels.
#[derive(Clone, Debug)]
pub struct Sample<'a> {
    /// The name of the metric, for example `listwatch_informer_objects`.
    pub name: &'static str,
    /// One sentence about it.
    pub help: &'static str,
    /// Counter or gauge, which exporters need to declare.
    pub kind: MetricKind,
    /// The names and values of its labels, such as `informer` and `pods`.
    pub labels: &'a [(&'static str, &'a str)],
    /// The value.
    pub value: f64,
}

/// Receives figures. All samples of one name come one after the other, as the Prometheus text format requires.
///
/// Implement it to pass figures on to another metrics library; [`Prometheus`] is the implementation for the text
/// format.
///
/// ```
/// use listwatch::metrics::{Metrics, Sample, collect};
/// use listwatch::{SharedInformer, lister_watcher::InMemory};
/// use serde_json::Value;
///
/// /// Keeps one figure, by informer.
/// #[derive(Default)]
/// struct Objects(Vec<(String, f64)>);
///
/// impl Metrics for Objects {
///     fn sample(&mut self, sample: &Sample<'_>) {
///         if sample.name == "listwatch_informer_objects" {
///             let informer = sample.labels.first().map(|(_, value)| *value).unwrap_or_default();
///             self.0.push((informer.to_owned(), sample.value));
///         }
///     }
/// }
///
/// let pods = SharedInformer::<Value>::builder(InMemory::new(10)).name("pods").build();
/// let mut objects = Objects::default();
/// collect(&[pods.status()], &mut objects);
/// assert_eq!(objects.0, [("pods".to_owned(), 0.0)]);
/// ```
pub trait Metrics {
    /// One figure.
    fn sample(&mut self, sample: &Sample<'_>);
}

/// A figure that can be read from a status: name, help, type, and the function that reads it.
#[derive(Debug)]
pub struct Figure<T> {
    /// The name of the metric.
    pub name: &'static str,
    /// One sentence about it.
    pub help: &'static str,
    /// Counter or gauge, which exporters need to declare.
    pub kind: MetricKind,
    /// Computes the value from a status.
    pub value: fn(&T) -> f64,
}

impl<T> Figure<T> {
    const fn counter(name: &'static str, help: &'static str, value: fn(&T) -> f64) -> Self {
        Self { name, help, kind: MetricKind::Counter, value }
    }

    const fn gauge(name: &'static str, help: &'static str, value: fn(&T) -> f64) -> Self {
        Self { name, help, kind: MetricKind::Gauge, value }
    }
}

/// A status that can be reported: of an [`EventRecorder`](crate::event_recorder::EventRecorder), a
/// [`LeaderElection`](crate::leader_election::LeaderElection), a [`MutationCache`](crate::mutation_cache::MutationCache).
pub trait Measured: Sized + 'static {
    /// The label that distinguishes one from the others.
    const LABEL: &'static str;
    /// The metrics of one status, in the order in which they are reported.
    const FIGURES: &'static [Figure<Self>];
}

/// Reports every figure of some components of one kind, each under its name.
///
/// ```
/// use listwatch::event_recorder::RecorderStats;
/// use listwatch::metrics::{Prometheus, collect_each};
///
/// let mut prometheus = Prometheus::default();
/// collect_each(&[("greeter", RecorderStats::default())], &mut prometheus);
/// assert!(prometheus.text().contains("listwatch_events_written_total{recorder=\"greeter\"} 0\n"));
/// ```
pub fn collect_each<T: Measured>(named: &[(&str, T)], metrics: &mut impl Metrics) {
    table(T::FIGURES, metrics, || named.iter().map(|(name, status)| ([(T::LABEL, *name)], status)));
}

/// All figures of all components, figure by figure: samples of one name must not be interleaved with others.
fn table<'a, T: 'a, L, I>(figures: &[Figure<T>], metrics: &mut impl Metrics, things: impl Fn() -> I)
where
    L: AsRef<[(&'static str, &'a str)]>,
    I: Iterator<Item = (L, &'a T)>,
{
    for Figure { name, help, kind, value } in figures {
        for (labels, thing) in things() {
            let labels = labels.as_ref();
            metrics.sample(&Sample { name, help, kind: *kind, labels, value: value(thing) });
        }
    }
}

/// Reports every figure of some informers.
pub fn collect(informers: &[InformerStatus], metrics: &mut impl Metrics) {
    table(INFORMER, metrics, || informers.iter().map(|status| ([("informer", &*status.name)], status)));
    table(PROBLEMS, metrics, || {
        informers.iter().flat_map(|status| {
            let labels = |kind| [("informer", &*status.name), ("reason", kind)];
            status.problems.iter().map(move |problem| (labels(problem.0), problem))
        })
    });
    table(HANDLER, metrics, || {
        informers.iter().flat_map(|status| {
            let handlers = status.handlers.iter();
            handlers.map(|handler| ([("informer", &*status.name), ("handler", &*handler.name)], handler))
        })
    });
}

const INFORMER: &[Figure<InformerStatus>] = &[
    Figure::gauge("listwatch_informer_synced", "Whether the cache holds its initial state.", |s| {
        f64::from(u8::from(s.synced))
    }),
    Figure::gauge("listwatch_informer_objects", "Objects in the cache.", |s| s.objects as f64),
    Figure::gauge("listwatch_informer_queued_objects", "Objects received and not yet applied.", |s| {
        s.queued as f64
    }),
    Figure::gauge("listwatch_informer_revision", "Resource version of the cache.", |s| s.revision.0 as f64),
    Figure::gauge("listwatch_informer_received_revision", "Last resource version received.", |s| {
        s.received.0 as f64
    }),
    Figure::gauge(
        "listwatch_informer_last_event_age_seconds",
        "Time since the last event or bookmark of a watch.",
        |s| s.last_event_age.unwrap_or_default().as_secs_f64(),
    ),
    Figure::counter("listwatch_informer_lists_total", "Lists made.", |s| s.lists as f64),
    Figure::counter("listwatch_informer_listed_objects_total", "Objects received by lists.", |s| {
        s.listed_objects as f64
    }),
    Figure::counter("listwatch_informer_streaming_lists_total", "Streaming lists opened.", |s| {
        s.streaming_lists as f64
    }),
    Figure::counter("listwatch_informer_watches_total", "Watches opened.", |s| s.watches as f64),
];

const PROBLEMS: &[Figure<(&'static str, u64)>] = &[Figure::counter(
    "listwatch_informer_problems_total",
    "Failed lists and watches, unusable objects and the like, by kind.",
    |(_, count)| *count as f64,
)];

const HANDLER: &[Figure<HandlerStatus>] = &[
    Figure::gauge("listwatch_handler_backlog", "Events the handler has yet to read.", |h| h.backlog as f64),
    Figure::counter("listwatch_handler_folds_total", "Times a backlog was folded by key.", |h| {
        h.folds as f64
    }),
    Figure::counter("listwatch_handler_events_total", "Events delivered to the handler.", |h| {
        h.delivered as f64
    }),
    Figure::counter("listwatch_handler_panics_total", "Calls that panicked.", |h| h.panics as f64),
    Figure::counter("listwatch_handler_busy_seconds_total", "Time spent in the handler.", |h| {
        h.busy.as_secs_f64()
    }),
];

impl Measured for RecorderStats {
    const LABEL: &'static str = "recorder";
    const FIGURES: &'static [Figure<Self>] = &[
        Figure::counter("listwatch_events_written_total", "Events created and series updated.", |s| {
            s.written as f64
        }),
        Figure::counter("listwatch_events_counted_total", "Occurrences counted in a series.", |s| {
            s.counted as f64
        }),
        Figure::counter("listwatch_events_limited_total", "Occurrences too many about one object.", |s| {
            s.limited as f64
        }),
        Figure::counter("listwatch_events_dropped_total", "Occurrences for which there was no room.", |s| {
            s.dropped as f64
        }),
        Figure::counter("listwatch_events_invalid_total", "Occurrences no server would accept.", |s| {
            s.invalid as f64
        }),
        Figure::counter("listwatch_events_failed_total", "Writes given up.", |s| s.failed as f64),
    ];
}

impl Measured for ElectionStatus {
    const LABEL: &'static str = "election";
    const FIGURES: &'static [Figure<Self>] = &[
        Figure::gauge("listwatch_election_leading", "Whether this candidate leads.", |s| {
            f64::from(u8::from(s.leading))
        }),
        Figure::gauge("listwatch_election_fencing_token", "Number of its last term.", |s| {
            f64::from(s.fencing_token)
        }),
        Figure::counter("listwatch_election_terms_total", "Terms it has led.", |s| s.terms as f64),
        Figure::counter("listwatch_election_problems_total", "Leases not read or written.", |s| {
            s.problems as f64
        }),
    ];
}

impl Measured for MutationStats {
    const LABEL: &'static str = "cache";
    const FIGURES: &'static [Figure<Self>] = &[
        Figure::gauge("listwatch_mutations_held", "Own writes and deletions remembered.", |s| s.held as f64),
        Figure::counter("listwatch_mutations_shown_total", "Reads ahead of the store.", |s| s.shown as f64),
        Figure::counter("listwatch_mutations_refused_total", "Writes that came too late.", |s| {
            s.refused as f64
        }),
    ];
}

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
    /// The text so far.
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
