//! [`MapValue`]: fields of an object, or computed entries.
//!
//! Keys of computed maps are booleans, numbers and strings; numbers that are equal across types are one key, as in CEL.
//! Entries keep the order of insertion, which JSON objects do not have: their keys come sorted. Iterating over an
//! object with a schema yields only declared fields, under their escaped names.

use std::collections::HashMap;
use std::sync::Arc;

use listwatch_wire::json::Map as JsonMap;

use super::{Str, Value, json};
use crate::error::EvalError;
use crate::schema::{Decl, escape};

/// A map. Copying it copies a pointer.
#[derive(Clone, Debug)]
pub enum MapValue<'a> {
    /// The fields of an object, and its schema.
    Json(&'a JsonMap, Option<&'a Decl>),
    /// Computed entries.
    Owned(Arc<OwnedMap<'a>>),
}

/// Entries in the order in which they were added.
///
/// Two structures, because order of insertion is visible in results and lookups must not be linear.
#[derive(Clone, Debug, Default)]
pub struct OwnedMap<'a> {
    entries: Vec<(Value<'a>, Value<'a>)>,
    places: HashMap<MapKey, usize>,
}

/// A key such that numbers which are equal have equal keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum MapKey {
    Bool(bool),
    Number(i128),
    /// A number that is not an integer, by its bits.
    Fraction(u64),
    String(Arc<str>),
}

/// Returns the key under which a value is found. Equal numbers of any types have one key; values
/// that cannot be keys have none.
fn key(value: &Value<'_>) -> Option<MapKey> {
    Some(match value {
        Value::Bool(flag) => MapKey::Bool(*flag),
        Value::Int(number) => MapKey::Number((*number).into()),
        Value::Uint(number) => MapKey::Number((*number).into()),
        Value::Double(number) if number.fract() == 0.0 && number.abs() < 1e30 =>
        {
            #[expect(clippy::cast_possible_truncation, reason = "a whole number in range")]
            MapKey::Number(*number as i128)
        }
        Value::Double(number) => MapKey::Fraction(number.to_bits()),
        Value::String(Str::Shared(text)) => MapKey::String(text.clone()),
        Value::String(Str::Borrowed(text)) => MapKey::String((*text).into()),
        _ => return None,
    })
}

impl<'a> OwnedMap<'a> {
    /// The value of a key.
    #[must_use]
    pub fn get(&self, wanted: &Value<'_>) -> Option<&Value<'a>> {
        let place = self.places.get(&key(wanted)?)?;
        self.entries.get(*place).map(|(_, value)| value)
    }

    /// Sets the value of a key; whether it was free.
    ///
    /// The first key stays if an equal one of another number type comes later; only the value changes.
    ///
    /// # Errors
    /// If the value cannot be a key.
    pub fn insert(&mut self, at: Value<'a>, value: Value<'a>) -> Result<bool, EvalError> {
        let Some(wanted) = key(&at) else {
            return Err(EvalError::new(format!("unsupported key type: {}", at.type_name())));
        };
        if let Some(entry) = self.places.get(&wanted).and_then(|place| self.entries.get_mut(*place)) {
            entry.1 = value;
            return Ok(false);
        }
        self.places.insert(wanted, self.entries.len());
        self.entries.push((at, value));
        Ok(true)
    }

    /// The entries in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = (&Value<'a>, &Value<'a>)> {
        self.entries.iter().map(|(key, value)| (key, value))
    }
}

impl<'a> MapValue<'a> {
    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Json(map, _) => map.len(),
            Self::Owned(map) => map.entries.len(),
        }
    }

    /// Returns true if the map is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a key, if there is one.
    ///
    /// # Errors
    /// If the value does not fit its schema, or nothing can have such a key.
    pub fn get(&self, key: &Value<'a>) -> Result<Option<Value<'a>>, EvalError> {
        match (self, key) {
            (Self::Owned(map), _) => Ok(map.get(key).cloned()),
            (Self::Json(map, decl), Value::String(name)) => json::field(map, *decl, name),
            (Self::Json(_, Some(_)), _) => Err(EvalError::no_such_overload()),
            (Self::Json(_, None), _) => Ok(None),
        }
    }

    /// The keys in order.
    ///
    /// Allocates a vector and a string per escaped key; loops meter a unit of work per key.
    #[must_use]
    pub fn keys(&self) -> Vec<Value<'a>> {
        match self {
            Self::Owned(map) => map.entries.iter().map(|(key, _)| key.clone()).collect(),
            Self::Json(map, decl) => {
                let map: &'a JsonMap = map;
                let known = map.iter().filter(|(name, _)| decl.is_none_or(|decl| decl.has_field(name)));
                let object = decl.is_some_and(Decl::is_object);
                known.map(|(name, _)| Value::String(shown(name, object))).collect()
            }
        }
    }

    /// Adds an entry.
    ///
    /// A map of an object is copied first: constructed maps are the only ones that grow.
    ///
    /// # Errors
    /// If there is such an entry already, or the value cannot be a key.
    pub(crate) fn insert(&mut self, at: Value<'a>, value: Value<'a>) -> Result<(), EvalError> {
        if let Self::Json(..) = self {
            *self = Self::Owned(Arc::new(self.to_owned_map()?));
        }
        let Self::Owned(map) = self else { return Ok(()) };
        if map.get(&at).is_some() {
            let shown = super::compare::shown(&at);
            return Err(EvalError::new(format!("insert failed: key {shown} already exists")));
        }
        Arc::make_mut(map).insert(at, value).map(|_| ())
    }

    /// Copies the entries of a map that is read from JSON, before the first entry is added to it.
    fn to_owned_map(&self) -> Result<OwnedMap<'a>, EvalError> {
        let mut owned = OwnedMap::default();
        for key in self.keys() {
            if let Some(value) = self.get(&key)? {
                owned.insert(key, value)?;
            }
        }
        Ok(owned)
    }
}

/// A key as expressions write it.
fn shown(name: &str, object: bool) -> Str<'_> {
    match object.then(|| escape(name)).flatten() {
        Some(escaped) if escaped != name => Str::from(escaped.into_owned()),
        _ => Str::Borrowed(name),
    }
}

impl<'a> MapValue<'a> {
    /// The value of a key that is a string, if there is one.
    ///
    /// # Errors
    /// If the value does not fit its schema.
    pub fn field(&self, name: &str) -> Result<Option<Value<'a>>, EvalError> {
        match self {
            Self::Json(map, decl) => json::field(map, *decl, name),
            Self::Owned(map) => {
                let wanted = MapKey::String(name.into());
                let place = map.places.get(&wanted);
                Ok(place.and_then(|place| map.entries.get(*place)).map(|(_, value)| value.clone()))
            }
        }
    }
}
