//! Checks of the OpenAPI `format` of strings, such as `date-time`, `ipv4` or `uuid`.
//!
//! The list is that of go-openapi's default registry, which apiextensions-apiserver uses; a format that it does not
//! know is not checked, and neither is it here. The tests follow that registry and not the RFCs: an object must not be
//! refused here that kube-apiserver accepts. Regular expressions are compiled once, on first use. The named formats of
//! CEL (`format.dns1123Label()`) are other code with other rules, in `listwatch-cel`.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use regex::Regex;

/// Returns true if the text has the form; unknown and empty forms always fit.
///
/// Linear in the text. The regular expressions are constants, and the engine does not backtrack.
pub(crate) fn is_valid(format: &str, text: &str) -> bool {
    match format {
        "date-time" | "datetime" => DATE_TIME.as_ref().is_some_and(|regex| regex.is_match(text)),
        "date" => DATE.as_ref().is_some_and(|regex| regex.is_match(text)),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "uuid" => UUID.as_ref().is_some_and(|regex| regex.is_match(text)),
        "uuid3" => is_uuid(text, b'3', b"0123456789abcdef"),
        "uuid4" => is_uuid(text, b'4', b"89ab"),
        "uuid5" => is_uuid(text, b'5', b"89ab"),
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit()),
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "creditcard" => is_credit_card(text),
        "ssn" => SSN.as_ref().is_some_and(|regex| regex.is_match(text)),
        "hexcolor" => is_hex_color(text),
        "rgbcolor" => is_rgb_color(text),
        "email" => text.split_once('@').is_some_and(|(user, host)| !user.is_empty() && is_hostname(host)),
        "hostname" => is_hostname(text),
        "uri" => text.split_once(':').is_some_and(|(scheme, _)| is_scheme(scheme)) || text.starts_with('/'),
        "byte" => is_base64(text),
        "duration" => is_duration(text),
        _ => true,
    }
}

/// Lenient in its separators, as `strfmt` of go-openapi is: a blank for the `T`, a zone without a colon.
static DATE_TIME: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])[Tt ]([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?([Zz]|[+-]\d{2}:?\d{2})$").ok()
});
static DATE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$").ok());
/// Any version; dashes may be left out.
static UUID: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$").ok()
});
/// A duration as Go writes it.
static DURATION: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^[-+]?(0|((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)$").ok());
/// A number with a unit, anywhere in a text.
static AMOUNT_OF_TIME: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"(\d+)\s*([A-Za-zµ]+)").ok());

/// Units of time; a word that begins with the last of a row counts, too.
const UNITS: [&[&str]; 8] = [
    &["ns", "nano"],
    &["us", "µs", "micro"],
    &["ms", "milli"],
    &["s", "sec"],
    &["m", "min"],
    &["h", "hr", "hour"],
    &["d", "day"],
    &["w", "wk", "week"],
];

/// Besides what Go writes, any text in which something looks like an amount of time, as kube-apiserver reads it.
fn is_duration(text: &str) -> bool {
    if DURATION.as_ref().is_some_and(|regex| regex.is_match(text)) {
        return true;
    }
    let Some(amounts) = AMOUNT_OF_TIME.as_ref() else { return false };
    let mut units = amounts.captures_iter(text).filter_map(|found| found.get(2));
    units.any(|unit| {
        let unit = unit.as_str().to_lowercase();
        UNITS
            .iter()
            .any(|row| row.contains(&unit.as_str()) || row.last().is_some_and(|last| unit.starts_with(last)))
    })
}

static SSN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\d{3}[- ]?\d{2}[- ]?\d{4}$").ok());
/// The ranges of the large issuers; the checksum is not computed, as in govalidator.
static CARD: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^(?:4\d{12}(?:\d{3})?|5[1-5]\d{14}|(?:222[1-9]|22[3-9]\d|2[3-6]\d{2}|27[01]\d|2720)\d{12}|6(?:011|5\d\d)\d{12}|3[47]\d{13}|3(?:0[0-5]|[68]\d)\d{11}|(?:2131|1800|35\d{3})\d{11}|6[27]\d{14})$").ok()
});

/// A UUID of a version, with a variant among these digits.
fn is_uuid(text: &str, version: u8, variants: &[u8]) -> bool {
    let digits: Vec<u8> = text.bytes().filter(|b| *b != b'-').map(|b| b.to_ascii_lowercase()).collect();
    UUID.as_ref().is_some_and(|regex| regex.is_match(text))
        && digits.get(12) == Some(&version)
        && digits.get(16).is_some_and(|digit| variants.contains(digit))
}

fn digits_of_isbn(text: &str) -> Vec<u8> {
    text.bytes().filter(|b| !matches!(b, b'-' | b' ')).collect()
}

/// Ten digits, the last of which may be X for ten, whose weighted sum is a multiple of eleven.
fn is_isbn10(text: &str) -> bool {
    let digits = digits_of_isbn(text);
    let value = |(index, byte): (usize, &u8)| match byte {
        b'0'..=b'9' => Some(u32::from(byte - b'0') * (index as u32 + 1)),
        b'X' if index == 9 => Some(100),
        _ => None,
    };
    let sum: Option<u32> = digits.iter().enumerate().map(value).sum();
    digits.len() == 10 && sum.is_some_and(|sum| sum.is_multiple_of(11))
}

/// Thirteen digits, weighted with one and three, whose sum is a multiple of ten.
fn is_isbn13(text: &str) -> bool {
    let digits = digits_of_isbn(text);
    let value = |(index, byte): (usize, &u8)| {
        byte.is_ascii_digit().then(|| u32::from(byte - b'0') * if index % 2 == 0 { 1 } else { 3 })
    };
    let sum: Option<u32> = digits.iter().enumerate().map(value).sum();
    digits.len() == 13 && sum.is_some_and(|sum| sum.is_multiple_of(10))
}

/// The number of a card of a known issuer, with a valid check digit.
///
/// Anything but digits is ignored, so spaces and hyphens may separate them. The sum is Luhn's.
fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let value = |(index, byte): (usize, u8)| {
        let digit = u32::from(byte - b'0') * if index % 2 == 0 { 1 } else { 2 };
        if digit > 9 { digit - 9 } else { digit }
    };
    let sum: u32 = digits.bytes().rev().enumerate().map(value).sum();
    CARD.as_ref().is_some_and(|regex| regex.is_match(&digits)) && sum.is_multiple_of(10)
}

/// Three or six digits, with or without `#`.
fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && digits.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Three numbers up to 255 without leading zeros.
fn is_rgb_color(text: &str) -> bool {
    let inside = text.strip_prefix("rgb(").and_then(|rest| rest.strip_suffix(')'));
    let part = |part: &str| {
        let part = part.trim();
        part.parse::<u8>().is_ok() && (part == "0" || !part.starts_with(['0', '+']))
    };
    inside.is_some_and(|inside| inside.split(',').count() == 3 && inside.split(',').all(part))
}

/// Host bits may be set, unlike in fields of built-in kinds.
fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let bits: u8 = bits.parse().unwrap_or(u8::MAX);
    address.parse::<Ipv4Addr>().is_ok() && bits <= 32 || address.parse::<Ipv6Addr>().is_ok() && bits <= 128
}

/// Six octets, separated by colons or dashes.
fn is_mac(text: &str) -> bool {
    let octets: Vec<&str> = text.split([':', '-']).collect();
    octets.len() == 6 && octets.iter().all(|o| o.len() == 2 && o.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Underscores are accepted, as go-openapi does it, although DNS has none in host names.
fn is_hostname(text: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 255 && text.trim_end_matches('.').split('.').all(label)
}

/// The part of a URI before the colon, after RFC 3986.
fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
}

/// Padding is required, and only the standard alphabet is accepted: the values end up in Go's `[]byte` fields of
/// clients.
fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    text.len().is_multiple_of(4)
        && text.len() - body.len() <= 2
        && body.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'+' || b == b'/')
}

#[cfg(test)]
mod tests {
    use super::is_valid;

    #[test]
    fn forms_tell_good_from_bad() {
        let cases = [
            ("date-time", "2020-01-02T03:04:05Z", "yesterday"),
            ("date", "2020-01-02", "2020-13-02"),
            ("ipv4", "1.2.3.4", "999.1.1.1"),
            ("ipv6", "::1", "1.2.3.4"),
            ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
            ("mac", "00:11:22:33:44:55", "00:11"),
            ("uuid", "123e4567-e89b-12d3-a456-426614174000", "x"),
            ("email", "a@b.example", "a.b"),
            ("hostname", "a.example", "-a"),
            ("byte", "YWJj", "YW"),
            ("duration", "1h30m", "soon"),
            ("duration", "P1D", "1 fortnight"),
            ("uuid4", "0e37df36-f698-41e6-8dd4-cb9ced3df976", "0e37df36-f698-11e6-8dd4-cb9ced3df976"),
            ("bsonobjectid", "507f1f77bcf86cd799439011", "x"),
            ("isbn", "3836221195", "3836221194"),
            ("isbn13", "978-3-8362-2119-1", "978-3-8362-2119-2"),
            ("creditcard", "4111 1111 1111 1111", "4111111111111112"),
            ("ssn", "111-11-1111", "1"),
            ("hexcolor", "#ff00aa", "red!"),
            ("rgbcolor", "rgb(1, 20, 255)", "rgb(1,2,256)"),
        ];
        for (format, good, bad) in cases {
            assert!(is_valid(format, good), "{format} {good}");
            assert!(!is_valid(format, bad), "{format} {bad}");
        }
        assert!(is_valid("unheard-of", "anything"));
    }
}
