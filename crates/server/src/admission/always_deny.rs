//! AlwaysDeny: rejects every write. Off by default; for tests of how clients deal with a 403.
//!
//! It is the last row of the table, as in kube-apiserver, so that all other plugins have run and their warnings are
//! in the response.

use async_trait::async_trait;
use listwatch_wire::Status;
use listwatch_wire::json::Value;

use super::{Attributes, Operation, Plugin};
use crate::registry::Resource;

/// Rejects every write: for tests of what follows a rejection.
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
