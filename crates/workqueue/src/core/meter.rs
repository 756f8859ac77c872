//! The counting side of [`crate::metrics`]: what happens to the numbers when a key moves.

use super::slab::{Chain, List, Slab, Slot};
use crate::metrics::{Histogram, Stats};

/// Present only in queues that have a name.
#[derive(Debug)]
pub(crate) struct Meter {
    adds: u64,
    retries: u64,
    queue_duration: Histogram,
    work_duration: Histogram,
    /// The keys in flight, oldest first: the head is the longest running one.
    in_flight: List,
    count: u64,
    /// Sum of the start times of all keys in flight, so that the sum of their ages needs no walk.
    started: u128,
}

impl Meter {
    pub(crate) fn new() -> Self {
        Self {
            adds: 0,
            retries: 0,
            queue_duration: Histogram::default(),
            work_duration: Histogram::default(),
            in_flight: List::new(),
            count: 0,
            started: 0,
        }
    }

    pub(crate) fn added(&mut self) {
        self.adds += 1;
    }

    pub(crate) fn retried(&mut self) {
        self.retries += 1;
    }

    pub(crate) fn taken<K, R: Default>(&mut self, slab: &mut Slab<K, R>, slot: Slot, now: u64) {
        self.queue_duration.observe(now.saturating_sub(slab.at(slot).queued_at));
        self.in_flight.push_back(slab, Chain::Order, slot);
        self.count += 1;
        self.started += u128::from(now);
    }

    pub(crate) fn done<K, R: Default>(&mut self, slab: &mut Slab<K, R>, slot: Slot, now: u64) {
        let started = slab.at(slot).started_at;
        self.work_duration.observe(now.saturating_sub(started));
        self.in_flight.unlink(slab, Chain::Order, slot);
        self.count -= 1;
        self.started -= u128::from(started);
    }

    pub(crate) fn fill<K, R: Default>(&self, stats: &mut Stats, slab: &Slab<K, R>, now: u64) {
        let unfinished = (u128::from(now) * u128::from(self.count)).saturating_sub(self.started);
        let oldest = self.in_flight.front().map_or(now, |slot| slab.at(slot).started_at);
        stats.adds = self.adds;
        stats.retries = self.retries;
        stats.queue_duration = self.queue_duration.clone();
        stats.work_duration = self.work_duration.clone();
        stats.unfinished_work =
            std::time::Duration::from_nanos(u64::try_from(unfinished).unwrap_or(u64::MAX));
        stats.longest_running = std::time::Duration::from_nanos(now.saturating_sub(oldest));
    }
}
