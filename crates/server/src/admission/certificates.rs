//! CertificateApproval, CertificateSigning and CertificateSubjectRestriction: permission to approve and sign
//! CertificateSigningRequests.
//!
//! Three plugins because three subresources are concerned: `approval` needs `approve` on the signer, `status` needs
//! `sign`, and a new request may not ask for `system:masters`. Permission on the signer is separate from permission
//! on the resource, so that a controller may sign for its own signer only. The rules are in
//! [`crate::auth::certificates`]; the strategy that fills in the requester is called from `pipeline/change.rs`.

use std::sync::Arc;

use async_trait::async_trait;
use listwatch_wire::Status;
use listwatch_wire::json::Value;

use crate::admission::{Attributes, Operation, Plugin};
use crate::auth::{Authorizer, certificates};
use crate::registry::Resource;

/// The resource of all three plugins, in every version.
fn is_request(resource: &Resource) -> bool {
    (&*resource.group, &*resource.plural) == ("certificates.k8s.io", "certificatesigningrequests")
}

/// Requires `approve` on the signer for writes of `approval`.
#[derive(Debug)]
pub(super) struct CertificateApproval;

/// Requires `sign` on the signer for writes of certificates and conditions.
#[derive(Debug)]
pub(super) struct CertificateSigning;

/// Requires `sign` on the signer for the status of a PodCertificateRequest. No plugin of kube-apiserver, whose strategy of the
/// kind checks it: it cannot be disabled.
#[derive(Debug)]
pub(super) struct PodCertificateSigning;

/// Rejects requests for client certificates in the group `system:masters`, which would bypass authorization.
#[derive(Debug)]
pub(super) struct CertificateSubjectRestriction;

#[async_trait]
impl Plugin for CertificateApproval {
    fn is_interested(&self, resource: &Resource) -> bool {
        is_request(resource)
    }

    fn handles(&self, operation: Operation, subresource: &str) -> bool {
        operation == Operation::Update && subresource == "approval"
    }

    async fn validate(&self, request: &Attributes<'_>, object: &Value) -> Result<(), Status> {
        let old = request.old.unwrap_or(object);
        let check =
            |authorizer: &Arc<dyn Authorizer>| certificates::check_approval(&**authorizer, request.user, old);
        request.api.authorizer.decide(check).await.map_err(|why| request.forbidden(object, &why))
    }
}

#[async_trait]
impl Plugin for CertificateSigning {
    fn is_interested(&self, resource: &Resource) -> bool {
        is_request(resource)
    }

    fn handles(&self, operation: Operation, subresource: &str) -> bool {
        operation == Operation::Update && subresource == "status"
    }

    async fn validate(&self, request: &Attributes<'_>, object: &Value) -> Result<(), Status> {
        let old = request.old.unwrap_or(&Value::Null);
        certificates::check_approved_elsewhere(object, old)?;
        let check = |authorizer: &Arc<dyn Authorizer>| {
            certificates::check_signing(&**authorizer, request.user, object, old)
        };
        request.api.authorizer.decide(check).await.map_err(|why| request.forbidden(object, &why))
    }
}

#[async_trait]
impl Plugin for PodCertificateSigning {
    fn is_interested(&self, resource: &Resource) -> bool {
        (&*resource.group, &*resource.plural) == ("certificates.k8s.io", "podcertificaterequests")
    }

    fn handles(&self, operation: Operation, subresource: &str) -> bool {
        operation == Operation::Update && subresource == "status"
    }

    async fn validate(&self, request: &Attributes<'_>, object: &Value) -> Result<(), Status> {
        let old = request.old.unwrap_or(&Value::Null);
        let check = |authorizer: &Arc<dyn Authorizer>| {
            certificates::check_pod_certificate(&**authorizer, request.user, object, old)
        };
        request.api.authorizer.decide(check).await
    }
}

#[async_trait]
impl Plugin for CertificateSubjectRestriction {
    fn is_interested(&self, resource: &Resource) -> bool {
        is_request(resource)
    }

    fn handles(&self, operation: Operation, subresource: &str) -> bool {
        operation == Operation::Create && subresource.is_empty()
    }

    async fn validate(&self, request: &Attributes<'_>, object: &Value) -> Result<(), Status> {
        certificates::check_new(object).map_err(|why| request.forbidden(object, &why))
    }
}
