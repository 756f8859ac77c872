//! StorageObjectInUseProtection: adds a protection finalizer to claims, volumes and VolumeAttributesClasses, so that
//! they stay while something uses them.
//!
//! Without it, a claim could be deleted while a Pod has it mounted. The finalizer is removed by
//! `lifecycle/protection.rs`, or by the controller manager of a cluster; [`finalizer`] is shared with the former.

use async_trait::async_trait;
use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::Value;

use super::{Attributes, Operation, Plugin};
use crate::registry::Resource;

/// Mutating, on creations. Objects that were created while the plugin was off stay without protection.
#[derive(Debug)]
pub(super) struct StorageObjectInUseProtection;

/// Returns the finalizer of a resource that is protected.
pub(crate) fn finalizer(group: &str, plural: &str) -> Option<&'static str> {
    match (group, plural) {
        ("", "persistentvolumeclaims") => Some("kubernetes.io/pvc-protection"),
        ("", "persistentvolumes") => Some("kubernetes.io/pv-protection"),
        ("storage.k8s.io", "volumeattributesclasses") => Some("kubernetes.io/vac-protection"),
        _ => None,
    }
}

#[async_trait]
impl Plugin for StorageObjectInUseProtection {
    fn is_interested(&self, resource: &Resource) -> bool {
        finalizer(&resource.group, &resource.plural).is_some()
    }

    fn handles(&self, operation: Operation, subresource: &str) -> bool {
        operation == Operation::Create && subresource.is_empty()
    }

    async fn admit(&self, request: &Attributes<'_>, object: &mut Value) -> Result<(), Status> {
        let Some(wanted) = finalizer(&request.resource.group, &request.resource.plural) else {
            return Ok(());
        };
        let Some(meta) = object.inner_or_new("metadata") else { return Ok(()) };
        let mut finalizers = meta.list("finalizers").to_vec();
        if !finalizers.iter().any(|finalizer| finalizer == wanted) {
            finalizers.push(wanted.into());
            meta.put("finalizers", finalizers);
        }
        Ok(())
    }
}
