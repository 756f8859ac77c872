//! Validation of APIServices.
//!
//! The name must be `version.group`, which makes it unique for a group and version without an index. The empty group is
//! the legacy `v1` API. The service behind an APIService is not contacted here; availability is a condition that the
//! server's aggregator writes.

use listwatch_wire::names::subdomain_errors;

use crate::field::Errors;
use crate::names;
use crate::rules::{At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] = checks![api_service_is_named_after_its_version];

/// The group and the version of a stored object can change only together with its name, and that cannot.
fn api_service_is_named_after_its_version(at: &At<'_>, errors: &mut Errors) {
    let (spec, path) = (at.value.at("spec"), at.path.child("spec"));
    let (group, version) = (spec.text("group"), spec.text("version"));
    let name = at.value.at("metadata").text("name");
    let expected = format!("{version}.{group}");
    if name != expected {
        let path = at.path.child("metadata");
        let detail = format!("must be `spec.version+\".\"+spec.group`: {expected:?}");
        errors.invalid(&path.child("name"), name, detail);
    }
    if !group.is_empty() {
        errors.invalid_all(&path.child("group"), group, subdomain_errors(group));
    } else if version != "v1" {
        errors.required(&path.child("group"), "only v1 may have an empty group and it better be legacy kube");
    }
    errors.invalid_all(&path.child("version"), version, names::label_1035_errors(version));
}
