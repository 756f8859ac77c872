//! How much a namespace, a Pod or a container may use.

use std::cmp::Ordering;
use std::collections::HashSet;

use listwatch_wire::json::Value;
use listwatch_wire::names::label_key_errors;

use super::container::amounts;
use crate::field::{Errors, Path};
use crate::quantity;
use crate::tree::Tree;

const SCOPES: [&str; 7] = [
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
];

pub(super) fn resource_quota(new: &Value, errors: &mut Errors) {
    let (spec, path) = (new.at("spec"), Path::root("spec"));
    let hard = path.child("hard");
    amounts(spec.at("hard"), &hard, errors);
    for (name, _) in spec.entries("hard").filter(|(name, _)| !name.contains('/') && !is_counted(name)) {
        errors.invalid(&hard.key(name), name.as_str(), "must be a standard resource for quota");
    }
    scopes(spec, &path.child("scopes"), errors);
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

fn scopes(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let given: HashSet<&str> = spec.list("scopes").iter().filter_map(Value::as_str).collect();
    for _ in given.iter().filter(|scope| !SCOPES.contains(scope)) {
        errors.invalid(path, spec.at("scopes").clone(), "unsupported scope");
    }
    for pair in [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]] {
        if pair.iter().all(|scope| given.contains(scope)) {
            errors.invalid(path, spec.at("scopes").clone(), "conflicting scopes");
        }
    }
}

pub(super) fn limit_range(new: &Value, errors: &mut Errors) {
    let path = Path::root("spec");
    let limits = path.child("limits");
    let mut seen = HashSet::new();
    for (index, limit) in new.at("spec").list("limits").iter().enumerate() {
        let path = limits.index(index);
        let kind = limit.text("type");
        limit_type(kind, &path.child("type"), errors);
        if !seen.insert(kind) {
            errors.duplicate(&path.child("type"), kind);
        }
        for key in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
            amounts(limit.at(key), &path.child(key), errors);
        }
        for key in
            ["default", "defaultRequest"].into_iter().filter(|key| kind == "Pod" && limit.count(key) > 0)
        {
            errors.forbidden(&path.child(key), "may not be specified when `type` is 'Pod'");
        }
        order(limit, &path, errors);
    }
}

fn limit_type(kind: &str, path: &Path<'_>, errors: &mut Errors) {
    let wrong = label_key_errors(kind);
    if wrong.is_empty()
        && !kind.contains('/')
        && !matches!(kind, "Pod" | "Container" | "PersistentVolumeClaim")
    {
        errors.invalid(path, kind, "must be a standard limit type or fully qualified");
    }
    errors.invalid_all(path, kind, wrong);
}

/// What should not be more than what, how they are called, and which of the two is to blame.
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

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::super::tests::fields;
    use super::*;

    #[test]
    fn limits_are_in_order() {
        let limits = |list: Value| fields(limit_range, json!({"spec": {"limits": list}}));
        let all = json!({"type": "Container", "min": {"cpu": "1"}, "defaultRequest": {"cpu": "1"}, "default": {"cpu": "2"}, "max": {"cpu": "3"}});
        assert_eq!(limits(json!([all])), [""; 0]);
        let wrong = json!({"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}});
        assert_eq!(limits(json!([wrong])), ["spec.limits[0].min[cpu]"]);
        let pod = json!({"type": "Pod", "default": {"cpu": "1"}});
        assert_eq!(limits(json!([pod])), ["spec.limits[0].default"]);
        assert_eq!(
            limits(json!([{"type": "Odd"}, {"type": "Odd"}])),
            ["spec.limits[0].type", "spec.limits[1].type", "spec.limits[1].type"]
        );
    }

    #[test]
    fn quotas_count_what_can_be_counted() {
        let quota = |spec: Value| fields(resource_quota, json!({"spec": spec}));
        assert_eq!(quota(json!({"hard": {"pods": "1", "requests.cpu": "1", "count/a.b": "1"}})), [""; 0]);
        assert_eq!(quota(json!({"hard": {"gold": "1"}})), ["spec.hard[gold]"; 2]);
        assert_eq!(quota(json!({"scopes": ["Terminating", "NotTerminating"]})), ["spec.scopes"]);
    }
}
