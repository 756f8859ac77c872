//! Authorization of CertificateSigningRequests beyond RBAC on the resource: `approve` and `sign` on the signer, and the
//! group that must not be requested.
//!
//! In kube-apiserver these are the admission plugins CertificateApproval, CertificateSigning and
//! CertificateSubjectRestriction plus the strategy that fills in the requester. They exist because the right to
//! update a request that does not concern the signer it is for. `system:masters` bypasses authorization, so a client
//! certificate with that group is refused at creation.
//!
//! Pure checks: `admission/certificates.rs` calls them in the write pipeline. Authentication by certificate is
//! `x509`, and no certificate is issued here: that is a controller's work.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::go::quote;
use listwatch_wire::json::{Map, Value};
use listwatch_wire::status::FieldError;
use rustls::pki_types::CertificateSigningRequestDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer;
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

use crate::auth::{Authorizer, AuthorizerAttributes, Decision, MASTERS, User};

const GROUP: &str = "certificates.k8s.io";
/// The signer of client certificates that this server accepts as users.
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

/// Overwrites `username`, `uid`, `groups` and `extra` of a new request with the authenticated user. Approvers rely on
/// them, so a client cannot choose them.
pub(crate) fn name_requester(user: &User, request: &mut Value) {
    let Some(spec) = request.inner_or_new("spec") else { return };
    for key in ["username", "uid", "groups", "extra"] {
        spec.drop_field(key);
    }
    spec.put("username", user.name.as_str());
    spec.put("groups", user.groups.clone());
    if !user.uid.is_empty() {
        spec.put("uid", user.uid.as_str());
    }
    if !user.extra.is_empty() {
        let extra = user.extra.iter().map(|(key, values)| (key.as_str(), Value::from(values.clone())));
        spec.put("extra", Value::Object(extra.collect::<Map>()));
    }
}

/// Refuses a request to the client signer whose subject has the organization `system:masters`.
///
/// # Errors
/// The message of the 403.
pub(crate) fn check_new(request: &Value) -> Result<(), String> {
    let spec = request.at("spec");
    if spec.text("signerName") != CLIENT_SIGNER {
        return Ok(());
    }
    let groups =
        organizations(spec.text("request")).map_err(|problem| format!("failed to parse CSR: {problem}"))?;
    if groups.iter().any(|group| group == MASTERS) {
        return Err(format!("use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed"));
    }
    Ok(())
}

/// Approving takes `approve` on the signer of the stored request.
///
/// # Errors
/// Why it is forbidden.
pub(crate) fn check_approval(authorizer: &dyn Authorizer, user: &User, old: &Value) -> Result<(), String> {
    let signer = old.at("spec").text("signerName");
    if may(authorizer, user, "approve", signer) {
        return Ok(());
    }
    Err(format!("user not permitted to approve requests with signerName {}", quote(signer)))
}

/// Writing a certificate or conditions takes `sign` on the signer of the stored request.
///
/// # Errors
/// Why it is forbidden.
pub(crate) fn check_signing(
    authorizer: &dyn Authorizer,
    user: &User,
    new: &Value,
    old: &Value,
) -> Result<(), String> {
    let (before, after) = (old.at("status"), new.at("status"));
    let signer = old.at("spec").text("signerName");
    let signed = ["certificate", "conditions"].iter().any(|key| differs(before, after, key));
    if !signed || may(authorizer, user, "sign", signer) {
        return Ok(());
    }
    Err(format!("user not permitted to sign requests with signerName {}", quote(signer)))
}

/// Writing a bundle of trust anchors takes `attest` on its signer, if it has one.
///
/// # Errors
/// Why it is forbidden.
pub(crate) fn check_attestation(
    authorizer: &dyn Authorizer,
    user: &User,
    bundle: &Value,
) -> Result<(), String> {
    let signer = bundle.at("spec").text("signerName");
    if signer.is_empty() || may(authorizer, user, "attest", signer) {
        return Ok(());
    }
    Err(format!("user not permitted to attest for signerName {}", quote(signer)))
}

/// Writing the status of a PodCertificateRequest takes `sign` on its signer.
///
/// # Errors
/// 422, as in kube-apiserver, where the strategy of the kind checks it.
pub(crate) fn check_pod_certificate(
    authorizer: &dyn Authorizer,
    user: &User,
    new: &Value,
    old: &Value,
) -> Result<(), Status> {
    let signer = old.at("spec").text("signerName");
    if new.at("status") == old.at("status") || may(authorizer, user, "sign", signer) {
        return Ok(());
    }
    let (name, signer) = (quote(&user.name), quote(signer));
    let detail = format!("User {name} is not permitted to \"sign\" for signer {signer}");
    let error = FieldError::forbidden("spec.signerName", detail);
    Err(Status::invalid(GROUP, "PodCertificateRequest", old.at("metadata").text("name"), &[error]))
}

/// A status approves nothing: that is what the `approval` subresource is for.
///
/// # Errors
/// 422.
pub(crate) fn check_approved_elsewhere(new: &Value, old: &Value) -> Result<(), Status> {
    if approvals(new.at("status")) == approvals(old.at("status")) {
        return Ok(());
    }
    let detail = "updates may not add or remove a condition of type \"Approved\" or \"Denied\"";
    let error = FieldError::forbidden("status.conditions", detail);
    let name = old.at("metadata").text("name");
    Err(Status::invalid(GROUP, "CertificateSigningRequest", name, &[error]))
}

/// Returns true if the user has the verb on the signer, or on all signers of its domain.
///
/// The version is `*`, since the signer is a name for permissions only and no resource is served under it.
fn may(authorizer: &dyn Authorizer, user: &User, verb: &str, signer: &str) -> bool {
    let domain = format!("{}/*", signer.split('/').next().unwrap_or_default());
    [signer, &domain].iter().any(|name| {
        let right = AuthorizerAttributes {
            verb,
            group: GROUP,
            version: "*",
            resource: "signers",
            name,
            ..AuthorizerAttributes::default()
        };
        authorizer.authorize(user, &right) == Decision::Allow
    })
}

/// Returns true if a field changed. Empty and absent are the same.
/// Clients that read and write back leave out what is empty, which is not a change.
fn differs(before: &Value, after: &Value, key: &str) -> bool {
    let (before, after) = (before.at(key), after.at(key));
    let empty = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    !(before == after || (empty(before) && empty(after)))
}

/// The types of the conditions that only approval may set.
fn approvals(status: &Value) -> Vec<&str> {
    let types = status.list("conditions").iter().map(|condition| condition.text("type"));
    let mut types: Vec<_> = types.filter(|kind| matches!(*kind, "Approved" | "Denied")).collect();
    types.sort_unstable();
    types
}

/// The groups that a certificate made from this request would be for.
fn organizations(request: &str) -> Result<Vec<String>, String> {
    subject_parts(request, &|subject| texts(subject.iter_organization()))
}

/// The names that a certificate made from this request would be for.
///
/// # Errors
/// Why it is not a request for a certificate.
pub(crate) fn common_names(request: &str) -> Result<Vec<String>, String> {
    subject_parts(request, &|subject| texts(subject.iter_common_name()))
}

type SubjectParts = Result<Vec<String>, String>;

/// Unpacks base64, PEM and DER down to the subject. The signature of the request is checked where it is validated
/// (`kinds/src/validate/certificate.rs`).
fn subject_parts(request: &str, read: &dyn Fn(&X509Name<'_>) -> SubjectParts) -> SubjectParts {
    let pem = STANDARD.decode(request).map_err(|error| error.to_string())?;
    let der = CertificateSigningRequestDer::from_pem_slice(&pem)
        .map_err(|_| "PEM block type must be CERTIFICATE REQUEST".to_owned())?;
    let (_, parsed) = X509CertificationRequest::from_der(&der).map_err(|error| error.to_string())?;
    read(&parsed.certification_request_info.subject)
}

/// The attributes of a subject as texts. One that is not a string of characters makes the whole request unreadable:
/// leaving it out could hide a forbidden group.
fn texts<'a>(parts: impl Iterator<Item = &'a AttributeTypeAndValue<'a>>) -> SubjectParts {
    let texts = parts.map(|part| part.as_str().map(str::to_owned));
    texts.collect::<Result<_, _>>().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;
    use crate::auth::rbac::{PolicyRule, RoleRef};

    /// Allows one verb on one signer.
    #[derive(Debug)]
    struct Signer(&'static str, &'static str);

    impl Authorizer for Signer {
        fn authorize(&self, _user: &User, wanted: &AuthorizerAttributes<'_>) -> Decision {
            let is_allowed = (wanted.verb, wanted.resource, wanted.name) == (self.0, "signers", self.1);
            if is_allowed { Decision::Allow } else { Decision::no_opinion("") }
        }

        fn rules(&self, _user: &User, _namespace: &str) -> Vec<PolicyRule> {
            Vec::new()
        }

        fn role(&self, _role: &RoleRef, _namespace: &str) -> Option<Vec<PolicyRule>> {
            None
        }
    }

    /// A user who could write the status of PodCertificateRequests could issue certificates in the name of any signer.
    #[test]
    fn certificates_of_pods_are_issued_by_their_signer() {
        let user = User { name: "u".to_owned(), ..User::default() };
        let old = json!({"metadata": {"name": "r"}, "spec": {"signerName": "a.test/b"}, "status": {}});
        let mut new = old.clone();
        let check = |authorizer: &Signer, new: &Value| check_pod_certificate(authorizer, &user, new, &old);
        assert!(check(&Signer("get", "x"), &new).is_ok());
        new["status"] = json!({"certificateChain": "c"});
        new["spec"]["signerName"] = json!("mine.test/x");
        for other in [Signer("sign", "mine.test/x"), Signer("approve", "a.test/b")] {
            let refused = check(&other, &new).unwrap_err();
            assert!(
                refused.message.contains("User \"u\" is not permitted to \"sign\" for signer \"a.test/b\"")
            );
        }
        assert!(check(&Signer("sign", "a.test/b"), &new).is_ok());
        assert!(check(&Signer("sign", "a.test/*"), &new).is_ok());
    }
}
