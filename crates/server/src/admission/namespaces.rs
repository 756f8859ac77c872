//! The state of a namespace, and the privilege-escalation check of roles and bindings.

use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::Value;

use crate::api::Api;
use crate::auth::grant;
use crate::auth::grant::Grant;
use crate::pipeline::WriteRequest;
use crate::pipeline::target::Target;
use crate::pipeline::transaction::fresh;

/// Returns true if a namespace is being deleted.
///
/// # Errors
/// 404 if it does not exist.
pub(crate) async fn is_terminating(api: &Api, namespace: &str) -> Result<bool, Status> {
    let Some(namespaces) = api.registry.find("", "v1", "namespaces") else { return Ok(false) };
    let home = Target::new(&namespaces, None, namespace);
    let snapshot = namespaces.collection.snapshot();
    match snapshot.get(&home.key) {
        // A deletion that this server made a moment ago counts, though the cache may not have it yet.
        Some(object) => Ok(object.field("metadata.deletionTimestamp").is_some()
            || api
                .recent
                .get(&home.key, object.revision(), &namespaces.rules)
                .is_some_and(|(_, recent)| recent.value.at("metadata").has("deletionTimestamp"))),
        // A namespace made a moment ago may not have reached the cache.
        None => match fresh(api, &home).await? {
            Some(stored) => Ok(stored.value.at("metadata").has("deletionTimestamp")),
            None => Err(home.not_found()),
        },
    }
}

/// Roles and bindings may give no more than their writer has.
pub(crate) fn may_grant(
    api: &Api,
    request: &WriteRequest,
    target: &Target<'_>,
    object: &Value,
) -> Result<(), Status> {
    if &*target.resource.group != "rbac.authorization.k8s.io" {
        return Ok(());
    }
    let grant = Grant {
        resource: &target.resource.plural,
        namespace: target.namespace.unwrap_or_default(),
        name: target.name,
        object,
    };
    grant::check(&*api.authorizer, &request.user, grant)
}
