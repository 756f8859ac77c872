//! The entries of all keys the queue knows, addressed by small numbers.
//!
//! A key lives in exactly one slot from the moment it is first added until nothing refers to it any more, so rings, timers
//! and items in flight name it by its slot. What the fields *mean* is decided in [`super`]; this file only stores.
//!
//! An entry is what every queue needs of a key and no more (40 bytes with an eight-byte or `Arc<str>` key): at a million
//! keys each cache line less per entry is a tenth of the cost. Times for metrics are kept by [`super::meter`].

use crate::priority::Priority;

/// The number of a slot; stable while its key is known.
pub(crate) type Slot = u32;

/// Ends the chain of free slots. Four billion keys do not fit in memory, so no slot ever has this number.
const NONE: Slot = Slot::MAX;

/// Room for so many keys is kept when the queue runs empty, more is given back.
const KEPT: usize = 8192;

/// So many entries are in the cache anyway.
const WARM: usize = 8192;

/// Needs processing.
pub(crate) const DIRTY: u8 = 1;
/// Handed out and not yet done.
pub(crate) const PROCESSING: u8 = 2;
/// Has an occurrence in the timer wheel.
pub(crate) const DELAYED: u8 = 4;
/// Was unused when last looked at, and is in the list of those to be forgotten.
pub(crate) const LEAVING: u8 = 8;

/// Everything the queue remembers about one key.
#[derive(Debug)]
pub(crate) struct Entry<K, R> {
    /// `None` only while the slot is free.
    pub(crate) key: Option<K>,
    /// When the delayed occurrence falls due, in ticks of the wheel. Meaningful while `DELAYED`.
    pub(crate) due: u64,
    /// Kept so that removing a key does not hash it again.
    pub(crate) hash: u32,
    /// The place in its ring while ready; the next free slot while free.
    pub(crate) place: u32,
    /// The tenant that the key was last queued for; used only by fair queues.
    pub(crate) tenant: u32,
    flags: u8,
    pub(crate) priority: Priority,
    pub(crate) delayed_priority: Priority,
    pub(crate) reason: R,
    pub(crate) delayed_reason: R,
}

impl<K, R> Entry<K, R> {
    #[inline]
    pub(crate) fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    #[inline]
    pub(crate) fn set(&mut self, flag: u8) {
        self.flags |= flag;
    }

    #[inline]
    pub(crate) fn clear(&mut self, flag: u8) {
        self.flags &= !flag;
    }

    /// Whether anything refers to the key.
    #[inline]
    pub(crate) fn in_use(&self) -> bool {
        self.is(DIRTY | PROCESSING | DELAYED)
    }
}

/// The store of entries with its free list.
#[derive(Debug)]
pub(crate) struct Slab<K, R> {
    entries: Vec<Entry<K, R>>,
    /// Head of the chain of free slots, linked through `place`. Last in, first out: it is in the cache.
    free: Slot,
    live: usize,
}

impl<K, R: Default> Slab<K, R> {
    pub(crate) fn new() -> Self {
        Self { entries: Vec::new(), free: NONE, live: 0 }
    }

    /// How many keys are stored.
    #[inline]
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    /// A slot that may be free or gone by now.
    #[inline]
    pub(crate) fn get(&self, slot: Slot) -> Option<&Entry<K, R>> {
        self.entries.get(slot as usize)
    }

    #[inline]
    #[expect(clippy::expect_used, reason = "slot numbers come from insert() and never leave the crate")]
    pub(crate) fn at(&self, slot: Slot) -> &Entry<K, R> {
        self.entries.get(slot as usize).expect("slot of this slab")
    }

    #[inline]
    #[expect(clippy::expect_used, reason = "slot numbers come from insert() and never leave the crate")]
    pub(crate) fn at_mut(&mut self, slot: Slot) -> &mut Entry<K, R> {
        self.entries.get_mut(slot as usize).expect("slot of this slab")
    }

    /// Stores a key in a free slot.
    #[inline]
    pub(crate) fn insert(&mut self, hash: u32, key: K) -> Slot {
        self.live += 1;
        let slot = self.free;
        let Some(entry) = self.entries.get_mut(slot as usize) else {
            return self.grow(Entry::new(hash, key));
        };
        self.free = entry.place;
        entry.hash = hash;
        entry.key = Some(key);
        slot
    }

    fn grow(&mut self, entry: Entry<K, R>) -> Slot {
        self.entries.push(entry);
        (self.entries.len() - 1) as Slot
    }

    /// Frees the slot.
    #[inline]
    pub(crate) fn remove(&mut self, slot: Slot) {
        let free = self.free;
        let entry = self.at_mut(slot);
        entry.key = None;
        entry.place = free;
        self.free = slot;
        self.live -= 1;
    }

    /// Gives back the memory of a once large queue when its last key has gone. Says whether it did.
    pub(crate) fn shrink(&mut self) -> bool {
        let shrinks = self.live == 0 && self.entries.len() > KEPT;
        if shrinks {
            *self = Self::new();
        }
        shrinks
    }

    /// Brings these entries into the cache. The reads do not depend on each other, so the processor overlaps their misses.
    #[inline]
    pub(crate) fn warm(&self, slots: impl Iterator<Item = Slot>) {
        if self.entries.len() > WARM {
            let touched = slots.filter_map(|slot| self.get(slot)).fold(0, |sum, entry| sum ^ entry.flags);
            std::hint::black_box(touched);
        }
    }

    /// All slots in use, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Slot, &Entry<K, R>)> {
        (0..).zip(&self.entries).filter(|(_, entry)| entry.key.is_some())
    }
}

impl<K, R: Default> Entry<K, R> {
    fn new(hash: u32, key: K) -> Self {
        Self {
            key: Some(key),
            due: 0,
            hash,
            place: 0,
            tenant: 0,
            flags: 0,
            priority: Priority::Normal,
            delayed_priority: Priority::Normal,
            reason: R::default(),
            delayed_reason: R::default(),
        }
    }
}
