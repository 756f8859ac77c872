//! The task that announces durable batches: it wakes the followers of the log and answers the callers.
//!
//! The writer is a thread outside of the async runtime. A task that such a thread wakes may run at once, in its place,
//! so that each answer of a batch cost two switches of threads and a system call. The writer therefore wakes this task alone,
//! once per batch; it runs on a worker, where the others are woken by adding them to a queue.

use std::sync::Arc;

use listwatch_wire::Revision;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::pending::Decided;
use crate::tail::Tail;

/// A batch that is durable and in the tail, with its answers.
pub(super) struct Announcement {
    /// The last change of the batch; `None` if all of its writes were refused.
    pub(super) upto: Option<Revision>,
    pub(super) answers: Vec<Decided>,
}

/// The writer's end of the queue of announcements. It needs no bound: there are no more answers than callers that wait.
pub(super) struct Announcer {
    queue: UnboundedSender<Announcement>,
    tail: Arc<Tail>,
}

impl Announcer {
    /// Starts the task on the present runtime. It ends when the announcer is dropped.
    pub(super) fn start(tail: Arc<Tail>) -> Self {
        let (queue, waiting) = unbounded_channel();
        let waiting = WaitingAnnouncements { waiting, tail: Arc::clone(&tail) };
        tokio::spawn(waiting.announce_all());
        Self { queue, tail }
    }

    /// Announces a batch; from this thread if the runtime of the task has ended.
    pub(super) fn announce(&self, batch: Announcement) {
        if let Err(unsent) = self.queue.send(batch) {
            unsent.0.announce(&self.tail);
        }
    }
}

impl Announcement {
    /// Followers are woken first: a caller that was answered may wait for its write to reach the cache.
    fn announce(self, tail: &Tail) {
        if let Some(upto) = self.upto {
            tail.reach(upto);
        }
        self.answers.into_iter().for_each(Decided::report);
    }
}

/// The task's end of the queue. Batches that are left when the runtime drops the task are announced then, so that no
/// caller on another runtime waits for ever.
struct WaitingAnnouncements {
    waiting: UnboundedReceiver<Announcement>,
    tail: Arc<Tail>,
}

impl WaitingAnnouncements {
    async fn announce_all(mut self) {
        while let Some(batch) = self.waiting.recv().await {
            batch.announce(&self.tail);
        }
    }
}

impl Drop for WaitingAnnouncements {
    fn drop(&mut self) {
        self.waiting.close();
        while let Ok(batch) = self.waiting.try_recv() {
            batch.announce(&self.tail);
        }
    }
}
