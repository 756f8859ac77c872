//! The order of a merged list.
//!
//! Elements in the patch are in the patch's order, elements that only the server has in the server's. The two are
//! interleaved so that an element that only the server has comes before the first patched element that followed it on
//! the server.

use std::collections::HashMap;

use listwatch_json::{Map, Text, Value};

use super::{DIRECTIVE, Merged, SET_ORDER, list, without_directives};
use crate::patch::{MergeSchema, PatchError};
use listwatch_json::go;

/// The key by which two elements are the same.
#[derive(Clone, Copy, Debug)]
pub(super) enum ElementIdentity<'k> {
    /// The value of this field.
    Key(&'k str),
    /// Everything.
    Whole,
}

impl ElementIdentity<'_> {
    /// Text that is equal for the same element; for hashing.
    pub(super) fn of(self, item: &Value) -> String {
        match self {
            Self::Key(key) => item.get(key).unwrap_or(&Value::Null).to_string(),
            Self::Whole => item.to_string(),
        }
    }

    pub(super) fn positions(self, order: &[Value]) -> HashMap<String, usize> {
        // The first of repeated elements counts.
        order.iter().enumerate().rev().map(|(i, item)| (self.of(item), i)).collect()
    }
}

/// Arranges a merged list: `patch` gives the order of what it names, `server` that of the rest.
///
/// Linear apart from the sort. Elements that are in neither list come last.
pub(super) fn arrange(
    merged: Vec<Value>,
    patch: &[Value],
    server: &[Value],
    identity: ElementIdentity<'_>,
) -> Vec<Value> {
    let (patch_order, server_order) = (identity.positions(patch), identity.positions(server));
    let keyed = merged.into_iter().map(|item| (identity.of(&item), item));
    let (mut named, mut rest): (Vec<_>, Vec<_>) = keyed.partition(|(id, _)| patch_order.contains_key(id));
    named.sort_by_key(|(id, _)| patch_order.get(id).copied());
    rest.sort_by_key(|(id, _)| server_order.get(id).copied().unwrap_or(usize::MAX));
    weave(rest, named, &server_order)
}

/// Puts the elements that the patch does not name between those that it does, each before the first named element that
/// followed it on the server.
fn weave(
    rest: Vec<(String, Value)>,
    named: Vec<(String, Value)>,
    server: &HashMap<String, usize>,
) -> Vec<Value> {
    let mut out = Vec::with_capacity(rest.len() + named.len());
    let mut rest = rest.into_iter().peekable();
    for (id, item) in named {
        let before = |(other, _): &(String, Value)| match (server.get(other), server.get(&id)) {
            (Some(other), Some(this)) => other < this,
            _ => false,
        };
        while let Some((_, item)) = rest.next_if(before) {
            out.push(item);
        }
        out.push(item);
    }
    out.extend(rest.map(|(_, item)| item));
    out
}

/// Carries out every `$setElementOrder/<list>` of a patch together with the list it orders.
///
/// The list is merged and taken out of the patch here, so that the fields which follow do not merge it again.
pub(super) fn apply_set_order<S: MergeSchema>(
    original: &mut Map,
    patch: &mut Map,
    schema: Option<S>,
) -> Merged<()> {
    let directives: Vec<Text> = patch.keys().filter(|key| key.starts_with(SET_ORDER)).cloned().collect();
    for directive in directives {
        let order = patch.remove(&directive);
        let malformed = || PatchError::Malformed("invalid patch format of setElementOrder list".to_owned());
        let name = directive
            .strip_prefix(SET_ORDER)
            .and_then(|rest| rest.strip_prefix('/'))
            .ok_or_else(malformed)?;
        let Some(Value::Array(order)) = order else { return Err(malformed()) };
        let field = schema.and_then(|s| s.field(name));
        if schema.is_some() && field.is_none() {
            return Err(PatchError::Unforeseen(format!(
                "unable to find api field for the json field {name:?}"
            )));
        }
        let old = list_of(original.get(name))?;
        let new = list_of(patch.get(name))?;
        let key = field.as_ref().and_then(|f| f.merge_key());
        let identity = key.map_or(ElementIdentity::Whole, ElementIdentity::Key);
        check_named(&order, identity)?;
        check_consistent(new.as_deref().unwrap_or_default(), &order, identity)?;
        let server = old.clone().unwrap_or_default();
        let merged = match (old, new) {
            (None, None) => continue,
            (Some(old), None) => old,
            (None, Some(new)) => new.into_iter().filter_map(without_directives).collect(),
            (Some(old), Some(new)) => list::merge_field(old, new, field)?,
        };
        original.insert(name, arrange(merged, &order, &server, identity).into());
        patch.remove(name);
    }
    Ok(())
}

/// The list at a directive. The error is Go's text, because kube-apiserver returns it.
fn list_of(value: Option<&Value>) -> Merged<Option<Vec<Value>>> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items.to_vec())),
        Some(other) => Err(PatchError::Unforeseen(format!(
            "expected a []interface {{}}, but received a {}",
            go::json_type(other)
        ))),
    }
}

/// The elements of an order must have their keys.
fn check_named(order: &[Value], identity: ElementIdentity<'_>) -> Merged<()> {
    let ElementIdentity::Key(key) = identity else { return Ok(()) };
    if let Some(at) = order.iter().position(|item| !item.is_object()) {
        return Err(PatchError::Unforeseen(format!("value for key {at} is not a map")));
    }
    let nameless = order.iter().filter_map(Value::as_object).find(|map| !map.contains_key(key));
    nameless.map_or(Ok(()), |map| Err(list::no_merge_key(map, key)))
}

/// The elements of the patched list must be a subsequence of the order, deletions aside.
fn check_consistent(patch: &[Value], order: &[Value], identity: ElementIdentity<'_>) -> Merged<()> {
    let mut ordered = order.iter().map(|item| identity.of(item));
    let kept = patch.iter().filter(|item| item.get(DIRECTIVE).is_none());
    for item in kept {
        if let (ElementIdentity::Key(key), Value::Object(map)) = (identity, item)
            && !map.contains_key(key)
        {
            return Err(list::no_merge_key(map, key));
        }
        let id = identity.of(item);
        if !ordered.any(|other| other == id) {
            let (patch, order) = (go::print(&patch.into()), go::print(&order.into()));
            let text =
                format!("The order in patch list:\n{patch}\n doesn't match {SET_ORDER} list:\n{order}\n");
            return Err(PatchError::Unforeseen(text));
        }
    }
    Ok(())
}
