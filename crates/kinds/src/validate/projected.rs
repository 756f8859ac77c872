//! Validation of projected volumes: several sources write files into one directory.
//!
//! Two sources must not write the same path; only paths that the spec names are compared, since the keys of a ConfigMap
//! or Secret are not known here. kube-apiserver reports errors about the path of a service account token at the volume
//! instead of at its source, and so does this.

use std::collections::HashSet;

use listwatch_wire::json::Value;

use crate::field::Errors;
use crate::rules::{self, At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] = checks![projected_paths_are_unique];

/// Paths of files must be unique; kube-apiserver reports the path of a token at the volume.
fn projected_paths_are_unique(at: &At<'_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for source in at.value.list("sources") {
        let token = source.at("serviceAccountToken");
        if !token.is_null() {
            token_path(token.text("path"), at, errors);
        }
        for path in paths(source).into_iter().filter(|path| !path.is_empty()) {
            if !seen.insert(path) {
                errors.invalid(at.path, path, "conflicting duplicate paths");
            }
        }
    }
}

/// A token must be named: a volume has no default file for it.
fn token_path(place: &str, at: &At<'_>, errors: &mut Errors) {
    let path = at.path.child("path");
    if place.is_empty() {
        errors.required(&path, "");
        return;
    }
    for form in ["relative-path", "no-leading-dots"] {
        errors.invalid_all(&path, place, rules::form_errors(form, place));
    }
}

/// Paths of all kinds of sources that are written in the spec. Empty ones mean that the whole source is projected.
fn paths(source: &Value) -> Vec<&str> {
    let listed = ["secret", "configMap", "downwardAPI"].into_iter();
    let mut paths: Vec<&str> =
        listed.flat_map(|key| source.at(key).list("items")).map(|item| item.text("path")).collect();
    paths.push(source.at("clusterTrustBundle").text("path"));
    let certificate = source.at("podCertificate");
    paths
        .extend(["credentialBundlePath", "keyPath", "certificateChainPath"].map(|key| certificate.text(key)));
    paths
}
