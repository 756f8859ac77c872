//! Deletion of namespaces: empties a terminating namespace, then removes its `kubernetes` finalizer.
//!
//! Pods go first and the rest waits for them, since they may need their Secrets and ConfigMaps while they end. Grace
//! periods are zero. An object that cannot be removed does not keep the others. The task is repeated when one of them
//! is gone, and after growing delays, until nothing is left; no condition is written to the status. New objects are
//! kept out meanwhile by the NamespaceLifecycle plugin. The task is queued by [`super::driver`]; removing is
//! [`crate::pipeline::internal`].

use std::collections::HashSet;
use std::sync::Arc;

use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::raw;
use listwatch_wire::options::DeleteOptions;

use crate::api::Api;
use crate::cache::{CachedObject, Filter};
use crate::lifecycle::finalizers::remove_finalizer;
use crate::lifecycle::place::keeps_form;
use crate::pipeline::internal::{amend, remove};
use crate::registry::Resource;

/// The finalizer in `spec` that is removed when a namespace is empty.
const FINALIZER: &str = "kubernetes";

/// Returns true if the bytes are those of a namespace in deletion.
pub(super) fn terminating(value: &[u8]) -> bool {
    super::words::DELETION_TIMESTAMP.is_in(value)
}

/// Deletes the contents of a terminating namespace and, once nothing is left, removes its finalizer. Returns true if
/// nothing more is to be done.
///
/// Each round removes everything that the cache has, after the cache was brought up to the store. Creations are
/// refused while the namespace is terminating, so rounds end unless finalizers hold objects.
///
/// # Errors
/// The store fails or an object could not be removed: try again.
#[doc(alias = "NamespacedResourcesDeleter")]
pub(super) async fn empty(api: &Api, name: &str) -> Result<bool, Status> {
    let Some(namespaces) = api.registry.find("", "v1", "namespaces") else { return Ok(true) };
    let found = api.engine.get(&namespaces.key(None, name), None).await.map_err(Status::internal)?;
    let Some(found) = found else { return Ok(true) };
    if !terminating(&found.value) {
        return Ok(true);
    }
    let patience = api.options.requests.version_wait;
    api.cache.sync(patience).await.map_err(Status::internal)?;
    let (mut left, mut failed) = (false, None);
    let (pods, others): (Vec<_>, Vec<_>) =
        namespaced(api).into_iter().partition(|resource| is_pods(resource));
    for resource in pods.iter().chain(&others) {
        // Other objects stay until all Pods are deleted, because Pods may need them while they terminate.
        if left && !is_pods(resource) && pods.iter().any(|pods| !inside(pods, name).is_empty()) {
            break;
        }
        for object in inside(resource, name) {
            left = true;
            if is_held(&object) {
                continue;
            }
            // A namespace that is deleted need not wait for kubelets.
            let options = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
            // One that cannot be removed now does not keep the others.
            failed = remove(api, resource, Some(name), object.name(), &options).await.err().or(failed);
        }
    }
    match failed {
        Some(status) => return Err(status),
        None if left => return Ok(false),
        None => {}
    }
    remove_kubernetes_finalizer(api, &namespaces, name).await?;
    Ok(true)
}

fn is_pods(resource: &Resource) -> bool {
    resource.group.is_empty() && &*resource.plural == "pods"
}

/// One resource for each set of namespaced objects.
/// Versions of a kind share a collection, and emptying it once is enough. Kinds that are not stored, such as reviews,
/// have nothing to remove.
fn namespaced(api: &Api) -> Vec<Arc<Resource>> {
    let served = api.registry.served();
    let mut seen = HashSet::new();
    let stored = |resource: &&Arc<Resource>| {
        resource.namespaced && keeps_form(resource) && resource.builtin.is_none_or(|kind| kind.flags.stored)
    };
    let all = served.resources().iter().filter(stored);
    all.filter(|resource| seen.insert(resource.collection.name().to_owned())).cloned().collect()
}

/// Returns true if an object is being deleted already and only kept by its finalizers: to delete it once more would
/// change nothing. A namespace or a definition may have thousands of them for hours.
pub(super) fn is_held(object: &CachedObject) -> bool {
    if !terminating(object.stored()) {
        return false;
    }
    let field = |name: &str| raw::lookup(object.stored(), &["metadata", name]);
    let grace = field("deletionGracePeriodSeconds").and_then(raw::scalar);
    field("deletionTimestamp").is_some()
        && field("finalizers").is_some_and(|finalizers| finalizers != b"[]")
        && grace.is_none_or(|seconds| seconds == "0")
}

/// A copy of pointers, so that the snapshot is not held while objects are deleted one by one.
fn inside(resource: &Resource, namespace: &str) -> Vec<Arc<CachedObject>> {
    let mut filter = Filter::default();
    filter.namespace = Some(namespace.into());
    let walk = resource.collection.walk(&filter, None);
    resource.collection.snapshot().range(&walk).cloned().collect()
}

/// Removes the finalizer `kubernetes` from an empty namespace. The write that takes the last finalizer away deletes it.
async fn remove_kubernetes_finalizer(api: &Api, namespaces: &Resource, name: &str) -> Result<(), Status> {
    amend(api, namespaces, None, name, |namespace| {
        let mut new = namespace.clone();
        remove_finalizer(new.inner("spec")?, FINALIZER);
        Some(new)
    })
    .await
}
