//! [`TextForm`]: the named formats of text and numbers that rule tables refer to.
//!
//! A name in a table (`dns-label`, `port-or-name`) stands for a function that returns the messages of kube-apiserver's
//! validation helpers. Forms look at one value and nothing around it; rules that span fields are functions in
//! `validate`. A table that names an unknown form fails a test and not a request.

use std::cmp::Ordering;

use listwatch_wire::json::Value;
use listwatch_wire::names::{label_errors, label_key_errors, label_value_errors, subdomain_errors};

use super::addresses;
use crate::{names, quantity};

/// A form and its test, which returns what is wrong.
#[derive(Clone, Copy, Debug)]
pub(super) enum TextForm {
    Text(fn(&str) -> Vec<String>),
    Value(fn(&Value) -> Vec<String>),
}

/// The form of that name.
pub(super) fn form(name: &str) -> Option<TextForm> {
    Some(match name {
        "dns-label" => TextForm::Text(label_errors),
        "dns-label-1035" => TextForm::Text(names::label_1035_errors),
        "dns-subdomain" => TextForm::Text(subdomain_errors),
        "dns-subdomain-caseless" => TextForm::Text(|text| subdomain_errors(&text.to_lowercase())),
        "qualified-name" => TextForm::Text(label_key_errors),
        "label-value" => TextForm::Text(label_value_errors),
        "path-segment" => TextForm::Text(|text| names::path_segment(text, false)),
        "ip" => TextForm::Text(addresses::ip),
        "external-ip" => TextForm::Text(addresses::reachable_ip),
        "endpoint-ip" => TextForm::Text(addresses::endpoint_ip),
        "trimmed-cidr" => TextForm::Text(|text| addresses::cidr(text.trim())),
        "cidr" => TextForm::Text(addresses::cidr),
        "env-name" => TextForm::Text(names::env_name),
        "config-key" => TextForm::Text(names::config_key),
        "http-header" => TextForm::Text(names::http_header),
        "port-name" => TextForm::Text(names::port_name),
        "port-or-name" => TextForm::Value(port_or_name),
        "no-blanks-around" => {
            TextForm::Text(|text| told(text.trim() != text, "must not have leading or trailing whitespace"))
        }
        "relative-path" => TextForm::Text(relative_path),
        "no-backsteps" => TextForm::Text(|text| told(has_backstep(text), "must not contain '..'")),
        "no-leading-dots" => TextForm::Text(|text| {
            told(text.starts_with("..") && !text.starts_with("../"), "must not start with '..'")
        }),
        "domain-path" => TextForm::Text(domain_path),
        "host-port-pairs" => TextForm::Text(|text| {
            let wrong = text.split(',').any(|pair| !pair.contains(':'));
            told(wrong, "must be a host:port pair or multiple pairs separated by commas")
        }),
        "iscsi-name" => TextForm::Text(iscsi_name),
        "unreserved-key" => TextForm::Text(unreserved_key),
        "dns-search-path" => TextForm::Text(dns_search_path),
        "sysctl" => TextForm::Text(sysctl),
        "condition-reason" => TextForm::Text(condition_reason),
        "caseless-qualified-name" => TextForm::Text(|text| label_key_errors(&text.to_lowercase())),
        "host-or-wildcard" => TextForm::Text(host_or_wildcard),
        "wildcard-or-dns-label" => {
            TextForm::Text(|text| if text == "*" { Vec::new() } else { label_errors(text) })
        }
        "wildcard-or-dns-subdomain" => {
            TextForm::Text(|text| if text == "*" { Vec::new() } else { subdomain_errors(text) })
        }
        "non-resource-url" => TextForm::Text(non_resource_url),
        "count-or-percent" => TextForm::Value(count_or_percent),
        "at-most-100-percent" => TextForm::Value(|value| {
            let percent = value.as_str().and_then(|text| text.strip_suffix('%')?.parse::<u64>().ok());
            told(percent.is_some_and(|percent| percent > 100), "must not be greater than 100%")
        }),
        "quantity-non-negative" => TextForm::Value(|value| {
            told(compared(value, &[Ordering::Less]), "must be greater than or equal to 0")
        }),
        "quantity-positive" => TextForm::Value(|value| {
            told(compared(value, &[Ordering::Less, Ordering::Equal]), "must be greater than zero")
        }),
        _ => return None,
    })
}

pub(super) fn told(wrong: bool, text: &str) -> Vec<String> {
    if wrong { vec![text.to_owned()] } else { Vec::new() }
}

fn compared(value: &Value, wrong: &[Ordering]) -> bool {
    let text = match value {
        Value::String(text) => text.to_string(),
        other => other.to_string(),
    };
    quantity::compare(&text, "0").is_ok_and(|order| wrong.contains(&order))
}

fn has_backstep(text: &str) -> bool {
    text.split('/').any(|part| part == "..")
}

/// A path that stays below where it begins.
fn relative_path(text: &str) -> Vec<String> {
    let mut found = told(text.starts_with('/'), "must be a relative path");
    found.extend(told(has_backstep(text), "must not contain '..'"));
    found
}

fn port_or_name(value: &Value) -> Vec<String> {
    match value {
        Value::String(name) => names::port_name(name),
        other => {
            let number = other.as_i64().unwrap_or(0);
            told(!(1..=65_535).contains(&number), "must be between 1 and 65535, inclusive")
        }
    }
}

fn count_or_percent(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => {
            let digits = text.strip_suffix('%').unwrap_or_default();
            let wrong = digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit());
            told(
                wrong,
                "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
            )
        }
        other => told(other.as_i64().is_some_and(|number| number < 0), "must be greater than or equal to 0"),
    }
}

/// A domain, a slash and a path.
fn domain_path(text: &str) -> Vec<String> {
    match text.split_once('/') {
        Some((domain, path)) if !domain.is_empty() && !path.is_empty() => {
            let mut found = subdomain_errors(domain);
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
            found.extend(told(!path.bytes().all(fits), "Invalid path"));
            found
        }
        _ => told(true, "must be a domain-prefixed path (such as \"acme.io/foo\")"),
    }
}

fn iscsi_name(text: &str) -> Vec<String> {
    let hexadecimal = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let fits = if let Some(rest) = text.strip_prefix("iqn.") {
        let (date, name) = rest.split_once('.').unwrap_or((rest, ""));
        let date = date.as_bytes();
        let digit = |at: usize| date.get(at).is_some_and(u8::is_ascii_digit);
        date.len() == 7
            && date.get(4) == Some(&b'-')
            && (0..7).all(|at| at == 4 || digit(at))
            && !name.is_empty()
    } else if let Some(rest) = text.strip_prefix("eui.") {
        rest.len() == 16 && hexadecimal(rest)
    } else if let Some(rest) = text.strip_prefix("naa.") {
        rest.len() == 32 && hexadecimal(rest)
    } else {
        false
    };
    let known = ["iqn", "eui", "naa"].iter().any(|start| text.starts_with(start));
    let text =
        if known { "must be valid format" } else { "must be valid format starting with iqn, eui, or naa" };
    told(!fits, text)
}

/// A key outside of the domains of Kubernetes.
fn unreserved_key(key: &str) -> Vec<String> {
    let domain = format!(".{}", key.split_once('/').map_or(key, |(domain, _)| domain).to_lowercase());
    let reserved = domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io");
    told(reserved, "kubernetes.io and k8s.io namespaces are reserved")
}

/// A subdomain that may have underscores, and a dot at its end.
fn dns_search_path(text: &str) -> Vec<String> {
    if text == "." {
        return Vec::new();
    }
    subdomain_errors(&text.strip_suffix('.').unwrap_or(text).replace('_', "a"))
}

fn sysctl(name: &str) -> Vec<String> {
    let edge = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let part = |part: &str| {
        part.bytes().next().is_some_and(edge)
            && part.bytes().last().is_some_and(edge)
            && part.bytes().all(|byte| edge(byte) || matches!(byte, b'-' | b'_'))
    };
    let fits = name.len() <= 253 && name.split(['.', '/']).all(part);
    told(
        !fits,
        "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$",
    )
}

fn condition_reason(text: &str) -> Vec<String> {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let fits = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic())
        && text.bytes().last().is_some_and(word)
        && text.bytes().all(|byte| word(byte) || matches!(byte, b',' | b':'));
    told(
        !fits,
        "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')",
    )
}

fn host_or_wildcard(host: &str) -> Vec<String> {
    const RULE: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character";
    if !host.contains('*') {
        return subdomain_errors(host);
    }
    let fits = host.strip_prefix("*.").is_some_and(|rest| subdomain_errors(rest).is_empty());
    told(!fits, RULE)
}

/// A path that may end in a wildcard.
fn non_resource_url(text: &str) -> Vec<String> {
    if text.is_empty() {
        return told(true, "must not be empty");
    }
    if text == "*" {
        return Vec::new();
    }
    let mut found = told(!text.starts_with('/'), "must start with slash");
    found.extend(told(text.contains(' '), "must not contain white-space"));
    found.extend(told(text.contains("//"), "must not contain double slash"));
    if let Some(before) = text.strip_suffix('*') {
        found.extend(told(!before.ends_with('/'), "wildcard can only do suffix matching"));
    }
    let inner = text.strip_suffix('*').unwrap_or(text);
    found.extend(told(inner.contains('*'), "wildcard can only do suffix matching"));
    found
}
