//! The queue as a pure state machine: no locks, no clock, no waiting.
//!
//! Every call gets the time as nanoseconds since some fixed start. The concurrent queue ([`crate::Queue`]) wraps this in a
//! lock; simulations and the model tests use it bare.
//!
//! A key is *dirty* when it needs processing, *processing* while a consumer has it, *delayed* while an occurrence of it
//! waits for its time. Dirty and not processing means *ready*: it is in [`Ready`]. All rules follow from these four
//! states: adding a dirty key changes nothing; a key that is processing is never handed out again; one that becomes
//! dirty while processing becomes ready when it is done; a key that is neither dirty, processing nor delayed is
//! removed.
//!
//! Read on in [`entry`] and [`slab`] (storage), [`index`] (lookup), [`ready`] and [`ring`] (order), [`tenants`] (fairness),
//! [`delays`] and [`wheel`] (delays).
//!
//! **Cost.** At a million keys nothing is in the processor's caches any more, so the cost is the number of cache lines that a
//! key touches: one of the index when it is added, its entry, and the one of the index again when it is removed. Entries and
//! rings are used in order, which the processor prefetches. The random accesses are done several at a time (`warm`), so that
//! they overlap. In small queues the cost is the number of instructions, a few hundred from the add to done: therefore the steps
//! of an add, a hand-out and a done are each inlined into one function (`inline(always)`), and rare paths are kept out of it
//! (`cold`).

mod delays;
pub(crate) mod entry;
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

use self::delays::Delays;
use self::entry::{DELAYED, DIRTY, KeyRecord, LEAVING, PROCESSING};
use self::index::KeyIndex;
use self::meter::QueueMeter;
use self::ready::Ready;
use self::slab::{Slab, Slot};
use self::tenants::Tenants;
use crate::error::AddError;
use crate::pace::Stamp;
use crate::priority::Priority;
use crate::reason::Reason;

/// The most unused keys that may wait to be removed.
const LEAVING_MAX: usize = 32;

/// The number of ready keys that are read ahead at a time.
const READ_AHEAD: u32 = 16;

/// Finds a key's tenant; see [`crate::Options::fair`].
pub(crate) type TenantOf<K> = Box<dyn Fn(&K) -> u64 + Send>;

/// The settings the state machine needs.
pub(crate) struct CoreSettings<K> {
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
    /// The time at which it happened.
    pub(crate) at: Stamp,
}

/// A key on its way to a consumer.
#[derive(Debug)]
pub(crate) struct TakenKey<K, R> {
    pub(crate) slot: Slot,
    pub(crate) key: K,
    pub(crate) reason: R,
    pub(crate) priority: Priority,
}

/// The state machine.
pub(crate) struct QueueCore<K, R> {
    slab: Slab<K, R>,
    index: KeyIndex,
    ready: Ready,
    delays: Delays,
    meter: Option<Box<QueueMeter>>,
    tenant_of: Option<TenantOf<K>>,
    capacity: usize,
    /// Unused keys of a large queue that are still stored. They are removed several at a time, which lets the memory accesses
    /// overlap.
    leaving: Vec<Slot>,
    /// The number of keys that are dirty.
    depth: usize,
    /// The number of keys that are processing.
    in_flight: usize,
    closed: bool,
    paused: bool,
}

impl<K: Eq + Clone, R: Reason> QueueCore<K, R> {
    /// An empty queue. It allocates nothing until the first key.
    pub(crate) fn new(settings: CoreSettings<K>) -> Self {
        let fair = settings.tenant_of.is_some().then(|| Tenants::new(settings.tenant_in_flight_max));
        Self {
            slab: Slab::new(),
            index: KeyIndex::new(),
            ready: Ready::new(fair, settings.background_every),
            delays: Delays::new(),
            meter: settings.metered.then(|| Box::new(QueueMeter::new())),
            tenant_of: settings.tenant_of,
            capacity: settings.capacity,
            leaving: Vec::new(),
            depth: 0,
            in_flight: 0,
            closed: false,
            paused: false,
        }
    }

    /// Makes a key dirty.
    #[inline(always)]
    pub(crate) fn add(&mut self, add: Add<K, R>) -> Result<(), AddError<K>> {
        if self.closed {
            return Err(AddError::ShutDown(add.key));
        }
        if let Some(slot) = self.find(add.hash, &add.key) {
            self.mark_dirty(slot, add.reason, add.priority, add.at);
            return Ok(());
        }
        if !self.has_room() {
            return Err(AddError::Full(add.key));
        }
        self.add_new(add);
        Ok(())
    }

    /// Makes a key dirty that is not stored yet.
    #[inline(always)]
    fn add_new(&mut self, add: Add<K, R>) {
        let (slot, entry) = store(&mut self.slab, &mut self.index, add.hash, add.key);
        entry.reason = add.reason;
        entry.set_priority(add.priority);
        self.become_dirty(slot, add.at);
        self.push_ready(slot, add.priority);
    }

    /// Counts a retry that needed no delay.
    pub(crate) fn note_retry(&mut self) {
        if let Some(meter) = &mut self.meter {
            meter.retried();
        }
    }

    /// Hands out the next key. In queues with metrics, `now` is called for the time; its argument is true if the add was
    /// timed.
    #[inline]
    pub(crate) fn take(&mut self, now: impl FnOnce(bool) -> Stamp) -> Option<TakenKey<K, R>> {
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
        let (reason, priority) = (std::mem::take(&mut entry.reason), entry.priority());
        let key = entry.key.clone()?;
        self.depth -= 1;
        self.in_flight += 1;
        if let Some(meter) = &mut self.meter {
            meter.taken(slot, now);
        }
        Some(TakenKey { slot, key, reason, priority })
    }

    /// Takes back a key that was handed out. `now` is as with [`Self::take`].
    #[inline(always)]
    pub(crate) fn done(&mut self, slot: Slot, now: impl FnOnce(bool) -> Stamp) {
        if let Some(meter) = &mut self.meter {
            meter.done(slot, now);
        }
        self.in_flight -= 1;
        let entry = self.slab.at_mut(slot);
        entry.clear(PROCESSING);
        self.ready.finished(slot);
        if !entry.is(DIRTY) {
            return self.forget_if_unused(slot);
        }
        let priority = entry.priority();
        self.push_ready(slot, priority);
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
        self.delays = Delays::new();
        delayed.len()
    }

    /// Stops or resumes handing out keys. A closed queue cannot be paused: it must drain.
    pub(crate) fn set_paused(&mut self, paused: bool) {
        self.paused = paused && !self.closed;
    }

    /// Compares the key itself, since hashes are halves.
    #[inline(always)]
    fn find(&self, hash: u32, key: &K) -> Option<Slot> {
        self.index.find(hash, |slot| self.slab.at(slot).key.as_ref() == Some(key))
    }

    /// A key that is dirty already stays where it is, with the reasons merged and the higher priority.
    #[inline]
    fn mark_dirty(&mut self, slot: Slot, reason: R, priority: Priority, at: Stamp) {
        let entry = self.slab.at_mut(slot);
        if entry.is(DIRTY) {
            entry.reason.merge(reason);
            if priority < entry.priority() {
                self.raise(slot, priority);
            }
            return;
        }
        entry.reason = reason;
        entry.set_priority(priority);
        let waits = entry.is(PROCESSING);
        self.become_dirty(slot, at);
        if !waits {
            self.push_ready(slot, priority);
        }
    }

    /// Counts the key as waiting, once until it is taken.
    #[inline]
    fn become_dirty(&mut self, slot: Slot, at: Stamp) {
        self.slab.at_mut(slot).set(DIRTY);
        self.depth += 1;
        if let Some(meter) = &mut self.meter {
            meter.added(slot, at);
        }
    }

    /// Moves a waiting key to a higher priority. One that is processed waits until it is done.
    fn raise(&mut self, slot: Slot, priority: Priority) {
        let waits = self.slab.at(slot).is(PROCESSING);
        if !waits {
            self.ready.remove(&mut self.slab, slot);
        }
        self.slab.at_mut(slot).set_priority(priority);
        if !waits {
            self.push_ready(slot, priority);
        }
    }

    /// Queues a key, in order or by tenants.
    #[inline(always)]
    fn push_ready(&mut self, slot: Slot, priority: Priority) {
        self.slab.at_mut(slot).place = match self.tenant_of {
            None => self.ready.push(priority, slot),
            Some(_) => self.push_fair(slot, priority),
        };
    }

    /// Asks the user's function for the tenant of the key, under the lock: it must be quick.
    #[cold]
    fn push_fair(&mut self, slot: Slot, priority: Priority) -> u32 {
        let tenant = self.tenant_of.as_ref().zip(self.slab.at(slot).key.as_ref()).map(|(of, key)| of(key));
        self.ready.push_fair(priority, slot, tenant.unwrap_or(0))
    }

    /// Removes a key that is neither waiting, processed nor delayed.
    #[inline(always)]
    fn forget_if_unused(&mut self, slot: Slot) {
        let entry = self.slab.at_mut(slot);
        if entry.in_use() || entry.is(LEAVING) {
            return;
        }
        if !self.index.is_large() {
            return self.forget(slot);
        }
        entry.set(LEAVING);
        self.leaving.push(slot);
        // In a bounded queue a stored key takes room, in an idle one it would stay for long.
        if self.leaving.len() >= LEAVING_MAX || self.is_idle() || self.capacity != usize::MAX {
            self.sweep();
        }
    }

    /// Removes a key from the table and frees its slot.
    #[inline(always)]
    fn forget(&mut self, slot: Slot) {
        self.index.remove(self.slab.at(slot).hash, slot);
        self.slab.remove(slot);
        if self.slab.is_empty() {
            self.give_back_memory();
        }
    }

    /// Removes unused keys, unless they were added again.
    fn sweep(&mut self) {
        self.index.warm(self.leaving.iter().map(|slot| self.slab.at(*slot).hash));
        while let Some(slot) = self.leaving.pop() {
            let entry = self.slab.at_mut(slot);
            entry.clear(LEAVING);
            if !entry.in_use() {
                self.forget(slot);
            }
        }
    }

    /// An empty queue after a burst keeps little more than it began with.
    #[cold]
    fn give_back_memory(&mut self) {
        if !self.slab.shrink() {
            return;
        }
        self.index.shrink();
        self.ready.shrink();
        if let Some(meter) = &mut self.meter {
            meter.shrink();
        }
    }

    /// Announces adds with these hashes, so that their cache lines are fetched early.
    pub(crate) fn expect(&self, hashes: impl Iterator<Item = u32> + Clone) {
        self.index.warm(hashes);
    }
}

/// Stores a key that is not stored yet.
#[inline(always)]
fn store<'s, K, R: Default>(
    slab: &'s mut Slab<K, R>,
    index: &mut KeyIndex,
    hash: u32,
    key: K,
) -> (Slot, &'s mut KeyRecord<K, R>) {
    if index.is_full() {
        index.grow(slab.iter().map(|(slot, entry)| (entry.hash, slot)));
    }
    let (slot, entry) = slab.insert(hash, key);
    index.insert(hash, slot);
    (slot, entry)
}

impl<K, R> fmt::Debug for QueueCore<K, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { depth, in_flight, closed, paused, .. } = self;
        write!(f, "Core {{ depth: {depth}, in_flight: {in_flight}, closed: {closed}, paused: {paused} }}")
    }
}
