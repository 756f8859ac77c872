//! [`SlowWrites`]: the collections whose writes took long on an async worker.
//!
//! The size of an object says how long most writes take, but rules, patterns and policies of others can make the smallest
//! one take a second. So writes on workers are timed, and after a slow one those of its collection are done beside the
//! workers, for all senders.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::RwLock;

use crate::observe::exceeds;

/// The longest turn of a write on a worker, in processor time. Ordinary writes take a tenth of it at most.
const MAX_TURN: Duration = Duration::from_millis(5);

/// The time for which the writes of a collection are done beside the workers. Each further slow one begins it anew.
const REMEMBERED: Duration = Duration::from_secs(60);

/// The collections with slow writes, and the end of the time for which they are remembered. There are as many as resources
/// at most.
#[derive(Debug, Default)]
pub(crate) struct SlowWrites(RwLock<HashMap<Arc<str>, Instant>>);

impl SlowWrites {
    /// Returns true if a write of this collection was slow a short time ago.
    pub(crate) fn contains(&self, collection: &str) -> bool {
        let slow = self.0.read();
        !slow.is_empty() && slow.get(collection).is_some_and(|until| Instant::now() < *until)
    }

    /// Runs a write, and records its collection if one poll of it is slow.
    pub(crate) async fn timed<T>(&self, collection: &str, write: impl Future<Output = T>) -> T {
        let mut write = pin!(write);
        poll_fn(|cx| {
            let (polled, is_slow) = exceeds(MAX_TURN, || write.as_mut().poll(cx));
            if is_slow {
                self.remember(collection, Instant::now());
            }
            polled
        })
        .await
    }

    fn remember(&self, collection: &str, now: Instant) {
        let mut slow = self.0.write();
        slow.retain(|_, until| now < *until);
        slow.insert(collection.into(), now + REMEMBERED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_slow_write_is_remembered_for_its_collection() {
        let slow = SlowWrites::default();
        slow.timed("quick", async {}).await;
        assert!(!slow.contains("quick"));
        let busy = async {
            let begun = Instant::now();
            while begun.elapsed() < MAX_TURN * 20 {}
        };
        slow.timed("slow", busy).await;
        assert!(slow.contains("slow") && !slow.contains("quick"));
        slow.remember("later", Instant::now() + REMEMBERED * 2);
        assert!(!slow.contains("slow"));
    }

    #[tokio::test]
    async fn waiting_is_not_slow() {
        let slow = SlowWrites::default();
        slow.timed("waits", tokio::time::sleep(MAX_TURN * 100)).await;
        // Nor is a thread that has no processor.
        slow.timed("waits", async { std::thread::sleep(MAX_TURN * 2) }).await;
        assert!(!slow.contains("waits"));
    }
}
