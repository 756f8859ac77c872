//! [`Queue`]: the cloneable handle of a work queue.
//!
//! Its methods are grouped by subject: [`crate::produce`] (adding), [`crate::get`] (consuming), [`crate::drain`]
//! (shutting down), and here construction, pausing and inspection.

use std::fmt;
use std::sync::Arc;

use crate::core::{CoreSettings, QueueCore};
use crate::inspect::KeyView;
use crate::metrics::{Source, Stats};
use crate::reason::Reason;
use crate::shared::SharedQueue;
use crate::{Item, Key, Options};

/// A work queue. A clone is another handle to the same queue. See the [crate] for examples.
///
/// Its invariant: a key is with at most one consumer at a time, and a key that was added while it was being processed
/// is handed out again afterwards. So a consumer that reads the present state, rather than the event, misses nothing.
///
/// ```
/// use listwatch_workqueue::{Options, Queue};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let queue = Queue::<&str>::new(Options::new());
/// queue.add("default/web")?;
/// queue.add("default/web")?; // known already: it will be handed out once
/// assert_eq!(queue.len(), 1);
///
/// let item = queue.get().await.ok_or("shut down")?;
/// queue.add("default/web")?; // in flight: it will be handed out once more
/// assert_eq!((queue.len(), queue.in_flight()), (0, 1));
/// drop(item);
/// assert_eq!((queue.len(), queue.in_flight()), (1, 0));
/// # Ok(())
/// # }
/// ```
#[doc(alias = "RateLimitingInterface")]
#[doc(alias = "DelayingInterface")]
#[doc(alias = "TypedRateLimitingInterface")]
#[doc(alias = "workqueue.Interface")]
pub struct Queue<K, R = ()>(Arc<SharedQueue<K, R>>);

impl<K: Key, R: Reason> Queue<K, R> {
    /// Makes a queue. It costs no thread and no task.
    #[must_use]
    pub fn new(options: Options<K>) -> Self {
        let bounded = options.capacity != usize::MAX;
        let direct = bounded || options.tenant_of.is_some();
        let core = QueueCore::new(CoreSettings {
            capacity: options.capacity,
            tenant_of: options.tenant_of,
            tenant_in_flight_max: options.tenant_in_flight_max,
            background_every: options.background_every,
            metered: !options.name.is_empty(),
        });
        Self(Arc::new(SharedQueue::new(options.name, core, direct, options.limiter)))
    }

    #[inline]
    pub(crate) fn shared(&self) -> &SharedQueue<K, R> {
        &self.0
    }

    /// [`Self::get`] for a consumer that moves the item into another task.
    #[must_use]
    pub async fn get_owned(&self) -> Option<Item<'static, K, R>> {
        Some(self.get().await?.into_owned(&self.0))
    }

    /// Stops handing out keys; adds are accepted as before and items in flight continue. Shutting down resumes. For a
    /// controller that has lost its leadership, or that waits for a dependency.
    pub fn pause(&self) {
        self.0.set_paused(true);
    }

    /// Hands out keys again after a [`pause`](Self::pause).
    pub fn resume(&self) {
        self.0.set_paused(false);
    }

    /// The number of keys that are ready to be handed out.
    #[must_use]
    pub fn len(&self) -> usize {
        self.due_state().core.ready_len()
    }

    /// True if no key is ready.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of keys that are being processed.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.0.state().core.in_flight()
    }

    /// The number of distinct keys in the queue, in any state. [`Options::capacity`] limits it.
    #[must_use]
    pub fn known(&self) -> usize {
        self.0.state().core.known()
    }

    /// Returns the key that would be handed out next, without taking it. Another consumer may take it before the caller
    /// does.
    #[must_use]
    pub fn peek(&self) -> Option<K> {
        self.due_state().core.peek().cloned()
    }

    /// Every key of the queue and its state, in no particular order. For debugging: it holds the lock while it copies
    /// all keys.
    #[must_use]
    pub fn list(&self) -> Vec<KeyView<K>> {
        let now = self.0.clock.now();
        self.due_state().core.list(now)
    }

    /// The state with every key whose time has come moved to the ready ones.
    fn due_state(&self) -> crate::sync::MutexGuard<'_, crate::shared::QueueState<K, R>> {
        let mut state = self.0.state();
        if state.core.delayed_len() > 0 {
            let now = self.0.clock.now();
            state.core.advance_all(now);
        }
        state
    }
}

impl<K: Key, R: Reason> Source for Queue<K, R> {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn stats(&self) -> Stats {
        let now = self.0.clock.now();
        let mut state = self.due_state();
        self.0.time_each(&mut state);
        state.core.stats(now)
    }
}

impl<K: Key, R: Reason> Default for Queue<K, R> {
    fn default() -> Self {
        Self::new(Options::default())
    }
}

impl<K, R> Clone for Queue<K, R> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K, R> fmt::Debug for Queue<K, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("name", &self.0.name).finish_non_exhaustive()
    }
}
