//! Validation of APIServices.
//!
//! The name must be `version.group`, which makes it unique for a group and version without an index. The empty group is
//! the legacy `v1` API. The service behind an APIService is not contacted here; availability is a condition that the
//! server's aggregator writes.

use crate::field::Errors;
use crate::rules::{At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] = checks![api_service_is_named_after_its_version];

/// The group and the version of a stored object can change only together with its name, and that cannot.
fn api_service_is_named_after_its_version(at: &At<'_>, errors: &mut Errors) {
    let (spec, name) = (at.value.at("spec"), at.value.at("metadata").text("name"));
    let expected = format!("{}.{}", spec.text("version"), spec.text("group"));
    if name != expected {
        let detail = format!("must be `spec.version+\".\"+spec.group`: {expected:?}");
        errors.invalid(&at.path.child("metadata.name"), name, detail);
    }
}
