//! [`OwnerGraph`]: dependents by the uid of their owners.
//!
//! Only objects with owner references are in it; for all others a change costs one look or one search for a word in their bytes,
//! because the graph sees every change of every kind. It is rebuilt from the cache when the log is lost.
//! [`super::garbage`] decides on it, and checks everything in the store before it acts.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use listwatch_kinds::tree::Tree;
use listwatch_wire::json::Value;
use listwatch_wire::json::raw;

use crate::lifecycle::garbage::waits_for_dependents;
use crate::lifecycle::words::{self, ChangedObject};

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
    owners: HashMap<Uid, OwnerNode>,
    dependents: HashMap<StorageKey, DependentNode>,
}

/// An owner that some object names, which need not exist.
#[derive(Debug, Default)]
struct OwnerNode {
    dependents: HashSet<StorageKey>,
    /// The references with `blockOwnerDeletion`.
    blocking: usize,
    /// The references of objects whose own deletion waits for their dependents.
    waiting: usize,
}

/// An object that names owners.
#[derive(Debug, PartialEq, Eq)]
struct DependentNode {
    references: Vec<OwnerLink>,
    /// True if its own deletion waits for its dependents.
    waits: bool,
}

/// One owner reference.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OwnerLink {
    uid: Uid,
    blocks: bool,
}

/// The difference that a version of an object makes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct OwnerChange {
    /// True if it has owners and they changed.
    pub(super) has_new_owners: bool,
    /// The owners that it named before, if they changed: they may have waited for it.
    pub(super) former: Vec<Uid>,
}

impl OwnerGraph {
    /// Records the owners of an object.
    ///
    /// The test for a change comes first: most updates of a dependent leave its owners alone and allocate nothing but
    /// the list of uids.
    pub(super) fn set(&mut self, key: &StorageKey, object: ChangedObject<'_>) -> OwnerChange {
        let new = DependentNode::read(object);
        if self.dependents.get(key) == new.as_ref() {
            return OwnerChange::default();
        }
        let former = self.take(key);
        let references = |node: &Option<DependentNode>| node.as_ref().map(|node| node.references.clone());
        let is_same = references(&former) == references(&new);
        let has_new_owners = new.is_some() && !is_same;
        if let Some(new) = new {
            self.put(key, new);
        }
        let former = former.filter(|_| !is_same).map(DependentNode::uids).unwrap_or_default();
        OwnerChange { has_new_owners, former }
    }

    /// Removes an object; returns the uids of its owners.
    pub(super) fn remove(&mut self, key: &StorageKey) -> Vec<Uid> {
        self.take(key).map(DependentNode::uids).unwrap_or_default()
    }

    /// Adds a dependent, and counts it at each of its owners.
    fn put(&mut self, key: &StorageKey, node: DependentNode) {
        for OwnerLink { uid, blocks } in &node.references {
            let owner = self.owners.entry(Arc::clone(uid)).or_default();
            owner.dependents.insert(Arc::clone(key));
            owner.blocking += usize::from(*blocks);
            owner.waiting += usize::from(node.waits);
        }
        self.dependents.insert(Arc::clone(key), node);
    }

    /// Removes a dependent, and an owner with its last one.
    fn take(&mut self, key: &StorageKey) -> Option<DependentNode> {
        let node = self.dependents.remove(key)?;
        for OwnerLink { uid, blocks } in &node.references {
            let Some(owner) = self.owners.get_mut(uid) else { continue };
            owner.dependents.remove(key);
            owner.blocking -= usize::from(*blocks);
            owner.waiting -= usize::from(node.waits);
            if owner.dependents.is_empty() && owner.blocking == 0 && owner.waiting == 0 {
                self.owners.remove(uid);
            }
        }
        Some(node)
    }

    /// The objects that name this owner.
    pub(super) fn dependents(&self, uid: &str) -> Vec<StorageKey> {
        self.owners.get(uid).into_iter().flat_map(|owner| &owner.dependents).cloned().collect()
    }

    /// Returns true if an object names this owner with `blockOwnerDeletion`.
    pub(super) fn is_blocked(&self, uid: &str) -> bool {
        self.owners.get(uid).is_some_and(|owner| owner.blocking > 0)
    }

    /// Returns true if the deletion of an object that names this owner waits for dependents of its own.
    pub(super) fn has_waiting_dependents(&self, uid: &str) -> bool {
        self.owners.get(uid).is_some_and(|owner| owner.waiting > 0)
    }
}

impl DependentNode {
    /// Reads the owners of an object. `None` for an object without owners. One whose references cannot be read has none
    /// here, so it is never collected by mistake.
    fn read(object: ChangedObject<'_>) -> Option<Self> {
        let value = object.bytes;
        let owners = match object.tree {
            Some(tree) => tree.at("metadata").at("ownerReferences").clone(),
            None if !words::OWNER_REFERENCES.is_in(value) => return None,
            None => Value::read(raw::lookup(value, &["metadata", "ownerReferences"])?).ok()?,
        };
        let link = |owner: &Value| {
            let uid = owner.get("uid").and_then(Value::as_str).map(Arc::from)?;
            Some(OwnerLink { uid, blocks: owner.flag("blockOwnerDeletion") })
        };
        let references: Vec<_> = owners.as_array()?.iter().filter_map(link).collect();
        let waits = !references.is_empty() && object.is_being_deleted() && waits_for_dependents(value);
        (!references.is_empty()).then_some(Self { references, waits })
    }

    fn uids(self) -> Vec<Uid> {
        self.references.into_iter().map(|link| link.uid).collect()
    }
}

/// Returns the uid of a stored object without parsing the rest.
pub(super) fn uid(value: &[u8]) -> Option<Uid> {
    let raw = raw::lookup(value, &["metadata", "uid"])?;
    std::str::from_utf8(raw).ok().map(|text| text.trim_matches('"').into())
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    fn object(owners: &[&str]) -> Vec<u8> {
        let owners: Vec<_> = owners.iter().map(|uid| json!({"uid": uid})).collect();
        serde_json::to_vec(&json!({"metadata": {"name": "x", "uid": "u", "ownerReferences": owners}}))
            .unwrap()
    }

    fn at(bytes: &[u8]) -> ChangedObject<'_> {
        ChangedObject { bytes, tree: None }
    }

    /// An object that blocks its owners, and perhaps waits itself.
    fn blocking(owners: &[&str], waits: bool) -> Vec<u8> {
        let owners: Vec<_> =
            owners.iter().map(|uid| json!({"uid": uid, "blockOwnerDeletion": true})).collect();
        let mut meta = json!({"name": "x", "uid": "u", "ownerReferences": owners});
        if waits {
            meta.put("deletionTimestamp", "2026-01-01T00:00:00Z");
            meta.put("finalizers", json!(["foregroundDeletion"]));
        }
        serde_json::to_vec(&json!({"metadata": meta})).unwrap()
    }

    #[test]
    fn dependents_follow_changes_of_their_owners() {
        let mut graph = OwnerGraph::default();
        let key: StorageKey = "/registry/pods/n/a".into();
        assert!(graph.set(&key, at(&object(&["r"]))).has_new_owners);
        assert_eq!(graph.set(&key, at(&object(&["r"]))), OwnerChange::default());
        let known = graph.set(
            &key,
            ChangedObject { tree: Value::read(&object(&["r"])).ok().as_ref(), ..at(&object(&["r"])) },
        );
        assert_eq!(known, OwnerChange::default(), "the same by its tree");
        assert_eq!(graph.dependents("r"), [Arc::clone(&key)]);
        let changed = graph.set(&key, at(&object(&["s"])));
        assert_eq!(changed, OwnerChange { has_new_owners: true, former: vec!["r".into()] });
        assert_eq!(graph.dependents("r"), [] as [StorageKey; 0]);
        assert_eq!(graph.remove(&key), ["s".into()]);
        assert!(graph.dependents.is_empty() && graph.owners.is_empty());
    }

    #[test]
    fn blocking_and_waiting_dependents_are_found() {
        let mut graph = OwnerGraph::default();
        let key: StorageKey = "/registry/pods/n/a".into();
        graph.set(&key, at(&blocking(&["r", "r"], false)));
        assert!(graph.is_blocked("r") && !graph.has_waiting_dependents("r"));
        assert_eq!(
            graph.set(&key, at(&blocking(&["r", "r"], true))),
            OwnerChange::default(),
            "the same owners"
        );
        assert!(graph.is_blocked("r") && graph.has_waiting_dependents("r"));
        assert_eq!(graph.set(&key, at(&object(&["r"]))).former, ["r".into(), "r".into()]);
        assert!(!graph.is_blocked("r") && !graph.has_waiting_dependents("r"));
        graph.remove(&key);
        assert!(graph.dependents.is_empty() && graph.owners.is_empty());
    }

    #[test]
    fn an_object_without_owners_is_not_kept() {
        let mut graph = OwnerGraph::default();
        let alone = br#"{"metadata":{"name":"a","uid":"u"}}"#;
        assert!(!graph.set(&"/registry/pods/n/a".into(), at(alone)).has_new_owners);
        assert!(graph.owners.is_empty());
        assert_eq!(uid(br#"{"metadata":{"name":"a","uid":"u"}}"#).as_deref(), Some("u"));
    }
}
