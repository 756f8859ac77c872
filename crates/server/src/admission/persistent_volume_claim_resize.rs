//! PersistentVolumeClaimResize: a claim may only grow if it is bound and its StorageClass has `allowVolumeExpansion`.
//!
//! Shrinking is refused by validation in `listwatch_kinds`, not here. The class is read from the watch cache at the
//! time of the update, so a class that no longer allows expansion stops further growth of existing claims.

use async_trait::async_trait;
use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::Value;

use super::pod_resources::quantity;
use super::{Attributes, Operation, Plugin};
use crate::registry::Resource;

/// Validating, on updates of the spec. Growing is the only case that looks anything up.
#[derive(Debug)]
pub(super) struct PersistentVolumeClaimResize;

fn size(claim: &Value) -> listwatch_kinds::quantity::Quantity {
    quantity(claim.path(&["spec", "resources", "requests"]).at("storage"))
}

#[async_trait]
impl Plugin for PersistentVolumeClaimResize {
    fn is_interested(&self, resource: &Resource) -> bool {
        (&*resource.group, &*resource.plural) == ("", "persistentvolumeclaims")
    }

    fn handles(&self, operation: Operation, subresource: &str) -> bool {
        operation == Operation::Update && subresource.is_empty()
    }

    async fn validate(&self, request: &Attributes<'_>, claim: &Value) -> Result<(), Status> {
        let Some(old) = request.old else { return Ok(()) };
        if size(claim) <= size(old) {
            return Ok(());
        }
        if old.at("status").text("phase") != "Bound" {
            return Err(request.forbidden(claim, "Only bound persistent volume claims can be expanded"));
        }
        let class = claim.at("spec").text("storageClassName");
        let found = request.find(("storage.k8s.io", "v1", "storageclasses"), None, class);
        if found.is_some_and(|class| class.flag("allowVolumeExpansion")) {
            return Ok(());
        }
        let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize";
        Err(request.forbidden(claim, why))
    }
}
