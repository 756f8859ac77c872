//! Removal of fields that a manager applied last time and no longer applies.
//!
//! A field goes only if no manager owns it, the applying one included. A struct goes when all that was owned inside it goes,
//! and a map or list that lost its last entry goes too; one that was empty before stays. kube-apiserver leaves `null` where
//! such a container was, so that those who own the container itself keep it. Pruning runs before the merge, so that an empty
//! list in the configuration is still there afterwards.

use listwatch_json::{Map, Value};

use super::element;
use super::field_set::FieldSet;
use super::node::{FieldSetNode, SELF, is_member};
use crate::patch::{ListKind, MapKind, MergeSchema};

/// The fields to remove: everything the manager applied last time that no manager owns now.
///
/// `owned` are the sets of all managers as they will be, with the one that applies.
///
/// Costs as much as all sets have paths: struct fields must be made members in each of them before they can be
/// compared.
pub(super) fn abandoned<'a, S: MergeSchema>(
    last: &FieldSet,
    owned: impl Iterator<Item = &'a FieldSet>,
    schema: S,
) -> FieldSet {
    let mut gone = with_named_parents(last, schema);
    for set in owned {
        gone.subtract(&with_named_parents(set, schema));
    }
    // `metadata` itself is never owned and never removed.
    let mut trie = gone.trie().clone();
    if let Some(Value::Object(metadata)) = trie.get_mut("f:metadata") {
        metadata.remove(SELF);
        if metadata.is_empty() {
            trie.remove("f:metadata");
        }
    }
    FieldSet::from_trie(trie)
}

/// The set with the struct fields that hold any of its paths: a struct whose fields all go, goes itself.
fn with_named_parents<S: MergeSchema>(set: &FieldSet, schema: S) -> FieldSet {
    let mut trie = set.trie().clone();
    name_parents(&mut trie, schema);
    FieldSet::from_trie(trie)
}

/// Makes each struct field with members below it a member, so that an emptied struct is removed instead of left as
/// `{}`.
fn name_parents<S: MergeSchema>(trie: &mut Map, schema: S) {
    let is_struct = schema.map_kind() == MapKind::Struct;
    for (key, node) in trie.iter_mut() {
        let Value::Object(node) = node else { continue };
        if key == SELF || node.is_empty() {
            continue;
        }
        let named = element::field_name(key).map(|name| schema.field(name));
        let below = named.unwrap_or_else(|| schema.items());
        if let Some(below) = below {
            name_parents(node, below);
        }
        if named.is_some() && is_struct {
            node.insert(SELF, Value::Object(Map::new()));
        }
    }
}

/// Removes a set of paths from a value. Returns the containers that were removed because this emptied them.
///
/// Costs as much as `gone` has paths, and the elements of lists that it enters.
pub(super) fn remove<S: MergeSchema>(value: &mut Value, gone: &FieldSet, schema: S) -> FieldSet {
    FieldSet::from_trie(remove_below(value, gone.trie(), schema).children)
}

/// Removes paths from a value. Atomic lists are never entered, since they are owned as a whole.
fn remove_below<S: MergeSchema>(value: &mut Value, gone: &Map, schema: S) -> FieldSetNode {
    match value {
        Value::Object(map) => remove_entries(map, gone, schema),
        Value::Array(items) if schema.list_kind() != ListKind::Atomic => remove_items(items, gone, schema),
        _ => FieldSetNode::default(),
    }
}

/// Removes elements from a list, and paths from its other elements.
fn remove_items<S: MergeSchema>(items: &mut Vec<Value>, gone: &Map, schema: S) -> FieldSetNode {
    let mut emptied = FieldSetNode::default();
    items.retain_mut(|item| {
        let Ok(id) = element::of_item(item, schema) else { return true };
        match gone.get(&id) {
            Some(Value::Object(node)) if is_member(node) => false,
            Some(Value::Object(node)) => {
                if let Some(schema) = schema.items() {
                    emptied.put(|| id.as_str().into(), remove_below(item, node, schema));
                }
                true
            }
            _ => true,
        }
    });
    emptied
}

/// Removes fields from an object, and containers that this empties. Containers that were empty before stay.
fn remove_entries<S: MergeSchema>(map: &mut Map, gone: &Map, schema: S) -> FieldSetNode {
    let mut emptied = FieldSetNode::default();
    for (key, node) in gone {
        let (Some(name), Value::Object(node)) = (element::field_name(key), node) else { continue };
        if is_member(node) {
            map.remove(name);
            continue;
        }
        let (Some(child), Some(schema)) = (map.get_mut(name), schema.field(name)) else { continue };
        let was_empty = is_empty(child);
        let mut below = remove_below(child, node, schema);
        // A container that lost its last entry goes with it.
        if !was_empty && is_empty(child) {
            map.remove(name);
            below.member = true;
        }
        emptied.put(|| key.clone(), below);
    }
    emptied
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}
