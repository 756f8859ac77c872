//! [`timed`] and [`exceeds`]: measure the CPU time of a piece of work.
//!
//! Reading the clock of a thread is a system call of 0.4 µs. [`timed`] makes two, and its caller decides whether to measure at
//! all; [`exceeds`] makes one in a millisecond, for work that is measured always. The time of a whole connection is measured in
//! `http/metered.rs`, shares of users are kept in `fairness/pacing.rs`.

use std::cell::Cell;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Does work, and returns the CPU time of this thread that it took. Other threads do not count.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let begin = thread_time();
    let worked = work();
    (worked, thread_time().saturating_sub(begin))
}

/// The age at which the last reading of a thread's clock is replaced.
const MAX_AGE: Duration = Duration::from_millis(1);

thread_local! {
    /// The last reading of this thread's clock, and when it was made.
    static LAST_READING: Cell<Option<(Instant, Duration)>> = const { Cell::new(None) };
}

/// Does work, and returns true if it took more CPU time of this thread than `limit`. What the thread did up to a millisecond
/// before may count as well.
pub(crate) fn exceeds<T>(limit: Duration, work: impl FnOnce() -> T) -> (T, bool) {
    let begun = Instant::now();
    let before = recent_thread_time(begun);
    let worked = work();
    // A thread uses no more CPU time than passes, so that the clock is read only after long work.
    let is_long = begun.elapsed() > limit;
    (worked, is_long && thread_time().saturating_sub(before) > limit)
}

/// The CPU time of this thread at most [`MAX_AGE`] ago.
fn recent_thread_time(now: Instant) -> Duration {
    if let Some((at, time)) = LAST_READING.get()
        && now.saturating_duration_since(at) < MAX_AGE
    {
        return time;
    }
    let time = thread_time();
    LAST_READING.set(Some((now, time)));
    time
}

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_work_exceeds_a_limit_and_long_waiting_does_not() {
        let limit = Duration::from_millis(20);
        let busy = |time: Duration| {
            let end = thread_time() + time;
            while thread_time() < end {}
        };
        for _ in 0..3 {
            assert!(exceeds(limit, || busy(limit * 2)).1);
            assert!(!exceeds(limit, || busy(limit / 2)).1);
            assert!(!exceeds(limit, || std::thread::sleep(limit * 2)).1);
        }
    }

    #[test]
    fn work_counts_and_waiting_does_not() {
        let wait = Duration::from_millis(50);
        assert!(timed(|| std::thread::sleep(wait)).1 < wait / 2);
        let (begun, took) = timed(|| {
            let begun = Instant::now();
            while begun.elapsed() < wait {}
            begun
        });
        assert!(took > Duration::ZERO && took <= begun.elapsed());
    }
}
