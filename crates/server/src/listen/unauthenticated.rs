//! [`UnauthenticatedConnections`]: connections without a request of an authenticated user.
//!
//! Any client that can reach the port can open connections and send nothing. At the limit on connections, all other clients would
//! wait for them. Therefore a new connection replaces the oldest unauthenticated one, which has had at least [`GRACE`] for a
//! handshake and a request. A connection with a request of an authenticated user is never closed for another.
//!
//! The bounds on what an unauthenticated client may send, and for how long, are in [`crate::HttpLimits`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// The minimum age of a connection that is closed for another: enough for a handshake and a request on a busy machine.
const GRACE: Duration = Duration::from_millis(500);

/// The unauthenticated connections, oldest first.
#[derive(Debug, Default)]
pub(crate) struct UnauthenticatedConnections {
    /// By number, in the order in which they were accepted.
    tasks: Mutex<BTreeMap<u64, UnauthenticatedTask>>,
    last: AtomicU64,
}

#[derive(Debug)]
struct UnauthenticatedTask {
    since: Instant,
    task: Option<AbortHandle>,
}

/// The result of closing the oldest unauthenticated connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OldestUnauthenticated {
    /// There is none.
    Absent,
    /// It may be closed at this time.
    TooNew(Instant),
    /// Its task has been aborted.
    Closed,
}

/// The registration of one unauthenticated connection, which ends when it is dropped or a user is authenticated.
#[derive(Debug)]
pub(crate) struct ConnectionTicket {
    /// Zero once a user is authenticated.
    number: AtomicU64,
    connections: Arc<UnauthenticatedConnections>,
}

impl UnauthenticatedConnections {
    /// Counts a new connection.
    pub(crate) fn enter(self: &Arc<Self>) -> ConnectionTicket {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.tasks.lock().insert(number, UnauthenticatedTask { since: Instant::now(), task: None });
        ConnectionTicket { number: AtomicU64::new(number), connections: Arc::clone(self) }
    }

    /// Notes the task of a connection, unless it has ended or its user is known already.
    pub(super) fn serve(&self, number: u64, task: AbortHandle) {
        if let Some(place) = self.tasks.lock().get_mut(&number) {
            place.task = Some(task);
        }
    }

    /// Closes the oldest unauthenticated connection, if there is one and it is older than [`GRACE`].
    pub(super) fn close_oldest(&self) -> OldestUnauthenticated {
        let mut tasks = self.tasks.lock();
        let Some(oldest) = tasks.first_entry() else { return OldestUnauthenticated::Absent };
        let due = oldest.get().since + GRACE;
        if due > Instant::now() {
            return OldestUnauthenticated::TooNew(due);
        }
        let closed = oldest.remove();
        // Its ticket takes the lock when it is dropped.
        drop(tasks);
        closed.task.iter().for_each(AbortHandle::abort);
        OldestUnauthenticated::Closed
    }
}

impl ConnectionTicket {
    /// The number of the connection.
    pub(super) fn number(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }

    /// Removes the connection from the unauthenticated ones. Costs one atomic read after the first call.
    pub(crate) fn mark_authenticated(&self) {
        if self.number.load(Ordering::Relaxed) != 0 {
            let number = self.number.swap(0, Ordering::Relaxed);
            self.connections.tasks.lock().remove(&number);
        }
    }
}

impl Drop for ConnectionTicket {
    fn drop(&mut self) {
        self.mark_authenticated();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_oldest_unauthenticated_connection_is_closed_and_others_stay() {
        let connections = Arc::new(UnauthenticatedConnections::default());
        let mut open = Vec::new();
        for _ in 0..3 {
            let ticket = Arc::new(connections.enter());
            let held = Arc::clone(&ticket);
            let task = tokio::spawn(async move {
                let _held = held;
                std::future::pending::<()>().await;
            });
            connections.serve(ticket.number(), task.abort_handle());
            open.push((ticket, task));
        }
        open[0].0.mark_authenticated();
        assert!(
            matches!(connections.close_oldest(), OldestUnauthenticated::TooNew(_)),
            "it has time for a request"
        );
        tokio::time::advance(GRACE).await;
        assert_eq!(connections.close_oldest(), OldestUnauthenticated::Closed);
        assert!((&mut open[1].1).await.unwrap_err().is_cancelled());
        assert!(!open[0].1.is_finished() && !open[2].1.is_finished());
        open.remove(1);
        connections.close_oldest();
        assert!((&mut open[1].1).await.unwrap_err().is_cancelled());
        assert_eq!(connections.close_oldest(), OldestUnauthenticated::Absent);
        assert!(connections.tasks.lock().is_empty() && !open[0].1.is_finished());
    }

    #[tokio::test]
    async fn a_connection_that_has_ended_is_forgotten() {
        let connections = Arc::new(UnauthenticatedConnections::default());
        let ticket = connections.enter();
        let number = ticket.number();
        drop(ticket);
        connections.serve(number, tokio::spawn(async {}).abort_handle());
        assert!(connections.tasks.lock().is_empty());
    }
}
