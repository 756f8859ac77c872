//! [`Waiters`]: wakers in the order of registration.
//!
//! Consumers that wait for keys are woken newest first: the thread that slept least has the warmest caches, and the
//! oldest keeps watching the timer. Producers that wait for room are woken oldest first, because there it is a matter
//! of turns. Entries are removed by number when a future is dropped, which a queue of wakers could not do cheaply.

use std::collections::BTreeMap;
use std::task::Waker;

/// Parked consumers, in the order in which they began to wait.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    last: u64,
    wakers: BTreeMap<u64, Waker>,
}

impl Waiters {
    pub(crate) fn is_empty(&self) -> bool {
        self.wakers.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.wakers.len()
    }

    /// Registers a waker, under the number it has or a new one.
    pub(crate) fn register(&mut self, id: &mut Option<u64>, waker: &Waker) -> u64 {
        let id = *id.get_or_insert_with(|| {
            self.last += 1;
            self.last
        });
        match self.wakers.get_mut(&id) {
            Some(known) => known.clone_from(waker),
            None => drop(self.wakers.insert(id, waker.clone())),
        }
        id
    }

    /// Removes a waker. `false` means that it has been woken, or was never registered.
    pub(crate) fn remove(&mut self, id: u64) -> bool {
        self.wakers.remove(&id).is_some()
    }

    pub(crate) fn take(&mut self, id: u64) -> Option<Waker> {
        self.wakers.remove(&id)
    }

    /// The one that has slept least: its thread's caches are still warm, and the oldest is left to watch the timer.
    pub(crate) fn newest(&mut self) -> Option<Waker> {
        self.wakers.pop_last().map(|(_, waker)| waker)
    }

    /// The one that has slept longest, for waits where it is a matter of turns.
    pub(crate) fn oldest(&mut self) -> Option<Waker> {
        self.wakers.pop_first().map(|(_, waker)| waker)
    }

    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = Waker> + use<> {
        std::mem::take(&mut self.wakers).into_values()
    }
}
