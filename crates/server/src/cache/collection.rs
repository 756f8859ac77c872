//! [`Collection`]: the watch cache of one resource: its state, its recent events, and the views of its watchers.
//! All versions of a resource share one collection, since they share the storage keys.
//!
//! Reads take no lock: the state is an immutable [`CollectionSnapshot`] behind an atomic pointer. Only the feeder (`feeder.rs`)
//! replaces it. The lock on the log is held for moments, to append an event or to enter a view.
//!
//! It does not decide what is served: that is the registry. Next: `snapshot.rs` for lists, `view.rs` for watches.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use listwatch_wire::Revision;
use parking_lot::Mutex;

use crate::cache::event::CacheEvent;
use crate::cache::filter::Filter;
use crate::cache::object::CachedObject;
use crate::cache::snapshot::{CollectionSnapshot, IndexedField, Walk, scope};
use crate::cache::subject::EventSubjects;
use crate::cache::view::View;
use crate::cache::views::Views;

/// All objects of one resource, of all its versions: state, recent events and views. One instance per resource for
/// the life of the server.
#[doc(alias = "watchCache")]
#[derive(Debug)]
pub struct Collection {
    /// `plural` or `plural.group`.
    name: Arc<str>,
    /// `/registry/<name>/`.
    prefix: Arc<str>,
    /// The indexed fields. Fixed, because every snapshot has an index for each.
    fields: Vec<IndexedField>,
    /// Read by everyone without a lock, replaced by the one feeder.
    snapshot: ArcSwap<CollectionSnapshot>,
    /// Held for moments: by the feeder while it appends, by a watcher while it enters or leaves.
    log: Mutex<Log>,
    /// True once a stored value was left out of the state because it is not an object.
    has_omitted: AtomicBool,
    /// Followers, called in the order they were added. Held while they run, so that one that is added sees every
    /// change exactly once.
    followers: Mutex<Vec<Arc<dyn Follower>>>,
}

/// Keeps derived state (RBAC policy, node graph) in step with a collection. It is called before the new state is
/// readable and before watchers see the events, in the task that feeds the cache: it must be quick and must not wait.
pub(crate) trait Follower: Send + Sync + std::fmt::Debug {
    /// The whole state was loaded, at the start or after a gap in history. `before` is the previous state of the
    /// follower.
    fn loaded(&self, collection: &Collection, before: &CollectionSnapshot, now: &CollectionSnapshot);

    /// Applies these events, in revision order.
    fn changed(&self, events: &[Arc<CacheEvent>]);
}

/// The recent events of a collection, and the views on them.
#[derive(Debug, Default)]
struct Log {
    /// Recent events, oldest first. Dropped from the front when the cache exceeds its bound on bytes.
    events: VecDeque<Arc<CacheEvent>>,
    /// Every event after this revision is here.
    floor: Revision,
    /// The newest event.
    head: Revision,
    /// The open views. In the log, so that a view that is opened misses no event that is being appended.
    views: Views,
}

/// The extent of a collection's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectionLogState {
    /// The events that are kept.
    pub events: usize,
    /// The open views: one for all watches with equal filters.
    pub views: usize,
    /// The revision after which events are kept.
    pub floor: Revision,
}

impl Collection {
    /// An empty collection; [`Collection::load`] sets its state.
    pub(crate) fn new(name: &str, fields: Vec<IndexedField>) -> Self {
        let snapshot = CollectionSnapshot::new(fields.len());
        Self {
            name: name.into(),
            prefix: format!("/registry/{name}/").into(),
            fields,
            snapshot: ArcSwap::from_pointee(snapshot),
            log: Mutex::default(),
            has_omitted: AtomicBool::new(false),
            followers: Mutex::default(),
        }
    }

    /// The name of the collection in storage keys: `plural`, or `plural.group` outside of the core group.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The prefix of its storage keys.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The storage key of an object.
    #[must_use]
    pub fn key(&self, namespace: Option<&str>, name: &str) -> Arc<str> {
        let key = match namespace {
            Some(namespace) => [&*self.prefix, namespace, "/", name].concat(),
            None => [&*self.prefix, name].concat(),
        };
        key.into()
    }

    /// The current state. [`super::Cache::read`] also returns its revision.
    #[must_use]
    pub fn snapshot(&self) -> Arc<CollectionSnapshot> {
        self.snapshot.load_full()
    }

    /// Returns true if there are no objects now. Cheaper than asking a snapshot, which is counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.snapshot.load().is_empty()
    }

    /// Returns the range of keys, or of an index, that can match a filter, from a storage key on. Objects in it still
    /// have to be matched.
    #[must_use]
    pub fn walk(&self, filter: &Filter, from: Option<&str>) -> Walk {
        CollectionSnapshot::walk(&self.prefix, &self.fields, filter, from)
    }

    /// A walk over the objects whose indexed field has this value; over all if the field has no index.
    #[must_use]
    pub(crate) fn walk_indexed(&self, field: &str, value: &str) -> Walk {
        let index = self.fields.iter().position(|indexed| &*indexed.path == field);
        CollectionSnapshot::walk_at(&self.prefix, index.map(|index| (index, value.into())))
    }

    /// The prefix of the storage keys of all objects that can match.
    #[must_use]
    pub fn scope(&self, filter: &Filter) -> String {
        scope(&self.prefix, filter)
    }

    /// Returns true if a key may exist in the store that is not in the state, because its value is not an object.
    pub(crate) fn has_omitted(&self) -> bool {
        self.has_omitted.load(Ordering::Relaxed)
    }

    /// Returns an object from a stored value; `None`, with a warning in the log, if the value is not an object.
    #[must_use]
    pub fn object(
        &self,
        key: &Arc<str>,
        value: bytes::Bytes,
        revision: Revision,
    ) -> Option<Arc<CachedObject>> {
        self.read(key, value, revision).map(Arc::new)
    }

    /// Returns an object for this collection's own state, with the values of indexed fields located once.
    pub(super) fn indexed_object(
        &self,
        key: &Arc<str>,
        value: bytes::Bytes,
        revision: Revision,
    ) -> Option<Arc<CachedObject>> {
        let object = self.read(key, value, revision)?;
        Some(Arc::new(if self.fields.is_empty() { object } else { object.with_indexed(&self.fields) }))
    }

    /// Reads a stored value. One that is not an object is logged and left out: the rest of the collection must stay
    /// usable.
    fn read(&self, key: &Arc<str>, value: bytes::Bytes, revision: Revision) -> Option<CachedObject> {
        let object = CachedObject::new(Arc::clone(key), self.prefix.len(), value, revision);
        if object.is_none() {
            tracing::warn!(%key, %revision, "stored value is not an object, skipped");
            self.has_omitted.store(true, Ordering::Relaxed);
        }
        object
    }

    /// Keeps the follower in step from now on.
    pub(crate) fn follow(&self, follower: Arc<dyn Follower>) {
        let mut followers = self.followers.lock();
        follower.loaded(self, &CollectionSnapshot::new(self.fields.len()), &self.snapshot());
        followers.push(follower);
    }

    /// The extent of the log, for metrics and debug pages.
    #[must_use]
    pub fn log_state(&self) -> CollectionLogState {
        let log = self.log.lock();
        CollectionLogState { events: log.events.len(), views: log.views.len(), floor: log.floor }
    }

    /// Replaces the whole state, at the start or after a gap in history. The log and all views begin at `floor`:
    /// watchers from before it read from the engine or get a 410.
    pub(crate) fn load(&self, snapshot: CollectionSnapshot, floor: Revision) {
        self.followers.lock().iter().for_each(|f| f.loaded(self, &self.snapshot.load(), &snapshot));
        self.snapshot.store(Arc::new(snapshot));
        let mut log = self.log.lock();
        log.events.clear();
        log.floor = floor;
        log.head = floor;
        log.views.iter().for_each(|view| view.reset(floor));
    }

    /// Ends all watches: the server stops, or the kind is no longer served.
    pub(crate) fn end_watches(&self) {
        let views: Vec<_> = self.log.lock().views.iter().cloned().collect();
        views.iter().for_each(|view| view.close());
    }

    /// Ends the present watches only: their version of the kind is no longer served.
    pub(crate) fn restart_watches(&self) {
        let mut log = self.log.lock();
        let views: Vec<_> = log.views.iter().cloned().collect();
        for view in views {
            log.views.remove(&view, &self.fields);
            view.close();
        }
    }

    /// The indexed fields, in the order of the indexes of its snapshots.
    pub(crate) fn fields(&self) -> &[IndexedField] {
        &self.fields
    }

    /// Publishes a state and the events that led to it: followers first, then the snapshot, then the views. Views
    /// with new events are added to `wake`; the caller wakes their watchers once per batch.
    pub(crate) fn publish(
        &self,
        snapshot: CollectionSnapshot,
        events: &[Arc<CacheEvent>],
        wake: &mut Vec<Arc<View>>,
    ) {
        self.followers.lock().iter().for_each(|follower| follower.changed(events));
        self.snapshot.store(Arc::new(snapshot));
        let mut log = self.log.lock();
        let log = &mut *log;
        for event in events {
            log.head = event.revision;
            log.events.push_back(Arc::clone(event));
            let floor = log.floor;
            let subjects = EventSubjects::new(event);
            log.views.candidates(&subjects, &self.fields, |view| {
                if view.offer(event, &subjects, floor) {
                    wake.push(Arc::clone(view));
                }
            });
        }
    }

    /// Drops the oldest event from the log and returns it. Watchers that have not seen it read it from the engine.
    pub(crate) fn forget_oldest(&self) -> Option<Arc<CacheEvent>> {
        let mut log = self.log.lock();
        let oldest = log.events.pop_front()?;
        log.floor = log.floor.max(oldest.revision);
        Some(oldest)
    }

    /// Drops from views the events that the log has dropped. Views do so themselves only when a new event arrives.
    pub(crate) fn trim_views(&self) {
        let log = self.log.lock();
        log.views.iter().for_each(|view| view.trim(log.floor));
    }

    /// Returns the view of a filter, shared with all watchers of an equal filter, and counts one watcher more. It is
    /// extended back to `position` if the log reaches that far.
    pub(crate) fn open(&self, filter: Filter, position: Revision) -> Arc<View> {
        let identity = filter.identity();
        let mut log = self.log.lock();
        let view = match log.views.get(&identity) {
            Some(view) => Arc::clone(view),
            None => {
                let view = Arc::new(View::new(filter, log.head));
                log.views.insert(identity, Arc::clone(&view), &self.fields);
                view
            }
        };
        view.enter();
        log.extend_back(&view, position);
        view
    }

    /// Makes an open view reach back to `position` if the log does.
    pub(crate) fn extend_back(&self, view: &View, position: Revision) {
        self.log.lock().extend_back(view, position);
    }

    /// Removes a watcher from its view, and the view with its last watcher.
    pub(crate) fn close(&self, view: &Arc<View>) {
        if view.leave() {
            let mut log = self.log.lock();
            // A new watcher may have begun to use the view before the lock was taken.
            if view.is_unused() {
                log.views.remove(view, &self.fields);
            }
        }
    }
}

impl Log {
    /// Adds the events that are still in the log to a new view, so that a watcher that begins in the past need not read
    /// the engine.
    fn extend_back(&self, view: &View, position: Revision) {
        if position < self.floor || position >= view.floor() {
            return;
        }
        let start = self.events.partition_point(|event| event.revision <= position);
        view.extend_back(position, self.events.range(start..));
    }
}
