//! [`OwnerGraph`]: dependents by the uid of their owners.
//!
//! Only objects with owner references are in it; for all others a change costs one search for a word in their bytes,
//! because the graph sees every change of every kind. It is rebuilt from the cache when the log is lost.
//! [`super::garbage`] decides on it, and checks everything in the store before it acts.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use listwatch_kinds::tree::Tree;
use listwatch_wire::json::Value;
use listwatch_wire::json::raw;
use memchr::memmem;

/// Owners are known by uid: an object of the same name is another one.
pub(super) type Uid = Arc<str>;
/// Dependents are read and deleted by key.
pub(super) type StorageKey = Arc<str>;

/// The graph of owners and dependents.
/// Memory is proportional to the number of references. kube-controller-manager keeps a node for every object of the
/// cluster.
#[doc(alias = "uidToNode")]
#[derive(Debug, Default)]
pub(super) struct OwnerGraph {
    dependents: HashMap<Uid, HashSet<StorageKey>>,
    owners: HashMap<StorageKey, Vec<Uid>>,
}

impl OwnerGraph {
    /// Records the owners of an object. Returns true if it has owners and they changed.
    ///
    /// The test for a change comes first: most updates of a dependent leave its owners alone and allocate nothing but
    /// the list of uids. `tree` finds the tree of the value, if it is known.
    pub(super) fn set(
        &mut self,
        key: &StorageKey,
        value: &[u8],
        tree: impl FnOnce() -> Option<Value>,
    ) -> bool {
        let owners = owner_uids(value, tree);
        if self.owners.get(key).map(Vec::as_slice).unwrap_or_default() == owners {
            return false;
        }
        self.remove(key);
        if owners.is_empty() {
            return false;
        }
        for uid in &owners {
            self.dependents.entry(Arc::clone(uid)).or_default().insert(Arc::clone(key));
        }
        self.owners.insert(Arc::clone(key), owners);
        true
    }

    /// Removes an object; returns the uids of its owners.
    pub(super) fn remove(&mut self, key: &StorageKey) -> Vec<Uid> {
        let owners = self.owners.remove(key).unwrap_or_default();
        for uid in &owners {
            if let Some(keys) = self.dependents.get_mut(uid) {
                keys.remove(key);
                if keys.is_empty() {
                    self.dependents.remove(uid);
                }
            }
        }
        owners
    }

    /// The objects that name this owner.
    pub(super) fn dependents(&self, uid: &str) -> Vec<StorageKey> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }
}

/// Returns true if the bytes of an object contain this string as a key or value.
pub(super) fn mentions(value: &[u8], word: &str) -> bool {
    memmem::find(value, word.as_bytes()).is_some()
}

/// Returns the uid of a stored object without parsing the rest.
pub(super) fn uid(value: &[u8]) -> Option<Uid> {
    let raw = raw::lookup(value, &["metadata", "uid"])?;
    std::str::from_utf8(raw).ok().map(|text| text.trim_matches('"').into())
}

/// An object whose references cannot be read has no owners here, so it is never collected by mistake.
fn owner_uids(value: &[u8], tree: impl FnOnce() -> Option<Value>) -> Vec<Uid> {
    if !mentions(value, "\"ownerReferences\"") {
        return Vec::new();
    }
    let owners = match tree() {
        Some(tree) => tree.at("metadata").at("ownerReferences").clone(),
        None => raw::lookup(value, &["metadata", "ownerReferences"])
            .and_then(|raw| Value::read(raw).ok())
            .unwrap_or_default(),
    };
    let uid = |owner: &Value| owner.get("uid").and_then(Value::as_str).map(Arc::from);
    owners.as_array().into_iter().flatten().filter_map(uid).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(owners: &[&str]) -> Vec<u8> {
        let owners: Vec<_> = owners.iter().map(|uid| listwatch_wire::json::json!({"uid": uid})).collect();
        serde_json::to_vec(
            &listwatch_wire::json::json!({"metadata": {"name": "x", "uid": "u", "ownerReferences": owners}}),
        )
        .unwrap()
    }

    #[test]
    fn dependents_follow_changes_of_their_owners() {
        let mut graph = OwnerGraph::default();
        let key: StorageKey = "/registry/pods/n/a".into();
        let unknown = || None;
        assert!(graph.set(&key, &object(&["r"]), unknown));
        assert!(!graph.set(&key, &object(&["r"]), unknown));
        assert!(
            !graph.set(&key, &object(&["r"]), || Value::read(&object(&["r"])).ok()),
            "the same by its tree"
        );
        assert_eq!(graph.dependents("r"), [Arc::clone(&key)]);
        assert!(graph.set(&key, &object(&["s"]), unknown));
        assert_eq!(graph.dependents("r"), [] as [StorageKey; 0]);
        assert_eq!(graph.remove(&key), ["s".into()]);
        assert!(graph.dependents.is_empty() && graph.owners.is_empty());
    }

    #[test]
    fn an_object_without_owners_is_not_kept() {
        let mut graph = OwnerGraph::default();
        let value = br#"{"metadata":{"name":"a","uid":"u"}}"#;
        assert!(!graph.set(&"/registry/pods/n/a".into(), value, || unreachable!()));
        assert!(graph.owners.is_empty());
        assert_eq!(uid(br#"{"metadata":{"name":"a","uid":"u"}}"#).as_deref(), Some("u"));
    }
}
