//! [`Usage`]: size and commit times of a store, for metrics.
//!
//! Commit time is the figure to watch on a slow disk: every write waits for one sync, and group commit only spreads it.
//! Buckets are fixed, like those of etcd's `etcd_disk_wal_fsync_duration_seconds`, and counted by the writer without a
//! lock. Values that an engine does not have (the files of a remote etcd) are absent and not zero.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets of [`SyncTimes`], in microseconds: from a fast NVMe disk to a disk that is in trouble.
pub const SYNC_BOUNDS: [u64; 12] =
    [100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000];

/// Figures about a store. An engine leaves out those that it does not have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of the files on disk.
    pub bytes: Option<u64>,
    /// Durations of commits, each of which waits for the disk once.
    pub syncs: Option<SyncTimes>,
}

/// The number of commits by their duration: a histogram with the bounds of [`SYNC_BOUNDS`].
///
/// Counts are per bucket and not cumulative; the metrics endpoint adds them up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncTimes {
    /// Commits not slower than the bound at the same place in [`SYNC_BOUNDS`] and slower than the one before.
    pub counts: [u64; SYNC_BOUNDS.len()],
    /// Commits slower than every bound.
    pub beyond: u64,
    /// The sum of all durations, in microseconds.
    pub total_micros: u64,
}

/// Counts commits without a lock: the writer adds, a scraper reads.
#[derive(Debug, Default)]
pub(crate) struct SyncCounter {
    counts: [AtomicU64; SYNC_BOUNDS.len()],
    beyond: AtomicU64,
    total_micros: AtomicU64,
}

impl SyncCounter {
    /// Called by the writer alone. Counters are relaxed: a scrape may see a duration in the sum before it sees it in
    /// its bucket, which Prometheus tolerates.
    pub(crate) fn observe(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let at = SYNC_BOUNDS.partition_point(|bound| *bound < micros);
        self.counts.get(at).unwrap_or(&self.beyond).fetch_add(1, Ordering::Relaxed);
        self.total_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Copies the counters. They are read one by one, so that a sync in between may be in some of them only.
    pub(crate) fn read(&self) -> SyncTimes {
        SyncTimes {
            counts: std::array::from_fn(|at| self.counts.get(at).map_or(0, |c| c.load(Ordering::Relaxed))),
            beyond: self.beyond.load(Ordering::Relaxed),
            total_micros: self.total_micros.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_counted_in_the_bucket_of_its_duration() {
        let counter = SyncCounter::default();
        for micros in [100, 101, 2_000_000] {
            counter.observe(Duration::from_micros(micros));
        }
        let times = counter.read();
        assert_eq!((times.counts[0], times.counts[1], times.beyond), (1, 1, 1));
        assert_eq!(times.total_micros, 2_000_201);
    }
}
