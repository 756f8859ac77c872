//! [`FewFields`]: the fields of a small object, a vector sorted by name.
//!
//! A place that was found stays valid when the fields are copied, so that a change needs one search. Beyond [`FEW`](super::FEW)
//! fields, [`Map`](super::Map) is a B-tree.

use crate::tree::{Text, Value};

/// The fields of a small object, sorted by name.
#[derive(Clone, Default)]
pub(super) struct FewFields(Vec<(Text, Value)>);

impl FewFields {
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self(Vec::with_capacity(capacity))
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The place of a field. Names mostly differ in length, which is quicker to see than which one comes first.
    #[inline]
    pub(super) fn position(&self, key: &str) -> Option<usize> {
        self.0.iter().position(|(other, _)| other == key)
    }

    #[inline]
    pub(super) fn at(&self, place: usize) -> Option<(&Text, &Value)> {
        self.0.get(place).map(|(key, value)| (key, value))
    }

    #[inline]
    pub(super) fn at_mut(&mut self, place: usize) -> Option<&mut Value> {
        self.0.get_mut(place).map(|(_, value)| value)
    }

    /// The value of a field that is there.
    pub(super) fn present_mut(&mut self, key: &Text) -> &mut Value {
        let place = self.0.partition_point(|(other, _)| other < key);
        #[expect(clippy::indexing_slicing, reason = "the caller has found or inserted the key")]
        &mut self.0[place].1
    }

    /// Sets a field and returns its previous value. Fields mostly come in order.
    pub(super) fn insert(&mut self, key: Text, value: Value) -> Option<Value> {
        if self.is_last(&key) {
            self.push(key, value);
            return None;
        }
        match self.0.binary_search_by(|(other, _)| other.cmp(&key)) {
            Ok(place) => self.at_mut(place).map(|old| std::mem::replace(old, value)),
            Err(place) => {
                self.0.insert(place, (key, value));
                None
            }
        }
    }

    /// Adds a field after all others. The caller has checked [`Self::is_last`].
    #[inline]
    pub(super) fn push(&mut self, key: Text, value: Value) {
        self.0.push((key, value));
    }

    /// Returns true if a name comes after those of all fields.
    #[inline]
    pub(super) fn is_last(&self, key: &Text) -> bool {
        self.0.last().is_none_or(|(last, _)| last < key)
    }

    pub(super) fn remove(&mut self, place: usize) -> Value {
        self.0.remove(place).1
    }

    pub(super) fn retain(&mut self, mut wanted: impl FnMut(&Text, &mut Value) -> bool) {
        self.0.retain_mut(|(key, value)| wanted(key, value));
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, (Text, Value)> {
        self.0.iter()
    }

    pub(super) fn iter_mut(&mut self) -> std::slice::IterMut<'_, (Text, Value)> {
        self.0.iter_mut()
    }
}

impl IntoIterator for FewFields {
    type Item = (Text, Value);
    type IntoIter = std::vec::IntoIter<(Text, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
