//! The counting side of [`crate::metrics`]: depth, durations and work in progress, updated as keys move.
//!
//! Figures that client-go recomputes by walking the keys in flight (`unfinished_work_seconds`,
//! `longest_running_processor_seconds`) are kept as a running sum and a linked list here, so that scraping a queue with
//! many workers takes constant time under the lock. Times are stored by slot, outside the entries: queues without a
//! name pay neither memory nor clock reads. Rendering is [`Prometheus`](crate::Prometheus).

use std::time::Duration;

use super::slab::Slot;
use crate::metrics::{Histogram, Stats};

const NONE: Slot = Slot::MAX;

/// Present only in queues that have a name.
#[derive(Debug)]
pub(crate) struct QueueMeter {
    adds: u64,
    retries: u64,
    queue_duration: Histogram,
    work_duration: Histogram,
    /// By slot. Apart from the entries, which would otherwise be larger in queues that are not measured.
    times: Vec<Times>,
    /// The keys in flight are chained, oldest first: the head is the longest running one.
    oldest: Slot,
    newest: Slot,
    count: u64,
    /// Sum of the start times of all keys in flight, so that the sum of their ages needs no walk.
    started: u128,
}

#[derive(Debug, Clone, Copy)]
struct Times {
    /// When the key became dirty, in nanoseconds.
    queued_at: u64,
    /// When the key was handed out.
    started_at: u64,
    /// Neighbours in flight.
    older: Slot,
    newer: Slot,
}

const UNKNOWN: Times = Times { queued_at: 0, started_at: 0, older: NONE, newer: NONE };

impl QueueMeter {
    pub(crate) fn new() -> Self {
        Self {
            adds: 0,
            retries: 0,
            queue_duration: Histogram::default(),
            work_duration: Histogram::default(),
            times: Vec::new(),
            oldest: NONE,
            newest: NONE,
            count: 0,
            started: 0,
        }
    }

    pub(crate) fn added(&mut self, slot: Slot, at: u64) {
        self.adds += 1;
        if self.times.len() <= slot as usize {
            self.times.resize(slot as usize + 1, UNKNOWN);
        }
        self.edit(slot, |times| times.queued_at = at);
    }

    pub(crate) fn retried(&mut self) {
        self.retries += 1;
    }

    pub(crate) fn taken(&mut self, slot: Slot, now: u64) {
        let queued_at = self.queued_at(slot);
        self.queue_duration.observe(now.saturating_sub(queued_at));
        let newest = std::mem::replace(&mut self.newest, slot);
        self.edit(slot, |times| {
            (times.started_at, times.older, times.newer) = (now, newest, NONE);
        });
        match newest {
            NONE => self.oldest = slot,
            newest => self.edit(newest, |times| times.newer = slot),
        }
        self.count += 1;
        self.started += u128::from(now);
    }

    pub(crate) fn done(&mut self, slot: Slot, now: u64) {
        let Times { started_at, older, newer, .. } = self.at(slot);
        self.work_duration.observe(now.saturating_sub(started_at));
        match older {
            NONE => self.oldest = newer,
            older => self.edit(older, |times| times.newer = newer),
        }
        match newer {
            NONE => self.newest = older,
            newer => self.edit(newer, |times| times.older = older),
        }
        self.count -= 1;
        self.started -= u128::from(started_at);
    }

    pub(crate) fn queued_at(&self, slot: Slot) -> u64 {
        self.at(slot).queued_at
    }

    pub(crate) fn started_at(&self, slot: Slot) -> u64 {
        self.at(slot).started_at
    }

    /// The slab has given back its memory; no key is in flight.
    pub(crate) fn shrink(&mut self) {
        self.times = Vec::new();
    }

    pub(crate) fn fill(&self, stats: &mut Stats, now: u64) {
        let unfinished = (u128::from(now) * u128::from(self.count)).saturating_sub(self.started);
        let oldest = if self.oldest == NONE { now } else { self.started_at(self.oldest) };
        stats.adds = self.adds;
        stats.retries = self.retries;
        stats.queue_duration = self.queue_duration.clone();
        stats.work_duration = self.work_duration.clone();
        stats.unfinished_work = Duration::from_nanos(u64::try_from(unfinished).unwrap_or(u64::MAX));
        stats.longest_running = Duration::from_nanos(now.saturating_sub(oldest));
    }

    fn at(&self, slot: Slot) -> Times {
        self.times.get(slot as usize).copied().unwrap_or(UNKNOWN)
    }

    fn edit(&mut self, slot: Slot, change: impl FnOnce(&mut Times)) {
        if let Some(times) = self.times.get_mut(slot as usize) {
            change(times);
        }
    }
}
