//! The merge of one list into another by a strategic merge patch.
//!
//! Lists without the strategy `merge` are replaced; scalars merge as sets; objects by their merge key, with the
//! directives `$patch: delete` and `$patch: replace` carried out first. Positions are found through a map, because a
//! search per element would make a patch quadratic in its size. The order of the result follows `order`. Errors are
//! those of kube-apiserver.

use std::collections::{HashMap, HashSet};

use listwatch_json::{Map, Value};

use super::order::{self, ElementIdentity};
use super::{DIRECTIVE, Merged, bad_directive, merge_map};
use crate::patch::{MergeSchema, PatchError};
use listwatch_json::go;

/// Merges the list of a field, by its strategy.
pub(super) fn merge_field<S: MergeSchema>(
    original: Vec<Value>,
    patch: Vec<Value>,
    schema: Option<S>,
) -> Merged<Vec<Value>> {
    if !schema.is_some_and(|s| s.patch_strategy().merge) {
        return Ok(patch);
    }
    let Some(schema) = schema else { return Ok(patch) };
    merge(original, patch, schema)
}

/// Merges a list with patch strategy `merge`: scalars as a set, objects by their merge key. Elements of mixed types
/// cannot be merged.
///
/// Elements are cloned, which shares their contents. The result is arranged once at the end.
fn merge<S: MergeSchema>(original: Vec<Value>, patch: Vec<Value>, schema: S) -> Merged<Vec<Value>> {
    if original.iter().chain(&patch).any(Value::is_array) {
        return Err(PatchError::Failed("lists of lists are not supported".to_owned()));
    }
    let maps = original.iter().chain(&patch).filter(|item| item.is_object()).count();
    if maps == 0 {
        return Ok(merge_scalars(original, patch));
    }
    if maps != original.len() + patch.len() {
        return Err(PatchError::Unforeseen("list element types are not identical".to_owned()));
    }
    let Some(key) = schema.merge_key() else {
        return Err(PatchError::Unforeseen("cannot merge lists without merge key".to_owned()));
    };
    let (original, patch) = apply_directives(original, patch, key)?;
    let mut merged = original.clone();
    let mut places = ElementIdentity::Key(key).positions(&merged);
    for element in &patch {
        merge_element(&mut merged, &mut places, element, key, schema.items())?;
    }
    Ok(order::arrange(merged, &patch, &original, ElementIdentity::Key(key)))
}

fn merge_scalars(original: Vec<Value>, patch: Vec<Value>) -> Vec<Value> {
    let mut seen = HashSet::new();
    let both = original.iter().chain(&patch).filter(|item| seen.insert(ElementIdentity::Whole.of(item)));
    let merged = both.cloned().collect();
    order::arrange(merged, &patch, &original, ElementIdentity::Whole)
}

/// Carries out the elements that are directives, and returns the original and the patch without them.
///
/// One `$patch: replace` anywhere in the list makes the whole patch the new list.
fn apply_directives(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Merged<(Vec<Value>, Vec<Value>)> {
    let (mut plain, mut replace) = (Vec::with_capacity(patch.len()), false);
    let mut deleted = HashSet::new();
    for element in patch {
        let Value::Object(map) = &element else { continue };
        match map.get(DIRECTIVE).map(Value::as_str) {
            None => plain.push(element),
            Some(Some("delete")) => {
                deleted.insert(map.get(key).ok_or_else(|| no_merge_key(map, key))?.clone());
            }
            Some(Some("replace")) => replace = true,
            Some(Some("merge")) => {
                let text = "merging lists cannot yet be specified in the patch";
                return Err(PatchError::Unforeseen(text.to_owned()));
            }
            Some(_) => return Err(bad_directive(map.get(DIRECTIVE).unwrap_or(&Value::Null), map)),
        }
    }
    if !deleted.is_empty() {
        original.retain(|item| !item.get(key).is_some_and(|id| deleted.contains(id)));
    }
    Ok(if replace { (plain, Vec::new()) } else { (original, plain) })
}

/// `places` has the positions of the elements of the merged list; a search for each would be quadratic.
fn merge_element<S: MergeSchema>(
    merged: &mut Vec<Value>,
    places: &mut HashMap<String, usize>,
    element: &Value,
    key: &str,
    schema: Option<S>,
) -> Merged<()> {
    let Value::Object(patch) = element else { return Ok(()) };
    if !patch.contains_key(key) {
        return Err(no_merge_key(patch, key));
    }
    let id = ElementIdentity::Key(key).of(element);
    if let Some(slot) = places.get(&id).and_then(|at| merged.get_mut(*at)) {
        let Value::Object(old) = slot.take() else { return Ok(()) };
        *slot = Value::Object(merge_map(old, patch.clone(), schema)?);
        return Ok(());
    }
    let mut element = element.clone();
    super::discard_nulls(&mut element);
    if let Some(element) = super::without_directives(element) {
        places.insert(id, merged.len());
        merged.push(element);
    }
    Ok(())
}

pub(super) fn no_merge_key(map: &Map, key: &str) -> PatchError {
    let map = go::print(&Value::Object(map.clone()));
    PatchError::Unforeseen(format!("map: {map} does not contain declared merge key: {key}"))
}
