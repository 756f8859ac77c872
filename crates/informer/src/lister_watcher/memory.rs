//! [`InMemory`]: a collection in this process that is listed and watched like a server's.
//!
//! It behaves as kube-apiserver does where it matters to informers: one revision counter, a bounded history, 410 for a watch
//! that begins before it, streaming lists with the initial-events-end bookmark, and "too large resource version" for
//! lists from the future. It never fails, stalls or sends bookmarks by itself; [`Scripted`](super::Scripted) is for
//! those, and `listwatch-testkit` has a server and a faulty proxy. client-go's counterpart is `FakeControllerSource`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::stream;
use listwatch_wire::status::Status;
use listwatch_wire::{ObjectKey, Revision};
use tokio::sync::watch;

use super::{
    ListRequest, ListVersion, ListerWatcher, SourceError, SourcePage, WatchEvent, WatchRequest, WatchStream,
};
use crate::object::{Object, Raw};
use crate::sync::Mutex;

/// Distinguishes the collections of one process.
static COLLECTIONS: AtomicU64 = AtomicU64::new(0);

/// The number of events a watch takes at a time.
const BATCH: usize = 1000;

/// The objects and the recent history of an [`InMemory`] source.
#[derive(Debug)]
struct MemoryCollection {
    objects: BTreeMap<ObjectKey, Object<Raw>>,
    /// The latest events; a watch that begins before them fails with 410 (expired).
    history: VecDeque<(Revision, WatchEvent)>,
    /// The last event that is no longer in `history`.
    forgotten: Revision,
    revision: Revision,
}

/// A collection in memory: for tests, examples and benchmarks, without a server and without faults.
///
/// ```
/// use listwatch::lister_watcher::InMemory;
/// use serde_json::json;
///
/// let pods = InMemory::new(1000);
/// let revision = pods.put(&json!({"metadata": {"namespace": "x", "name": "y"}}))?;
/// assert_eq!(pods.revision(), revision);
/// # Ok::<(), listwatch::object::ObjectError>(())
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "FakeControllerSource")]
pub struct InMemory {
    collection: Arc<Mutex<MemoryCollection>>,
    changed: Arc<watch::Sender<Revision>>,
    history: usize,
    identity: Arc<str>,
}

impl InMemory {
    /// An empty collection that keeps the last `history` events.
    #[must_use]
    pub fn new(history: usize) -> Self {
        let collection = MemoryCollection {
            objects: BTreeMap::new(),
            history: VecDeque::new(),
            forgotten: Revision::ZERO,
            revision: Revision::ZERO,
        };
        let changed = Arc::new(watch::Sender::new(Revision::ZERO));
        let number = COLLECTIONS.fetch_add(1, Ordering::Relaxed);
        let identity = format!("{}-{number}", std::process::id()).into();
        Self { collection: Arc::new(Mutex::new(collection)), changed, history, identity }
    }

    /// Sets its identity, which is otherwise unique: for tests with a [saved cache](crate::warm) of another process.
    #[must_use]
    pub fn identity(mut self, identity: &str) -> Self {
        self.identity = identity.into();
        self
    }

    /// The resource version of the last change.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.collection.lock().revision
    }

    /// The object under this key.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<Object<Raw>> {
        self.collection.lock().objects.get(key).cloned()
    }

    /// Creates or replaces the object; the resource version is assigned here and returned.
    ///
    /// # Errors
    /// When it has no name.
    pub fn put(&self, object: &serde_json::Value) -> Result<Revision, crate::object::ObjectError> {
        let mut value = object.clone();
        let mut collection = self.collection.lock();
        let revision = collection.revision.next();
        if let Some(metadata) = value.get_mut("metadata").and_then(|m| m.as_object_mut()) {
            metadata.insert("resourceVersion".to_owned(), revision.to_string().into());
        }
        let object = Object::from_value(&value)?;
        self.store(&mut collection, object, revision);
        Ok(revision)
    }

    /// Creates or replaces an object that is encoded already and carries its resource version, which must be the
    /// highest so far: for benchmarks, which must not measure encoding.
    pub fn put_encoded(&self, object: Object<Raw>) {
        let mut collection = self.collection.lock();
        let revision = object.revision();
        self.store(&mut collection, object, revision);
    }

    fn store(&self, collection: &mut MemoryCollection, object: Object<Raw>, revision: Revision) {
        let old = collection.objects.insert(object.key().clone(), object.clone());
        let event = if old.is_some() { WatchEvent::Modified(object) } else { WatchEvent::Added(object) };
        self.record(collection, revision, event);
    }

    /// Deletes the object, if it is there.
    pub fn delete(&self, key: &ObjectKey) -> Option<Revision> {
        let mut collection = self.collection.lock();
        let revision = collection.revision.next();
        let gone = collection.objects.remove(key)?.with_revision(revision);
        self.record(&mut collection, revision, WatchEvent::Deleted(gone));
        Some(revision)
    }

    /// Appends an event to the history, drops the oldest beyond the bound, and wakes watches.
    fn record(&self, collection: &mut MemoryCollection, revision: Revision, event: WatchEvent) {
        collection.history.push_back((revision, event));
        collection.revision = revision;
        if collection.history.len() > self.history
            && let Some((forgotten, _)) = collection.history.pop_front()
        {
            collection.forgotten = forgotten;
        }
        self.changed.send_replace(revision);
    }
}

/// The events after `since`, at most a batch of them.
fn events_after(
    collection: &MemoryCollection,
    since: Revision,
) -> Result<(Vec<WatchEvent>, Revision), SourceError> {
    if since < collection.forgotten {
        return Err(
            Status::expired(format!("too old resource version: {since} ({})", collection.forgotten)).into()
        );
    }
    let start = collection.history.partition_point(|(revision, _)| *revision <= since);
    let taken = || collection.history.range(start..).take(BATCH);
    let last = taken().next_back().map_or(since, |(revision, _)| *revision);
    Ok((taken().map(|(_, event)| event.clone()).collect(), last))
}

fn initial_events(collection: &MemoryCollection) -> Vec<WatchEvent> {
    let mut events: Vec<_> = collection.objects.values().cloned().map(WatchEvent::Added).collect();
    events.push(WatchEvent::Bookmark { revision: collection.revision, initial_events_end: true });
    events
}

#[async_trait::async_trait]
impl ListerWatcher for InMemory {
    async fn identity(&self) -> Result<Option<String>, SourceError> {
        Ok(Some(self.identity.to_string()))
    }

    async fn list(&self, request: &ListRequest) -> Result<SourcePage, SourceError> {
        let collection = self.collection.lock();
        if let ListVersion::NotOlderThan(asked) = request.version
            && asked > collection.revision
        {
            return Err(Status::too_large_resource_version(asked.0, collection.revision.0, 1).into());
        }
        let after = request.continue_token.as_deref().and_then(|token| token.parse::<ObjectKey>().ok());
        let rest =
            collection.objects.iter().filter(|(key, _)| after.as_ref().is_none_or(|after| *key > after));
        let limit = request.limit.map_or(usize::MAX, |limit| limit as usize);
        let mut objects: Vec<_> =
            rest.take(limit.saturating_add(1)).map(|(_, object)| object.clone()).collect();
        let more = objects.len() > limit;
        objects.truncate(limit);
        let continue_token = objects.last().filter(|_| more).map(|object| object.key().to_string());
        Ok(SourcePage { objects, revision: collection.revision, continue_token, unusable: Vec::new() })
    }

    async fn watch(&self, request: &WatchRequest) -> Result<WatchStream, SourceError> {
        let (first, since) = {
            let collection = self.collection.lock();
            match request.revision {
                _ if request.initial_events => (initial_events(&collection), collection.revision),
                Some(revision) => events_after(&collection, revision)?,
                None => (Vec::new(), collection.revision),
            }
        };
        let collection = Arc::clone(&self.collection);
        let position = Some((since, self.changed.subscribe()));
        let later = stream::unfold(position, move |position| {
            let collection = Arc::clone(&collection);
            async move {
                let (since, mut changed) = position?;
                changed.wait_for(|revision| *revision > since).await.ok()?;
                let next = events_after(&collection.lock(), since);
                match next {
                    Ok((events, at)) => Some((Ok(events), Some((at, changed)))),
                    Err(error) => Some((Err(error), None)),
                }
            }
        });
        Ok(WatchStream::new(futures::StreamExt::chain(stream::iter([Ok(first)]), later)))
    }
}
