//! What containers ask for and are limited to.

use std::cmp::Ordering;

use listwatch_wire::json::Value;
use listwatch_wire::names::label_key_errors;

use super::container::is_standard_resource;
use crate::field::{Errors, Path};
use crate::quantity;
use crate::tree::Tree;

/// Checks the `resources` of a container.
pub(super) fn check(resources: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (limits, requests) = (path.child("limits"), path.child("requests"));
    amounts(resources.at("limits"), &limits, errors);
    for (name, amount) in resources.entries("requests") {
        let asked = amount.as_str().unwrap_or_default();
        one(name, asked, &requests.key(name), errors);
        let most = resources.at("limits").text(name);
        let order = quantity::compare(asked, most);
        let exact = !may_overcommit(name);
        if exact && most.is_empty() {
            errors.required(&limits, "Limit must be set for non overcommitable resources");
        } else if exact && matches!(order, Ok(Ordering::Less | Ordering::Greater)) {
            errors.invalid(&requests, asked, format!("must be equal to {name} limit of {most}"));
        } else if order == Ok(Ordering::Greater) {
            errors.invalid(&requests, asked, format!("must be less than or equal to {name} limit of {most}"));
        }
    }
    huge_pages_alone(resources, path, errors);
}

fn amounts(amounts: &Value, path: &Path<'_>, errors: &mut Errors) {
    for (name, amount) in amounts.as_object().into_iter().flatten() {
        one(name, amount.as_str().unwrap_or_default(), &path.key(name), errors);
    }
}

/// Checks the name of something a container may ask for.
pub(super) fn name(name: &str, path: &Path<'_>, errors: &mut Errors) {
    errors.invalid_all(path, name, label_key_errors(name));
    if !name.contains('/') {
        if !is_standard_resource(name) {
            errors.invalid(path, name, "must be a standard resource type or fully qualified");
        }
        if !is_of_containers(name) {
            errors.invalid(path, name, "must be a standard resource for containers");
        }
    }
}

fn one(resource: &str, amount: &str, path: &Path<'_>, errors: &mut Errors) {
    name(resource, path, errors);
    if quantity::compare(amount, "0") == Ok(Ordering::Less) {
        errors.invalid(path, amount, "must be greater than or equal to 0");
    }
    if is_extended(resource) && is_fractional(amount) {
        errors.invalid(path, amount, "must be an integer");
    }
}

fn is_fractional(amount: &str) -> bool {
    quantity::canonical(amount).is_ok_and(|amount| amount.ends_with(['m', 'u', 'n']))
}

fn is_of_containers(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage") || is_huge_pages(name)
}

fn is_huge_pages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Resources that somebody else knows how to count, such as devices.
fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/")
}

/// Whether a container may use more than it asked for.
fn may_overcommit(name: &str) -> bool {
    !is_huge_pages(name) && !is_extended(name)
}

fn huge_pages_alone(resources: &Value, path: &Path<'_>, errors: &mut Errors) {
    let has = |wanted: fn(&str) -> bool| {
        ["limits", "requests"].iter().any(|key| resources.entries(key).any(|(name, _)| wanted(name)))
    };
    if has(is_huge_pages) && !has(|name| matches!(name, "cpu" | "memory")) {
        errors.forbidden(path, "HugePages require cpu or memory");
    }
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    #[test]
    fn requests_fit_limits_and_names_are_known() {
        let found = |resources: Value| -> Vec<String> {
            let mut errors = Errors::new();
            check(&resources, &Path::root("r"), &mut errors);
            errors.into_vec().iter().map(|error| format!("{} {:?}", error.field, error.kind)).collect()
        };
        assert_eq!(
            found(json!({"limits": {"cpu": "1"}, "requests": {"cpu": "500m", "memory": "1Gi"}})),
            [""; 0]
        );
        assert_eq!(found(json!({"limits": {"cpu": "1"}, "requests": {"cpu": "2"}})), ["r.requests Invalid"]);
        assert_eq!(found(json!({"limits": {"gold": "1"}})), ["r.limits[gold] Invalid"; 2]);
        assert_eq!(found(json!({"limits": {"storage": "1"}})), ["r.limits[storage] Invalid"]);
        assert_eq!(found(json!({"requests": {"x.y/gpu": "1"}})), ["r.limits Required"]);
        assert_eq!(
            found(json!({"limits": {"x.y/gpu": "2"}, "requests": {"x.y/gpu": "1"}})),
            ["r.requests Invalid"]
        );
        assert_eq!(found(json!({"limits": {"x.y/gpu": "500m"}})), ["r.limits[x.y/gpu] Invalid"]);
        assert_eq!(found(json!({"limits": {"hugepages-2Mi": "2Mi"}})), ["r Forbidden"]);
    }
}
