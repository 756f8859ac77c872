//! Indexes: map a value computed from an object to the keys of all objects with that value.
//!
//! An index keeps keys, not objects, so an update that leaves the value alone does not touch it. Values are typed:
//! [`Index`] is the handle that [`Store::add_index`](super::Store::add_index) returns and that reads take. Inside the
//! store, indexes of different value types are behind one trait.

use std::any::Any;
use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use imbl::{GenericHashMap, OrdSet, shared_ptr::DefaultSharedPtr};
use listwatch_wire::ObjectKey;
use smallvec::SmallVec;

use crate::object::Object;

/// Types that can be index values: a `String`, a number, an enum, a tuple of these.
pub trait IndexValue: Clone + Eq + Hash + Send + Sync + 'static {}
impl<V: Clone + Eq + Hash + Send + Sync + 'static> IndexValue for V {}

/// The values under which an object is found; nearly always one, which then needs no allocation. Anything that
/// collects makes one.
#[doc(alias = "IndexFunc")]
pub type IndexValues<V> = SmallVec<[V; 1]>;

/// The user's function from an object to the values under which it is found: client-go's `IndexFunc`.
pub(crate) type Extract<K, V> = dyn Fn(&Object<K>) -> Result<IndexValues<V>, IndexError> + Send + Sync;

/// The error of adding, querying or filling an index.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// There is an index of that name already; choose another, or keep the handle of the first.
    #[error("there is an index named {0:?} already")]
    NameTaken(String),
    /// The snapshot is older than the index, or belongs to another store; take a new one.
    #[error("the snapshot has no index {0:?}")]
    Unknown(String),
    /// The index function returned an error for an object.
    #[error("index {index:?} cannot place {key}: {reason}")]
    Extract {
        /// The index.
        index: String,
        /// The object that is missing from it.
        key: String,
        /// The error of the function.
        reason: String,
    },
}

impl IndexError {
    /// For index functions: this object cannot be placed, for this reason.
    pub fn cannot_place<K>(object: &Object<K>, reason: impl fmt::Display) -> Self {
        Self::Extract { index: String::new(), key: object.key().to_string(), reason: reason.to_string() }
    }

    /// The error with the name of its index, which the user's index function does not have.
    fn named(self, name: &str) -> Self {
        match self {
            Self::Extract { key, reason, .. } => Self::Extract { index: name.to_owned(), key, reason },
            other => other,
        }
    }
}

/// A typed handle on an index, to query a [`Snapshot`](super::Snapshot) with.
///
/// The types of the object and of the value are part of the handle, so a query with the wrong type does not compile.
/// It belongs to the store that returned it: a snapshot of another store answers with [`IndexError::Unknown`].
///
/// ```
/// use listwatch::lister_watcher::InMemory;
/// use listwatch::{Object, SharedInformer};
/// use serde_json::{Value, json};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pods = InMemory::new(100);
/// pods.put(&json!({"metadata": {"namespace": "a", "name": "x"}, "spec": {"nodeName": "node-1"}}))?;
/// pods.put(&json!({"metadata": {"namespace": "b", "name": "y"}, "spec": {"nodeName": "node-1"}}))?;
///
/// let informer = SharedInformer::<Value>::new(pods);
/// let by_node = informer.add_index("node", |pod: &Object<Value>| {
///     Ok(pod.text(&["spec", "nodeName"]).map(|node| node.into_owned()).into_iter().collect())
/// })?;
/// informer.start()?;
/// informer.wait_synced().await;
///
/// let snapshot = informer.snapshot();
/// assert_eq!(snapshot.by_index(&by_node, "node-1")?.count(), 2);
/// assert_eq!(snapshot.by_index(&by_node, "node-2")?.count(), 0);
/// # Ok(())
/// # }
/// ```
pub struct Index<K, V> {
    pub(super) position: usize,
    pub(super) name: Arc<str>,
    pub(super) unplaced: Arc<[IndexError]>,
    pub(super) types: PhantomData<fn(&Object<K>) -> V>,
}

impl<K, V> Index<K, V> {
    /// The name it was added under.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The objects that were in the store when the index was added and that it could not place. Later ones are
    /// reported with the write.
    #[must_use]
    pub fn unplaced(&self) -> &[IndexError] {
        &self.unplaced
    }
}

impl<K, V> Clone for Index<K, V> {
    fn clone(&self) -> Self {
        let (name, unplaced) = (Arc::clone(&self.name), Arc::clone(&self.unplaced));
        Self { position: self.position, name, unplaced, types: PhantomData }
    }
}

impl<K, V> fmt::Debug for Index<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Index").field(&self.name).finish()
    }
}

/// The values of one object in one index, kept by the writer: an update compares them with the new ones instead of
/// calling the index function for the old object again.
pub(super) type Values = Arc<dyn Any + Send + Sync>;

/// An index with the type of its values erased, so that indexes of different types are in one list.
pub(super) trait AnyIndex<K>: Send + Sync {
    /// The name that queries use.
    fn name(&self) -> &str;
    /// The values of an object; nothing if they are the `old` ones. Runs user code; call it outside the state lock.
    fn values(&self, object: &Object<K>, old: Option<&Values>) -> (Option<Values>, Option<IndexError>);
    /// Adds an object under its values.
    fn insert(&mut self, key: &ObjectKey, values: &Values);
    /// Removes an object from under the values that it had.
    fn remove(&mut self, key: &ObjectKey, values: &Values);
    /// A copy that shares its maps, for a snapshot that is still read while the index changes.
    fn copy(&self) -> Arc<dyn AnyIndex<K>>;
    /// For the typed handle, which downcasts to the type of the values.
    fn as_any(&self) -> &dyn Any;
}

/// Ordered, so that pages and comparisons of results are stable.
type IndexKeys = OrdSet<ObjectKey>;

/// Persistent: a snapshot costs a pointer.
type ValueMap<V> = GenericHashMap<V, IndexGroup, foldhash::fast::RandomState, DefaultSharedPtr>;

/// The objects that have one value.
#[derive(Clone)]
struct IndexGroup {
    keys: IndexKeys,
    /// That value alone, shared by all objects that have no other: a million objects on a hundred nodes keep a
    /// hundred node names, and comparing them touches memory that is in the processor's cache.
    alone: Values,
}

/// The values behind their type-erased form; none if they are of another index.
fn values_in<V: 'static>(values: &Values) -> &[V] {
    values.downcast_ref::<IndexValues<V>>().map(SmallVec::as_slice).unwrap_or_default()
}

/// The one implementation of [`AnyIndex`].
pub(crate) struct IndexMap<K, V> {
    name: Arc<str>,
    extract: Arc<Extract<K, V>>,
    keys: ValueMap<V>,
}

impl<K, V: IndexValue> IndexMap<K, V> {
    /// An empty index. The store fills it before it can be queried.
    pub(super) fn new(name: &str, extract: Arc<Extract<K, V>>) -> Self {
        Self { name: Arc::from(name), extract, keys: ValueMap::default() }
    }

    /// The keys of the objects with a value. Constant time, and nothing is copied.
    pub(super) fn keys<Q>(&self, value: &Q) -> Option<&IndexKeys>
    where
        V: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.keys.get(value).map(|group| &group.keys)
    }

    /// Every value that some object has, with the number of objects. client-go calls it ListIndexFuncValues.
    pub(super) fn all_values(&self) -> impl Iterator<Item = (&V, usize)> {
        self.keys.iter().map(|(value, group)| (value, group.keys.len()))
    }
}

/// A function that panics leaves its object out of the index and the informer running.
fn panicked<K>(object: &Object<K>) -> IndexError {
    IndexError::cannot_place(object, "the index function panicked")
}

impl<K: 'static, V: IndexValue> AnyIndex<K> for IndexMap<K, V> {
    fn name(&self) -> &str {
        &self.name
    }

    fn values(&self, object: &Object<K>, old: Option<&Values>) -> (Option<Values>, Option<IndexError>) {
        let extracted = catch_unwind(AssertUnwindSafe(|| (self.extract)(object)));
        let (values, problem) = match extracted.unwrap_or_else(|_| Err(panicked(object))) {
            Ok(values) => (values, None),
            Err(error) => (IndexValues::new(), Some(error.named(&self.name))),
        };
        if old.is_some_and(|old| values_in::<V>(old) == values.as_slice()) {
            return (None, problem);
        }
        let known = match values.as_slice() {
            [value] => self.keys.get(value).map(|group| Arc::clone(&group.alone)),
            _ => None,
        };
        (Some(known.unwrap_or_else(|| Arc::new(values))), problem)
    }

    fn insert(&mut self, key: &ObjectKey, values: &Values) {
        let all = values_in::<V>(values);
        for value in all {
            let alone = || match all {
                [_] => Arc::clone(values),
                _ => Arc::new(IndexValues::from_elem(value.clone(), 1)) as Values,
            };
            let group = self.keys.entry(value.clone());
            group
                .or_insert_with(|| IndexGroup { keys: IndexKeys::new(), alone: alone() })
                .keys
                .insert(key.clone());
        }
    }

    fn remove(&mut self, key: &ObjectKey, values: &Values) {
        for value in values_in::<V>(values) {
            let Some(group) = self.keys.get_mut(value) else { continue };
            group.keys.remove(key);
            // An empty set left behind for every value that ever was would be a leak.
            if group.keys.is_empty() {
                self.keys.remove(value);
            }
        }
    }

    fn copy(&self) -> Arc<dyn AnyIndex<K>> {
        let (name, extract) = (Arc::clone(&self.name), Arc::clone(&self.extract));
        Arc::new(Self { name, extract, keys: self.keys.clone() })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
