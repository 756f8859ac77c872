//! The ready keys, and which of them comes next.
//!
//! One first-in-first-out line per priority. A fair queue replaces each by its tenants' lines ([`super::tenants`]);
//! other queues pay one predictable branch for the possibility.

use super::ring::Ring;
use super::slab::{Entry, Slab, Slot};
use super::tenants::Tenants;
use crate::priority::Priority;

const LEVELS: usize = Priority::ALL.len();

#[derive(Debug)]
pub(crate) struct Ready {
    lines: [Ring; LEVELS],
    /// How many keys are ready, per priority.
    counts: [usize; LEVELS],
    tenants: Option<Box<Tenants>>,
    /// Every so many pops start at the least urgent level; 0 means never.
    background_every: u32,
    pops: u32,
}

impl Ready {
    pub(crate) fn new(tenants: Option<Tenants>, background_every: u32) -> Self {
        Self {
            lines: Default::default(),
            counts: [0; LEVELS],
            tenants: tenants.map(Box::new),
            background_every,
            pops: 0,
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.counts.iter().sum()
    }

    /// Whether a key is ready that no key added from now on with normal priority could precede.
    #[inline]
    pub(crate) fn has_urgent_or_normal(&self) -> bool {
        let [urgent, normal, _] = self.counts;
        urgent + normal > 0
    }

    /// Appends a key at the level of its entry's priority.
    #[inline]
    pub(crate) fn push<K, R>(&mut self, entry: &mut Entry<K, R>, slot: Slot, tenant: u64) {
        let level = entry.priority as usize;
        *self.count(level) += 1;
        match &mut self.tenants {
            None => entry.place = self.line(level).push(slot),
            Some(tenants) => tenants.push(entry, slot, tenant),
        }
    }

    /// Takes out a ready key, wherever it stands.
    pub(crate) fn remove<K, R: Default>(&mut self, slab: &mut Slab<K, R>, slot: Slot) {
        let entry = slab.at(slot);
        let (place, tenant, level) = (entry.place, entry.tenant, entry.priority as usize);
        *self.count(level) -= 1;
        let line = match &mut self.tenants {
            None => Some(self.line(level)),
            Some(tenants) => tenants.keys(tenant, level),
        };
        if let Some(line) = line {
            line.remove(place, |slot, place| slab.at_mut(slot).place = place);
        }
    }

    /// The next key, if its tenant may have one.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Slot> {
        self.pops = self.pops.wrapping_add(1);
        if self.background_every != 0 && self.pops.is_multiple_of(self.background_every) {
            return [2, 1, 0].into_iter().find_map(|level| self.pop_level(level));
        }
        [0, 1, 2].into_iter().find_map(|level| self.pop_level(level))
    }

    #[inline]
    fn pop_level(&mut self, level: usize) -> Option<Slot> {
        if *self.count(level) == 0 {
            return None;
        }
        let slot = match &mut self.tenants {
            None => self.line(level).pop(),
            Some(tenants) => tenants.pop(level),
        }?;
        *self.count(level) -= 1;
        if let Some(tenants) = &mut self.tenants
            && self.counts == [0; LEVELS]
        {
            tenants.caught_up();
        }
        Some(slot)
    }

    /// At every `count`-th pop the `count` keys that follow in the busiest line, otherwise none.
    #[inline]
    pub(crate) fn upcoming(&self, count: u32) -> impl Iterator<Item = Slot> {
        let [_, normal, _] = &self.lines;
        let count = if self.pops.is_multiple_of(count) { count } else { 0 };
        normal.ahead(count as usize)
    }

    /// The most urgent key that can be handed out now.
    pub(crate) fn peek(&self) -> Option<Slot> {
        match &self.tenants {
            None => self.lines.iter().find_map(Ring::front),
            Some(tenants) => (0..LEVELS).find_map(|level| tenants.peek(level)),
        }
    }

    /// A key that was handed out is done.
    #[inline]
    pub(crate) fn finished(&mut self, tenant: u32) {
        if let Some(tenants) = &mut self.tenants {
            tenants.finished(tenant);
        }
    }

    #[inline]
    #[expect(clippy::indexing_slicing, reason = "levels are Priority as usize, and there are as many counts")]
    fn count(&mut self, level: usize) -> &mut usize {
        &mut self.counts[level]
    }

    #[inline]
    #[expect(clippy::indexing_slicing, reason = "levels are Priority as usize, and there are as many lines")]
    fn line(&mut self, level: usize) -> &mut Ring {
        &mut self.lines[level]
    }
}
