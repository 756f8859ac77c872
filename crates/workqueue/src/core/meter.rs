//! The counting side of [`crate::metrics`]: depth, durations and work in progress, updated as keys move.
//!
//! Figures that client-go recomputes by walking the keys in flight (`unfinished_work_seconds`,
//! `longest_running_processor_seconds`) are kept as a running sum and a linked list here, so that scraping a queue with
//! many workers takes constant time under the lock. Times are stored by slot, outside the entries: queues without a
//! name pay neither memory nor clock reads. Rendering is [`Prometheus`](crate::Prometheus).

use std::time::Duration;

use super::slab::Slot;
use crate::metrics::{Histogram, Stats};
use crate::pace::Stamp;

const NONE: Slot = Slot::MAX;

/// Present only in queues that have a name.
#[derive(Debug)]
pub(crate) struct QueueMeter {
    adds: u64,
    retries: u64,
    queue_duration: Sampled,
    work_duration: Sampled,
    /// By slot. Apart from the entries, which would otherwise be larger in queues that are not measured.
    times: Vec<Times>,
    /// The keys in flight are chained, oldest first: the head is the longest running one.
    oldest: Slot,
    newest: Slot,
    count: u64,
    /// Sum of the start times of all keys in flight, so that the sum of their ages needs no walk.
    started: u128,
}

/// The times of one key, and its neighbours among those that are processed, from the oldest to the newest.
#[derive(Debug, Clone, Copy)]
struct Times {
    /// The time at which the key became dirty.
    queued_at: Stamp,
    /// The time at which the key was handed out.
    started_at: Stamp,
    /// Neighbours in flight.
    older: Slot,
    newer: Slot,
}

const UNKNOWN: Times = Times { queued_at: Stamp::NONE, started_at: Stamp::NONE, older: NONE, newer: NONE };

impl QueueMeter {
    /// Counters at zero. Memory for times is taken as keys come.
    pub(crate) fn new() -> Self {
        Self {
            adds: 0,
            retries: 0,
            queue_duration: Sampled::default(),
            work_duration: Sampled::default(),
            times: Vec::new(),
            oldest: NONE,
            newest: NONE,
            count: 0,
            started: 0,
        }
    }

    /// A key became dirty. The time may be unknown: it is measured for some additions only.
    #[inline]
    pub(crate) fn added(&mut self, slot: Slot, at: Stamp) {
        self.adds += 1;
        if self.times.len() <= slot as usize {
            self.grow(slot);
        }
        self.edit(slot, |times| times.queued_at = at);
    }

    /// Counts an addition by a rate limiter.
    pub(crate) fn retried(&mut self) {
        self.retries += 1;
    }

    /// Records that a key was handed out. The clock is read only if the time of its add is known.
    #[inline]
    pub(crate) fn taken(&mut self, slot: Slot, now: impl FnOnce(bool) -> Stamp) {
        let queued_at = self.at(slot).queued_at;
        let now = now(queued_at.is_exact());
        self.queue_duration.observe(queued_at, now);
        let newest = std::mem::replace(&mut self.newest, slot);
        self.edit(slot, |times| {
            (times.started_at, times.older, times.newer) = (now, newest, NONE);
        });
        match newest {
            NONE => self.oldest = slot,
            newest => self.edit(newest, |times| times.newer = slot),
        }
        self.count += 1;
        self.started += u128::from(now.nanos());
    }

    /// A key is done: it leaves the list of those that are processed.
    #[inline]
    pub(crate) fn done(&mut self, slot: Slot, now: impl FnOnce(bool) -> Stamp) {
        let Times { started_at, older, newer, .. } = self.at(slot);
        self.work_duration.observe(started_at, now(started_at.is_exact()));
        match older {
            NONE => self.oldest = newer,
            older => self.edit(older, |times| times.newer = newer),
        }
        match newer {
            NONE => self.newest = older,
            newer => self.edit(newer, |times| times.older = older),
        }
        self.count -= 1;
        self.started -= u128::from(started_at.nanos());
    }

    pub(crate) fn queued_at(&self, slot: Slot) -> u64 {
        self.at(slot).queued_at.nanos()
    }

    pub(crate) fn started_at(&self, slot: Slot) -> u64 {
        self.at(slot).started_at.nanos()
    }

    #[cold]
    fn grow(&mut self, slot: Slot) {
        self.times.resize(slot as usize + 1, UNKNOWN);
    }

    /// The slab has given back its memory; no key is in flight.
    pub(crate) fn shrink(&mut self) {
        self.times = Vec::new();
    }

    /// Adds the figures kept here: distributions, the oldest key in flight and the sum of unfinished work.
    pub(crate) fn fill(&mut self, stats: &mut Stats, now: u64) {
        let unfinished = (u128::from(now) * u128::from(self.count)).saturating_sub(self.started);
        let oldest = if self.oldest == NONE { now } else { self.started_at(self.oldest) };
        stats.adds = self.adds;
        stats.retries = self.retries;
        stats.queue_duration = self.queue_duration.settled();
        stats.work_duration = self.work_duration.settled();
        stats.unfinished_work = Duration::from_nanos(u64::try_from(unfinished).unwrap_or(u64::MAX));
        stats.longest_running = Duration::from_nanos(now.saturating_sub(oldest));
    }

    #[inline]
    fn at(&self, slot: Slot) -> Times {
        self.times.get(slot as usize).copied().unwrap_or(UNKNOWN)
    }

    #[inline]
    fn edit(&mut self, slot: Slot, change: impl FnOnce(&mut Times)) {
        if let Some(times) = self.times.get_mut(slot as usize) {
            change(times);
        }
    }
}

/// A histogram of all keys, of which some were timed. Each of those also counts for the keys since the one before it.
#[derive(Debug, Default)]
struct Sampled {
    histogram: Histogram,
    /// Keys that were not timed, since the last one that was.
    untimed: u64,
    last: u64,
}

impl Sampled {
    /// Counts a duration, or that there was one which was not measured.
    #[inline]
    fn observe(&mut self, from: Stamp, to: Stamp) {
        if !(from.is_exact() && to.is_exact()) {
            self.untimed += 1;
            return;
        }
        self.last = to.nanos().saturating_sub(from.nanos());
        self.histogram.observe(self.last, 1 + std::mem::take(&mut self.untimed));
    }

    /// The histogram with all keys so far. Those after the last timed one are counted like it, for good: no count may
    /// ever decrease.
    fn settled(&mut self) -> Histogram {
        if self.untimed > 0 {
            self.histogram.observe(self.last, std::mem::take(&mut self.untimed));
        }
        self.histogram.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timed_key_stands_for_those_before_it_and_every_key_is_counted() {
        let mut sampled = Sampled::default();
        let micros = |micros: u64| Stamp::exact(micros * 1000);
        sampled.observe(micros(1), micros(3));
        (0..7).for_each(|_| sampled.observe(Stamp::about(3), Stamp::about(3)));
        sampled.observe(micros(3), micros(6));
        assert_eq!(
            (sampled.settled().count(), sampled.settled().sum()),
            (9, Duration::from_micros(2 + 8 * 3))
        );
        sampled.observe(Stamp::about(3), micros(9));
        assert_eq!(
            (sampled.settled().count(), sampled.settled().sum()),
            (10, Duration::from_micros(2 + 9 * 3))
        );
    }
}
