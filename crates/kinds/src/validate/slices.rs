//! Validation of Endpoints, EndpointSlices and ServiceCIDRs.
//!
//! The addresses of a slice must be of its `addressType`, and may not be unspecified, loopback or link-local, which
//! would lead a Service's traffic to the node itself. A ServiceCIDR holds one range per IP family; a second one may be
//! added later, but ranges never change, since addresses were allocated from them.

use std::net::IpAddr;

use listwatch_wire::json::Value;

use super::each;
use crate::field::Errors;
use crate::rules::{self, At, Check, canonical_range};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] =
    checks![slice_addresses_fit_their_type, ranges_are_of_two_families];

/// Every address of every endpoint, up to a thousand of them: linear, and the most expensive check of a slice.
fn slice_addresses_fit_their_type(at: &At<'_>, errors: &mut Errors) {
    let kind = at.value.text("addressType");
    each(at.value, "endpoints", at.path, |endpoint, path| {
        let list = path.child("addresses");
        each(endpoint, "addresses", path, |address, path| {
            let address = address.as_str().unwrap_or_default();
            let malformed = rules::canonical_ip(address);
            let Some(ip) = address.parse::<IpAddr>().ok().filter(|_| malformed.is_empty()) else {
                return errors.invalid_all(path, address, malformed);
            };
            if ip.is_ipv4() != (kind == "IPv4") {
                errors.invalid(&list, address, format!("must be an {kind} address"));
            }
            errors.invalid_all(path, address, rules::unreachable(ip, address));
        });
    });
}

/// At most one range per IP family. Ranges of a stored object are immutable; an update may only add a second one.
fn ranges_are_of_two_families(at: &At<'_>, errors: &mut Errors) {
    let ranges = at.value.as_array().map(Vec::as_slice).unwrap_or_default();
    if let Some(before) = at.old.and_then(Value::as_array)
        && !adds_a_range(at, before, ranges, errors)
    {
        return;
    }
    if ranges.len() > 2 {
        return errors.invalid(at.path, at.parent.clone(), "may only hold up to 2 values");
    }
    for (index, range) in ranges.iter().enumerate() {
        let text = range.as_str().unwrap_or_default();
        errors.invalid_all(&at.path.index(index), text, canonical_range(text));
    }
    if let [first, second] = ranges
        && is_ipv4(first).is_some()
        && is_ipv4(first) == is_ipv4(second)
    {
        let detail =
            "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        errors.invalid(at.path, at.value.clone(), detail);
    }
}

/// Reports changed ranges. Returns true if the update adds a second range, which is checked like a new one.
fn adds_a_range(at: &At<'_>, before: &[Value], ranges: &[Value], errors: &mut Errors) -> bool {
    match (before, ranges) {
        ([old], [new, _]) => {
            if new != old {
                errors.invalid(&at.path.index(0), new.clone(), "field is immutable");
            }
            return true;
        }
        _ if before.len() == ranges.len() => {
            for (index, (new, old)) in ranges.iter().zip(before).enumerate() {
                errors.immutable(&at.path.index(index), new, old);
            }
        }
        _ => errors.invalid(at.path, at.value.clone(), "field is immutable"),
    }
    false
}

/// The family of a range; `None` for text that is not a range.
fn is_ipv4(range: &Value) -> Option<bool> {
    let (address, _) = range.as_str()?.split_once('/')?;
    address.parse::<IpAddr>().ok().map(|address| address.is_ipv4())
}
