//! The difference between two objects, as sets of paths.
//!
//! A path is *changed* if it was added or has another value, *removed* if it is no longer there. Where a whole subtree
//! comes or goes, every path of it counts, the inner ones too. Fields without an owner, such as names and versions, are
//! left out.
//!
//! Most of an object is the same before and after. The walk allocates nothing there: it goes through both maps side by
//! side and makes path elements only for what differs.

use std::collections::BTreeMap;

use listwatch_json::{Map, Text, Value};

use super::element;
use super::extract::fits;
use super::field_set::FieldSet;
use super::node::FieldSetNode;
use crate::patch::{ListKind, MapKind, MergeSchema};

/// Fields of the root that no manager owns.
pub(super) const UNOWNED: [&str; 2] = ["apiVersion", "kind"];
/// Fields of the metadata that no manager owns.
pub(super) const UNOWNED_METADATA: [&str; 9] = [
    "clusterName",
    "creationTimestamp",
    "generation",
    "managedFields",
    "name",
    "namespace",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Added, modified and removed paths.
///
/// Both sets are in the wire form, so that subtracting them from an owner's set needs no conversion.
#[derive(Debug, Default)]
pub(super) struct PathChanges {
    /// Added or modified.
    pub(super) changed: FieldSet,
    /// Taken away.
    pub(super) removed: FieldSet,
    /// Something that differs does not fit the schema, or is an element of a list without its keys: ownership is not recorded.
    pub(super) is_untypable: bool,
}

impl PathChanges {
    pub(super) fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.removed.is_empty()
    }

    /// Fields that the endpoint resets are not changes of this writer.
    pub(super) fn without(mut self, ignored: &FieldSet) -> Self {
        self.changed.subtract_recursive(ignored);
        self.removed.subtract_recursive(ignored);
        self
    }
}

/// One walk builds both sets.
#[derive(Debug, Default)]
struct Diff {
    changed: FieldSetNode,
    removed: FieldSetNode,
    is_untypable: bool,
}

impl Diff {
    fn put(&mut self, element: impl Fn() -> Text, child: Self) {
        self.changed.put(&element, child.changed);
        self.removed.put(&element, child.removed);
        self.is_untypable |= child.is_untypable;
    }
}

/// Compares two whole objects.
///
/// Costs as much as the parts that differ, plus one comparison per section of the object: shared subtrees are equal
/// by pointer.
pub(super) fn objects<S: MergeSchema>(old: &Value, new: &Value, schema: S) -> PathChanges {
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return PathChanges::default() };
    let mut diff = Diff::default();
    let mut visit = |key: &str, old: Option<&Value>, new: Option<&Value>| {
        // Mostly whole sections are equal, which is found without a schema. Not done further down, where it would compare
        // deep values once per level.
        if UNOWNED.contains(&key) || old == new {
            return;
        }
        let schema = schema.field(key);
        let child = if key == "metadata" { metadata(old, new, schema) } else { values(old, new, schema) };
        diff.put(|| element::field(key), child);
    };
    pairs(Some(old), Some(new), &mut visit);
    PathChanges {
        changed: FieldSet::from_trie(diff.changed.children),
        removed: FieldSet::from_trie(diff.removed.children),
        is_untypable: diff.is_untypable,
    }
}

/// Compares the metadata, without the server's fields, which have no owner.
fn metadata<S: MergeSchema>(old: Option<&Value>, new: Option<&Value>, schema: Option<S>) -> Diff {
    let mut diff = Diff::default();
    let (old, new) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
    pairs(old, new, &mut |key, old, new| {
        if !UNOWNED_METADATA.contains(&key) && old != new {
            diff.put(|| element::field(key), values(old, new, schema.and_then(|s| s.field(key))));
        }
    });
    diff
}

/// Calls `visit` with every key of either map and what the maps have there.
fn pairs<'v>(
    old: Option<&'v Map>,
    new: Option<&'v Map>,
    visit: &mut impl FnMut(&str, Option<&'v Value>, Option<&'v Value>),
) {
    if let (Some(old), Some(new)) = (old, new)
        && old.len() == new.len()
        && old.keys().eq(new.keys())
    {
        for ((key, old), new) in old.iter().zip(new.values()) {
            visit(key, Some(old), Some(new));
        }
        return;
    }
    for (key, new_value) in new.into_iter().flatten() {
        visit(key, old.and_then(|old| old.get(key)), Some(new_value));
    }
    for (key, old_value) in old.into_iter().flatten() {
        if !new.is_some_and(|new| new.contains_key(key)) {
            visit(key, Some(old_value), None);
        }
    }
}

/// Equal scalars are the common case and allocate nothing.
fn is_same_scalar(old: Option<&Value>, new: Option<&Value>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return false };
    !old.is_object() && !old.is_array() && old == new
}

/// Compares two values where an absent one is possible on either side. Values of different shapes are compared as
/// leaves.
///
/// Nothing inside of a value that changes its type can be owned any more.
fn values<S: MergeSchema>(old: Option<&Value>, new: Option<&Value>, schema: Option<S>) -> Diff {
    // Null is of either shape: it differs from `{}`, and neither has fields inside.
    let map = |v: Option<&Value>| v.is_none_or(|v| matches!(v, Value::Object(_) | Value::Null));
    let list = |v: Option<&Value>| v.is_none_or(|v| matches!(v, Value::Array(_) | Value::Null));
    if schema.is_some_and(|schema| [old, new].into_iter().flatten().any(|value| !fits(value, schema.shape())))
    {
        return Diff { is_untypable: true, ..leaf(old, new) };
    }
    let mut diff = if map(old) && map(new) {
        maps(old, new, schema)
    } else if list(old) && list(new) {
        lists(old, new, schema)
    } else {
        return replaced(old, new, schema);
    };
    if let Some(diff) = &mut diff {
        diff.changed.member |= old.is_none();
        diff.removed.member |= new.is_none();
    }
    diff.unwrap_or_else(|| leaf(old, new))
}

/// A value of another type: what was inside of the old one is removed, what is inside of the new one was added.
fn replaced<S: MergeSchema>(old: Option<&Value>, new: Option<&Value>, schema: Option<S>) -> Diff {
    let mut diff = leaf(old, new);
    if old.is_some() && new.is_some() {
        diff.removed.children = values(old, None, schema).removed.children;
        diff.changed.children = values(None, new, schema).changed.children;
    }
    diff
}

/// A value that is owned as a whole.
fn leaf(old: Option<&Value>, new: Option<&Value>) -> Diff {
    let mut diff = Diff::default();
    match (old, new) {
        (Some(old), Some(new)) => diff.changed.member = old != new,
        (None, _) => diff.changed.member = true,
        (_, None) => diff.removed.member = true,
    }
    diff
}

/// The changes of a map owned entry by entry; `None` if it is owned as a whole, or empty on both sides.
fn maps<S: MergeSchema>(old: Option<&Value>, new: Option<&Value>, schema: Option<S>) -> Option<Diff> {
    let (old, new) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
    let empty = old.is_none_or(Map::is_empty) && new.is_none_or(Map::is_empty);
    let schema = schema.filter(|s| s.map_kind() != MapKind::Atomic)?;
    if empty {
        return None;
    }
    let mut diff = Diff::default();
    pairs(old, new, &mut |key, old, new| {
        if !is_same_scalar(old, new) {
            diff.put(|| element::field(key), values(old, new, schema.field(key)));
        }
    });
    Some(diff)
}

/// The changes of a list owned element by element; `None` if it is owned as a whole, or empty on both sides.
///
/// Order is not compared: moving an element does not change ownership.
fn lists<S: MergeSchema>(old: Option<&Value>, new: Option<&Value>, schema: Option<S>) -> Option<Diff> {
    let whole = (old, new);
    let (old, new) = (items(old), items(new));
    let schema = schema.filter(|s| s.list_kind() != ListKind::Atomic)?;
    if old.is_empty() && new.is_empty() {
        return None;
    }
    if old == new {
        return Some(Diff::default());
    }
    // Elements without their keys cannot be distinguished; the list then counts as one.
    let (Some(old), Some(new)) = (index(old, schema), index(new, schema)) else {
        return Some(Diff { is_untypable: true, ..leaf(whole.0, whole.1) });
    };
    let mut diff = Diff::default();
    for (id, new_items) in &new {
        diff.put(
            || id.as_str().into(),
            elements(old.get(id).map(SameIdentity::as_slice), Some(new_items), schema),
        );
    }
    for (id, old_items) in &old {
        if !new.contains_key(id) {
            diff.put(|| id.as_str().into(), elements(Some(old_items), None, schema));
        }
    }
    Some(diff)
}

fn items(list: Option<&Value>) -> &[Value] {
    list.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The elements of a list under one identity: one, except in invalid objects.
type SameIdentity<'v> = smallvec::SmallVec<[&'v Value; 1]>;

/// Several elements under one identity are kept together; only invalid objects have them.
fn index<S: MergeSchema>(items: &[Value], schema: S) -> Option<BTreeMap<String, SameIdentity<'_>>> {
    let mut index: BTreeMap<String, SameIdentity<'_>> = BTreeMap::new();
    for item in items {
        index.entry(element::of_item(item, schema).ok()?).or_default().push(item);
    }
    Some(index)
}

/// Compares what two lists have under one key: mostly one element each; repeated ones count as one.
fn elements<S: MergeSchema>(old: Option<&[&Value]>, new: Option<&[&Value]>, schema: S) -> Diff {
    match (old, new) {
        (None | Some([_]), None | Some([_])) => {
            values(old.and_then(|i| i.first().copied()), new.and_then(|i| i.first().copied()), schema.items())
        }
        (Some(old), Some(new)) if old == new => Diff::default(),
        (Some(_), None) => Diff { removed: FieldSetNode::leaf(), ..Diff::default() },
        _ => Diff { changed: FieldSetNode::leaf(), ..Diff::default() },
    }
}
