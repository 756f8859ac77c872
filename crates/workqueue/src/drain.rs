//! Shutting down: at once ([`Queue::shut_down`]) or after the remaining work ([`Queue::shut_down_with_drain`]).
//!
//! Both refuse new keys and drop delayed ones, as in client-go. A drain waits until nothing is queued or in flight,
//! which includes keys that were added again while they were processed. It cannot time out by itself: a consumer that
//! never finishes its key keeps it waiting until `shut_down` aborts it, or `Running::shut_down_within` of the runner.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::reason::Reason;
use crate::shared::SharedQueue;
use crate::{Key, Queue};

/// The result of a drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
#[doc(alias = "ShutDownWithDrain")]
pub enum Drained {
    /// Every key that was queued or in flight has been processed, re-runs included.
    Complete,
    /// [`Queue::shut_down`] was called, which ends the wait.
    Aborted,
}

/// Shutting down.
impl<K: Key, R: Reason> Queue<K, R> {
    /// Shuts down: new keys are refused, consumers still get everything that is queued, and then `None`. Delayed keys
    /// are dropped, and their number is returned. Waits for a drain end.
    ///
    /// ```
    /// use listwatch_workqueue::{Options, Queue};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), listwatch_workqueue::AddError<&'static str>> {
    /// let queue: Queue<&str> = Queue::new(Options::new());
    /// queue.add("a")?;
    /// queue.shut_down();
    /// assert!(queue.add("b").is_err(), "no new keys");
    /// assert!(queue.get().await.is_some(), "what is queued is still handed out");
    /// assert!(queue.get().await.is_none(), "then consumers end");
    /// # Ok(())
    /// # }
    /// ```
    pub fn shut_down(&self) -> usize {
        let shared = self.shared();
        let mut state = shared.state();
        let dropped = shared.close(&mut state);
        state.drains_aborted += 1;
        let released = state.idle.take_all();
        shared.release(state);
        released.for_each(std::task::Waker::wake);
        dropped
    }

    /// Shuts down at once, and returns a future that waits until everything queued or in flight has been processed,
    /// keys that were added again while being processed included. Any number of callers may wait; dropping the future
    /// ends only the waiting.
    ///
    /// ```
    /// use listwatch_workqueue::{Drained, Options, Queue};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), listwatch_workqueue::AddError<&'static str>> {
    /// let queue: Queue<&str> = Queue::new(Options::new());
    /// queue.add("a")?;
    /// let worker = async {
    ///     while let Some(item) = queue.get().await {
    ///         item.finish();
    ///     }
    /// };
    /// let (drained, ()) = tokio::join!(queue.shut_down_with_drain(), worker);
    /// assert_eq!(drained, Drained::Complete);
    /// # Ok(())
    /// # }
    /// ```
    pub fn shut_down_with_drain(&self) -> Drain<'_, K, R> {
        let shared = self.shared();
        let mut state = shared.state();
        shared.close(&mut state);
        let aborted_before = state.drains_aborted;
        shared.release(state);
        Drain { shared, aborted_before, id: None }
    }

    /// True if the queue is shut down or shutting down.
    #[must_use]
    pub fn is_shut_down(&self) -> bool {
        self.shared().state().core.is_closed()
    }
}

/// The future of [`Queue::shut_down_with_drain`].
#[must_use = "the queue is shut down, but nobody waits for the rest of the work"]
pub struct Drain<'q, K: Key, R: Reason> {
    shared: &'q SharedQueue<K, R>,
    aborted_before: u64,
    id: Option<u64>,
}

impl<K: Key, R: Reason> Future for Drain<'_, K, R> {
    type Output = Drained;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Drained> {
        let mut state = self.shared.state();
        if state.core.is_idle() {
            return Poll::Ready(Drained::Complete);
        }
        if state.drains_aborted != self.aborted_before {
            return Poll::Ready(Drained::Aborted);
        }
        state.idle.register(&mut self.id, cx.waker());
        Poll::Pending
    }
}

impl<K: Key, R: Reason> Drop for Drain<'_, K, R> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.shared.state().idle.remove(id);
        }
    }
}

impl<K: Key, R: Reason> fmt::Debug for Drain<'_, K, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drain").finish_non_exhaustive()
    }
}
