//! Finds a key's slot by the key's hash.
//!
//! An open-addressing table with linear probing whose cells hold half the hash and the slot number, eight bytes. So
//! finding, inserting and removing touch one cache line as a rule; growing and removing need neither the keys nor the
//! slab; and removal shifts the following cells back instead of leaving tombstones, so that a queue through which millions of
//! keys pass is as fast as a new one.

use super::slab::Slot;

/// A free cell. Its slot number is one that no slab ever gives out.
const FREE: Cell = Cell { hash: 0, slot: Slot::MAX };

/// A table this small is kept when the queue runs empty, a larger one is given back.
const KEPT_CELLS: usize = 8192;

/// A table up to this size is in the cache anyway.
const WARM_CELLS: usize = 16_384;

#[derive(Debug, Clone, Copy)]
struct Cell {
    hash: u32,
    slot: Slot,
}

#[derive(Debug)]
pub(crate) struct Index {
    /// A power of two, at most half full: runs stay so short that closing a gap rarely moves anything.
    cells: Vec<Cell>,
    len: usize,
}

impl Index {
    pub(crate) fn new() -> Self {
        Self { cells: vec![FREE; 16], len: 0 }
    }

    /// The slot for which `is_key` holds, among those with this hash; otherwise where it would be, for [`Self::insert`].
    #[inline]
    pub(crate) fn find(&self, hash: u64, is_key: impl Fn(Slot) -> bool) -> Result<Slot, usize> {
        let short = shorten(hash);
        let mut at = self.home(short);
        loop {
            let cell = self.cell(at);
            if cell.slot == FREE.slot {
                return Err(at);
            }
            if cell.hash == short && is_key(cell.slot) {
                return Ok(cell.slot);
            }
            at = self.after(at);
        }
    }

    /// Brings the cells for these hashes into the cache. The reads do not depend on each other, so the processor overlaps their
    /// misses, which it cannot do while each is followed by work on its result.
    #[inline]
    pub(crate) fn warm(&self, hashes: impl Iterator<Item = u64>) {
        if self.cells.len() > WARM_CELLS {
            let touched =
                hashes.map(|hash| self.cell(self.home(shorten(hash))).hash).fold(0, |sum, hash| sum ^ hash);
            std::hint::black_box(touched);
        }
    }

    /// Puts a slot where [`Self::find`] has just found a free cell.
    #[inline]
    pub(crate) fn insert(&mut self, vacant: usize, hash: u64, slot: Slot) {
        self.set(vacant, Cell { hash: shorten(hash), slot });
        self.len += 1;
        if self.len > self.cells.len() / 2 {
            self.resize(self.cells.len() * 2);
        }
    }

    /// Takes out a slot that is in the table.
    #[inline]
    pub(crate) fn remove(&mut self, hash: u64, slot: Slot) {
        let mut hole = self.home(shorten(hash));
        while self.cell(hole).slot != slot {
            hole = self.after(hole);
        }
        self.close_gap(hole);
        self.len -= 1;
        if self.len == 0 && self.cells.len() > KEPT_CELLS {
            *self = Self::new();
        }
    }

    /// Moves back each cell of the run behind `hole` that may stand further ahead, until the run is whole again.
    #[inline]
    fn close_gap(&mut self, mut hole: usize) {
        let mut at = self.after(hole);
        while self.cell(at).slot != FREE.slot {
            let cell = self.cell(at);
            let from_home = at.wrapping_sub(self.home(cell.hash)) & (self.cells.len() - 1);
            let from_hole = at.wrapping_sub(hole) & (self.cells.len() - 1);
            if from_home >= from_hole {
                self.set(hole, cell);
                hole = at;
            }
            at = self.after(at);
        }
        self.set(hole, FREE);
    }

    #[cold]
    fn resize(&mut self, size: usize) {
        let old = std::mem::replace(&mut self.cells, vec![FREE; size]);
        for cell in old.into_iter().filter(|cell| cell.slot != FREE.slot) {
            let mut at = self.home(cell.hash);
            while self.cell(at).slot != FREE.slot {
                at = self.after(at);
            }
            self.set(at, cell);
        }
    }

    #[inline]
    fn home(&self, hash: u32) -> usize {
        hash as usize & (self.cells.len() - 1)
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.cells.len() - 1)
    }

    #[inline]
    fn cell(&self, at: usize) -> Cell {
        // Positions are masked to the table's size, so this never falls back; the compiler cannot know.
        self.cells.get(at).copied().unwrap_or(FREE)
    }

    #[inline]
    fn set(&mut self, at: usize, cell: Cell) {
        if let Some(place) = self.cells.get_mut(at) {
            *place = cell;
        }
    }
}

/// The half of the hash that is kept.
#[inline]
fn shorten(hash: u64) -> u32 {
    hash as u32
}
