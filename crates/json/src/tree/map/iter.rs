//! Iterators over the fields of a [`Map`], in the order of names.
//!
//! A map is a vector or a tree; the iterators hide which. Taking a shared map apart copies it first, so that other copies stay
//! whole.

use std::collections::btree_map;
use std::sync::Arc;

use super::{FieldStorage, Map};
use crate::tree::{Text, Value};

/// The fields of a [`Map`].
#[derive(Clone, Debug)]
pub struct Iter<'a>(pub(super) Either<std::slice::Iter<'a, (Text, Value)>, btree_map::Iter<'a, Text, Value>>);

/// The fields of a [`Map`], their values to be changed.
#[derive(Debug)]
pub struct IterMut<'a>(
    pub(super) Either<std::slice::IterMut<'a, (Text, Value)>, btree_map::IterMut<'a, Text, Value>>,
);

/// The fields of a [`Map`], taken out.
#[derive(Debug)]
pub struct IntoIter(Either<std::vec::IntoIter<(Text, Value)>, btree_map::IntoIter<Text, Value>>);

/// One of the two forms that a map has.
#[derive(Clone, Debug)]
pub(super) enum Either<F, M> {
    Few(F),
    Many(M),
}

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a Text, &'a Value);

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Either::Few(few) => few.next().map(|(key, value)| (key, value)),
            Either::Many(many) => many.next(),
        }
    }
}

impl<'a> Iterator for IterMut<'a> {
    type Item = (&'a Text, &'a mut Value);

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Either::Few(few) => few.next().map(|(key, value)| (&*key, value)),
            Either::Many(many) => many.next(),
        }
    }
}

impl Iterator for IntoIter {
    type Item = (Text, Value);

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Either::Few(few) => few.next(),
            Either::Many(many) => many.next(),
        }
    }
}

impl IntoIterator for Map {
    type Item = (Text, Value);
    type IntoIter = IntoIter;

    fn into_iter(self) -> IntoIter {
        IntoIter(match self.0.map(Arc::unwrap_or_clone) {
            None => Either::Few(Vec::new().into_iter()),
            Some(FieldStorage::Few(few)) => Either::Few(few.into_iter()),
            Some(FieldStorage::Many(many)) => Either::Many(many.into_iter()),
        })
    }
}

impl<'a> IntoIterator for &'a Map {
    type Item = (&'a Text, &'a Value);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl<'a> IntoIterator for &'a mut Map {
    type Item = (&'a Text, &'a mut Value);
    type IntoIter = IterMut<'a>;

    fn into_iter(self) -> IterMut<'a> {
        self.iter_mut()
    }
}
