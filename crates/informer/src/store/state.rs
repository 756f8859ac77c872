//! [`StoreState`]: the objects and their indexes. A snapshot is a clone of it.
//!
//! Objects are in a persistent vector, each in a slot that it keeps until it is deleted; a persistent ordered map leads
//! from keys to slots. An update, by far the most frequent change, touches only the vector: the writer finds the slot
//! in its own hash map ([`Places`]). Lists follow the ordered map, so they are sorted, pages resume after a key, and a
//! namespace is a range.

use std::marker::PhantomData;
use std::ops::Bound;
use std::sync::Arc;

use imbl::OrdMap;
use listwatch_wire::{ObjectKey, Revision};
use smallvec::SmallVec;

use super::index::{AnyIndex, Index, IndexError, IndexMap, IndexValue};
use super::places::{AllValues, Places};
use super::plan::Move;
use super::slots::Slots;
use crate::object::Object;

/// Most informers have two or fewer.
pub(super) type Indexes<K> = SmallVec<[Arc<dyn AnyIndex<K>>; 2]>;

/// One version of the cache: objects in order, their slots and the indexes. Copies share.
pub(super) struct StoreState<K> {
    order: OrdMap<ObjectKey, usize>,
    pub(super) slots: Slots<Object<K>>,
    /// Shared with snapshots; copied (its root, not its content) by the first change after a snapshot.
    pub(super) indexes: Indexes<K>,
    pub(super) revision: Revision,
}

impl<K> Default for StoreState<K> {
    fn default() -> Self {
        let (order, slots) = (OrdMap::new(), Slots::default());
        Self { order, slots, indexes: SmallVec::new(), revision: Revision::ZERO }
    }
}

impl<K> Clone for StoreState<K> {
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

impl<K> StoreState<K> {
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    pub(super) fn get(&self, key: &ObjectKey) -> Option<&Object<K>> {
        self.slots.get(*self.order.get(key)?)
    }

    /// Objects in the order of their keys.
    fn range(&self, from: Bound<ObjectKey>, to: Bound<ObjectKey>) -> impl Iterator<Item = &Object<K>> {
        let mut reader = self.slots.reader();
        self.order.range((from, to)).filter_map(move |(_, place)| reader.get(*place))
    }

    /// All objects, in key order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Object<K>> {
        let mut reader = self.slots.reader();
        self.order.values().filter_map(move |place| reader.get(*place))
    }

    /// The objects from a key on, in key order.
    pub(super) fn from(&self, from: Bound<ObjectKey>) -> impl Iterator<Item = &Object<K>> {
        self.range(from, Bound::Unbounded)
    }

    /// The objects of one namespace, in name order.
    pub(super) fn namespace(&self, namespace: &str) -> impl Iterator<Item = &Object<K>> + use<'_, K> {
        let first = ObjectKey::namespaced(namespace, "");
        // The next namespace there could be; of objects without a namespace, the first that has one.
        let end = ObjectKey::namespaced(&format!("{namespace}\0"), "");
        self.range(Bound::Included(first), Bound::Excluded(end))
    }

    pub(super) fn index_names(&self) -> Vec<String> {
        self.indexes.iter().map(|index| index.name().to_owned()).collect()
    }

    /// Moves an object within the indexes in which its values changed.
    pub(super) fn reindex(&mut self, key: &ObjectKey, moves: Vec<Move>) {
        for Move { index, old, new } in moves {
            if let Some(index) = self.indexes.get_mut(index).and_then(exclusive) {
                index.remove(key, &old);
                index.insert(key, &new);
            }
        }
    }

    pub(super) fn add(&mut self, place: usize, object: Object<K>, values: &AllValues) {
        for (index, values) in self.indexes.iter_mut().zip(values) {
            if let Some(index) = exclusive(index) {
                index.insert(object.key(), values);
            }
        }
        self.order.insert(object.key().clone(), place);
        self.slots.set(place, Some(object));
    }

    /// Removes an object from the order, its slot and all indexes.
    pub(super) fn remove(&mut self, place: usize, key: &ObjectKey, values: &AllValues) -> Option<Object<K>> {
        self.order.remove(key);
        for (index, values) in self.indexes.iter_mut().zip(values) {
            if let Some(index) = exclusive(index) {
                index.remove(key, values);
            }
        }
        self.slots.set(place, None)
    }
}

impl<K: 'static> StoreState<K> {
    /// Adds an index and places every object in it.
    pub(super) fn add_index<V: IndexValue>(
        &mut self,
        places: &mut Places,
        name: &str,
        mut map: IndexMap<K, V>,
    ) -> Result<Index<K, V>, IndexError> {
        if self.indexes.iter().any(|index| index.name() == name) {
            return Err(IndexError::NameTaken(name.to_owned()));
        }
        let mut unplaced = Vec::new();
        for (place, key, all) in places.entries() {
            let Some(object) = self.slots.get(place) else { continue };
            let (values, problem) = map.values(object, None);
            unplaced.extend(problem);
            values.iter().for_each(|values| map.insert(key, values));
            all.extend(values);
        }
        self.indexes.push(Arc::new(map));
        let position = self.indexes.len() - 1;
        Ok(Index { position, name: Arc::from(name), unplaced: unplaced.into(), types: PhantomData })
    }
}
