//! Finds a key's slot by the key's hash.
//!
//! A hash table whose buckets are cache lines, in two halves of six cells: a slot number each, and eight bits of the
//! hash, the *tag*. So finding, inserting and removing touch one line as a rule, and compare the tags of six cells at
//! once, as one word. The full hashes are in the slab, which growing reads from start to end.
//!
//! A key is in its own half if there is room, or else in the other, or else in a later line. Each half counts its keys
//! that have *strayed* from it, and each line the keys that have *passed* it: a search continues only where these are
//! not zero, and a removal decrements them. There are no tombstones, so a queue through which millions of keys pass is
//! as fast as a new one.

use super::slab::Slot;

/// Six slots of four bytes and their tags make half a cache line.
const CELLS: usize = 6;

/// At most six keys per line on the average: then at most one half in thirty overflows, and one line in a hundred.
const LOAD_MAX: usize = 6;

/// A table up to this size is in the cache anyway. (Unit tests have few keys and meet both sides of it.)
const CACHED_LINES: usize = if cfg!(test) { 1 } else { 2048 };

/// So many keys at a time are moved to a larger table.
const GROW_PORTION: usize = 32;

/// The tag of a free cell.
const FREE: u8 = 0;

/// One in each lane of a half's word that is a tag.
const ONES: u64 = 0x0101_0101_0101;
const LOW_BITS: u64 = 0x7f * ONES;
const HIGH_BITS: u64 = 0x80 * ONES;

/// Half a cache line: the unit that a key is looked for in first.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct Half {
    /// Six tags, lowest first; then, as lanes of the same word, the two counts.
    word: u64,
    slots: [Slot; CELLS],
}

/// A count in a lane of [`Half::word`]. It saturates at 255: searches then go further than necessary, but that needs as
/// many keys with one hash.
#[derive(Clone, Copy)]
#[repr(u32)]
enum LaneCount {
    /// Keys of this half that are stored elsewhere.
    Strayed = 48,
    /// In a line's first half: keys of this line or an earlier one that are stored in a later one.
    Passed = 56,
}

/// Some cells of a half: the high bits of their lanes.
#[derive(Clone, Copy)]
struct IndexCells(u64);

impl IndexCells {
    /// The lowest cell of the set.
    #[inline]
    fn first(self) -> Option<u32> {
        (self.0 != 0).then(|| self.0.trailing_zeros() / 8)
    }

    /// Clears the lowest set bit, which is one instruction.
    #[inline]
    fn without_first(self) -> Self {
        Self(self.0 & self.0.wrapping_sub(1))
    }
}

impl Half {
    /// The cells whose tag may be this one, all compared at once in one word.
    #[inline]
    fn tagged(&self, tag: u8) -> IndexCells {
        // A lane is zero where the tags agree. Adding 0x7f to its lower bits then leaves its high bit clear, otherwise
        // not; nothing is carried into the next lane.
        let differing = self.word ^ (u64::from(tag) * ONES);
        IndexCells(!(((differing & LOW_BITS) + LOW_BITS) | differing) & HIGH_BITS)
    }

    /// The first slot with this tag for which `wanted` holds, and its cell.
    #[inline]
    fn find(&self, tag: u8, wanted: impl Fn(Slot) -> bool) -> Option<(u32, Slot)> {
        let mut cells = self.tagged(tag);
        while let Some(cell) = cells.first() {
            let slot = self.slots.get(cell as usize).copied().unwrap_or(Slot::MAX);
            if wanted(slot) {
                return Some((cell, slot));
            }
            cells = cells.without_first();
        }
        None
    }

    /// Puts a slot into a free cell, if there is one.
    #[inline]
    fn put(&mut self, tag: u8, slot: Slot) -> bool {
        let Some(free) = self.tagged(FREE).first() else { return false };
        if let Some(cell) = self.slots.get_mut(free as usize) {
            *cell = slot;
        }
        self.flip(free, tag);
        true
    }

    /// Frees the cell that holds a slot, if it is here.
    #[inline]
    fn clear(&mut self, tag: u8, slot: Slot) -> bool {
        let Some((cell, _)) = self.find(tag, |other| other == slot) else { return false };
        self.flip(cell, tag);
        true
    }

    /// Sets the tag of a free cell, or frees a cell that has this tag.
    #[inline]
    fn flip(&mut self, cell: u32, tag: u8) {
        self.word ^= u64::from(tag) << (8 * cell);
    }

    /// A count that has reached 255 is not exact any more.
    #[inline]
    fn count(&self, count: LaneCount) -> u8 {
        (self.word >> count as u32) as u8
    }

    /// Counts saturate: a line that is passed 255 times keeps being searched through until the table is rebuilt.
    fn increase(&mut self, count: LaneCount) {
        if self.count(count) != u8::MAX {
            self.word += 1 << count as u32;
        }
    }

    /// The opposite of [`Self::increase`]. A saturated count stays, because it is not known by how much it is too
    /// small.
    fn decrease(&mut self, count: LaneCount) {
        if self.count(count) != u8::MAX {
            self.word -= 1 << count as u32;
        }
    }
}

/// Sixty-four bytes that the processor fetches together.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
struct IndexLine([Half; 2]);

impl IndexLine {
    /// Half number `hash`, by its lowest bit. (By index and not by a branch, which would be guessed wrong every other time.)
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "one bit, two halves")]
    fn half(&self, hash: u32) -> &Half {
        &self.0[(hash & 1) as usize]
    }

    /// The half of a hash, for writing.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "one bit, two halves")]
    fn half_mut(&mut self, hash: u32) -> &mut Half {
        &mut self.0[(hash & 1) as usize]
    }

    /// Looks in both halves.
    fn find(&self, hash: u32, is_key: impl Fn(Slot) -> bool) -> Option<Slot> {
        let found = self.half(hash).find(tag(hash), &is_key);
        found.or_else(|| self.half(!hash).find(tag(hash), &is_key)).map(|(_, slot)| slot)
    }

    /// Puts a slot into the half of its hash, or else into the other. False if both are full.
    fn put(&mut self, hash: u32, slot: Slot) -> bool {
        self.half_mut(hash).put(tag(hash), slot) || self.half_mut(!hash).put(tag(hash), slot)
    }

    /// Removes a slot from the half that has it.
    fn clear(&mut self, hash: u32, slot: Slot) -> bool {
        self.half_mut(hash).clear(tag(hash), slot) || self.half_mut(!hash).clear(tag(hash), slot)
    }

    /// The number of keys that went on to a later line because this one was full. A search may end where it is zero.
    #[inline]
    fn passed(&self) -> u8 {
        self.half(0).count(LaneCount::Passed)
    }
}

/// Finds the slot of a key by its hash. It holds no keys: the caller compares.
#[derive(Debug)]
pub(crate) struct KeyIndex {
    /// A power of two.
    lines: Vec<IndexLine>,
    len: usize,
}

impl KeyIndex {
    /// One line. It grows by doubling, when the keys are too many for their lines.
    pub(crate) fn new() -> Self {
        Self { lines: vec![IndexLine::default()], len: 0 }
    }

    /// The slot for which `is_key` holds, among those whose hash may be this one.
    #[inline(always)]
    pub(crate) fn find(&self, hash: u32, is_key: impl Fn(Slot) -> bool) -> Option<Slot> {
        let own = self.lines.get(self.home(hash))?.half(hash);
        match own.find(tag(hash), &is_key) {
            Some((_, slot)) => Some(slot),
            None if own.count(LaneCount::Strayed) == 0 => None,
            None => self.find_strayed(hash, is_key),
        }
    }

    /// Looks in its first line and in those after it, as long as keys were passed on.
    #[cold]
    fn find_strayed(&self, hash: u32, is_key: impl Fn(Slot) -> bool) -> Option<Slot> {
        let mut at = self.home(hash);
        loop {
            let line = self.lines.get(at)?;
            let found = line.find(hash, &is_key);
            if found.is_some() || line.passed() == 0 {
                return found;
            }
            at = self.after(at);
        }
    }

    /// True if the table is too large for the cache.
    #[inline]
    pub(crate) fn is_large(&self) -> bool {
        self.lines.len() > CACHED_LINES
    }

    /// Brings the lines for these hashes into the cache. The reads do not depend on each other, so the processor overlaps
    /// their misses, which it cannot do while each is followed by work on its result.
    #[inline]
    pub(crate) fn warm(&self, hashes: impl Iterator<Item = u32> + Clone) {
        if self.is_large() {
            let homes = hashes.map(|hash| self.home(hash));
            let passed = |at| self.lines.get(at).map_or(0, IndexLine::passed);
            std::hint::black_box(homes.clone().fold(0, |sum, at| sum ^ passed(at)));
            let overflowing = homes.filter(|at| passed(*at) != 0);
            std::hint::black_box(overflowing.fold(0, |sum, at| sum ^ passed(self.after(at))));
        }
    }

    /// True if the next [`Self::insert`] must be preceded by [`Self::grow`].
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.len >= self.lines.len() * LOAD_MAX
    }

    /// Puts in a slot that is not in the table.
    #[inline(always)]
    pub(crate) fn insert(&mut self, hash: u32, slot: Slot) {
        self.len += 1;
        let home = self.home(hash);
        if !self.lines.get_mut(home).is_some_and(|line| line.half_mut(hash).put(tag(hash), slot)) {
            self.insert_strayed(hash, slot);
        }
    }

    /// Puts a slot into a later line, and counts it in its home and in each line it passed, so that a search knows when
    /// to stop.
    #[cold]
    fn insert_strayed(&mut self, hash: u32, slot: Slot) {
        let mut at = self.home(hash);
        if let Some(home) = self.lines.get_mut(at) {
            home.half_mut(hash).increase(LaneCount::Strayed);
        }
        while let Some(line) = self.lines.get_mut(at) {
            if line.put(hash, slot) {
                return;
            }
            line.half_mut(0).increase(LaneCount::Passed);
            at = self.after(at);
        }
    }

    /// Takes out a slot that is in the table.
    #[inline(always)]
    pub(crate) fn remove(&mut self, hash: u32, slot: Slot) {
        self.len -= 1;
        let home = self.home(hash);
        if !self.lines.get_mut(home).is_some_and(|line| line.half_mut(hash).clear(tag(hash), slot)) {
            self.remove_strayed(hash, slot);
        }
    }

    /// Removes a key that is not in its first line, and takes back the marks that lead to it.
    #[cold]
    fn remove_strayed(&mut self, hash: u32, slot: Slot) {
        let mut at = self.home(hash);
        if let Some(home) = self.lines.get_mut(at) {
            home.half_mut(hash).decrease(LaneCount::Strayed);
        }
        while let Some(line) = self.lines.get_mut(at) {
            if line.clear(hash, slot) {
                return;
            }
            line.half_mut(0).decrease(LaneCount::Passed);
            at = self.after(at);
        }
    }

    /// Makes room for twice as many; `all` are the hashes and slots that are in the table.
    #[cold]
    pub(crate) fn grow(&mut self, mut all: impl Iterator<Item = (u32, Slot)>) {
        *self = Self { lines: vec![IndexLine::default(); self.lines.len() * 2], len: 0 };
        let mut portion = Vec::with_capacity(GROW_PORTION);
        loop {
            portion.extend(all.by_ref().take(GROW_PORTION));
            if portion.is_empty() {
                return;
            }
            self.warm(portion.iter().map(|(hash, _)| *hash));
            portion.drain(..).for_each(|(hash, slot)| self.insert(hash, slot));
        }
    }

    /// Frees the memory of a once large table that is empty now.
    pub(crate) fn shrink(&mut self) {
        if self.len == 0 && self.is_large() {
            *self = Self::new();
        }
    }

    /// The line that a key is looked for in first.
    #[inline]
    fn home(&self, hash: u32) -> usize {
        // The lowest bit selects the half.
        (hash >> 1) as usize & (self.lines.len() - 1)
    }

    /// The next line, around the end.
    #[inline]
    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.lines.len() - 1)
    }
}

/// From the other end of the hash than the line's number. Never that of a free cell.
#[inline]
fn tag(hash: u32) -> u8 {
    ((hash >> 24) as u8).max(FREE + 1)
}

#[cfg(test)]
mod tests;
