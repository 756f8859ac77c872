//! Delayed keys, from the add until they become ready. Deadlines are in [`super::wheel`].
//!
//! Each priority has its own wheel, so that many resyncs that fall due at once do not delay the retry of a live change.
//!
//! Keys that fall due together are made ready in portions, when the ready queue of their priority has become short. A
//! million of them would otherwise hold the lock while all are moved, and be out of the cache again before their turn
//! comes.

use super::entry::DELAYED;
use super::slab::{Slab, Slot};
use super::wheel::{self, Timer, Wheel};
use super::{Add, QueueCore};
use crate::error::AddError;
use crate::pace::Stamp;
use crate::priority::Priority;
use crate::reason::Reason;

/// The number of timers that are looked at in one go. A line of so many ready keys is long enough.
const PORTION: u32 = 128;

/// So many timers that do not count any more are not worth looking for.
const STALE_TIMERS: usize = 1024;

/// The timers of all delayed keys.
#[derive(Debug)]
pub(super) struct Delays {
    /// By priority.
    wheels: [Wheel; Priority::ALL.len()],
    /// The portion that is being dealt with; empty in between.
    due: Vec<Timer>,
    /// The number of keys that wait for their time.
    pub(super) len: usize,
}

impl Delays {
    pub(super) fn new() -> Self {
        Self { wheels: std::array::from_fn(|_| Wheel::new()), due: Vec::new(), len: 0 }
    }

    /// The tick at which something is to be done.
    fn next(&self) -> Option<u64> {
        // Timers of cancelled keys may be left; no consumer needs to wake up for them.
        let next = self.wheels.iter().filter_map(Wheel::next).min();
        if self.len > 0 { next } else { None }
    }

    #[expect(clippy::indexing_slicing, reason = "there are as many wheels as priorities")]
    fn wheel(&mut self, priority: Priority) -> &mut Wheel {
        &mut self.wheels[priority as usize]
    }

    /// Keeps the timers of keys that were cancelled or moved ahead from outnumbering the others.
    fn drop_stale_timers<K, R: Default>(&mut self, slab: &Slab<K, R>) {
        if self.wheels.iter().map(Wheel::len).sum::<usize>() > 2 * self.len + STALE_TIMERS {
            for (wheel, priority) in self.wheels.iter_mut().zip(Priority::ALL) {
                wheel.retain(|timer| counts(slab, timer, priority));
            }
        }
    }
}

/// True if a timer is still the one its key waits for.
fn counts<K, R: Default>(slab: &Slab<K, R>, timer: Timer, priority: Priority) -> bool {
    slab.get(timer.slot).is_some_and(|entry| entry.is(DELAYED) && entry.delay() == (timer.due, priority))
}

impl<K: Eq + Clone, R: Reason> QueueCore<K, R> {
    /// Makes a key dirty at `due`. Of several pending times of a key the earliest counts.
    pub(crate) fn add_after(&mut self, add: Add<K, R>, due: u64) -> Result<(), AddError<K>> {
        if self.closed {
            return Err(AddError::ShutDown(add.key));
        }
        let slot = match self.find(add.hash, &add.key) {
            Some(slot) => slot,
            None if !self.has_room() => return Err(AddError::Full(add.key)),
            None => super::store(&mut self.slab, &mut self.index, add.hash, add.key).0,
        };
        self.note_retry();
        self.delay(slot, add.reason, add.priority, wheel::tick_at_or_after(due));
        Ok(())
    }

    /// Delays a key, or brings its delay forward: of two delays the earlier counts, as in client-go. A timer that no
    /// longer counts stays in the wheel until it fires or there are too many.
    fn delay(&mut self, slot: Slot, reason: R, priority: Priority, due: u64) {
        let entry = self.slab.at_mut(slot);
        let (mut due, mut priority) = (due, priority);
        if entry.is(DELAYED) {
            entry.delayed_reason.merge(reason);
            let before = entry.delay();
            (due, priority) = (due.min(before.0), priority.min(before.1));
            if (due, priority) == before {
                return;
            }
        } else {
            entry.set(DELAYED);
            entry.delayed_reason = reason;
            self.delays.len += 1;
        }
        entry.set_delay(due, priority);
        self.delays.wheel(priority).insert(Timer { due, slot });
        self.delays.drop_stale_timers(&self.slab);
    }

    /// Takes back a key's delayed occurrence. Says whether there was one.
    pub(crate) fn cancel(&mut self, hash: u32, key: &K) -> bool {
        let Some(slot) = self.find(hash, key).filter(|slot| self.slab.at(*slot).is(DELAYED)) else {
            return false;
        };
        self.undelay(slot);
        self.forget_if_unused(slot);
        self.delays.drop_stale_timers(&self.slab);
        true
    }

    /// The number of keys that wait for their time.
    #[inline]
    pub(crate) fn delayed_len(&self) -> usize {
        self.delays.len
    }

    /// The time at which [`Self::advance`] may have something to do next.
    pub(crate) fn next_due(&self) -> Option<u64> {
        self.delays.next().map(wheel::nanos_of)
    }

    /// True if [`Self::advance`] has something to do now.
    pub(crate) fn must_advance(&self, now: u64) -> bool {
        Priority::ALL.into_iter().any(|priority| self.is_wanted(priority, wheel::tick_at(now)))
    }

    /// Makes keys ready whose time has come, as far as they are wanted.
    pub(crate) fn advance(&mut self, now: u64) {
        let tick = wheel::tick_at(now);
        for priority in Priority::ALL {
            if self.is_wanted(priority, tick) {
                while self.advance_portion(priority, now) && self.ready.len_of(priority) == 0 {}
            }
        }
    }

    /// Makes all keys ready whose time has come.
    pub(crate) fn advance_all(&mut self, now: u64) {
        for priority in Priority::ALL {
            while self.advance_portion(priority, now) {}
        }
    }

    /// True if keys of this priority are due, and the line they go to is short. From time to time that does not matter:
    /// a line that new adds keep long must not shut them out.
    fn is_wanted(&self, priority: Priority, tick: u64) -> bool {
        let wheel = self.delays.wheels.get(priority as usize);
        let due = wheel.and_then(Wheel::next).is_some_and(|next| next <= tick);
        due && (self.ready.len_of(priority) < PORTION as usize || self.ready.is_turn(PORTION))
    }

    /// `true` means that there may be more: call again.
    fn advance_portion(&mut self, priority: Priority, now: u64) -> bool {
        let (tick, mut budget) = (wheel::tick_at(now), PORTION);
        let mut due = std::mem::take(&mut self.delays.due);
        let wheel = self.delays.wheel(priority);
        due.extend(std::iter::from_fn(|| wheel.pop_due(tick, &mut budget)));
        self.slab.warm(due.iter().map(|timer| timer.slot));
        for timer in due.drain(..) {
            if counts(&self.slab, timer, priority) {
                let (reason, priority) = self.undelay(timer.slot);
                self.mark_dirty(timer.slot, reason, priority, Stamp::exact(now));
            }
        }
        self.delays.due = due;
        budget == 0
    }

    pub(super) fn undelay(&mut self, slot: Slot) -> (R, Priority) {
        self.delays.len -= 1;
        let entry = self.slab.at_mut(slot);
        entry.clear(DELAYED);
        (std::mem::take(&mut entry.delayed_reason), entry.delay().1)
    }
}
