//! The state of a namespace, for plugins that ask if objects may be created in it.
//!
//! Read from the watch cache, with two exceptions because the cache may be a moment behind: a deletion that this
//! server has just made is found among its recent writes, and a namespace that is missing is looked up in the store
//! before a 404. Used by [`super::namespace_lifecycle`] and [`super::namespace_exists`].

use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;

use crate::api::Api;
use crate::api::stored::fresh;
use crate::registry::target::Target;

/// Returns true if a namespace is being deleted.
///
/// Costs a lookup in the cache. Only a namespace that the cache does not have costs a read of the store, so creating
/// objects in namespaces that do not exist is as expensive as a read, not more.
///
/// # Errors
/// 404 if it does not exist in the store, 5xx if the store fails.
pub(crate) async fn is_terminating(api: &Api, namespace: &str) -> Result<bool, Status> {
    let Some(namespaces) = api.registry.find("", "v1", "namespaces") else { return Ok(false) };
    let home = Target::new(&namespaces, None, namespace);
    let snapshot = namespaces.collection.snapshot();
    match snapshot.get(&home.key) {
        // A deletion by this server counts although the cache may not have it yet.
        Some(object) => Ok(object.field("metadata.deletionTimestamp").is_some()
            || api
                .cache
                .trees
                .get(&home.key, object.revision(), &namespaces.rules)
                .is_some_and(|(_, recent)| recent.value.at("metadata").has("deletionTimestamp"))),
        // A namespace made a moment ago may not have reached the cache.
        None => match fresh(api, &home).await? {
            Some(stored) => Ok(stored.value.at("metadata").has("deletionTimestamp")),
            None => Err(home.not_found()),
        },
    }
}
