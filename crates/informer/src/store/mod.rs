//! The indexed cache: [`Store`] to read, [`StoreWriter`] to write, [`Snapshot`] for several reads of the same state.
//!
//! Objects live in a persistent ordered map. A reader of more than one object takes a [`Snapshot`], which costs
//! a few reference counts at any size, and can iterate over it for any length of time: the writer copies the few
//! tree nodes it changes instead of waiting. No reader ever holds a lock while it iterates, filters or decodes.
//!
//! It is not a queue and wakes only [`Store::wait_for`]; handlers are in [`processor`](crate::processor). Next:
//! [`index`] for indexes and [`snapshot`] for reads.

pub mod index;
mod places;
mod plan;
mod slots;
pub mod snapshot;
mod state;
mod writer;

use std::fmt;
use std::sync::Arc;

use listwatch_wire::{ObjectKey, Revision};
use tokio::sync::watch;

pub use index::{Index, IndexError, IndexValues};
pub use snapshot::Snapshot;
pub use writer::{Replacement, StoreChange, StoreWrite, StoreWriter};

use crate::object::{Object, Raw};
use crate::sync::Mutex;
use index::{Extract, IndexMap};
use places::Places;
use state::StoreState;

/// The part shared by the read handles and the writer.
pub(crate) struct StoreShared<K> {
    /// Held for as long as it takes to clone a few roots or to insert a few dozen objects, never for user code.
    state: Mutex<StoreState<K>>,
    /// Serialises changes of the state (by the writer and [`Store::add_index`]), so that they can be prepared, index
    /// functions included, without blocking readers. Holds the data that only changes need.
    writing: Mutex<Places>,
    /// Wakes [`Store::wait_for`]; a channel because any number of tasks may wait for any revision.
    revision: watch::Sender<Revision>,
}

/// A read handle on a cache. Cheap to clone; never blocks the writer.
///
/// ```
/// use listwatch::object::Object;
/// use listwatch::store::{Store, StoreWrite};
/// use serde_json::{Value, json};
///
/// let (store, mut writer) = Store::<Value>::new();
/// let by_team = store.add_index("team", |o: &Object<Value>| {
///     Ok(o.label("team").map(|team| team.into_owned()).into_iter().collect())
/// })?;
/// let pod = Object::from_value(&json!({
///     "metadata": {"namespace": "x", "name": "y", "resourceVersion": "7", "labels": {"team": "red"}}
/// }))?;
/// writer.write(vec![StoreWrite::Put(pod)]);
///
/// assert!(store.get_by("x", "y").is_some());
/// let snapshot = store.snapshot();
/// assert_eq!(snapshot.by_index(&by_team, "red")?.count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "Indexer")]
#[doc(alias = "ThreadSafeStore")]
pub struct Store<K = Raw> {
    shared: Arc<StoreShared<K>>,
}

impl<K> Clone for Store<K> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<K> fmt::Debug for Store<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("len", &self.len()).field("revision", &self.revision()).finish()
    }
}

/// The store will never reach the revision: its writer has ended.
///
/// Readers get it from [`Store::wait_for`] when the informer stops, instead of waiting without end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the store stopped at revision {at} and will not reach {wanted}")]
pub struct Stopped {
    /// The revision that was waited for.
    pub wanted: Revision,
    /// The revision at which the store has stopped.
    pub at: Revision,
}

impl<K> Store<K> {
    /// An empty store and its only writer. When the writer is dropped, the store is [stopped](Self::is_stopped) and
    /// stays readable.
    #[must_use]
    pub fn new() -> (Self, StoreWriter<K>) {
        let (revision, _) = watch::channel(Revision::ZERO);
        let state = Mutex::new(StoreState::default());
        let shared = Arc::new(StoreShared { state, writing: Mutex::new(Places::default()), revision });
        (Self { shared: Arc::clone(&shared) }, StoreWriter::new(shared))
    }

    /// Returns the object under this key, as of now. Two calls may see two states; take a
    /// [`snapshot`](Self::snapshot) to read several objects of one state.
    #[must_use]
    #[doc(alias = "GetByKey")]
    pub fn get(&self, key: &ObjectKey) -> Option<Object<K>> {
        self.shared.state.lock().get(key).cloned()
    }

    /// Returns the object of this name. The namespace of cluster-scoped objects is empty.
    #[must_use]
    pub fn get_by(&self, namespace: &str, name: &str) -> Option<Object<K>> {
        self.get(&ObjectKey::namespaced(namespace, name))
    }

    /// Returns everything as it is at this moment, with its resource version. Costs the same for ten objects or a
    /// million, because the maps are shared and copied only where a later write changes them.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot<K> {
        Snapshot::new(self.shared.state.lock().clone())
    }

    /// The number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.state.lock().len()
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the resource version up to which every change of the collection is in the store. With several sources
    /// it is that of the slowest.
    #[must_use]
    #[doc(alias = "LastSyncResourceVersion")]
    pub fn revision(&self) -> Revision {
        self.shared.state.lock().revision
    }

    /// True if its writer has ended: the content no longer changes.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        *self.shared.revision.borrow() == writer::ENDED
    }

    /// Waits until the store holds everything up to `revision`: with the resource version that a write returned,
    /// this is read-your-writes.
    ///
    /// # Errors
    /// [`Stopped`] when the writer has ended before that. Waits for ever for a revision that never comes: an idle
    /// collection only advances with the server's bookmarks, so combine it with a timeout.
    pub async fn wait_for(&self, revision: Revision) -> Result<(), Stopped> {
        let mut changes = self.shared.revision.subscribe();
        let gone = || Stopped { wanted: revision, at: self.revision() };
        // `shared` owns the sender as long as this handle exists, so the end of writing is a revision of its own.
        let at = changes.wait_for(|at| *at >= revision || *at == writer::ENDED).await.map_err(|_| gone())?;
        if *at == writer::ENDED { Err(gone()) } else { Ok(()) }
    }

    /// Adds an index, at any time; it is complete when this returns.
    ///
    /// `extract` names the values under which an object is found: none, one or many. When it fails or panics for an
    /// object, that object is missing from this index only; the failure is in [`Index::unplaced`] if the object was there
    /// before, and else reported with the write. It runs while changes are applied, so it must not use this store or
    /// its informer.
    ///
    /// # Errors
    /// [`IndexError::NameTaken`] when there is an index of that name.
    #[doc(alias = "AddIndexers")]
    #[doc(alias = "IndexFunc")]
    pub fn add_index<V, F>(&self, name: &str, extract: F) -> Result<Index<K, V>, IndexError>
    where
        K: 'static,
        V: index::IndexValue,
        F: Fn(&Object<K>) -> Result<IndexValues<V>, IndexError> + Send + Sync + 'static,
    {
        let mut places = self.shared.writing.lock();
        let mut next = self.shared.state.lock().clone();
        let extract: Arc<Extract<K, V>> = Arc::new(extract);
        let index = next.add_index(&mut places, name, IndexMap::new(name, extract))?;
        let previous = std::mem::replace(&mut *self.shared.state.lock(), next);
        drop(previous);
        Ok(index)
    }

    /// The names of the indexes, in the order in which they were added.
    #[must_use]
    pub fn index_names(&self) -> Vec<String> {
        self.shared.state.lock().index_names()
    }
}
