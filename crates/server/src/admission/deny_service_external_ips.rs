//! DenyServiceExternalIPs: rejects new addresses in `spec.externalIPs` of Services. Off by default.
//!
//! Any user who may create Services could otherwise redirect traffic for an address to their Pods (CVE-2020-8554).
//! Addresses that a Service already has may stay or be removed, so that existing Services can be updated.

use async_trait::async_trait;
use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::Value;

use super::{Attributes, Operation, Plugin};
use crate::registry::Resource;

/// Validating, so that addresses set by a mutating webhook are seen.
#[derive(Debug)]
pub(super) struct DenyServiceExternalIPs;

#[async_trait]
impl Plugin for DenyServiceExternalIPs {
    fn is_interested(&self, resource: &Resource) -> bool {
        (&*resource.group, &*resource.plural) == ("", "services")
    }

    fn handles(&self, operation: Operation, subresource: &str) -> bool {
        subresource.is_empty() && matches!(operation, Operation::Create | Operation::Update)
    }

    async fn validate(&self, request: &Attributes<'_>, service: &Value) -> Result<(), Status> {
        let before = request.old.map(|old| old.at("spec").list("externalIPs")).unwrap_or_default();
        let added = service.at("spec").list("externalIPs").iter().any(|address| !before.contains(address));
        if !added {
            return Ok(());
        }
        Err(request.forbidden(service, "Use of external IPs is denied by admission control"))
    }
}
