//! [`Value`]: one node of a JSON tree whose copies share their containers.
//!
//! The interface is that of `serde_json::Value`, so that code reads the same; the difference is cost. A clone copies a
//! pointer, and comparison looks at pointers first, which is what makes a write cost what it changes. Each lookup and
//! comparison counts a step in builds with debug assertions (module `steps`), for tests of cost. Indexing with a key
//! that is absent yields `null` and never panics; indexing for assignment panics if the value is a scalar, and is for
//! trees that the caller made.

use std::ops::Index;

use serde_json::Number;

use super::{List, Map, Text, steps};

/// The value of an absent field.
static NULL: Value = Value::Null;

/// A JSON value. A clone copies a pointer; containers are shared until one of the copies is changed.
///
/// Three words wide. Dropping a deep tree recurses; the bound on depth keeps that within a worker's stack.
#[derive(Clone, Debug, Default, Eq)]
pub enum Value {
    /// `null`.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string.
    String(Text),
    /// An array.
    Array(List),
    /// An object.
    Object(Map),
}

impl Value {
    /// Returns true for `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Returns true for an object.
    #[must_use]
    pub fn is_object(&self) -> bool {
        matches!(self, Self::Object(_))
    }

    /// Returns true for an array.
    #[must_use]
    pub fn is_array(&self) -> bool {
        matches!(self, Self::Array(_))
    }

    /// Returns true for a string.
    #[must_use]
    pub fn is_string(&self) -> bool {
        matches!(self, Self::String(_))
    }

    /// Returns true for a number.
    #[must_use]
    pub fn is_number(&self) -> bool {
        matches!(self, Self::Number(_))
    }

    /// Returns true for a boolean.
    #[must_use]
    pub fn is_boolean(&self) -> bool {
        matches!(self, Self::Bool(_))
    }

    /// Returns true for a number that fits `i64`.
    #[must_use]
    pub fn is_i64(&self) -> bool {
        matches!(self, Self::Number(number) if number.is_i64())
    }

    /// Returns true for a number that fits `u64`.
    #[must_use]
    pub fn is_u64(&self) -> bool {
        matches!(self, Self::Number(number) if number.is_u64())
    }

    /// Returns true for a number with a fraction or an exponent.
    #[must_use]
    pub fn is_f64(&self) -> bool {
        matches!(self, Self::Number(number) if number.is_f64())
    }

    /// The string, if this is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    /// The boolean, if this is one.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(flag) = self { Some(*flag) } else { None }
    }

    /// The number, if this is one.
    #[must_use]
    pub fn as_number(&self) -> Option<&Number> {
        if let Self::Number(number) = self { Some(number) } else { None }
    }

    /// The number, if this is one that fits.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        self.as_number().and_then(Number::as_i64)
    }

    /// The number, if this is one that fits.
    #[must_use]
    pub fn as_u64(&self) -> Option<u64> {
        self.as_number().and_then(Number::as_u64)
    }

    /// The number, if this is one.
    #[must_use]
    pub fn as_f64(&self) -> Option<f64> {
        self.as_number().and_then(Number::as_f64)
    }

    /// The elements, if this is an array.
    #[must_use]
    pub fn as_array(&self) -> Option<&Vec<Value>> {
        if let Self::Array(items) = self { Some(items) } else { None }
    }

    /// The elements, if this is an array.
    ///
    /// Copies a list that is shared with another tree, and only its top level.
    pub fn as_array_mut(&mut self) -> Option<&mut List> {
        if let Self::Array(items) = self { Some(items) } else { None }
    }

    /// The fields, if this is an object.
    #[must_use]
    pub fn as_object(&self) -> Option<&Map> {
        if let Self::Object(map) = self { Some(map) } else { None }
    }

    /// The fields, if this is an object.
    ///
    /// Copies a map that is shared with another tree, and only its top level.
    pub fn as_object_mut(&mut self) -> Option<&mut Map> {
        if let Self::Object(map) = self { Some(map) } else { None }
    }

    /// The field of an object.
    ///
    /// ```
    /// use listwatch_json::json;
    ///
    /// assert_eq!(json!({"a": 1}).get("a"), Some(&json!(1)));
    /// assert_eq!(json!([1]).get("a"), None);
    /// ```
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.as_object()?.get(key)
    }

    /// The field of an object.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        self.as_object_mut()?.get_mut(key)
    }

    /// The value at a JSON pointer, such as `/metadata/name`.
    ///
    /// Allocates a string per step, for the escapes. Steps into arrays are indexes; `-`, the place after the end,
    /// finds nothing.
    #[must_use]
    pub fn pointer(&self, pointer: &str) -> Option<&Value> {
        if pointer.is_empty() {
            return Some(self);
        }
        steps(pointer)?.try_fold(self, |value, step| match value {
            Self::Object(map) => map.get(&step),
            Self::Array(items) => items.get(step.parse::<usize>().ok()?),
            _ => None,
        })
    }

    /// The value at a JSON pointer.
    ///
    /// Copies each shared container on the way, even if the last step finds nothing.
    pub fn pointer_mut(&mut self, pointer: &str) -> Option<&mut Value> {
        if pointer.is_empty() {
            return Some(self);
        }
        steps(pointer)?.try_fold(self, |value, step| match value {
            Self::Object(map) => map.get_mut(&step),
            Self::Array(items) => items.get_mut(step.parse::<usize>().ok()?),
            _ => None,
        })
    }

    /// The value, leaving `null` in its place.
    ///
    /// ```
    /// use listwatch_json::{Value, json};
    ///
    /// let mut value = json!({"a": 1});
    /// assert_eq!(value.take(), json!({"a": 1}));
    /// assert_eq!(value, Value::Null);
    /// ```
    #[must_use]
    pub fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    /// Returns true if the two are known to be equal without walking them: the same containers, or equal scalars.
    ///
    /// Constant time for containers. Validation uses it to pass over what an update did not touch.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Array(a), Self::Array(b)) => a.is_same(b),
            (Self::Object(a), Self::Object(b)) => a.is_same(b),
            (Self::Array(_) | Self::Object(_), _) | (_, Self::Array(_) | Self::Object(_)) => false,
            (a, b) => a == b,
        }
    }
}

/// The steps of a JSON pointer, without their escapes.
fn steps(pointer: &str) -> Option<impl Iterator<Item = String>> {
    Some(pointer.strip_prefix('/')?.split('/').map(|step| step.replace("~1", "/").replace("~0", "~")))
}

/// Containers that are the same are equal without a look inside; others are walked until the first difference.
impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        steps::take();
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Number(a), Self::Number(b)) => a == b,
            (Self::String(a), Self::String(b)) => a == b,
            (Self::Array(a), Self::Array(b)) => a == b,
            (Self::Object(a), Self::Object(b)) => a == b,
            _ => false,
        }
    }
}

/// Equal values have equal hashes, so that repetitions among many values are found in one pass.
impl std::hash::Hash for Value {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Self::Null => {}
            Self::Bool(flag) => flag.hash(state),
            Self::Number(number) => number.hash(state),
            Self::String(text) => text.hash(state),
            Self::Array(items) => items.as_slice().hash(state),
            Self::Object(map) => {
                map.len().hash(state);
                map.iter().for_each(|field| field.hash(state));
            }
        }
    }
}

/// Compact JSON.
impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = Vec::new();
        crate::write_value(&mut out, self);
        f.write_str(&String::from_utf8_lossy(&out))
    }
}

/// The field, or `null`.
impl Index<&str> for Value {
    type Output = Value;

    fn index(&self, key: &str) -> &Value {
        self.get(key).unwrap_or(&NULL)
    }
}

/// The field, made if it is absent.
///
/// # Panics
/// If this is neither an object nor `null`.
impl std::ops::IndexMut<&str> for Value {
    fn index_mut(&mut self, key: &str) -> &mut Value {
        if self.is_null() {
            *self = Self::Object(Map::new());
        }
        match self {
            Self::Object(map) => map.entry(key).or_insert(Self::Null),
            #[expect(clippy::panic, reason = "as in serde_json; for trees one made oneself")]
            other => panic!("cannot access key {key:?} in {other}"),
        }
    }
}

/// The element, or `null`.
impl Index<usize> for Value {
    type Output = Value;

    fn index(&self, at: usize) -> &Value {
        self.as_array().and_then(|items| items.get(at)).unwrap_or(&NULL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    #[test]
    fn a_node_is_small() {
        assert_eq!(size_of::<Value>(), 24);
    }

    #[test]
    fn absent_things_read_as_null() {
        let value = json!({"a": [1, {"b/c": "d"}]});
        assert_eq!(value["a"][1]["b/c"], "d");
        assert!(value["x"]["y"][7].is_null());
        assert_eq!(value.pointer("/a/1/b~1c"), Some(&Value::from("d")));
        assert_eq!(value.pointer("/a/2"), None);
        assert_eq!(value.to_string(), r#"{"a":[1,{"b/c":"d"}]}"#);
    }

    #[test]
    fn a_change_copies_the_way_to_it_and_nothing_beside() {
        let old = json!({"metadata": {"labels": {"a": "1"}}, "spec": {"containers": [{"name": "c"}]}});
        let mut new = old.clone();
        assert!(new.is_same(&old));
        let metadata = new.get_mut("metadata").and_then(Value::as_object_mut).unwrap();
        metadata.insert("name", "n".into());
        assert!(!new.is_same(&old) && !new["metadata"].is_same(&old["metadata"]));
        assert!(new["spec"].is_same(&old["spec"]));
        assert!(new["metadata"]["labels"].is_same(&old["metadata"]["labels"]));
        assert_eq!(old["metadata"].get("name"), None);
    }
}
