//! Validation of NetworkPolicies: port ranges and address blocks.
//!
//! `endPort` only has a meaning beside a numeric `port`, and exceptions must be strict subsets of their block.
//! Selectors and names of peers are rows of the tables in `rules`. Nothing enforces a policy in this project; that is
//! the network plugin's.

use listwatch_wire::json::Value;

use crate::field::Errors;
use crate::names;
use crate::rules::{At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] = checks![port_range_is_ascending, exceptions_are_inside];

/// The bounds of single ports are rows of the tables; here is what compares two fields.
fn port_range_is_ascending(at: &At<'_>, errors: &mut Errors) {
    let Some(end) = at.value.int("endPort") else { return };
    let path = at.path.child("endPort");
    match at.value.at("port") {
        Value::Null => errors.invalid(&path, end, "may not be specified when `port` is not specified"),
        Value::String(_) => errors.invalid(&path, end, "may not be specified when `port` is non-numeric"),
        number => {
            if end < number.as_i64().unwrap_or(0) {
                errors.invalid(&path, end, "must be greater than or equal to `port`");
            }
            if !(1..=65_535).contains(&end) {
                errors.invalid(&path, end, "must be between 1 and 65535, inclusive");
            }
        }
    }
}

/// An invalid block is reported elsewhere, and its exceptions cannot be judged then.
fn exceptions_are_inside(at: &At<'_>, errors: &mut Errors) {
    let (cidr, path) = (at.value.text("cidr"), at.path.child("except"));
    if !names::is_cidr(cidr) {
        return;
    }
    for (index, except) in at.value.list("except").iter().filter_map(Value::as_str).enumerate() {
        if !names::is_cidr(except) {
            errors.invalid(&path.index(index), except, names::CIDR);
        } else if !names::is_strict_subset(except, cidr) {
            errors.invalid(&path.index(index), except, "must be a strict subset of `cidr`");
        }
    }
}
