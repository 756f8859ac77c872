//! Validation of ResourceQuotas and LimitRanges.
//!
//! Scopes restrict which resources a quota may count: most of them only make sense for Pods and what they request.
//! Scopes are immutable, because usage was counted with them. For a LimitRange, `min`, `defaultRequest`, `default` and
//! `max` must be in that order for each resource. Counting and enforcing are admission plugins of the server, not part
//! of validation.

use std::cmp::Ordering;
use std::collections::HashSet;

use listwatch_wire::json::Value;
use listwatch_wire::names::label_key_errors;

use super::{checks, resources};
use crate::field::{Errors, Path};
use crate::quantity;
use crate::rules::{At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] =
    checks![quota_resources_are_countable, quota_scopes_are_valid, limit_type_is_known, limits_are_ordered];

const SCOPES: [&str; 7] = [
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
];

fn quota_resources_are_countable(at: &At<'_>, errors: &mut Errors) {
    for (name, amount) in at.value.as_object().into_iter().flatten() {
        let path = at.path.key(name);
        resources::any_name(name, &path, errors);
        if !name.contains('/') && !is_counted(name) {
            errors.invalid(&path, name.as_str(), "must be a standard resource for quota");
        }
        resources::amount(name, amount, &path, errors);
    }
}

fn is_counted(name: &str) -> bool {
    let plain = name.strip_prefix("requests.").or_else(|| name.strip_prefix("limits.")).unwrap_or(name);
    matches!(plain, "cpu" | "memory" | "ephemeral-storage")
        || plain.starts_with("hugepages-")
        || matches!(
            name,
            "requests.storage" | "pods" | "services" | "secrets" | "configmaps" | "resourcequotas"
        )
        || matches!(name, "replicationcontrollers" | "persistentvolumeclaims")
        || matches!(name, "services.nodeports" | "services.loadbalancers")
}

fn quota_scopes_are_valid(at: &At<'_>, errors: &mut Errors) {
    let (spec, path) = (at.value, at.path.child("scopes"));
    let given: Vec<&str> = spec.list("scopes").iter().filter_map(Value::as_str).collect();
    for scope in &given {
        one_scope(scope, spec, &path, &path, errors);
    }
    opposites(&given.into_iter().collect(), spec, &path, errors);
    if let (Some(old), true) = (at.old, at.old.is_some_and(|old| old.at("scopes") != spec.at("scopes"))) {
        let set = |spec: &Value| -> HashSet<String> {
            spec.list("scopes").iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        if set(old) != set(spec) {
            errors.invalid(&path, spec.at("scopes").clone(), "field is immutable");
        }
    }
    if spec.has("scopeSelector") {
        selector(spec, &at.path.child("scopeSelector").child("matchExpressions"), errors);
    }
}

fn one_scope(scope: &str, spec: &Value, path: &Path<'_>, list: &Path<'_>, errors: &mut Errors) {
    if !SCOPES.contains(&scope) {
        errors.invalid(path, spec.at("scopes").clone(), "unsupported scope");
    }
    for (name, _) in spec.entries("hard").filter(|(name, _)| is_counted(name)) {
        if !fits_scope(scope, name) {
            errors.invalid(list, spec.at("scopes").clone(), "unsupported scope applied to resource");
        }
    }
}

/// Which resources a scope can be counted for.
fn fits_scope(scope: &str, resource: &str) -> bool {
    let of_pods = resource == "pods"
        || ["", "requests.", "limits."].iter().any(|prefix| {
            resource.strip_prefix(prefix).is_some_and(|name| {
                matches!(name, "cpu" | "memory" | "ephemeral-storage") || resources::is_huge_pages(name)
            })
        });
    match scope {
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

fn opposites(given: &HashSet<&str>, spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    for pair in [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]] {
        if pair.iter().all(|scope| given.contains(scope)) {
            errors.invalid(path, spec.at("scopes").clone(), "conflicting scopes");
        }
    }
}

/// kube-apiserver does not say which expression it means.
fn selector(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let mut given = HashSet::new();
    for term in spec.at("scopeSelector").list("matchExpressions") {
        let (scope, operator, values) = (term.text("scopeName"), term.text("operator"), term.count("values"));
        one_scope(scope, spec, &path.child("scopeName"), path, errors);
        if !matches!(scope, "PriorityClass" | "VolumeAttributesClass")
            && SCOPES.contains(&scope)
            && operator != "Exists"
        {
            errors.invalid(&path.child("operator"), operator, "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity");
        }
        match operator {
            "In" | "NotIn" if values == 0 => {
                let detail =
                    "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                errors.required(&path.child("values"), detail);
            }
            "Exists" | "DoesNotExist" if values > 0 => {
                let detail =
                    "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                errors.invalid(&path.child("values"), term.at("values").clone(), detail);
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => errors.invalid(&path.child("operator"), other, "not a valid selector operator"),
        }
        given.insert(scope);
    }
    opposites(&given, spec, path, errors);
}

fn limit_type_is_known(at: &At<'_>, errors: &mut Errors) {
    let kind = at.value.as_str().unwrap_or_default();
    let wrong = label_key_errors(kind);
    if wrong.is_empty()
        && !kind.contains('/')
        && !matches!(kind, "Pod" | "Container" | "PersistentVolumeClaim")
    {
        errors.invalid(at.path, kind, "must be a standard limit type or fully qualified");
    }
    errors.invalid_all(at.path, kind, wrong);
}

fn limits_are_ordered(at: &At<'_>, errors: &mut Errors) {
    let (limit, path) = (at.value, at.path);
    let kind = limit.text("type");
    let name_rule =
        if matches!(kind, "Pod" | "Container") { resources::container_name } else { resources::any_name };
    for key in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
        let of_pod = kind == "Pod" && key.starts_with("default");
        if of_pod && limit.count(key) > 0 {
            errors.forbidden(&path.child(key), "may not be specified when `type` is 'Pod'");
        }
        for (name, _) in limit.entries(key).filter(|_| !of_pod) {
            name_rule(name, &path.child(key).key(name), errors);
        }
    }
    if kind == "PersistentVolumeClaim" && !limit.at("min").has("storage") && !limit.at("max").has("storage") {
        let detail = "either minimum or maximum storage value is required, but neither was provided";
        errors.required(&path.child("limits"), detail);
    }
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

fn order(limit: &Value, path: &Path<'_>, errors: &mut Errors) {
    for (less, more, less_name, more_name, blamed) in ORDER {
        for (name, amount) in limit.entries(less) {
            let (amount, bound) = (amount.as_str().unwrap_or_default(), limit.at(more).text(name));
            if !bound.is_empty() && quantity::compare(amount, bound) == Ok(Ordering::Greater) {
                let detail = format!("{less_name} {amount} is greater than {more_name} {bound}");
                errors.invalid(&path.child(blamed).key(name), amount, detail);
            }
        }
    }
}
