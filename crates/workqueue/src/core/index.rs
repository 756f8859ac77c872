//! Finds a key's slot by the key's hash.
//!
//! A hash table whose buckets are cache lines of seven cells, each holding the hash (half of it, 32 bits) and the slot number. So
//! finding, inserting and removing touch one line as a rule, and look at all its cells at once, without branches that the
//! processor would guess wrong; growing and removing need neither the keys nor the slab. A cell whose bucket is full goes to the next
//! bucket, and the buckets it passed count it: a search goes on only where that count is not zero, and a removal takes it back. There
//! are no tombstones, so a queue through which millions of keys pass is as fast as a new one.

use super::slab::Slot;

const CELLS: usize = 7;

/// At most four keys per bucket on the average: then one in fifty does not fit its own.
const LOAD_MAX: usize = 4;

/// A table this small is kept when the queue runs empty, a larger one is given back.
const KEPT_BUCKETS: usize = 1024;

/// A table up to this size is in the cache anyway.
const WARM_BUCKETS: usize = 2048;

#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(64))]
struct Bucket {
    hashes: [u32; CELLS],
    slots: [Slot; CELLS],
    /// How many cells that belong here or before here stand further on.
    passed: u32,
    /// One bit per cell that is taken.
    taken: u8,
}

/// The cells that hold `value`, as bits.
#[inline]
fn equal(cells: &[u32; CELLS], value: u32) -> u8 {
    cells.iter().rev().fold(0, |bits, cell| bits << 1 | u8::from(*cell == value))
}

impl Bucket {
    #[inline]
    fn slot(&self, cell: u32) -> Slot {
        self.slots.get(cell as usize).copied().unwrap_or(Slot::MAX)
    }

    /// Puts a slot into a free cell, if there is one.
    #[inline]
    fn put(&mut self, hash: u32, slot: Slot) -> bool {
        let cell = self.taken.trailing_ones() as usize;
        let (Some(hash_cell), Some(slot_cell)) = (self.hashes.get_mut(cell), self.slots.get_mut(cell)) else {
            return false;
        };
        (*hash_cell, *slot_cell) = (hash, slot);
        self.taken |= 1 << cell;
        true
    }
}

#[derive(Debug)]
pub(crate) struct Index {
    /// A power of two.
    buckets: Vec<Bucket>,
    len: usize,
}

impl Index {
    pub(crate) fn new() -> Self {
        Self { buckets: vec![Bucket::default(); 2], len: 0 }
    }

    /// The slot for which `is_key` holds, among those with this hash.
    #[inline]
    pub(crate) fn find(&self, hash: u32, is_key: impl Fn(Slot) -> bool) -> Option<Slot> {
        let mut at = self.home(hash);
        loop {
            let bucket = self.buckets.get(at)?;
            let mut same = equal(&bucket.hashes, hash) & bucket.taken;
            while same != 0 {
                let slot = bucket.slot(same.trailing_zeros());
                if is_key(slot) {
                    return Some(slot);
                }
                same &= same - 1;
            }
            if bucket.passed == 0 {
                return None;
            }
            at = self.after(at);
        }
    }

    /// Brings the buckets for these hashes into the cache. The reads do not depend on each other, so the processor overlaps
    /// their misses, which it cannot do while each is followed by work on its result.
    #[inline]
    pub(crate) fn warm(&self, hashes: impl Iterator<Item = u32>) {
        if self.buckets.len() > WARM_BUCKETS {
            let buckets = hashes.filter_map(|hash| self.buckets.get(self.home(hash)));
            std::hint::black_box(buckets.fold(0, |sum, bucket| sum ^ bucket.taken));
        }
    }

    /// Puts in a slot that is not in the table.
    #[inline]
    pub(crate) fn insert(&mut self, hash: u32, slot: Slot) {
        if self.len >= self.buckets.len() * LOAD_MAX {
            self.grow();
        }
        self.len += 1;
        self.place(hash, slot);
    }

    #[inline]
    fn place(&mut self, hash: u32, slot: Slot) {
        let mut at = self.home(hash);
        while let Some(bucket) = self.buckets.get_mut(at) {
            if bucket.put(hash, slot) {
                return;
            }
            bucket.passed += 1;
            at = self.after(at);
        }
    }

    /// Takes out a slot that is in the table.
    #[inline]
    pub(crate) fn remove(&mut self, hash: u32, slot: Slot) {
        let mut at = self.home(hash);
        while let Some(bucket) = self.buckets.get_mut(at) {
            let found = equal(&bucket.slots, slot) & bucket.taken;
            bucket.taken &= !found;
            if found != 0 {
                break;
            }
            bucket.passed -= 1;
            at = self.after(at);
        }
        self.len -= 1;
        if self.len == 0 && self.buckets.len() > KEPT_BUCKETS {
            *self = Self::new();
        }
    }

    #[cold]
    fn grow(&mut self) {
        let larger = vec![Bucket::default(); self.buckets.len() * 2];
        for bucket in std::mem::replace(&mut self.buckets, larger) {
            let cells = bucket.hashes.into_iter().zip(bucket.slots);
            for (_, (hash, slot)) in (0..).zip(cells).filter(|(cell, _)| bucket.taken >> cell & 1 == 1) {
                self.place(hash, slot);
            }
        }
    }

    #[inline]
    fn home(&self, hash: u32) -> usize {
        hash as usize & (self.buckets.len() - 1)
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.buckets.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys with one hash fill several buckets in a row; removing them in any order must leave the others to be found.
    #[test]
    fn cells_that_overflow_are_found_and_leave_no_trace() {
        let mut index = Index::new();
        let hash = |slot: Slot| if slot < 30 { 1 } else { slot };
        (0..200).for_each(|slot| index.insert(hash(slot), slot));
        for gone in (0..200).map(|n| n * 77 % 200) {
            assert_eq!(index.find(hash(gone), |slot| slot == gone), Some(gone));
            index.remove(hash(gone), gone);
            assert_eq!(index.find(hash(gone), |slot| slot == gone), None);
        }
        assert_eq!(index.len, 0);
        assert!(index.buckets.iter().all(|bucket| bucket.passed == 0 && bucket.taken == 0));
    }
}
