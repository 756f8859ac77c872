//! Budgets, priorities, leases and roles: small kinds with few rules.

use listwatch_wire::names::label_key_errors;

use super::checks;
use crate::field::Errors;
use crate::rules::{At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] = checks![
    budget_has_one_bound,
    system_priorities_are_reserved,
    priority_stays,
    lease_strategy_is_known,
    rule_is_about_one_thing,
    core_group_is_empty,
];

/// Above this priorities are the system's own.
const MAX_USER_PRIORITY: i64 = 1_000_000_000;

fn budget_has_one_bound(at: &At<'_>, errors: &mut Errors) {
    if at.value.has("minAvailable") && at.value.has("maxUnavailable") {
        let detail = "minAvailable and maxUnavailable cannot be both set";
        errors.invalid(at.path, at.value.clone(), detail);
    }
}

fn system_priorities_are_reserved(at: &At<'_>, errors: &mut Errors) {
    let name = at.value.at("metadata").text("name");
    let value = at.value.int("value").unwrap_or(0);
    if at.old.is_some() {
        return;
    }
    if name.starts_with("system-") {
        let known = matches!(
            (name, value, at.value.flag("globalDefault")),
            ("system-cluster-critical", 2_000_000_000, false)
                | ("system-node-critical", 2_000_001_000, false)
        );
        if !known {
            let path = at.path.child("metadata");
            let detail =
                "priority class names with 'system-' prefix are reserved for system use only. error: ";
            errors.forbidden(&path.child("name"), detail);
        }
    } else if value > MAX_USER_PRIORITY {
        let detail = format!("maximum allowed value of a user defined priority is {MAX_USER_PRIORITY}");
        errors.forbidden(&at.path.child("value"), detail);
    }
}

fn priority_stays(at: &At<'_>, errors: &mut Errors) {
    if at.old.is_some_and(|old| old.as_i64().unwrap_or(0) != at.value.as_i64().unwrap_or(0)) {
        errors.forbidden(at.path, "may not be changed in an update.");
    }
}

/// kube-apiserver repeats the name of the field.
fn lease_strategy_is_known(at: &At<'_>, errors: &mut Errors) {
    let Some(strategy) = at.value.as_str() else { return };
    let path = at.path.child("strategy");
    match strategy.contains('/') {
        false => errors.one_of(&path, strategy, &["OldestEmulationVersion"]),
        true => errors.invalid_all(&path, strategy, label_key_errors(strategy)),
    }
}

fn rule_is_about_one_thing(at: &At<'_>, errors: &mut Errors) {
    let given = at.value.as_array().is_some_and(|urls| !urls.is_empty());
    let mut others = ["apiGroups", "resources", "resourceNames"].into_iter();
    if given && others.any(|key| at.parent.count(key) > 0) {
        let detail = "rules cannot apply to both regular resources and non-resource URLs";
        errors.invalid(at.path, at.value.clone(), detail);
    }
}

fn core_group_is_empty(at: &At<'_>, errors: &mut Errors) {
    if let Some(group) = at.value.as_str().filter(|group| !group.is_empty()) {
        errors.not_supported(at.path, group, &[""]);
    }
}
