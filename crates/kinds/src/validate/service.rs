//! Services: source ranges in an annotation.

use listwatch_wire::json::Value;

use crate::field::Errors;
use crate::names;
use crate::rules::{At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] = checks![ranges_are_cidrs];

pub(super) fn is_headless(spec: &Value) -> bool {
    spec.list("clusterIPs") == [Value::from("None")]
}

/// The annotation that was the field `loadBalancerSourceRanges` once.
fn ranges_are_cidrs(at: &At<'_>, errors: &mut Errors) {
    let ranges = at.value.as_str().unwrap_or_default().trim();
    for range in ranges.split(',').map(str::trim).filter(|_| !ranges.is_empty()) {
        if !names::is_cidr(range) {
            errors.invalid(at.path, range, names::CIDR);
        }
    }
}
