//! The watch cache: the current state of all resources, their recent events, and the watchers.
//!
//! One log, many cursors. The feeder follows the engine's log of changes, the one order of all writes, and keeps a
//! [`Collection`] per kind: a [`CollectionSnapshot`] of its objects in a persistent map, and its recent [`CacheEvent`]s. Readers take
//! snapshots without a lock. A watcher is a [`Cursor`]: a position and a [`View`] it shares with all watchers of the same
//! filter. A cursor that falls behind the events in memory reads the engine's log instead; only when that is compacted,
//! too, does its watch end with 410. Nothing here waits for a watcher, and no watcher can delay another.
//!
//! The files in reading order: `object`, `snapshot`, `event`, `delta`, `conditions`, `filter`, `subject`, `view`, `collection`, `feeder`, `cursor`,
//! `merge`, `trees`, `created`.

mod collection;
mod conditions;
mod created;
mod cursor;
pub(crate) mod damage;
mod delta;
mod event;
mod feeder;
mod filter;
mod frames;
pub(crate) mod fresh;
mod history;
mod merge;
mod object;
mod pins;
mod position;
mod snapshot;
mod subject;
mod trees;
mod view;
mod views;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use listwatch_storage::{Engine, Error};
use listwatch_wire::Revision;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

pub(crate) use collection::Follower;
pub use collection::{Collection, CollectionLogState};
use created::LastCreated;
pub(crate) use created::template;
pub use cursor::{Cursor, Lost};
use damage::Damage;
pub(crate) use event::frame;
pub use event::{CacheEvent, ChangeKind};
pub use filter::{FieldLookup, Filter};
pub(crate) use frames::LateFrames;
pub(crate) use merge::{MergedCursors, SlotEvent, WatchSlot};
pub use object::CachedObject;
pub(crate) use object::push_number;
pub(crate) use pins::Pins;
pub use position::Position;
pub use snapshot::{CollectionSnapshot, IndexedField, Walk};
pub(crate) use trees::{RecentTrees, TreeMaker, WrittenTree};
pub use view::{FilteredEvent, FilteredEvents, Portion, View};

use crate::CacheLimits;

/// The watch cache of all resources: current state, recent events and watchers.
///
/// It is fed by one task from the engine's log and never written by requests. Memory is bounded by [`CacheLimits`];
/// objects themselves are all in memory, shared with the engine where that keeps them too.
///
/// ```
/// use std::sync::Arc;
/// use listwatch_server::CacheLimits;
/// use listwatch_server::cache::{Cache, Filter};
/// use listwatch_storage::MemoryEngine;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), listwatch_storage::Error> {
/// let cache = Arc::new(Cache::new(Arc::new(MemoryEngine::default()), CacheLimits::default()));
/// let feeder = cache.start().await?;
/// let pods = cache.collection("pods", &[]);
/// let (snapshot, revision) = cache.read(&pods);
/// let watcher = cache.watch(&pods, Filter::default(), revision);
/// assert!(snapshot.is_empty());
/// assert_eq!(watcher.position(), revision);
/// feeder.abort();
/// # Ok(())
/// # }
/// ```
#[doc(alias = "Cacher")]
#[doc(alias = "CacheDelegator")]
#[doc(alias = "WatchCache")]
#[derive(Debug)]
pub struct Cache {
    /// The store that is followed, and read for older history.
    engine: Arc<dyn Engine>,
    limits: CacheLimits,
    /// All collections by name. Replaced as a whole when one is added, so that lookups take no lock.
    collections: ArcSwap<Collections>,
    /// Serialises the creation of collections.
    adding: Mutex<()>,
    /// Advanced by the feeder after the states of a batch are published.
    position: Position,
    /// Snapshots that continue tokens refer to.
    pub(crate) pins: Pins,
    /// Bytes of protobuf and delta frames, which count against the bound on events.
    pub(crate) frames: LateFrames,
    /// Parsed trees of recently used objects.
    pub(crate) trees: Arc<RecentTrees>,
    /// The encodings that the next objects of their templates are encoded with.
    pub(crate) created: LastCreated,
    /// The keys whose values cannot be read.
    pub(crate) damage: Damage,
    /// Cancelled at shutdown: watches that are opened later end at once.
    closed: CancellationToken,
}

type Collections = HashMap<Arc<str>, Arc<Collection>, foldhash::fast::RandomState>;

impl Cache {
    /// An empty cache; [`Cache::start`] fills it.
    #[must_use]
    pub fn new(engine: Arc<dyn Engine>, limits: CacheLimits) -> Self {
        Self {
            engine,
            limits,
            collections: ArcSwap::default(),
            adding: Mutex::default(),
            position: Position::default(),
            pins: Pins::new(limits.pinned_snapshots),
            frames: LateFrames::default(),
            trees: Arc::new(RecentTrees::new(limits.recent_bytes)),
            created: LastCreated::default(),
            damage: Damage::default(),
            closed: CancellationToken::new(),
        }
    }

    /// Loads the state and follows the engine from then on, until the returned task is aborted.
    ///
    /// # Errors
    /// When the engine cannot be read.
    pub async fn start(self: &Arc<Self>) -> Result<tokio::task::JoinHandle<()>, Error> {
        let feeder = feeder::Feeder::load(Arc::clone(self)).await?;
        Ok(tokio::spawn(feeder.run()))
    }

    /// The collection of that name (`plural` or `plural.group`), made with these indexes if it does not exist yet.
    /// The indexes of an existing collection stay as they are: they are chosen once, by the registry, before the
    /// cache starts.
    #[must_use]
    pub fn collection(&self, name: &str, indexes: &[IndexedField]) -> Arc<Collection> {
        if let Some(collection) = self.collections.load().get(name) {
            return Arc::clone(collection);
        }
        let _one_at_a_time = self.adding.lock();
        let mut collections = Collections::clone(&self.collections.load());
        let collection = collections.entry(name.into()).or_insert_with(|| {
            let collection = Collection::new(name, indexes.to_vec());
            collection.load(CollectionSnapshot::new(indexes.len()), self.position.get());
            Arc::new(collection)
        });
        let collection = Arc::clone(collection);
        self.collections.store(Arc::new(collections));
        collection
    }

    /// All collections, also those of kinds that are not served (yet) but have stored objects.
    #[must_use]
    pub fn collections(&self) -> Vec<Arc<Collection>> {
        self.collections.load().values().cloned().collect()
    }

    /// The revision up to which the cache has applied all changes.
    #[must_use]
    pub fn position(&self) -> &Position {
        &self.position
    }

    /// The storage engine that it follows. Old revisions and consistent reads go there.
    #[must_use]
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }

    /// The bounds on memory that it keeps.
    #[must_use]
    pub fn limits(&self) -> &CacheLimits {
        &self.limits
    }

    /// Returns a collection's state and its revision: all changes of the collection up to that revision are in it, and
    /// no later one.
    #[must_use]
    pub fn read(&self, collection: &Collection) -> (Arc<CollectionSnapshot>, Revision) {
        // In this order: the snapshot has all that the position covers, because it is published first. The snapshot
        // may already have more, and then its revision is that of its own newest change.
        let position = self.position.get();
        let snapshot = collection.snapshot();
        let revision = position.max(snapshot.revision());
        (snapshot, revision)
    }

    /// Waits until every write that was acknowledged before the call is in the cache; false if that takes longer than
    /// `patience`. It makes reads from the cache linearizable at the price of one request to the engine.
    ///
    /// # Errors
    /// The engine's current revision cannot be read.
    pub async fn sync(&self, patience: Duration) -> Result<bool, Error> {
        let current = self.engine.current().await?;
        Ok(self.position.wait_for(current, patience).await)
    }

    /// Opens a watcher of a collection: it gets every event after `position` that the filter sees. The position may
    /// be older than what is in memory; whether history reaches back that far shows at the first [`Cursor::next`].
    #[must_use]
    pub fn watch(
        self: &Arc<Self>,
        collection: &Arc<Collection>,
        filter: Filter,
        position: Revision,
    ) -> Cursor {
        let cursor = Cursor::new(Arc::clone(self), Arc::clone(collection), filter, position);
        if self.closed.is_cancelled() {
            collection.end_watches();
        }
        cursor
    }

    /// Cancelled when all watches are to end.
    pub(crate) fn closed(&self) -> &CancellationToken {
        &self.closed
    }

    /// Ends all watches; those opened later end at once.
    pub fn close(&self) {
        self.closed.cancel();
        self.collections().iter().for_each(|collection| collection.end_watches());
    }
}
