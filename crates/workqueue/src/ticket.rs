//! [`WakeTicket`]: the registration of a waiting consumer, which never swallows a wake-up.
//!
//! A consumer that was woken and then dropped before it took a key (a cancelled future, a `select!`) would leave the
//! key waiting while others sleep. Its ticket therefore wakes another on drop, and passes on the timer if it owned it.
//! Lists of wakers are `waiters`; the decision which one to wake is in `shared`.

use crate::Key;
use crate::reason::Reason;
use crate::shared::{QueueState, SharedQueue};
use crate::sync::lock;

/// Dropping it passes a pending wake-up on to another consumer.
pub(crate) struct WakeTicket<'q, K: Key, R: Reason> {
    pub(crate) shared: &'q SharedQueue<K, R>,
    pub(crate) id: Option<u64>,
}

impl<'q, K: Key, R: Reason> WakeTicket<'q, K, R> {
    pub(crate) fn new(shared: &'q SharedQueue<K, R>) -> Self {
        Self { shared, id: None }
    }

    /// Removes this consumer from the wait list after it received a key, consuming its pending wake-up: `release`
    /// decides which other consumers are woken.
    #[inline]
    pub(crate) fn unregister_waiter(&mut self, state: &QueueState<K, R>) {
        if self.id.is_some() {
            let timer_needed = state.core.delayed_len() > 0;
            self.leave(|_, owned_timer| owned_timer && timer_needed);
        }
    }

    /// Unregisters; `hand_on` is called with whether the ticket was woken and whether it owned the timer, and returns
    /// whether another sleeper must be woken.
    fn leave(&mut self, hand_on: impl FnOnce(bool, bool) -> bool) {
        let Some(id) = self.id.take() else { return };
        let mut inbox = lock(&self.shared.inbox.0);
        let woken = !inbox.sleepers.remove(id);
        let owned_timer = inbox.timer.is_some_and(|(owner, _)| owner == id);
        if owned_timer {
            inbox.timer = None;
        }
        let next = if hand_on(woken, owned_timer) { inbox.sleepers.oldest() } else { None };
        self.shared.count_sleepers(&mut inbox);
        drop(inbox);
        if let Some(waker) = next {
            waker.wake();
        }
    }
}

impl<K: Key, R: Reason> Drop for WakeTicket<'_, K, R> {
    fn drop(&mut self) {
        self.leave(|woken, owned_timer| woken || owned_timer);
    }
}
