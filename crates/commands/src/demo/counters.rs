//! [`DemoCounters`]: counts, latencies and recorded histories of one demo, shared by everything that takes part.
//!
//! Counts are atomics, since they are read ten times per second while actors write. Latencies go into histograms of
//! fixed size, one for the whole run and one since the last reading. Histories grow with the run: they are what the
//! verdict compares with the store's log.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use listwatch_testkit::history::handler::HandlerCall;

/// Microseconds up to a minute, to three digits: a fixed 200 KB, however long the demo runs.
const LONGEST: u64 = 60_000_000;

/// The figures of the demo, shared by its actors and its screen. Atomics, so that showing them blocks no actor.
#[derive(Debug)]
pub(crate) struct DemoCounters {
    /// The zero of the demo's clock.
    begin: Instant,
    /// Writes of desired values that the server has acknowledged.
    pub(crate) written: AtomicU64,
    /// Events that the plain watch has received.
    pub(crate) delivered: AtomicU64,
    /// Objects that the controller has reconciled.
    pub(crate) reconciled: AtomicU64,
    /// Fulfilments that met a newer version and were tried again.
    pub(crate) retried: AtomicU64,
    /// Set by the deadline or by a key. Writers look at it before each write.
    writing_ended: AtomicBool,
    /// Set when everything has settled: readers and the screen end.
    finished: AtomicBool,
    latency: Mutex<Latency>,
    /// The history of the quick handler, in the order of its calls.
    quick: Mutex<Vec<HandlerCall>>,
    slow: Mutex<Vec<HandlerCall>>,
}

/// Times from sending a write to the quick handler, in microseconds.
#[derive(Debug)]
struct Latency {
    all: Option<Histogram<u64>>,
    /// Those since the last reading.
    recent: Option<Histogram<u64>>,
}

/// The handler that is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DemoHandler {
    Quick,
    Slow,
}

impl DemoCounters {
    pub(crate) fn new() -> Self {
        let histogram = || Histogram::new_with_bounds(1, LONGEST, 3).ok();
        Self {
            begin: Instant::now(),
            written: AtomicU64::new(0),
            delivered: AtomicU64::new(0),
            reconciled: AtomicU64::new(0),
            retried: AtomicU64::new(0),
            writing_ended: AtomicBool::new(false),
            finished: AtomicBool::new(false),
            latency: Mutex::new(Latency { all: histogram(), recent: histogram() }),
            quick: Mutex::default(),
            slow: Mutex::default(),
        }
    }

    /// The demo's clock, which travels inside the objects: microseconds since the start.
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Notes how long ago something was sent.
    pub(crate) fn record_latency(&self, sent: u64) {
        let took = self.now().saturating_sub(sent).clamp(1, LONGEST);
        let mut latency = self.latency.lock().unwrap_or_else(PoisonError::into_inner);
        let Latency { all, recent } = &mut *latency;
        all.iter_mut().chain(recent).for_each(|histogram| histogram.saturating_record(took));
    }

    /// The time from sending a write to its handler, at a quantile.
    pub(crate) fn latency(&self, quantile: f64) -> Duration {
        let latency = self.latency.lock().unwrap_or_else(PoisonError::into_inner);
        at(latency.all.as_ref(), quantile)
    }

    /// Median and 99th percentile since the last call.
    pub(crate) fn take_recent_latency(&self) -> (Duration, Duration) {
        let mut latency = self.latency.lock().unwrap_or_else(PoisonError::into_inner);
        let both = (at(latency.recent.as_ref(), 0.5), at(latency.recent.as_ref(), 0.99));
        latency.recent.iter_mut().for_each(Histogram::reset);
        both
    }

    /// Keeps what a handler was called with, for the verdict at the end.
    pub(crate) fn record_call(&self, who: DemoHandler, call: Option<HandlerCall>) {
        self.history(who).lock().unwrap_or_else(PoisonError::into_inner).extend(call);
    }

    pub(crate) fn handled(&self, who: DemoHandler) -> usize {
        self.history(who).lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// The calls of a handler, which are checked against the store.
    pub(crate) fn take_history(&self, who: DemoHandler) -> Vec<HandlerCall> {
        std::mem::take(&mut *self.history(who).lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The recorded calls of one handler.
    fn history(&self, who: DemoHandler) -> &Mutex<Vec<HandlerCall>> {
        match who {
            DemoHandler::Quick => &self.quick,
            DemoHandler::Slow => &self.slow,
        }
    }

    /// Ends the writing: its time is over, or it was interrupted.
    pub(crate) fn end_writing(&self) {
        self.writing_ended.store(true, Ordering::Release);
    }

    /// Writers run until the time is over.
    pub(crate) fn is_writing(&self) -> bool {
        !self.writing_ended.load(Ordering::Acquire)
    }

    pub(crate) fn finish(&self) {
        self.finished.store(true, Ordering::Release);
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Acquire)
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }
}

/// A quantile of the latencies.
fn at(histogram: Option<&Histogram<u64>>, quantile: f64) -> Duration {
    Duration::from_micros(histogram.map_or(0, |histogram| histogram.value_at_quantile(quantile)))
}
