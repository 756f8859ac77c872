//! [`Figures`]: all numbers of one moment, with rates since the moment before.
//!
//! Screen and lines show the same figures, so they are computed in one place. Rates are differences of totals, which
//! makes a missed measurement harmless. The saving by delta watches is computed from the server's own debug page, by
//! comparing the bytes of the two watches of the demo; it is absent while there are not exactly two.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::Method;
use listwatch::workqueue::Queue;
use listwatch::{ObjectKey, Revision, SharedInformer};
use listwatch_storage::Engine;
use listwatch_testkit::RawClient;
use serde_json::Value;

use super::counters::{DemoCounters, DemoHandler};
use super::{DemoArguments, LABEL};

/// The parts that are looked at.
pub(super) struct Viewed {
    pub(super) arguments: DemoArguments,
    pub(super) counters: Arc<DemoCounters>,
    pub(super) informer: SharedInformer<Value>,
    pub(super) queue: Queue<ObjectKey>,
    pub(super) engine: Arc<dyn Engine>,
    pub(super) raw: RawClient,
}

/// A count and its rate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct RatedCount {
    pub(super) total: u64,
    pub(super) per_second: f64,
}

/// All numbers of one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    pub(super) elapsed: Duration,
    /// Time until writers end; zero once they have.
    pub(super) left: Duration,
    pub(super) written: RatedCount,
    pub(super) revision: RatedCount,
    pub(super) delivered: RatedCount,
    pub(super) cached: usize,
    pub(super) cached_at: Revision,
    pub(super) quick: RatedCount,
    pub(super) slow: RatedCount,
    pub(super) slow_ms: u64,
    pub(super) waiting: usize,
    pub(super) in_work: usize,
    pub(super) reconciled: RatedCount,
    pub(super) retried: u64,
    /// Bytes that the informer's watch has not got because it gets changes as deltas, in percent of what the plain watch has got.
    pub(super) saved_percent: Option<u64>,
    /// Median and 99th percentile since the moment before, from sending a write to the quick handler.
    pub(super) latency: (Duration, Duration),
}

impl RatedCount {
    fn since(total: u64, before: Self, seconds: f64) -> Self {
        let per_second = total.saturating_sub(before.total) as f64 / seconds.max(0.001);
        Self { total, per_second }
    }
}

impl Viewed {
    /// Reads all counters; rates are those since `before`.
    ///
    /// Reads counters one after the other and not at one moment, so neighbouring figures may differ by a few events.
    pub(super) async fn figures(&self, before: &Figures) -> Figures {
        let counters = &self.counters;
        let elapsed = counters.elapsed();
        let seconds = elapsed.saturating_sub(before.elapsed).as_secs_f64();
        let count =
            |counter: &AtomicU64, before| RatedCount::since(counter.load(Ordering::Relaxed), before, seconds);
        let snapshot = self.informer.snapshot();
        let revision = self.engine.current().await.unwrap_or_default();
        let planned = Duration::from_secs(self.arguments.seconds);
        Figures {
            elapsed,
            left: if counters.is_writing() { planned.saturating_sub(elapsed) } else { Duration::ZERO },
            written: count(&counters.written, before.written),
            revision: RatedCount::since(revision.0, before.revision, seconds),
            delivered: count(&counters.delivered, before.delivered),
            cached: snapshot.len(),
            cached_at: snapshot.revision(),
            quick: RatedCount::since(counters.handled(DemoHandler::Quick) as u64, before.quick, seconds),
            slow: RatedCount::since(counters.handled(DemoHandler::Slow) as u64, before.slow, seconds),
            slow_ms: self.arguments.slow,
            waiting: self.queue.len(),
            in_work: self.queue.in_flight(),
            reconciled: count(&counters.reconciled, before.reconciled),
            retried: counters.retried.load(Ordering::Relaxed),
            // The informer ends before the picture does.
            saved_percent: self.saved_percent().await.or(before.saved_percent),
            latency: counters.take_recent_latency(),
        }
    }
}

impl Viewed {
    /// Compares the two watches of the demo: the plain one, and the informer's, which requests deltas.
    async fn saved_percent(&self) -> Option<u64> {
        let page = self.raw.done(Method::GET, "/debug/listwatch/watches", None).await.ok()?;
        let watches = page.get("watches")?.as_array()?.iter();
        let ours = watches.filter(|watch| watch.get("labelSelector").and_then(Value::as_str) == Some(LABEL));
        let mut bytes: Vec<u64> = ours.filter_map(|watch| watch.get("bytes")?.as_u64()).collect();
        bytes.sort_unstable();
        match bytes.as_slice() {
            [deltas, plain] => saved(*deltas, *plain),
            _ => None,
        }
    }
}

/// `None` while the plain watch has received nothing.
fn saved(deltas: u64, plain: u64) -> Option<u64> {
    plain.saturating_sub(deltas).saturating_mul(100).checked_div(plain)
}

impl Figures {
    /// One line, for output that is not a terminal.
    pub(super) fn line(&self) -> String {
        let (p50, p99) = self.latency;
        let spared = self.saved_percent.map_or_else(String::new, |saved| format!("  deltas spare {saved}%"));
        format!(
            "{:>4.0} s  written {} ({:.0}/s)  delivered {} ({:.0}/s)  cached {}  quick {}  slow {}  queue {}  reconciled {}  p50 {p50:.1?}  p99 {p99:.1?}{spared}\n",
            self.elapsed.as_secs_f64(),
            self.written.total,
            self.written.per_second,
            self.delivered.total,
            self.delivered.per_second,
            self.cached,
            self.quick.total,
            self.slow.total,
            self.waiting + self.in_work,
            self.reconciled.total,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saving_is_a_part_of_what_the_plain_watch_got() {
        assert_eq!((saved(25, 100), saved(100, 100), saved(0, 0)), (Some(75), Some(0), None));
    }

    #[test]
    fn the_saving_is_shown_once_both_watches_have_received_events() {
        let unknown = Figures::default();
        let known = Figures { saved_percent: Some(87), ..Figures::default() };
        assert!(!unknown.line().contains("deltas"));
        assert!(known.line().ends_with("  deltas spare 87%\n"), "{}", known.line());
    }

    #[test]
    fn a_rate_is_the_difference_over_time() {
        let before = RatedCount { total: 100, per_second: 0.0 };
        assert_eq!(RatedCount::since(150, before, 0.5), RatedCount { total: 150, per_second: 100.0 });
        assert_eq!(RatedCount::since(90, before, 0.5).per_second, 0.0, "a counter that was taken away");
    }
}
