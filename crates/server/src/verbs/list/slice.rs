//! [`TimeSlice`]: how long a list keeps its worker.
//!
//! A list over memory waits for nothing: objects that do not match produce nothing to write, and a client that reads fast takes each piece at once.
//! Whoever else is to be served by the same worker would wait for its end.

use std::time::{Duration, Instant};

/// Long enough to encode a few pieces, short enough that nobody notices the wait.
const SLICE: Duration = Duration::from_millis(1);

/// The time since a list began to use its worker.
///
/// tokio's own budget does not help here: reading from memory never returns pending.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeSlice {
    since: Instant,
}

impl TimeSlice {
    pub(super) fn begin() -> Self {
        Self { since: Instant::now() }
    }

    /// Yields to other tasks of the worker if the slice is used up.
    pub(super) async fn yield_when_used_up(&mut self) {
        if self.since.elapsed() >= SLICE {
            tokio::task::yield_now().await;
            *self = Self::begin();
        }
    }
}
