//! Validation of the requests and limits of containers and Pods.
//!
//! Quantities have been parsed and made canonical by the type check; what is checked here is their sign, their unit
//! and how requests and limits fit together. Huge pages are special: they are counted in pages, cannot be
//! overcommitted, and need cpu or memory beside them. Amounts of quotas and nodes use [`amount`] as well. Counting
//! the use of resources is the server's (`admission/pod_resources.rs`).

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashSet};

use listwatch_wire::json::{Value, json};
use listwatch_wire::names::label_errors;
use listwatch_wire::status::FieldErrorKind;

use super::{container, each};
use crate::field::{Errors, Path};
use crate::quantity::{self, Quantity};
use crate::rules::{self, At, Check};
use crate::tree::Tree;
use crate::{amounts, names};

pub(super) const CHECKS: &[(&str, Check)] = checks![
    container_resources_are_valid,
    pod_resources_are_valid,
    pod_resources_cover_containers,
    overhead_is_valid,
    resource_claims_are_named,
    resource_claims_are_used
];

/// Checks the resources of a container. The rule about huge pages is newer than objects that break it, so an update
/// is held to it only if the stored object kept it.
fn container_resources_are_valid(at: &At<'_>, errors: &mut Errors) {
    requirements(at.value, "container-resource", at.path, errors);
    // Objects that were stored before this rule existed may keep what they have.
    let mut before = Errors::new();
    if let Some(old) = at.old {
        huge_pages_are_whole(old, at.path, &mut before);
    }
    if before.is_empty() {
        huge_pages_are_whole(at.value, at.path, errors);
    }
}

/// Requires that amounts of huge pages are multiples of the page size, which is in the name of the resource.
fn huge_pages_are_whole(resources: &Value, path: &Path<'_>, errors: &mut Errors) {
    for key in ["limits", "requests"] {
        let path = path.child(key);
        for (name, amount) in resources.entries(key) {
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
    for list in ["limits", "requests"] {
        for (name, _) in at.value.entries(list) {
            let known = matches!(name.as_str(), "cpu" | "memory") || is_huge_pages(name);
            if !known && rules::form_errors("resource-name", name).is_empty() {
                let path = at.path.child(list);
                errors.not_supported(&path.key(name), name, &["cpu", "hugepages-", "memory"]);
            }
        }
    }
    requirements(at.value, "resource-name", at.path, errors);
}

/// Checks that a Pod as a whole asks for enough for its containers, and that none of them may use more than the Pod.
fn pod_resources_cover_containers(at: &At<'_>, errors: &mut Errors) {
    let (own, path) = (at.value.at("resources"), at.path.child("resources"));
    if own.is_null() || at.value.at("os").text("name") == "windows" {
        return;
    }
    for list in ["requests", "limits"] {
        let counts = |name: &str| list == "requests" || is_huge_pages(name);
        for (name, needed) in amounts::of_containers(at.value, list) {
            let given = own.at(list).text(&name);
            if counts(&name) && Quantity::parse(given).is_ok_and(|given| needed > given) {
                let detail =
                    format!("must be greater than or equal to aggregate container {list} of {needed}");
                errors.invalid(&path.child(list).key(&name), given, detail);
            }
        }
    }
    each(at.value, "containers", &path, |container, path| {
        for (name, limit) in container.at("resources").entries("limits") {
            let (limit, most) = (limit.as_str().unwrap_or_default(), own.at("limits").text(name));
            if quantity::compare(limit, most) == Ok(Ordering::Greater) {
                let detail = format!("must be less than or equal to pod limits of {most}");
                errors.invalid(&path.key(name).child("limits"), limit, detail);
            }
        }
    });
}

/// Overhead is a plain list of amounts and is checked like limits.
fn overhead_is_valid(at: &At<'_>, errors: &mut Errors) {
    requirements(&json!({"limits": at.value.clone()}), "container-resource", at.path, errors);
}

/// Limits first, then requests with the comparison, then huge pages: the order of kube-apiserver.
fn requirements(resources: &Value, name_form: &str, path: &Path<'_>, errors: &mut Errors) {
    let (limits, requests) = (path.child("limits"), path.child("requests"));
    for (list, path) in [("limits", &limits), ("requests", &requests)] {
        for (name, amount) in resources.entries(list) {
            errors.invalid_all(&path.key(name), name, rules::form_errors(name_form, name));
            self::amount(name, amount, &path.key(name), errors);
        }
    }
    for (name, amount) in resources.entries("requests") {
        let (asked, most) = (amount.as_str().unwrap_or_default(), resources.at("limits").text(name));
        let order = quantity::compare(asked, most);
        let exact = is_huge_pages(name) || !names::is_native_resource(name);
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
///
/// Zero is allowed everywhere.
pub(super) fn amount(resource: &str, amount: &Value, path: &Path<'_>, errors: &mut Errors) {
    let text = amount.as_str().unwrap_or_default();
    if quantity::compare(text, "0") == Ok(Ordering::Less) {
        errors.invalid(path, text, "must be greater than or equal to 0");
    }
    if is_whole(resource) && is_fractional(text) {
        errors.invalid(path, text, "must be an integer");
    }
}

/// By the suffix of the canonical form: only fractions have one of these.
fn is_fractional(amount: &str) -> bool {
    quantity::canonical(amount).is_ok_and(|amount| amount.ends_with(['m', 'u', 'n']))
}

pub(super) fn is_huge_pages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Resources that come in whole pieces.
fn is_whole(name: &str) -> bool {
    names::is_extended_resource(name)
        || matches!(name, "pods" | "services" | "secrets" | "configmaps" | "resourcequotas")
        || matches!(name, "replicationcontrollers" | "persistentvolumeclaims")
        || matches!(name, "services.nodeports" | "services.loadbalancers")
}

/// A Pod with huge pages only would be of the class BestEffort and could be evicted with its pages in use.
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
    let mut seen = HashSet::new();
    each(at.value, "resourceClaims", at.path, |claim, path| {
        let (name, path) = (claim.text("name"), path.child("name"));
        if name.is_empty() {
            errors.required(&path, "");
        } else if !seen.insert(name) {
            errors.duplicate(&path, name);
        } else {
            errors.invalid_all(&path, name, label_errors(name));
        }
    });
}

/// A container uses the claims of its Pod, each of them or each request of them once.
fn resource_claims_are_used(at: &At<'_>, errors: &mut Errors) {
    let known: BTreeSet<&str> =
        at.value.list("resourceClaims").iter().map(|claim| claim.text("name")).collect();
    claims_are_of_the_pod(at.value, &known, at.path, errors);
    container::each(at.value, &container::LISTS, at.path, |_, item, path| {
        claims_are_of_the_pod(item, &known, path, errors);
    });
}

/// Checks the claims in the resources of a container or of the Pod itself: each is one of the Pod's, and none is named twice.
fn claims_are_of_the_pod(user: &Value, known: &BTreeSet<&str>, path: &Path<'_>, errors: &mut Errors) {
    let (mut whole, mut parts, mut divided) = (HashSet::new(), HashSet::new(), HashSet::new());
    each(user.at("resources"), "claims", &path.child("resources"), |claim, path| {
        let (name, request) = (claim.text("name"), claim.text("request"));
        if name.is_empty() {
            return errors.required(path, "");
        }
        if !request.is_empty() {
            errors.invalid_all(&path.child("request"), request, label_errors(request));
        }
        let again = whole.contains(name) || (request.is_empty() && divided.contains(name));
        if !parts.insert((name, request)) || again {
            errors.duplicate(path, name);
        }
        let seen = if request.is_empty() { &mut whole } else { &mut divided };
        seen.insert(name);
        if !known.contains(name) {
            errors.push(FieldErrorKind::NotFound, path, name.into(), claims_of_the_pod(known));
        }
    });
}

/// The end of the error about a claim that the Pod does not have.
fn claims_of_the_pod(known: &BTreeSet<&str>) -> String {
    let rule = "must be one of the names in pod.spec.resourceClaims";
    if known.is_empty() {
        return format!("{rule} which is empty");
    }
    let names: Vec<&str> = known.iter().copied().collect();
    format!("{rule}: {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;
    use crate::{by_kind, validate};

    /// The fields with errors of a Pod of two containers that ask for one CPU each, with pod-level resources.
    fn fields(own: Value) -> Vec<String> {
        let one = |name: &str| json!({"name": name, "image": "i", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}});
        let mut pod = json!({
            "metadata": {"name": "p", "namespace": "n"},
            "spec": {"containers": [one("a"), one("b")], "resources": own},
        });
        let kind = by_kind("", "v1", "Pod").unwrap();
        crate::defaults::apply(kind, &mut pod);
        (kind.strategy.complete)(&mut pod);
        validate::create(kind, &pod).into_iter().map(|error| error.field).collect()
    }

    #[test]
    fn a_pod_requests_what_its_containers_need() {
        assert_eq!(fields(json!({"requests": {"cpu": "2"}})), [""; 0]);
        assert_eq!(fields(json!({"requests": {"cpu": "1500m"}})), ["spec.resources.requests[cpu]"]);
        let limits = fields(json!({"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}));
        assert_eq!(limits, [""; 0]);
        let limits = fields(json!({"limits": {"cpu": "1"}}));
        assert!(limits.contains(&"spec.resources.containers[0][cpu].limits".to_owned()), "{limits:?}");
    }
}
