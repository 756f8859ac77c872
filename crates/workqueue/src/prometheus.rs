//! [`Prometheus`]: the metrics of queues in the Prometheus text format, with client-go's names and buckets.
//!
//! Dashboards and alerts for `workqueue_depth`, `workqueue_adds_total`, `workqueue_queue_duration_seconds` and the
//! others work unchanged; bucket bounds are printed as Go prints floats, because a label with other digits is another
//! series. `workqueue_delayed` is an addition. Queues are read when the text is rendered: nothing is pushed, and no
//! task runs. Programs with another metrics library implement their own reader of [`Source`].

use std::fmt::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::metrics::{Histogram, Source, Stats};

/// Collects queues and renders their metrics in the Prometheus text format, under the names and with the buckets of
/// client-go. A clone is another handle to the same collection.
///
/// ```
/// use listwatch_workqueue::{Options, Prometheus, Queue};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let metrics = Prometheus::default();
/// let queue: Queue<&str> = Queue::new(Options::new().name("pods"));
/// metrics.register(queue.clone());
/// queue.add("default/web")?;
/// assert!(metrics.render().contains("workqueue_depth{name=\"pods\"} 1\n"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Prometheus {
    sources: Arc<Mutex<Vec<Box<dyn Source>>>>,
}

/// Name without prefix, type, help text.
type MetricFamily = (&'static str, &'static str, &'static str);
/// Reads a gauge or counter.
type Scalar = fn(&Stats) -> f64;
/// Reads a histogram.
type Distribution = fn(&Stats) -> &Histogram;

impl Prometheus {
    /// Adds a queue. It must have a name; a second one with the same name replaces the first.
    pub fn register(&self, source: impl Source + 'static) {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources.retain(|known| known.name() != source.name());
        sources.push(Box::new(source));
    }

    /// The metrics of all queues, now.
    #[must_use]
    pub fn render(&self) -> String {
        let stats = self.collect();
        let mut text = String::new();
        for (family, value) in GAUGES {
            // Writing to a string cannot fail.
            let _ = scalar(&mut text, *family, &stats, value);
        }
        for (family, value) in HISTOGRAMS {
            let _ = histogram(&mut text, *family, &stats, value);
        }
        text
    }

    /// Reads all queues first, so that the families of one page belong together.
    fn collect(&self) -> Vec<(String, Stats)> {
        let sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources.iter().map(|source| (escape(source.name()), source.stats())).collect()
    }
}

const GAUGES: &[(MetricFamily, Scalar)] = &[
    (("depth", "gauge", "Current depth of workqueue"), |stats| stats.depth as f64),
    (("delayed", "gauge", "Keys waiting for their time"), |stats| stats.delayed as f64),
    (("adds_total", "counter", "Total number of adds handled by workqueue"), |stats| stats.adds as f64),
    (("retries_total", "counter", "Total number of retries handled by workqueue"), |stats| {
        stats.retries as f64
    }),
    (
        (
            "unfinished_work_seconds",
            "gauge",
            "Seconds of work in progress that work_duration has not observed yet",
        ),
        |stats| stats.unfinished_work.as_secs_f64(),
    ),
    (
        (
            "longest_running_processor_seconds",
            "gauge",
            "Seconds the longest running processor has been running",
        ),
        |stats| stats.longest_running.as_secs_f64(),
    ),
];

const HISTOGRAMS: &[(MetricFamily, Distribution)] = &[
    (
        (
            "queue_duration_seconds",
            "histogram",
            "Seconds an item stays in the workqueue before being requested",
        ),
        |stats| &stats.queue_duration,
    ),
    (
        ("work_duration_seconds", "histogram", "Seconds processing an item from the workqueue takes"),
        |stats| &stats.work_duration,
    ),
];

/// The names are those of client-go's metrics: `workqueue_depth` and the rest.
fn header(text: &mut String, (name, kind, help): MetricFamily) -> fmt::Result {
    writeln!(text, "# HELP workqueue_{name} {help}\n# TYPE workqueue_{name} {kind}")
}

fn scalar(text: &mut String, family: MetricFamily, stats: &[(String, Stats)], value: &Scalar) -> fmt::Result {
    header(text, family)?;
    stats.iter().try_for_each(|(name, stats)| {
        writeln!(text, "workqueue_{}{{name=\"{name}\"}} {}", family.0, value(stats))
    })
}

/// Writes a histogram of every queue: cumulative buckets, sum and count.
fn histogram(
    text: &mut String,
    family: MetricFamily,
    stats: &[(String, Stats)],
    value: &Distribution,
) -> fmt::Result {
    header(text, family)?;
    for (name, stats) in stats {
        let (metric, histogram) = (family.0, value(stats));
        for (bound, count) in histogram.cumulative() {
            let bound = Seconds(bound);
            writeln!(text, "workqueue_{metric}_bucket{{name=\"{name}\",le=\"{bound}\"}} {count}")?;
        }
        let (count, sum) = (histogram.count(), histogram.sum().as_secs_f64());
        writeln!(text, "workqueue_{metric}_bucket{{name=\"{name}\",le=\"+Inf\"}} {count}")?;
        writeln!(text, "workqueue_{metric}_sum{{name=\"{name}\"}} {sum}")?;
        writeln!(text, "workqueue_{metric}_count{{name=\"{name}\"}} {count}")?;
    }
    Ok(())
}

/// A bound the way Go prints it, so that series of both implementations carry the same label.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_nanos() {
            nanos if nanos < 100_000 => write!(f, "1e-{:02}", 9 - nanos.ilog10()),
            _ => write!(f, "{}", self.0.as_secs_f64()),
        }
    }
}

fn escape(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

impl fmt::Debug for Prometheus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prometheus").finish_non_exhaustive()
    }
}
