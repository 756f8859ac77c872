//! [`CollectedObjects`]: the initial state while a streaming list (`sendInitialEvents`) brings it.
//!
//! Nothing reaches the store before the initial-events-end bookmark, because an incomplete state would look like
//! deletions. Objects arrive as `ADDED` in nearly all cases and stay a plain list; only a change or a deletion in
//! between turns it into a map. Memory is that of the objects, which the store then takes over.

use std::collections::HashMap;

use listwatch_wire::ObjectKey;

use crate::object::Object;

/// Objects by key, but for as long as they only come and none changes, nothing more than a list of them: that is how
/// nearly every initial state arrives, and a map of a hundred thousand keys is a lot to build and throw away.
#[derive(Debug)]
pub(super) enum CollectedObjects<K> {
    List(Vec<Object<K>>),
    Map(HashMap<ObjectKey, Object<K>, foldhash::fast::RandomState>),
}

impl<K> Default for CollectedObjects<K> {
    fn default() -> Self {
        Self::List(Vec::new())
    }
}

impl<K> CollectedObjects<K> {
    /// Makes a map of the list, if it is still one.
    fn keyed(&mut self) -> Option<&mut HashMap<ObjectKey, Object<K>, foldhash::fast::RandomState>> {
        if let Self::List(objects) = self {
            let keyed = std::mem::take(objects).into_iter().map(|object| (object.key().clone(), object));
            *self = Self::Map(keyed.collect());
        }
        match self {
            Self::Map(map) => Some(map),
            Self::List(_) => None,
        }
    }

    /// An object that was not there before.
    pub(super) fn add(&mut self, object: Object<K>) {
        match self {
            Self::List(objects) => objects.push(object),
            Self::Map(map) => {
                map.insert(object.key().clone(), object);
            }
        }
    }

    /// An object that may have been there before.
    pub(super) fn change(&mut self, object: Object<K>) {
        if let Some(map) = self.keyed() {
            map.insert(object.key().clone(), object);
        }
    }

    pub(super) fn remove(&mut self, key: &ObjectKey) {
        if let Some(map) = self.keyed() {
            map.remove(key);
        }
    }

    /// All of them. Should a server have sent one twice, the last counts, which the store ensures.
    pub(super) fn into_objects(self) -> Vec<Object<K>> {
        match self {
            Self::List(objects) => objects,
            Self::Map(map) => map.into_values().collect(),
        }
    }
}
