//! [`KeyView`] and [`KeyState`]: one key as [`Queue::list`](crate::Queue::list) shows it.
//!
//! A view is a copy of one moment, for debug pages and tests. Decisions based on it are stale at once: a consumer may
//! take the key before the caller looks. client-go has no counterpart, which makes a stuck controller hard to look
//! into.

use std::time::Duration;

use crate::priority::Priority;

/// One known key, for debugging pages and tests.
///
/// ```
/// use listwatch_workqueue::{KeyState, Options, Queue};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), listwatch_workqueue::AddError<&'static str>> {
/// let queue: Queue<&str> = Queue::new(Options::new());
/// queue.add("a")?;
/// let item = queue.get().await;
/// queue.add("a")?; // while it is processed: it runs once more afterwards
/// let states: Vec<KeyState> = queue.list().into_iter().map(|view| view.state).collect();
/// assert_eq!(states, [KeyState::Processing { again: true }]);
/// # drop(item);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyView<K> {
    /// The key.
    pub key: K,
    /// Ready, processing or delayed. A key can be processing and delayed at once; then this says processing and
    /// [`due_in`](Self::due_in) is set.
    pub state: KeyState,
    /// The priority it is queued with, or was last.
    pub priority: Priority,
    /// The time it has been processing, or else ready. Known only to queues with a name: the others do not
    /// read the clock for it.
    pub age: Option<Duration>,
    /// The time until its delayed occurrence is due, if it has one, in any state.
    pub due_in: Option<Duration>,
}

/// The state of a key. Each known key is in exactly one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyState {
    /// Waits for a consumer.
    Ready,
    /// A consumer has it.
    Processing {
        /// It was added again and will be ready once more when done.
        again: bool,
    },
    /// Waits for its time.
    Delayed,
}
