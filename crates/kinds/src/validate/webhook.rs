//! Validation of admission webhook configurations: resource rules and the client's address.
//!
//! A configuration that the server could not call would block every write that it matches, so URLs must be plain
//! `https` without user, query or fragment, and service paths must be clean. Certificates are checked only when the
//! webhook is called. Match conditions are compiled by the server, which has the CEL environment.

use std::collections::HashSet;

use listwatch_wire::json::Value;
use listwatch_wire::names::subdomain_errors;
use listwatch_wire::webhook_url;

use crate::field::Errors;
use crate::rules::{At, Check};

pub(super) const CHECKS: &[(&str, Check)] =
    checks![webhook_resources_are_valid, url_is_plain_https, service_path_is_clean];

/// Stars must not overlap with what they include, because a redundant rule is most often a mistake.
fn webhook_resources_are_valid(at: &At<'_>, errors: &mut Errors) {
    let resources: Vec<&str> = at.value.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let (mut of_resource, mut of_subresource) = (HashSet::new(), HashSet::new());
    for (index, name) in resources.iter().enumerate() {
        let path = at.path.index(index);
        if name.is_empty() {
            errors.required(&path, "");
        }
        let Some((resource, subresource)) = name.split_once('/') else { continue };
        if of_resource.contains(resource) {
            errors.invalid(&path, *name, format!("if '{resource}/*' is present, must not specify {name}"));
        }
        if of_subresource.contains(subresource) {
            errors.invalid(&path, *name, format!("if '*/{subresource}' is present, must not specify {name}"));
        }
        if subresource == "*" {
            of_resource.insert(resource);
        }
        if resource == "*" {
            of_subresource.insert(subresource);
        }
    }
    if resources.len() > 1 && resources.contains(&"*/*") {
        let detail = "if '*/*' is present, must not specify other resources";
        errors.invalid(at.path, at.value.clone(), detail);
    }
    let last_plain = resources.iter().rfind(|name| !name.is_empty() && !name.contains('/'));
    if resources.contains(&"*") && last_plain.is_some_and(|name| *name != "*") {
        let detail = "if '*' is present, must not specify other resources without subresources";
        errors.invalid(at.path, at.value.clone(), detail);
    }
}

/// Every part is reported on its own, so several errors may be about one URL.
fn url_is_plain_https(at: &At<'_>, errors: &mut Errors) {
    const FORM: &str = "; desired format: https://host[/path]";
    let Some(url) = at.value.as_str() else { return };
    if let Some(why) = unparsable(url) {
        errors.required(at.path, format!("url must be a valid URL: parse {url:?}: {why}{FORM}"));
        return;
    }
    for (part, why) in webhook_url::findings(url) {
        errors.invalid(at.path, part, why);
    }
}

/// The reason for which Go cannot parse a URL: a character that no host has, or half an escape.
fn unparsable(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://")?;
    let (authority, place) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let host = authority.rsplit('@').next().unwrap_or_default();
    if let Some(strange) =
        host.chars().find(|c| matches!(c, ' ' | '"' | '<' | '>' | '\\' | '^' | '`' | '{' | '|' | '}'))
    {
        return Some(format!("invalid character {:?} in host name", strange.to_string()));
    }
    let path = place.split(['?', '#']).next().unwrap_or_default();
    let escapes = path
        .match_indices('%')
        .map(|(at, _)| path.get(at..at + 3).or_else(|| path.get(at..)).unwrap_or_default());
    let is_whole = |escape: &str| escape.len() == 3 && escape.bytes().skip(1).all(|b| b.is_ascii_hexdigit());
    escapes
        .into_iter()
        .find(|escape| !is_whole(escape))
        .map(|escape| format!("invalid URL escape {escape:?}"))
}

/// Segments are names of DNS, which keeps escapes and dots out of the path.
fn service_path_is_clean(at: &At<'_>, errors: &mut Errors) {
    let Some(place) = at.value.as_str().filter(|place| !matches!(*place, "" | "/")) else { return };
    if place == "//" {
        errors.invalid(at.path, place, "segment[0] may not be empty");
        return;
    }
    if !place.starts_with('/') {
        errors.invalid(at.path, place, "must start with a '/'");
    }
    let inner = place.get(1..).unwrap_or_default();
    for (index, step) in inner.strip_suffix('/').unwrap_or(inner).split('/').enumerate() {
        if step.is_empty() {
            errors.invalid(at.path, place, format!("segment[{index}] may not be empty"));
            continue;
        }
        for detail in subdomain_errors(step) {
            errors.invalid(at.path, place, format!("segment[{index}]: {detail}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_one_that_go_can_parse() {
        assert_eq!(unparsable("https://x.y:1/a%20b"), None);
        assert_eq!(unparsable("https://x y/z").unwrap(), "invalid character \" \" in host name");
        assert_eq!(unparsable("https://x.y/%zz").unwrap(), "invalid URL escape \"%zz\"");
        assert_eq!(unparsable("https://x.y/%2").unwrap(), "invalid URL escape \"%2\"");
        assert_eq!(unparsable("https://x.y/%é").unwrap(), "invalid URL escape \"%é\"");
    }
}
