//! Certificate signing requests.

use base64::Engine as _;

use crate::field::Errors;
use crate::rules::{At, Check};

pub(super) const CHECKS: &[(&str, Check)] = checks![request_is_a_certificate_request];

/// The request is one PEM block of its type. What is inside is for the signer to judge.
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
