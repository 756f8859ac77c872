//! Validation of projected volumes: several sources write files into one directory.
//!
//! Two sources must not write the same path; only paths that the spec names are compared, since the keys of a ConfigMap
//! or Secret are not known here. kube-apiserver reports errors about the path of a service account token at the volume
//! instead of at its source, and so does this.

use std::collections::HashSet;

use listwatch_wire::json::Value;

use super::{checks, container};
use crate::field::Errors;
use crate::rules::{At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] = checks![
    projected_paths_are_unique,
    projection_has_one_source,
    trust_bundle_is_named,
    certificate_is_written_somewhere,
];

/// Each file has a path of its own, and kube-apiserver reports the path of a token at the volume.
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

fn token_path(place: &str, at: &At<'_>, errors: &mut Errors) {
    let path = at.path.child("path");
    if place.is_empty() {
        errors.required(&path, "");
        return;
    }
    container::descending(place, &path, errors);
    if place.starts_with("..") && !place.starts_with("../") {
        errors.invalid(&path, place, "must not start with '..'");
    }
}

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

fn projection_has_one_source(at: &At<'_>, errors: &mut Errors) {
    if at.value.fields().into_iter().flatten().filter(|(_, source)| !source.is_null()).count() > 1 {
        errors.forbidden(at.path, "may not specify more than 1 volume type per source");
    }
}

fn trust_bundle_is_named(at: &At<'_>, errors: &mut Errors) {
    match (at.value.has("name"), at.value.has("signerName")) {
        (true, true) => {
            errors.invalid(at.path, at.value.clone(), "only one of name and signerName may be used");
        }
        (false, false) => errors.required(at.path, "either name or signerName must be specified"),
        (true, false) if at.value.has("labelSelector") => {
            let detail = "labelSelector must be unset if name is specified";
            errors.invalid(&at.path.child("labelSelector"), at.value.at("labelSelector").clone(), detail);
        }
        _ => {}
    }
}

fn certificate_is_written_somewhere(at: &At<'_>, errors: &mut Errors) {
    let given = |key: &&str| !at.value.text(key).is_empty();
    if !["credentialBundlePath", "keyPath", "certificateChainPath"].iter().any(given) {
        let detail = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath";
        errors.required(at.path, detail);
    }
}
