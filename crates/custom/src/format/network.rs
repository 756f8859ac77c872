//! Formats of addresses and host names.
//!
//! Addresses are read as Go read them before 1.17: numbers may begin with zeros.

use std::net::Ipv6Addr;
use std::sync::LazyLock;

use regex::Regex;

use super::MAX_LABEL;

/// The longest host name.
const MAX_HOSTNAME: usize = 255;

/// The characters of a host name besides dashes and dots: letters and symbols of all scripts, digits of ASCII.
static NAME: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^[a-zA-Z0-9\p{S}\p{L}-]*$").ok());
/// A top-level domain, which is at least two letters.
static TOP_LEVEL: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{L}{2,}$").ok());

/// An IPv6 address that is written with dots at its end counts, too.
pub(super) fn is_ipv4(text: &str) -> bool {
    is_dotted(text) || (text.contains('.') && text.parse::<Ipv6Addr>().is_ok())
}

fn is_dotted(text: &str) -> bool {
    text.split('.').count() == 4 && text.split('.').all(|part| number(part).is_some_and(|part| part <= 255))
}

/// A decimal number without a sign. Zeros in front do not count.
fn number(text: &str) -> Option<u32> {
    let digits = text.trim_start_matches('0');
    let shaped = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    shaped.then(|| if digits.is_empty() { Some(0) } else { digits.parse().ok() }).flatten()
}

/// Host bits may be set, unlike in fields of built-in kinds.
pub(super) fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let bits = number(bits).unwrap_or(u32::MAX);
    (is_dotted(address) && bits <= 32) || (address.parse::<Ipv6Addr>().is_ok() && bits <= 128)
}

/// 6, 8 or 20 octets, separated by colons or by dashes, or in pairs by dots.
pub(super) fn is_mac(text: &str) -> bool {
    let (sign, digits) = match text.bytes().find(|b| matches!(b, b':' | b'-' | b'.')) {
        Some(b'.') => ('.', 4),
        Some(sign) => (char::from(sign), 2),
        None => return false,
    };
    let mut parts = text.split(sign);
    matches!(text.split(sign).count() * digits / 2, 6 | 8 | 20)
        && parts.all(|part| part.len() == digits && part.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// A name without dots, or labels and a top-level domain. A single name may have a dash after its first character only,
/// as kube-openapi has it.
pub(super) fn is_hostname(text: &str) -> bool {
    let named = |text: &str| NAME.as_ref().is_some_and(|regex| regex.is_match(text));
    if text.len() > MAX_HOSTNAME || text.split('.').any(|label| label.len() > MAX_LABEL) {
        return false;
    }
    let Some((labels, top)) = text.rsplit_once('.') else {
        let mut rest = text.chars();
        let first = rest.next();
        let tail = rest.as_str().strip_prefix('-').unwrap_or(rest.as_str());
        return first.is_some_and(|first| first != '-') && named(text) && !tail.contains('-');
    };
    let label =
        |label: &str| !label.is_empty() && !label.starts_with('-') && !label.ends_with('-') && named(label);
    labels.split('.').all(label) && TOP_LEVEL.as_ref().is_some_and(|regex| regex.is_match(top))
}
