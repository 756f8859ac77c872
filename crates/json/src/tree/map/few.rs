//! [`FewFields`]: the fields of a small object, a vector sorted by name.
//!
//! Validation and defaults mostly ask for fields that an object does not have. A word with a bit for each name answers that without
//! a look at the names. Beyond [`FEW`](super::FEW) fields, [`Map`](super::Map) is a B-tree.

use crate::tree::{Text, Value};

/// The fields of a small object.
#[derive(Clone, Default)]
pub(super) struct FewFields {
    /// Sorted by name.
    fields: Vec<(Text, Value)>,
    /// The bits of all names. Those of fields that were removed may still be set.
    names: u64,
}

impl FewFields {
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self { fields: Vec::with_capacity(capacity), names: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.fields.len()
    }

    /// The place of a field. Names mostly differ in length, which is quicker to see than which one comes first.
    pub(super) fn position(&self, key: &str) -> Option<usize> {
        if self.names & bit(key) == 0 {
            return None;
        }
        self.fields.iter().position(|(other, _)| other == key)
    }

    pub(super) fn at(&self, place: usize) -> Option<(&Text, &Value)> {
        self.fields.get(place).map(|(key, value)| (key, value))
    }

    pub(super) fn at_mut(&mut self, place: usize) -> Option<&mut Value> {
        self.fields.get_mut(place).map(|(_, value)| value)
    }

    /// The value of a field that is there.
    pub(super) fn present_mut(&mut self, key: &Text) -> &mut Value {
        let place = self.fields.partition_point(|(other, _)| other < key);
        #[expect(clippy::indexing_slicing, reason = "the caller has found or inserted the key")]
        &mut self.fields[place].1
    }

    /// Sets a field and returns its previous value.
    pub(super) fn insert(&mut self, key: Text, value: Value) -> Option<Value> {
        if let Some(old) = self.position(&key).and_then(|place| self.at_mut(place)) {
            return Some(std::mem::replace(old, value));
        }
        let place = match self.is_last(&key) {
            true => self.fields.len(),
            false => self.fields.partition_point(|(other, _)| *other < key),
        };
        self.names |= bit(&key);
        self.fields.insert(place, (key, value));
        None
    }

    /// Adds a field after all others. The caller has asked [`Self::is_last`].
    pub(super) fn push(&mut self, key: Text, value: Value) {
        self.names |= bit(&key);
        self.fields.push((key, value));
    }

    /// Returns true if a name comes after those of all fields.
    pub(super) fn is_last(&self, key: &Text) -> bool {
        self.fields.last().is_none_or(|(last, _)| last < key)
    }

    pub(super) fn remove(&mut self, place: usize) -> Value {
        self.fields.remove(place).1
    }

    pub(super) fn retain(&mut self, mut wanted: impl FnMut(&Text, &mut Value) -> bool) {
        self.fields.retain_mut(|(key, value)| wanted(key, value));
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, (Text, Value)> {
        self.fields.iter()
    }

    pub(super) fn iter_mut(&mut self) -> std::slice::IterMut<'_, (Text, Value)> {
        self.fields.iter_mut()
    }
}

impl IntoIterator for FewFields {
    type Item = (Text, Value);
    type IntoIter = std::vec::IntoIter<(Text, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.fields.into_iter()
    }
}

/// The bit of a name: of its first and last byte and its length.
fn bit(key: &str) -> u64 {
    let bytes = key.as_bytes();
    let (first, last) = (bytes.first().copied().unwrap_or(0), bytes.last().copied().unwrap_or(0));
    let mixed = usize::from(first) * 7 + usize::from(last) * 3 + bytes.len();
    1 << (mixed % 64)
}
