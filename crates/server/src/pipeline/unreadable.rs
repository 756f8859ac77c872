//! Deletion of objects that cannot be read: bytes that are no JSON, or that the store finds damaged.
//!
//! Such an object can be neither marked nor updated, so its finalizers are skipped, and the response shows only its name and uid.
//! A caller must ask for that explicitly (`ignoreStoreReadErrorWithClusterBreakingPotential`), as in kube-apiserver.

use listwatch_kinds::tree::Tree;
use listwatch_storage::{self as storage, Expect};
use listwatch_wire::json::{Value, json, raw};
use listwatch_wire::{Revision, Status};

use crate::api::Api;
use crate::cache::fresh::storage_status;
use crate::pipeline::commit::put;
use crate::pipeline::target::Target;
use crate::pipeline::transaction::Done;

/// Removes an object that cannot be read, without its finalizers: it can be neither marked nor updated. `None` if it
/// can be read or does not exist.
///
/// # Errors
/// Those of `check`, 409 if the object has changed, 5xx.
pub(crate) async fn remove_unreadable(
    api: &Api,
    target: &Target<'_>,
    check: impl Fn(&Value, Revision) -> Result<(), Status>,
) -> Result<Option<Done>, Status> {
    let found = match api.engine.get(&target.key, None).await {
        Err(storage::Error::Corrupt(_)) => return remove_damaged(api, target, check).await.map(Some),
        found => found.map_err(|error| storage_status(&error))?,
    };
    let Some(found) = found.filter(|found| Value::read(&found.value).is_err()) else { return Ok(None) };
    let identity = identity(target, &found.value);
    check(&identity, found.revision)?;
    tracing::warn!(key = &*target.key, "an object that cannot be read is deleted without its finalizers");
    match put(api, target, None, Expect::At(found.revision), Vec::new()).await? {
        Ok(_) => Ok(Some(Done::Dry { object: identity, created: false, removed: true })),
        Err(_) => Err(target.modified()),
    }
}

/// Removes an object whose stored bytes are corrupt.
async fn remove_damaged(
    api: &Api,
    target: &Target<'_>,
    check: impl Fn(&Value, Revision) -> Result<(), Status>,
) -> Result<Done, Status> {
    let identity = identity(target, b"");
    check(&identity, Revision::ZERO)?;
    tracing::warn!(key = &*target.key, "a damaged object is deleted without its finalizers");
    match put(api, target, None, Expect::Any, Vec::new()).await? {
        Ok(_) => Ok(Done::Dry { object: identity, created: false, removed: true }),
        Err(_) => Err(target.not_found()),
    }
}

/// The object as far as it is known without reading it: its kind, its key, and the uid if that can be found in the bytes.
fn identity(target: &Target<'_>, bytes: &[u8]) -> Value {
    let uid = raw::lookup(bytes, &["metadata", "uid"]).and_then(raw::scalar).unwrap_or_default();
    let mut object = json!({
        "kind": &*target.resource.kind, "apiVersion": target.resource.api_version(),
        "metadata": {"name": target.name, "uid": uid},
    });
    if let (Some(namespace), Some(meta)) = (target.namespace, object.inner("metadata")) {
        meta.put("namespace", namespace);
    }
    object
}
