//! A FIFO queue of ready keys: slot numbers in a ring buffer.
//!
//! A ring and not a chain through the entries: a chain finds the next key only by reading the entry before it, so in a queue
//! larger than the cache each hand-out would wait for memory. A ring knows the next slots in advance and reads them in
//! memory order.
//!
//! A key that is removed from the middle (its priority was raised) leaves a gap, found by the position that [`Ring::push`]
//! returned. Gaps are closed before they outnumber the keys.

use super::slab::Slot;

/// Marks the position of a removed key. No slab uses this number.
const GAP: Slot = Slot::MAX;

/// So few gaps are not worth closing.
const GAPS_KEPT: u32 = 64;

/// An empty ring with more capacity than this releases it.
const ROOM_KEPT: usize = 8192;

/// The initial capacity of a ring.
const ROOM_FIRST: usize = 16;

/// Keys in the order of their addition, with gaps where one was taken out of the middle.
///
/// A key stores its position, so that removing it is a write and not a search.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    /// Its length is the capacity: zero, or a power of two, so that a position becomes an index by a mask.
    slots: Vec<Slot>,
    /// The places of the first key, which is never a gap, and after the last. Places count up and wrap around.
    first: u32,
    end: u32,
    gaps: u32,
}

impl Ring {
    /// The number of places that are taken, by keys or gaps.
    #[inline]
    fn span(&self) -> u32 {
        self.end.wrapping_sub(self.first)
    }

    /// The number of keys, without the gaps.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        (self.span() - self.gaps) as usize
    }

    /// The first place is never a gap, so equal ends mean that there is nothing.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first == self.end
    }

    /// Places are masked, because they count on around the ring.
    #[inline]
    fn at(&self, place: u32) -> Option<Slot> {
        self.slots.get(place as usize & self.slots.len().wrapping_sub(1)).copied()
    }

    #[inline]
    fn put(&mut self, place: u32, slot: Slot) {
        let mask = self.slots.len().wrapping_sub(1);
        if let Some(room) = self.slots.get_mut(place as usize & mask) {
            *room = slot;
        }
    }

    /// Appends a key; returns its place.
    #[inline]
    pub(crate) fn push(&mut self, slot: Slot) -> u32 {
        if self.span() as usize == self.slots.len() {
            self.grow();
        }
        let place = self.end;
        self.put(place, slot);
        self.end = place.wrapping_add(1);
        place
    }

    /// Doubles the capacity. Positions stay valid with the new mask.
    #[cold]
    fn grow(&mut self) {
        let room = (2 * self.slots.len()).max(ROOM_FIRST);
        let mut larger = Self { slots: vec![GAP; room], ..*self };
        self.taken().for_each(|place| larger.put(place, self.at(place).unwrap_or(GAP)));
        *self = larger;
    }

    /// Takes the first key.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Slot> {
        if self.is_empty() {
            return None;
        }
        let slot = self.at(self.first);
        self.first = self.first.wrapping_add(1);
        if self.gaps > 0 || self.is_empty() {
            self.tidy();
        }
        slot
    }

    /// Makes sure that the first place is a key, and frees the memory of a ring that was large and is empty.
    #[cold]
    fn tidy(&mut self) {
        self.skip_gaps();
        if self.is_empty() && self.slots.len() > ROOM_KEPT {
            self.slots = Vec::new();
        }
    }

    #[inline]
    pub(crate) fn front(&self) -> Option<Slot> {
        if self.is_empty() { None } else { self.at(self.first) }
    }

    /// All places from the first key to the last, gaps included.
    fn taken(&self) -> impl Iterator<Item = u32> + use<> {
        let (first, span) = (self.first, self.span());
        (0..span).map(move |n| first.wrapping_add(n))
    }

    /// The next keys, at most `count`.
    #[inline]
    pub(crate) fn ahead(&self, count: u32) -> impl Iterator<Item = Slot> {
        let places = (0..count.min(self.span())).map(|n| self.first.wrapping_add(n));
        places.filter_map(|place| self.at(place)).filter(|slot| *slot != GAP)
    }

    /// Removes the key at `place`. `moved` is called with the new positions of keys that move up.
    pub(crate) fn remove(&mut self, place: u32, moved: impl FnMut(Slot, u32)) {
        self.put(place, GAP);
        self.gaps += 1;
        self.skip_gaps();
        if self.gaps > GAPS_KEPT.max(self.span() / 2) {
            self.close_gaps(moved);
        }
    }

    fn skip_gaps(&mut self) {
        while self.front() == Some(GAP) {
            self.first = self.first.wrapping_add(1);
            self.gaps -= 1;
        }
    }

    /// Moves the keys together and reports their new places.
    fn close_gaps(&mut self, mut moved: impl FnMut(Slot, u32)) {
        let taken = self.taken();
        (self.end, self.gaps) = (self.first, 0);
        for slot in taken.filter_map(|place| self.at(place)).filter(|slot| *slot != GAP).collect::<Vec<_>>() {
            moved(slot, self.push(slot));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key that is raised again and again leaves gaps in a queue without consumers; once they were never closed.
    #[test]
    fn gaps_are_closed_and_keys_keep_their_places() {
        let mut ring = Ring::default();
        let mut places = vec![ring.push(0)];
        for slot in 1..10_000 {
            places.push(ring.push(slot));
            if slot % 100 != 0 {
                ring.remove(places[slot as usize], |slot, place| places[slot as usize] = place);
            }
            assert!(ring.gaps <= GAPS_KEPT.max(ring.span() / 2));
        }
        ring.remove(places[0], |slot, place| places[slot as usize] = place);
        let order: Vec<_> = std::iter::from_fn(|| ring.pop()).collect();
        assert_eq!(order, (1..100).map(|n| n * 100).collect::<Vec<_>>());
        assert!(ring.is_empty() && ring.gaps == 0);
    }
}
