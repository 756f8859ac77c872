//! Validation of ClusterTrustBundles: certificates of authorities in PEM.
//!
//! Certificates are parsed and otherwise not verified, since each of them is an anchor of trust by itself. The names of
//! bundles are checked in `object_name`.

use std::collections::HashMap;

use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use crate::field::Errors;
use crate::pem::{PemBlock, blocks};
use crate::rules::{At, Check};

pub(super) const CHECKS: &[(&str, Check)] = checks![bundle_is_made_of_anchors];

/// Bytes of a bundle, as in kube-apiserver.
const MAX_BUNDLE: usize = 1024 * 1024;

/// Each block is the certificate of an authority, and none is there twice.
fn bundle_is_made_of_anchors(at: &At<'_>, errors: &mut Errors) {
    let text = at.value.as_str().unwrap_or_default();
    if text.len() > MAX_BUNDLE {
        errors.too_long(at.path, MAX_BUNDLE);
        return;
    }
    let (mut places, mut wrong): (HashMap<Vec<u8>, Vec<usize>>, _) = (HashMap::new(), Vec::new());
    for (index, block) in blocks(text).into_iter().enumerate() {
        match anchor(&block) {
            Ok(der) => places.entry(der).or_default().push(index),
            Err(why) => wrong.push(format!("entry {index} {why}")),
        }
    }
    if wrong.is_empty() {
        if places.is_empty() {
            wrong.push("at least one trust anchor must be provided".to_owned());
        }
        let mut repeated: Vec<_> = places.into_values().filter(|indexes| indexes.len() > 1).collect();
        repeated.sort();
        for indexes in repeated {
            let listed: Vec<String> = indexes.iter().map(usize::to_string).collect();
            wrong.push(format!("duplicate trust anchor (indices [{}])", listed.join(" ")));
        }
    }
    errors.invalid_all(at.path, "<value omitted>", wrong);
}

/// The bytes of the certificate, or the error of the block.
fn anchor(block: &PemBlock<'_>) -> Result<Vec<u8>, String> {
    if block.kind != "CERTIFICATE" {
        return Err(format!("has bad block type: {}", block.kind));
    }
    if block.has_headers() {
        return Err("has PEM block headers".to_owned());
    }
    let unreadable = || "does not parse as X.509".to_owned();
    let der = block.bytes().ok_or_else(unreadable)?;
    let (_, certificate) = X509Certificate::from_der(&der).map_err(|_| unreadable())?;
    let is_authority = certificate
        .basic_constraints()
        .is_ok_and(|found| found.is_some_and(|constraints| constraints.value.ca));
    if !is_authority {
        return Err("does not have the CA bit set".to_owned());
    }
    Ok(der)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text between the right two lines is not yet a certificate.
    #[test]
    fn errors_of_pem_blocks_name_the_block() {
        let told =
            |text: &str| -> Vec<_> { blocks(text).iter().map(|block| anchor(block).unwrap_err()).collect() };
        let block =
            |kind: &str, body: &str| format!("-----BEGIN {kind}-----\n{body}\n-----END {kind}-----\n");
        let text =
            [block("X", "AA=="), block("CERTIFICATE", "A: b\n\nAA=="), block("CERTIFICATE", "AA==")].concat();
        assert_eq!(
            told(&text),
            ["has bad block type: X", "has PEM block headers", "does not parse as X.509"]
        );
    }
}
