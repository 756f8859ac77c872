//! OwnerReferencesPermissionEnforcement: permission to change owner references. Off by default.
//!
//! Changing the owners of an object can delete it, by garbage collection, so it needs permission to delete it;
//! `blockOwnerDeletion` holds up the deletion of the owner, so it needs permission to update the owner's
//! `finalizers`. Creations need no permission to delete. The status and bindings cannot change owners and are
//! skipped. Owners themselves are followed by `lifecycle/garbage.rs`.

use async_trait::async_trait;
use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::Value;

use super::{Attributes, Operation, Plugin};
use crate::auth::{AuthorizerAttributes, Decision};
use crate::registry::Resource;

/// Validating. Writes that do not touch owners cost one comparison of lists.
#[derive(Debug)]
#[doc(alias = "gcPermissionsEnforcement")]
pub(super) struct OwnerReferencesPermissionEnforcement;

#[async_trait]
impl Plugin for OwnerReferencesPermissionEnforcement {
    fn is_interested(&self, _resource: &Resource) -> bool {
        true
    }

    fn handles(&self, operation: Operation, subresource: &str) -> bool {
        // A binding and a status cannot change owners.
        !matches!(subresource, "binding" | "status")
            && matches!(operation, Operation::Create | Operation::Update)
    }

    async fn validate(&self, request: &Attributes<'_>, object: &Value) -> Result<(), Status> {
        let old = request.old.unwrap_or(&Value::Null);
        if owners(object) == owners(old) {
            return Ok(());
        }
        if request.operation == Operation::Update {
            may_delete(request).map_err(|why| request.forbidden(object, &why))?;
        }
        for owner in newly_blocked(object, old) {
            may_finalize(request, owner).map_err(|why| request.forbidden(object, &why))?;
        }
        Ok(())
    }
}

fn owners(object: &Value) -> &[Value] {
    object.at("metadata").list("ownerReferences")
}

/// Owners whose deletion the object begins to hold up.
/// Compared by uid: an owner that was already held up needs no permission again.
fn newly_blocked<'a>(object: &'a Value, old: &'a Value) -> impl Iterator<Item = &'a Value> {
    let blocks = |owner: &&Value| owner.flag("blockOwnerDeletion");
    owners(object).iter().filter(blocks).filter(move |owner| {
        !owners(old).iter().filter(blocks).any(|known| known.text("uid") == owner.text("uid"))
    })
}

/// Checks `delete` on the object whose owners change.
///
/// # Errors
///
/// The reason, with kube-apiserver's text.
fn may_delete(request: &Attributes<'_>) -> Result<(), String> {
    let wanted = AuthorizerAttributes {
        verb: "delete",
        group: &request.resource.group,
        version: &request.resource.version,
        resource: &request.resource.plural,
        subresource: request.subresource,
        namespace: request.namespace,
        name: request.name,
        ..AuthorizerAttributes::default()
    };
    match request.api.authorizer.authorize(request.user, &wanted) {
        Decision::Allow => Ok(()),
        Decision::NoOpinion(reason) => {
            Err(format!("cannot set an ownerRef on a resource you can't delete: {reason}, <nil>"))
        }
    }
}

/// Checks `update` on the `finalizers` of an owner; permission for all owners is tried first, because it needs no
/// lookup of the kind.
///
/// # Errors
/// The reason, with kube-apiserver's text.
fn may_finalize(request: &Attributes<'_>, owner: &Value) -> Result<(), String> {
    let everything = AuthorizerAttributes {
        verb: "update",
        group: "*",
        version: "*",
        resource: "*",
        subresource: "finalizers",
        name: "*",
        ..AuthorizerAttributes::default()
    };
    if request.api.authorizer.authorize(request.user, &everything) == Decision::Allow {
        return Ok(());
    }
    let (version, kind) = (owner.text("apiVersion"), owner.text("kind"));
    let (group, number) = version.split_once('/').unwrap_or(("", version));
    let Some(resource) = request.api.registry.find_kind(group, number, kind) else {
        return Err(format!(
            "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion {version} Kind {kind}: no matches for kind {kind:?} in version {version:?}"
        ));
    };
    let wanted = AuthorizerAttributes {
        group: &resource.group,
        version: &resource.version,
        resource: &resource.plural,
        namespace: if resource.namespaced { request.namespace } else { "" },
        name: owner.text("name"),
        ..everything
    };
    match request.api.authorizer.authorize(request.user, &wanted) {
        Decision::Allow => Ok(()),
        Decision::NoOpinion(reason) => Err(format!(
            "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: {reason}, <nil>"
        )),
    }
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    #[test]
    fn only_owners_that_were_not_held_up_before_are_checked() {
        let object = |block: bool| json!({"metadata": {"ownerReferences": [{"uid": "1", "blockOwnerDeletion": block}]}});
        let count = |new: &Value, old: &Value| newly_blocked(new, old).count();
        assert_eq!(count(&object(true), &Value::Null), 1);
        assert_eq!(count(&object(true), &object(false)), 1);
        assert_eq!(count(&object(true), &object(true)), 0);
        assert_eq!(count(&object(false), &Value::Null), 0);
    }
}
