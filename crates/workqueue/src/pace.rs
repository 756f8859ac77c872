//! Sampling: decides which keys of a queue with metrics are timed.
//!
//! Reading the clock costs as much as a third of everything else that is done for a key, and a key that is timed needs
//! it three times: when it is added, handed out and done. So each key is timed while the clock is a small part of the
//! cost, which is as long as the work on a key takes microseconds or more. When many keys in a row take less, one in
//! [`TIMED_EVERY`] is timed and stands for those after it ([`crate::metrics`]), until one of them is slow again, a
//! consumer has waited, or the metrics are read.
//!
//! A key that is not timed gets the time that was read last.

/// One in so many keys is timed while keys follow each other quickly.
pub(crate) const TIMED_EVERY: usize = if cfg!(test) { 2 } else { 16 };

/// The clock is read again after so many steps at the latest, also if no timed key has come by: duplicates of queued
/// keys may have been chosen.
const UNREAD_MAX: u32 = 2 * TIMED_EVERY as u32;

/// Keys follow each other quickly if a step takes less than this: 20 times what a look at the clock costs or more.
const QUICK_NANOS: u64 = 2_000;

/// So many looks at the clock in a row must find quick steps before keys are left out.
const QUICK_LOOKS: u32 = 64;

/// A time in nanoseconds, and whether it was read from the clock for its key. Packed into one word, because there are
/// two per key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp(u64);

impl Stamp {
    /// No time at all.
    pub(crate) const NONE: Self = Self(0);

    pub(crate) fn exact(nanos: u64) -> Self {
        Self(nanos << 1 | 1)
    }

    pub(crate) fn about(nanos: u64) -> Self {
        Self(nanos << 1)
    }

    #[inline]
    pub(crate) fn nanos(self) -> u64 {
        self.0 >> 1
    }

    /// The time as that of a key for which the clock was not read.
    #[inline]
    pub(crate) fn not_exact(self) -> Self {
        Self(self.0 & !1)
    }

    #[inline]
    pub(crate) fn is_exact(self) -> bool {
        self.0 & 1 != 0
    }
}

/// The last time read under the state lock, and the pace of keys.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    seen: u64,
    /// The clock was read during the present visit, so that it need not be read again.
    fresh: bool,
    /// Steps since the clock was last read.
    unread: u32,
    /// Looks at the clock in a row that found quick steps.
    quick: u32,
    /// Adds that bypassed the inbox.
    direct_adds: usize,
}

impl Pace {
    /// Begins a visit: the state lock was just taken.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.fresh = false;
    }

    /// The time that was read last.
    #[inline]
    pub(crate) fn seen(&self) -> u64 {
        self.seen
    }

    /// True if only some keys are timed.
    #[inline]
    pub(crate) fn is_sparse(&self) -> bool {
        self.quick >= QUICK_LOOKS
    }

    /// Times each key again.
    pub(crate) fn time_each(&mut self) {
        self.quick = 0;
    }

    /// The time, read at most once per visit.
    #[inline]
    pub(crate) fn now(&mut self, read: impl FnOnce() -> u64) -> u64 {
        if !self.fresh {
            self.note(read());
        }
        self.seen
    }

    /// Takes a reading of the clock, and updates the estimate of the time per key since the last one.
    #[inline]
    fn note(&mut self, now: u64) {
        let spent = now.saturating_sub(self.seen);
        // Zero means a paused clock in a test, which will jump later.
        let quick = spent > 0 && spent < QUICK_NANOS * u64::from(self.unread + 1);
        self.quick = if quick { self.quick.saturating_add(1) } else { 0 };
        (self.seen, self.fresh, self.unread) = (now, true, 0);
    }

    /// The time of an add that bypasses the inbox.
    pub(crate) fn add(&mut self, read: impl FnOnce() -> u64) -> Stamp {
        self.direct_adds = self.direct_adds.wrapping_add(1);
        if self.is_sparse() && !self.direct_adds.is_multiple_of(TIMED_EVERY) {
            return Stamp::about(self.seen);
        }
        // Not by way of `now`: how quickly adds follow each other is no measure of the work on a key.
        Stamp::exact(if self.fresh { self.seen } else { read() })
    }

    /// The time of a hand-out; `timed` is true if the add was timed.
    #[inline]
    pub(crate) fn take(&mut self, timed: bool, read: impl FnOnce() -> u64) -> Stamp {
        if timed || self.fresh || !self.is_sparse() {
            return Stamp::exact(self.now(read));
        }
        self.unread += 1;
        if self.unread >= UNREAD_MAX {
            self.now(read);
        }
        Stamp::about(self.seen)
    }

    /// The time when a key is done; `timed` is true if the hand-out was timed.
    #[inline]
    pub(crate) fn done(&mut self, timed: bool, read: impl FnOnce() -> u64) -> Stamp {
        if timed { Stamp::exact(self.now(read)) } else { Stamp::about(self.seen) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue whose keys take `step` nanoseconds each, for `keys` of them; how many were timed.
    fn run(pace: &mut Pace, time: &mut u64, step: u64, keys: usize) -> usize {
        let timed = |key: usize, pace: &Pace| !pace.is_sparse() || key.is_multiple_of(TIMED_EVERY);
        let mut exact = 0;
        for key in 0..keys {
            *time += step;
            pace.begin();
            exact += usize::from(pace.take(timed(key, pace), || *time).is_exact());
        }
        exact
    }

    #[test]
    fn slow_keys_are_timed_each() {
        let (mut pace, mut time) = (Pace::default(), 1);
        assert_eq!(run(&mut pace, &mut time, QUICK_NANOS, 1000), 1000);
    }

    #[test]
    fn of_many_quick_keys_some_are_timed() {
        let (mut pace, mut time) = (Pace::default(), 1);
        let exact = run(&mut pace, &mut time, 100, 10_000);
        assert!(exact <= 10_000 / TIMED_EVERY + QUICK_LOOKS as usize, "{exact}");
        assert!(pace.is_sparse() && time - pace.seen() <= 100 * TIMED_EVERY as u64);
    }

    #[test]
    fn one_slow_key_ends_sparse_timing() {
        let (mut pace, mut time) = (Pace::default(), 1);
        run(&mut pace, &mut time, 100, 1000);
        assert!(pace.is_sparse());
        run(&mut pace, &mut time, 1_000_000_000, TIMED_EVERY);
        assert!(!pace.is_sparse());
    }

    /// With a paused clock thousands of keys take no time at all, and the next one may take an hour.
    #[test]
    fn time_that_stands_still_is_not_quick() {
        let (mut pace, mut time) = (Pace::default(), 1);
        assert_eq!(run(&mut pace, &mut time, 0, 1000), 1000);
    }

    #[test]
    fn the_clock_is_read_although_no_timed_key_comes_by() {
        let (mut pace, mut time) = (Pace::default(), 1);
        run(&mut pace, &mut time, 100, 1000);
        for _ in 0..=UNREAD_MAX {
            time += 1_000_000;
            pace.begin();
            pace.take(false, || time);
        }
        assert!(!pace.is_sparse());
    }

    #[test]
    fn a_visit_reads_the_clock_once() {
        let mut pace = Pace::default();
        pace.begin();
        assert_eq!(pace.done(true, || 7), Stamp::exact(7));
        assert_eq!(pace.take(true, || unreachable!()), Stamp::exact(7));
    }
}
