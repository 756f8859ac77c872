//! Scopes of a ResourceQuota: which objects it is about.
//!
//! All scopes of a quota must match (`Terminating`, `BestEffort`, `PriorityClass`, `CrossNamespacePodAffinity`,
//! `VolumeAttributesClass`). Only Pods and claims are in any scope, so a quota with scopes counts nothing else. An
//! update may move a Pod between scopes; [`super`] then charges the difference.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap, HashSet};

use listwatch_kinds::prepare::qos_class;
use listwatch_kinds::tree::Tree;
use listwatch_wire::json::Value;

use crate::registry::Resource;

/// The scopes of one quota, each once: a quota may repeat them a hundred thousand times, and every object of its namespace is
/// compared with them.
#[derive(Debug, Default)]
pub(crate) struct QuotaScopes {
    /// Scopes that an object is in or not, under any operator.
    plain: BTreeSet<String>,
    /// Scopes that select by the name of a class.
    classes: HashMap<String, ClassSelector>,
}

impl QuotaScopes {
    /// Reads the scopes of the spec of a quota.
    pub(crate) fn of(quota_spec: &Value) -> Self {
        let mut scopes = Self::default();
        for scope in quota_spec.list("scopes").iter().filter_map(Value::as_str) {
            scopes.require(scope, "Exists", &[]);
        }
        for one in quota_spec.at("scopeSelector").list("matchExpressions") {
            scopes.require(one.text("scopeName"), one.text("operator"), one.list("values"));
        }
        scopes
    }

    fn require(&mut self, scope: &str, operator: &str, values: &[Value]) {
        if matches!(scope, "PriorityClass" | "VolumeAttributesClass") {
            self.classes.entry(scope.to_owned()).or_default().require(operator, values);
        } else {
            self.plain.insert(scope.to_owned());
        }
    }

    /// Returns true if all scopes include the object. Only Pods and claims are in any scope.
    pub(crate) fn include(&self, object: &ScopedObject<'_>) -> bool {
        self.plain.iter().all(|scope| object.is_in(scope))
            && self
                .classes
                .iter()
                .all(|(scope, names)| object.class_name(scope).is_some_and(|class| names.selects(class)))
    }
}

/// All requirements of a quota on the name of a class. They differ from those of label selectors: `In` never matches an empty
/// name.
#[derive(Debug, Default)]
struct ClassSelector {
    /// `Exists` or `In`.
    must_exist: bool,
    must_not_exist: bool,
    /// The names that every `In` has.
    within: Option<HashSet<String>>,
    without: HashSet<String>,
    /// An unknown operator.
    selects_nothing: bool,
}

impl ClassSelector {
    fn require(&mut self, operator: &str, values: &[Value]) {
        let names = || values.iter().filter_map(Value::as_str).map(str::to_owned);
        match operator {
            "Exists" => self.must_exist = true,
            "DoesNotExist" => self.must_not_exist = true,
            "In" => {
                self.must_exist = true;
                let mut names: HashSet<String> = names().collect();
                names.retain(|name| self.within.as_ref().is_none_or(|within| within.contains(name)));
                self.within = Some(names);
            }
            "NotIn" => self.without.extend(names()),
            _ => self.selects_nothing = true,
        }
    }

    fn selects(&self, class: &str) -> bool {
        if class.is_empty() {
            return !self.must_exist && !self.selects_nothing;
        }
        !self.must_not_exist
            && !self.selects_nothing
            && self.within.as_ref().is_none_or(|names| names.contains(class))
            && !self.without.contains(class)
    }
}

/// An object as scopes see it. What takes a walk through it is computed once, for all quotas.
#[derive(Debug)]
pub(crate) struct ScopedObject<'a> {
    kind: ScopedKind,
    spec: &'a Value,
    is_best_effort: OnceCell<bool>,
    crosses_namespaces: OnceCell<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScopedKind {
    Pod,
    Claim,
    Other,
}

impl<'a> ScopedObject<'a> {
    pub(crate) fn new(resource: &Resource, object: &'a Value) -> Self {
        let kind = match (&*resource.group, &*resource.plural) {
            ("", "pods") => ScopedKind::Pod,
            ("", "persistentvolumeclaims") => ScopedKind::Claim,
            _ => ScopedKind::Other,
        };
        let spec = object.at("spec");
        Self { kind, spec, is_best_effort: OnceCell::new(), crosses_namespaces: OnceCell::new() }
    }

    /// Returns true for a Pod that is in a scope which has no names.
    fn is_in(&self, scope: &str) -> bool {
        let is_best_effort = || *self.is_best_effort.get_or_init(|| qos_class(self.spec) == "BestEffort");
        self.kind == ScopedKind::Pod
            && match scope {
                "Terminating" => is_terminating(self.spec),
                "NotTerminating" => !is_terminating(self.spec),
                "BestEffort" => is_best_effort(),
                "NotBestEffort" => !is_best_effort(),
                "CrossNamespacePodAffinity" => {
                    *self.crosses_namespaces.get_or_init(|| crosses_namespaces(self.spec.at("affinity")))
                }
                _ => false,
            }
    }

    /// The name of the class that a scope is about; `None` if no object of this kind is in the scope.
    fn class_name(&self, scope: &str) -> Option<&'a str> {
        match (self.kind, scope) {
            (ScopedKind::Pod, "PriorityClass") => Some(self.spec.text("priorityClassName")),
            (ScopedKind::Claim, "VolumeAttributesClass") => Some(self.spec.text("volumeAttributesClassName")),
            _ => None,
        }
    }
}

/// Returns true if a Pod ends by itself.
pub(super) fn is_terminating(spec: &Value) -> bool {
    spec.int("activeDeadlineSeconds").is_some_and(|seconds| seconds >= 0)
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

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    fn pod(spec: &Value) -> ScopedObject<'_> {
        let (is_best_effort, crosses_namespaces) = (OnceCell::new(), OnceCell::new());
        ScopedObject { kind: ScopedKind::Pod, spec, is_best_effort, crosses_namespaces }
    }

    fn of_class(operators: Value, class: &str) -> bool {
        let spec = json!({"scopeSelector": {"matchExpressions": operators}});
        QuotaScopes::of(&spec).include(&pod(&json!({"priorityClassName": class})))
    }

    #[test]
    fn class_names_are_selected_by_all_expressions() {
        let one = |operator: &str, values: &[&str]| json!({"scopeName": "PriorityClass", "operator": operator, "values": values});
        for (expressions, selected) in [
            (json!([one("Exists", &[])]), [false, true, true]),
            (json!([one("DoesNotExist", &[])]), [true, false, false]),
            (json!([one("In", &["a", ""])]), [false, true, false]),
            (json!([one("NotIn", &["a"])]), [true, false, true]),
            (json!([one("In", &["a", "b"]), one("In", &["b"])]), [false, false, true]),
            (json!([one("In", &["a", "b"]), one("NotIn", &["b"])]), [false, true, false]),
            (json!([one("NotIn", &["a"]), one("DoesNotExist", &[])]), [true, false, false]),
            (json!([one("Near", &["a"])]), [false, false, false]),
        ] {
            assert_eq!(
                ["", "a", "b"].map(|class| of_class(expressions.clone(), class)),
                selected,
                "{expressions}"
            );
        }
    }

    #[test]
    fn a_scope_that_is_repeated_is_compared_once() {
        let scopes: Value = (0..1000).map(|_| "BestEffort").collect();
        let spec = json!({"scopes": scopes, "scopeSelector": {"matchExpressions": [
            {"scopeName": "BestEffort", "operator": "Exists"}, {"scopeName": "NotTerminating", "operator": "Exists"}]}});
        let scopes = QuotaScopes::of(&spec);
        assert_eq!(scopes.plain.len(), 2);
        let pods = [json!({}), json!({"activeDeadlineSeconds": 1})];
        assert_eq!(pods.each_ref().map(|spec| scopes.include(&pod(spec))), [true, false]);
    }
}
