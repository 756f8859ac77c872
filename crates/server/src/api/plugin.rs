//! [`Plugin`]: the interface of admission plugins, which are in `admission/`.

use std::fmt::Debug;

use async_trait::async_trait;
use listwatch_wire::Status;
use listwatch_wire::json::Value;

use super::{Api, Attributes, Operation};
use crate::registry::Resource;

/// One admission plugin.
#[async_trait]
pub(crate) trait Plugin: Debug + Send + Sync {
    /// Returns true if the plugin may have something to do for objects of this resource. Asked once per resource.
    fn is_interested(&self, resource: &Resource) -> bool;

    /// Returns true if the plugin handles the operation on this subresource; empty for the resource itself.
    fn handles(&self, operation: Operation, subresource: &str) -> bool;

    /// Returns true if there is nothing configured that the plugin could act on. Asked for every write: must be cheap.
    fn is_idle(&self, _api: &Api) -> bool {
        false
    }

    /// Changes the object, or rejects the request. A deletion and a connection have no object to change: `object` is null.
    async fn admit(&self, _request: &Attributes<'_>, _object: &mut Value) -> Result<(), Status> {
        Ok(())
    }

    /// Rejects the request or lets it pass. `object` is null for a deletion.
    async fn validate(&self, _request: &Attributes<'_>, _object: &Value) -> Result<(), Status> {
        Ok(())
    }
}
