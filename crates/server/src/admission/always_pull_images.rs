//! AlwaysPullImages: containers of new Pods pull their image every time, so that the right to it is checked every time.

use async_trait::async_trait;
use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::Value;

use super::{Attributes, Operation, Plugin};
use crate::registry::Resource;

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
