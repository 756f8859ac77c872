//! NamespaceExists: requests need a namespace that exists. Off by default, because NamespaceLifecycle checks the same
//! for creations and more.
//!
//! Unlike that plugin it also covers updates and deletions of objects in a namespace that is gone.

use async_trait::async_trait;
use listwatch_wire::Status;
use listwatch_wire::json::Value;

use super::namespaces::is_terminating;
use super::{Attributes, Operation, Plugin};
use crate::registry::Resource;

/// Validating, on every operation but `Connect`.
#[derive(Debug)]
pub(super) struct NamespaceExists;

#[async_trait]
impl Plugin for NamespaceExists {
    fn is_interested(&self, resource: &Resource) -> bool {
        resource.namespaced
    }

    fn handles(&self, operation: Operation, _subresource: &str) -> bool {
        operation != Operation::Connect
    }

    async fn validate(&self, request: &Attributes<'_>, _object: &Value) -> Result<(), Status> {
        is_terminating(request.api, request.namespace).await.map(drop)
    }
}
