//! What must be so in the rest of the cluster for an object to come or go: its namespace, mostly.

use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::Value;

use crate::api::Api;
use crate::auth::grant;
use crate::auth::grant::Grant;
use crate::pipeline::WriteRequest;
use crate::pipeline::target::Target;
use crate::pipeline::transaction::fresh;

/// Namespaces that stay.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// A new object needs a namespace that exists and is not on its way out.
pub(crate) async fn namespace_takes_new(api: &Api, target: &Target<'_>) -> Result<(), Status> {
    let Some(namespace) = target.namespace else { return Ok(()) };
    let resource = target.resource;
    let Some(namespaces) = api.registry.find("", "v1", "namespaces") else { return Ok(()) };
    let home = Target::new(&namespaces, None, namespace);
    let snapshot = namespaces.collection.snapshot();
    let terminating = match snapshot.get(&home.key) {
        // Whoever deleted it here a moment ago knows that it is going, though the cache may not.
        Some(object) => {
            object.field("metadata.deletionTimestamp").is_some()
                || api
                    .recent
                    .get(&home.key, object.revision(), &namespaces.rules)
                    .is_some_and(|(_, recent)| recent.value.at("metadata").has("deletionTimestamp"))
        }
        // A namespace made a moment ago may not have reached the cache.
        None => match fresh(api, &home).await? {
            Some(stored) => stored.value.at("metadata").has("deletionTimestamp"),
            None => return Err(home.not_found()),
        },
    };
    if !terminating {
        return Ok(());
    }
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let cause = format!("namespace {namespace} is being terminated");
    Err(Status::forbidden(&resource.group, &resource.plural, target.name, &why).with_cause(
        "NamespaceTerminating",
        cause,
        "metadata.namespace",
    ))
}

/// Some namespaces cannot be deleted.
pub(crate) fn may_be_deleted(target: &Target<'_>) -> Result<(), Status> {
    let resource = target.resource;
    let is_namespace = resource.group.is_empty() && &*resource.plural == "namespaces";
    if is_namespace && IMMORTAL.contains(&target.name) {
        let why = "this namespace may not be deleted";
        return Err(Status::forbidden("", "namespaces", target.name, why));
    }
    Ok(())
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
