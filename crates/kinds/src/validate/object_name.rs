//! Names that follow from other fields of an object: of APIServices, trust bundles, indexed Jobs and Pods with ephemeral volumes.
//!
//! The form of a name by itself is the kind's (`name_rule`, see [`crate::meta`]). The prefix of a ClusterTrustBundle is
//! what RBAC can be written against: a user who may write the bundles of one signer must not be able to write those of
//! another.

use listwatch_wire::names::{label_errors, subdomain_errors};

use super::each;
use crate::field::Errors;
use crate::rules::{At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] = checks![
    api_service_is_named_after_its_version,
    bundle_is_named_after_its_signer,
    claims_of_volumes_have_names,
    indexed_name_fits
];

/// `version.group` is unique for a group and version without an index. The group and the version of a stored object can change
/// only together with its name, and that cannot.
fn api_service_is_named_after_its_version(at: &At<'_>, errors: &mut Errors) {
    let (spec, name) = (at.value.at("spec"), at.value.at("metadata").text("name"));
    let expected = format!("{}.{}", spec.text("version"), spec.text("group"));
    if name != expected {
        let detail = format!("must be `spec.version+\".\"+spec.group`: {expected:?}");
        errors.invalid(&at.path.child("metadata.name"), name, detail);
    }
}

/// The bundles of the signer `example.com/signer` are named `example.com:signer:NAME`.
fn bundle_is_named_after_its_signer(at: &At<'_>, errors: &mut Errors) {
    let (name, signer) = (at.value.at("metadata").text("name"), at.value.at("spec").text("signerName"));
    let prefix = format!("{}:", signer.replace('/', ":"));
    let found = match name.strip_prefix(&prefix) {
        _ if name.is_empty() => return,
        Some(rest) => subdomain_errors(rest),
        None => {
            vec![format!("ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}")]
        }
    };
    errors.invalid_all(&at.path.child("metadata.name"), name, found);
}

/// The claim of an ephemeral volume is named after the Pod and the volume.
fn claims_of_volumes_have_names(at: &At<'_>, errors: &mut Errors) {
    let pod = at.value.at("metadata").text("name");
    each(at.value.at("spec"), "volumes", &at.path.child("spec"), |volume, path| {
        let name = volume.text("name");
        if !pod.is_empty() && !name.is_empty() && volume.has("ephemeral") {
            let claim = format!("{pod}-{name}");
            let found = subdomain_errors(&claim).into_iter().map(|why| format!("PVC name {claim:?}: {why}"));
            errors.invalid_all(&path.child("name"), name, found);
        }
    });
}

/// The Pods of an indexed Job are named after it and their index. The last index is the longest, so it is the one that is tried.
fn indexed_name_fits(at: &At<'_>, errors: &mut Errors) {
    let (spec, name) = (at.value.at("spec"), at.value.at("metadata").text("name"));
    let Some(last) = spec.int("completions").filter(|count| *count > 0) else { return };
    let pod = format!("{name}-{}", last - 1);
    if spec.text("completionMode") == "Indexed" && !label_errors(&pod).is_empty() {
        let detail = format!("will not able to create pod with invalid DNS label: {pod}");
        errors.invalid(&at.path.child("metadata.name"), name, detail);
    }
}
