//! The ready keys, and which of them comes next.
//!
//! One first-in-first-out list per priority. A fair queue replaces each list by its tenants' lines ([`super::tenants`]);
//! other queues pay one predictable branch for the possibility.

use super::slab::{Chain, List, Slab, Slot};
use super::tenants::Tenants;
use crate::priority::Priority;

#[derive(Debug)]
pub(crate) struct Ready {
    lists: [List; Priority::ALL.len()],
    /// How many keys are ready, per priority.
    counts: [usize; Priority::ALL.len()],
    tenants: Option<Box<Tenants>>,
    /// Every so many pops start at the least urgent level; 0 means never.
    background_every: u32,
    pops: u32,
}

impl Ready {
    pub(crate) fn new(tenants: Option<Tenants>, background_every: u32) -> Self {
        Self {
            lists: [List::new(); Priority::ALL.len()],
            counts: [0; Priority::ALL.len()],
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

    /// Whether [`Self::push`] wants to know the key's tenant.
    #[inline]
    pub(crate) fn is_fair(&self) -> bool {
        self.tenants.is_some()
    }

    /// Appends a key at the level of its entry's priority.
    #[inline]
    pub(crate) fn push<K, R: Default>(&mut self, slab: &mut Slab<K, R>, slot: Slot, tenant: u64) {
        let level = slab.at(slot).priority as usize;
        *self.count(level) += 1;
        match &mut self.tenants {
            None => self.list(level).push_back(slab, Chain::Order, slot),
            Some(tenants) => tenants.push(slab, slot, tenant),
        }
    }

    /// Takes out a ready key, wherever it stands.
    pub(crate) fn remove<K, R: Default>(&mut self, slab: &mut Slab<K, R>, slot: Slot) {
        let level = slab.at(slot).priority as usize;
        *self.count(level) -= 1;
        match &mut self.tenants {
            None => self.list(level).unlink(slab, Chain::Order, slot),
            Some(tenants) => tenants.remove(slab, slot),
        }
    }

    /// The next key, if its tenant may have one.
    #[inline]
    pub(crate) fn pop<K, R: Default>(&mut self, slab: &mut Slab<K, R>) -> Option<Slot> {
        if self.background_every != 0 {
            self.pops = self.pops.wrapping_add(1);
            if self.pops.is_multiple_of(self.background_every) {
                return self.pop_in(slab, [2, 1, 0]);
            }
        }
        self.pop_in(slab, [0, 1, 2])
    }

    #[inline]
    fn pop_in<K, R: Default>(&mut self, slab: &mut Slab<K, R>, levels: [usize; 3]) -> Option<Slot> {
        for level in levels {
            if *self.count(level) == 0 {
                continue;
            }
            let slot = match &mut self.tenants {
                None => self.list(level).pop_front(slab, Chain::Order),
                Some(tenants) => tenants.pop(slab, level),
            };
            if slot.is_some() {
                *self.count(level) -= 1;
                return slot;
            }
        }
        None
    }

    /// The most urgent key that can be handed out now.
    pub(crate) fn peek(&self) -> Option<Slot> {
        match &self.tenants {
            None => self.lists.iter().find_map(List::front),
            Some(tenants) => (0..self.lists.len()).find_map(|level| tenants.peek(level)),
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
    #[expect(clippy::indexing_slicing, reason = "levels are Priority as usize, and there are as many lists")]
    fn list(&mut self, level: usize) -> &mut List {
        &mut self.lists[level]
    }
}
