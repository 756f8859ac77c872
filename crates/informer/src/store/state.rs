//! [`State`]: the objects, the indexes over them and nothing else. Cloning it is what a snapshot is.

use std::marker::PhantomData;
use std::sync::Arc;

use imbl::OrdMap;
use listwatch_wire::{ObjectKey, Revision};
use smallvec::SmallVec;

use super::index::{AnyIndex, Index, IndexError, IndexMap, IndexValue, Values};
use crate::object::Object;

/// One value list per index, in the order of the indexes. Nearly every store has at most two.
pub(super) type AllValues = SmallVec<[Values; 1]>;

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

pub(super) struct State<K> {
    /// Ordered, so that lists are sorted, pages resume after a key, and a namespace is a range.
    pub(super) slots: OrdMap<ObjectKey, Slot<K>>,
    /// Shared with snapshots; copied (its root, not its content) by the first change after a snapshot.
    pub(super) indexes: SmallVec<[Arc<dyn AnyIndex<K>>; 2]>,
    pub(super) revision: Revision,
}

impl<K> Default for State<K> {
    fn default() -> Self {
        Self { slots: OrdMap::new(), indexes: SmallVec::new(), revision: Revision::ZERO }
    }
}

impl<K> Clone for State<K> {
    fn clone(&self) -> Self {
        Self { slots: self.slots.clone(), indexes: self.indexes.clone(), revision: self.revision }
    }
}

/// The index, made unshared first if a snapshot has it too.
fn exclusive<K>(index: &mut Arc<dyn AnyIndex<K>>) -> Option<&mut (dyn AnyIndex<K> + 'static)> {
    if Arc::get_mut(index).is_none() {
        *index = index.copy();
    }
    Arc::get_mut(index)
}

impl<K> State<K> {
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn get(&self, key: &ObjectKey) -> Option<&Object<K>> {
        self.slots.get(key).map(|slot| &slot.object)
    }

    pub(super) fn index_names(&self) -> Vec<String> {
        self.indexes.iter().map(|index| index.name().to_owned()).collect()
    }

    /// Puts the object in, moves it within the indexes where its values changed, and returns its predecessor.
    pub(super) fn put(&mut self, slot: Slot<K>) -> Option<Object<K>> {
        let key = slot.object.key().clone();
        if self.indexes.is_empty() {
            return self.slots.insert(key, slot).map(|old| old.object);
        }
        let values = slot.values.clone();
        let old = self.slots.insert(key.clone(), slot);
        let old_values = old.as_ref().map(|old| &old.values);
        for (position, index) in self.indexes.iter_mut().enumerate() {
            let Some(new) = values.get(position) else { continue };
            let old = old_values.and_then(|values| values.get(position));
            if old.is_some_and(|old| index.same(old, new)) {
                continue;
            }
            let Some(index) = exclusive(index) else { continue };
            if let Some(old) = old {
                index.remove(&key, old);
            }
            index.insert(&key, new);
        }
        old.map(|old| old.object)
    }

    pub(super) fn remove(&mut self, key: &ObjectKey) -> Option<Object<K>> {
        let old = self.slots.remove(key)?;
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
        let mut slots = OrdMap::new();
        for (key, slot) in &self.slots {
            let (values, _missing) = map.values(&slot.object);
            map.insert(key, &values);
            let mut slot = slot.clone();
            slot.values.push(values);
            slots.insert(key.clone(), slot);
        }
        self.slots = slots;
        self.indexes.push(Arc::new(map));
        Ok(Index { position: self.indexes.len() - 1, name: Arc::from(name), types: PhantomData })
    }
}
