//! The entries of all keys the queue knows, addressed by small numbers.
//!
//! A key lives in exactly one slot from the moment it is first added until nothing refers to it any more, so that every
//! list (ready, in flight, each bucket of the timer wheel) is a chain of slot numbers inside the entries and moving a key
//! between lists allocates nothing. What the fields *mean* is decided in [`super`]; this file only stores and links.

use crate::priority::Priority;

/// The number of a slot; stable while its key is known.
pub(crate) type Slot = u32;

/// Marks the end of a chain. Four billion keys do not fit in memory, so no slot ever has this number.
const NONE: Slot = Slot::MAX;

/// Entries are kept in pieces of this many, so that growing never copies them and a large queue wastes at most one piece.
const CHUNK_BITS: u32 = 12;
const CHUNK: usize = 1 << CHUNK_BITS;

/// Everything the queue remembers about one key.
#[derive(Debug)]
pub(crate) struct Entry<K, R> {
    /// `None` only while the slot is free.
    pub(crate) key: Option<K>,
    /// Kept so that growing the index and removing a key never hash it again.
    pub(crate) hash: u64,
    /// When the delayed occurrence falls due, in ticks of the wheel. Meaningful while `delayed`.
    pub(crate) due: u64,
    /// When the key became dirty, in nanoseconds. Meaningful while `dirty`.
    pub(crate) queued_at: u64,
    /// When the key was handed out, in nanoseconds. Meaningful while `processing`.
    pub(crate) started_at: u64,
    order: Link,
    timer: Link,
    /// The tenant that the key was last queued for; used only by fair queues.
    pub(crate) tenant: u32,
    /// The bucket of the wheel that holds the delayed occurrence.
    pub(crate) bucket: u16,
    pub(crate) priority: Priority,
    pub(crate) delayed_priority: Priority,
    /// Needs processing.
    pub(crate) dirty: bool,
    /// Handed out and not yet done.
    pub(crate) processing: bool,
    /// Has an occurrence in the timer wheel.
    pub(crate) delayed: bool,
    /// Was unused when last looked at, and is in the list of those to be forgotten.
    pub(crate) leaving: bool,
    pub(crate) reason: R,
    pub(crate) delayed_reason: R,
}

#[derive(Debug, Clone, Copy)]
struct Link {
    next: Slot,
    prev: Slot,
}

const UNLINKED: Link = Link { next: NONE, prev: NONE };

/// Which of an entry's two links a list runs through. A key can be delayed and queued at once, hence two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chain {
    /// Ready keys, or the keys in flight: a key is never in both.
    Order,
    /// One bucket of the timer wheel.
    Timer,
}

impl<K, R> Entry<K, R> {
    /// Whether anything refers to the key.
    #[inline]
    pub(crate) fn in_use(&self) -> bool {
        self.dirty || self.processing || self.delayed
    }

    #[inline]
    fn link(&mut self, chain: Chain) -> &mut Link {
        match chain {
            Chain::Order => &mut self.order,
            Chain::Timer => &mut self.timer,
        }
    }
}

/// The store of entries with its free list.
#[derive(Debug)]
pub(crate) struct Slab<K, R> {
    chunks: Vec<Vec<Entry<K, R>>>,
    /// Head of the chain of free slots, linked through `order.next`.
    free: Slot,
    used: usize,
    live: usize,
}

impl<K, R: Default> Slab<K, R> {
    pub(crate) fn new() -> Self {
        Self { chunks: Vec::new(), free: NONE, used: 0, live: 0 }
    }

    /// How many keys are stored.
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    #[inline]
    #[expect(clippy::expect_used, reason = "slot numbers come from insert() and never leave the crate")]
    pub(crate) fn at(&self, slot: Slot) -> &Entry<K, R> {
        let chunk = self.chunks.get(slot as usize >> CHUNK_BITS).expect("slot of this slab");
        chunk.get(slot as usize & (CHUNK - 1)).expect("slot of this slab")
    }

    #[inline]
    #[expect(clippy::expect_used, reason = "slot numbers come from insert() and never leave the crate")]
    pub(crate) fn at_mut(&mut self, slot: Slot) -> &mut Entry<K, R> {
        let chunk = self.chunks.get_mut(slot as usize >> CHUNK_BITS).expect("slot of this slab");
        chunk.get_mut(slot as usize & (CHUNK - 1)).expect("slot of this slab")
    }

    /// Stores a key in a free slot.
    pub(crate) fn insert(&mut self, hash: u64, key: K) -> Slot {
        self.live += 1;
        if self.free == NONE {
            return self.grow(Entry::new(hash, key));
        }
        let slot = self.free;
        let entry = self.at_mut(slot);
        let next = entry.order.next;
        entry.order = UNLINKED;
        entry.hash = hash;
        entry.key = Some(key);
        self.free = next;
        slot
    }

    fn grow(&mut self, entry: Entry<K, R>) -> Slot {
        let slot = self.used as Slot;
        match self.chunks.last_mut() {
            Some(chunk) if chunk.len() < CHUNK => chunk.push(entry),
            // The first piece grows with the queue, so that a small queue stays small; the others are full-sized.
            last => {
                let first = last.is_none();
                let mut chunk = if first { Vec::new() } else { Vec::with_capacity(CHUNK) };
                chunk.push(entry);
                self.chunks.push(chunk);
            }
        }
        self.used += 1;
        slot
    }

    /// Frees the slot. When the last key goes, the memory of a once large queue goes with it.
    pub(crate) fn remove(&mut self, slot: Slot) {
        let free = self.free;
        let entry = self.at_mut(slot);
        entry.key = None;
        entry.order.next = free;
        self.free = slot;
        self.live -= 1;
        if self.live == 0 && self.chunks.len() > 1 {
            *self = Self::new();
        }
    }

    /// All slots in use, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Slot, &Entry<K, R>)> {
        let entries = self.chunks.iter().flatten().enumerate();
        entries.filter(|(_, entry)| entry.key.is_some()).map(|(slot, entry)| (slot as Slot, entry))
    }
}

impl<K, R: Default> Entry<K, R> {
    fn new(hash: u64, key: K) -> Self {
        Self {
            key: Some(key),
            hash,
            due: 0,
            queued_at: 0,
            started_at: 0,
            order: UNLINKED,
            timer: UNLINKED,
            tenant: 0,
            bucket: 0,
            priority: Priority::Normal,
            delayed_priority: Priority::Normal,
            dirty: false,
            processing: false,
            delayed: false,
            leaving: false,
            reason: R::default(),
            delayed_reason: R::default(),
        }
    }
}

/// A doubly linked list of slots. The links are in the entries, so each call needs the slab.
#[derive(Debug, Clone, Copy)]
pub(crate) struct List {
    head: Slot,
    tail: Slot,
}

impl List {
    pub(crate) const fn new() -> Self {
        Self { head: NONE, tail: NONE }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head == NONE
    }

    #[inline]
    pub(crate) fn front(&self) -> Option<Slot> {
        (self.head != NONE).then_some(self.head)
    }

    #[inline]
    pub(crate) fn push_back<K, R: Default>(&mut self, slab: &mut Slab<K, R>, chain: Chain, slot: Slot) {
        *slab.at_mut(slot).link(chain) = Link { next: NONE, prev: self.tail };
        match self.tail {
            NONE => self.head = slot,
            tail => slab.at_mut(tail).link(chain).next = slot,
        }
        self.tail = slot;
    }

    #[inline]
    pub(crate) fn pop_front<K, R: Default>(&mut self, slab: &mut Slab<K, R>, chain: Chain) -> Option<Slot> {
        let slot = self.front()?;
        self.head = slab.at_mut(slot).link(chain).next;
        if self.head == NONE {
            self.tail = NONE;
        }
        Some(slot)
    }

    /// Takes `slot`, which must be in this list, out of it.
    #[inline]
    pub(crate) fn unlink<K, R: Default>(&mut self, slab: &mut Slab<K, R>, chain: Chain, slot: Slot) {
        // The first one's `prev` is stale (`pop_front` does not touch the next entry for it), hence no look at it.
        let Link { next, prev } = *slab.at_mut(slot).link(chain);
        match slot == self.head {
            true => self.head = next,
            false => slab.at_mut(prev).link(chain).next = next,
        }
        match slot == self.tail {
            true => self.tail = if self.head == NONE { NONE } else { prev },
            false => slab.at_mut(next).link(chain).prev = prev,
        }
    }
}
