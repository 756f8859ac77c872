//! Checks of the OpenAPI `format` of strings, such as `date-time`, `ipv4` or `uuid`.
//!
//! The list is that of go-openapi's default registry, which apiextensions-apiserver uses; a format that it does not
//! know is not checked, and neither is it here. The tests follow that registry and not the RFCs: an object must not be
//! refused here that kube-apiserver accepts. Regular expressions are compiled once, on first use. The named formats of
//! CEL (`format.dns1123Label()`) are other code with other rules, in `listwatch-cel`.

use std::net::Ipv6Addr;
use std::sync::LazyLock;

use regex::Regex;

mod network;
mod web;

/// Returns true if the text has the form; unknown and empty forms always fit.
pub(crate) fn is_valid(format: &str, text: &str) -> bool {
    check(format, text).unwrap_or(true)
}

/// Returns true for a format that kube-apiserver knows. Others are dropped from a schema.
pub(crate) fn is_known(format: &str) -> bool {
    !format.is_empty() && check(format, "").is_some()
}

/// Returns true if the text has the form, `None` for an unknown one.
///
/// Linear in the text. The regular expressions are constants, and the engine does not backtrack.
fn check(format: &str, text: &str) -> Option<bool> {
    Some(match format {
        "date-time" | "datetime" => is_date_time(text),
        "date" => is_date(text),
        "ipv4" => network::is_ipv4(text),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => network::is_cidr(text),
        "mac" => network::is_mac(text),
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
        "email" => web::is_email(text),
        "hostname" => network::is_hostname(text),
        "uri" => web::is_request_uri(text),
        "byte" => is_base64(text),
        "duration" => is_duration(text),
        "k8s-short-name" | "k8sshortname" => is_short_name(text),
        "k8s-long-name" | "k8slongname" => text.len() <= 253 && text.split('.').all(is_label),
        "password" => true,
        _ => return None,
    })
}

/// A date and a time with its zone; seconds of leap do not exist. What comes after a second `T` is not read.
fn is_date_time(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    is_date(date) && TIME.as_ref().is_some_and(|regex| regex.is_match(time))
}

/// A day that the calendar has.
fn is_date(text: &str) -> bool {
    let shaped = DATE.as_ref().is_some_and(|regex| regex.is_match(text));
    let mut parts = text.split('-').map(|part| part.parse::<u16>().unwrap_or_default());
    let (Some(year), Some(month), Some(day)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    shaped && (1..=days_of(year, month)).contains(&day)
}

/// The days of a month; none for a month that there is not.
fn days_of(year: u16, month: u16) -> u16 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 => 28 + u16::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    }
}

/// The longest DNS label.
const MAX_LABEL: usize = 63;

fn is_short_name(text: &str) -> bool {
    text.len() <= MAX_LABEL && is_label(text)
}

/// Lower-case letters, digits and dashes, with dashes inside only.
fn is_label(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let ends = [text.bytes().next(), text.bytes().next_back()];
    ends.iter().all(|end| end.is_some_and(plain)) && text.bytes().all(|b| plain(b) || b == b'-')
}

/// Any character may precede the fraction of a second, as in kube-openapi.
static TIME: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})$").ok()
});
static DATE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$").ok());
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

static SSN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\d{3}[- ]\d{2}[- ]\d{4}$").ok());
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

/// Padding is required, and only the standard alphabet is accepted: the values end up in Go's `[]byte` fields of
/// clients. An empty text is none.
fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && text.len() - body.len() <= 2
        && body.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'+' || b == b'/')
}

#[cfg(test)]
mod tests {
    use super::is_valid;

    #[test]
    fn formats_accept_valid_and_reject_invalid_values() {
        let cases = [
            ("date-time", "2020-01-02T03:04:05Z", "yesterday"),
            ("date-time", "2020-02-29t03:04:05.5+01:00", "2020-02-30T03:04:05Z"),
            ("date-time", "2020-01-02T03:04:59z", "2020-01-02 03:04:05Z"),
            ("date", "2020-01-02", "2020-13-02"),
            ("date", "2000-02-29", "2100-02-29"),
            ("ipv4", "1.2.3.4", "999.1.1.1"),
            ("ipv4", "01.002.3.4", "1.2.3"),
            ("ipv4", "::ffff:1.2.3.4", "::1"),
            ("ipv6", "::1", "1.2.3.4"),
            ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
            ("cidr", "010.0.0.0/08", "10.0.0.0/+8"),
            ("mac", "00:11:22:33:44:55", "00:11"),
            ("mac", "0011.2233.4455", "00:11:22-33:44:55"),
            ("uuid", "123e4567-e89b-12d3-a456-426614174000", "x"),
            ("email", "a@b.example", "a.b"),
            ("email", "A B <a.c@b>", "A <a@b"),
            ("email", "\"a b\"@c", "a..b@c"),
            ("hostname", "a.example", "-a"),
            ("hostname", "a", "a.b"),
            ("hostname", "w-1.x-y.example", "a_b"),
            ("hostname", "é.example", "1.2.3.4"),
            ("uri", "http://a/b c?d", "http://a b"),
            ("uri", "/a", "a"),
            ("uri", "urn:x:y", "%zz"),
            ("uri", "https://u:p@[::1]:80/%20", "https://a:b/"),
            ("k8s-short-name", "a-1", "a.b"),
            ("k8s-long-name", "a.b", "A"),
            ("byte", "YWJj", "YW"),
            ("byte", "YQ==", ""),
            ("duration", "1h30m", "soon"),
            ("duration", "P1D", "1 fortnight"),
            ("uuid4", "0e37df36-f698-41e6-8dd4-cb9ced3df976", "0e37df36-f698-11e6-8dd4-cb9ced3df976"),
            ("bsonobjectid", "507f1f77bcf86cd799439011", "x"),
            ("isbn", "3836221195", "3836221194"),
            ("isbn13", "978-3-8362-2119-1", "978-3-8362-2119-2"),
            ("creditcard", "4111 1111 1111 1111", "4111111111111112"),
            ("ssn", "111-11-1111", "111111111"),
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
