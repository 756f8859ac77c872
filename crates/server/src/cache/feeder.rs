//! The feeder: the one task that writes to the cache.
//!
//! It reads the engine's log in revision order and publishes each batch in three steps: the new states of all
//! collections, then the position that covers them, then the wake-ups of watchers. A read that waits for a
//! revision therefore finds that state.
//!
//! If the engine has compacted what the feeder had not read yet, the state is loaded again, and watchers from before
//! the gap end with 410.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use listwatch_storage::{Batch, Change, Error, Range};
use listwatch_wire::Revision;
use tokio::time::Instant;

use crate::cache::Cache;
use crate::cache::collection::Collection;
use crate::cache::event::CacheEvent;
use crate::cache::snapshot::CollectionSnapshot;
use crate::cache::view::View;

/// The prefix of the storage keys of all objects.
const ROOT: &str = "/registry/";
/// The number of objects read at a time when the state is loaded.
const LOAD_PAGE: usize = 2000;
/// The delay before a failed engine is tried again.
const RETRY: Duration = Duration::from_millis(200);
/// The interval at which views without new events drop old ones.
const TRIM_EVERY: Duration = Duration::from_secs(1);

/// The task that follows the engine's log and publishes its changes to the collections. There is one per cache.
pub(crate) struct Feeder {
    cache: Arc<Cache>,
    /// Everything up to here has been published.
    upto: Revision,
    /// The events in memory, oldest first, with their weights, whose sum `log_bytes` bounds.
    kept: VecDeque<(Arc<Collection>, usize)>,
    /// The sum of the weights in `kept`.
    kept_bytes: usize,
    /// The last time at which idle views dropped old events.
    trimmed: Instant,
}

/// The changes of one collection in a batch.
struct CollectionBatch {
    collection: Arc<Collection>,
    snapshot: CollectionSnapshot,
    events: Vec<Arc<CacheEvent>>,
}

impl Feeder {
    /// Loads the state of the store.
    pub(crate) async fn load(cache: Arc<Cache>) -> Result<Self, Error> {
        let mut feeder = Self {
            cache,
            upto: Revision::ZERO,
            kept: VecDeque::new(),
            kept_bytes: 0,
            trimmed: Instant::now(),
        };
        feeder.reload().await?;
        Ok(feeder)
    }

    /// Follows the log until the engine is closed. Errors of the engine are retried. If the engine compacted history
    /// that was never read, the state is loaded again, and watchers from before the gap end with 410.
    pub(crate) async fn run(mut self) {
        loop {
            let mut error = self.follow().await;
            // After a damaged change in the log, the result of the change is read from the state.
            if matches!(error, Error::Compacted { .. } | Error::Corrupt(_)) {
                tracing::warn!(%error, "the cache starts over");
                error = match self.reload().await {
                    // Without a pause: until the log is followed again, all reads return an old state.
                    Ok(()) => continue,
                    Err(error) => error,
                };
            }
            if matches!(error, Error::Closed) {
                return;
            }
            tracing::warn!(%error, "the log of changes broke off");
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Publishes batches until the log fails; returns the error.
    async fn follow(&mut self) -> Error {
        let mut changes = match self.cache.engine.changes(self.upto).await {
            Ok(changes) => changes,
            Err(error) => return error,
        };
        loop {
            match changes.next().await {
                Ok(batch) => self.publish(&batch),
                Err(error) => return error,
            }
        }
    }

    /// Loads the whole state at the engine's current revision, page by page, and replaces that of all collections.
    ///
    /// # Errors
    /// The engine cannot be read; the old state stays.
    async fn reload(&mut self) -> Result<(), Error> {
        let revision = self.cache.engine.current().await?;
        let mut loaded: Vec<CollectionBatch> = Vec::new();
        let mut range = Range { at: Some(revision), limit: LOAD_PAGE, ..Range::prefix(ROOT) };
        loop {
            let page = self.cache.engine.range(range.clone()).await?;
            let last = page.items.last().map(|item| Arc::clone(&item.key));
            for item in page.items {
                let Some(collection) = self.collection_of(&item.key) else { continue };
                let Some(object) = collection.indexed_object(&item.key, item.value, item.revision) else {
                    self.cache.damage.note(&item.key);
                    continue;
                };
                let work = fresh(&mut loaded, collection);
                work.snapshot.apply(item.revision, &item.key, Some(&object));
            }
            match last {
                // The least key after this one.
                Some(last) if page.count > LOAD_PAGE as u64 => range.start = format!("{last}\0").into(),
                _ => break,
            }
        }
        self.replace_all(loaded, revision);
        Ok(())
    }

    /// Replaces the state of all collections, also of those that have no objects any more, then advances the
    /// position.
    fn replace_all(&mut self, loaded: Vec<CollectionBatch>, revision: Revision) {
        while self.forget_oldest() {}
        self.upto = revision;
        for collection in self.cache.collections() {
            if !loaded.iter().any(|work| Arc::ptr_eq(&work.collection, &collection)) {
                collection.load(CollectionSnapshot::new(collection.fields().len()), revision);
            }
        }
        for work in loaded {
            work.collection.load(work.snapshot, revision);
        }
        self.cache.position.advance(revision);
    }

    /// Publishes a batch: states first, then their position, then the watchers are woken.
    fn publish(&mut self, batch: &Batch) {
        let mut wake: Vec<Arc<View>> = Vec::new();
        let mut works: Vec<CollectionBatch> = Vec::new();
        for change in batch.changes.iter() {
            self.apply(change, &mut works);
        }
        for work in works {
            for event in &work.events {
                let weight = event.weight();
                self.kept.push_back((Arc::clone(&work.collection), weight));
                self.kept_bytes += weight;
            }
            work.collection.publish(work.snapshot, &work.events, &mut wake);
        }
        self.upto = batch.upto;
        self.cache.position.advance(batch.upto);
        wake_all(wake);
        self.forget();
    }

    /// Applies a change to the working snapshot of its collection and makes its event. A value that cannot be read
    /// counts as a deletion in the state, but is recorded as damage.
    fn apply(&self, change: &Change, works: &mut Vec<CollectionBatch>) {
        let Some(collection) = self.collection_of(&change.key) else { return };
        self.cache.damage.mended(&change.key);
        let work = current(works, collection);
        let object = change
            .value
            .as_ref()
            .and_then(|v| work.collection.indexed_object(&change.key, v.clone(), change.revision));
        if change.value.is_some() && object.is_none() {
            self.cache.damage.note(&change.key);
        }
        let previous = work.snapshot.apply(change.revision, &change.key, object.as_ref());
        if object.is_some() || previous.is_some() {
            work.events.push(Arc::new(CacheEvent::new(change.revision, object, previous)));
        }
    }

    /// Drops the oldest events of all collections until the bound on bytes holds: a busy collection shortens the
    /// history of all.
    fn forget(&mut self) {
        while self.kept_bytes + self.cache.frames.get() > self.cache.limits.log_bytes {
            if !self.forget_oldest() {
                break;
            }
        }
        if self.trimmed.elapsed() >= TRIM_EVERY {
            self.trimmed = Instant::now();
            self.cache.collections().iter().for_each(|collection| collection.trim_views());
            // An old snapshot costs memory only as writes diverge from it, so it suffices to expire them here.
            self.cache.pins.expire(self.cache.limits.pinned_for);
        }
    }

    /// False if there is none.
    fn forget_oldest(&mut self) -> bool {
        let Some((collection, weight)) = self.kept.pop_front() else { return false };
        self.kept_bytes -= weight;
        if let Some(event) = collection.forget_oldest() {
            self.cache.frames.forget(&event);
        }
        true
    }

    /// The collection a storage key belongs to. Keys of kinds that are not served (yet) have one as well.
    fn collection_of(&self, key: &str) -> Option<Arc<Collection>> {
        let (name, _) = key.strip_prefix(ROOT)?.split_once('/')?;
        Some(self.cache.collection(name, &[]))
    }
}

/// The number of views whose watchers are woken at a time, so that other requests are served in between.
const WOKEN: usize = 256;

/// Wakes the watchers of views, some at a time if there are many, while the feeder continues. A view is not queued again before its
/// watchers are woken, so the list is bounded by the number of views.
fn wake_all(views: Vec<Arc<View>>) {
    if views.len() <= WOKEN {
        return views.iter().for_each(|view| view.wake());
    }
    tokio::spawn(async move {
        for some in views.chunks(WOKEN) {
            some.iter().for_each(|view| view.wake());
            tokio::task::yield_now().await;
        }
    });
}

/// The work on a collection, begun from an empty state.
fn fresh(works: &mut Vec<CollectionBatch>, collection: Arc<Collection>) -> &mut CollectionBatch {
    find(works, collection, |collection| CollectionSnapshot::new(collection.fields().len()))
}

/// The work on a collection, begun from its present state.
fn current(works: &mut Vec<CollectionBatch>, collection: Arc<Collection>) -> &mut CollectionBatch {
    find(works, collection, |collection| CollectionSnapshot::clone(&collection.snapshot()))
}

/// Returns the work of a collection in this batch, begun if it is the first. Searched from the end, since changes of
/// one collection come together.
fn find(
    works: &mut Vec<CollectionBatch>,
    collection: Arc<Collection>,
    begin: impl Fn(&Collection) -> CollectionSnapshot,
) -> &mut CollectionBatch {
    let position = works.iter().rposition(|work| Arc::ptr_eq(&work.collection, &collection));
    let position = position.unwrap_or_else(|| {
        works.push(CollectionBatch { snapshot: begin(&collection), collection, events: Vec::new() });
        works.len() - 1
    });
    #[expect(clippy::indexing_slicing, reason = "found or just pushed")]
    &mut works[position]
}
