//! Certificate signing requests: one PEM block of its type, readable, and signed with the key it asks a certificate for.
//!
//! The names inside of the request are looked at by admission in the server (`admission/certificates.rs` and
//! NodeRestriction). Usages, the signer's name and the expiration are rows of the tables in `rules`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use x509_parser::certificate::X509Certificate;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::error::X509Error;
use x509_parser::prelude::FromDer;
use x509_parser::public_key::PublicKey;

use crate::field::Errors;
use crate::pem::{PemBlock, blocks};
use crate::rules::{At, Check};

pub(super) const CHECKS: &[(&str, Check)] = checks![request_is_a_certificate_request, certificate_is_pem];

const TYPE: &str = "CERTIFICATE REQUEST";
/// The sizes of RSA keys that kube-apiserver accepts and that the library cannot verify.
const SHORT_RSA_BITS: std::ops::Range<usize> = 1024..2048;

/// The request is immutable, so an update is not checked: an object that was stored before the rule stays writable.
fn request_is_a_certificate_request(at: &At<'_>, errors: &mut Errors) {
    if at.old.is_some() {
        return;
    }
    let text = at.value.as_str().unwrap_or_default();
    let pem = STANDARD.decode(text).unwrap_or_default();
    if let Err(why) = check(&pem) {
        errors.invalid(at.path, at.value.clone(), why);
    }
}

/// A certificate is at least one PEM block of its type, without headers, and nothing else but text between the blocks.
fn certificate_is_pem(at: &At<'_>, errors: &mut Errors) {
    let text = at.value.as_str().unwrap_or_default();
    if text.is_empty() || at.old == Some(at.value) {
        return;
    }
    let pem = STANDARD.decode(text).unwrap_or_default();
    if let Err(why) = check_certificates(&String::from_utf8_lossy(&pem)) {
        errors.invalid(at.path, "<certificate data>", why);
    }
}

fn check_certificates(pem: &str) -> Result<(), String> {
    let blocks: Vec<(PemBlock<'_>, Vec<u8>)> =
        blocks(pem).into_iter().filter_map(|block| block.bytes().map(|der| (block, der))).collect();
    if blocks.is_empty() {
        return Err("must contain at least one CERTIFICATE PEM block".to_owned());
    }
    for (block, der) in &blocks {
        if block.kind != "CERTIFICATE" {
            return Err(format!("only CERTIFICATE PEM blocks are allowed, found {:?}", block.kind));
        }
        if block.has_headers() {
            return Err("no PEM block headers are permitted".to_owned());
        }
        X509Certificate::from_der(der).map_err(|error| format!("x509: malformed certificate: {error}"))?;
    }
    Ok(())
}

/// Checks that a text is one PEM block with a certificate request that its own key has signed.
fn check(pem: &[u8]) -> Result<(), String> {
    let der = unwrapped(pem).ok_or_else(|| format!("PEM block type must be {TYPE}"))?;
    let (rest, request) = X509CertificationRequest::from_der(&der)
        .map_err(|error| format!("asn1: structure error: {error}"))?;
    if !rest.is_empty() {
        return Err("asn1: syntax error: trailing data".to_owned());
    }
    match request.verify_signature() {
        // A signature with an unknown algorithm is left to the signer.
        Ok(()) | Err(X509Error::SignatureUnsupportedAlgorithm) => Ok(()),
        Err(_) if has_short_key(&request) => Ok(()),
        Err(_) => Err("x509: the signature of the request is not that of its key".to_owned()),
    }
}

fn has_short_key(request: &X509CertificationRequest<'_>) -> bool {
    let key = request.certification_request_info.subject_pki.parsed();
    matches!(key, Ok(PublicKey::RSA(key)) if SHORT_RSA_BITS.contains(&key.key_size()))
}

/// The contents of the first PEM block, if that is a request.
fn unwrapped(pem: &[u8]) -> Option<Vec<u8>> {
    let text = String::from_utf8_lossy(pem);
    let first = blocks(&text).into_iter().next()?;
    first.bytes().filter(|_| first.kind == TYPE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: &str = "-----BEGIN CERTIFICATE REQUEST-----
MIHIMHACAQAwDjEMMAoGA1UEAwwDYm9iMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcD
QgAEe3MNS27kA3Iu07FPIaeThmXRbn1/pUww7ulD3dWZmtUFMS//vzuthPBdHjrv
8Z5aSQaMOMn+NsQ+N4nW9o04EqAAMAoGCCqGSM49BAMCA0gAMEUCIBefjrYonNu8
uIuntRU8DNVD2TQ6BgZnVOrQTWsjR6tnAiEAqJZUi65kI+rMNnNczm4a6cWRUQPA
bYF/a6jbm8IeRd4=
-----END CERTIFICATE REQUEST-----
";

    /// Anything between the right two lines was stored, and a signature of another key as well.
    #[test]
    fn a_request_can_be_read_and_is_signed_with_its_key() {
        assert_eq!(check(REQUEST.as_bytes()), Ok(()));
        let other_name = REQUEST.replace("AwwDYm9i", "AwwDYm9j");
        let cut = REQUEST.replace("MIHIMHACAQAwDjEMMAoGA1UEAwwDYm9iMFkw", "MIHI");
        let other_type = REQUEST.replace("CERTIFICATE REQUEST", "CERTIFICATE");
        for wrong in [other_name.as_str(), &cut, &other_type, "", "-----BEGIN CERTIFICATE REQUEST-----"] {
            assert!(check(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
