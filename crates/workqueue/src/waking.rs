//! Parking and waking consumers: the half of [`SharedQueue`] that keeps the invariant stated in its module head.
//!
//! It does not decide which key is next: that is [`crate::core`]. The list of sleepers is in [`crate::waiters`].

use std::task::Waker;

use crate::Key;
use crate::core::QueueCore;
use crate::inbox::Inbox;
use crate::reason::Reason;
use crate::shared::{QueueState, SharedQueue};
use crate::sync::{MutexGuard, Ordering, lock};
use crate::ticket::WakeTicket;

impl<K: Key, R: Reason> SharedQueue<K, R> {
    /// Releases the state lock and wakes the consumers or producers that can proceed.
    #[inline]
    pub(crate) fn release(&self, state: MutexGuard<'_, QueueState<K, R>>) {
        let someone_waits = self.sleepers.load(Ordering::Relaxed) > 0 || state.has_waiters();
        if someone_waits {
            self.release_and_wake(state);
        }
    }

    /// Releases the state, and then wakes those for whom it has changed: waking under the lock would make them wait for it.
    #[cold]
    fn release_and_wake(&self, mut state: MutexGuard<'_, QueueState<K, R>>) {
        let mut wakers = Vec::new();
        if self.sleepers.load(Ordering::Relaxed) > 0 {
            self.wake_consumers(&state.core, &mut wakers);
        }
        if state.core.is_closed() && state.core.is_idle() {
            wakers.extend(state.idle.take_all());
        }
        if state.core.has_room() || state.core.is_closed() {
            wakers.extend(state.room.oldest());
        }
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Chooses the consumers to wake: all at the end, one for a key that can be taken, or the owner of the timer if a key is
    /// due earlier than it is set.
    fn wake_consumers(&self, core: &QueueCore<K, R>, wakers: &mut Vec<Waker>) {
        let mut inbox = lock(&self.inbox.0);
        if core.is_closed() && core.depth() == 0 {
            wakers.extend(inbox.sleepers.take_all());
            self.count_sleepers(&mut inbox);
        } else if core.can_take() {
            wakers.extend(self.pop_sleeper(&mut inbox));
        } else if core.next_due().is_some_and(|due| inbox.timer.is_none_or(|(_, armed)| due < armed)) {
            wakers.extend(self.pop_timer_owner(&mut inbox));
        }
    }

    /// Registers a consumer that found nothing. Returns when it must look again, if it watches the clock.
    pub(crate) fn register_waiter(
        &self,
        inbox: &mut Inbox<K, R>,
        ticket: &mut WakeTicket<'_, K, R>,
        waker: &Waker,
        due: Option<u64>,
    ) -> Option<u64> {
        let id = inbox.sleepers.register(&mut ticket.id, waker);
        self.count_sleepers(inbox);
        let due = due?;
        let mine = inbox.timer.is_none_or(|(owner, armed)| owner == id || due < armed);
        mine.then(|| {
            inbox.timer = Some((id, due));
            due
        })
    }

    /// Takes the sleeper that is to be woken next.
    pub(crate) fn pop_sleeper(&self, inbox: &mut Inbox<K, R>) -> Option<Waker> {
        let waker = inbox.sleepers.newest();
        self.count_sleepers(inbox);
        waker
    }

    fn pop_timer_owner(&self, inbox: &mut Inbox<K, R>) -> Option<Waker> {
        let waker =
            inbox.timer.and_then(|(owner, _)| inbox.sleepers.take(owner)).or_else(|| inbox.sleepers.oldest());
        self.count_sleepers(inbox);
        waker
    }

    /// To be called after each change of the sleepers.
    pub(crate) fn count_sleepers(&self, inbox: &mut Inbox<K, R>) {
        inbox.update_alert();
        self.sleepers.store(inbox.sleepers.len(), Ordering::Relaxed);
    }
}
