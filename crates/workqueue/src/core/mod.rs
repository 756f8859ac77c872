//! The queue as a pure state machine: no locks, no clock, no waiting.
//!
//! Every call gets the time as nanoseconds since some fixed start. The concurrent queue ([`crate::Queue`]) wraps this in a
//! lock; simulations and the model tests use it bare.
//!
//! A key is *dirty* when it needs processing, *processing* while a consumer has it, *delayed* while an occurrence of it
//! waits for its time. Dirty and not processing means *ready*: it stands in [`Ready`]. From these four words follow all
//! the rules:
//! adding a dirty key changes nothing; a key that is processing is never handed out again; one that becomes dirty while
//! processing becomes ready when it is done; a key that is neither dirty, processing nor delayed is forgotten.
//!
//! Read on in [`slab`] (storage), [`index`] (lookup), [`ready`] and [`ring`] (order), [`tenants`] (fairness), [`wheel`]
//! (delays).
//!
//! **Cost.** At a million keys nothing is in the cache any more, so what counts is how many lines of memory a key touches on its
//! way: a cell of the index when it is added, its entry, and the cell once more when it is forgotten. Entries and rings
//! are used in order, which the processor foresees. The random accesses are done several at a time (`warm`), so
//! that they overlap.

#[cfg(test)]
mod fair_tests;
pub(crate) mod index;
pub(crate) mod meter;
#[cfg(test)]
mod model_tests;
pub(crate) mod ready;
pub(crate) mod ring;
pub(crate) mod slab;
pub(crate) mod tenants;
pub(crate) mod view;
pub(crate) mod wheel;

use std::fmt;

use self::index::Index;
use self::meter::Meter;
use self::ready::Ready;
use self::slab::{DELAYED, DIRTY, LEAVING, PROCESSING, Slab, Slot};
use self::tenants::Tenants;
use self::wheel::{Timer, Wheel};
use crate::error::AddError;
use crate::priority::Priority;
use crate::reason::Reason;

/// How many delayed keys one call may move, which bounds how long the lock is held when very many fall due at once.
const ADVANCE_BUDGET: u32 = 128;

/// How many unused keys may wait to be forgotten.
const LEAVING_MAX: usize = 32;

/// How many ready keys are read ahead at a time.
const READ_AHEAD: u32 = 16;

/// So many timers that do not count any more are not worth looking for.
const STALE_TIMERS: usize = 1024;

/// Finds a key's tenant; see [`crate::Options::fair`].
pub(crate) type TenantOf<K> = Box<dyn Fn(&K) -> u64 + Send>;

/// The settings the state machine needs.
pub(crate) struct Settings<K> {
    pub(crate) capacity: usize,
    pub(crate) tenant_of: Option<TenantOf<K>>,
    pub(crate) tenant_in_flight_max: u32,
    pub(crate) background_every: u32,
    pub(crate) metered: bool,
}

/// One add, with its key's hash computed by the caller (outside any lock).
#[derive(Debug)]
pub(crate) struct Add<K, R> {
    pub(crate) hash: u32,
    pub(crate) key: K,
    pub(crate) reason: R,
    pub(crate) priority: Priority,
    /// When it happened.
    pub(crate) at: u64,
}

/// A key on its way to a consumer.
#[derive(Debug)]
pub(crate) struct Taken<K, R> {
    pub(crate) slot: Slot,
    pub(crate) key: K,
    pub(crate) reason: R,
    pub(crate) priority: Priority,
}

/// The state machine.
pub(crate) struct Core<K, R> {
    slab: Slab<K, R>,
    index: Index,
    ready: Ready,
    wheel: Wheel,
    /// The portion of timers that is being dealt with; empty in between.
    due: Vec<Timer>,
    meter: Option<Box<Meter>>,
    tenant_of: Option<TenantOf<K>>,
    capacity: usize,
    /// Unused keys that are still stored. They are forgotten several at a time, which lets the memory accesses overlap, and
    /// spares a key that soon comes back the trouble.
    leaving: Vec<Slot>,
    /// How many keys wait for their time.
    delayed: usize,
    /// How many keys are dirty.
    depth: usize,
    /// How many keys are processing.
    in_flight: usize,
    closed: bool,
    paused: bool,
}

impl<K: Eq + Clone, R: Reason> Core<K, R> {
    pub(crate) fn new(settings: Settings<K>) -> Self {
        let fair = settings.tenant_of.is_some().then(|| Tenants::new(settings.tenant_in_flight_max));
        Self {
            slab: Slab::new(),
            index: Index::new(),
            ready: Ready::new(fair, settings.background_every),
            wheel: Wheel::new(),
            due: Vec::new(),
            meter: settings.metered.then(|| Box::new(Meter::new())),
            tenant_of: settings.tenant_of,
            capacity: settings.capacity,
            leaving: Vec::new(),
            delayed: 0,
            depth: 0,
            in_flight: 0,
            closed: false,
            paused: false,
        }
    }

    /// Makes a key dirty.
    #[inline]
    pub(crate) fn add(&mut self, add: Add<K, R>) -> Result<(), AddError<K>> {
        if self.closed {
            return Err(AddError::ShutDown(add.key));
        }
        let slot = self.slot_for(add.hash, add.key)?;
        self.mark_dirty(slot, add.reason, add.priority, add.at);
        Ok(())
    }

    /// Makes a key dirty at `due`. Of several pending times of a key the earliest counts.
    pub(crate) fn add_after(&mut self, add: Add<K, R>, due: u64) -> Result<(), AddError<K>> {
        if self.closed {
            return Err(AddError::ShutDown(add.key));
        }
        let slot = self.slot_for(add.hash, add.key)?;
        self.note_retry();
        let due = wheel::tick_at_or_after(due);
        let entry = self.slab.at_mut(slot);
        if entry.is(DELAYED) {
            entry.delayed_reason.merge(add.reason);
            entry.delayed_priority = entry.delayed_priority.min(add.priority);
            if due >= entry.due {
                return Ok(());
            }
        } else {
            entry.set(DELAYED);
            (entry.delayed_reason, entry.delayed_priority) = (add.reason, add.priority);
            self.delayed += 1;
        }
        entry.due = due;
        self.wheel.insert(Timer { due, slot });
        self.drop_stale_timers();
        Ok(())
    }

    /// Counts a retry that needed no delay.
    pub(crate) fn note_retry(&mut self) {
        if let Some(meter) = &mut self.meter {
            meter.retried();
        }
    }

    /// Takes back a key's delayed occurrence. Says whether there was one.
    pub(crate) fn cancel(&mut self, hash: u32, key: &K) -> bool {
        let Some(slot) = self.find(hash, key).filter(|slot| self.slab.at(*slot).is(DELAYED)) else {
            return false;
        };
        self.undelay(slot);
        self.forget_if_unused(slot);
        self.drop_stale_timers();
        true
    }

    /// Moves keys whose time has come to the ready ones. `true` means that there may be more: call again.
    pub(crate) fn advance(&mut self, now: u64) -> bool {
        let (tick, mut budget) = (wheel::tick_at(now), ADVANCE_BUDGET);
        let mut due = std::mem::take(&mut self.due);
        due.extend(std::iter::from_fn(|| self.wheel.pop_due(tick, &mut budget)));
        self.slab.warm(due.iter().map(|timer| timer.slot));
        for timer in due.drain(..) {
            if timer_counts(&self.slab, timer) {
                let (reason, priority) = self.undelay(timer.slot);
                self.mark_dirty(timer.slot, reason, priority, now);
            }
        }
        self.due = due;
        budget == 0
    }

    /// Keeps the timers of keys that were cancelled or moved ahead from outnumbering the others.
    fn drop_stale_timers(&mut self) {
        if self.wheel.len() > 2 * self.delayed + STALE_TIMERS {
            self.wheel.retain(|timer| timer_counts(&self.slab, timer));
        }
    }

    /// When [`Self::advance`] has something to do next.
    pub(crate) fn next_due(&self) -> Option<u64> {
        // Timers of cancelled keys may be left, for which nobody needs to get up.
        let next = if self.delayed > 0 { self.wheel.next() } else { None };
        next.map(wheel::nanos_of)
    }

    /// Hands out the next key.
    #[inline]
    pub(crate) fn take(&mut self, now: u64) -> Option<Taken<K, R>> {
        if self.paused {
            return None;
        }
        let slot = self.ready.pop()?;
        if let Some(upcoming) = self.ready.upcoming(READ_AHEAD) {
            self.slab.warm(upcoming);
        }
        let entry = self.slab.at_mut(slot);
        entry.clear(DIRTY);
        entry.set(PROCESSING);
        let (reason, priority) = (std::mem::take(&mut entry.reason), entry.priority);
        let key = entry.key.clone()?;
        self.depth -= 1;
        self.in_flight += 1;
        if let Some(meter) = &mut self.meter {
            meter.taken(slot, now);
        }
        Some(Taken { slot, key, reason, priority })
    }

    /// Takes back a key that was handed out.
    #[inline]
    pub(crate) fn done(&mut self, slot: Slot, now: u64) {
        if let Some(meter) = &mut self.meter {
            meter.done(slot, now);
        }
        self.in_flight -= 1;
        let entry = self.slab.at_mut(slot);
        entry.clear(PROCESSING);
        self.ready.finished(entry.tenant);
        match entry.is(DIRTY) {
            true => self.push_ready(slot),
            false => self.forget_if_unused(slot),
        }
    }

    /// Stops taking new keys and drops the delayed ones. Returns how many were dropped.
    pub(crate) fn close(&mut self) -> usize {
        self.closed = true;
        self.paused = false;
        let delayed: Vec<_> =
            self.slab.iter().filter(|(_, entry)| entry.is(DELAYED)).map(|(slot, _)| slot).collect();
        for slot in &delayed {
            self.undelay(*slot);
            self.forget_if_unused(*slot);
        }
        self.sweep();
        self.wheel = Wheel::new();
        delayed.len()
    }

    /// Stops or resumes handing out keys. A closed queue cannot be paused: it must drain.
    pub(crate) fn set_paused(&mut self, paused: bool) {
        self.paused = paused && !self.closed;
    }

    #[inline]
    fn slot_for(&mut self, hash: u32, key: K) -> Result<Slot, AddError<K>> {
        if let Some(slot) = self.find(hash, &key) {
            return Ok(slot);
        }
        if !self.has_room() {
            return Err(AddError::Full(key));
        }
        let slot = self.slab.insert(hash, key);
        self.index.insert(hash, slot);
        Ok(slot)
    }

    #[inline]
    fn find(&self, hash: u32, key: &K) -> Option<Slot> {
        self.index.find(hash, |slot| self.slab.at(slot).key.as_ref() == Some(key))
    }

    #[inline]
    fn mark_dirty(&mut self, slot: Slot, reason: R, priority: Priority, at: u64) {
        let entry = self.slab.at_mut(slot);
        if entry.is(DIRTY) {
            entry.reason.merge(reason);
            if priority < entry.priority {
                self.raise(slot, priority);
            }
            return;
        }
        entry.set(DIRTY);
        entry.reason = reason;
        entry.priority = priority;
        let waits = entry.is(PROCESSING);
        self.depth += 1;
        if let Some(meter) = &mut self.meter {
            meter.added(slot, at);
        }
        if !waits {
            self.push_ready(slot);
        }
    }

    fn raise(&mut self, slot: Slot, priority: Priority) {
        let waits = self.slab.at(slot).is(PROCESSING);
        if !waits {
            self.ready.remove(&mut self.slab, slot);
        }
        self.slab.at_mut(slot).priority = priority;
        if !waits {
            self.push_ready(slot);
        }
    }

    #[inline]
    fn push_ready(&mut self, slot: Slot) {
        let entry = self.slab.at_mut(slot);
        let tenant = match (&self.tenant_of, &entry.key) {
            (Some(tenant_of), Some(key)) => tenant_of(key),
            _ => 0,
        };
        self.ready.push(entry, slot, tenant);
    }

    fn undelay(&mut self, slot: Slot) -> (R, Priority) {
        self.delayed -= 1;
        let entry = self.slab.at_mut(slot);
        entry.clear(DELAYED);
        (std::mem::take(&mut entry.delayed_reason), entry.delayed_priority)
    }

    #[inline]
    fn forget_if_unused(&mut self, slot: Slot) {
        let entry = self.slab.at_mut(slot);
        if entry.in_use() || entry.is(LEAVING) {
            return;
        }
        entry.set(LEAVING);
        self.leaving.push(slot);
        // In a bounded queue a stored key takes room, in an idle one it would stay for long.
        if self.leaving.len() >= LEAVING_MAX || self.is_idle() || self.capacity != usize::MAX {
            self.sweep();
        }
    }

    /// Forgets the keys that have left, unless they have come back.
    fn sweep(&mut self) {
        self.index.warm(self.leaving.iter().map(|slot| self.slab.at(*slot).hash));
        for slot in self.leaving.drain(..) {
            let entry = self.slab.at_mut(slot);
            entry.clear(LEAVING);
            if !entry.in_use() {
                self.index.remove(entry.hash, slot);
                self.slab.remove(slot);
            }
        }
        if self.slab.shrink()
            && let Some(meter) = &mut self.meter
        {
            meter.shrink();
        }
    }

    /// Tells that adds with these hashes are about to follow.
    pub(crate) fn expect(&self, hashes: impl Iterator<Item = u32>) {
        self.index.warm(hashes);
    }
}

/// Whether a timer is still the one its key waits for.
fn timer_counts<K, R: Default>(slab: &Slab<K, R>, timer: Timer) -> bool {
    slab.get(timer.slot).is_some_and(|entry| entry.is(DELAYED) && entry.due == timer.due)
}

impl<K, R> fmt::Debug for Core<K, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { depth, in_flight, closed, paused, .. } = self;
        write!(f, "Core {{ depth: {depth}, in_flight: {in_flight}, closed: {closed}, paused: {paused} }}")
    }
}
