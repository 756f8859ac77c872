//! [`Item`]: a key that a consumer has taken, with the guarantee that no other consumer has the same.
//!
//! client-go's `Get` returns a key and relies on a `defer Done(key)`; here the end is the `Drop` of the item, so it
//! cannot be forgotten, and a panic retries the key instead of losing it. The item borrows the queue, because counting
//! references twice per key would cost as much as the queue itself; the runner uses an owned form for its tasks.
//!
//! The failure count is the rate limiter's (`limiter`); the item only reports success and failure to it.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::Key;
use crate::core::TakenKey;
use crate::core::slab::Slot;
use crate::priority::Priority;
use crate::reason::Reason;
use crate::shared::SharedQueue;

/// A key that was handed out. While it exists no other consumer gets the same key; when it is dropped the key is done.
///
/// A key whose consumer panics is not lost: it is released *and* retried with the queue's rate limiter. For tasks that
/// may be cancelled, [`Item::at_least_once`] enables the same.
///
/// How the item ends is the result of the work: [`finish`](Self::finish) (success), [`retry`](Self::retry) (failure),
/// [`retry_after`](Self::retry_after) (look again later), or just a drop, which leaves the failure count alone.
///
/// ```
/// use listwatch_workqueue::{Options, Queue};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let queue = Queue::<&str>::new(Options::new());
/// queue.add("default/web")?;
///
/// let item = queue.get().await.ok_or("shut down")?;
/// assert_eq!((*item.key(), item.retries()), ("default/web", 0));
/// item.retry(); // the work failed: the key comes back after the rate limiter's delay
///
/// let item = queue.get().await.ok_or("shut down")?;
/// assert_eq!(item.retries(), 1);
/// item.finish(); // it succeeded: the failures are forgotten
/// assert_eq!(queue.retries(&"default/web"), 0);
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping an item marks its key done"]
#[doc(alias = "Done")]
pub struct Item<'q, K: Key, R: Reason = ()> {
    queue: Home<'q, K, R>,
    key: K,
    reason: R,
    slot: Slot,
    priority: Priority,
    at_least_once: bool,
    /// Has no key in hand: another item has taken over, or there is no next.
    over: bool,
}

/// Borrowed by default: a shared counter bumped twice per key would cost as much as the queue itself.
enum Home<'q, K, R> {
    Borrowed(&'q SharedQueue<K, R>),
    Owned(Arc<SharedQueue<K, R>>),
}

impl<K, R> Deref for Home<'_, K, R> {
    type Target = SharedQueue<K, R>;

    #[inline]
    fn deref(&self) -> &SharedQueue<K, R> {
        match self {
            Self::Borrowed(shared) => shared,
            Self::Owned(shared) => shared,
        }
    }
}

impl<'q, K: Key, R: Reason> Item<'q, K, R> {
    #[inline]
    pub(crate) fn new(shared: &'q SharedQueue<K, R>, taken: TakenKey<K, R>) -> Self {
        let TakenKey { slot, key, reason, priority } = taken;
        Self { queue: Home::Borrowed(shared), key, reason, slot, priority, at_least_once: false, over: false }
    }

    /// Returns the item without the borrow, for a task that outlives this scope.
    pub(crate) fn into_owned(mut self, home: &Arc<SharedQueue<K, R>>) -> Item<'static, K, R> {
        let owned = Item {
            queue: Home::Owned(Arc::clone(home)),
            key: self.key.clone(),
            reason: std::mem::take(&mut self.reason),
            slot: self.slot,
            priority: self.priority,
            at_least_once: self.at_least_once,
            over: false,
        };
        self.over = true;
        owned
    }

    /// The key.
    #[inline]
    #[must_use]
    pub fn key(&self) -> &K {
        &self.key
    }

    /// Everything the key was added with since it was last handed out, merged.
    #[must_use]
    pub fn reason(&self) -> &R {
        &self.reason
    }

    /// Takes the reason out, for a consumer that needs to own it.
    pub fn take_reason(&mut self) -> R {
        std::mem::take(&mut self.reason)
    }

    /// The most urgent priority it was added with.
    #[must_use]
    pub fn priority(&self) -> Priority {
        self.priority
    }

    /// The number of times it has failed so far: the number of retries since the last success.
    #[must_use]
    pub fn retries(&self) -> u32 {
        self.queue.retries(&self.key)
    }

    /// From now on, dropping the item without [`finish`](Self::finish), [`retry`](Self::retry) or
    /// [`retry_after`](Self::retry_after) retries the key: a cancelled task loses nothing.
    pub fn at_least_once(mut self) -> Self {
        self.at_least_once = true;
        self
    }

    /// The work succeeded: the key is done and its failure count is reset.
    pub fn finish(mut self) {
        self.at_least_once = false;
        self.queue.forget(&self.key);
    }

    /// The work failed: done, and once more after the delay that the rate limiter returns. The reason is kept.
    pub fn retry(mut self) {
        self.at_least_once = false;
        self.requeue_limited();
    }

    /// Done, and once more after `delay`; not a failure. The reason is not kept: this is a new occurrence.
    pub fn retry_after(mut self, delay: Duration) {
        self.at_least_once = false;
        self.queue.forget(&self.key);
        let add = self.queue.prepare(self.key.clone(), R::default(), self.priority);
        let _ = self.queue.add_after(add, delay);
    }

    /// Marks the key done and becomes the next one, waiting for it, in one step: much cheaper than a drop and
    /// [`Queue::get_blocking`](crate::Queue::get_blocking), for loops in which that counts. `false` means that the queue is
    /// shut down and empty, and the item has ended.
    ///
    /// As with a drop, the failure count is left alone; call [`Queue::forget`](crate::Queue::forget) or
    /// [`Queue::add_rate_limited`](crate::Queue::add_rate_limited) before if it matters.
    ///
    /// ```
    /// # use listwatch_workqueue::{Options, Queue};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let queue: Queue<u32> = Queue::new(Options::new());
    /// # queue.add(1)?;
    /// # queue.shut_down();
    /// if let Some(mut item) = queue.get_blocking() {
    ///     loop {
    ///         println!("{}", item.key());
    ///         if !item.next_blocking() {
    ///             break;
    ///         }
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn next_blocking(&mut self) -> bool {
        if std::mem::take(&mut self.at_least_once) {
            self.requeue_limited();
        }
        // Over while it waits: a panic on the way (in the key's `clone`, say) must not mark the key done twice.
        let done = (!std::mem::replace(&mut self.over, true)).then_some(self.slot);
        match self.queue.try_next(done) {
            Some(taken) => self.hold(taken),
            None => self.wait_for_next(),
        }
        !self.over
    }

    #[cold]
    fn wait_for_next(&mut self) {
        if let Some(taken) = self.queue.wait_blocking() {
            self.hold(taken);
        }
    }

    /// Field by field, and not by way of a new item: copying what was just written in pieces stalls the processor.
    #[inline]
    fn hold(&mut self, taken: TakenKey<K, R>) {
        let TakenKey { slot, key, reason, priority } = taken;
        (self.slot, self.key, self.reason, self.priority) = (slot, key, reason, priority);
        self.over = false;
    }

    #[cold]
    fn requeue_limited(&mut self) {
        let reason = std::mem::take(&mut self.reason);
        // Refused only by a queue that is shutting down, which drops delayed keys anyway.
        let _ = self.queue.add_rate_limited(self.key.clone(), reason, self.priority);
    }
}

impl<K: Key, R: Reason> Drop for Item<'_, K, R> {
    #[inline]
    fn drop(&mut self) {
        if self.over {
            return;
        }
        if self.at_least_once || std::thread::panicking() {
            self.requeue_limited();
        }
        self.queue.done(self.slot);
    }
}

impl<K: Key + fmt::Debug, R: Reason> fmt::Debug for Item<'_, K, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Item")
            .field("key", &self.key)
            .field("priority", &self.priority)
            .finish_non_exhaustive()
    }
}
