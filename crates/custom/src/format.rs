//! Named forms of strings. A form the API server does not know is not checked, here neither.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use regex::Regex;

/// Whether the text has the form; unknown and empty forms always fit.
pub(crate) fn is_valid(format: &str, text: &str) -> bool {
    match format {
        "date-time" | "datetime" => DATE_TIME.as_ref().is_some_and(|regex| regex.is_match(text)),
        "date" => DATE.as_ref().is_some_and(|regex| regex.is_match(text)),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "uuid" | "uuid3" | "uuid4" | "uuid5" => UUID.as_ref().is_some_and(|regex| regex.is_match(text)),
        "email" => text.split_once('@').is_some_and(|(user, host)| !user.is_empty() && is_hostname(host)),
        "hostname" => is_hostname(text),
        "uri" => text.split_once(':').is_some_and(|(scheme, _)| is_scheme(scheme)) || text.starts_with('/'),
        "byte" => is_base64(text),
        "duration" => DURATION.as_ref().is_some_and(|regex| regex.is_match(text)),
        _ => true,
    }
}

static DATE_TIME: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])[Tt ]([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?([Zz]|[+-]\d{2}:?\d{2})$").ok()
});
static DATE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$").ok());
static UUID: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$").ok()
});
static DURATION: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^-?(\d+(\.\d+)?\s*(ns|us|µs|ms|s|m|h|d|w|seconds?|minutes?|hours?|days?|weeks?)\s*)+$").ok()
});

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let bits: u8 = bits.parse().unwrap_or(u8::MAX);
    address.parse::<Ipv4Addr>().is_ok() && bits <= 32 || address.parse::<Ipv6Addr>().is_ok() && bits <= 128
}

fn is_mac(text: &str) -> bool {
    let octets: Vec<&str> = text.split([':', '-']).collect();
    octets.len() == 6 && octets.iter().all(|o| o.len() == 2 && o.bytes().all(|b| b.is_ascii_hexdigit()))
}

fn is_hostname(text: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 255 && text.trim_end_matches('.').split('.').all(label)
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
}

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
        ];
        for (format, good, bad) in cases {
            assert!(is_valid(format, good), "{format} {good}");
            assert!(!is_valid(format, bad), "{format} {bad}");
        }
        assert!(is_valid("unheard-of", "anything"));
    }
}
