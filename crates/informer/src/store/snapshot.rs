//! [`Snapshot`]: the content of a store at one moment, with its resourceVersion.
//!
//! Reads of a store one by one may see different states; a reconcile that compares two objects takes a snapshot. It is
//! a persistent map, so taking it costs a few reference counts and no lock is held while it is read. The one cost is
//! memory: objects that were replaced since stay as long as the snapshot does, so it should not be kept across long
//! waits.
//!
//! client-go has no counterpart: its Indexer locks per call. Indexes of the same moment are part of the snapshot
//! ([`Snapshot::by_index`]).

use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;
use std::ops::Bound;

use listwatch_wire::selector::LabelSelector;
use listwatch_wire::{ObjectKey, Revision};

use super::index::{Index, IndexError, IndexMap, IndexValue};
use super::state::StoreState;
use crate::object::{Object, Raw};

/// The content of a store at one moment. Every read of one snapshot agrees with every other.
///
/// Iteration is in key order: by namespace, then by name. It holds no lock; keeping a snapshot keeps the objects
/// that have been replaced or deleted since in memory, and nothing else.
///
/// ```
/// use listwatch::object::Object;
/// use listwatch::store::{Store, StoreWrite};
/// use serde_json::{Value, json};
///
/// let (store, mut writer) = Store::<Value>::new();
/// for (namespace, name, app) in [("a", "1", "web"), ("a", "2", "db"), ("b", "1", "web")] {
///     let metadata = json!({"namespace": namespace, "name": name, "labels": {"app": app}});
///     writer.write(vec![StoreWrite::Put(Object::from_value(&json!({ "metadata": metadata }))?)]);
/// }
/// let snapshot = store.snapshot();
/// assert_eq!(snapshot.namespace("a").count(), 2);
/// assert_eq!(snapshot.select(&"app=web".parse()?).count(), 2);
///
/// // Page by page; the next page begins after the key of the last object.
/// let first = snapshot.page(None, 2);
/// let second = snapshot.page(first.last().map(Object::key), 2);
/// assert_eq!((first.len(), second.len()), (2, 1));
///
/// // What is written later is not in it.
/// writer.write(vec![StoreWrite::Remove("a/1".parse()?)]);
/// assert_eq!((snapshot.len(), store.len()), (3, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Snapshot<K = Raw> {
    state: StoreState<K>,
}

impl<K> Clone for Snapshot<K> {
    fn clone(&self) -> Self {
        Self { state: self.state.clone() }
    }
}

impl<K> fmt::Debug for Snapshot<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("len", &self.len()).field("revision", &self.revision()).finish()
    }
}

impl<K> Snapshot<K> {
    pub(super) fn new(state: StoreState<K>) -> Self {
        Self { state }
    }

    /// The resource version this is the state of.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.state.revision
    }

    /// The number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state.len()
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The object under this key.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<&Object<K>> {
        self.state.get(key)
    }

    /// All objects, in key order.
    pub fn iter(&self) -> impl Iterator<Item = &Object<K>> {
        self.state.iter()
    }

    /// The objects of one namespace, in name order.
    pub fn namespace(&self, namespace: &str) -> impl Iterator<Item = &Object<K>> + use<'_, K> {
        self.state.namespace(namespace)
    }

    /// A page: up to `limit` objects after the key `after` (from the start without one). Pass the key of the last one
    /// for the next page.
    #[must_use]
    pub fn page(&self, after: Option<&ObjectKey>, limit: usize) -> Vec<Object<K>> {
        let from = after.cloned().map_or(Bound::Unbounded, Bound::Excluded);
        self.state.from(from).take(limit).cloned().collect()
    }

    /// The objects whose labels match, in key order. Labels are read in place; nothing is decoded.
    pub fn select<'a>(&'a self, selector: &'a LabelSelector) -> impl Iterator<Item = &'a Object<K>> {
        self.iter().filter(move |object| object.matches(selector))
    }

    /// The objects that have `value` in the index, in key order.
    ///
    /// # Errors
    /// [`IndexError::Unknown`] when the snapshot is older than the index, or the index is another store's.
    #[doc(alias = "ByIndex")]
    pub fn by_index<'a, V, Q>(
        &'a self,
        index: &Index<K, V>,
        value: &Q,
    ) -> Result<impl Iterator<Item = &'a Object<K>> + use<'a, K, V, Q>, IndexError>
    where
        K: 'static,
        V: IndexValue + Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let keys = self.index_map(index)?.keys(value);
        Ok(keys.into_iter().flatten().filter_map(|key| self.get(key)))
    }

    /// The keys that have `value` in the index, in order.
    ///
    /// # Errors
    /// As [`by_index`](Self::by_index).
    pub fn index_keys<V, Q>(&self, index: &Index<K, V>, value: &Q) -> Result<Vec<ObjectKey>, IndexError>
    where
        K: 'static,
        V: IndexValue + Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        Ok(self.index_map(index)?.keys(value).into_iter().flatten().cloned().collect())
    }

    /// The values of an index, each with the number of objects that have it, in no order.
    ///
    /// # Errors
    /// As [`by_index`](Self::by_index).
    pub fn index_values<V>(
        &self,
        index: &Index<K, V>,
    ) -> Result<impl Iterator<Item = (&V, usize)>, IndexError>
    where
        K: 'static,
        V: IndexValue,
    {
        Ok(self.index_map(index)?.all_values())
    }

    /// The index behind a handle. Fails for a handle of another store, and for one that is newer than the snapshot.
    fn index_map<V>(&self, index: &Index<K, V>) -> Result<&IndexMap<K, V>, IndexError>
    where
        K: 'static,
        V: IndexValue,
    {
        let found = self.state.indexes.get(index.position);
        let map = found.filter(|any| any.name() == index.name()).and_then(|any| any.as_any().downcast_ref());
        map.ok_or_else(|| IndexError::Unknown(index.name().to_owned()))
    }
}
