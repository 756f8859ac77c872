//! Fairness between tenants: which tenant is served next.
//!
//! Each tenant has its own queue of keys per priority. Of every *n* hand-outs, *n* being the number of tenants, one is
//! a tenant's *share*; it may save unused shares, up to [`SAVINGS_MAX`]. Tenants within their share go first and take
//! turns, one key each; the others take turns at what is left.
//!
//! So a tenant that needs no more than its share is affected by a flood only while all workers are busy: its key waits
//! for the next free worker and for other tenants within their shares, as it would without the flood, but not for the
//! flood's keys. (Round-robin alone does not achieve that: between two keys of one tenant there would be one of the
//! flood.) And the flood still gets every hand-out that no other tenant needs, and always its own share.
//!
//! Whenever no key is waiting, all shares are reset: no tenant has been delayed, so there is nothing to compensate.
//!
//! Tenants are distinguished by a hash. Two that collide share a queue, which is harmless.

use std::collections::{HashMap, VecDeque};

use super::ring::Ring;
use super::slab::Slot;
use crate::priority::Priority;

const LEVELS: usize = Priority::ALL.len();

/// The most hand-outs that a tenant may save up: a burst of so many keys counts as within its share. Also where everyone starts.
const SAVINGS_MAX: f64 = 32.0;

/// Where the turn of a tenant is at one level of priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum TenantPlace {
    /// Has no turn coming: nothing queued.
    #[default]
    Unlisted,
    Listed,
    /// Has keys, but as many in flight as it may.
    Capped,
}

/// The waiting keys of a tenant at one level.
#[derive(Debug, Default)]
struct TenantLine {
    keys: Ring,
    place: TenantPlace,
}

/// A tenant with keys waiting or in flight. Removed when it has neither.
#[derive(Debug)]
struct Tenant {
    id: u64,
    in_flight: u32,
    lines: [TenantLine; LEVELS],
    /// Hand-outs it has to its credit, as of the hand-out number `counted_at` (and full, if that was before the rush).
    savings: f64,
    counted_at: u64,
    /// True if it is in the list of tenants that may be removed.
    resting: bool,
}

impl Tenant {
    fn is_unused(&self) -> bool {
        self.in_flight == 0 && self.lines.iter().all(|line| line.place == TenantPlace::Unlisted)
    }
}

/// Tenants that have a turn at a level: those within their share first.
#[derive(Debug, Default)]
struct TenantTurns {
    within_share: VecDeque<u32>,
    beyond: VecDeque<u32>,
}

/// Fair order among tenants: each gets its turn, with any number of keys of others queued.
#[derive(Debug)]
pub(crate) struct Tenants {
    by_id: HashMap<u64, u32, foldhash::fast::RandomState>,
    tenants: Vec<Tenant>,
    free: Vec<u32>,
    /// The tenant that each slot's key was last queued for.
    of_slot: Vec<u32>,
    /// Unused tenants whose savings are not full: removing them would reset what they have used.
    resting: VecDeque<u32>,
    turns: [TenantTurns; LEVELS],
    in_flight_max: u32,
    waiting: usize,
    /// The number of keys handed out so far, and that number when the queue was last empty.
    handed_out: u64,
    rush_began: u64,
}

impl Tenants {
    /// `in_flight_max` bounds the keys of one tenant that are processed at a time.
    pub(crate) fn new(in_flight_max: u32) -> Self {
        Self {
            by_id: HashMap::default(),
            tenants: Vec::new(),
            free: Vec::new(),
            of_slot: Vec::new(),
            resting: VecDeque::new(),
            turns: Default::default(),
            in_flight_max: in_flight_max.max(1),
            waiting: 0,
            handed_out: 0,
            rush_began: 0,
        }
    }

    /// Appends a key to its tenant's line; returns its place there.
    pub(crate) fn push(&mut self, level: usize, slot: Slot, id: u64) -> u32 {
        let tenant = self.tenant(id);
        self.note_tenant(slot, tenant);
        self.waiting += 1;
        let Some(line) = self.line(tenant, level) else { return 0 };
        let place = line.keys.push(slot);
        if line.place == TenantPlace::Unlisted {
            self.enlist(tenant, level);
        }
        place
    }

    /// Stores the tenant of a slot, so that the user's function is called once.
    fn note_tenant(&mut self, slot: Slot, tenant: u32) {
        if self.of_slot.len() <= slot as usize {
            self.of_slot.resize(slot as usize + 1, 0);
        }
        if let Some(of_slot) = self.of_slot.get_mut(slot as usize) {
            *of_slot = tenant;
        }
    }

    fn tenant_of(&self, slot: Slot) -> u32 {
        self.of_slot.get(slot as usize).copied().unwrap_or(0)
    }

    /// Takes a waiting key out of its line. If that runs empty it is tidied when its turn comes.
    pub(crate) fn remove(&mut self, slot: Slot, level: usize, place: u32, moved: impl FnMut(Slot, u32)) {
        self.waiting -= 1;
        if let Some(line) = self.line(self.tenant_of(slot), level) {
            line.keys.remove(place, moved);
        }
    }

    /// The number of keys that are waiting.
    pub(crate) fn len(&self) -> usize {
        self.waiting
    }

    /// The next key of this level, whose tenant then has one more in flight.
    pub(crate) fn pop(&mut self, level: usize) -> Option<Slot> {
        self.promote(level);
        loop {
            let tenant = self.next_turn(level)?;
            let capped = self.tenants.get(tenant as usize)?.in_flight >= self.in_flight_max;
            let line = self.line(tenant, level)?;
            if capped && !line.keys.is_empty() {
                line.place = TenantPlace::Capped;
                continue;
            }
            let slot = line.keys.pop();
            line.place = TenantPlace::Unlisted;
            let more = !line.keys.is_empty();
            if slot.is_some() {
                self.charge(tenant);
            }
            match more {
                true => self.enlist(tenant, level),
                false => self.rest(tenant),
            }
            if slot.is_some() {
                return slot;
            }
        }
    }

    /// The result that [`Self::pop`] would have.
    pub(crate) fn peek(&self, level: usize) -> Option<Slot> {
        let turns = self.turns.get(level)?;
        let order = turns.within_share.iter().chain(&turns.beyond);
        order.filter_map(|tenant| self.tenants.get(*tenant as usize)).find_map(|tenant| {
            let free = tenant.in_flight < self.in_flight_max;
            tenant.lines.get(level).and_then(|line| line.keys.front()).filter(|_| free)
        })
    }

    /// A key is done: its tenant may have another one.
    pub(crate) fn finished(&mut self, slot: Slot) {
        let tenant = self.tenant_of(slot);
        let Some(entry) = self.tenants.get_mut(tenant as usize) else { return };
        entry.in_flight -= 1;
        for level in 0..LEVELS {
            if self.line(tenant, level).is_some_and(|line| line.place == TenantPlace::Capped) {
                self.enlist(tenant, level);
            }
        }
        self.rest(tenant);
    }

    /// Frees memory when no key is left.
    pub(crate) fn shrink(&mut self) {
        self.of_slot = Vec::new();
    }

    /// Finds or makes a tenant. A new one begins with full savings, so that it is served at once.
    fn tenant(&mut self, id: u64) -> u32 {
        if let Some(tenant) = self.by_id.get(&id) {
            return *tenant;
        }
        let tenant = self.free.pop().unwrap_or(self.tenants.len() as u32);
        match self.tenants.get_mut(tenant as usize) {
            Some(entry) => (entry.id, entry.savings, entry.counted_at) = (id, SAVINGS_MAX, self.handed_out),
            None => self.tenants.push(Tenant {
                id,
                in_flight: 0,
                lines: Default::default(),
                savings: SAVINGS_MAX,
                counted_at: self.handed_out,
                resting: false,
            }),
        }
        self.by_id.insert(id, tenant);
        tenant
    }

    /// Schedules a tenant with keys, according to its savings.
    fn enlist(&mut self, tenant: u32, level: usize) {
        let within_share = self.savings(tenant) >= 1.0;
        if let Some(line) = self.line(tenant, level) {
            line.place = TenantPlace::Listed;
        }
        let turns = self.turns(level);
        match within_share {
            true => turns.within_share.push_back(tenant),
            false => turns.beyond.push_back(tenant),
        }
    }

    /// A tenant beyond its share that has waited until it is within it again goes first, so that no tenant starves.
    fn promote(&mut self, level: usize) {
        let Some(tenant) = self.turns(level).beyond.front().copied() else { return };
        if self.savings(tenant) >= 1.0 {
            let turns = self.turns(level);
            turns.beyond.pop_front();
            turns.within_share.push_back(tenant);
        }
    }

    /// The tenant that is next at a level.
    fn next_turn(&mut self, level: usize) -> Option<u32> {
        let turns = self.turns(level);
        turns.within_share.pop_front().or_else(|| turns.beyond.pop_front())
    }

    /// The turns a tenant has earned and not used, bounded. One that is new to the present rush has the most.
    fn savings(&self, tenant: u32) -> f64 {
        let Some(entry) = self.tenants.get(tenant as usize) else { return 0.0 };
        if entry.counted_at <= self.rush_began {
            return SAVINGS_MAX;
        }
        let earned = (self.handed_out - entry.counted_at) as f64 / self.by_id.len().max(1) as f64;
        (entry.savings + earned).min(SAVINGS_MAX)
    }

    /// Counts a hand-out. There is no debt: unused hand-outs are free.
    fn charge(&mut self, tenant: u32) {
        let left = (self.savings(tenant) - 1.0).max(0.0);
        self.handed_out += 1;
        self.waiting -= 1;
        if self.waiting == 0 {
            self.rush_began = self.handed_out;
        }
        if let Some(entry) = self.tenants.get_mut(tenant as usize) {
            entry.in_flight += 1;
            (entry.savings, entry.counted_at) = (left, self.handed_out);
        }
    }

    /// Lists a tenant that has become unused, and removes those that have been for long enough.
    fn rest(&mut self, tenant: u32) {
        let Some(entry) = self.tenants.get_mut(tenant as usize) else { return };
        if entry.is_unused() && !entry.resting {
            entry.resting = true;
            self.resting.push_back(tenant);
        }
        // One is added at most, so two are enough to get to the end.
        (0..2).for_each(|_| self.forget_oldest());
    }

    /// Removes the longest unused tenant once its savings are full: then it is equivalent to a new one.
    fn forget_oldest(&mut self) {
        let Some(oldest) = self.resting.front().copied() else { return };
        let saved = self.savings(oldest) >= SAVINGS_MAX;
        let Some(entry) = self.tenants.get_mut(oldest as usize) else { return };
        let unused = entry.is_unused();
        if saved || !unused {
            entry.resting = false;
            self.resting.pop_front();
        }
        if saved && unused {
            entry.lines = Default::default();
            self.by_id.remove(&entry.id);
            self.free.push(oldest);
        }
    }

    fn line(&mut self, tenant: u32, level: usize) -> Option<&mut TenantLine> {
        self.tenants.get_mut(tenant as usize)?.lines.get_mut(level)
    }

    #[expect(clippy::indexing_slicing, reason = "levels are Priority as usize, and there are as many turns")]
    fn turns(&mut self, level: usize) -> &mut TenantTurns {
        &mut self.turns[level]
    }
}
