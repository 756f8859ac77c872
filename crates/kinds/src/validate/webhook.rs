//! Validation of admission webhook configurations: review versions, resource rules and the client's address.
//!
//! A configuration that the server could not call would block every write that it matches, so URLs must be plain
//! `https` without user, query or fragment, and service paths must be clean. Certificates are checked only when the
//! webhook is called. Match conditions are compiled by the server, which has the CEL environment.

use std::collections::HashSet;

use listwatch_wire::json::Value;
use listwatch_wire::names::{label_key_errors, subdomain_errors};

use super::checks;
use crate::field::Errors;
use crate::names;
use crate::rules::{At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] = checks![
    webhook_name_is_qualified,
    match_conditions_are_named,
    review_versions_are_known,
    webhook_resources_are_valid,
    client_is_one_place,
    service_path_is_clean,
];

fn webhook_name_is_qualified(at: &At<'_>, errors: &mut Errors) {
    let name = at.value.as_str().unwrap_or_default();
    if name.is_empty() {
        errors.required(at.path, "");
        return;
    }
    let wrong = subdomain_errors(name);
    if wrong.is_empty() && name.split('.').count() < 3 {
        errors.invalid(at.path, name, "should be a domain with at least three segments separated by dots");
    }
    errors.invalid_all(at.path, name, wrong);
}

fn match_conditions_are_named(at: &At<'_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for (index, condition) in at.value.as_array().into_iter().flatten().enumerate() {
        let (path, name) = (at.path.index(index), condition.text("name"));
        if condition.text("expression").trim().is_empty() {
            errors.required(&path.child("expression"), "");
        }
        match name.is_empty() {
            true => errors.required(&path.child("name"), ""),
            false => errors.invalid_all(&path.child("name"), name, label_key_errors(name)),
        }
        if !name.is_empty() && !seen.insert(name) {
            errors.duplicate(&path.child("name"), name);
        }
    }
}

fn review_versions_are_known(at: &At<'_>, errors: &mut Errors) {
    let versions = at.value.as_array().map(Vec::as_slice).unwrap_or_default();
    if versions.is_empty() {
        errors.required(at.path, "must specify one of v1, v1beta1");
        return;
    }
    let mut seen = HashSet::new();
    for (index, version) in versions.iter().filter_map(Value::as_str).enumerate() {
        if !seen.insert(version) {
            errors.invalid(&at.path.index(index), version, "duplicate version");
            continue;
        }
        errors.invalid_all(&at.path.index(index), version, names::label_1035_errors(version));
    }
    if !seen.contains("v1") && !seen.contains("v1beta1") {
        errors.invalid(at.path, at.value.clone(), "must include at least one of v1, v1beta1");
    }
}

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

fn client_is_one_place(at: &At<'_>, errors: &mut Errors) {
    const FORM: &str = "; desired format: https://host[/path]";
    if at.value.has("url") == at.value.has("service") {
        errors.required(at.path, "exactly one of url or service is required");
        return;
    }
    let Some(url) = at.value.at("url").as_str() else { return };
    let path = at.path.child("url");
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    if scheme != "https" {
        errors.invalid(&path, scheme, format!("'https' is the only allowed URL scheme{FORM}"));
    }
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if scheme.is_empty() || host.is_empty() {
        errors.invalid(&path, "", format!("host must be specified{FORM}"));
    }
    if host.contains('@') {
        errors.invalid(&path, host, "user information is not permitted in the URL");
    }
    if let Some((_, fragment)) = rest.split_once('#').filter(|(_, fragment)| !fragment.is_empty()) {
        errors.invalid(&path, fragment, "fragments are not permitted in the URL");
    }
    let query = rest.split('#').next().and_then(|rest| rest.split_once('?'));
    if let Some((_, query)) = query.filter(|(_, query)| !query.is_empty()) {
        errors.invalid(&path, query, "query parameters are not permitted in the URL");
    }
}

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
