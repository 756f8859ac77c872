//! Rights that a write takes beyond those that its path asks for.

use listwatch_wire::Status;
use listwatch_wire::json::Value;

use crate::api::Api;
use crate::auth::Attributes;
use crate::auth::grant::{self, Grant};
use crate::pipeline::WriteRequest;
use crate::pipeline::target::Target;

/// Roles and bindings may give no more than their writer has. `old` is what the object replaces.
pub(crate) async fn may_grant(
    api: &Api,
    request: &WriteRequest,
    target: &Target<'_>,
    object: &Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    if &*target.resource.group != "rbac.authorization.k8s.io" {
        return Ok(());
    }
    // A role made a moment ago counts, and one that was widened is as wide as it is now.
    api.wait_for(None).await?;
    let grant = Grant {
        resource: &target.resource.plural,
        namespace: target.namespace.unwrap_or_default(),
        name: target.name,
        asked: request.name.as_deref().unwrap_or_default(),
        object,
        old,
    };
    grant::check(&*api.authorizer, &request.user, grant)
}

/// An update or apply that creates needs the right to create, besides its own.
pub(crate) fn may_create(api: &Api, request: &WriteRequest, target: &Target<'_>) -> Result<(), Status> {
    let create = Attributes {
        verb: "create",
        group: &target.resource.group,
        version: &target.resource.version,
        resource: &target.resource.plural,
        namespace: target.namespace.unwrap_or_default(),
        name: target.name,
        ..Attributes::default()
    };
    api.authorizer.require(&request.user, &create)
}
