//! The entries of all keys in the queue, addressed by slot number.
//!
//! A key stays in one slot from the moment it is first added until nothing refers to it any more, so rings, timers and
//! items in flight refer to it by its slot.

use super::entry::KeyRecord;

/// The number of a slot; stable while its key is known.
pub(crate) type Slot = u32;

/// Ends the chain of free slots. Four billion keys do not fit in memory, so no slot ever has this number.
const NONE: Slot = Slot::MAX;

/// The capacity that is always kept. (Unit tests have few keys and cover both sides of it.)
const KEPT: usize = if cfg!(test) { 4 } else { 8192 };

/// So many entries are in the cache anyway.
const WARM: usize = 8192;

/// The store of entries with its free list.
#[derive(Debug)]
pub(crate) struct Slab<K, R> {
    entries: Vec<KeyRecord<K, R>>,
    /// Head of the chain of free slots, linked through `place`. Last in, first out: it is in the cache.
    free: Slot,
    live: usize,
}

impl<K, R: Default> Slab<K, R> {
    pub(crate) fn new() -> Self {
        Self { entries: Vec::new(), free: NONE, live: 0 }
    }

    /// The number of keys that are stored.
    #[inline]
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    /// Returns the record of a slot, if it is still in use.
    #[inline]
    pub(crate) fn get(&self, slot: Slot) -> Option<&KeyRecord<K, R>> {
        self.entries.get(slot as usize)
    }

    #[inline]
    #[expect(clippy::expect_used, reason = "slot numbers come from insert() and never leave the crate")]
    pub(crate) fn at(&self, slot: Slot) -> &KeyRecord<K, R> {
        self.entries.get(slot as usize).expect("slot of this slab")
    }

    #[inline]
    #[expect(clippy::expect_used, reason = "slot numbers come from insert() and never leave the crate")]
    pub(crate) fn at_mut(&mut self, slot: Slot) -> &mut KeyRecord<K, R> {
        self.entries.get_mut(slot as usize).expect("slot of this slab")
    }

    /// Stores a key in a free slot, whose entry is returned: nothing of it is set but the key.
    #[inline]
    pub(crate) fn insert(&mut self, hash: u32, key: K) -> (Slot, &mut KeyRecord<K, R>) {
        self.live += 1;
        let mut slot = self.free;
        if slot == NONE {
            slot = self.grow();
        }
        #[expect(clippy::expect_used, reason = "grow() has just made it, or remove() has freed it")]
        let entry = self.entries.get_mut(slot as usize).expect("slot of this slab");
        self.free = entry.place;
        (entry.hash, entry.key) = (hash, Some(key));
        (slot, entry)
    }

    #[cold]
    fn grow(&mut self) -> Slot {
        self.entries.push(KeyRecord::free(NONE));
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

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Called when the last key was removed: releases the memory of a once large queue if it was not needed since the
    /// last call, and returns true if it did. (A queue that fills up repeatedly would otherwise allocate again each
    /// time.)
    pub(crate) fn shrink(&mut self) -> bool {
        let shrinks = self.entries.capacity() > KEPT.max(4 * self.entries.len());
        if shrinks {
            self.entries = Vec::new();
        } else if self.entries.len() > KEPT {
            self.entries.clear();
        }
        if self.entries.is_empty() {
            self.free = NONE;
        }
        shrinks
    }

    /// Brings these entries into the cache. The reads do not depend on each other, so the processor overlaps their misses.
    #[inline]
    pub(crate) fn warm(&self, slots: impl Iterator<Item = Slot>) {
        if self.entries.len() > WARM {
            let touched = slots.filter_map(|slot| self.get(slot)).fold(0, |sum, entry| sum ^ entry.hash);
            std::hint::black_box(touched);
        }
    }

    /// All slots in use, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Slot, &KeyRecord<K, R>)> {
        (0..).zip(&self.entries).filter(|(_, entry)| entry.key.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue that fills up again and again must not pay for new memory each time; one that was large once must not keep it
    /// for ever.
    #[test]
    fn memory_is_kept_over_one_emptying_and_given_back_at_the_next() {
        let mut slab: Slab<u32, ()> = Slab::new();
        let mut fill_and_empty = |keys: u32| {
            let slots: Vec<_> = (0..keys).map(|key| slab.insert(key, key).0).collect();
            slots.into_iter().for_each(|slot| slab.remove(slot));
            (slab.shrink(), slab.entries.capacity())
        };
        let large = 10 * KEPT as u32;
        let (shrunk, capacity) = fill_and_empty(large);
        assert!(!shrunk && capacity >= large as usize);
        assert_eq!(fill_and_empty(large), (false, capacity), "nothing new was needed");
        assert_eq!(fill_and_empty(1), (true, 0));
        assert!(!fill_and_empty(100).0);
    }
}
