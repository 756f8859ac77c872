//! [`Tasks`]: supervision of the background tasks.
//!
//! Without the feeder the cache would show the same state for ever, without the lifecycle nothing would be deleted, and every
//! request would look fine. A task that ends before the server does is logged, fails the health check of its name, and is
//! reported by [`Handle::failed`](crate::Handle::failed): its state is lost and it cannot be restarted, so the process should
//! end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinHandle};
use tokio_util::sync::CancellationToken;

/// The background tasks of a server.
#[derive(Debug, Default)]
pub struct Tasks {
    known: Mutex<Vec<Arc<Task>>>,
    ended: Notify,
}

/// A background task and its state. It stays in the list after its end, so that health checks can name it.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) name: &'static str,
    over: AtomicBool,
}

impl Task {
    /// Returns true if it ended while the server runs.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

impl Tasks {
    /// Watches a task that must not end before `stop`; what aborts it.
    pub(crate) fn watch(
        self: &Arc<Self>,
        name: &'static str,
        task: JoinHandle<()>,
        stop: CancellationToken,
    ) -> AbortHandle {
        let state = Arc::new(Task { name, over: AtomicBool::new(false) });
        self.known.lock().push(Arc::clone(&state));
        let (tasks, abort) = (Arc::clone(self), task.abort_handle());
        tokio::spawn(async move {
            let end = task.await;
            if stop.is_cancelled() || end.as_ref().is_err_and(tokio::task::JoinError::is_cancelled) {
                return;
            }
            let why = end.err().map_or_else(|| "it returned".to_owned(), |error| error.to_string());
            tracing::error!(task = name, %why, "a background task has ended; the server cannot continue");
            state.over.store(true, Ordering::Relaxed);
            tasks.ended.notify_waiters();
        });
        abort
    }

    /// All tasks that were started, in that order.
    pub(crate) fn all(&self) -> Vec<Arc<Task>> {
        self.known.lock().clone()
    }

    /// Completes when a task has ended that should not have; its name.
    ///
    /// Registers for the notification before it looks at the list, so an end in between is not missed.
    pub(crate) async fn first_end(&self) -> &'static str {
        loop {
            let mut ended = std::pin::pin!(self.ended.notified());
            ended.as_mut().enable();
            if let Some(task) = self.all().iter().find(|task| task.is_over()) {
                return task.name;
            }
            ended.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn panics_and_unexpected_ends_of_tasks_are_reported() {
        let (tasks, stop) = (Arc::new(Tasks::default()), CancellationToken::new());
        let stopped = tasks.watch("stopped", tokio::spawn(std::future::pending()), stop.clone());
        stopped.abort();
        tokio::task::yield_now().await;
        tasks.watch("feeder", tokio::spawn(async { panic!("a bug") }), stop.clone());
        assert_eq!(tasks.first_end().await, "feeder");
        tasks.watch("lifecycle", tokio::spawn(async {}), stop.clone());
        while tasks.all().iter().filter(|task| task.is_over()).count() < 2 {
            tokio::task::yield_now().await;
        }
        let over: Vec<_> = tasks.all().iter().map(|task| (task.name, task.is_over())).collect();
        assert_eq!(over, [("stopped", false), ("feeder", true), ("lifecycle", true)]);
    }
}
