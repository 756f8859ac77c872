//! [`timed`]: measures the CPU time of a piece of work.
//!
//! It reads the clock of the calling thread, which costs a system call; the caller decides whether to measure at all.
//! The time of a whole connection is measured in `http/metered.rs`, shares of users are kept in `fairness/pacing.rs`.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Does work, and returns the CPU time of this thread that it took. Other threads do not count.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let begin = thread_time();
    let worked = work();
    (worked, thread_time().saturating_sub(begin))
}

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_counts_and_waiting_does_not() {
        let wait = Duration::from_millis(50);
        assert!(timed(|| std::thread::sleep(wait)).1 < wait / 2);
        let (begun, took) = timed(|| {
            let begun = std::time::Instant::now();
            while begun.elapsed() < wait {}
            begun
        });
        assert!(took > Duration::ZERO && took <= begun.elapsed());
    }
}
