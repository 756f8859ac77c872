//! Certificate signing requests.
//!
//! Only the envelope is checked here: base64 and the type of the PEM block. The names inside of the request are
//! looked at by admission in the server (`admission/certificates.rs` and NodeRestriction), the key and the signature
//! by whoever signs; kube-apiserver parses the request and verifies its signature already here. Usages, the signer's
//! name and the expiration are rows of the tables in `rules`.

use base64::Engine as _;

use crate::field::Errors;
use crate::rules::{At, Check};

pub(super) const CHECKS: &[(&str, Check)] = checks![request_is_a_certificate_request];

/// The request is one PEM block of its type. What is inside is for the signer to judge.
///
/// The request is immutable, so an update is not checked: an object that was stored before the rule stays writable.
fn request_is_a_certificate_request(at: &At<'_>, errors: &mut Errors) {
    if at.old.is_some() {
        return;
    }
    let text = at.value.as_str().unwrap_or_default();
    let bytes = base64::engine::general_purpose::STANDARD.decode(text).unwrap_or_default();
    let pem = String::from_utf8_lossy(&bytes);
    let begins = |kind: &str| pem.contains(&format!("-----BEGIN {kind}-----"));
    if !begins("CERTIFICATE REQUEST") && !begins("NEW CERTIFICATE REQUEST") {
        errors.invalid(at.path, at.value.clone(), "PEM block type must be CERTIFICATE REQUEST");
    }
}
