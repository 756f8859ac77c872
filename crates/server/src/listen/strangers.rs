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

use parking_lot::Mutex;
use tokio::task::AbortHandle;

/// The connections of strangers, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Strangers {
    /// By number, in the order of their coming. `None` until the task of the connection is known.
    tasks: Mutex<BTreeMap<u64, Option<AbortHandle>>>,
    last: AtomicU64,
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
        self.tasks.lock().insert(number, None);
        StrangerTicket { number: AtomicU64::new(number), strangers: Arc::clone(self) }
    }

    /// Notes the task of a connection, unless it has ended or its user is known already.
    pub(super) fn serve(&self, number: u64, task: AbortHandle) {
        if let Some(place) = self.tasks.lock().get_mut(&number) {
            *place = Some(task);
        }
    }

    /// Closes the oldest connection of a stranger, if there is one.
    pub(super) fn close_oldest(&self) {
        let mut tasks = self.tasks.lock();
        let oldest = tasks.iter().find(|(_, task)| task.is_some()).map(|(number, _)| *number);
        if let Some(task) = oldest.and_then(|number| tasks.remove(&number)).flatten() {
            task.abort();
        }
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

    #[tokio::test]
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
        strangers.close_oldest();
        assert!((&mut open[1].1).await.unwrap_err().is_cancelled());
        assert!(!open[0].1.is_finished() && !open[2].1.is_finished());
        open.remove(1);
        strangers.close_oldest();
        assert!((&mut open[1].1).await.unwrap_err().is_cancelled());
        strangers.close_oldest();
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
