//! Read access to the state machine: lengths, the state of each key, and the figures for metrics.
//!
//! All but `list` take constant time, since they run under the queue's lock; `list` copies every key and is for
//! debugging pages and tests. "Depth" counts dirty keys, as client-go's `workqueue_depth` does: one that was added
//! again while it is processed is counted although it cannot be taken yet. Changes are in the parent module.

use super::entry::{DELAYED, DIRTY, KeyRecord, PROCESSING};
use super::slab::Slot;
use super::{QueueCore, wheel};
use crate::inspect::{KeyState, KeyView};
use crate::metrics::Stats;
use crate::reason::Reason;

impl<K: Eq + Clone, R: Reason> QueueCore<K, R> {
    /// The number of keys that can be handed out, leaving caps per tenant aside.
    #[inline]
    pub(crate) fn ready_len(&self) -> usize {
        self.ready.len()
    }

    /// The number of keys that are dirty.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// The number of keys that are handed out.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// The number of keys that are known at all: what the capacity limits.
    pub(crate) fn known(&self) -> usize {
        self.slab.live() - self.leaving.iter().filter(|slot| !self.slab.at(**slot).in_use()).count()
    }

    /// True if an add of this key needs no room.
    pub(crate) fn knows(&self, hash: u32, key: &K) -> bool {
        self.find(hash, key).is_some_and(|slot| self.slab.at(slot).in_use())
    }

    pub(crate) fn has_room(&self) -> bool {
        self.slab.live() < self.capacity
    }

    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.paused
    }

    /// Nothing dirty, nothing in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.depth == 0 && self.in_flight == 0
    }

    /// True if the next key could not change by adds of normal priority.
    #[inline]
    pub(crate) fn next_is_settled(&self) -> bool {
        self.ready.has_urgent_or_normal()
    }

    /// True if [`Self::take`] would find a key.
    pub(crate) fn can_take(&self) -> bool {
        !self.paused && self.ready.peek().is_some()
    }

    /// The key that would be handed out next.
    pub(crate) fn peek(&self) -> Option<&K> {
        self.ready.peek().and_then(|slot| self.slab.at(slot).key.as_ref())
    }

    /// Every known key with its state, in no particular order.
    pub(crate) fn list(&self, now: u64) -> Vec<KeyView<K>> {
        let nanos = std::time::Duration::from_nanos;
        let view = |(slot, entry): (Slot, &KeyRecord<K, R>)| {
            let state = match (entry.is(PROCESSING), entry.is(DIRTY)) {
                (true, again) => KeyState::Processing { again },
                (false, true) => KeyState::Ready,
                (false, false) => KeyState::Delayed,
            };
            let since = self.meter.as_ref().and_then(|meter| match state {
                KeyState::Processing { .. } => Some(meter.started_at(slot)),
                KeyState::Ready => Some(meter.queued_at(slot)),
                KeyState::Delayed => None,
            });
            let due = entry.is(DELAYED).then(|| wheel::nanos_of(entry.delay().0).saturating_sub(now));
            Some(KeyView {
                key: entry.key.clone()?,
                state,
                priority: entry.priority(),
                age: since.map(|since| nanos(now.saturating_sub(since))),
                due_in: due.map(nanos),
            })
        };
        self.slab.iter().filter(|(_, entry)| entry.in_use()).filter_map(view).collect()
    }

    /// The numbers at `now`.
    pub(crate) fn stats(&mut self, now: u64) -> Stats {
        let mut stats = Stats { depth: self.depth, delayed: self.delays.len, ..Stats::default() };
        if let Some(meter) = &mut self.meter {
            meter.fill(&mut stats, now);
        }
        stats
    }
}
