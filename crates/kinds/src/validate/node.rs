//! Nodes: amounts, ranges of addresses and features.
//!
//! Nodes are written by kubelets, so these rules are mostly about their status. What a kubelet may change of its own
//! Node is not validation but the NodeRestriction plugin of the server. Taints and addresses are rows of the tables.

use listwatch_wire::json::Value;

use super::resources;
use crate::field::Errors;
use crate::names;
use crate::rules::{At, Check};

pub(super) const CHECKS: &[(&str, Check)] =
    checks![node_amounts_are_countable, two_ranges_are_of_two_families, features_are_sorted];

/// Amounts of resources in the status of a node. kube-apiserver reports them like fields.
fn node_amounts_are_countable(at: &At<'_>, errors: &mut Errors) {
    for (name, amount) in at.value.as_object().into_iter().flatten() {
        resources::amount(name, amount, &at.path.child(name), errors);
    }
}

/// Two ranges must be of different families, and there can be no third. A single one is checked by the tables.
fn two_ranges_are_of_two_families(at: &At<'_>, errors: &mut Errors) {
    let ranges: Vec<&str> = at.value.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let is_v6 = |range: &str| range.contains(':');
    let dual = matches!(ranges.as_slice(), [first, second] if is_v6(first) != is_v6(second));
    if ranges.len() < 2 {
        return;
    }
    if let Some((index, wrong)) = ranges.iter().enumerate().find(|(_, range)| !names::is_cidr(range)) {
        let detail = format!(
            "invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[{index}]: <nil> (invalid CIDR address: {wrong})"
        );
        errors.internal(at.path, detail);
    }
    if !dual {
        let detail = "may specify no more than one CIDR for each IP family";
        errors.invalid(at.path, at.value.clone(), detail);
    }
}

/// Sorted and without repetitions, so that comparing two nodes needs no set.
fn features_are_sorted(at: &At<'_>, errors: &mut Errors) {
    let features: Vec<&str> = at.value.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (index, pair) in (1..).zip(features.windows(2)) {
        match pair {
            [first, second] if first == second => errors.duplicate(&at.path.index(index), *second),
            [first, second] if first > second => {
                errors.invalid(&at.path.index(index), *second, "list must be sorted alphabetically");
            }
            _ => {}
        }
    }
}
