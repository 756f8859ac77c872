//! The merge of an applied configuration into an object, by the list and map types of the schema.
//!
//! It only sets: removal of fields is `prune`, ownership is `manager`. Elements of associative lists are matched by
//! their keys; the configuration decides the order of its own elements, and elements of others keep their place
//! relative to them, as structured-merge-diff does. Elements with equal keys in the object cannot be distinguished and are
//! replaced. `patch::merge` and `patch::strategic` are other algorithms with other rules.

use std::collections::{HashMap, HashSet};

use listwatch_json::{List, Map, Value};

use super::element;
use crate::patch::{ListKind, MapKind, MergeSchema};

/// Sets every field of the configuration, and changes no other.
///
/// Recursion follows the configuration; parts of the object that it does not mention are moved, not walked.
pub(super) fn merge<S: MergeSchema>(live: Option<Value>, config: &Value, schema: Option<S>) -> Value {
    let Some(schema) = schema else { return config.clone() };
    match (live, config) {
        (Some(Value::Object(live)), Value::Object(config)) if schema.map_kind() != MapKind::Atomic => {
            Value::Object(merge_maps(live, config, schema))
        }
        (Some(Value::Array(live)), Value::Array(config)) if schema.list_kind() != ListKind::Atomic => {
            merge_lists(live, config, schema).into()
        }
        // A null where a map or list merges by parts has no parts, so it changes nothing.
        (Some(live @ Value::Object(_)), Value::Null) if schema.map_kind() != MapKind::Atomic => live,
        (Some(live @ Value::Array(_)), Value::Null) if schema.list_kind() != ListKind::Atomic => live,
        (_, config) => config.clone(),
    }
}

/// Merges the entries of a configuration into those of the live map, which keeps all others.
fn merge_maps<S: MergeSchema>(mut live: Map, config: &Map, schema: S) -> Map {
    for (key, value) in config {
        let merged = merge(live.remove(key), value, schema.field(key));
        live.insert(key.clone(), merged);
    }
    live
}

/// Merges element by element.
///
/// Elements of the configuration keep its order. Elements only the object has keep their places before the configured
/// ones they preceded.
fn merge_lists<S: MergeSchema>(live: List, config: &[Value], list: S) -> Vec<Value> {
    let ids =
        |items: &[Value]| items.iter().map(|i| element::of_item(i, list)).collect::<Result<Vec<_>, _>>();
    let (Ok(live_ids), Ok(config_ids)) = (ids(&live), ids(config)) else { return config.to_vec() };
    let mut live: Vec<Option<Value>> = live.into_iter().map(Some).collect();
    let places = places(&live_ids);
    let mut out = Vec::with_capacity(live.len() + config.len());
    for step in weave(&live_ids, &config_ids) {
        match step {
            MergeStep::Keep(at) => out.extend(live.get_mut(at).and_then(Option::take)),
            MergeStep::Set(at) => {
                let (Some(id), Some(item)) = (config_ids.get(at), config.get(at)) else { continue };
                let old = places.get(id.as_str()).copied().flatten();
                let old = old.and_then(|at| live.get_mut(at)).and_then(Option::take);
                out.push(merge(old, item, list.items()));
            }
        }
    }
    out
}

/// The index of each element; none for repeated ones, which cannot be distinguished.
fn places(ids: &[String]) -> HashMap<&str, Option<usize>> {
    let mut places = HashMap::with_capacity(ids.len());
    for (i, id) in ids.iter().enumerate() {
        places.entry(id.as_str()).and_modify(|at| *at = None).or_insert(Some(i));
    }
    places
}

/// The next element of a merged list.
#[derive(Debug, PartialEq, Eq)]
enum MergeStep {
    /// The object's element at this position, which the configuration does not mention.
    Keep(usize),
    /// The configuration's element at this position.
    Set(usize),
}

/// Weaves two lists into one. Walks along both; elements of both lists are the fixed points.
///
/// Linear in both lists.
fn weave(live: &[String], config: &[String]) -> Vec<MergeStep> {
    let (in_live, in_config): (HashSet<&String>, HashSet<&String>) =
        (live.iter().collect(), config.iter().collect());
    let mut shared = config.iter().filter(|id| in_live.contains(id));
    let mut next_shared = shared.next();
    let (mut steps, mut set) = (Vec::with_capacity(live.len() + config.len()), HashSet::new());
    let (mut l, mut c) = (0, 0);
    loop {
        let (ours, theirs) = (live.get(l), config.get(c));
        match (ours, theirs) {
            (None, None) => return steps,
            // An element of both lists whose turn has not come is set later, when the configuration reaches it.
            (Some(ours), Some(theirs))
                if ours != theirs && in_config.contains(ours) && next_shared.is_some_and(|n| n != ours) =>
            {
                l += 1;
                continue;
            }
            (Some(ours), _) if !in_config.contains(ours) => {
                steps.push(MergeStep::Keep(l));
                l += 1;
                continue;
            }
            (Some(ours), theirs) if Some(ours) == theirs || set.contains(ours) => l += 1,
            _ => {}
        }
        if let Some(theirs) = theirs {
            steps.push(MergeStep::Set(c));
            set.insert(theirs);
            c += 1;
            if next_shared == Some(theirs) {
                next_shared = shared.next();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn woven(live: &str, config: &str) -> String {
        let split = |text: &str| text.chars().map(String::from).collect::<Vec<_>>();
        let (live, config) = (split(live), split(config));
        let pick = |step: MergeStep| match step {
            MergeStep::Keep(at) => live[at].clone(),
            MergeStep::Set(at) => config[at].clone(),
        };
        weave(&live, &config).into_iter().map(pick).collect()
    }

    #[test]
    fn elements_only_the_object_has_keep_their_places() {
        assert_eq!(woven("a", "b"), "ab");
        assert_eq!(woven("abc", "b"), "abc");
        assert_eq!(woven("abc", "xb"), "axbc");
        assert_eq!(woven("abcd", "db"), "acdb");
        assert_eq!(woven("ab", "ba"), "ba");
        assert_eq!(woven("", "ab"), "ab");
        assert_eq!(woven("ab", ""), "ab");
        assert_eq!(woven("1a2b3", "ab"), "1a2b3");
    }
}
