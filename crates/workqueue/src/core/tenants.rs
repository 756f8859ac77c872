//! Fairness: whose turn it is.
//!
//! Each tenant has its own line of keys per priority, and the lines take turns, one key each. A tenant that has just
//! become active goes first, once (the scheme of FQ-CoDel: a list of *new* lines before the list of *old* ones): a quiet
//! tenant's key then waits for the next free worker and for other quiet tenants, but not behind a flood. A line that runs
//! empty stays listed as old for one more turn, so that trickling keys in one at a time wins no advantage.
//!
//! Tenants are told apart by a hash. Two that collide share a line, which is harmless.

use std::collections::{HashMap, VecDeque};

use super::slab::{Chain, List, Slab, Slot};
use crate::priority::Priority;

const LEVELS: usize = Priority::ALL.len();

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In neither list: nothing queued.
    Unlisted,
    New,
    Old,
    /// Has keys, but as many in flight as it may.
    Capped,
}

#[derive(Debug, Clone, Copy)]
struct Line {
    keys: List,
    place: Place,
}

#[derive(Debug)]
struct Tenant {
    id: u64,
    in_flight: u32,
    lines: [Line; LEVELS],
}

#[derive(Debug, Default)]
struct Turns {
    new: VecDeque<u32>,
    old: VecDeque<u32>,
}

#[derive(Debug)]
pub(crate) struct Tenants {
    by_id: HashMap<u64, u32, foldhash::fast::RandomState>,
    tenants: Vec<Tenant>,
    free: Vec<u32>,
    turns: [Turns; LEVELS],
    in_flight_max: u32,
}

impl Tenants {
    pub(crate) fn new(in_flight_max: u32) -> Self {
        Self {
            by_id: HashMap::default(),
            tenants: Vec::new(),
            free: Vec::new(),
            turns: Default::default(),
            in_flight_max: in_flight_max.max(1),
        }
    }

    pub(crate) fn push<K, R: Default>(&mut self, slab: &mut Slab<K, R>, slot: Slot, id: u64) {
        let tenant = self.tenant(id);
        let level = slab.at(slot).priority as usize;
        slab.at_mut(slot).tenant = tenant;
        let Some(line) = self.line(tenant, level) else { return };
        line.keys.push_back(slab, Chain::Order, slot);
        if line.place == Place::Unlisted {
            line.place = Place::New;
            self.turns(level).new.push_back(tenant);
        }
    }

    /// Takes a waiting key out of its line. The line itself is tidied when its turn comes.
    pub(crate) fn remove<K, R: Default>(&mut self, slab: &mut Slab<K, R>, slot: Slot) {
        let (tenant, level) = (slab.at(slot).tenant, slab.at(slot).priority as usize);
        if let Some(line) = self.line(tenant, level) {
            line.keys.unlink(slab, Chain::Order, slot);
        }
    }

    /// The next key of this level, whose tenant then has one more in flight.
    pub(crate) fn pop<K, R: Default>(&mut self, slab: &mut Slab<K, R>, level: usize) -> Option<Slot> {
        loop {
            let (tenant, from) = self.next_turn(level)?;
            let capped = self.tenants.get(tenant as usize)?.in_flight >= self.in_flight_max;
            let line = self.line(tenant, level)?;
            if capped && !line.keys.is_empty() {
                line.place = Place::Capped;
                continue;
            }
            let slot = line.keys.pop_front(slab, Chain::Order);
            let listed = from == Place::New || !line.keys.is_empty();
            line.place = if listed { Place::Old } else { Place::Unlisted };
            if listed {
                self.turns(level).old.push_back(tenant);
            }
            if slot.is_some() {
                self.tenants.get_mut(tenant as usize)?.in_flight += 1;
                return slot;
            }
            self.retire(tenant);
        }
    }

    /// What [`Self::pop`] would return.
    pub(crate) fn peek(&self, level: usize) -> Option<Slot> {
        let turns = self.turns.get(level)?;
        let mut order =
            turns.new.iter().chain(&turns.old).filter_map(|tenant| self.tenants.get(*tenant as usize));
        order.find_map(|tenant| {
            let free = tenant.in_flight < self.in_flight_max;
            tenant.lines.get(level).and_then(|line| line.keys.front()).filter(|_| free)
        })
    }

    /// A key of this tenant is done: it may have another one.
    pub(crate) fn finished(&mut self, tenant: u32) {
        let Some(entry) = self.tenants.get_mut(tenant as usize) else { return };
        entry.in_flight -= 1;
        for level in 0..LEVELS {
            if let Some(line) = self.line(tenant, level).filter(|line| line.place == Place::Capped) {
                line.place = Place::Old;
                self.turns(level).old.push_back(tenant);
            }
        }
        self.retire(tenant);
    }

    fn tenant(&mut self, id: u64) -> u32 {
        if let Some(tenant) = self.by_id.get(&id) {
            return *tenant;
        }
        let line = Line { keys: List::new(), place: Place::Unlisted };
        let fresh = Tenant { id, in_flight: 0, lines: [line; LEVELS] };
        let tenant = match self.free.pop() {
            Some(index) => index,
            None => self.tenants.len() as u32,
        };
        match self.tenants.get_mut(tenant as usize) {
            Some(entry) => *entry = fresh,
            None => self.tenants.push(fresh),
        }
        self.by_id.insert(id, tenant);
        tenant
    }

    /// Forgets a tenant that has nothing queued, nothing in flight and no turn coming.
    fn retire(&mut self, tenant: u32) {
        let Some(entry) = self.tenants.get(tenant as usize) else { return };
        if entry.in_flight == 0 && entry.lines.iter().all(|line| line.place == Place::Unlisted) {
            self.by_id.remove(&entry.id);
            self.free.push(tenant);
        }
    }

    fn next_turn(&mut self, level: usize) -> Option<(u32, Place)> {
        let turns = self.turns(level);
        if let Some(tenant) = turns.new.pop_front() {
            return Some((tenant, Place::New));
        }
        turns.old.pop_front().map(|tenant| (tenant, Place::Old))
    }

    fn line(&mut self, tenant: u32, level: usize) -> Option<&mut Line> {
        self.tenants.get_mut(tenant as usize)?.lines.get_mut(level)
    }

    #[expect(clippy::indexing_slicing, reason = "levels are Priority as usize, and there are as many turns")]
    fn turns(&mut self, level: usize) -> &mut Turns {
        &mut self.turns[level]
    }
}
