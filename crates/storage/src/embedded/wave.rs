//! The wait for more writes before a batch is committed.
//!
//! A client whose write was answered often writes again at once. If a batch is committed as soon as the first of them is
//! there, the others wait for the next one, and the disk syncs twice for what one sync could do. Their number is known:
//! the clients that were just answered, and those that were waiting. So it pays to wait for them for a fraction of the
//! time of a sync; if they do not write again, the wait is tried only occasionally. A single client never waits.

use std::thread;
use std::time::Duration;

/// At first the thread only yields, which is enough on an idle machine.
const YIELDS: u32 = 4;
/// Then it sleeps, a tenth of a millisecond in all with what the system adds.
const SLEEPS: u32 = 2;
const SLEEP: Duration = Duration::from_micros(20);

/// The most batches to skip waiting for, after waits without effect.
const MAX_SKIPPED: u32 = 63;

/// An estimate of the number of writers, and of whether waiting for them pays.
///
/// Used by the writer's thread alone. Time spent waiting is bounded by [`YIELDS`] and [`SLEEPS`] per batch, about a
/// tenth of a millisecond, against syncs that take a hundred microseconds to several milliseconds.
#[derive(Debug, Default)]
pub(super) struct Wave {
    /// Writes of the last batch, and those that had arrived when it was committed.
    expected: usize,
    /// Waits in the present batch.
    waited: u32,
    /// Batches that are still committed without a wait.
    skip: u32,
    /// The number of batches to skip after the next wait without effect; doubles each time, up to [`MAX_SKIPPED`].
    penalty: u32,
}

impl Wave {
    /// Returns true if the queue should be read once more although it is empty, with `here` in the batch. Waits a little if so.
    pub(super) fn wait(&mut self, here: usize) -> bool {
        if here >= self.expected || self.skip > 0 || self.waited >= YIELDS + SLEEPS {
            return false;
        }
        self.waited += 1;
        if self.waited <= YIELDS {
            thread::yield_now()
        } else {
            thread::sleep(SLEEP)
        }
        true
    }

    /// Records a batch that was committed with `here` writes, while `waiting` more have arrived.
    ///
    /// A wait was worth it if the batch became larger than half of the expectation.
    pub(super) fn committed(&mut self, here: usize, waiting: usize) {
        if self.waited > 0 {
            let worth_it = here * 2 > self.expected;
            self.penalty = if worth_it { 0 } else { (self.penalty * 2 + 1).min(MAX_SKIPPED) };
            self.skip = self.penalty;
        } else {
            self.skip = self.skip.saturating_sub(1);
        }
        self.waited = 0;
        self.expected = here + waiting;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_writer_never_waits() {
        let mut wave = Wave::default();
        for _ in 0..10 {
            assert!(!wave.wait(1));
            wave.committed(1, 0);
        }
    }

    #[test]
    fn a_wave_waits_for_the_writers_of_the_last_one() {
        let mut wave = Wave::default();
        wave.committed(5, 11);
        assert!(wave.wait(15));
        assert!(!wave.wait(16));
    }

    #[test]
    fn a_wave_that_waited_in_vain_is_not_repeated_at_once() {
        let mut wave = Wave::default();
        wave.committed(16, 0);
        assert_eq!((0..100).take_while(|_| wave.wait(1)).count() as u32, YIELDS + SLEEPS);
        wave.committed(1, 3);
        assert!(!wave.wait(1), "the next batch goes without");
        wave.committed(1, 3);
        assert!(wave.wait(1), "then it is tried again");
    }
}
