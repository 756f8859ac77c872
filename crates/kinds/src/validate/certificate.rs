//! Certificate signing requests and the signers they name.

use base64::Engine as _;
use listwatch_wire::json::Value;
use listwatch_wire::names::subdomain_errors;

use super::checks;
use crate::field::Errors;
use crate::rules::{At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] =
    checks![request_is_a_certificate_request, signer_is_well_formed, verdict_is_true];

/// The longest path of a signer's name.
const MAX_SIGNER: usize = 571;

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

fn signer_is_well_formed(at: &At<'_>, errors: &mut Errors) {
    const FORM: &str = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
    let signer = at.value.as_str().unwrap_or_default();
    if signer.is_empty() {
        errors.required(at.path, "");
        return;
    }
    if signer == "kubernetes.io/legacy-unknown" {
        errors.invalid(at.path, signer, "the legacy signerName is not allowed via this API version");
        return;
    }
    match signer.split_once('/') {
        Some((domain, path)) if !path.is_empty() && !path.contains('/') => {
            errors.invalid_all(at.path, domain, subdomain_errors(domain));
            if !domain.contains('.') {
                errors.invalid(
                    at.path,
                    domain,
                    "should be a domain with at least two segments separated by dots",
                );
            }
            errors.invalid_all(at.path, path, subdomain_errors(path));
        }
        _ => errors.invalid(at.path, signer, FORM),
    }
    if signer.len() > MAX_SIGNER {
        errors.too_long(at.path, MAX_SIGNER);
    }
}

/// The Approved, Denied and Failed conditions cannot be removed or changed.
fn verdict_is_true(at: &At<'_>, errors: &mut Errors) {
    let status = at.value.as_str().unwrap_or_default();
    let known: &[&str] = match at.parent.text("type") {
        "Approved" | "Denied" | "Failed" => &["True"],
        _ => &["False", "True", "Unknown"],
    };
    if at.value != &Value::Null {
        errors.one_of(at.path, status, known);
    }
}
