//! [`AddError`]: the two reasons for which a key is not accepted.
//!
//! client-go silently ignores an add after the shutdown. Here it is an error that returns the key, because a bounded
//! queue adds a second reason and a producer must be able to distinguish them: a full queue is worth waiting for, a
//! closed one is not. Retries of known keys are never refused for lack of room.

/// The reason that a key was not accepted. The key comes back, so that nothing is lost by accident.
///
/// ```
/// use listwatch_workqueue::{AddError, Options, Queue};
///
/// let queue = Queue::<&str>::new(Options::new().capacity(1));
/// assert!(queue.add("a").is_ok());
/// assert!(queue.add("a").is_ok(), "a known key takes no room");
/// assert_eq!(queue.add("b"), Err(AddError::Full("b")));
/// queue.shut_down();
/// assert_eq!(queue.add("a"), Err(AddError::ShutDown("a")));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddError<K> {
    /// The queue is shutting down and takes no new keys. Drop the key, or pass it to the process that takes over.
    #[error("the work queue is shutting down")]
    ShutDown(K),
    /// The queue has as many keys as [`Options::capacity`](crate::Options::capacity) allows, and this is a new one. Try
    /// again later, or wait for room with [`Queue::add_wait`](crate::Queue::add_wait).
    #[error("the work queue is full")]
    Full(K),
}

impl<K> AddError<K> {
    /// The key that was not accepted.
    ///
    /// ```
    /// use listwatch_workqueue::{Options, Queue};
    ///
    /// let queue = Queue::<&str>::new(Options::new().capacity(1));
    /// assert!(queue.add("a").is_ok());
    /// assert_eq!(queue.add("b").unwrap_err().into_key(), "b");
    /// ```
    pub fn into_key(self) -> K {
        match self {
            Self::ShutDown(key) | Self::Full(key) => key,
        }
    }
}
