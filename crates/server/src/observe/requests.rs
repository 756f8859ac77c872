//! [`RequestMetrics`]: counts and latencies of requests by labels, and the number being served.
//!
//! Names, labels and buckets are kube-apiserver's. A request finds its [`RequestSeries`] by a hash of its labels in a
//! table that is replaced, never changed, so that counting takes no lock and allocates nothing; only the first
//! request with new labels makes a new table. The number of series is bounded: beyond it requests are counted with
//! their verb alone. `chain/service.rs` counts; a watch counts when it ends.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use foldhash::fast::RandomState;
use http::StatusCode;
use parking_lot::Mutex;

use crate::observe::histogram::LatencyHistogram;
use crate::observe::labels::Labels;

/// Resources come from paths, which any client can invent: beyond this many combinations the rest is counted as one.
const MAX_SERIES: usize = 2000;

/// The bounds of kube-apiserver, in microseconds.
static DURATIONS: [u64; 23] = [
    5_000, 25_000, 50_000, 100_000, 200_000, 400_000, 600_000, 800_000, 1_000_000, 1_250_000, 1_500_000,
    2_000_000, 3_000_000, 4_000_000, 5_000_000, 6_000_000, 8_000_000, 10_000_000, 15_000_000, 20_000_000,
    30_000_000, 45_000_000, 60_000_000,
];
/// Microseconds in the unit of the text.
const SECOND: f64 = 1e6;

/// The codes of this server's responses; any other is counted as 0.
const CODES: [u16; 23] = [
    101, 200, 201, 202, 204, 304, 400, 401, 403, 404, 405, 406, 409, 410, 412, 413, 415, 422, 429, 500, 501,
    503, 504,
];

/// Counters and latencies of requests, by their labels.
#[derive(Debug, Default)]
pub(crate) struct RequestMetrics {
    /// All series by the hash of their labels. Replaced as a whole when one is added.
    table: ArcSwap<Table>,
    /// Serialises additions to the table.
    adding: Mutex<()>,
    hasher: RandomState,
    pub(crate) in_flight: InFlight,
}

type Table = HashMap<u64, Arc<RequestSeries>, RandomState>;

/// All requests with the same labels.
#[derive(Debug)]
pub(crate) struct RequestSeries {
    pub(crate) labels: Labels<'static>,
    pub(crate) durations: LatencyHistogram<23>,
    codes: [AtomicU64; CODES.len()],
    /// Responses with a code that is not in [`CODES`].
    other: AtomicU64,
}

/// The numbers of requests being served now, watches not included.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    pub(crate) read_only: AtomicUsize,
    pub(crate) mutating: AtomicUsize,
}

impl RequestMetrics {
    /// Returns the series of these labels. Beyond the bound on series it is that of the verb alone.
    ///
    /// A hash, a load and a comparison of labels. Of two sets of labels with one hash, the second is counted with its
    /// verb alone.
    pub(crate) fn series(&self, labels: &Labels<'_>) -> Arc<RequestSeries> {
        let key = self.hasher.hash_one(labels);
        match self.table.load().get(&key) {
            Some(series) if series.labels == *labels => Arc::clone(series),
            _ => self.add(key, labels),
        }
    }

    /// All series, in the order of their labels.
    pub(crate) fn all(&self) -> Vec<Arc<RequestSeries>> {
        let mut all: Vec<_> = self.table.load().values().cloned().collect();
        all.sort_by(|a, b| a.labels.cmp(&b.labels));
        all
    }

    /// Adds a series, or returns the one that counts for these labels if there are too many.
    #[cold]
    fn add(&self, key: u64, labels: &Labels<'_>) -> Arc<RequestSeries> {
        let _one_at_a_time = self.adding.lock();
        let table = self.table.load();
        // For a colliding hash, and beyond the bound, the labels of the resource are left out.
        let full = table.len() >= MAX_SERIES || table.get(&key).is_some_and(|s| s.labels != *labels);
        let labels = if full { labels.anything() } else { labels.clone() };
        let key = if full { self.hasher.hash_one(&labels) } else { key };
        if let Some(series) = table.get(&key) {
            return Arc::clone(series);
        }
        let series = Arc::new(RequestSeries::new(labels.into_owned()));
        let mut table = Table::clone(&table);
        table.insert(key, Arc::clone(&series));
        self.table.store(Arc::new(table));
        series
    }
}

impl RequestSeries {
    /// All counters are there from the start, since the path of a request takes no lock.
    fn new(labels: Labels<'static>) -> Self {
        let codes = std::array::from_fn(|_| AtomicU64::default());
        Self {
            labels,
            durations: LatencyHistogram::new(&DURATIONS, SECOND),
            codes,
            other: AtomicU64::default(),
        }
    }

    /// Counts a request that has been answered.
    pub(crate) fn done(&self, code: StatusCode, took: Duration) {
        let slot = CODES.binary_search(&code.as_u16()).ok().and_then(|at| self.codes.get(at));
        slot.unwrap_or(&self.other).fetch_add(1, Ordering::Relaxed);
        self.durations.observe(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    /// The number of responses with each code that occurred.
    pub(crate) fn codes(&self) -> impl Iterator<Item = (u16, u64)> {
        let counts = CODES.into_iter().zip(&self.codes).chain([(0, &self.other)]);
        counts.map(|(code, count)| (code, count.load(Ordering::Relaxed))).filter(|(_, count)| *count > 0)
    }
}

/// A request that is answered as long as it lasts. It is counted when it ends: that is how long it took.
#[derive(Debug)]
pub(crate) struct LastingRequest {
    series: Arc<RequestSeries>,
    code: StatusCode,
    since: Instant,
}

impl LastingRequest {
    /// Begins to measure. `code` is the one that was sent: it cannot change any more.
    pub(crate) fn new(series: Arc<RequestSeries>, code: StatusCode) -> Self {
        Self { series, code, since: Instant::now() }
    }
}

impl Drop for LastingRequest {
    fn drop(&mut self) {
        self.series.done(self.code, self.since.elapsed());
    }
}

/// A place among the requests being served; left when dropped.
#[derive(Debug)]
pub(crate) struct Seat<'a>(&'a AtomicUsize);

impl InFlight {
    /// Counts a request as being served until the seat is dropped. Returns the number that were served before.
    pub(crate) fn enter(&self, mutating: bool) -> (Seat<'_>, usize) {
        let (mine, other) =
            if mutating { (&self.mutating, &self.read_only) } else { (&self.read_only, &self.mutating) };
        let taken = mine.fetch_add(1, Ordering::Relaxed) + other.load(Ordering::Relaxed);
        (Seat(mine), taken)
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(resource: &str) -> Labels<'_> {
        Labels { verb: "GET", resource: resource.into(), scope: "resource", ..Labels::default() }
    }

    #[test]
    fn equal_labels_share_a_series() {
        let requests = RequestMetrics::default();
        for (resource, code) in [("pods", 200), ("pods", 404), ("nodes", 200), ("pods", 200), ("pods", 418)] {
            let code = StatusCode::from_u16(code).unwrap();
            requests.series(&labels(resource)).done(code, Duration::from_millis(7));
        }
        let all = requests.all();
        assert_eq!(all.len(), 2);
        assert_eq!(all[1].codes().collect::<Vec<_>>(), [(200, 2), (404, 1), (0, 1)]);
        assert_eq!(all[1].durations.count(), 4);
    }

    #[test]
    fn made_up_resources_do_not_fill_the_memory() {
        let requests = RequestMetrics::default();
        for n in 0..MAX_SERIES + 100 {
            requests.series(&labels(&n.to_string())).done(StatusCode::NOT_FOUND, Duration::ZERO);
        }
        assert_eq!(requests.all().len(), MAX_SERIES + 1);
        let rest = requests.series(&labels("one more"));
        assert_eq!((&*rest.labels.resource, rest.durations.count()), ("", 100));
    }

    #[test]
    fn a_seat_is_free_again_when_it_is_left() {
        let in_flight = InFlight::default();
        let (read, before) = in_flight.enter(false);
        assert_eq!((before, in_flight.enter(true).1), (0, 1));
        drop(read);
        assert_eq!(in_flight.enter(true).1, 0);
    }
}
