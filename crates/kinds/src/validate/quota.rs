//! Validation of ResourceQuotas and LimitRanges.
//!
//! Scopes restrict which resources a quota may count: most of them only make sense for Pods and what they request.
//! Scopes are immutable, because usage was counted with them. For a LimitRange, `min`, `defaultRequest`, `default` and
//! `max` must be in that order for each resource. Counting and enforcing are admission plugins of the server, not part
//! of validation.

use std::cmp::Ordering;
use std::collections::HashSet;

use listwatch_wire::json::Value;

use super::resources;
use crate::field::{Errors, Path};
use crate::quantity;
use crate::rules::{self, At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] =
    checks![amounts_are_countable, scopes_fit_the_resources, limits_are_ordered];

/// Objects are counted in whole numbers, and nothing is negative.
fn amounts_are_countable(at: &At<'_>, errors: &mut Errors) {
    for (name, amount) in at.value.as_object().into_iter().flatten() {
        resources::amount(name, amount, &at.path.key(name), errors);
    }
}

/// The scopes of a quota, or of its selector, exist for the resources that it counts, and stay.
fn scopes_fit_the_resources(at: &At<'_>, errors: &mut Errors) {
    let (spec, path) = (at.value, at.path.child("scopes"));
    let set = |spec: &'_ Value| -> HashSet<String> {
        spec.list("scopes").iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    if at.old.is_some_and(|old| set(old) != set(spec)) {
        errors.invalid(&path, spec.at("scopes").clone(), "field is immutable");
    }
    let unfit = |scope: &str| spec.entries("hard").any(|(name, _)| !fits_scope(scope, name));
    let listed = spec.list("scopes").iter().filter_map(Value::as_str);
    let selected = spec.at("scopeSelector").list("matchExpressions").iter();
    let selector = at.path.child("scopeSelector");
    let detail = "unsupported scope applied to resource";
    if listed.into_iter().any(unfit) {
        errors.invalid(&path, spec.at("scopes").clone(), detail);
    }
    if selected.map(|term| term.text("scopeName")).any(unfit) {
        errors.invalid(&selector.child("matchExpressions"), spec.at("scopes").clone(), detail);
    }
}

/// Returns true if a quota with the scope can count the resource.
fn fits_scope(scope: &str, resource: &str) -> bool {
    let of_pods = resource == "pods"
        || ["", "requests.", "limits."].iter().any(|prefix| {
            resource.strip_prefix(prefix).is_some_and(|name| {
                matches!(name, "cpu" | "memory" | "ephemeral-storage") || resources::is_huge_pages(name)
            })
        });
    match scope {
        _ if !rules::form_errors("quota-resource", resource).is_empty() || resource.contains('/') => true,
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => matches!(resource, "requests.storage" | "persistentvolumeclaims"),
        "NotBestEffort"
        | "Terminating"
        | "NotTerminating"
        | "PriorityClass"
        | "CrossNamespacePodAffinity" => of_pods,
        _ => true,
    }
}

/// A ratio below one would contradict every container, and one above the quotient of maximum and minimum could never
/// be reached.
fn limits_are_ordered(at: &At<'_>, errors: &mut Errors) {
    let (limit, path) = (at.value, at.path);
    order(limit, path, errors);
    for (name, ratio) in limit.entries("maxLimitRequestRatio") {
        let ratio = ratio.as_str().unwrap_or_default();
        if quantity::compare(ratio, "1") == Ok(Ordering::Less) {
            let detail = format!("ratio {ratio} is less than 1");
            errors.invalid(&path.child("maxLimitRequestRatio").key(name), ratio, detail);
        }
        let amount = |list: &str| quantity::Quantity::parse(limit.at(list).text(name)).ok();
        let (Some(least), Some(most), Ok(given)) =
            (amount("min"), amount("max"), quantity::Quantity::parse(ratio))
        else {
            continue;
        };
        let bound = most.as_f64() / least.as_f64();
        if given.as_f64() > bound {
            let detail = format!("ratio {ratio} is greater than max/min = {bound:.6}");
            errors.invalid(&path.child("maxLimitRequestRatio").key(name), ratio, detail);
        }
    }
}

/// Pairs of amounts of which the first must not exceed the second, their names, and the one that is reported.
const ORDER: [(&str, &str, &str, &str, &str); 6] = [
    ("min", "max", "min value", "max value", "min"),
    ("min", "defaultRequest", "min value", "default request value", "defaultRequest"),
    ("defaultRequest", "max", "default request value", "max value", "defaultRequest"),
    ("defaultRequest", "default", "default request value", "default limit value", "defaultRequest"),
    ("min", "default", "min value", "default value", "default"),
    ("default", "max", "default value", "max value", "default"),
];

/// Every pair is reported, even if the same amount causes two, as in kube-apiserver.
fn order(limit: &Value, path: &Path<'_>, errors: &mut Errors) {
    // The defaults of Pods are refused as such.
    let counted = |list: &str| limit.text("type") != "Pod" || matches!(list, "min" | "max");
    let pairs = ORDER.iter().filter(|(less, more, ..)| counted(less) && counted(more));
    for (less, more, less_name, more_name, blamed) in pairs {
        for (name, amount) in limit.entries(less) {
            let (amount, bound) = (amount.as_str().unwrap_or_default(), limit.at(more).text(name));
            if !bound.is_empty() && quantity::compare(amount, bound) == Ok(Ordering::Greater) {
                let detail = format!("{less_name} {amount} is greater than {more_name} {bound}");
                errors.invalid(&path.child(blamed).key(name), amount, detail);
            }
        }
    }
}
