//! Scopes of a ResourceQuota: which objects it is about.
//!
//! All scopes of a quota must match (`Terminating`, `BestEffort`, `PriorityClass`, `CrossNamespacePodAffinity`,
//! `VolumeAttributesClass`). Only Pods and claims are in any scope, so a quota with scopes counts nothing else. An
//! update may move a Pod between scopes; [`super`] then charges the difference.

use listwatch_kinds::prepare::qos_class;
use listwatch_kinds::tree::Tree;
use listwatch_wire::json::Value;

use crate::registry::Resource;

/// Returns true if all scopes of a quota include the object. Only Pods and claims are in any scope.
pub(crate) fn is_in_scope(quota_spec: &Value, resource: &Resource, object: &Value) -> bool {
    let is = |plural: &str| resource.group.is_empty() && &*resource.plural == plural;
    let matches = |name: &str, operator: &str, values: &[Value]| {
        if is("pods") {
            pod_matches(object.at("spec"), name, operator, values)
        } else {
            is("persistentvolumeclaims")
                && name == "VolumeAttributesClass"
                && selects(object.at("spec").text("volumeAttributesClassName"), operator, values)
        }
    };
    let plain = quota_spec.list("scopes").iter().filter_map(Value::as_str);
    let selected = quota_spec.at("scopeSelector").list("matchExpressions");
    plain.into_iter().all(|scope| matches(scope, "Exists", &[]))
        && selected.iter().all(|one| matches(one.text("scopeName"), one.text("operator"), one.list("values")))
}

/// Returns true if a Pod ends by itself.
pub(super) fn is_terminating(spec: &Value) -> bool {
    spec.int("activeDeadlineSeconds").is_some_and(|seconds| seconds >= 0)
}

/// True if a Pod is within a scope. The operator and the values count for `PriorityClass` only; the other scopes are
/// yes or no.
fn pod_matches(spec: &Value, scope: &str, operator: &str, values: &[Value]) -> bool {
    match scope {
        "Terminating" => is_terminating(spec),
        "NotTerminating" => !is_terminating(spec),
        "BestEffort" => qos_class(spec) == "BestEffort",
        "NotBestEffort" => qos_class(spec) != "BestEffort",
        "PriorityClass" => selects(spec.text("priorityClassName"), operator, values),
        "CrossNamespacePodAffinity" => crosses_namespaces(spec.at("affinity")),
        _ => false,
    }
}

/// The semantics of scope selectors, which differ from those of label selectors: `In` never matches an empty name.
fn selects(name: &str, operator: &str, values: &[Value]) -> bool {
    let listed = values.iter().any(|value| value == name);
    match operator {
        "Exists" => !name.is_empty(),
        "DoesNotExist" => name.is_empty(),
        "In" => !name.is_empty() && listed,
        "NotIn" => name.is_empty() || !listed,
        _ => false,
    }
}

/// A term with a namespace selector or with explicit namespaces counts, even if it names the Pod's own.
fn crosses_namespaces(affinity: &Value) -> bool {
    let crosses = |term: &Value| term.count("namespaces") > 0 || term.has("namespaceSelector");
    ["podAffinity", "podAntiAffinity"].iter().any(|key| {
        let terms = affinity.at(key);
        let weighted = terms.list("preferredDuringSchedulingIgnoredDuringExecution").iter();
        terms.list("requiredDuringSchedulingIgnoredDuringExecution").iter().any(crosses)
            || weighted.map(|term| term.at("podAffinityTerm")).any(crosses)
    })
}
