//! Validation of ResourceClaims and ResourceClaimTemplates (dynamic resource allocation).
//!
//! The checks here follow references inside a claim: constraints and configuration name requests, or one of their
//! alternatives as `request/subrequest`, and an attribute is named with the domain of its driver. The devices that
//! exist are in ResourceSlices, and whether a claim can be satisfied is the scheduler's decision; neither is looked at.
//! The use of a claim by a container is checked in `resources`.

use std::collections::{HashMap, HashSet};

use listwatch_wire::json::Value;
use listwatch_wire::names::subdomain_errors;

use crate::field::{Errors, Path};
use crate::rules::{self, At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] = checks![claim_names_its_requests, attribute_is_fully_named];

/// Characters of the domain before the slash: a driver's name.
const MAX_DOMAIN: usize = 63;
/// Characters of the name behind the slash.
const MAX_ID: usize = 32;

/// Constraints and configuration are about requests of the claim, or about their alternatives.
fn claim_names_its_requests(at: &At<'_>, errors: &mut Errors) {
    let mut known: HashMap<&str, HashSet<&str>> = HashMap::new();
    for request in at.value.list("requests") {
        let alternatives = request.list("firstAvailable").iter().map(|option| option.text("name"));
        known.insert(request.text("name"), alternatives.collect());
    }
    let is_known = |name: &str| match name.split_once('/') {
        None => known.contains_key(name),
        Some((request, option)) => known.get(request).is_some_and(|options| options.contains(option)),
    };
    for list in ["constraints", "config"] {
        let path = at.path.child(list);
        for (index, item) in at.value.list(list).iter().enumerate() {
            let path = path.index(index);
            names_requests(item, &path.child("requests"), &is_known, errors);
        }
    }
}

/// Unknown names are errors and not warnings: a constraint that matches nothing would silently not constrain.
fn names_requests(item: &Value, path: &Path<'_>, is_known: &dyn Fn(&str) -> bool, errors: &mut Errors) {
    for (index, name) in item.list("requests").iter().filter_map(Value::as_str).enumerate() {
        if !is_known(name) {
            let detail = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
            errors.invalid(&path.index(index), name, detail);
        }
    }
}

/// The name of an attribute with its domain.
fn attribute_is_fully_named(at: &At<'_>, errors: &mut Errors) {
    let Some(name) = at.value.as_str() else { return };
    let Some((domain, id)) = name.split_once('/') else {
        let found = if name.is_empty() { "name required" } else { "must include a domain" };
        if name.is_empty() {
            errors.required(at.path, found);
        } else {
            identifier(name, at.path, errors);
            errors.invalid(at.path, name, found);
        }
        return;
    };
    if domain.is_empty() {
        errors.required(at.path, "the domain must not be empty");
    } else if domain.len() > MAX_DOMAIN {
        errors.too_long(at.path, MAX_DOMAIN);
    } else {
        errors.invalid_all(at.path, domain, subdomain_errors(domain));
    }
    if id.is_empty() {
        errors.required(at.path, "the name must not be empty");
    } else {
        identifier(id, at.path, errors);
    }
}

/// Both halves of a fully qualified name may fail, each with its own error.
fn identifier(id: &str, path: &Path<'_>, errors: &mut Errors) {
    if id.len() > MAX_ID {
        errors.too_long(path, MAX_ID);
    }
    errors.invalid_all(path, id, rules::form_errors("c-identifier", id));
}
