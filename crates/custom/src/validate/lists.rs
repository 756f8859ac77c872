//! Elements of lists: those that must differ, and those of the old object that they are compared with.
//!
//! Both look elements up by their keys, so that long lists stay linear. [`super`] walks the elements.

use std::collections::{HashMap, HashSet};

use listwatch_wire::json::Value;
use listwatch_wire::status::FieldError;

use super::{ValidateWalk, ValidationMode};
use crate::schema::Schema;

impl ValidateWalk {
    /// Elements of sets and keyed lists must differ, the latter in their keys only.
    ///
    /// A hash set of the elements or of their keys, so long lists stay linear.
    pub(super) fn duplicates(&mut self, schema: &Schema, items: &[Value]) {
        if self.mode != ValidationMode::Object || !is_compared(schema) || !self.spend(items.len()) {
            return;
        }
        if let Some((index, item)) = misplaced(schema, items) {
            let (field, detail) = (
                format!("{}[{index}]", self.keyed_field()),
                "must be an object for an array of list-type map",
            );
            self.errors.push(FieldError::invalid(field, item.clone(), detail));
            return;
        }
        let mut seen: HashMap<Value, usize> = HashMap::new();
        for (index, value) in items.iter().enumerate() {
            let key = identity(schema, value);
            let times = seen.entry(key.clone()).or_default();
            *times += 1;
            // Only the first repetition is reported. The path of an error may be as long as the object.
            if *times == 2 && !self.errors.is_full() {
                self.errors.push(FieldError::duplicate(format!("{}[{index}]", self.keyed_field()), key));
            }
        }
    }
}

/// The elements of an old list by identity: their keys in a list of type `map`. Other lists have none, because a
/// position is not an identity.
///
/// Made per list and only if there is an old one; a hash per element instead of a search for each.
#[derive(Default)]
pub(super) struct OldItems<'a>(HashMap<Value, &'a Value>);

impl<'a> OldItems<'a> {
    pub(super) fn new(schema: &Schema, old: &'a Value) -> Self {
        let items = old.as_array().filter(|_| schema.is_keyed_list()).into_iter().flatten();
        // The first of several counts.
        Self(items.rev().map(|item| (map_key(schema, item), item)).collect())
    }

    /// The element that `value` replaces.
    pub(super) fn find(&self, schema: &Schema, value: &Value) -> Option<&'a Value> {
        if self.0.is_empty() { None } else { self.0.get(&map_key(schema, value)).copied() }
    }
}

/// Keys with defaults have been filled in before, so an absent key is absent in both lists.
pub(crate) fn map_key(schema: &Schema, value: &Value) -> Value {
    let names = schema.list_map_keys.iter().map(String::as_str);
    Value::Object(names.filter_map(|name| Some((name, value.get(name)?.clone()))).collect())
}

/// Returns true for a list whose elements must differ.
fn is_compared(schema: &Schema) -> bool {
    matches!(schema.list_type.as_str(), "map" | "set") || schema.unique_items
}

/// The identity of an element, which no other element of the list may have: its keys in a keyed list, otherwise itself.
fn identity(schema: &Schema, value: &Value) -> Value {
    if schema.list_type == "map" { map_key(schema, value) } else { value.clone() }
}

/// The first element of a keyed list that is not an object.
fn misplaced<'a>(schema: &Schema, items: &'a [Value]) -> Option<(usize, &'a Value)> {
    let wrong = |item: &Value| schema.list_type == "map" && !item.is_object() && !item.is_null();
    items.iter().enumerate().find(|(_, item)| wrong(item))
}

/// Returns true if a set or a keyed list, anywhere in the value, has an element twice or one that cannot have keys.
///
/// kube-apiserver does not look at lists again in an object that had such an error before.
pub(super) fn repetitions(schema: &Schema, value: &Value) -> bool {
    match value {
        Value::Array(items) => {
            let mut seen = HashSet::new();
            let below = |schema: &Schema| items.iter().any(|item| repetitions(schema, item));
            let mut is_repeated = |item: &Value| !seen.insert(identity(schema, item));
            schema.items.as_deref().is_some_and(below)
                || (is_compared(schema)
                    && (misplaced(schema, items).is_some() || items.iter().any(&mut is_repeated)))
        }
        Value::Object(fields) => fields
            .iter()
            .any(|(name, value)| schema.field(name).is_some_and(|field| repetitions(field, value))),
        _ => false,
    }
}
