//! Validation of Endpoints, EndpointSlices and ServiceCIDRs.
//!
//! The addresses of a slice must be of its `addressType`, and may not be unspecified, loopback or link-local, which
//! would lead a Service's traffic to the node itself. A ServiceCIDR holds one range per IP family; a second one may be
//! added later, but ranges never change, since addresses were allocated from them.

use std::net::IpAddr;

use listwatch_wire::json::Value;
use listwatch_wire::names::subdomain_errors;

use crate::field::Errors;
use crate::names::IP_ADDRESS;
use crate::rules::{self, At, Check, canonical_range};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] =
    checks![slice_addresses_fit_their_type, ranges_are_of_two_families];

/// Every address of every endpoint, up to a thousand of them: linear, and the most expensive check of a slice.
fn slice_addresses_fit_their_type(at: &At<'_>, errors: &mut Errors) {
    let kind = at.value.text("addressType");
    let endpoints = at.path.child("endpoints");
    for (index, endpoint) in at.value.list("endpoints").iter().enumerate() {
        let endpoint_path = endpoints.index(index);
        let path = endpoint_path.child("addresses");
        for (index, address) in endpoint.list("addresses").iter().filter_map(Value::as_str).enumerate() {
            let place = path.index(index);
            match (kind, address.parse::<IpAddr>()) {
                ("FQDN", _) => {
                    let form = subdomain_errors(address);
                    if form.is_empty() && !address.contains('.') {
                        let detail = "should be a domain with at least two segments separated by dots";
                        errors.invalid(&place, address, detail);
                    }
                    errors.invalid_all(&place, address, form);
                }
                ("IPv4" | "IPv6", Err(_)) => errors.invalid(&place, address, IP_ADDRESS),
                ("IPv4" | "IPv6", Ok(ip)) => {
                    if ip.is_ipv4() != (kind == "IPv4") {
                        errors.invalid(&path, address, format!("must be an {kind} address"));
                    }
                    errors.invalid_all(&place, address, rules::unreachable(ip, address));
                }
                _ => {}
            }
        }
    }
}

/// Of a stored object the ranges themselves may not change, and nothing else is looked at then.
fn ranges_are_of_two_families(at: &At<'_>, errors: &mut Errors) {
    let ranges = at.value.as_array().map(Vec::as_slice).unwrap_or_default();
    match at.old.and_then(Value::as_array).map(Vec::as_slice) {
        // A second range may be added later.
        Some([first]) if ranges.len() == 2 => {
            if let Some(now) = ranges.first().filter(|now| *now != first) {
                errors.invalid(&at.path.index(0), now.clone(), "field is immutable");
            }
        }
        Some(before) if before.len() == ranges.len() => {
            for (index, (new, old)) in ranges.iter().zip(before).enumerate() {
                errors.immutable(&at.path.index(index), new, old);
            }
            return;
        }
        Some(_) => {
            errors.invalid(at.path, at.value.clone(), "field is immutable");
            return;
        }
        None => {}
    }
    if ranges.len() > 2 {
        errors.invalid(at.path, at.parent.clone(), "may only hold up to 2 values");
        return;
    }
    for (index, range) in ranges.iter().enumerate() {
        let text = range.as_str().unwrap_or_default();
        errors.invalid_all(&at.path.index(index), text, canonical_range(text));
    }
    let family = |range: &Value| {
        let (address, _) = range.as_str()?.split_once('/')?;
        address.parse::<IpAddr>().ok().map(|address| address.is_ipv4())
    };
    if let [first, second] = ranges
        && family(first).is_some()
        && family(first) == family(second)
    {
        let detail =
            "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        errors.invalid(at.path, at.value.clone(), detail);
    }
}
