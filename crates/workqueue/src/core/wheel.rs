//! The timer wheel: which delayed keys fall due when.
//!
//! Eight levels of 64 buckets; a bucket of level *n* spans 64ⁿ ticks of one millisecond. Inserting, cancelling and
//! expiring are O(1) whatever the number of keys (a heap's cost grows with it, in cache misses even more than in
//! comparisons). Eight levels span every time the queue can express, so "far future" needs no special case.
//!
//! Keys move towards level 0 as time passes. That move, and expiry itself, is done in portions ([`Wheel::pop_due`] has a
//! budget): a clock that jumps ahead over a million due keys must not hold the queue's lock for their sake.

use std::cmp::Reverse;

use super::slab::{Chain, List, Slab, Slot};

const LEVELS: u32 = 8;
const LEVEL_BITS: u32 = 6;
const BUCKETS: u32 = 1 << LEVEL_BITS;

/// Nanoseconds per tick. The runtime's own timers are no finer.
const TICK: u64 = 1_000_000;

/// The first tick at or after `nanos`: a key is never early, and late by less than one tick.
pub(crate) fn tick_at_or_after(nanos: u64) -> u64 {
    nanos.div_ceil(TICK)
}

/// The last tick that has begun at `nanos`.
pub(crate) fn tick_at(nanos: u64) -> u64 {
    nanos / TICK
}

/// When a tick begins, in nanoseconds.
pub(crate) fn nanos_of(tick: u64) -> u64 {
    tick.saturating_mul(TICK)
}

#[derive(Debug)]
pub(crate) struct Wheel {
    /// All keys due before this tick have been popped. Never moves back, so a clock that does is harmless.
    elapsed: u64,
    len: usize,
    /// One bit per bucket that is not empty, per level: finding the next one is a count of zeros.
    occupied: [u64; LEVELS as usize],
    buckets: Vec<List>,
}

/// Where the next keys to look at are.
struct Next {
    level: u32,
    bucket: u16,
    /// The first tick the bucket spans.
    starts: u64,
}

impl Wheel {
    pub(crate) fn new() -> Self {
        // The buckets are allocated with the first delayed key: most queues in a process never see one.
        Self { elapsed: 0, len: 0, occupied: [0; LEVELS as usize], buckets: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Puts `slot` where its entry's `due` belongs.
    pub(crate) fn insert<K, R: Default>(&mut self, slab: &mut Slab<K, R>, slot: Slot) {
        if self.buckets.is_empty() {
            self.buckets = vec![List::new(); (LEVELS * BUCKETS) as usize];
        }
        let due = slab.at(slot).due.max(self.elapsed);
        let level = level_of(self.elapsed, due);
        let bucket = (level * BUCKETS) as u16 + position(due, level);
        slab.at_mut(slot).bucket = bucket;
        self.list(bucket).push_back(slab, Chain::Timer, slot);
        self.mark(bucket, true);
        self.len += 1;
    }

    /// Takes `slot`, which must be in the wheel, out of it.
    pub(crate) fn remove<K, R: Default>(&mut self, slab: &mut Slab<K, R>, slot: Slot) {
        let bucket = slab.at(slot).bucket;
        self.list(bucket).unlink(slab, Chain::Timer, slot);
        self.settle(bucket);
        self.len -= 1;
    }

    /// The tick at which [`Self::pop_due`] has something to do. Never later than the earliest key's.
    pub(crate) fn next(&self) -> Option<u64> {
        self.find_next().map(|next| next.starts)
    }

    /// The next key due at `now`. Each key looked at costs one unit of `budget`; `None` with the budget used up means
    /// that there may be more.
    pub(crate) fn pop_due<K, R: Default>(
        &mut self,
        slab: &mut Slab<K, R>,
        now: u64,
        budget: &mut u32,
    ) -> Option<Slot> {
        loop {
            let Some(next) = self.find_next().filter(|next| next.starts <= now) else {
                self.elapsed = self.elapsed.max(now);
                return None;
            };
            *budget = budget.checked_sub(1)?;
            self.elapsed = self.elapsed.max(next.starts);
            let slot = self.list(next.bucket).pop_front(slab, Chain::Timer)?;
            self.settle(next.bucket);
            self.len -= 1;
            if next.level == 0 {
                return Some(slot);
            }
            // The bucket's span begins now, so the key's own tick is told apart by a lower level.
            self.insert(slab, slot);
        }
    }

    fn find_next(&self) -> Option<Next> {
        if self.len == 0 {
            return None;
        }
        // The earliest bucket; of two that start together the coarser, because its keys belong before or among the finer
        // one's and have only not been sorted in yet.
        let buckets = (0..).zip(&self.occupied).filter(|(_, bits)| **bits != 0);
        buckets
            .map(|(level, bits)| self.first_of(level, *bits))
            .min_by_key(|next| (next.starts, Reverse(next.level)))
    }

    fn first_of(&self, level: u32, occupied: u64) -> Next {
        let position = occupied.trailing_zeros();
        let shift = level * LEVEL_BITS;
        let above = shift + LEVEL_BITS;
        let starts = ((self.elapsed >> above) << above) | (u64::from(position) << shift);
        Next { level, bucket: (level * BUCKETS + position) as u16, starts }
    }

    #[expect(clippy::expect_used, reason = "bucket numbers come from insert(), which made the buckets")]
    fn list(&mut self, bucket: u16) -> &mut List {
        self.buckets.get_mut(bucket as usize).expect("bucket of this wheel")
    }

    fn settle(&mut self, bucket: u16) {
        if self.list(bucket).is_empty() {
            self.mark(bucket, false);
        }
    }

    fn mark(&mut self, bucket: u16, occupied: bool) {
        let (level, position) = (u32::from(bucket) / BUCKETS, u32::from(bucket) % BUCKETS);
        if let Some(bits) = self.occupied.get_mut(level as usize) {
            *bits = (*bits & !(1 << position)) | (u64::from(occupied) << position);
        }
    }
}

fn level_of(elapsed: u64, due: u64) -> u32 {
    let differing = (elapsed ^ due) | u64::from(BUCKETS - 1);
    ((u64::BITS - 1 - differing.leading_zeros()) / LEVEL_BITS).min(LEVELS - 1)
}

fn position(due: u64, level: u32) -> u16 {
    ((due >> (level * LEVEL_BITS)) & u64::from(BUCKETS - 1)) as u16
}
