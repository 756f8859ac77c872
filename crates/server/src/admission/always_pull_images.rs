//! AlwaysPullImages: sets `imagePullPolicy: Always` on the containers of new Pods. Off by default.
//!
//! On a node with several tenants it makes the kubelet check the pull secret each time; otherwise a Pod could use a
//! private image that another tenant's Pod left on the node. Updates are left alone: the policy of a running
//! container cannot change.

use async_trait::async_trait;
use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::Value;

use super::{Attributes, Operation, Plugin};
use crate::registry::Resource;

/// Mutating only. kube-apiserver's plugin also validates that the policy is `Always` afterwards; here a later
/// mutating webhook may change it.
#[derive(Debug)]
pub(super) struct AlwaysPullImages;

#[async_trait]
impl Plugin for AlwaysPullImages {
    fn is_interested(&self, resource: &Resource) -> bool {
        (&*resource.group, &*resource.plural) == ("", "pods")
    }

    fn handles(&self, operation: Operation, subresource: &str) -> bool {
        subresource.is_empty() && matches!(operation, Operation::Create | Operation::Update)
    }

    async fn admit(&self, request: &Attributes<'_>, pod: &mut Value) -> Result<(), Status> {
        if request.old.is_some() {
            return Ok(());
        }
        let Some(spec) = pod.inner("spec") else { return Ok(()) };
        for key in ["initContainers", "containers", "ephemeralContainers"] {
            for container in spec.each(key) {
                container.put("imagePullPolicy", "Always");
            }
        }
        Ok(())
    }
}
