//! A line of ready keys: slot numbers in a ring buffer.
//!
//! A ring and not a chain through the entries: a chain finds the next key only by reading the entry before it, so in a queue
//! larger than the cache each hand-out would wait for memory. A ring knows the next slots ahead, and reads them in the order
//! in which they lie.
//!
//! A key that leaves from the middle (its priority was raised) leaves a gap behind, found by the place that [`Ring::push`]
//! returned. Gaps are closed before they outnumber the keys.

use std::collections::VecDeque;

use super::slab::Slot;

/// Stands where a key was taken out. No slab gives out this number.
const GAP: Slot = Slot::MAX;

/// So few gaps are not worth closing.
const GAPS_KEPT: usize = 64;

/// An empty ring with more room than this gives it back.
const ROOM_KEPT: usize = 8192;

#[derive(Debug, Default)]
pub(crate) struct Ring {
    /// The first is never a gap.
    slots: VecDeque<Slot>,
    /// The place of the first one. Places count up and wrap around.
    first: u32,
    gaps: usize,
}

impl Ring {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.gaps
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Appends a key; returns its place.
    #[inline]
    pub(crate) fn push(&mut self, slot: Slot) -> u32 {
        let place = self.first.wrapping_add(self.slots.len() as u32);
        self.slots.push_back(slot);
        place
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Slot> {
        let slot = self.slots.pop_front()?;
        self.first = self.first.wrapping_add(1);
        if self.gaps > 0 {
            self.skip_gaps();
        }
        if self.slots.is_empty() {
            self.shrink();
        }
        Some(slot)
    }

    #[cold]
    fn shrink(&mut self) {
        if self.slots.capacity() > ROOM_KEPT {
            self.slots = VecDeque::new();
        }
    }

    #[inline]
    pub(crate) fn front(&self) -> Option<Slot> {
        self.slots.front().copied()
    }

    /// The keys that come next, as far as they stand together.
    #[inline]
    pub(crate) fn ahead(&self, count: usize) -> impl Iterator<Item = Slot> {
        let (near, _) = self.slots.as_slices();
        near.iter().copied().take(count).filter(|slot| *slot != GAP)
    }

    /// Takes out the key at `place`. `moved` is told the new places of keys that move up for it.
    pub(crate) fn remove(&mut self, place: u32, moved: impl FnMut(Slot, u32)) {
        if let Some(slot) = self.slots.get_mut(place.wrapping_sub(self.first) as usize) {
            *slot = GAP;
            self.gaps += 1;
        }
        self.skip_gaps();
        if self.gaps > GAPS_KEPT.max(self.slots.len() / 2) {
            self.close_gaps(moved);
        }
    }

    fn skip_gaps(&mut self) {
        while self.slots.front() == Some(&GAP) {
            self.slots.pop_front();
            self.first = self.first.wrapping_add(1);
            self.gaps -= 1;
        }
    }

    fn close_gaps(&mut self, mut moved: impl FnMut(Slot, u32)) {
        self.slots.retain(|slot| *slot != GAP);
        self.gaps = 0;
        (0..).zip(&self.slots).for_each(|(at, slot)| moved(*slot, self.first.wrapping_add(at)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key that is raised again and again leaves gaps in a line nobody takes from; they once were never closed.
    #[test]
    fn gaps_are_closed_and_keys_keep_their_places() {
        let mut ring = Ring::default();
        let mut places = vec![ring.push(0)];
        for slot in 1..10_000 {
            places.push(ring.push(slot));
            if slot % 100 != 0 {
                ring.remove(places[slot as usize], |slot, place| places[slot as usize] = place);
            }
            assert!(ring.gaps <= GAPS_KEPT.max(ring.slots.len() / 2));
        }
        ring.remove(places[0], |slot, place| places[slot as usize] = place);
        let order: Vec<_> = std::iter::from_fn(|| ring.pop()).collect();
        assert_eq!(order, (1..100).map(|n| n * 100).collect::<Vec<_>>());
        assert!(ring.is_empty() && ring.gaps == 0);
    }
}
