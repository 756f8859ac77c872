//! [`List`]: the elements of an array, shared until changed.
//!
//! It dereferences to the vector it holds; a mutable access copies the vector if another tree has it too, and the
//! elements of the copy still share their own containers. A loop that only may change something should therefore look
//! first: `iter_mut` of a shared list copies even if nothing is changed.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::Value;

/// The elements of an array. Behaves as the vector it holds; a copy shares it until one of the two is changed.
///
/// Two allocations and one pointer in the tree. Elements are values, so a copy of the vector copies a pointer per
/// container in it.
#[derive(Clone, Debug, Default)]
pub struct List(Arc<Vec<Value>>);

impl List {
    /// The elements; copied only if they are shared.
    #[must_use]
    pub fn into_vec(self) -> Vec<Value> {
        Arc::unwrap_or_clone(self.0)
    }

    /// The address of its elements, to identify the list as long as it exists.
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// Returns true if both are the same allocation, so that they are equal without a look inside.
    ///
    /// False does not mean that they differ: two lists may be equal without being the same.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Deref for List {
    type Target = Vec<Value>;

    fn deref(&self) -> &Vec<Value> {
        &self.0
    }
}

impl DerefMut for List {
    fn deref_mut(&mut self) -> &mut Vec<Value> {
        Arc::make_mut(&mut self.0)
    }
}

impl Eq for List {}

impl PartialEq for List {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other) || self.0 == other.0
    }
}

impl From<Vec<Value>> for List {
    fn from(items: Vec<Value>) -> Self {
        Self(Arc::new(items))
    }
}

impl FromIterator<Value> for List {
    fn from_iter<I: IntoIterator<Item = Value>>(items: I) -> Self {
        items.into_iter().collect::<Vec<_>>().into()
    }
}

impl IntoIterator for List {
    type Item = Value;
    type IntoIter = std::vec::IntoIter<Value>;

    fn into_iter(self) -> Self::IntoIter {
        self.into_vec().into_iter()
    }
}

impl<'a> IntoIterator for &'a List {
    type Item = &'a Value;
    type IntoIter = std::slice::Iter<'a, Value>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a mut List {
    type Item = &'a mut Value;
    type IntoIter = std::slice::IterMut<'a, Value>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}
