//! [`TimeSlice`]: the time that a list, or the initial state of a watch, may keep an async worker.
//!
//! A walk over memory never awaits: objects that do not match produce no output, and a client that reads fast accepts
//! each piece at once. Other requests on the same worker would wait until its end.

use std::time::{Duration, Instant};

/// Long enough to encode a few pieces, short enough that the wait does not matter.
const SLICE: Duration = Duration::from_millis(1);

/// The time since a walk began to use its worker.
///
/// tokio's own budget does not help here: reading from memory never returns pending.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeSlice {
    since: Instant,
}

impl TimeSlice {
    pub(crate) fn begin() -> Self {
        Self { since: Instant::now() }
    }

    /// Returns true if the slice is used up.
    pub(crate) fn is_over(self) -> bool {
        self.since.elapsed() >= SLICE
    }

    /// Yields to other tasks of the worker if the slice is used up.
    pub(crate) async fn yield_when_used_up(&mut self) {
        if self.is_over() {
            tokio::task::yield_now().await;
            *self = Self::begin();
        }
    }
}
