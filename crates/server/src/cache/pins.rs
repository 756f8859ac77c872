//! [`Pins`]: the snapshots that continue tokens point to.
//!
//! Pages of one list must show one revision. Keeping its snapshot costs the nodes that changed since; it is bounded
//! in number and age (`CacheLimits`). A token whose snapshot is gone is served from the engine's history, so that
//! this is a shortcut and not a promise.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use listwatch_wire::Revision;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::cache::collection::Collection;
use crate::cache::snapshot::CollectionSnapshot;

/// Snapshots that continue tokens point to. A token whose snapshot was dropped is served from the engine's history, so
/// this is only a shortcut, and a small one suffices.
#[derive(Debug)]
pub(crate) struct Pins {
    /// The most snapshots kept.
    limit: usize,
    /// Oldest first. There are few, so that a search is cheap.
    pins: Mutex<VecDeque<Pin>>,
}

/// A snapshot that is kept for the next page of a list.
#[derive(Debug)]
struct Pin {
    collection: Arc<str>,
    revision: Revision,
    snapshot: Arc<CollectionSnapshot>,
    since: Instant,
    /// From where how many objects remained, so that the next page need not count them again.
    remaining: VecDeque<(String, u64)>,
}

/// The number of clients whose page counts are kept per snapshot.
const REMEMBERED_PAGES: usize = 64;

impl Pins {
    /// At most `limit` snapshots; zero keeps none.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, pins: Mutex::default() }
    }

    /// Keeps a snapshot for the tokens that name this revision.
    pub(crate) fn keep(
        &self,
        collection: &Collection,
        revision: Revision,
        snapshot: &Arc<CollectionSnapshot>,
    ) {
        let mut pins = self.pins.lock();
        if self.limit == 0 || pins.iter().any(|pin| pin.is(collection, revision)) {
            return;
        }
        if pins.len() >= self.limit {
            pins.pop_front();
        }
        let (collection, snapshot) = (Arc::from(collection.name()), Arc::clone(snapshot));
        pins.push_back(Pin {
            collection,
            revision,
            snapshot,
            since: Instant::now(),
            remaining: VecDeque::new(),
        });
    }

    /// Drops snapshots that were pinned longer than `age` ago.
    pub(crate) fn expire(&self, age: Duration) {
        let mut pins = self.pins.lock();
        while pins.front().is_some_and(|pin| pin.since.elapsed() >= age) {
            pins.pop_front();
        }
    }

    /// The snapshot of that revision, if it is still here.
    pub(crate) fn get(&self, collection: &Collection, revision: Revision) -> Option<Arc<CollectionSnapshot>> {
        let pins = self.pins.lock();
        pins.iter().find(|pin| pin.is(collection, revision)).map(|pin| Arc::clone(&pin.snapshot))
    }

    /// Stores how many objects remain from a key on.
    pub(crate) fn remember(&self, collection: &Collection, revision: Revision, from: &str, remaining: u64) {
        let mut pins = self.pins.lock();
        let Some(pin) = pins.iter_mut().find(|pin| pin.is(collection, revision)) else { return };
        if pin.remaining.len() >= REMEMBERED_PAGES {
            pin.remaining.pop_front();
        }
        pin.remaining.push_back((from.to_owned(), remaining));
    }

    /// The number of objects from a key on, if it was stored.
    pub(crate) fn remaining(&self, collection: &Collection, revision: Revision, from: &str) -> Option<u64> {
        let pins = self.pins.lock();
        let pin = pins.iter().find(|pin| pin.is(collection, revision))?;
        pin.remaining.iter().rev().find(|(key, _)| key == from).map(|(_, count)| *count)
    }
}

impl Pin {
    fn is(&self, collection: &Collection, revision: Revision) -> bool {
        self.revision == revision && &*self.collection == collection.name()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn snapshots_are_kept_by_number_and_by_age() {
        let pins = Pins::new(2);
        let collection = Collection::new("things", Vec::new());
        let snapshot = Arc::new(CollectionSnapshot::default());
        let age = Duration::from_secs(10);
        for revision in 1..=3 {
            pins.keep(&collection, Revision(revision), &snapshot);
            tokio::time::advance(Duration::from_secs(4)).await;
        }
        assert!(pins.get(&collection, Revision(1)).is_none(), "the oldest made room");
        pins.expire(age);
        assert!(pins.get(&collection, Revision(2)).is_some());
        tokio::time::advance(Duration::from_secs(3)).await;
        pins.expire(age);
        assert!(pins.get(&collection, Revision(2)).is_none());
        assert!(pins.get(&collection, Revision(3)).is_some());
    }
}
