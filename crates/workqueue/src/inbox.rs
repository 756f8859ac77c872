//! The buffer in which producers leave keys until the next thread takes the state lock.
//!
//! Keys in the inbox are in the order in which they were added, of normal priority or delayed, and not yet distinguished from
//! duplicates. A key takes as few bytes as possible: each cache line of the inbox travels from the producer's processor to the
//! consumer's and back.

use crate::core::{Add, QueueCore};
use crate::pace::{Stamp, TIMED_EVERY};
use crate::priority::Priority;
use crate::reason::Reason;
use crate::waiters::Waiters;

/// So many keys are looked up at a time, in order that waits for memory overlap: more than the processor can have under way,
/// fewer than push each other out of the cache.
const PORTION: usize = 32;

/// Has its own lock; see [`crate::shared`]. Laid out as written: the first two fields, which nearly every add needs, are in one
/// cache line with the lock.
#[repr(C)]
pub(crate) struct Inbox<K, R> {
    /// True if an add must do more than append; see [`Self::update_alert`].
    pub(crate) alert: bool,
    timing: Timing,
    pub(crate) adds: InboxBatch<K, R>,
    pub(crate) closed: bool,
    /// True while the queue is paused: adds wake no consumer.
    pub(crate) paused: bool,
    pub(crate) sleepers: Waiters,
    /// The sleeper that watches the clock, and until when.
    pub(crate) timer: Option<(u64, u64)>,
}

impl<K, R> Inbox<K, R> {
    pub(crate) fn new(timing: Timing) -> Self {
        Self {
            alert: timing == Timing::Each,
            timing,
            adds: InboxBatch::default(),
            closed: false,
            paused: false,
            sleepers: Waiters::default(),
            timer: None,
        }
    }

    pub(crate) fn set_timing(&mut self, timing: Timing) {
        self.timing = timing;
        self.update_alert();
    }

    /// True if the next add is timed.
    #[inline]
    pub(crate) fn times_next(&self) -> bool {
        match self.timing {
            Timing::None => false,
            Timing::Some => self.adds.keys.len().is_multiple_of(TIMED_EVERY),
            Timing::Each => true,
        }
    }

    /// Sets the flag that sends the next add to the slow path: a consumer to wake, a time to note, or a reason to
    /// refuse it. Call it after each change of these.
    pub(crate) fn update_alert(&mut self) {
        let wakes = !self.paused && !self.sleepers.is_empty();
        self.alert = self.closed || self.timing == Timing::Each || wakes;
    }
}

/// The adds that are timed; see [`crate::pace`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timing {
    None,
    Some,
    Each,
}

/// Adds of normal priority, and delayed ones.
#[repr(C)]
pub(crate) struct InboxBatch<K, R> {
    keys: Vec<InboxWaiting<K, R>>,
    /// When those keys were added that are timed.
    times: Vec<u64>,
    /// Delayed adds, with when they fall due. Apart from the others, because how the two follow each other does not matter.
    delayed: Vec<(Add<K, R>, u64)>,
    /// All are turned around, the first one last, and are being delivered.
    turned: bool,
}

struct InboxWaiting<K, R> {
    key: K,
    hash: u32,
    timed: bool,
    reason: R,
}

impl<K, R> Default for InboxBatch<K, R> {
    fn default() -> Self {
        Self { keys: Vec::new(), times: Vec::new(), delayed: Vec::new(), turned: false }
    }
}

impl<K, R> InboxBatch<K, R> {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.delayed.is_empty()
    }

    /// Appends an add. Returns how many there are then.
    #[inline]
    pub(crate) fn push(&mut self, add: Add<K, R>, timed: bool) -> usize {
        let Add { hash, key, reason, .. } = add;
        self.keys.push(InboxWaiting { key, hash, timed, reason });
        self.keys.len()
    }

    /// Notes the time of the add that comes next.
    pub(crate) fn push_time(&mut self, at: u64) {
        self.times.push(at);
    }

    /// Appends a delayed add. Returns how many there are then.
    pub(crate) fn push_delayed(&mut self, add: Add<K, R>, due: u64) -> usize {
        self.delayed.push((add, due));
        self.delayed.len()
    }

    /// Puts all into the state machine, in order. Each add is taken out before its turn: if the key's or the reason's
    /// own code panics, those that follow are still here.
    pub(crate) fn deliver(&mut self, core: &mut QueueCore<K, R>)
    where
        K: Eq + Clone,
        R: Reason,
    {
        // Nothing here can fail: queues with an inbox are unbounded, and closing empties the inbox first.
        self.turn();
        let mut at = Stamp::NONE;
        while !self.keys.is_empty() {
            core.expect(self.keys.iter().rev().take(PORTION).map(|waiting| waiting.hash));
            for _ in 0..PORTION {
                let Some(InboxWaiting { key, hash, timed, reason }) = self.keys.pop() else { break };
                // What is not timed came after what was timed before it, and before the next.
                at = if timed { self.next_time() } else { at.not_exact() };
                let _ = core.add(Add { hash, key, reason, priority: Priority::Normal, at });
            }
        }
        while !self.delayed.is_empty() {
            core.expect(self.delayed.iter().rev().take(PORTION).map(|(add, _)| add.hash));
            for _ in 0..PORTION {
                let Some((add, due)) = self.delayed.pop() else { break };
                let _ = core.add_after(add, due);
            }
        }
        self.turned = false;
    }

    fn next_time(&mut self) -> Stamp {
        self.times.pop().map_or(Stamp::NONE, Stamp::exact)
    }

    /// Turns all around, because taking from the end of a vector is cheap, and complete at any moment.
    fn turn(&mut self) {
        if !self.turned {
            self.keys.reverse();
            self.times.reverse();
            self.delayed.reverse();
            self.turned = true;
        }
    }
}
