//! The timer wheel: the deadlines of delayed keys.
//!
//! Eight levels of 64 buckets; a bucket of level *n* spans 64ⁿ ticks of one millisecond. Inserting and expiring are O(1)
//! for any number of keys (a heap's cost grows with it, in cache misses even more than in comparisons). Eight levels
//! span every time the queue can express, so "far future" needs no special case.
//!
//! A bucket is a plain vector of times and slots. So a timer is written at the end of one vector and read when that vector is
//! read from start to end, and the wheel never touches the keys' entries, which are scattered over memory. The price: a timer
//! that is cancelled, or replaced by an earlier one, stays until it expires. It is then recognised as stale because the key's
//! entry has another deadline; the owner calls [`Wheel::retain`] before stale timers outnumber the others.
//!
//! Timers move towards level 0 as time passes. That move, and expiry itself, is done in portions ([`Wheel::pop_due`] has a
//! budget): a clock that jumps ahead over a million due keys must not hold the queue's lock for long.

use super::slab::Slot;

/// Eight levels of 64 buckets cover 2⁴⁸ milliseconds, more than any delay.
const LEVELS: u32 = 8;
const LEVEL_BITS: u32 = 6;
const BUCKETS: u32 = 1 << LEVEL_BITS;

/// Nanoseconds per tick. The runtime's own timers are not finer.
const TICK: u64 = 1_000_000;

/// The capacity that an empty bucket keeps; more is released.
const ROOM_KEPT: usize = 256;

/// The first tick at or after `nanos`: a key is never early, and late by less than one tick.
pub(crate) fn tick_at_or_after(nanos: u64) -> u64 {
    nanos.div_ceil(TICK)
}

/// The last tick that has begun at `nanos`.
pub(crate) fn tick_at(nanos: u64) -> u64 {
    nanos / TICK
}

/// The beginning of a tick, in nanoseconds.
pub(crate) fn nanos_of(tick: u64) -> u64 {
    tick.saturating_mul(TICK)
}

/// Packed, because there may be millions.
#[derive(Debug, Clone, Copy)]
#[repr(C, packed(4))]
pub(crate) struct Timer {
    /// In ticks.
    pub(crate) due: u64,
    pub(crate) slot: Slot,
}

/// Delays in a hierarchical timing wheel: adding and removing one is constant time, for any number of delays.
#[derive(Debug)]
pub(crate) struct Wheel {
    /// All timers due before this tick have been popped. Never moves back, so a clock that does is harmless.
    elapsed: u64,
    /// Nothing is to be done before this tick.
    next: u64,
    len: usize,
    /// One bit per bucket that is not empty, per level: finding the next one is a count of zeros.
    occupied: [u64; LEVELS as usize],
    buckets: Vec<Vec<Timer>>,
    /// The bucket whose time has come, and how much of it has been dealt with.
    current: Vec<Timer>,
    read: usize,
}

/// The bucket of the next timers to look at.
struct NextTimers {
    level: u32,
    bucket: usize,
    /// The first tick the bucket spans.
    starts: u64,
}

impl Wheel {
    /// A wheel without timers.
    pub(crate) fn new() -> Self {
        Self {
            elapsed: 0,
            next: u64::MAX,
            len: 0,
            occupied: [0; LEVELS as usize],
            // Allocated with the first timer: most queues in a process never see one.
            buckets: Vec::new(),
            current: Vec::new(),
            read: 0,
        }
    }

    /// The number of timers, those included that do not count any more.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Puts a timer into the bucket of its level: the further away, the coarser. Buckets are allocated at the first
    /// timer, since most queues delay nothing.
    pub(crate) fn insert(&mut self, timer: Timer) {
        if self.buckets.is_empty() {
            self.buckets.resize_with((LEVELS * BUCKETS) as usize, Vec::new);
        }
        let due = timer.due.max(self.elapsed);
        let level = level_of(self.elapsed, due);
        let shift = level * LEVEL_BITS;
        self.next = self.next.min((due >> shift) << shift);
        let position = (due >> shift) as u32 & (BUCKETS - 1);
        if let Some(bucket) = self.buckets.get_mut((level * BUCKETS + position) as usize) {
            bucket.push(timer);
        }
        if let Some(bits) = self.occupied.get_mut(level as usize) {
            *bits |= 1 << position;
        }
        self.len += 1;
    }

    /// The tick at which [`Self::pop_due`] has something to do. Never later than the earliest timer's.
    #[inline]
    pub(crate) fn next(&self) -> Option<u64> {
        (self.len > 0).then_some(self.next)
    }

    /// The next timer due at `now`. Each timer looked at costs one unit of `budget`; `None` with the budget used up means
    /// that there may be more.
    pub(crate) fn pop_due(&mut self, now: u64, budget: &mut u32) -> Option<Timer> {
        loop {
            while let Some(timer) = self.current.get(self.read).copied() {
                *budget = budget.checked_sub(1)?;
                self.read += 1;
                self.len -= 1;
                if timer.due <= self.elapsed {
                    return Some(timer);
                }
                // The bucket's span begins now, so the timer moves to a lower level.
                self.insert(timer);
            }
            if !self.open_next(now) {
                return None;
            }
        }
    }

    /// Makes the bucket whose time has come the current one.
    fn open_next(&mut self, now: u64) -> bool {
        self.read = 0;
        self.current.clear();
        self.current.shrink_to(ROOM_KEPT);
        let next = self.find_next();
        self.next = next.as_ref().map_or(u64::MAX, |next| next.starts);
        let Some(next) = next.filter(|next| next.starts <= now) else {
            self.elapsed = self.elapsed.max(now);
            return false;
        };
        self.elapsed = self.elapsed.max(next.starts);
        if let Some(bucket) = self.buckets.get_mut(next.bucket) {
            std::mem::swap(bucket, &mut self.current);
        }
        if let Some(bits) = self.occupied.get_mut(next.level as usize) {
            *bits &= *bits - 1;
        }
        true
    }

    /// Keeps only the timers that count.
    pub(crate) fn retain(&mut self, counts: impl Fn(Timer) -> bool) {
        self.current.drain(..self.read);
        self.read = 0;
        let buckets = self.buckets.iter_mut().chain([&mut self.current]);
        self.len = buckets
            .map(|bucket| {
                bucket.retain(|timer| counts(*timer));
                bucket.shrink_to(ROOM_KEPT.max(2 * bucket.len()));
                bucket.len()
            })
            .sum();
        for (bits, level) in self.occupied.iter_mut().zip(self.buckets.chunks(BUCKETS as usize)) {
            *bits = level.iter().rev().fold(0, |bits, bucket| bits << 1 | u64::from(!bucket.is_empty()));
        }
    }

    /// The earliest bucket: the first one of the lowest level that has any. (A bucket is opened before the time passes
    /// its start, so those of a level start after the span of the level below ends.)
    fn find_next(&self) -> Option<NextTimers> {
        let (level, bits) = (0..).zip(&self.occupied).find(|(_, bits)| **bits != 0)?;
        Some(self.first_of(level, *bits))
    }

    /// The first occupied bucket of a level, and when it begins.
    fn first_of(&self, level: u32, occupied: u64) -> NextTimers {
        let position = occupied.trailing_zeros();
        let shift = level * LEVEL_BITS;
        let above = shift + LEVEL_BITS;
        let starts = ((self.elapsed >> above) << above) | (u64::from(position) << shift);
        NextTimers { level, bucket: (level * BUCKETS + position) as usize, starts }
    }
}

/// The lowest level on which `due` and now are in different buckets.
fn level_of(elapsed: u64, due: u64) -> u32 {
    let differing = (elapsed ^ due) | u64::from(BUCKETS - 1);
    ((u64::BITS - 1 - differing.leading_zeros()) / LEVEL_BITS).min(LEVELS - 1)
}
