//! [`ListValue`]: elements of an object, computed elements, or two lists one after the other.
//!
//! Concatenation makes a node that refers to both, so `a + b` takes constant time and a loop that concatenates is not
//! quadratic in memory; indexes and iteration walk the nodes without recursion. A push into a list that no other value
//! holds happens in place, which the comprehension macros rely on.

use std::sync::Arc;

use listwatch_wire::json::Value as Json;

use super::{Value, json};
use crate::error::EvalError;
use crate::schema::Decl;

/// A list. Copying it copies a pointer; adding two makes a node that refers to both.
#[derive(Clone, Debug)]
pub enum ListValue<'a> {
    /// Elements of an object, and the schema of the list.
    Json(&'a [Json], Option<&'a Decl>),
    /// Computed elements.
    Owned(Arc<Vec<Value<'a>>>),
    /// Two lists, and the number of elements of both.
    Joined(Arc<(ListValue<'a>, ListValue<'a>)>, u64),
}

impl<'a> From<Vec<Value<'a>>> for ListValue<'a> {
    fn from(items: Vec<Value<'a>>) -> Self {
        Self::Owned(Arc::new(items))
    }
}

impl<'a> ListValue<'a> {
    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            Self::Json(items, _) => items.len() as u64,
            Self::Owned(items) => items.len() as u64,
            Self::Joined(_, len) => *len,
        }
    }

    /// Returns true if the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element at a place, if there is one.
    ///
    /// Walks down the joined parts: constant for a list of an object, proportional to the depth of concatenation
    /// otherwise.
    ///
    /// # Errors
    /// If the element does not fit its schema.
    pub fn get(&self, index: u64) -> Result<Option<Value<'a>>, EvalError> {
        let (mut list, mut index) = (self, index);
        loop {
            match list {
                Self::Json(items, decl) => {
                    let item = usize::try_from(index).ok().and_then(|index| items.get(index));
                    return item.map(|item| json::typed(item, decl.and_then(Decl::items))).transpose();
                }
                Self::Owned(items) => {
                    return Ok(usize::try_from(index).ok().and_then(|index| items.get(index).cloned()));
                }
                Self::Joined(both, _) if index < both.0.len() => list = &both.0,
                Self::Joined(both, _) => (list, index) = (&both.1, index - both.0.len()),
            }
        }
    }

    /// Both lists, one after the other.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        if self.is_empty() {
            return other;
        }
        if other.is_empty() {
            return self;
        }
        let len = self.len().saturating_add(other.len());
        Self::Joined(Arc::new((self, other)), len)
    }

    /// Adds an element at the end; in place if the list is not shared.
    ///
    /// If the list is shared, a node is added instead of copying it.
    pub(crate) fn push(&mut self, item: Value<'a>) {
        if let Self::Owned(items) = self
            && let Some(items) = Arc::get_mut(items)
        {
            items.push(item);
            return;
        }
        let before = std::mem::replace(self, Self::Json(&[], None));
        *self = match before.is_empty() {
            true => Self::from(vec![item]),
            false => before.join(Self::from(vec![item])),
        };
    }

    /// The elements in order.
    #[must_use]
    pub fn iter(&self) -> ListIter<'_, 'a> {
        ListIter { rest: vec![self], at: 0 }
    }

    /// The schema of the list.
    pub(crate) fn decl(&self) -> Option<&'a Decl> {
        if let Self::Json(_, decl) = self { *decl } else { None }
    }
}

/// The elements of a list.
///
/// Amortized constant time per element, however the list was put together.
#[derive(Debug)]
pub struct ListIter<'l, 'a> {
    /// The lists that are still to be walked, the next one last.
    rest: Vec<&'l ListValue<'a>>,
    at: usize,
}

impl<'a> Iterator for ListIter<'_, 'a> {
    type Item = Result<Value<'a>, EvalError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let item = match self.rest.last()? {
                ListValue::Json(items, decl) => {
                    items.get(self.at).map(|item| json::typed(item, decl.and_then(Decl::items)))
                }
                ListValue::Owned(items) => items.get(self.at).cloned().map(Ok),
                ListValue::Joined(both, _) => {
                    self.rest.pop();
                    self.rest.extend([&both.1, &both.0]);
                    continue;
                }
            };
            match item {
                Some(item) => {
                    self.at += 1;
                    return Some(item);
                }
                None => {
                    self.rest.pop();
                    self.at = 0;
                }
            }
        }
    }
}
