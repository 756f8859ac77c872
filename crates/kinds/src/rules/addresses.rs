//! Text forms of IP addresses and CIDRs that the rule tables name.
//!
//! Kubernetes has several degrees of strictness, grown over time: any spelling, canonical only, or reachable from
//! elsewhere (neither loopback, link-local nor unspecified). Each is a form of its own, with the message of
//! kube-apiserver. Legacy spellings stay accepted where stored objects have them.

use std::net::IpAddr;

use super::forms::told;
use crate::names::{self, IP_ADDRESS};

/// An address in any of its spellings.
pub(super) fn ip(text: &str) -> Vec<String> {
    told(text.parse::<IpAddr>().is_err(), IP_ADDRESS)
}

/// An address that leads to one machine, wherever it is used from.
pub(super) fn reachable_ip(text: &str) -> Vec<String> {
    match text.parse::<IpAddr>() {
        Err(_) => told(true, IP_ADDRESS),
        Ok(address) => unreachable(address, text),
    }
}

/// The same for endpoints, whose form and reach kube-apiserver checks one by one.
pub(super) fn endpoint_ip(text: &str) -> Vec<String> {
    match text.parse::<IpAddr>() {
        Err(_) => vec![IP_ADDRESS.to_owned(), "must be a valid IP address".to_owned()],
        Ok(address) => unreachable(address, text),
    }
}

/// Reasons for which an address names no machine in particular: unspecified, loopback, link-local.
pub(crate) fn unreachable(address: IpAddr, text: &str) -> Vec<String> {
    let (link_local, link_multicast) = match address {
        IpAddr::V4(v4) => {
            let [a, b, c, _] = v4.octets();
            (v4.is_link_local(), (a, b, c) == (224, 0, 0))
        }
        IpAddr::V6(v6) => {
            let [first, ..] = v6.segments();
            (first & 0xffc0 == 0xfe80, first & 0xff0f == 0xff02)
        }
    };
    let mut found = told(address.is_unspecified(), &format!("may not be unspecified ({text})"));
    found.extend(told(address.is_loopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)"));
    found.extend(told(link_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"));
    found.extend(told(
        link_multicast,
        "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)",
    ));
    found
}

/// A range as the server itself would write it.
pub(crate) fn canonical_cidr(text: &str) -> Vec<String> {
    if !names::is_cidr(text) {
        return told(true, names::CIDR);
    }
    let canonical = names::canonical_cidr(text);
    told(canonical != text, &format!("must be in canonical form (\"{canonical}\")"))
}

/// An address with the length of its network's prefix, as an interface has it.
pub(super) fn interface(text: &str) -> Vec<String> {
    let detail = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)";
    told(!names::is_cidr(text), detail)
}

/// A range without bits beyond its length.
pub(super) fn cidr(text: &str) -> Vec<String> {
    if !names::is_cidr(text) {
        return told(true, names::CIDR);
    }
    let canonical = names::canonical_cidr(text);
    let address = |text: &str| text.split_once('/').and_then(|(address, _)| address.parse::<IpAddr>().ok());
    told(address(&canonical) != address(text), "must not have bits set beyond the prefix length")
}
