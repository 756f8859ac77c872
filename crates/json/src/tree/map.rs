//! [`Map`]: the fields of an object, sorted by name, shared until changed.
//!
//! Sorted order makes encoding canonical and comparison a parallel walk. Up to 32 fields are a sorted vector, which is
//! smaller and faster than a tree for nearly every Kubernetes object; beyond that a B-tree, so that an object with a
//! million fields costs no more than its size times a logarithm. An empty map allocates nothing. Methods that may leave
//! the map unchanged (`remove`, `get_mut`) look before they copy.

mod few;
mod iter;

use std::collections::BTreeMap;
use std::sync::Arc;

use few::FewFields;
use iter::Either;
pub use iter::{Iter, IterMut};

use super::{Text, Value, steps};

/// Up to this many fields a sorted vector is smaller and faster than a tree. Beyond it, one insertion would move too
/// much: a hostile object with a million fields must not cost a million times a million.
const FEW: usize = 32;

/// The capacity allocated for the first field. Most objects have more than four fields, and growing costs more than
/// unused capacity.
const ROOM: usize = 8;

/// The fields of an object by name, in the order of names. A copy shares them until one of the two is changed.
///
/// Lookups cost the number of fields up to 32, and its logarithm beyond; insertion in order costs nothing but the
/// place.
///
/// ```
/// use listwatch_json::{Map, json};
///
/// let mut map: Map = [("b", json!(1)), ("a", json!(2))].into_iter().collect();
/// let copy = map.clone();
/// assert!(map.is_same(&copy));
///
/// // A change copies what it changes; the other copy keeps its state.
/// map.insert("a", json!(3));
/// assert!(!map.is_same(&copy));
/// assert_eq!((map.get("a"), copy.get("a")), (Some(&json!(3)), Some(&json!(2))));
/// // Fields are in the order of their keys.
/// assert_eq!(map.keys().map(|key| key.as_str()).collect::<Vec<_>>(), ["a", "b"]);
/// ```
#[derive(Clone, Default)]
pub struct Map(Option<Arc<FieldStorage>>);

#[derive(Clone)]
enum FieldStorage {
    Few(FewFields),
    Many(BTreeMap<Text, Value>),
}

impl Map {
    /// No fields.
    #[must_use]
    pub const fn new() -> Self {
        Self(None)
    }

    /// An empty map with capacity for this many fields.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        match capacity {
            0 => Self::new(),
            _ => Self(Some(Arc::new(FieldStorage::Few(FewFields::with_capacity(capacity.min(FEW)))))),
        }
    }

    /// Returns true if both are the same allocation, or both empty, so that they are equal without a look inside.
    ///
    /// By the pointer: a map that compares equal may be another one. What shares needs no further comparison.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (None, None) => true,
            _ => false,
        }
    }

    /// The address of its fields, to identify the map as long as it exists.
    pub(crate) fn address(&self) -> usize {
        self.0.as_ref().map_or(0, |fields| Arc::as_ptr(fields).addr())
    }

    /// The number of fields.
    #[must_use]
    pub fn len(&self) -> usize {
        match self.0.as_deref() {
            None => 0,
            Some(FieldStorage::Few(few)) => few.len(),
            Some(FieldStorage::Many(many)) => many.len(),
        }
    }

    /// Returns true if there are no fields.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a field. Up to 32 fields are searched one by one, comparing lengths first.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.get_key_value(key).map(|(_, value)| value)
    }

    /// The field with its name.
    #[must_use]
    pub fn get_key_value(&self, key: &str) -> Option<(&Text, &Value)> {
        steps::take();
        match self.0.as_deref()? {
            FieldStorage::Few(few) => few.at(few.position(key)?),
            FieldStorage::Many(many) => many.get_key_value(key),
        }
    }

    /// Returns true if there is such a field.
    #[must_use]
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// The value of a field, to be changed. Copies the fields if they are shared, but not if there is no such field.
    ///
    /// Copies the map if it is shared, and only its top level.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        let place = self.find(key)?;
        match self.own() {
            FieldStorage::Few(few) => few.at_mut(place),
            FieldStorage::Many(many) => many.get_mut(key),
        }
    }

    /// Sets a field and returns its previous value. Copies the fields first if another tree shares them.
    ///
    /// The first change after a copy costs as much as the map has fields, later ones what they change.
    pub fn insert(&mut self, key: impl Into<Text>, value: Value) -> Option<Value> {
        self.own().insert(key.into(), value)
    }

    /// Adds a field whose name sorts after all others, and returns it if it does not. Saves a search where fields
    /// come in order, as those of every stored object do.
    pub(crate) fn append(&mut self, key: Text, value: Value) -> Result<(), (Text, Value)> {
        match self.own() {
            FieldStorage::Few(few) if few.len() < FEW && few.is_last(&key) => {
                few.push(key, value);
                Ok(())
            }
            _ => Err((key, value)),
        }
    }

    /// Removes a field and returns its value. Copies shared fields only if the field is there.
    ///
    /// The entry, if there is one.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let place = self.find(key)?;
        match self.own() {
            FieldStorage::Few(few) => Some(few.remove(place)),
            FieldStorage::Many(many) => many.remove(key),
        }
    }

    /// Takes all fields out.
    pub fn clear(&mut self) {
        self.0 = None;
    }

    /// The place of a field, taken or free.
    ///
    /// Looks for the key once or twice more than `get` and `insert` would; not for inner loops.
    pub fn entry(&mut self, key: impl Into<Text>) -> Entry<'_> {
        Entry { map: self, key: key.into() }
    }

    /// Keeps the fields for which the question is answered with yes.
    ///
    /// Copies shared fields even if all are kept. Callers that usually keep everything look first.
    pub fn retain(&mut self, mut wanted: impl FnMut(&Text, &mut Value) -> bool) {
        if self.is_empty() {
            return;
        }
        match self.own() {
            FieldStorage::Few(few) => few.retain(wanted),
            FieldStorage::Many(many) => many.retain(|key, value| wanted(key, value)),
        }
    }

    /// The fields in order.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        Iter(match self.0.as_deref() {
            None => Either::Few([].iter()),
            Some(FieldStorage::Few(few)) => Either::Few(few.iter()),
            Some(FieldStorage::Many(many)) => Either::Many(many.iter()),
        })
    }

    /// The fields in order, their values to be changed. Copies the fields if they are shared.
    pub fn iter_mut(&mut self) -> IterMut<'_> {
        IterMut(match self.0.as_mut().map(Arc::make_mut) {
            None => Either::Few([].iter_mut()),
            Some(FieldStorage::Few(few)) => Either::Few(few.iter_mut()),
            Some(FieldStorage::Many(many)) => Either::Many(many.iter_mut()),
        })
    }

    /// The names in order.
    ///
    /// In order of their bytes.
    pub fn keys(&self) -> impl Iterator<Item = &Text> {
        self.iter().map(|(key, _)| key)
    }

    /// The values in the order of their names.
    pub fn values(&self) -> impl Iterator<Item = &Value> {
        self.iter().map(|(_, value)| value)
    }

    /// The values in the order of their names, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Value> {
        self.iter_mut().map(|(_, value)| value)
    }

    /// The place of a field among few; any place if it is one of many.
    fn find(&self, key: &str) -> Option<usize> {
        steps::take();
        match self.0.as_deref()? {
            FieldStorage::Few(few) => few.position(key),
            FieldStorage::Many(many) => many.contains_key(key).then_some(0),
        }
    }

    /// The fields, not shared; copied first if they are.
    ///
    /// Every method that changes something comes through here or through `Arc::make_mut`, so a shared map is never
    /// changed.
    fn own(&mut self) -> &mut FieldStorage {
        Arc::make_mut(
            self.0.get_or_insert_with(|| Arc::new(FieldStorage::Few(FewFields::with_capacity(ROOM)))),
        )
    }
}

impl FieldStorage {
    /// Inserts in order. Small maps are a sorted vector, which is faster to search and smaller than a tree; larger ones
    /// become a tree, so that keys chosen by a client do not make insertion quadratic.
    fn insert(&mut self, key: Text, value: Value) -> Option<Value> {
        let few = match self {
            Self::Few(few) => few,
            Self::Many(many) => return many.insert(key, value),
        };
        let old = few.insert(key, value);
        if few.len() > FEW {
            *self = Self::Many(std::mem::take(few).into_iter().collect());
        }
        old
    }
}

impl Eq for Map {}

impl PartialEq for Map {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other) || (self.len() == other.len() && self.iter().eq(other.iter()))
    }
}

impl std::fmt::Debug for Map {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

/// The place of a field, taken or free.
#[derive(Debug)]
pub struct Entry<'a> {
    map: &'a mut Map,
    key: Text,
}

impl<'a> Entry<'a> {
    /// The value there, after putting one there if it was free.
    pub fn or_insert_with(self, value: impl FnOnce() -> Value) -> &'a mut Value {
        if !self.map.contains_key(&self.key) {
            self.map.insert(self.key.clone(), value());
        }
        match self.map.own() {
            FieldStorage::Few(few) => few.present_mut(&self.key),
            FieldStorage::Many(many) => many.entry(self.key).or_default(),
        }
    }

    /// The value there, after putting this one there if it was free.
    pub fn or_insert(self, value: Value) -> &'a mut Value {
        self.or_insert_with(|| value)
    }
}

impl<K: Into<Text>> Extend<(K, Value)> for Map {
    fn extend<I: IntoIterator<Item = (K, Value)>>(&mut self, fields: I) {
        for (key, value) in fields {
            self.insert(key, value);
        }
    }
}

impl<K: Into<Text>> FromIterator<(K, Value)> for Map {
    fn from_iter<I: IntoIterator<Item = (K, Value)>>(fields: I) -> Self {
        let fields = fields.into_iter();
        let mut map = Self::with_capacity(fields.size_hint().0);
        map.extend(fields);
        map
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_as_a_sorted_map(changes in prop::collection::vec((0..80_u32, any::<Option<u8>>()), 0..300)) {
            let (mut map, mut model) = (Map::new(), BTreeMap::new());
            for (key, value) in changes {
                let key = format!("key{key:02}");
                let before = map.clone();
                let snapshot = model.clone();
                match value {
                    Some(n) => {
                        let (old, expected) = (map.insert(&*key, n.into()), model.insert(key.clone(), Value::from(n)));
                        prop_assert_eq!(old, expected);
                    }
                    None => prop_assert_eq!(map.remove(&key), model.remove(&key)),
                }
                prop_assert_eq!(map.get(&key), model.get(&key));
                prop_assert_eq!(map.len(), model.len());
                prop_assert!(before.iter().map(|(k, v)| (k.as_str(), v)).eq(snapshot.iter().map(|(k, v)| (k.as_str(), v))));
            }
            prop_assert!(map.iter().map(|(k, v)| (k.as_str(), v)).eq(model.iter().map(|(k, v)| (k.as_str(), v))));
            prop_assert!(map.clone().into_iter().map(|(k, v)| (k.to_string(), v)).eq(model));
        }
    }

    #[test]
    fn a_copy_is_shared_until_it_is_changed() {
        let map: Map = [("a", Value::from(1)), ("b", Value::from(2))].into_iter().collect();
        let mut copy = map.clone();
        assert!(copy.get_mut("c").is_none() && copy.remove("c").is_none());
        assert!(copy.is_same(&map));
        *copy.get_mut("a").unwrap() = Value::Null;
        assert!(!copy.is_same(&map));
        assert_eq!(map.get("a"), Some(&Value::from(1)));
    }

    #[test]
    fn a_place_is_filled_once() {
        for fields in [0, FEW * 2] {
            let mut map: Map = (0..fields).map(|n| (format!("f{n}"), Value::from(n))).collect();
            *map.entry("x").or_insert(Value::from(1)) = Value::from(2);
            assert_eq!(*map.entry("x").or_insert(Value::from(1)), Value::from(2));
        }
    }
}
