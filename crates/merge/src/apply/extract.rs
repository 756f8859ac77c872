//! The field set of an applied configuration, and the errors in it.
//!
//! An applier owns what it sends and nothing else, so the set is computed from the configuration and not from the
//! merged object. Atomic lists and maps count as one field; elements of associative lists are known by their keys,
//! which must be complete and unique. Fields without an owner (`apiVersion`, `kind`, `metadata.name` and the like) are
//! left out. Errors are bounded to 64 KiB. It corresponds to `ToFieldSet` of structured-merge-diff.

use std::collections::HashSet;
use std::fmt;

use listwatch_json::{Map, Value};

use super::compare::{UNOWNED, UNOWNED_METADATA};
use super::element;
use super::field_set::FieldSet;
use super::node::FieldSetNode;
use crate::patch::{ListKind, MapKind, MergeSchema, Shape};
use listwatch_json as json;

/// The fields a configuration sets.
///
/// # Errors
/// Every unknown field, repeated list keys, and elements without their keys.
pub(super) fn field_set<S: MergeSchema>(config: &Value, schema: S) -> Result<FieldSet, Vec<String>> {
    let Value::Object(map) = config else { return Ok(FieldSet::new()) };
    let mut walk = ExtractWalk { collects: true, errors: Vec::new(), error_bytes: 0 };
    let mut root = walk.entries(map, schema, None);
    for key in UNOWNED {
        root.children.remove(&element::field(key));
    }
    strip_metadata(&mut root.children);
    if walk.errors.is_empty() { Ok(FieldSet::from_trie(root.children)) } else { Err(walk.errors) }
}

/// Checks a configuration without recording ownership.
///
/// # Errors
/// As [`field_set`].
pub(super) fn check<S: MergeSchema>(config: &Value, schema: S) -> Result<(), Vec<String>> {
    let Value::Object(map) = config else { return Ok(()) };
    let mut walk = ExtractWalk { collects: false, errors: Vec::new(), error_bytes: 0 };
    walk.entries(map, schema, None);
    if walk.errors.is_empty() { Ok(()) } else { Err(walk.errors) }
}

/// Removes the metadata fields that have no owner.
fn strip_metadata(root: &mut Map) {
    let Some(Value::Object(metadata)) = root.get_mut("f:metadata") else { return };
    for key in UNOWNED_METADATA {
        metadata.remove(&element::field(key));
    }
    metadata.remove(super::node::SELF);
    if metadata.is_empty() {
        root.remove("f:metadata");
    }
}

/// The text that all errors about types have in common.
pub(super) const MISFIT: &str = ": expected ";

/// The error of a field that the schema does not have.
pub(super) const UNDECLARED: &str = "field not declared in schema";

/// The most bytes of errors that are reported, paths included; a name in a path may be as long as the configuration.
const MAX_ERROR_BYTES: usize = 64 << 10;

/// The place of a value, as a list of steps on the stack: only errors make a text of it.
#[derive(Clone, Copy)]
struct FieldPath<'a> {
    parent: Option<&'a FieldPath<'a>>,
    step: PathElement<'a>,
}

#[derive(Clone, Copy)]
enum PathElement<'a> {
    Field(&'a str),
    /// An element of a list, in its wire form.
    Element(&'a str),
    /// An element without an identity, by its position.
    Index(usize),
}

impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            PathElement::Field(name) => f.write_str(&element::show(&element::field(name))),
            PathElement::Element(id) => f.write_str(&element::show(id)),
            PathElement::Index(index) => write!(f, "[{index}]"),
        }
    }
}

struct ExtractWalk {
    /// False if only the errors are wanted; all sets are empty then.
    collects: bool,
    errors: Vec<String>,
    error_bytes: usize,
}

impl ExtractWalk {
    /// True if no further error would be kept. The configuration is refused then, so that its fields do not matter.
    fn is_full(&self) -> bool {
        self.error_bytes >= MAX_ERROR_BYTES
    }

    /// Records an error, up to a bound on their length: a configuration may have thousands.
    fn error(&mut self, path: Option<&FieldPath<'_>>, text: &str) {
        if self.is_full() {
            return;
        }
        let error = path.map_or_else(|| text.to_owned(), |path| format!("{path}: {text}"));
        self.error_bytes += error.len();
        self.errors.push(error);
    }

    /// The field set of a value. Atomic values are one leaf: they have one owner.
    fn value<S: MergeSchema>(&mut self, value: &Value, schema: S, path: &FieldPath<'_>) -> FieldSetNode {
        if let Some(problem) = misfit(value, schema.shape()) {
            self.error(Some(path), &problem);
            return FieldSetNode::default();
        }
        match value {
            Value::Object(map) if schema.map_kind() == MapKind::Atomic => {
                self.within(schema, |walk| drop(walk.entries(map, schema, Some(path))))
            }
            Value::Object(map) => self.entries(map, schema, Some(path)),
            Value::Array(items) if schema.list_kind() == ListKind::Atomic => {
                self.within(schema, |walk| walk.positions(items, schema, path))
            }
            Value::Array(items) => self.items(items, schema, path),
            _ => FieldSetNode::leaf(),
        }
    }

    /// The leaf of an atomic value, whose inside is checked and not owned. What the schema says nothing about is taken as
    /// it is.
    fn within<S: MergeSchema>(&mut self, schema: S, check: impl FnOnce(&mut Self)) -> FieldSetNode {
        if schema.shape() != Shape::Any {
            let collects = std::mem::replace(&mut self.collects, false);
            check(self);
            self.collects = collects;
        }
        FieldSetNode::leaf()
    }

    /// Checks the elements of an atomic list, which have no identity.
    fn positions<S: MergeSchema>(&mut self, items: &[Value], list: S, parent: &FieldPath<'_>) {
        let Some(schema) = list.items() else { return };
        for (index, item) in items.iter().enumerate() {
            let path = FieldPath { parent: Some(parent), step: PathElement::Index(index) };
            self.value(item, schema, &path);
        }
    }

    /// The field set of an object. Fields that the schema does not declare are errors, because they cannot be owned.
    ///
    /// The empty struct is a leaf too: an applier that sends `{}` owns its presence.
    fn entries<S: MergeSchema>(
        &mut self,
        map: &Map,
        schema: S,
        parent: Option<&FieldPath<'_>>,
    ) -> FieldSetNode {
        let mut node = FieldSetNode::default();
        for (key, value) in map {
            let path = FieldPath { parent, step: PathElement::Field(key) };
            let Some(field) = schema.field(key) else {
                self.error(Some(&path), UNDECLARED);
                continue;
            };
            let mut child = self.value(value, field, &path);
            if !self.collects {
                continue;
            }
            // Of declared fields only what is inside counts; of a map's entries the entry itself does, too.
            let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
            child.member |= empty || !schema.declares(key);
            node.put(|| element::field(key), child);
        }
        node
    }

    /// The field set of a list whose elements have an identity. Elements without one, and repeated ones, are errors.
    fn items<S: MergeSchema>(&mut self, items: &[Value], list: S, parent: &FieldPath<'_>) -> FieldSetNode {
        let mut node = FieldSetNode::default();
        let mut seen = HashSet::with_capacity(items.len());
        for (i, item) in items.iter().enumerate() {
            if self.is_full() {
                break;
            }
            let id = match element::of_item(item, list) {
                Ok(id) => id,
                Err(problem) => {
                    self.error(Some(parent), &format!("element {i}: {problem}"));
                    continue;
                }
            };
            if !seen.insert(id.clone()) {
                self.error(Some(parent), &format!("duplicate entries for key {}", element::show(&id)));
                continue;
            }
            let path = FieldPath { parent: Some(parent), step: PathElement::Element(&id) };
            let mut child = match list.items() {
                Some(schema) => self.value(item, schema, &path),
                None => FieldSetNode::leaf(),
            };
            if self.collects {
                child.member = true;
                node.put(|| id.into(), child);
            }
        }
        node
    }
}

/// Returns true if a value has the shape of its schema. Null fits everywhere because it means an absent value in
/// structured-merge-diff.
pub(super) fn fits(value: &Value, shape: Shape) -> bool {
    matches!(
        (shape, value),
        (Shape::Any, _)
            | (_, Value::Null)
            | (Shape::Numeric, Value::Number(_))
            | (Shape::String, Value::String(_))
            | (Shape::Boolean, Value::Bool(_))
            | (Shape::Map, Value::Object(_))
            | (Shape::List, Value::Array(_))
    )
}

/// The error for a value of the wrong shape.
///
/// kube-apiserver shows some values through Go's formatting of its own wrapper type; the shape of that is copied.
fn misfit(value: &Value, shape: Shape) -> Option<String> {
    let go_type = || match value {
        Value::Bool(_) => "bool",
        Value::Number(n) if n.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        _ => "map[string]interface {}",
    };
    if fits(value, shape) {
        return None;
    }
    match (shape, value) {
        (Shape::Any, _) => None,
        (Shape::Numeric, _) => Some(format!("expected numeric (int or float), got {}", go_type())),
        (Shape::Boolean, _) => Some(format!("expected boolean, got {}", go_type())),
        (Shape::String, _) => {
            let text = String::from_utf8(json::encode(value)).unwrap_or_default();
            Some(format!("expected string, got &value.valueUnstructured{{Value:{text}}}"))
        }
        (Shape::Map, _) => Some(format!("expected map, got &{{{}}}", listwatch_json::go::print(value))),
        (Shape::List, _) => Some(format!("expected list, got &{{{}}}", listwatch_json::go::print(value))),
    }
}
