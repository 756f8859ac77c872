//! Text forms of IP addresses and CIDRs that the rule tables name.
//!
//! Kubernetes has several degrees of strictness, grown over time: any spelling, canonical only, or reachable from
//! elsewhere (neither loopback, link-local nor unspecified). Each is a form of its own, with the message of
//! kube-apiserver. Legacy spellings stay accepted where stored objects have them.

use std::net::IpAddr;

use super::form_checks::error_if;
use crate::names::{self, IP_ADDRESS};

/// An address in any of its spellings but one: an IPv4 address written as IPv6 is another address for some of its readers.
pub(crate) fn ip(text: &str) -> Vec<String> {
    match text.parse::<IpAddr>() {
        Err(_) if has_leading_zeros(text) => error_if(true, "must not have leading 0s"),
        Err(_) => error_if(true, IP_ADDRESS),
        Ok(address) => error_if(is_mapped(address), MAPPED),
    }
}

/// Returns true for an IPv4 address that only leading zeros keep from being one. Some readers take such numbers for octal.
fn has_leading_zeros(text: &str) -> bool {
    without_zeros(text).parse::<std::net::Ipv4Addr>().is_ok()
}

/// The text without the leading zeros of its numbers between dots.
fn without_zeros(text: &str) -> String {
    let short = |number: &str| match number.trim_start_matches('0') {
        "" if !number.is_empty() => "0".to_owned(),
        digits => digits.to_owned(),
    };
    text.split('.').map(short).collect::<Vec<_>>().join(".")
}

/// An address as the server itself would write it.
pub(crate) fn canonical_ip(text: &str) -> Vec<String> {
    let found = ip(text);
    if found.is_empty() { names::ip_address(text) } else { found }
}

const MAPPED: &str = "must not be an IPv4-mapped IPv6 address";

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some())
}

/// An address that leads to one machine, wherever it is used from.
pub(super) fn reachable_ip(text: &str) -> Vec<String> {
    match text.parse::<IpAddr>() {
        Ok(address) if !is_mapped(address) => unreachable(address, text),
        _ => ip(text),
    }
}

/// The errors of an address of an endpoint, for which kube-apiserver checks form and reach one after the other.
pub(super) fn endpoint_ip(text: &str) -> Vec<String> {
    match text.parse::<IpAddr>() {
        Err(_) if has_leading_zeros(text) => ip(text),
        Err(_) => vec![IP_ADDRESS.to_owned(), "must be a valid IP address".to_owned()],
        Ok(address) => {
            let mut found = ip(text);
            found.extend(unreachable(address, text));
            found
        }
    }
}

/// Reasons for which an address names no machine in particular: unspecified, loopback, link-local.
pub(crate) fn unreachable(address: IpAddr, text: &str) -> Vec<String> {
    let address = address.to_canonical();
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
    let mut found = error_if(address.is_unspecified(), &format!("may not be unspecified ({text})"));
    found.extend(error_if(address.is_loopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)"));
    found.extend(error_if(link_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"));
    found.extend(error_if(
        link_multicast,
        "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)",
    ));
    found
}

/// A range as the server itself would write it.
pub(crate) fn canonical_cidr(text: &str) -> Vec<String> {
    let found = cidr(text);
    if !found.is_empty() {
        return found;
    }
    let canonical = names::canonical_cidr(text);
    error_if(canonical != text, &format!("must be in canonical form (\"{canonical}\")"))
}

/// An address with the length of its network's prefix, as an interface has it, in the spelling of the server.
pub(super) fn interface(text: &str) -> Vec<String> {
    let sloppy = without_zeros_of_range(text);
    let parsed = sloppy.split_once('/').filter(|_| names::is_cidr(&sloppy));
    let Some((address, length)) = parsed.and_then(|(a, l)| Some((a.parse::<IpAddr>().ok()?, l))) else {
        return error_if(true, "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)");
    };
    let canonical = format!("{address}/{length}");
    error_if(canonical != text, &format!("must be in canonical form (\"{canonical}\")"))
}

/// A range without the leading zeros of an IPv4 address and of the length.
fn without_zeros_of_range(text: &str) -> String {
    let Some((address, length)) = text.split_once('/') else { return text.to_owned() };
    let address = if has_leading_zeros(address) { without_zeros(address) } else { address.to_owned() };
    format!("{address}/{}", without_zeros(length))
}

/// A range without bits beyond its length.
pub(super) fn cidr(text: &str) -> Vec<String> {
    let address = |text: &str| text.split_once('/').and_then(|(address, _)| address.parse::<IpAddr>().ok());
    let sloppy = without_zeros_of_range(text);
    if sloppy != text && names::is_cidr(&sloppy) {
        return error_if(true, "must not have leading 0s in IP or prefix length");
    }
    if !names::is_cidr(text) {
        return error_if(true, names::CIDR);
    }
    if address(text).is_some_and(is_mapped) {
        return error_if(true, "must not have an IPv4-mapped IPv6 address");
    }
    let canonical = names::canonical_cidr(text);
    error_if(address(&canonical) != address(text), "must not have bits set beyond the prefix length")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_written_one_way() {
        assert_eq!(cidr("10.1.0.0/24"), [""; 0]);
        assert_eq!(cidr("010.1.0.0/24"), ["must not have leading 0s in IP or prefix length"]);
        assert_eq!(cidr("10.1.0.0/024"), ["must not have leading 0s in IP or prefix length"]);
        assert_eq!(cidr("10.1.0.0/33"), [names::CIDR]);
        assert_eq!(interface("fd00::0001/64"), ["must be in canonical form (\"fd00::1/64\")"]);
        assert_eq!(interface("10.1.0.5/24"), [""; 0]);
        assert_eq!(interface("10.1.0.5").len(), 1);
        assert_eq!(cidr("::ffff:10.1.0.0/120"), ["must not have an IPv4-mapped IPv6 address"]);
        assert_eq!(canonical_cidr("10.1.0.5/24"), ["must not have bits set beyond the prefix length"]);
        assert_eq!(canonical_cidr("FD00::/64"), ["must be in canonical form (\"fd00::/64\")"]);
    }

    /// `::ffff:127.0.0.1` was taken for an address of another machine.
    #[test]
    fn an_address_of_this_machine_has_several_spellings() {
        let loopback = "may not be in the loopback range (127.0.0.0/8, ::1/128)";
        assert_eq!(endpoint_ip("127.0.0.1"), [loopback]);
        assert_eq!(endpoint_ip("::ffff:127.0.0.1"), [MAPPED, loopback]);
        assert_eq!(reachable_ip("::ffff:10.0.0.1"), [MAPPED]);
        assert_eq!(ip("::ffff:10.0.0.1"), [MAPPED]);
        assert_eq!(canonical_ip("2001:DB8::1"), ["must be in canonical form (\"2001:db8::1\")"]);
        for form in [ip, reachable_ip, endpoint_ip, canonical_ip] {
            assert_eq!(form("010.0.0.1"), ["must not have leading 0s"]);
        }
        assert_eq!(ip("10.0.0.256"), [IP_ADDRESS]);
        assert!(
            endpoint_ip("2001:db8::1").is_empty()
                && reachable_ip("10.0.0.1").is_empty()
                && ip("::1").is_empty()
        );
    }
}
