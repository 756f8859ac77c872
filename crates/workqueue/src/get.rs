//! Waiting for a key, in a task ([`Queue::get`]) or in a thread ([`Queue::get_blocking`]).
//!
//! There is no timer task: of all waiting consumers one owns the timer and sleeps until the next delayed key is due,
//! and passes that role on when it returns. A key is taken in the same poll that returns it, so a dropped future loses
//! none. Both kinds of consumers share one wait list and may serve the same queue. Registration and wake-ups are in
//! `ticket` and `shared`.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use crate::core::TakenKey;
use crate::item::Item;
use crate::reason::Reason;
use crate::shared::{NextKey, SharedQueue};
use crate::sync::thread;
use crate::ticket::WakeTicket;
use crate::{Key, Queue};

/// A sleeping consumer reads the clock at least this often, however far the next delayed key is: timers have a limited
/// range, and some clocks stop while the machine is suspended.
const SLEEP_MAX: Duration = Duration::from_secs(600);

/// The future of [`Queue::get`]. Dropping it is always safe: a key is taken in the very step that returns it.
#[must_use = "futures do nothing unless awaited"]
pub struct Get<'q, K: Key, R: Reason> {
    ticket: WakeTicket<'q, K, R>,
    /// Only the sleeper that watches the clock has one.
    sleep: Option<Pin<Box<Sleep>>>,
}

impl<'q, K: Key, R: Reason> Get<'q, K, R> {
    fn new(shared: &'q SharedQueue<K, R>) -> Self {
        Self { ticket: WakeTicket::new(shared), sleep: None }
    }

    /// The timer of the consumer that watches the clock, set to a time. It is allocated once and reset after that.
    fn wake_up_at(&mut self, at: Instant) -> Pin<&mut Sleep> {
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at)));
        if sleep.deadline() != at {
            sleep.as_mut().reset(at);
        }
        sleep.as_mut()
    }
}

impl<'q, K: Key, R: Reason> Future for Get<'q, K, R> {
    type Output = Option<Item<'q, K, R>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let shared = self.ticket.shared;
        loop {
            let timer = match shared.next(&mut self.ticket, cx.waker()) {
                NextKey::Taken(taken) => return Poll::Ready(Some(Item::new(shared, taken))),
                NextKey::Closed => return Poll::Ready(None),
                NextKey::Wait { timer: None } => return Poll::Pending,
                NextKey::Wait { timer: Some(timer) } => timer,
            };
            let latest = Instant::now() + SLEEP_MAX;
            let at = shared.clock.instant(timer).map_or(latest, |at| at.min(latest));
            if self.wake_up_at(at).poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

impl<K: Key, R: Reason> fmt::Debug for Get<'_, K, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Get").finish_non_exhaustive()
    }
}

/// The time a thread that watches the clock sleeps, at `now`, for a key that falls due at `at`.
fn sleep_until(at: u64, now: u64) -> Duration {
    Duration::from_nanos(at.saturating_sub(now)).min(SLEEP_MAX)
}

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl<K: Key, R: Reason> SharedQueue<K, R> {
    /// Takes the next key, and parks the thread while there is none. `None` when the queue is shut down and empty.
    #[cold]
    pub(crate) fn wait_blocking(&self) -> Option<TakenKey<K, R>> {
        let mut ticket = WakeTicket::new(self);
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        loop {
            match self.next(&mut ticket, &waker) {
                NextKey::Taken(taken) => return Some(taken),
                NextKey::Closed => return None,
                NextKey::Wait { timer: None } => thread::park(),
                NextKey::Wait { timer: Some(at) } => thread::park_timeout(sleep_until(at, self.clock.now())),
            }
        }
    }
}

/// Consumers.
impl<K: Key, R: Reason> Queue<K, R> {
    /// Waits for the next key. `None` means that the queue is shut down and everything in it has been handed out.
    ///
    /// A queue with delayed keys must be awaited inside a tokio runtime whose timers are enabled.
    pub fn get(&self) -> Get<'_, K, R> {
        Get::new(self.shared())
    }

    /// [`Self::get`] for a consumer in a thread. Both kinds may serve the same queue. See also [`Item::next_blocking`].
    ///
    /// ```
    /// use listwatch_workqueue::{Options, Queue};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue: Queue<String> = Queue::new(Options::new());
    /// let worker = std::thread::spawn({
    ///     let queue = queue.clone();
    ///     move || {
    ///         let mut seen = 0;
    ///         while let Some(item) = queue.get_blocking() {
    ///             seen += item.key().len(); // done when `item` goes out of scope
    ///         }
    ///         seen
    ///     }
    /// });
    /// queue.add("default/web".to_owned())?;
    /// queue.shut_down();
    /// assert_eq!(worker.join().ok(), Some(11));
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    #[must_use]
    pub fn get_blocking(&self) -> Option<Item<'_, K, R>> {
        let shared = self.shared();
        let taken = match shared.try_next(None) {
            Some(taken) => taken,
            None => shared.wait_blocking()?,
        };
        Some(Item::new(shared, taken))
    }

    /// The next key if there is one now.
    #[inline]
    #[must_use]
    pub fn try_get(&self) -> Option<Item<'_, K, R>> {
        self.shared().try_next(None).map(|taken| Item::new(self.shared(), taken))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_sleeps_until_the_key_falls_due_but_never_for_ever() {
        assert_eq!(sleep_until(5_000_000, 2_000_000), Duration::from_millis(3));
        assert_eq!(sleep_until(5, 7), Duration::ZERO);
        assert_eq!(sleep_until(u64::MAX, 0), SLEEP_MAX);
    }
}
