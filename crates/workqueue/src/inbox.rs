//! Where producers leave keys for whoever looks at the state next.
//!
//! What is in here is in the order in which it was added, of normal priority or delayed, and not yet told apart from
//! duplicates. A key takes as few bytes as possible: each cache line of the inbox travels from the producer's processor to the
//! consumer's and back.

use crate::core::{Add, Core};
use crate::priority::Priority;
use crate::reason::Reason;
use crate::waiters::Waiters;

/// So many keys are looked up at a time, in order that waits for memory overlap: more than the processor can have under way,
/// fewer than push each other out of the cache.
const PORTION: usize = 32;

/// Under a lock of its own; see [`crate::shared`].
pub(crate) struct Inbox<K, R> {
    pub(crate) adds: Batch<K, R>,
    pub(crate) closed: bool,
    /// Adds wake nobody while the queue is paused.
    pub(crate) paused: bool,
    pub(crate) sleepers: Waiters,
    /// The sleeper that watches the clock, and until when.
    pub(crate) timer: Option<(u64, u64)>,
}

impl<K, R> Inbox<K, R> {
    pub(crate) fn new() -> Self {
        Self {
            adds: Batch::default(),
            closed: false,
            paused: false,
            sleepers: Waiters::default(),
            timer: None,
        }
    }
}

/// Adds of normal priority, and delayed ones.
pub(crate) struct Batch<K, R> {
    keys: Vec<Waiting<K, R>>,
    /// When they were added: as many as keys, or none if the queue is not measured.
    times: Vec<u64>,
    /// Delayed adds, with when they fall due. Apart from the others, because their order does not matter.
    delayed: Vec<(Add<K, R>, u64)>,
}

struct Waiting<K, R> {
    key: K,
    hash: u32,
    reason: R,
}

impl<K, R> Default for Batch<K, R> {
    fn default() -> Self {
        Self { keys: Vec::new(), times: Vec::new(), delayed: Vec::new() }
    }
}

impl<K, R> Batch<K, R> {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.delayed.is_empty()
    }

    /// Appends an add, whose time counts only in a metered queue. Returns how many there are then.
    #[inline]
    pub(crate) fn push(&mut self, add: Add<K, R>, metered: bool) -> usize {
        let Add { hash, key, reason, at, .. } = add;
        self.keys.push(Waiting { key, hash, reason });
        if metered {
            self.times.push(at);
        }
        self.keys.len()
    }

    /// Appends a delayed add. Returns how many there are then.
    pub(crate) fn push_delayed(&mut self, add: Add<K, R>, due: u64) -> usize {
        self.delayed.push((add, due));
        self.delayed.len()
    }

    /// Puts all into the state machine, in order.
    pub(crate) fn deliver(&mut self, core: &mut Core<K, R>)
    where
        K: Eq + Clone,
        R: Reason,
    {
        // Nothing here can fail: queues with an inbox are unbounded, and closing empties the inbox first.
        let mut times = self.times.drain(..);
        let mut keys = self.keys.drain(..);
        while !keys.as_slice().is_empty() {
            core.expect(keys.as_slice().iter().take(PORTION).map(|waiting| waiting.hash));
            for Waiting { key, hash, reason } in keys.by_ref().take(PORTION) {
                let at = times.next().unwrap_or(0);
                let _ = core.add(Add { hash, key, reason, priority: Priority::Normal, at });
            }
        }
        let mut delayed = self.delayed.drain(..);
        while !delayed.as_slice().is_empty() {
            core.expect(delayed.as_slice().iter().take(PORTION).map(|(add, _)| add.hash));
            for (add, due) in delayed.by_ref().take(PORTION) {
                let _ = core.add_after(add, due);
            }
        }
    }
}
