//! [`Places`]: the slot of each object, and its values in the indexes.
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

/// The writer's record of an object, as small as can be: there is one for each.
struct PlaceRecord {
    key: ObjectKey,
    /// Of the key, so that the table grows without a look at the keys.
    hash: u32,
}

impl PlaceRecord {
    fn is(&self, (namespace, name): (&[u8], &[u8])) -> bool {
        self.key.name().as_bytes() == name && self.key.namespace().as_bytes() == namespace
    }
}

/// Assigns a small number to each key for as long as it exists. Snapshots find objects by it.
#[derive(Default)]
pub(super) struct Places {
    /// Finds the place of a key. Four bytes for each: the table of a hundred thousand objects stays in the
    /// processor's cache, and what a lookup waits for is the entry and the key it compares.
    table: HashTable<u32>,
    /// By place; none where a deleted object has left.
    entries: Vec<Option<PlaceRecord>>,
    /// By place, as far as there are any: none while there is no index.
    values: Vec<AllValues>,
    free: Vec<u32>,
    hasher: foldhash::fast::RandomState,
}

/// The bytes that are hashed and compared.
fn parts(key: &ObjectKey) -> (&[u8], &[u8]) {
    (key.namespace().as_bytes(), key.name().as_bytes())
}

fn entry_at(entries: &[Option<PlaceRecord>], place: u32) -> Option<&PlaceRecord> {
    entries.get(place as usize)?.as_ref()
}

/// The table uses both ends of a hash, so 32 bits of hash are repeated: they suffice for as many objects as there can be.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

fn spread_of(entries: &[Option<PlaceRecord>], place: u32) -> u64 {
    entry_at(entries, place).map_or(0, |entry| spread(entry.hash))
}

impl Places {
    fn hash(&self, (namespace, name): (&[u8], &[u8])) -> u32 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(namespace);
        hasher.write(name);
        hasher.finish() as u32
    }

    /// The place of the object's key. Reads only, so that the processor can wait for several at a time.
    pub(super) fn find<K>(&self, object: &Object<K>) -> Option<usize> {
        let key = object.key_bytes();
        let is = |place: &u32| entry_at(&self.entries, *place).is_some_and(|entry| entry.is(key));
        self.table.find(spread(self.hash(key)), is).map(|place| *place as usize)
    }

    /// The place of the key of this object, which gets that key for its own.
    pub(super) fn find_sharing_key<K>(&self, object: &Object<K>) -> Option<usize> {
        let place = self.find(object)?;
        object.share_key(&self.entries.get(place)?.as_ref()?.key);
        Some(place)
    }

    /// The values of the object at a place.
    pub(super) fn values(&mut self, place: usize) -> &mut [Values] {
        self.values.get_mut(place).map(SmallVec::as_mut_slice).unwrap_or_default()
    }

    /// Replaces the index values of an object.
    fn set_values(&mut self, place: usize, values: AllValues) {
        if self.values.len() <= place && !values.is_empty() {
            self.values.resize_with(self.entries.len(), AllValues::new);
        }
        if let Some(before) = self.values.get_mut(place) {
            *before = values;
        }
    }

    /// Makes room for as many new objects at once.
    pub(super) fn reserve(&mut self, objects: usize) {
        let entries = &self.entries;
        self.table.reserve(objects, |place| spread_of(entries, *place));
        self.entries.reserve(objects);
    }

    /// A place for a new object.
    pub(super) fn add(&mut self, key: ObjectKey, values: AllValues) -> usize {
        let hash = self.hash(parts(&key));
        let entry = Some(PlaceRecord { key, hash });
        // Four billion objects are more than any memory holds.
        let next = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        let place = self.free.pop().unwrap_or(next);
        match self.entries.get_mut(place as usize) {
            Some(free) => *free = entry,
            None => self.entries.push(entry),
        }
        let entries = &self.entries;
        self.table.insert_unique(spread(hash), place, |place| spread_of(entries, *place));
        self.set_values(place as usize, values);
        place as usize
    }

    /// The place that the key had, and its values.
    pub(super) fn remove(&mut self, key: &ObjectKey) -> Option<(usize, AllValues)> {
        let (hash, entries) = (self.hash(parts(key)), &self.entries);
        let is = |place: &u32| entry_at(entries, *place).is_some_and(|entry| entry.is(parts(key)));
        let (place, _) = self.table.find_entry(spread(hash), is).ok()?.remove();
        self.entries.get_mut(place as usize)?.take()?;
        self.free.push(place);
        let values = self.values.get_mut(place as usize).map(std::mem::take).unwrap_or_default();
        Some((place as usize, values))
    }

    /// All records, to be extended by the values of another index.
    pub(super) fn entries(&mut self) -> impl Iterator<Item = (usize, &ObjectKey, &mut AllValues)> {
        self.values.resize_with(self.entries.len(), AllValues::new);
        let entries = self.entries.iter().zip(&mut self.values).enumerate();
        entries.filter_map(|(place, (entry, values))| Some((place, &entry.as_ref()?.key, values)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without it, a collection whose objects are created and deleted would grow for ever.
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

    #[test]
    fn a_record_takes_32_bytes() {
        assert_eq!(size_of::<Option<PlaceRecord>>(), 32);
    }
}
