//! [`ClientConnections`]: the open connections, by user, and which of them is closed when there are too many.
//!
//! Any client that can reach the port can open connections and send nothing, and any user can keep thousands open. At
//! the limit on connections, all other clients would wait for them. Therefore a new connection replaces the oldest
//! unauthenticated one, which has had at least [`GRACE`] for a handshake and a request. If all are authenticated, it
//! replaces the latest connection of the user with the most, if they are more than a [part](PART) of all: clients
//! resume their watches, and those that were there before stay.
//!
//! The bounds on what an unauthenticated client may send, and for how long, are in [`crate::HttpLimits`].

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// The minimum age of a connection that is closed for another: enough for a handshake and a request on a busy machine.
const GRACE: Duration = Duration::from_millis(500);

/// The part of all connections that a user may have without losing one: 100 of 50,000, more than a component of a cluster opens.
const PART: usize = 500;

/// The connections that anybody may have, however few there are in all.
const FEW: usize = 16;

/// The open connections.
#[derive(Debug)]
pub(crate) struct ClientConnections {
    /// The connections that a user may have without losing one.
    many: usize,
    tasks: Mutex<ClientTasks>,
    last: AtomicU64,
}

/// By number, in the order in which they were accepted.
type TasksByNumber = BTreeMap<u64, ClientTask>;

/// The tasks of connections.
#[derive(Debug, Default)]
struct ClientTasks {
    unauthenticated: TasksByNumber,
    by_user: HashMap<Box<str>, TasksByNumber>,
}

#[derive(Debug)]
struct ClientTask {
    since: Instant,
    task: Option<AbortHandle>,
}

/// The result of closing a connection for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClosedForAnother {
    /// There is none that may be closed.
    Absent,
    /// One may be closed at this time.
    TooNew(Instant),
    /// Its task has been aborted.
    Closed,
}

/// The registration of one connection, which ends when it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionTicket {
    number: u64,
    /// The first user that was authenticated on the connection.
    user: OnceLock<Box<str>>,
    connections: Arc<ClientConnections>,
}

impl ClientTasks {
    fn get_mut(&mut self, number: u64) -> Option<&mut ClientTask> {
        match self.unauthenticated.get_mut(&number) {
            Some(task) => Some(task),
            None => self.by_user.values_mut().find_map(|tasks| tasks.get_mut(&number)),
        }
    }

    /// Removes a connection of a user, and the user with its last one, so that the table does not grow with former users.
    fn remove_of(&mut self, user: &str, number: u64) {
        if let Some(tasks) = self.by_user.get_mut(user) {
            tasks.remove(&number);
            if tasks.is_empty() {
                self.by_user.remove(user);
            }
        }
    }

    /// The connection to close, and the place that it is in.
    fn candidate(&mut self, many: usize) -> Option<(u64, &mut TasksByNumber)> {
        if let Some((number, _)) = self.unauthenticated.first_key_value() {
            return Some((*number, &mut self.unauthenticated));
        }
        let tasks = self.by_user.values_mut().max_by_key(|tasks| tasks.len())?;
        let number = *tasks.last_key_value().filter(|_| tasks.len() > many)?.0;
        Some((number, tasks))
    }
}

impl ClientConnections {
    /// No connections yet, of at most `limit`.
    pub(super) fn new(limit: usize) -> Self {
        Self { many: (limit / PART).max(FEW), tasks: Mutex::default(), last: AtomicU64::new(0) }
    }

    /// Counts a new connection.
    pub(crate) fn enter(self: &Arc<Self>) -> ConnectionTicket {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let task = ClientTask { since: Instant::now(), task: None };
        self.tasks.lock().unauthenticated.insert(number, task);
        ConnectionTicket { number, user: OnceLock::new(), connections: Arc::clone(self) }
    }

    /// Notes the task of a connection, unless it has ended already.
    pub(super) fn serve(&self, number: u64, task: AbortHandle) {
        if let Some(place) = self.tasks.lock().get_mut(number) {
            place.task = Some(task);
        }
    }

    /// Closes a connection for a new one, if there is one that is older than [`GRACE`].
    pub(super) fn close_one(&self) -> ClosedForAnother {
        let mut tasks = self.tasks.lock();
        let Some((number, place)) = tasks.candidate(self.many) else { return ClosedForAnother::Absent };
        let due = place.get(&number).map(|task| task.since + GRACE);
        if let Some(due) = due.filter(|due| *due > Instant::now()) {
            return ClosedForAnother::TooNew(due);
        }
        let closed = place.remove(&number);
        // Unlocked before the task ends: its ticket takes the lock when it is dropped.
        drop(tasks);
        closed.and_then(|closed| closed.task).iter().for_each(AbortHandle::abort);
        ClosedForAnother::Closed
    }
}

impl ConnectionTicket {
    /// The number of the connection.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Counts the connection among those of a user. Costs one atomic read after the first call.
    pub(crate) fn mark_authenticated(&self, user: &str) {
        if self.user.get().is_some() || self.user.set(user.into()).is_err() {
            return;
        }
        let mut tasks = self.connections.tasks.lock();
        if let Some(task) = tasks.unauthenticated.remove(&self.number) {
            tasks.by_user.entry(user.into()).or_default().insert(self.number, task);
        }
    }
}

impl Drop for ConnectionTicket {
    fn drop(&mut self) {
        let mut tasks = self.connections.tasks.lock();
        match self.user.get() {
            Some(user) => tasks.remove_of(user, self.number),
            None => drop(tasks.unauthenticated.remove(&self.number)),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinHandle;

    use super::*;

    /// A connection that stays open.
    fn open(connections: &Arc<ClientConnections>) -> (Arc<ConnectionTicket>, JoinHandle<()>) {
        let ticket = Arc::new(connections.enter());
        let held = Arc::clone(&ticket);
        let task = tokio::spawn(async move {
            let _held = held;
            std::future::pending::<()>().await;
        });
        connections.serve(ticket.number(), task.abort_handle());
        (ticket, task)
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_unauthenticated_connection_is_closed_and_others_stay() {
        let connections = Arc::new(ClientConnections::new(50_000));
        let mut open: Vec<_> = (0..3).map(|_| open(&connections)).collect();
        open[0].0.mark_authenticated("ann");
        assert!(matches!(connections.close_one(), ClosedForAnother::TooNew(_)), "it has time for a request");
        tokio::time::advance(GRACE).await;
        assert_eq!(connections.close_one(), ClosedForAnother::Closed);
        assert!((&mut open[1].1).await.unwrap_err().is_cancelled());
        assert!(!open[0].1.is_finished() && !open[2].1.is_finished());
        open.remove(1);
        connections.close_one();
        assert!((&mut open[1].1).await.unwrap_err().is_cancelled());
        assert_eq!(connections.close_one(), ClosedForAnother::Absent);
        assert!(connections.tasks.lock().unauthenticated.is_empty() && !open[0].1.is_finished());
    }

    /// One user could keep all connections, and no other was served.
    #[tokio::test(start_paused = true)]
    async fn the_user_with_the_most_connections_loses_the_latest() {
        let connections = Arc::new(ClientConnections { many: 2, ..ClientConnections::new(0) });
        let mut of_eve: Vec<_> = (0..4).map(|_| open(&connections)).collect();
        let of_ann: Vec<_> = (0..2).map(|_| open(&connections)).collect();
        of_eve.iter().for_each(|(ticket, _)| ticket.mark_authenticated("eve"));
        of_ann.iter().for_each(|(ticket, _)| ticket.mark_authenticated("ann"));
        tokio::time::advance(GRACE).await;
        for left in [3, 2] {
            assert_eq!(connections.close_one(), ClosedForAnother::Closed);
            let (_, task) = of_eve.pop().unwrap();
            assert!(task.await.unwrap_err().is_cancelled());
            assert_eq!(connections.tasks.lock().by_user["eve"].len(), left);
        }
        assert_eq!(
            connections.close_one(),
            ClosedForAnother::Absent,
            "nobody has more than the others may have"
        );
        assert!(of_eve.iter().chain(&of_ann).all(|(_, task)| !task.is_finished()));
    }

    #[tokio::test]
    async fn a_connection_that_has_ended_is_forgotten() {
        let connections = Arc::new(ClientConnections::new(1));
        for user in [None, Some("ann")] {
            let ticket = connections.enter();
            user.iter().for_each(|user| ticket.mark_authenticated(user));
            let number = ticket.number();
            drop(ticket);
            connections.serve(number, tokio::spawn(async {}).abort_handle());
            let tasks = connections.tasks.lock();
            assert!(tasks.unauthenticated.is_empty() && tasks.by_user.is_empty());
        }
    }
}
