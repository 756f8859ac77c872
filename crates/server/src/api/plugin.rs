//! [`Plugin`]: the interface of admission plugins, which are in `admission/`.
//!
//! The three questions before the calls exist for speed: interest in a resource is asked once, the operation and
//! idleness for every write. A plugin whose configuration objects do not exist is idle and costs a lookup. `admit`
//! and `validate` may be called several times for one request, since a write is retried after a conflict: they must
//! have no effect of their own, except through the [`super::AdmissionRecord`].

use std::fmt::Debug;

use async_trait::async_trait;
use listwatch_wire::Status;
use listwatch_wire::json::Value;

use super::{Api, Attributes, Operation};
use crate::registry::Resource;

/// One admission plugin. One value serves all requests, so state that it keeps between them must be derived from the
/// cache.
#[doc(alias = "admission.Interface")]
#[doc(alias = "MutationInterface")]
#[doc(alias = "ValidationInterface")]
#[async_trait]
pub(crate) trait Plugin: Debug + Send + Sync {
    /// Returns true if the plugin may have something to do for objects of this resource. Asked once per resource.
    fn is_interested(&self, resource: &Resource) -> bool;

    /// Returns true if the plugin handles the operation on this subresource; empty for the resource itself.
    fn handles(&self, operation: Operation, subresource: &str) -> bool;

    /// Returns true if there is nothing configured that the plugin could act on. Called for every write: must be cheap.
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
