//! The result of [`Queue::list`](crate::Queue::list).

use std::time::Duration;

use crate::priority::Priority;

/// One known key, for debugging pages and tests.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyView<K> {
    /// The key.
    pub key: K,
    /// Where it stands.
    pub state: KeyState,
    /// The priority it is queued with, or was last.
    pub priority: Priority,
    /// The time it has been processing, or else ready. Known only to queues with a name: the others do not
    /// read the clock for it.
    pub age: Option<Duration>,
    /// When its delayed occurrence falls due, if it has one (whatever the state).
    pub due_in: Option<Duration>,
}

/// Where a key stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyState {
    /// Waits for a consumer.
    Ready,
    /// A consumer has it.
    Processing {
        /// It was added again meanwhile and will be ready once more when done.
        again: bool,
    },
    /// Waits for its time.
    Delayed,
}
