//! [`Position`]: the revision up to which the cache has applied every change, and waiting for it to advance.
//!
//! An atomic number with one writer, the feeder, and a notification for waiters; most readers find it far enough and
//! take no lock. It advances after the states of all collections are published, so that a read that has waited for a
//! revision finds it. Requests with `resourceVersion` wait here, bounded by `RequestLimits::version_wait`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use listwatch_wire::Revision;
use tokio::sync::Notify;

/// The position of the cache: every change up to this revision is in every collection and view. It never moves back.
///
/// Moved by the feeder alone, after all collections of a batch are published. A reader that waited for a revision
/// here may read any collection.
#[derive(Debug, Default)]
pub struct Position {
    /// The revision, as a number for atomic access.
    reached: AtomicU64,
    /// Notified after each advance.
    moved: Notify,
}

impl Position {
    /// The revision up to which every change has been applied.
    #[must_use]
    pub fn get(&self) -> Revision {
        Revision(self.reached.load(Ordering::Acquire))
    }

    /// Advances to a revision and wakes waiters. A lower revision changes nothing.
    pub(crate) fn advance(&self, to: Revision) {
        self.reached.fetch_max(to.0, Ordering::AcqRel);
        self.moved.notify_waiters();
    }

    /// Waits until it is at `revision` or further; false if that takes longer than `patience`.
    pub async fn wait_for(&self, revision: Revision, patience: Duration) -> bool {
        // Most readers find what they need and never touch a timer.
        self.get() >= revision || tokio::time::timeout(patience, self.reaches(revision)).await.is_ok()
    }

    /// Waits until it is at `revision` or further, however long that takes.
    pub(crate) async fn reaches(&self, revision: Revision) {
        loop {
            let moved = self.moved.notified();
            let mut moved = std::pin::pin!(moved);
            moved.as_mut().enable();
            if self.get() >= revision {
                return;
            }
            moved.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[tokio::test(start_paused = true)]
    async fn waits_as_long_as_asked() {
        let position = Arc::new(Position::default());
        position.advance(Revision(5));
        assert!(position.wait_for(Revision(5), Duration::ZERO).await);
        assert!(!position.wait_for(Revision(6), Duration::from_secs(3)).await);
        let waiting = tokio::spawn({
            let position = Arc::clone(&position);
            async move { position.wait_for(Revision(7), Duration::from_secs(3)).await }
        });
        tokio::task::yield_now().await;
        position.advance(Revision(6));
        position.advance(Revision(7));
        assert!(waiting.await.unwrap());
        position.advance(Revision(3));
        assert_eq!(position.get(), Revision(7));
    }
}
