//! Adding keys: at once, after a delay, after a failure, or when there is room.
//!
//! Hashing and reading the clock happen before the lock is taken. A key that waits for several delays keeps the
//! earliest, as in client-go's delaying queue; an add without delay leaves a pending delay as it is, so a key may run
//! now and again at its time. The rate limiter has a lock of its own, since its code is the user's and may be slow.
//! Consumers are in `get`.

use std::fmt;
use std::future::Future;
use std::hash::BuildHasher;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::clock::nanos;
use crate::core::Add;
use crate::pace::Stamp;
use crate::priority::Priority;
use crate::reason::Reason;
use crate::shared::SharedQueue;
use crate::sync::lock;
use crate::{AddError, Key, Queue};

impl<K: Key, R: Reason> SharedQueue<K, R> {
    /// Half of a hash is enough to distinguish keys in nearly all cases, and makes every structure that stores it
    /// smaller.
    #[inline]
    fn hash(&self, key: &K) -> u32 {
        self.hasher.hash_one(key) as u32
    }

    /// The addition of a key. Its hash is computed outside of every lock.
    #[inline]
    pub(crate) fn prepare(&self, key: K, reason: R, priority: Priority) -> Add<K, R> {
        Add { hash: self.hash(&key), key, reason, priority, at: Stamp::NONE }
    }

    /// Adds a prepared key when the delay is over; at once, and counted as a retry, if there is none.
    pub(crate) fn add_after(&self, add: Add<K, R>, delay: Duration) -> Result<(), AddError<K>> {
        if !delay.is_zero() {
            return self.add_delayed(add, self.clock.now().saturating_add(nanos(delay)));
        }
        let mut state = self.state();
        state.core.note_retry();
        let result = self.add_to(&mut state, add);
        self.release(state);
        result
    }

    pub(crate) fn add_rate_limited(&self, key: K, reason: R, priority: Priority) -> Result<(), AddError<K>> {
        let delay = lock(&self.limiter).when(&key, Duration::from_nanos(self.clock.now()));
        self.add_after(self.prepare(key, reason, priority), delay)
    }

    pub(crate) fn forget(&self, key: &K) {
        lock(&self.limiter).forget(key);
    }

    pub(crate) fn retries(&self, key: &K) -> u32 {
        lock(&self.limiter).retries(key)
    }
}

/// Producers.
impl<K: Key, R: Reason> Queue<K, R> {
    /// Adds a key. If it is queued already nothing changes; if it is being processed it will be handed out once more
    /// after that.
    ///
    /// # Errors
    /// When the queue is shut down, or bounded and full.
    #[inline]
    pub fn add(&self, key: K) -> Result<(), AddError<K>> {
        self.add_with(key, R::default(), Priority::Normal)
    }

    /// Adds a key with a reason and a priority.
    ///
    /// # Errors
    /// As [`Self::add`].
    #[inline]
    pub fn add_with(&self, key: K, reason: R, priority: Priority) -> Result<(), AddError<K>> {
        self.shared().add(self.shared().prepare(key, reason, priority))
    }

    /// Adds a key after `delay` (at least; at most a millisecond more). Of several pending delays of one key the one that
    /// ends first counts, the others are dropped. It does not matter whether the key is queued or being processed
    /// now.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn add_after(&self, key: K, delay: Duration) -> Result<(), AddError<K>> {
        self.add_after_with(key, R::default(), Priority::Normal, delay)
    }

    /// [`Self::add_after`] with a reason and a priority, which apply when the time has come.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn add_after_with(
        &self,
        key: K,
        reason: R,
        priority: Priority,
        delay: Duration,
    ) -> Result<(), AddError<K>> {
        let shared = self.shared();
        shared.add_after(shared.prepare(key, reason, priority), delay)
    }

    /// Counts a failure of the key and adds it after the delay that the rate limiter returns. (With an
    /// [`Item`](crate::Item) in hand, use [`Item::retry`](crate::Item::retry).)
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn add_rate_limited(&self, key: K) -> Result<(), AddError<K>> {
        self.shared().add_rate_limited(key, R::default(), Priority::Normal)
    }

    /// Takes back a pending [`Self::add_after`] of the key. `false` if there is none (any more).
    pub fn cancel(&self, key: &K) -> bool {
        let shared = self.shared();
        let mut state = shared.state();
        let cancelled = state.core.cancel(shared.hash(key), key);
        shared.release(state);
        cancelled
    }

    /// Forgets the failures of a key, so that the next [`Self::add_rate_limited`] starts from the beginning.
    pub fn forget(&self, key: &K) {
        self.shared().forget(key);
    }

    /// The number of times the key was added rate-limited since it was last forgotten.
    #[must_use]
    #[doc(alias = "NumRequeues")]
    pub fn retries(&self, key: &K) -> u32 {
        self.shared().retries(key)
    }

    /// Adds a key, waiting while the queue is full: back-pressure for the producer.
    ///
    /// ```
    /// # use listwatch_workqueue::{Options, Queue};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue: Queue<u32> = Queue::new(Options::new().capacity(1));
    /// queue.add(1)?;
    /// assert!(queue.add(2).is_err()); // rejection
    /// let (added, _) = tokio::join!(queue.add_wait(2), async { drop(queue.get().await) });
    /// added?; // back-pressure
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Only when the queue is shut down.
    pub fn add_wait(&self, key: K) -> AddWait<'_, K, R> {
        self.add_wait_with(key, R::default(), Priority::Normal)
    }

    /// [`Self::add_wait`] with a reason and a priority.
    ///
    /// # Errors
    /// Only when the queue is shut down.
    pub fn add_wait_with(&self, key: K, reason: R, priority: Priority) -> AddWait<'_, K, R> {
        let add = self.shared().prepare(key, reason, priority);
        AddWait { shared: self.shared(), add: Some(add), id: None }
    }
}

/// The future of [`Queue::add_wait`]. Dropped before it is ready, it has added nothing.
#[must_use = "futures do nothing unless awaited"]
pub struct AddWait<'q, K: Key, R: Reason> {
    shared: &'q SharedQueue<K, R>,
    add: Option<Add<K, R>>,
    id: Option<u64>,
}

impl<K: Key, R: Reason> Unpin for AddWait<'_, K, R> {}

impl<K: Key, R: Reason> Future for AddWait<'_, K, R> {
    type Output = Result<(), AddError<K>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let Some(add) = this.add.take() else { return Poll::Pending };
        let mut state = this.shared.state();
        let core = &state.core;
        if !core.is_closed() && !core.has_room() && !core.knows(add.hash, &add.key) {
            this.add = Some(add);
            state.room.register(&mut this.id, cx.waker());
            return Poll::Pending;
        }
        if let Some(id) = this.id.take() {
            state.room.remove(id);
        }
        let result = this.shared.add_to(&mut state, add);
        this.shared.release(state);
        Poll::Ready(result)
    }
}

impl<K: Key, R: Reason> Drop for AddWait<'_, K, R> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            // Whether it was still waiting or had been woken, `release` wakes the next one if there is room.
            let mut state = self.shared.state();
            state.room.remove(id);
            self.shared.release(state);
        }
    }
}

impl<K: Key, R: Reason> fmt::Debug for AddWait<'_, K, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AddWait").finish_non_exhaustive()
    }
}
