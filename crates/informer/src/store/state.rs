//! [`State`]: the objects, the indexes over them and nothing else. Cloning it is what a snapshot is.
//!
//! Objects stand in a persistent vector, each at a place that it keeps as long as it lives; a persistent ordered map
//! leads from keys to places. An update, which is what nearly every change is, touches only the vector: the writer
//! knows the place from a hash map of its own ([`Places`]), which readers never see and snapshots never share. Lists
//! follow the ordered map, so they are sorted, pages resume after a key, and a namespace is a range.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::ops::Bound;
use std::sync::Arc;

use imbl::{OrdMap, Vector};
use listwatch_wire::{ObjectKey, Revision};
use smallvec::SmallVec;

use super::index::{AnyIndex, Index, IndexError, IndexMap, IndexValue, Values};
use crate::object::Object;

/// One value list per index, in the order of the indexes. Nearly every store has at most one.
pub(super) type AllValues = SmallVec<[Values; 1]>;

pub(super) type Indexes<K> = SmallVec<[Arc<dyn AnyIndex<K>>; 2]>;

/// An object and where the indexes have it.
pub(super) struct Slot<K> {
    pub(super) object: Object<K>,
    pub(super) values: AllValues,
}

impl<K> Clone for Slot<K> {
    fn clone(&self) -> Self {
        Self { object: self.object.clone(), values: self.values.clone() }
    }
}

/// Where each object stands, for the writer alone.
#[derive(Default)]
pub(super) struct Places {
    by_key: HashMap<ObjectKey, usize, foldhash::fast::RandomState>,
    /// Places that deleted objects have left.
    free: Vec<usize>,
}

pub(super) struct State<K> {
    order: OrdMap<ObjectKey, usize>,
    slots: Vector<Option<Slot<K>>>,
    /// Shared with snapshots; copied (its root, not its content) by the first change after a snapshot.
    pub(super) indexes: Indexes<K>,
    pub(super) revision: Revision,
}

impl<K> Default for State<K> {
    fn default() -> Self {
        let (order, slots) = (OrdMap::new(), Vector::new());
        Self { order, slots, indexes: SmallVec::new(), revision: Revision::ZERO }
    }
}

impl<K> Clone for State<K> {
    fn clone(&self) -> Self {
        let (order, slots) = (self.order.clone(), self.slots.clone());
        Self { order, slots, indexes: self.indexes.clone(), revision: self.revision }
    }
}

/// The index, made unshared first if a snapshot has it too.
fn exclusive<K>(index: &mut Arc<dyn AnyIndex<K>>) -> Option<&mut (dyn AnyIndex<K> + 'static)> {
    if Arc::get_mut(index).is_none() {
        *index = index.copy();
    }
    Arc::get_mut(index)
}

/// Moves an object within the indexes in which its values changed.
fn reindex<K>(indexes: &mut Indexes<K>, key: &ObjectKey, old: &AllValues, new: &AllValues) {
    for (index, (old, new)) in indexes.iter_mut().zip(old.iter().zip(new)) {
        if index.same(old, new) {
            continue;
        }
        if let Some(index) = exclusive(index) {
            index.remove(key, old);
            index.insert(key, new);
        }
    }
}

impl<K> State<K> {
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    pub(super) fn get(&self, key: &ObjectKey) -> Option<&Object<K>> {
        self.at(*self.order.get(key)?)
    }

    fn at(&self, place: usize) -> Option<&Object<K>> {
        self.slots.get(place)?.as_ref().map(|slot| &slot.object)
    }

    /// The object under the key, found the writer's way.
    pub(super) fn known(&self, places: &Places, key: &ObjectKey) -> Option<&Object<K>> {
        self.at(*places.by_key.get(key)?)
    }

    /// All objects, in key order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Object<K>> {
        self.order.values().filter_map(|place| self.at(*place))
    }

    /// The objects from a key on, in key order.
    pub(super) fn from(&self, from: Bound<ObjectKey>) -> impl Iterator<Item = &Object<K>> {
        let range: (Bound<ObjectKey>, Bound<ObjectKey>) = (from, Bound::Unbounded);
        self.order.range(range).filter_map(|(_, place)| self.at(*place))
    }

    /// The objects of one namespace, in name order.
    pub(super) fn namespace<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a Object<K>> {
        self.from(Bound::Included(ObjectKey::namespaced(namespace, "")))
            .take_while(move |object| object.namespace() == namespace)
    }

    pub(super) fn index_names(&self) -> Vec<String> {
        self.indexes.iter().map(|index| index.name().to_owned()).collect()
    }

    /// Puts the object in, moves it within the indexes where its values changed, and returns its predecessor.
    pub(super) fn put(&mut self, places: &mut Places, slot: Slot<K>) -> Option<Object<K>> {
        let Some(place) = places.by_key.get(slot.object.key()).copied() else {
            self.add(places, slot);
            return None;
        };
        let Self { slots, indexes, .. } = self;
        let current = slots.get_mut(place)?;
        let old = current.replace(slot)?;
        if let Some(new) = current.as_ref().filter(|_| !indexes.is_empty()) {
            reindex(indexes, new.object.key(), &old.values, &new.values);
        }
        Some(old.object)
    }

    fn add(&mut self, places: &mut Places, slot: Slot<K>) {
        let key = slot.object.key().clone();
        for (index, values) in self.indexes.iter_mut().zip(&slot.values) {
            if let Some(index) = exclusive(index) {
                index.insert(&key, values);
            }
        }
        let place = places.free.pop().unwrap_or(self.slots.len());
        match self.slots.get_mut(place) {
            Some(free) => *free = Some(slot),
            None => self.slots.push_back(Some(slot)),
        }
        self.order.insert(key.clone(), place);
        places.by_key.insert(key, place);
    }

    pub(super) fn remove(&mut self, places: &mut Places, key: &ObjectKey) -> Option<Object<K>> {
        let place = places.by_key.remove(key)?;
        places.free.push(place);
        self.order.remove(key);
        let old = self.slots.get_mut(place)?.take()?;
        for (index, values) in self.indexes.iter_mut().zip(&old.values) {
            if let Some(index) = exclusive(index) {
                index.remove(key, values);
            }
        }
        Some(old.object)
    }
}

impl<K: 'static> State<K> {
    /// Adds an index and places every object in it.
    pub(super) fn add_index<V: IndexValue>(
        &mut self,
        name: &str,
        mut map: IndexMap<K, V>,
    ) -> Result<Index<K, V>, IndexError> {
        if self.indexes.iter().any(|index| index.name() == name) {
            return Err(IndexError::NameTaken(name.to_owned()));
        }
        for (key, place) in &self.order {
            let Some(Some(slot)) = self.slots.get_mut(*place) else { continue };
            let (values, _missing) = map.values(&slot.object);
            map.insert(key, &values);
            slot.values.push(values);
        }
        self.indexes.push(Arc::new(map));
        Ok(Index { position: self.indexes.len() - 1, name: Arc::from(name), types: PhantomData })
    }
}
