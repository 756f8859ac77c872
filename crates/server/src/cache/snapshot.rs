//! [`CollectionSnapshot`]: the immutable state of one collection at one revision.
//!
//! A persistent ordered map, by storage key: the feeder's next state shares all nodes but the changed ones, so that a
//! slow list can hold its snapshot without a lock and without a copy. [`Walk`] is a range of keys, or of an index on
//! a field such as `spec.nodeName`.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use listwatch_wire::Revision;

use crate::cache::filter::Filter;
use crate::cache::object::CachedObject;

/// The state of one collection at one revision. Cloning it, and keeping it while the collection moves on, costs the few
/// nodes that changed since.
#[derive(Clone, Debug, Default)]
pub struct CollectionSnapshot {
    /// All objects by storage key.
    objects: OrdSet<ByKey>,
    /// One per indexed field.
    indexes: Vec<FieldIndex>,
    /// The newest change in it.
    revision: Revision,
    /// The bytes of all objects.
    bytes: usize,
}

/// An object in the order of its storage key. The key is the object's own: another pointer to it in every place of the tree
/// would be a tenth of what a small object costs.
#[derive(Clone, Debug)]
struct ByKey(Arc<CachedObject>);

impl Borrow<str> for ByKey {
    fn borrow(&self) -> &str {
        self.0.key()
    }
}

impl Ord for ByKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.key().cmp(other.0.key())
    }
}

impl PartialOrd for ByKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ByKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.key() == other.0.key()
    }
}

impl Eq for ByKey {}

/// Objects by the value of a field and the storage key.
type FieldIndex = OrdMap<(Arc<str>, Arc<str>), Arc<CachedObject>>;

/// A field with an index in each snapshot, so that a list or watch by an exact value (kubelets: `spec.nodeName`) reads
/// only what matches.
#[doc(alias = "IndexerFuncs")]
#[doc(alias = "TriggerPublisherFuncs")]
#[derive(Clone, Debug)]
pub struct IndexedField {
    /// The name in selectors.
    pub label: Arc<str>,
    /// The path of its value in stored objects.
    pub path: Arc<str>,
}

/// A range of keys, or of an index, that is walked in steps: it stores where to continue, so that no iterator has to be
/// held across an await.
#[derive(Clone, Debug)]
pub struct Walk {
    next: Bound<Arc<str>>,
    end: Option<Arc<str>>,
    /// The index to walk instead, and the value to stay at.
    index: Option<(usize, Arc<str>)>,
}

impl CollectionSnapshot {
    /// An empty snapshot with so many indexes.
    pub(crate) fn new(indexes: usize) -> Self {
        Self { indexes: vec![OrdMap::new(); indexes], ..Self::default() }
    }

    /// The revision of the newest change in it. The state may be valid for a later revision: see
    /// [`super::Cache::read`].
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Returns true if there are no objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// The memory of all objects, as [`CachedObject::weight`] estimates it. API priority and fairness sizes lists by it.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns one object by its storage key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Arc<CachedObject>> {
        self.objects.get(key).map(|object| &object.0)
    }

    /// Inserts, replaces or removes an object, in the map and in all indexes. Returns the previous version.
    pub(crate) fn apply(
        &mut self,
        revision: Revision,
        key: &Arc<str>,
        object: Option<&Arc<CachedObject>>,
    ) -> Option<Arc<CachedObject>> {
        self.revision = self.revision.max(revision);
        let previous = match object {
            Some(object) => self.objects.insert(ByKey(Arc::clone(object))),
            None => self.objects.remove(&**key),
        };
        let previous = previous.map(|object| object.0);
        self.bytes += object.map_or(0, |o| o.weight());
        self.bytes -= previous.as_ref().map_or(0, |o| o.weight());
        for (at, index) in self.indexes.iter_mut().enumerate() {
            let entry = |o: &CachedObject| (Arc::from(o.indexed(at).unwrap_or_default()), Arc::clone(key));
            previous.as_ref().map(|o| index.remove(&entry(o)));
            object.map(|o| index.insert(entry(o), Arc::clone(o)));
        }
        previous
    }

    /// A walk over the objects below `prefix` that can match the filter, beginning at `from` if given.
    #[must_use]
    pub(crate) fn walk(prefix: &str, fields: &[IndexedField], filter: &Filter, from: Option<&str>) -> Walk {
        if let Some(single) = filter.single() {
            let key = format!("{prefix}{single}");
            let end = Some(format!("{key}\0").into());
            return Walk { next: Bound::Included(from.unwrap_or(&key).max(&key).into()), end, index: None };
        }
        let scope = scope(prefix, filter);
        let start = Bound::Included(Arc::from(from.unwrap_or(&scope)));
        let indexed =
            |(i, f): (usize, &IndexedField)| filter.exact_field(&f.label).map(|value| (i, Arc::from(value)));
        let index = fields.iter().enumerate().find_map(indexed);
        Walk { next: start, end: Some(end_of(&scope)), index }
    }

    /// A walk over all objects below `prefix`, or those that have a value in an index.
    pub(crate) fn walk_at(prefix: &str, index: Option<(usize, Arc<str>)>) -> Walk {
        Walk { next: Bound::Included(prefix.into()), end: Some(end_of(prefix)), index }
    }

    /// The next objects of a walk, in key order.
    pub fn range<'a>(&'a self, walk: &Walk) -> Box<dyn Iterator<Item = &'a Arc<CachedObject>> + Send + 'a> {
        match &walk.index {
            None => {
                let next = walk.next.as_ref().map(|key| &**key);
                let end = walk.end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
                Box::new(self.objects.range::<_, str>((next, end)).map(|object| &object.0))
            }
            Some((index, value)) => {
                let end = walk.end.clone().map_or(Bound::Unbounded, Bound::Excluded);
                let at = |bound: Bound<Arc<str>>| bound.map(|key| (Arc::clone(value), key));
                let Some(index) = self.indexes.get(*index) else { return Box::new(std::iter::empty()) };
                Box::new(index.range((at(walk.next.clone()), at(end))).map(|(_, object)| object))
            }
        }
    }

    /// The number of objects that a walk has not reached yet. It counts them one by one.
    #[must_use]
    pub fn count(&self, walk: &Walk) -> usize {
        self.range(walk).count()
    }
}

impl Walk {
    /// The storage keys it goes over: the first, and the one after the last.
    #[must_use]
    pub fn bounds(&self) -> (Arc<str>, Arc<str>) {
        let start = match &self.next {
            Bound::Included(key) => Arc::clone(key),
            Bound::Excluded(key) => format!("{key}\0").into(),
            Bound::Unbounded => "".into(),
        };
        (start, self.end.clone().unwrap_or_else(|| "".into()))
    }

    /// Continues the walk after this key, which was the last one taken.
    pub fn advance(&mut self, key: &Arc<str>) {
        self.next = Bound::Excluded(Arc::clone(key));
    }
}

/// The prefix of all keys that can match.
pub(crate) fn scope(prefix: &str, filter: &Filter) -> String {
    match &filter.namespace {
        Some(namespace) => format!("{prefix}{namespace}/"),
        None => prefix.to_owned(),
    }
}

/// The first key after all that begin with a prefix ending in a slash: `0` comes next to `/`.
fn end_of(prefix: &str) -> Arc<str> {
    let stem = prefix.strip_suffix('/').unwrap_or(prefix);
    format!("{stem}0").into()
}
