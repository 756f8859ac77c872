//! The clock of a queue: nanoseconds since it was made.
//!
//! The state machine takes time as a `u64`, so that it can be tested without a clock and a deadline takes eight bytes
//! per delayed key. The base is tokio's `Instant`, which is monotonic and can be paused in tests. A queue without a
//! name and without delays never reads it: reading a clock would cost as much as the queue itself.

use std::time::Duration;

use tokio::time::Instant;

/// Nanoseconds since the queue was made, by tokio's clock, which tests can pause. Monotonic: setting the wall clock
/// changes nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now() }
    }

    pub(crate) fn now(&self) -> u64 {
        nanos(self.start.elapsed())
    }

    /// The instant at `nanos`; `None` beyond the range of the platform.
    pub(crate) fn instant(&self, nanos: u64) -> Option<Instant> {
        self.start.checked_add(Duration::from_nanos(nanos))
    }
}

/// A duration as nanoseconds; what exceeds 584 years is 584 years.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
