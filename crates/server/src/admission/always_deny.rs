//! AlwaysDeny: rejects every write. For tests of clients.

use async_trait::async_trait;
use listwatch_wire::Status;
use listwatch_wire::json::Value;

use super::{Attributes, Operation, Plugin};
use crate::registry::Resource;

#[derive(Debug)]
pub(super) struct AlwaysDeny;

#[async_trait]
impl Plugin for AlwaysDeny {
    fn is_interested(&self, _resource: &Resource) -> bool {
        true
    }

    fn handles(&self, _operation: Operation, _subresource: &str) -> bool {
        true
    }

    async fn validate(&self, request: &Attributes<'_>, object: &Value) -> Result<(), Status> {
        Err(request.forbidden(object, "admission control is denying all modifications"))
    }
}
