//! Forms of text and numbers that no pattern can express, as functions that return the errors of a value.
//!
//! Rule tables name them like the patterns of [`super::forms`]. Forms of addresses are in [`super::addresses`].

use std::cmp::Ordering;
use std::net::IpAddr;

use base64::Engine as _;
use listwatch_wire::json::Value;
use listwatch_wire::names::{label_errors, label_key_errors, label_value_errors, subdomain_errors};

use super::addresses;
use crate::{cron, meta, names, quantity, selector};

/// The forms of text that are checked by functions.
pub(super) fn of_text(name: &str) -> Option<fn(&str) -> Vec<String>> {
    Some(match name {
        "dns-label" => label_errors,
        "dns-label-1035" => names::label_1035_errors,
        "dns-subdomain" => subdomain_errors,
        "dns-subdomain-caseless" => caseless_subdomain,
        "qualified-name" => label_key_errors,
        "label-value" => label_value_errors,
        "joined-label-value" => joined_label_value,
        "path-segment" => |text| names::path_segment(text, false),
        "ip" => addresses::ip,
        "external-ip" => addresses::reachable_ip,
        "endpoint-ip" => addresses::endpoint_ip,
        "trimmed-cidr" => |text| addresses::cidr(text.trim()),
        "cidr" => addresses::cidr,
        "interface-address" => addresses::interface,
        "resource-version" => resource_version,
        "any-cidr" => |text| error_if(!names::is_cidr(text), names::CIDR),
        "env-name" => names::env_name,
        "config-key" => names::config_key,
        "http-header" => names::http_header,
        "port-name" => names::port_name,
        "dns-search-path" => dns_search_path,
        "caseless-qualified-name" => |text| label_key_errors(&text.to_lowercase()),
        "no-address" => no_address,
        "cron-fields" => |text| cron::check(text).err().map(|error| error.to_string()).into_iter().collect(),
        "finalizer" => meta::finalizer_errors,
        "extended-resource" => extended_resource,
        "canonical-int32" => canonical_int32,
        "int64" => int64,
        "base64-json" => base64_json,
        _ => return None,
    })
}

/// The errors of a label value as one text.
fn joined_label_value(text: &str) -> Vec<String> {
    match label_value_errors(text) {
        found if found.is_empty() => found,
        found => vec![found.join(";")],
    }
}

fn resource_version(text: &str) -> Vec<String> {
    let is_whole = text == "0" || !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
    error_if(!is_whole, &format!("resource version is not well formed: {text}"))
}

fn no_address(text: &str) -> Vec<String> {
    error_if(text.parse::<IpAddr>().is_ok(), "must be a DNS name, not an IP address")
}

fn extended_resource(name: &str) -> Vec<String> {
    error_if(!names::is_extended_resource(name), "doesn't follow extended resource name standard")
}

fn canonical_int32(text: &str) -> Vec<String> {
    let is_canonical = text.parse::<i32>().is_ok_and(|number| number.to_string() == text);
    error_if(!is_canonical, "must be an integer")
}

fn int64(text: &str) -> Vec<String> {
    error_if(text.parse::<i64>().is_err(), "must be a valid decimal integer in canonical form")
}

/// The forms of values that are checked by functions: numbers, quantities, selectors, and what may be a number or a text.
pub(super) fn of_value(name: &str) -> Option<fn(&Value) -> Vec<String>> {
    Some(match name {
        "port-or-name" => port_or_name,
        "count-or-percent" => count_or_percent,
        "at-most-100-percent" => |value| {
            let percent = value.as_str().and_then(|text| text.strip_suffix('%')?.parse::<u64>().ok());
            error_if(percent.is_some_and(|percent| percent > 100), "must not be greater than 100%")
        },
        "quantity-non-negative" => {
            |value| error_if(compared(value, &[Ordering::Less]), "must be greater than or equal to 0")
        }
        "quantity-positive" => {
            |value| error_if(compared(value, &[Ordering::Less, Ordering::Equal]), "must be greater than zero")
        }
        "json-object" => |value| error_if(!value.is_object(), "must be a valid JSON object"),
        "label-selector" => |value| error_if(!selector::is_usable(value), "invalid label selector."),
        "not-zero" => |value| error_if(value.as_i64() == Some(0), "must not be 0"),
        "ascending" => |value| {
            let numbers = value.as_array().into_iter().flatten().filter_map(Value::as_i64);
            error_if(!numbers.is_sorted(), "must be ordered")
        },
        _ => return None,
    })
}

/// JSON in base64, which parameters of devices are.
fn base64_json(text: &str) -> Vec<String> {
    let bytes = base64::engine::general_purpose::STANDARD.decode(text).unwrap_or_default();
    let valid = serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).is_ok();
    error_if(!valid, "invalid character in JSON")
}

/// Returns the error if the value is invalid.
pub(super) fn error_if(wrong: bool, text: &str) -> Vec<String> {
    if wrong { vec![text.to_owned()] } else { Vec::new() }
}

/// True if a quantity compares with zero in one of the forbidden ways.
fn compared(value: &Value, wrong: &[Ordering]) -> bool {
    let text = match value {
        Value::String(text) => text.to_string(),
        other => other.to_string(),
    };
    quantity::compare(&text, "0").is_ok_and(|order| wrong.contains(&order))
}

/// A number in range, or the name of a port.
fn port_or_name(value: &Value) -> Vec<String> {
    match value {
        Value::String(name) => names::port_name(name),
        other => {
            let number = other.as_i64().unwrap_or(0);
            error_if(!(1..=65_535).contains(&number), "must be between 1 and 65535, inclusive")
        }
    }
}

/// A number that is not negative, or a percentage.
fn count_or_percent(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => {
            let digits = text.strip_suffix('%').unwrap_or_default();
            let wrong = digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit());
            error_if(
                wrong,
                "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
            )
        }
        other => {
            error_if(other.as_i64().is_some_and(|number| number < 0), "must be greater than or equal to 0")
        }
    }
}

/// A subdomain in any case. The message is of such subdomains, the pattern in it is the one of lower case.
fn caseless_subdomain(text: &str) -> Vec<String> {
    const WORDS: [(&str, &str); 2] = [
        (
            "a lowercase RFC 1123 subdomain must consist of lower case",
            "an RFC 1123 subdomain must consist of",
        ),
        ("'example.com'", "'Example.com'"),
    ];
    let caseless = |error: String| WORDS.iter().fold(error, |error, (from, to)| error.replace(from, to));
    subdomain_errors(&text.to_lowercase()).into_iter().map(caseless).collect()
}

/// A subdomain that may have underscores, and a dot at its end.
fn dns_search_path(text: &str) -> Vec<String> {
    if text == "." {
        return Vec::new();
    }
    subdomain_errors(&text.strip_suffix('.').unwrap_or(text).replace('_', "a"))
}
