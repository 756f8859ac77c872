//! The metrics of a queue, under client-go's names.
//!
//! The queue keeps plain numbers under the lock it holds anyway; [`Source::stats`] copies them. Gauges that depend on the
//! time (`unfinished_work_seconds`, `longest_running_processor_seconds`) are computed when asked for, so no thread has
//! to refresh them.
//!
//! **Durations.** Every key is counted. Every key is timed as long as keys take two microseconds or more, which is
//! nearly always: then reading the clock is a small part of the cost. After 64 faster keys in a row, only one key in 16
//! is timed and counts for those before it, so that counts stay exact and sums are estimates. This sampling ends with
//! the first slow key among those that are timed, with a consumer that finds the queue empty, or when the metrics are
//! read. During sampling, `unfinished_work_seconds` and `longest_running_processor_seconds` may be too high by the time
//! since the last key that was timed.
//!
//! [`crate::Prometheus`] renders any number of sources; an exporter for another metrics system only needs this trait.

use std::time::Duration;

/// Something whose work-queue metrics can be read: a [`Queue`](crate::Queue) of any type. It is a trait so that
/// a collection of queues does not depend on their keys.
/// An exporter for another metrics system reads any number of them:
///
/// ```
/// use std::sync::Arc;
///
/// use listwatch_workqueue::{Options, Queue, Source};
///
/// let pods: Queue<u32> = Queue::new(Options::new().name("pods"));
/// let nodes: Queue<String> = Queue::new(Options::new().name("nodes"));
/// pods.add(7)?;
/// let queues: [Arc<dyn Source>; 2] = [Arc::new(pods), Arc::new(nodes)];
/// let depths: Vec<(&str, usize)> = queues.iter().map(|queue| (queue.name(), queue.stats().depth)).collect();
/// assert_eq!(depths, [("pods", 1), ("nodes", 0)]);
/// # Ok::<(), listwatch_workqueue::AddError<u32>>(())
/// ```
#[doc(alias = "MetricsProvider")]
pub trait Source: Send + Sync {
    /// The value of the label `name`.
    fn name(&self) -> &str;

    /// A consistent copy of the numbers.
    fn stats(&self) -> Stats;
}

/// The numbers of one queue at one moment. A queue without a name counts only what costs nothing: `depth` and
/// `delayed`.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// `workqueue_depth`: keys that need processing, those included that wait for their own earlier run to end.
    pub depth: usize,
    /// Keys that wait for their time (not in client-go).
    pub delayed: usize,
    /// `workqueue_adds_total`: adds that made a key dirty; the ones that merged into an earlier add are not counted.
    pub adds: u64,
    /// `workqueue_retries_total`: delayed and rate-limited adds.
    pub retries: u64,
    /// `workqueue_queue_duration_seconds`: from the first add to the hand-out.
    pub queue_duration: Histogram,
    /// `workqueue_work_duration_seconds`: from the hand-out to done.
    pub work_duration: Histogram,
    /// `workqueue_unfinished_work_seconds`: the ages of all keys in flight, summed.
    pub unfinished_work: Duration,
    /// `workqueue_longest_running_processor_seconds`: the age of the oldest key in flight.
    pub longest_running: Duration,
}

/// A histogram with the buckets client-go uses: 10 ns, 100 ns, … 10 s. They are powers of ten because a queue is
/// either fine, within microseconds, or not, within seconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Observations per decade; the last one counts what is above 10 s.
    counts: [u64; Self::BOUNDS.len() + 1],
    sum: Duration,
}

impl Histogram {
    /// The upper bounds of the buckets.
    pub const BOUNDS: [Duration; 10] = [
        Duration::from_nanos(10),
        Duration::from_nanos(100),
        Duration::from_micros(1),
        Duration::from_micros(10),
        Duration::from_micros(100),
        Duration::from_millis(1),
        Duration::from_millis(10),
        Duration::from_millis(100),
        Duration::from_secs(1),
        Duration::from_secs(10),
    ];

    /// Counts an observation `times` times, for the keys that were not timed.
    #[inline]
    pub(crate) fn observe(&mut self, nanos: u64, times: u64) {
        // The bucket is the number of decimal digits: bounds are inclusive, hence the minus one.
        let digits = nanos.saturating_sub(1).checked_ilog10().unwrap_or(0) as usize;
        if let Some(count) = self.counts.get_mut(digits.min(Self::BOUNDS.len())) {
            *count += times;
        }
        self.sum = self.sum.saturating_add(Duration::from_nanos(nanos.saturating_mul(times)));
    }

    /// The number of observations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of all observations.
    #[must_use]
    pub fn sum(&self) -> Duration {
        self.sum
    }

    /// Each bound with the number of observations at or below it, as the Prometheus text format requires.
    pub fn cumulative(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        let totals = self.counts.iter().scan(0, |total, count| {
            *total += count;
            Some(*total)
        });
        Self::BOUNDS.into_iter().zip(totals)
    }
}
