//! Validation of NetworkPolicies: exceptions must be strict subsets of their block of addresses.
//!
//! Ports, selectors and names of peers are rows of the tables in `rules`. Nothing enforces a policy in this project; that is
//! the network plugin's.

use listwatch_wire::json::Value;

use crate::field::Errors;
use crate::names;
use crate::rules::{At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] = checks![exceptions_are_inside];

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
