//! Removal of the protection finalizers of claims, volumes and VolumeAttributesClasses that are deleted and not in
//! use.
//!
//! The StorageObjectInUseProtection plugin adds the finalizer; in a cluster the controller manager removes it. Use is
//! decided from the cache after it has caught up: a claim by Pods that have not ended, a volume by its phase, a class
//! by claims and volumes that name it. Something in use is looked at again when a Pod that used it is gone or has ended
//! ([`super::driver`]), when it changes itself, and after growing delays.

use std::collections::HashSet;
use std::sync::{Arc, Weak};

use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::{Value, raw};

use crate::admission::storage_object_in_use_protection::finalizer;
use crate::api::Api;
use crate::cache::{CollectionSnapshot, Filter};
use crate::lifecycle::finalizers::remove_finalizer;
use crate::pipeline::internal::amend;

/// The collection of claims.
pub(super) const CLAIMS: &str = "persistentvolumeclaims";

/// The claims that the Pods of one namespace use, in one state of them. Thousands of deleted claims may be asked about
/// in a row, each of which would look through all Pods.
#[derive(Debug, Default)]
pub(super) struct MountedClaims {
    namespace: String,
    /// The state of the Pods. It is not kept alive for this.
    pods: Weak<CollectionSnapshot>,
    claims: HashSet<String>,
}

impl MountedClaims {
    /// Returns true if a Pod that has not ended uses the claim. A Pod without a node counts too: it may be bound at any moment.
    async fn contain(&mut self, api: &Api, namespace: &str, claim: &str) -> bool {
        let Some(resource) = api.registry.find("", "v1", "pods") else { return false };
        let snapshot = resource.collection.snapshot();
        let state = Arc::downgrade(&snapshot);
        if self.namespace != namespace || !self.pods.ptr_eq(&state) {
            let mut filter = Filter::default();
            filter.namespace = Some(namespace.into());
            let mut claims = HashSet::new();
            for pod in snapshot.range(&resource.collection.walk(&filter, None)) {
                tokio::task::yield_now().await;
                if !has_ended(pod.stored()) {
                    claims.extend(claims_of(pod.stored()));
                }
            }
            *self = Self { namespace: namespace.to_owned(), pods: state, claims };
        }
        self.claims.contains(claim)
    }
}

/// Returns true for a Pod that has ended.
fn has_ended(pod: &[u8]) -> bool {
    let phase = raw::lookup(pod, &["status", "phase"]).and_then(raw::scalar);
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// The claims that a stored Pod names in its volumes.
pub(super) fn claims_of(pod: &[u8]) -> Vec<String> {
    if !super::words::PERSISTENT_VOLUME_CLAIM.is_in(pod) {
        return Vec::new();
    }
    let volumes = raw::lookup(pod, &["spec", "volumes"]).and_then(|volumes| Value::read(volumes).ok());
    let volumes = volumes.unwrap_or_default();
    let claim = |volume: &Value| volume.at("persistentVolumeClaim").text("claimName").to_owned();
    volumes.as_array().into_iter().flatten().map(claim).filter(|claim| !claim.is_empty()).collect()
}

/// Returns true if an object is being deleted and only kept by its protection.
pub(super) fn waits(collection: &str, object: &[u8]) -> bool {
    let (plural, group) = parts(collection);
    let Some(wanted) = finalizer(group, plural) else { return false };
    let Ok(object) = Value::read(object) else { return false };
    let meta = object.at("metadata");
    meta.has("deletionTimestamp") && meta.list("finalizers").iter().any(|finalizer| finalizer == wanted)
}

/// Removes the protection of an object that is not used; returns true if it was removed.
///
/// # Errors
///
/// The store fails: try again. `false` is not an error; the driver looks again later.
pub(super) async fn release(
    api: &Api,
    mounted: &mut MountedClaims,
    collection: &str,
    path: &str,
) -> Result<bool, Status> {
    let (plural, group) = parts(collection);
    let (Some(resource), Some(wanted)) = (api.registry.find(group, "v1", plural), finalizer(group, plural))
    else {
        return Ok(true);
    };
    let (namespace, name) = match path.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, path),
    };
    api.wait_for(None).await?;
    let snapshot = resource.collection.snapshot();
    let Some(object) = snapshot.get(&resource.key(namespace, name)) else { return Ok(true) };
    let Ok(object) = Value::read(object.stored()) else { return Ok(true) };
    let used = match namespace {
        Some(namespace) => mounted.contain(api, namespace, name).await,
        None if group.is_empty() => object.at("status").text("phase") == "Bound",
        None => is_chosen(api, name).await,
    };
    if used {
        return Ok(false);
    }
    amend(api, &resource, namespace, name, |stored| {
        let mut new = stored.clone();
        remove_finalizer(new.inner("metadata")?, wanted);
        Some(new)
    })
    .await?;
    Ok(true)
}

/// Plural and group of a collection, whose name is `plural` or `plural.group`.
fn parts(collection: &str) -> (&str, &str) {
    collection.split_once('.').unwrap_or((collection, ""))
}

/// Returns true if a claim or a volume has the attributes of the class.
/// Looks at all claims and volumes. Classes are deleted rarely, and an index would cost memory for each claim.
async fn is_chosen(api: &Api, class: &str) -> bool {
    let chooses = |object: &Value| {
        let wanted = object.at("spec").text("volumeAttributesClassName");
        let current = object.at("status").text("currentVolumeAttributesClassName");
        let aimed = object.path(&["status", "modifyVolumeStatus"]).text("targetVolumeAttributesClassName");
        [wanted, current, aimed].contains(&class)
    };
    let filter = Filter::default();
    any_with(api, "persistentvolumeclaims", &filter, class, chooses).await
        || any_with(api, "persistentvolumes", &filter, class, chooses).await
}

/// Returns true if one of the objects of a core resource that have a name somewhere passes the test.
///
/// Only those are parsed, with a yield after each object: an object in use is checked repeatedly, and its possible users
/// may be many and large.
async fn any_with(
    api: &Api,
    plural: &str,
    filter: &Filter,
    name: &str,
    test: impl Fn(&Value) -> bool,
) -> bool {
    let Some(resource) = api.registry.find("", "v1", plural) else { return false };
    let snapshot = resource.collection.snapshot();
    let name = format!("\"{name}\"");
    for object in snapshot.range(&resource.collection.walk(filter, None)) {
        tokio::task::yield_now().await;
        let named = memchr::memmem::find(object.stored(), name.as_bytes()).is_some();
        if named && Value::read(object.stored()).is_ok_and(|object| test(&object)) {
            return true;
        }
    }
    false
}
