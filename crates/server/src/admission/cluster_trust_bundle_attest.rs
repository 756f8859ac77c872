//! ClusterTrustBundleAttest: permission to publish trust anchors for a signer.
//!
//! Workloads trust what a ClusterTrustBundle of a signer contains, so that the right to write bundles is not enough: it takes
//! `attest` on the signer. A change of owners and finalizers alone passes, as in kube-apiserver. The rule is in
//! [`crate::auth::certificates`].

use std::sync::Arc;

use async_trait::async_trait;
use listwatch_wire::Status;
use listwatch_wire::json::Value;

use crate::admission::{Attributes, Operation, Plugin};
use crate::auth::{Authorizer, certificates, grant};
use crate::registry::Resource;

/// Requires `attest` on the signer of a bundle.
#[derive(Debug)]
pub(super) struct ClusterTrustBundleAttest;

#[async_trait]
impl Plugin for ClusterTrustBundleAttest {
    fn is_interested(&self, resource: &Resource) -> bool {
        (&*resource.group, &*resource.plural) == ("certificates.k8s.io", "clustertrustbundles")
    }

    fn handles(&self, operation: Operation, _subresource: &str) -> bool {
        matches!(operation, Operation::Create | Operation::Update)
    }

    async fn validate(&self, request: &Attributes<'_>, object: &Value) -> Result<(), Status> {
        if request.old.is_some_and(|old| grant::only_releases(object, old)) {
            return Ok(());
        }
        let check = |authorizer: &Arc<dyn Authorizer>| {
            certificates::check_attestation(&**authorizer, request.user, object)
        };
        request.api.authorizer.decide(check).await.map_err(|why| request.forbidden(object, &why))
    }
}
