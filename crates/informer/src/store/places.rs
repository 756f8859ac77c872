//! [`Places`]: where each object stands, and under which values the indexes have it.
//!
//! For the writer alone: readers never see it and snapshots never share it, so it is plain memory that is changed in
//! place. It also holds the one key that all versions of an object share.

use std::hash::{BuildHasher, Hasher};

use hashbrown::HashTable;
use listwatch_wire::ObjectKey;
use smallvec::SmallVec;

use super::index::Values;
use crate::object::Object;

/// One value list per index, in the order of the indexes. Nearly every store has at most one.
pub(super) type AllValues = SmallVec<[Values; 1]>;

/// The writer's record of an object.
pub(super) struct PlaceRecord {
    key: ObjectKey,
    pub(super) values: AllValues,
    /// Of the key, so that the table grows without a look at the keys.
    hash: u64,
}

impl PlaceRecord {
    fn is(&self, (namespace, name): (&[u8], &[u8])) -> bool {
        self.key.name().as_bytes() == name && self.key.namespace().as_bytes() == namespace
    }
}

#[derive(Default)]
pub(super) struct Places {
    /// Finds the place of a key. Four bytes for each: the table of a hundred thousand objects stays in the
    /// processor's cache, and what a lookup waits for is the entry and the key it compares.
    table: HashTable<u32>,
    /// By place; none where a deleted object has left.
    entries: Vec<Option<PlaceRecord>>,
    free: Vec<u32>,
    hasher: foldhash::fast::RandomState,
}

fn parts(key: &ObjectKey) -> (&[u8], &[u8]) {
    (key.namespace().as_bytes(), key.name().as_bytes())
}

fn entry_at(entries: &[Option<PlaceRecord>], place: u32) -> Option<&PlaceRecord> {
    entries.get(place as usize)?.as_ref()
}

impl Places {
    fn hash(&self, (namespace, name): (&[u8], &[u8])) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(namespace);
        hasher.write(name);
        hasher.finish()
    }

    /// The place of the object's key. Reads only, so that the processor can wait for several at a time.
    pub(super) fn find<K>(&self, object: &Object<K>) -> Option<usize> {
        let key = object.key_bytes();
        let is = |place: &u32| entry_at(&self.entries, *place).is_some_and(|entry| entry.is(key));
        self.table.find(self.hash(key), is).map(|place| *place as usize)
    }

    /// The record under the key of this object, which gets that key for its own.
    pub(super) fn known<K>(&mut self, object: &Object<K>) -> Option<(usize, &mut PlaceRecord)> {
        let place = self.find(object)?;
        let entry = self.entries.get_mut(place)?.as_mut()?;
        object.share_key(&entry.key);
        Some((place, entry))
    }

    /// Makes room for as many new objects at once.
    pub(super) fn reserve(&mut self, objects: usize) {
        let entries = &self.entries;
        self.table.reserve(objects, |place| entry_at(entries, *place).map_or(0, |entry| entry.hash));
        self.entries.reserve(objects);
    }

    /// A place for a new object.
    pub(super) fn add(&mut self, key: ObjectKey, values: AllValues) -> usize {
        let hash = self.hash(parts(&key));
        let entry = Some(PlaceRecord { key, values, hash });
        // Four billion objects are more than any memory holds.
        let next = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        let place = self.free.pop().unwrap_or(next);
        match self.entries.get_mut(place as usize) {
            Some(free) => *free = entry,
            None => self.entries.push(entry),
        }
        let entries = &self.entries;
        let rehash = |place: &u32| entry_at(entries, *place).map_or(0, |entry| entry.hash);
        self.table.insert_unique(hash, place, rehash);
        place as usize
    }

    /// The place that the key leaves, and what was known of it.
    pub(super) fn remove(&mut self, key: &ObjectKey) -> Option<(usize, PlaceRecord)> {
        let (hash, entries) = (self.hash(parts(key)), &self.entries);
        let is = |place: &u32| entry_at(entries, *place).is_some_and(|entry| entry.is(parts(key)));
        let (place, _) = self.table.find_entry(hash, is).ok()?.remove();
        let entry = self.entries.get_mut(place as usize)?.take()?;
        self.free.push(place);
        Some((place as usize, entry))
    }

    /// All records, to be extended by the values of another index.
    pub(super) fn entries(&mut self) -> impl Iterator<Item = (usize, &ObjectKey, &mut AllValues)> {
        self.entries
            .iter_mut()
            .enumerate()
            .filter_map(|(place, entry)| entry.as_mut().map(|entry| (place, &entry.key, &mut entry.values)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without it, a collection whose objects come and go would grow for ever.
    #[test]
    fn places_of_deleted_objects_are_used_again() {
        let mut places = Places::default();
        let key = |number: usize| ObjectKey::namespaced("x", &number.to_string());
        for number in 0..10_000 {
            places.add(key(number), AllValues::new());
            if let Some(gone) = number.checked_sub(10) {
                places.remove(&key(gone));
            }
        }
        assert_eq!(places.entries.len(), 11);
    }
}
