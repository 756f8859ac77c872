//! Roles and their bindings.

use listwatch_wire::json::Value;

use crate::field::{Errors, Path};
use crate::names;
use crate::tree::Tree;

const RBAC: &str = "rbac.authorization.k8s.io";

pub(super) fn role(new: &Value, namespaced: bool, errors: &mut Errors) {
    let path = Path::root("rules");
    for (index, rule) in new.list("rules").iter().enumerate() {
        policy_rule(rule, namespaced, &path.index(index), errors);
    }
    let aggregation = Path::root("aggregationRule");
    if new.has("aggregationRule") && new.at("aggregationRule").count("clusterRoleSelectors") == 0 {
        errors.required(
            &aggregation.child("clusterRoleSelectors"),
            "at least one clusterRoleSelector required if aggregationRule is non-nil",
        );
    }
}

fn policy_rule(rule: &Value, namespaced: bool, path: &Path<'_>, errors: &mut Errors) {
    if rule.count("verbs") == 0 {
        errors.required(&path.child("verbs"), "verbs must contain at least one value");
    }
    if rule.count("nonResourceURLs") > 0 {
        let urls = path.child("nonResourceURLs");
        if namespaced {
            errors.invalid(
                &urls,
                rule.at("nonResourceURLs").clone(),
                "namespaced rules cannot apply to non-resource URLs",
            );
        }
        if ["apiGroups", "resources", "resourceNames"].iter().any(|key| rule.count(key) > 0) {
            errors.invalid(
                &urls,
                rule.at("nonResourceURLs").clone(),
                "rules cannot apply to both regular resources and non-resource URLs",
            );
        }
        return;
    }
    if rule.count("apiGroups") == 0 {
        errors.required(&path.child("apiGroups"), "resource rules must supply at least one api group");
    }
    if rule.count("resources") == 0 {
        errors.required(&path.child("resources"), "resource rules must supply at least one resource");
    }
}

pub(super) fn binding(new: &Value, namespaced: bool, errors: &mut Errors) {
    let role = new.at("roleRef");
    let path = Path::root("roleRef");
    errors.one_of(&path.child("apiGroup"), role.text("apiGroup"), &[RBAC]);
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    errors.one_of(&path.child("kind"), role.text("kind"), kinds);
    if role.text("name").is_empty() {
        errors.required(&path.child("name"), "");
    } else {
        errors.invalid_all(
            &path.child("name"),
            role.text("name"),
            names::path_segment(role.text("name"), false),
        );
    }
    let subjects = Path::root("subjects");
    for (index, item) in new.list("subjects").iter().enumerate() {
        subject(item, namespaced, &subjects.index(index), errors);
    }
}

fn subject(subject: &Value, namespaced: bool, path: &Path<'_>, errors: &mut Errors) {
    if subject.text("name").is_empty() {
        errors.required(&path.child("name"), "");
    }
    let group = path.child("apiGroup");
    match subject.text("kind") {
        "ServiceAccount" => {
            errors.one_of(&group, subject.text("apiGroup"), &[""]);
            if !namespaced && subject.text("namespace").is_empty() {
                errors.required(&path.child("namespace"), "");
            }
        }
        "User" | "Group" => errors.one_of(&group, subject.text("apiGroup"), &[RBAC]),
        other => errors.not_supported(&path.child("kind"), other, &["ServiceAccount", "User", "Group"]),
    }
}

pub(super) fn binding_change(new: &Value, old: &Value, errors: &mut Errors) {
    if new.at("roleRef") != old.at("roleRef") {
        errors.invalid(&Path::root("roleRef"), new.at("roleRef").clone(), "cannot change roleRef");
    }
}
