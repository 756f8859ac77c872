//! Garbage collection: deletes dependents whose owners no longer exist, and performs foreground and orphan deletion.
//!
//! *Background*: when an owner is deleted, objects that name it and have no other owner are deleted. *Foreground*: the
//! owner is kept by a finalizer until its blocking dependents are deleted. *Orphan*: the owner is kept until its
//! dependents no longer name it. Owners are matched by uid, and looked up in the cache once it has every write that was
//! acknowledged before: a deletion must not follow from stale data. An owner of a kind that is not served counts as
//! existing, since its definition may come back.
//!
//! Dependents are found in [`super::graph`]; tasks are queued by [`super::driver`].

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use listwatch_kinds::tree::Tree;
use listwatch_storage::Revision;
use listwatch_wire::Status;
use listwatch_wire::json::{Map, Value, raw};
use listwatch_wire::options::{DeleteOptions, Preconditions};
use parking_lot::RwLock;

use crate::api::Api;
use crate::lifecycle::finalizers::remove_finalizer;
use crate::lifecycle::graph::{self, OwnerGraph, StorageKey, Uid};
use crate::lifecycle::place::ObjectPlace;
use crate::lifecycle::task::TaskProgress;
use crate::lifecycle::words::{self, ChangedObject};
use crate::pipeline::internal::{amend, remove};
use crate::registry::Resource;

/// Finalizers that the collector itself removes.
const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// Owners that are looked up before others have their turn.
const OWNERS_AT_ONCE: usize = 256;

/// The state of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnerState {
    /// It exists and is not waiting for this dependent, or its kind is not served.
    Solid,
    /// On its way out, waiting for this dependent.
    Waiting,
    /// Not there.
    Gone,
}

/// The owners that the references of one dependent name, each read once: thousands of references may name one large object.
type ReadOwners = HashMap<StorageKey, Option<ReadOwner>>;

/// The part of an owner that decides about its dependents.
struct ReadOwner {
    /// `None` for an owner that cannot be read.
    uid: Option<Uid>,
    /// True if its deletion waits for its dependents.
    waits: bool,
}

impl ReadOwner {
    /// Reads these fields and skips the others, which may be a megabyte.
    fn new(value: &[u8]) -> Self {
        Self { uid: graph::uid(value), waits: waits_for_dependents(value) }
    }
}

/// Returns true if the deletion of a stored object waits for its dependents.
pub(super) fn waits_for_dependents(value: &[u8]) -> bool {
    if !words::FOREGROUND_DELETION.is_in(value) {
        return false;
    }
    let finalizers = raw::lookup(value, &["metadata", "finalizers"]).unwrap_or_default();
    let finalizers = Value::read(finalizers).unwrap_or_default();
    let held = finalizers.as_array().is_some_and(|names| names.iter().any(|name| name == FOREGROUND));
    held && raw::lookup(value, &["metadata", "deletionTimestamp"]).is_some()
}

/// Returns true if an object waits for the collector. No parse, because every change of every object passes here. A
/// false match costs a task that finds nothing to do.
pub(super) fn waits(object: ChangedObject<'_>) -> bool {
    object.is_being_deleted()
        && (words::ORPHAN.is_in(object.bytes) || words::FOREGROUND_DELETION.is_in(object.bytes))
}

/// Decides about an object that names owners.
///
/// Costs one read of the cache per owner: an object may name thousands of them, and everything else that these
/// controllers do waits meanwhile. If another owner exists, only the references to missing owners are removed;
/// otherwise the object is deleted. The deletion is conditional on uid and revision, so that neither another object of
/// the same name is deleted, nor one that has got another owner since.
///
/// # Errors
/// If the store fails, or the object has changed: try again.
#[doc(alias = "GarbageCollector")]
#[doc(alias = "attemptToDeleteItem")]
pub(super) async fn check_dependent(api: &Api, graph: &RwLock<OwnerGraph>, key: &str) -> Result<(), Status> {
    let Some(place) = ObjectPlace::of(api, key) else { return Ok(()) };
    let Some((meta, revision)) = read(api, key).await? else { return Ok(()) };
    let (mut states, mut known) = (Vec::new(), ReadOwners::new());
    api.wait_for(None).await?;
    for (at, owner) in meta.list("ownerReferences").iter().enumerate() {
        if at % OWNERS_AT_ONCE == OWNERS_AT_ONCE - 1 {
            tokio::task::yield_now().await;
        }
        states.push((owner.text("uid").to_owned(), owner_state(api, &place, owner, &mut known).await?));
    }
    let any = |state| states.iter().any(|(_, found)| *found == state);
    if states.is_empty() || !(any(OwnerState::Gone) || any(OwnerState::Waiting)) {
        return Ok(());
    }
    if any(OwnerState::Solid) {
        let lost: Vec<_> = states
            .iter()
            .filter(|(_, state)| *state != OwnerState::Solid)
            .map(|(uid, _)| uid.as_str())
            .collect();
        return forget_owners(api, &place, &lost).await;
    }
    let uid = meta.text("uid");
    let blocks = meta.list("ownerReferences").iter().any(|owner| owner.flag("blockOwnerDeletion"));
    if any(OwnerState::Waiting) && blocks && graph.read().has_waiting_dependents(uid) {
        return unblock_owners(api, &place).await;
    }
    let has_dependents = !graph.read().dependents(uid).is_empty();
    let policy = if any(OwnerState::Waiting) && has_dependents { "Foreground" } else { "Background" };
    let options = deletion_of(&meta, revision, policy);
    remove(api, &place.resource, place.namespace(), &place.name, &options).await.map(drop)
}

/// The options that delete an object as it was read, and no other of its name.
fn deletion_of(meta: &Value, revision: Revision, policy: &str) -> DeleteOptions {
    DeleteOptions {
        preconditions: Some(Preconditions {
            uid: Some(meta.text("uid").to_owned()),
            resource_version: Some(revision.to_string()),
        }),
        // Finalizers that the object already has for its own dependents stay.
        propagation_policy: (!meta.has("deletionTimestamp")).then(|| policy.to_owned()),
        ..DeleteOptions::default()
    }
}

/// These fields of the metadata of a stored object, without parsing the rest. Those that cannot be read are missing.
///
/// Most dependents are checked once and left alone; nothing is changed for what was read here alone.
fn metadata(value: &[u8], wanted: &[&str]) -> Value {
    let mut fields = Map::new();
    let found = raw::lookup(value, &["metadata"]).unwrap_or_default();
    for field in raw::fields(found, 0).into_iter().flatten() {
        let name = wanted.iter().find(|name| field.is(found, name));
        let read = || Value::read(found.get(field.value.clone())?).ok();
        if let Some((name, value)) = name.and_then(|name| Some((name, read()?))) {
            fields.insert((*name).to_owned(), value);
        }
    }
    Value::Object(fields)
}

/// Reads what decides about the latest version of an object, and its revision, from the store. Bytes that are not an object
/// have no owners and no finalizers: the collector leaves them alone.
///
/// An engine may answer at once, so others have their turn first: the collector reads in loops.
async fn read(api: &Api, key: &str) -> Result<Option<(Value, Revision)>, Status> {
    /// The metadata that decisions read, taken from the stored bytes without parsing the rest.
    const WANTED: [&str; 4] = ["deletionTimestamp", "finalizers", "ownerReferences", "uid"];
    tokio::task::yield_now().await;
    let found = api.engine.get(key, None).await.map_err(Status::internal)?;
    Ok(found.map(|found| {
        let tree = api.cache.trees.peek_bytes(key, &found.value);
        let meta = tree.map(|tree| tree.at("metadata").clone());
        (meta.unwrap_or_else(|| metadata(&found.value, &WANTED)), found.revision)
    }))
}

/// Looks an owner up, by name and uid. An owner with another uid counts as deleted, even if its name
/// exists.
async fn owner_state(
    api: &Api,
    dependent: &ObjectPlace,
    reference: &Value,
    known: &mut ReadOwners,
) -> Result<OwnerState, Status> {
    let version = reference.text("apiVersion");
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    // A kind that is not served may come back; nothing is deleted for it.
    let Some(resource) = api.registry.find_kind(group, version, reference.text("kind")) else {
        return Ok(OwnerState::Solid);
    };
    let namespace = dependent.namespace().filter(|_| resource.namespaced);
    if resource.namespaced && namespace.is_none() {
        return Ok(OwnerState::Solid);
    }
    let found = match known.entry(resource.key(namespace, reference.text("name"))) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(unknown) => {
            let found = read_owner(api, &resource, unknown.key()).await?;
            unknown.insert(found)
        }
    };
    Ok(match found {
        None => OwnerState::Gone,
        // An owner whose bytes cannot be read exists: its dependents are kept.
        Some(ReadOwner { uid: None, .. }) => OwnerState::Solid,
        Some(ReadOwner { uid: Some(uid), .. }) if **uid != *reference.text("uid") => OwnerState::Gone,
        Some(ReadOwner { waits: true, .. }) => OwnerState::Waiting,
        Some(_) => OwnerState::Solid,
    })
}

/// Reads an owner from the cache, which the caller has waited for. The store is asked where it may have what the cache
/// cannot show.
async fn read_owner(api: &Api, resource: &Resource, key: &str) -> Result<Option<ReadOwner>, Status> {
    let collection = &resource.collection;
    if let Some(found) = collection.snapshot().get(key) {
        return Ok(Some(ReadOwner::new(found.stored())));
    }
    if api.cache.damage.count() == 0 && !collection.has_omitted() {
        return Ok(None);
    }
    tokio::task::yield_now().await;
    let found = api.engine.get(key, None).await.map_err(Status::internal)?;
    Ok(found.map(|found| ReadOwner::new(&found.value)))
}

/// Breaks a cycle of objects that wait for each other: this one no longer blocks its owners, as in kube-controller-manager. The
/// change queues it again.
async fn unblock_owners(api: &Api, place: &ObjectPlace) -> Result<(), Status> {
    amend(api, &place.resource, place.namespace(), &place.name, |object| {
        let mut new = object.clone();
        let meta = new.inner("metadata")?;
        let mut owners = meta.list("ownerReferences").to_vec();
        owners.iter_mut().filter(|owner| owner.has("blockOwnerDeletion")).for_each(|owner| {
            owner.put("blockOwnerDeletion", false);
        });
        meta.put("ownerReferences", owners);
        Some(new)
    })
    .await
}

/// Removes owner references from an object. Does nothing if the object does not exist or has none of them.
async fn forget_owners(api: &Api, place: &ObjectPlace, uids: &[&str]) -> Result<(), Status> {
    amend(api, &place.resource, place.namespace(), &place.name, |object| {
        let mut new = object.clone();
        let meta = new.inner("metadata")?;
        let uids: HashSet<&str> = uids.iter().copied().collect();
        let mut owners = meta.list("ownerReferences").to_vec();
        owners.retain(|owner| !uids.contains(owner.text("uid")));
        if owners.is_empty() {
            drop(meta.remove("ownerReferences"))
        } else {
            meta.put("ownerReferences", owners)
        }
        Some(new)
    })
    .await
}

/// Processes the `orphan` or `foregroundDeletion` finalizer of an owner.
///
/// For `foregroundDeletion` the caller queues the dependents and comes back when none blocks any longer, which the
/// graph knows: an owner with thousands of them reads none. For `orphan` all dependents are changed in one pass; a
/// failure in the middle is repeated from the start, which is harmless since each step does nothing the second time.
///
/// # Errors
/// The store fails: try again.
pub(super) async fn release_owner(
    api: &Api,
    graph: &RwLock<OwnerGraph>,
    key: &str,
) -> Result<TaskProgress, Status> {
    let Some(place) = ObjectPlace::of(api, key) else { return Ok(TaskProgress::Done) };
    let Some((meta, _)) = read(api, key).await? else { return Ok(TaskProgress::Done) };
    let held_by = |name: &str| {
        meta.has("deletionTimestamp") && meta.list("finalizers").iter().any(|finalizer| finalizer == name)
    };
    let uid = meta.text("uid");
    if held_by(ORPHAN) {
        let dependents = graph.read().dependents(uid);
        for dependent in dependents {
            if let Some(place) = ObjectPlace::of(api, &dependent) {
                forget_owners(api, &place, &[uid]).await?;
            }
        }
        drop_finalizer(api, &place, ORPHAN).await?;
    } else if held_by(FOREGROUND) {
        if graph.read().is_blocked(uid) {
            return Ok(TaskProgress::Blocked(uid.into()));
        }
        drop_finalizer(api, &place, FOREGROUND).await?;
    }
    Ok(TaskProgress::Done)
}

/// Removes `foregroundDeletion` or `orphan` when it has been honoured.
async fn drop_finalizer(api: &Api, place: &ObjectPlace, name: &str) -> Result<(), Status> {
    amend(api, &place.resource, place.namespace(), &place.name, |object| {
        let mut new = object.clone();
        remove_finalizer(new.inner("metadata")?, name);
        Some(new)
    })
    .await
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    #[test]
    fn only_the_metadata_for_garbage_collection_is_read() {
        let owners = json!([{"uid": "r", "blockOwnerDeletion": true}]);
        let pod = json!({"kind": "Pod", "metadata": {"name": "a", "uid": "u", "ownerReferences": owners,
            "managedFields": [{"uid": "x"}]}, "spec": {"uid": "y"}});
        let bytes = listwatch_wire::json::encode_stored(&pod);
        assert_eq!(metadata(&bytes, &["uid"]), json!({"uid": "u"}));
        assert_eq!(
            metadata(&bytes, &["ownerReferences", "uid"]),
            json!({"uid": "u", "ownerReferences": owners})
        );
        assert_eq!(metadata(b"{\"metadata\":{\"uid\":", &["uid"]), json!({}));
        assert_eq!(metadata(b"", &["uid"]), json!({}));
    }
}
