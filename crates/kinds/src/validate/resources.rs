//! Validation of `resources`: requests and limits of containers and Pods, their overhead, and device claims.
//!
//! Native resources (`cpu`, `memory`, …) may be overcommitted; huge pages and extended resources may not, so that their
//! limit must be set and equal the request. Huge pages need cpu or memory beside them. Amounts of countable resources
//! are whole numbers. Quotas and nodes use the same checks of an amount. The capacity of nodes is the scheduler's
//! business.

use std::cmp::Ordering;
use std::collections::HashSet;

use listwatch_wire::json::{Value, json};
use listwatch_wire::names::{label_errors, label_key_errors};

use super::{checks, container};
use crate::field::{Errors, Path};
use crate::quantity;
use crate::rules::{At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] = checks![
    container_resources_are_valid,
    pod_resources_are_valid,
    overhead_is_valid,
    resource_claims_are_named,
    resource_claims_are_used,
    claim_has_one_source,
];

fn container_resources_are_valid(at: &At<'_>, errors: &mut Errors) {
    requirements(at.value, container_name, at.path, errors);
    if at.old.is_none() {
        huge_pages_are_whole(at, errors);
    }
}

/// Memory in huge pages comes in as many whole pages of the size that its name gives.
fn huge_pages_are_whole(at: &At<'_>, errors: &mut Errors) {
    for key in ["limits", "requests"] {
        let path = at.path.child(key);
        for (name, amount) in at.value.entries(key) {
            let Some(page) = name.strip_prefix("hugepages-") else { continue };
            let amount = amount.as_str().unwrap_or_default();
            if !quantity::is_multiple(amount, page) {
                let detail = format!("{amount} is not positive integer multiple of {name}");
                errors.invalid(&path.key(name), amount, detail);
            }
        }
    }
}

/// A Pod as a whole asks for less than its containers do.
fn pod_resources_are_valid(at: &At<'_>, errors: &mut Errors) {
    requirements(at.value, pod_name, at.path, errors);
}

fn overhead_is_valid(at: &At<'_>, errors: &mut Errors) {
    requirements(&json!({"limits": at.value.clone()}), container_name, at.path, errors);
}

fn requirements(
    resources: &Value,
    name_rule: fn(&str, &Path<'_>, &mut Errors),
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let (limits, requests) = (path.child("limits"), path.child("requests"));
    let mut one = |name: &str, amount: &Value, path: &Path<'_>| {
        name_rule(name, path, errors);
        self::amount(name, amount, path, errors);
    };
    for (name, amount) in resources.entries("limits") {
        one(name, amount, &limits.key(name));
    }
    for (name, amount) in resources.entries("requests") {
        one(name, amount, &requests.key(name));
    }
    for (name, amount) in resources.entries("requests") {
        let (asked, most) = (amount.as_str().unwrap_or_default(), resources.at("limits").text(name));
        let order = quantity::compare(asked, most);
        let exact = is_huge_pages(name) || !is_native(name);
        if exact && most.is_empty() {
            errors.required(&limits, "Limit must be set for non overcommitable resources");
        } else if exact && matches!(order, Ok(Ordering::Less | Ordering::Greater)) {
            errors.invalid(&requests, asked, format!("must be equal to {name} limit of {most}"));
        } else if !most.is_empty() && order == Ok(Ordering::Greater) {
            errors.invalid(&requests, asked, format!("must be less than or equal to {name} limit of {most}"));
        }
    }
    huge_pages_alone(resources, path, errors);
}

/// Checks an amount of a resource.
pub(super) fn amount(resource: &str, amount: &Value, path: &Path<'_>, errors: &mut Errors) {
    let text = amount.as_str().unwrap_or_default();
    if quantity::compare(text, "0") == Ok(Ordering::Less) {
        errors.invalid(path, text, "must be greater than or equal to 0");
    }
    if is_whole(resource) && is_fractional(text) {
        errors.invalid(path, text, "must be an integer");
    }
}

/// Checks the name of a resource of any kind.
pub(super) fn any_name(name: &str, path: &Path<'_>, errors: &mut Errors) {
    let found = label_key_errors(name);
    if found.is_empty() && !name.contains('/') && !is_standard(name) {
        errors.invalid(path, name, "must be a standard resource type or fully qualified");
    }
    errors.invalid_all(path, name, found);
}

/// Checks the name of a resource that a container may ask for.
pub(super) fn container_name(name: &str, path: &Path<'_>, errors: &mut Errors) {
    any_name(name, path, errors);
    if !name.contains('/') {
        if !matches!(name, "cpu" | "memory" | "ephemeral-storage") && !is_huge_pages(name) {
            errors.invalid(path, name, "must be a standard resource for containers");
        }
    } else if !is_native(name) && !is_extended(name) {
        errors.invalid(path, name, "doesn't follow extended resource name standard");
    }
}

fn pod_name(name: &str, path: &Path<'_>, errors: &mut Errors) {
    let mut found = Errors::new();
    any_name(name, path, &mut found);
    if !found.is_empty() {
        errors.append(found);
    } else if !matches!(name, "cpu" | "memory") && !is_huge_pages(name) {
        errors.not_supported(path, name, &["cpu", "hugepages-", "memory"]);
    }
}

fn is_fractional(amount: &str) -> bool {
    quantity::canonical(amount).is_ok_and(|amount| amount.ends_with(['m', 'u', 'n']))
}

pub(super) fn is_huge_pages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Resources that somebody else knows how to count, such as devices.
pub(super) fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && label_key_errors(&format!("requests.{name}")).is_empty()
}

/// Resources that come in whole pieces.
fn is_whole(name: &str) -> bool {
    is_extended(name)
        || matches!(name, "pods" | "services" | "secrets" | "configmaps" | "resourcequotas")
        || matches!(name, "replicationcontrollers" | "persistentvolumeclaims")
        || matches!(name, "services.nodeports" | "services.loadbalancers")
}

fn is_standard(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage" | "storage" | "pods" | "services" | "secrets")
        || matches!(name, "requests.cpu" | "requests.memory" | "requests.ephemeral-storage")
        || matches!(name, "limits.cpu" | "limits.memory" | "limits.ephemeral-storage" | "configmaps")
        || matches!(name, "requests.storage" | "services.nodeports" | "services.loadbalancers")
        || matches!(name, "replicationcontrollers" | "resourcequotas" | "persistentvolumeclaims")
        || is_huge_pages(name)
        || name.starts_with("requests.hugepages-")
}

fn huge_pages_alone(resources: &Value, path: &Path<'_>, errors: &mut Errors) {
    let has = |wanted: fn(&str) -> bool| {
        ["limits", "requests"].iter().any(|key| resources.entries(key).any(|(name, _)| wanted(name)))
    };
    if has(is_huge_pages) && !has(|name| matches!(name, "cpu" | "memory")) {
        errors.forbidden(path, "HugePages require cpu or memory");
    }
}

/// The claims of a Pod have names of their own.
fn resource_claims_are_named(at: &At<'_>, errors: &mut Errors) {
    let path = at.path.child("resourceClaims");
    let mut seen = HashSet::new();
    for (index, claim) in at.value.list("resourceClaims").iter().enumerate() {
        let (path, name) = (path.index(index), claim.text("name"));
        if name.is_empty() {
            errors.required(&path.child("name"), "");
        } else if !seen.insert(name) {
            errors.duplicate(&path.child("name"), name);
        } else {
            errors.invalid_all(&path.child("name"), name, label_errors(name));
        }
    }
}

fn claim_has_one_source(at: &At<'_>, errors: &mut Errors) {
    let detail = match (at.value.has("resourceClaimName"), at.value.has("resourceClaimTemplateName")) {
        (true, true) => "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
        (false, false) => "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
        _ => return,
    };
    errors.invalid(at.path, at.value.clone(), detail);
}

/// A container uses the claims of its Pod, each of them or each request of them once.
fn resource_claims_are_used(at: &At<'_>, errors: &mut Errors) {
    let known: HashSet<&str> =
        at.value.list("resourceClaims").iter().map(|claim| claim.text("name")).collect();
    container::each(at.value, &container::LISTS, at.path, |_, item, path| {
        let path = path.child("resources");
        let path = path.child("claims");
        let (mut whole, mut parts, mut divided) = (HashSet::new(), HashSet::new(), HashSet::new());
        for (index, claim) in item.at("resources").list("claims").iter().enumerate() {
            let path = path.index(index);
            let (name, request) = (claim.text("name"), claim.text("request"));
            if name.is_empty() {
                errors.required(&path, "");
                continue;
            }
            if !request.is_empty() {
                errors.invalid_all(&path.child("request"), request, label_errors(request));
            }
            let again = whole.contains(name)
                || !parts.insert((name, request))
                || (request.is_empty() && divided.contains(name));
            if again {
                errors.duplicate(&path, name);
            }
            match request.is_empty() {
                true => whole.insert(name),
                false => divided.insert(name),
            };
            if !known.contains(name) {
                errors.not_found(&path, name);
            }
        }
    });
}
