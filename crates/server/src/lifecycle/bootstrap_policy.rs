//! The roles and bindings every cluster has, as data: the bootstrap policy of kube-apiserver 1.37.
//!
//! At each start, missing objects are created, and missing labels, rules, selectors and subjects are added to existing
//! ones, unless they have the annotation `rbac.authorization.kubernetes.io/autoupdate: "false"`. Additions by others
//! are kept.

use listwatch_kinds::tree::Tree;
use listwatch_wire::json::{Value, json};

use crate::auth::rbac::{PolicyRule, uncovered};

/// The bootstrap policy as kube-apiserver 1.37 returns it, without the label and the annotation that mark it.
const POLICY: &str = include_str!("bootstrap_policy.json");
/// Marks objects of the default policy, as in kube-apiserver.
const LABEL: &str = "kubernetes.io/bootstrapping";
/// An administrator sets it to `false` to keep changes of a default role over restarts.
const AUTOUPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// The plural of a kind and one of its objects.
pub(super) fn objects() -> Vec<(&'static str, Value)> {
    // The text is a constant, and a test reads it.
    let policy = Value::read(POLICY.as_bytes()).unwrap_or_default();
    ["clusterroles", "clusterrolebindings", "roles", "rolebindings"]
        .into_iter()
        .flat_map(|plural| policy.list(plural).iter().map(move |object| (plural, marked(object))))
        .collect()
}

/// The object with the label and annotation that mark kube-apiserver's own objects.
fn marked(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(meta) = object.inner("metadata") {
        if let Some(labels) = meta.inner_or_new("labels") {
            labels.put(LABEL, "rbac-defaults");
        }
        meta.put("annotations", json!({AUTOUPDATE: "true"}));
    }
    object
}

/// Returns the stored object with the missing labels, rules and subjects; `None` if nothing is missing or
/// `autoupdate` is off.
///
/// A binding that refers to another role than the default one is left alone: `roleRef` cannot be changed.
pub(super) fn repaired(stored: &Value, wanted: &Value) -> Option<Value> {
    if stored.at("metadata").at("annotations").text(AUTOUPDATE) == "false"
        || stored.at("roleRef") != wanted.at("roleRef")
    {
        return None;
    }
    let mut object = stored.clone();
    for key in ["labels", "annotations"] {
        for (name, value) in wanted.at("metadata").entries(key) {
            let Some(texts) = object.inner("metadata").and_then(|meta| meta.inner_or_new(key)) else {
                continue;
            };
            if !texts.contains_key(name) {
                texts.put(name, value.clone());
            }
        }
    }
    add_rules(&mut object, wanted);
    add_missing(&mut object, wanted, "subjects");
    if wanted.has("aggregationRule")
        && let (Some(rule), wanted) = (object.inner_or_new("aggregationRule"), wanted.at("aggregationRule"))
    {
        let mut selectors = Value::from(rule.clone());
        add_missing(&mut selectors, wanted, "clusterRoleSelectors");
        rule.put("clusterRoleSelectors", selectors.at("clusterRoleSelectors").clone());
    }
    (object != *stored).then_some(object)
}

/// Adds the rules that the stored role does not cover. Additions by others are kept.
fn add_rules(object: &mut Value, wanted: &Value) {
    let rules = |value: &Value| {
        value.at("rules").to_type::<Option<Vec<PolicyRule>>>().ok().flatten().unwrap_or_default()
    };
    let missing = uncovered(&rules(object), &rules(wanted)).unwrap_or_default();
    if missing.is_empty() {
        return;
    }
    let all = rules(object).into_iter().chain(missing);
    let all: Vec<Value> = all.filter_map(|rule| serde_json::to_value(rule).ok()).map(Value::from).collect();
    object.put("rules", all);
}

/// Adds elements that are missing from a list.
fn add_missing(object: &mut Value, wanted: &Value, key: &str) {
    let missing: Vec<Value> =
        wanted.list(key).iter().filter(|item| !object.list(key).contains(item)).cloned().collect();
    if !missing.is_empty() {
        let all: Vec<Value> = object.list(key).iter().cloned().chain(missing).collect();
        object.put(key, all);
    }
}

#[cfg(test)]
mod tests {
    use listwatch_kinds::{by_kind, validate};

    use super::*;

    /// As many as `kubectl get` shows of each kind on kube-apiserver 1.37.
    #[test]
    fn there_are_as_many_as_in_kube_apiserver_and_all_are_valid() {
        let mut counts = std::collections::BTreeMap::new();
        for (plural, object) in objects() {
            let kind = match plural {
                "clusterroles" => "ClusterRole",
                "clusterrolebindings" => "ClusterRoleBinding",
                "roles" => "Role",
                _ => "RoleBinding",
            };
            let kind = by_kind("rbac.authorization.k8s.io", "v1", kind).unwrap();
            assert_eq!(validate::create(kind, &object), [], "{object}");
            *counts.entry(plural).or_insert(0) += 1;
        }
        let expected = [("clusterrolebindings", 54), ("clusterroles", 73), ("rolebindings", 7), ("roles", 7)];
        assert_eq!(counts, expected.into());
    }

    fn of(name: &str) -> Value {
        let named = |(_, object): &(_, Value)| object.at("metadata").text("name") == name;
        objects().into_iter().find(named).unwrap().1
    }

    #[test]
    fn default_roles_regain_missing_rules_and_keep_added_ones() {
        let wanted = of("system:basic-user");
        let mut stored = wanted.clone();
        stored.put("rules", json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]));
        stored.inner("metadata").unwrap().put("labels", json!({"mine": "x"}));
        let repaired = repaired(&stored, &wanted).unwrap();
        assert_eq!(repaired.at("metadata").at("labels"), &json!({"mine": "x", LABEL: "rbac-defaults"}));
        assert_eq!(repaired.at("rules").as_array().unwrap().first(), stored.list("rules").first());
        assert!(super::repaired(&repaired, &wanted).is_none());
    }

    #[test]
    fn a_role_with_autoupdate_false_is_not_reconciled() {
        let wanted = of("view");
        let mut stored = wanted.clone();
        stored.drop_field("aggregationRule");
        assert!(repaired(&stored, &wanted).unwrap().has("aggregationRule"));
        stored.inner("metadata").unwrap().put("annotations", json!({AUTOUPDATE: "false"}));
        assert!(repaired(&stored, &wanted).is_none());
    }

    #[test]
    fn a_binding_that_lost_its_subjects_gets_them_back_unless_it_is_of_another_role() {
        let wanted = of("system:discovery");
        let binding = objects()
            .into_iter()
            .find(|(p, o)| *p == "clusterrolebindings" && o.at("metadata") == wanted.at("metadata"));
        let wanted = binding.unwrap().1;
        let mut stored = wanted.clone();
        stored.put("subjects", json!([]));
        assert_eq!(repaired(&stored, &wanted), Some(wanted.clone()));
        stored.put("roleRef", json!({}));
        assert_eq!(repaired(&stored, &wanted), None);
    }
}
