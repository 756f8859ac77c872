//! The ready keys, and the order in which they are handed out.
//!
//! One FIFO queue per priority. A fair queue replaces each by one queue per tenant ([`super::tenants`]); other queues
//! pay one predictable branch for the possibility.

use super::ring::Ring;
use super::slab::{Slab, Slot};
use super::tenants::Tenants;
use crate::priority::Priority;

const LEVELS: usize = Priority::ALL.len();

/// The keys that are ready, by urgency, and in a fair queue by tenant.
#[derive(Debug)]
pub(crate) struct Ready {
    /// Of urgent, normal and background keys; unused in a fair queue.
    lines: [Ring; LEVELS],
    tenants: Option<Box<Tenants>>,
    /// Every so many pops start at the least urgent level; 0 means never.
    background_every: u32,
    pops: u32,
}

impl Ready {
    pub(crate) fn new(tenants: Option<Tenants>, background_every: u32) -> Self {
        Self { lines: Default::default(), tenants: tenants.map(Box::new), background_every, pops: 0 }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        match &self.tenants {
            None => self.lines.iter().map(Ring::len).sum(),
            Some(tenants) => tenants.len(),
        }
    }

    /// The number of keys of this priority that are ready (in a fair queue, none: its lines are the tenants').
    #[inline]
    pub(crate) fn len_of(&self, priority: Priority) -> usize {
        self.lines.get(priority as usize).map_or(0, Ring::len)
    }

    /// True after every `count`-th pop.
    #[inline]
    pub(crate) fn is_turn(&self, count: u32) -> bool {
        self.pops.is_multiple_of(count)
    }

    /// True if a key is ready that no key added to the inbox from now on could precede. (Fair queues have no inbox.)
    #[inline]
    pub(crate) fn has_urgent_or_normal(&self) -> bool {
        let [urgent, normal, _] = &self.lines;
        !normal.is_empty() || !urgent.is_empty()
    }

    /// Appends a key to the line of its priority; returns its place there. Not for fair queues.
    #[inline]
    pub(crate) fn push(&mut self, priority: Priority, slot: Slot) -> u32 {
        self.line(priority as usize).push(slot)
    }

    /// Appends a key of a fair queue to its tenant's line; returns its place there.
    pub(crate) fn push_fair(&mut self, priority: Priority, slot: Slot, tenant: u64) -> u32 {
        self.tenants.as_mut().map_or(0, |tenants| tenants.push(priority as usize, slot, tenant))
    }

    /// Removes a ready key from its queue.
    pub(crate) fn remove<K, R: Default>(&mut self, slab: &mut Slab<K, R>, slot: Slot) {
        let entry = slab.at(slot);
        let (place, level) = (entry.place, entry.priority() as usize);
        let moved = |slot, place| slab.at_mut(slot).place = place;
        match &mut self.tenants {
            None => self.line(level).remove(place, moved),
            Some(tenants) => tenants.remove(slot, level, place, moved),
        }
    }

    /// The next key, if its tenant may have one.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Slot> {
        self.pops = self.pops.wrapping_add(1);
        if self.background_every != 0 || self.tenants.is_some() {
            return self.pop_by_rules();
        }
        self.first_line()?.pop()
    }

    /// The most urgent line that is not empty.
    #[inline]
    fn first_line(&mut self) -> Option<&mut Ring> {
        self.lines.iter_mut().find(|line| !line.is_empty())
    }

    /// Takes the next key: the most urgent level first, except in the turns that belong to the least urgent one.
    #[cold]
    fn pop_by_rules(&mut self) -> Option<Slot> {
        let background = self.background_every != 0 && self.pops.is_multiple_of(self.background_every);
        let levels = if background { [2, 1, 0] } else { [0, 1, 2] };
        levels.into_iter().find_map(|level| match &mut self.tenants {
            None => self.line(level).pop(),
            Some(tenants) => tenants.pop(level),
        })
    }

    /// At every `count`-th pop the normal keys that follow, as many, and otherwise nothing.
    #[inline]
    pub(crate) fn upcoming(&self, count: u32) -> Option<impl Iterator<Item = Slot>> {
        let [_, normal, _] = &self.lines;
        self.is_turn(count).then(|| normal.ahead(count))
    }

    /// The most urgent key that can be handed out now.
    pub(crate) fn peek(&self) -> Option<Slot> {
        match &self.tenants {
            None => self.lines.iter().find_map(Ring::front),
            Some(tenants) => (0..LEVELS).find_map(|level| tenants.peek(level)),
        }
    }

    /// Records that a key that was handed out is done.
    #[inline]
    pub(crate) fn finished(&mut self, slot: Slot) {
        if let Some(tenants) = &mut self.tenants {
            tenants.finished(slot);
        }
    }

    /// Frees memory when no key is left.
    pub(crate) fn shrink(&mut self) {
        if let Some(tenants) = &mut self.tenants {
            tenants.shrink();
        }
    }

    #[inline]
    #[expect(clippy::indexing_slicing, reason = "levels are Priority as usize, and there are as many lines")]
    fn line(&mut self, level: usize) -> &mut Ring {
        &mut self.lines[level]
    }
}
