//! [`Strangers`]: the connections on which nobody has proved who they are.
//!
//! Whoever can reach the port can open connections and say nothing. Once there are as many as the server takes, everybody else would
//! wait for them. So room for a new connection is made by closing the oldest one of a stranger: with tens of thousands of places it has
//! had long enough for a handshake and a request. A connection with a request of an authenticated user is never closed for another.
//!
//! What a stranger may send, and for how long, is bounded elsewhere ([`crate::HttpLimits`]).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// The time that every connection has before it is closed for another: enough for a handshake and a request on a busy machine.
const GRACE: Duration = Duration::from_millis(500);

/// The connections of strangers, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Strangers {
    /// By number, in the order of their coming.
    tasks: Mutex<BTreeMap<u64, StrangerTask>>,
    last: AtomicU64,
}

#[derive(Debug)]
struct StrangerTask {
    since: Instant,
    task: Option<AbortHandle>,
}

/// The outcome of closing the oldest stranger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OldestStranger {
    /// There is none.
    Nobody,
    /// It may be closed at this time.
    TooNew(Instant),
    /// It has been told to end.
    Closed,
}

/// The place of one connection among the strangers, until it is dropped or its user is known.
#[derive(Debug)]
pub(crate) struct StrangerTicket {
    /// Zero once its user is known.
    number: AtomicU64,
    strangers: Arc<Strangers>,
}

impl Strangers {
    /// Counts a new connection.
    pub(crate) fn enter(self: &Arc<Self>) -> StrangerTicket {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.tasks.lock().insert(number, StrangerTask { since: Instant::now(), task: None });
        StrangerTicket { number: AtomicU64::new(number), strangers: Arc::clone(self) }
    }

    /// Notes the task of a connection, unless it has ended or its user is known already.
    pub(super) fn serve(&self, number: u64, task: AbortHandle) {
        if let Some(place) = self.tasks.lock().get_mut(&number) {
            place.task = Some(task);
        }
    }

    /// Closes the oldest connection of a stranger, if there is one and it has had its time.
    pub(super) fn close_oldest(&self) -> OldestStranger {
        let mut tasks = self.tasks.lock();
        let Some(oldest) = tasks.first_entry() else { return OldestStranger::Nobody };
        let due = oldest.get().since + GRACE;
        if due > Instant::now() {
            return OldestStranger::TooNew(due);
        }
        let closed = oldest.remove();
        // Its ticket takes the lock when it is dropped.
        drop(tasks);
        closed.task.iter().for_each(AbortHandle::abort);
        OldestStranger::Closed
    }
}

impl StrangerTicket {
    /// The number of the connection.
    pub(super) fn number(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }

    /// Somebody has proved who they are: the connection stays. Costs a read of a number after the first time.
    pub(crate) fn introduce(&self) {
        if self.number.load(Ordering::Relaxed) != 0 {
            let number = self.number.swap(0, Ordering::Relaxed);
            self.strangers.tasks.lock().remove(&number);
        }
    }
}

impl Drop for StrangerTicket {
    fn drop(&mut self) {
        self.introduce();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_oldest_stranger_goes_and_who_is_known_stays() {
        let strangers = Arc::new(Strangers::default());
        let mut open = Vec::new();
        for _ in 0..3 {
            let ticket = Arc::new(strangers.enter());
            let held = Arc::clone(&ticket);
            let task = tokio::spawn(async move {
                let _held = held;
                std::future::pending::<()>().await;
            });
            strangers.serve(ticket.number(), task.abort_handle());
            open.push((ticket, task));
        }
        open[0].0.introduce();
        assert!(matches!(strangers.close_oldest(), OldestStranger::TooNew(_)), "it has time for a request");
        tokio::time::advance(GRACE).await;
        assert_eq!(strangers.close_oldest(), OldestStranger::Closed);
        assert!((&mut open[1].1).await.unwrap_err().is_cancelled());
        assert!(!open[0].1.is_finished() && !open[2].1.is_finished());
        open.remove(1);
        strangers.close_oldest();
        assert!((&mut open[1].1).await.unwrap_err().is_cancelled());
        assert_eq!(strangers.close_oldest(), OldestStranger::Nobody);
        assert!(strangers.tasks.lock().is_empty() && !open[0].1.is_finished());
    }

    #[tokio::test]
    async fn a_connection_that_has_ended_is_forgotten() {
        let strangers = Arc::new(Strangers::default());
        let ticket = strangers.enter();
        let number = ticket.number();
        drop(ticket);
        strangers.serve(number, tokio::spawn(async {}).abort_handle());
        assert!(strangers.tasks.lock().is_empty());
    }
}
