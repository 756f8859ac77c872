//! Strategic merge patch: a merge patch that merges lists by key.
//!
//! Directives within the patch:
//! - `$patch: replace | delete | merge` in a map or list element;
//! - `$retainKeys: […]` keeps only these keys of a map;
//! - `$deleteFromPrimitiveList/<list>: […]` takes scalars out of a list;
//! - `$setElementOrder/<list>: […]` is the order of the merged list.
//!
//! The order of merged lists is worked out in [`order`].
//!
//! It is not server-side apply: ownership does not matter, and a list is merged by one key where apply may use several.
//! Only built-in kinds take it; kubectl sends it for those by default.

mod list;
mod order;

use std::collections::HashSet;

use listwatch_json::{Map, Text, Value};

use super::{MergeSchema, PatchError};
use listwatch_json::go;

/// The keys that direct a strategic merge patch, beside the fields of the object.
const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

/// A merged part, or why it cannot be merged.
type Merged<T> = Result<T, PatchError>;

/// Merges a strategic merge patch into an object, which is left alone on failure.
///
/// ```
/// use listwatch_merge::patch::{Schemaless, strategic_merge_patch};
/// use listwatch_json::json;
///
/// let mut object = json!({"data": {"a": "1"}});
/// strategic_merge_patch(&mut object, json!({"data": {"$patch": "replace", "b": "2"}}), Schemaless)?;
/// assert_eq!(object, json!({"data": {"b": "2"}}));
/// # Ok::<(), listwatch_merge::patch::PatchError>(())
/// ```
///
/// Costs as much as the patch, and the lists that it touches.
///
/// # Errors
/// [`PatchError::Malformed`] for ill-formed directives, [`PatchError::Unforeseen`] for unknown ones and for elements
/// without their merge key.
pub fn strategic_merge_patch<S: MergeSchema>(
    object: &mut Value,
    patch: Value,
    schema: S,
) -> Result<(), PatchError> {
    if patch.is_null() {
        return Ok(());
    }
    let (Value::Object(original), Value::Object(patch)) = (&*object, patch) else {
        return Err(PatchError::Malformed("invalid JSON document".to_owned()));
    };
    *object = Value::Object(merge_map(original.clone(), patch, Some(schema))?);
    Ok(())
}

/// Merges a patch into an object. `$patch` decides about the whole object, so it is looked at first; `$retainKeys` and
/// `$setElementOrder` must be carried out before the fields.
///
/// A `$patch: merge` is what a map does anyway, and is refused as kube-apiserver refuses it.
fn merge_map<S: MergeSchema>(mut original: Map, mut patch: Map, schema: Option<S>) -> Merged<Map> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                Ok(patch)
            }
            Some("delete") => Ok(Map::new()),
            _ => Err(bad_directive(directive, &patch)),
        };
    }
    retain_keys(&mut original, &mut patch)?;
    order::apply_set_order(&mut original, &mut patch, schema)?;
    for (key, value) in patch {
        match key.strip_prefix(DELETE_FROM) {
            Some(rest) => delete_from(&mut original, rest, value)?,
            None => merge_field(&mut original, key, value, schema)?,
        }
    }
    Ok(original)
}

/// The message of kube-apiserver, with the patch as Go prints it.
fn bad_directive(directive: &Value, patch: &Map) -> PatchError {
    let patch = go::print(&Value::Object(patch.clone()));
    PatchError::Unforeseen(format!("unknown patch type: {} in map: {patch}", go::print(directive)))
}

/// Merges one field: null deletes, objects and lists merge with their own kind, anything else replaces. What replaces
/// is cleaned of nulls and directives, which have nothing to act on.
fn merge_field<S: MergeSchema>(original: &mut Map, key: Text, patch: Value, schema: Option<S>) -> Merged<()> {
    if patch.is_null() {
        original.remove(&key);
        return Ok(());
    }
    let field = schema.and_then(|s| s.field(&key));
    let merged = match (original.remove(&key), patch) {
        (Some(Value::Object(old)), Value::Object(patch))
            if !field.is_some_and(|field| field.patch_strategy().replace) =>
        {
            Some(Value::Object(merge_map(old, patch, field)?))
        }
        (Some(Value::Array(old)), Value::Array(patch)) => {
            Some(list::merge_field(old.into_vec(), patch.into_vec(), field)?.into())
        }
        // Replaced by the value of the patch, nulls included.
        (Some(Value::Object(_)), Value::Object(patch)) => Some(Value::Object(patch)),
        (_, mut patch) => {
            discard_nulls(&mut patch);
            without_directives(patch)
        }
    };
    if let Some(merged) = merged {
        original.insert(key, merged);
    }
    Ok(())
}

/// `$retainKeys`: what is patched must be listed, and what is not listed goes.
fn retain_keys(original: &mut Map, patch: &mut Map) -> Merged<()> {
    let Some(keys) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let malformed = || PatchError::Malformed("invalid patch format of retainKeys".to_owned());
    let Value::Array(keys) = keys else { return Err(malformed()) };
    let keys: HashSet<&str> = keys.iter().filter_map(Value::as_str).collect();
    let listed = |key: &str| keys.contains(key);
    let exempt = |key: &str, value: &Value| {
        value.is_null() || key.starts_with(DELETE_FROM) || key.starts_with(SET_ORDER)
    };
    if patch.iter().any(|(key, value)| !exempt(key, value) && !listed(key)) {
        return Err(malformed());
    }
    original.retain(|key, _| listed(key));
    Ok(())
}

/// `$deleteFromPrimitiveList/<list>`; nothing to do where there is no such list, or where the values are none.
fn delete_from(original: &mut Map, rest: &str, values: Value) -> Merged<()> {
    let malformed = || PatchError::Malformed("invalid patch format of primitive list".to_owned());
    let name = rest.strip_prefix('/').ok_or_else(malformed)?;
    let Value::Array(values) = values else { return Ok(()) };
    if let Some(Value::Array(items)) = original.get_mut(name) {
        let values: HashSet<&Value> = values.iter().collect();
        items.retain(|item| !values.contains(item));
    }
    Ok(())
}

/// Removes nulls from a newly added value, where they have no meaning.
fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, item| !item.is_null());
            map.values_mut().for_each(discard_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

/// The value to add. A map with `$patch` is not added: there is nothing to delete, replace or merge with. Other directives stay,
/// as unknown fields of the object.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) => {
            if map.contains_key(DIRECTIVE) {
                return None;
            }
            let kept = map.into_iter().filter_map(|(key, item)| Some((key, without_directives(item)?)));
            Some(Value::Object(kept.collect()))
        }
        Value::Array(items) => Some(items.into_iter().filter_map(without_directives).collect()),
        other => Some(other),
    }
}

#[cfg(test)]
mod tests;
