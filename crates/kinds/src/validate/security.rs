//! Whom Pods and containers run as, and what they may.

use listwatch_wire::json::Value;

use crate::field::{Errors, Path};
use crate::tree::Tree;

const PROFILES: &[&str] = &["Localhost", "RuntimeDefault", "Unconfined"];

/// The `securityContext` of a Pod.
pub(super) fn pod(context: &Value, path: &Path<'_>, errors: &mut Errors) {
    run_as(context, path, errors);
    let groups = path.child("supplementalGroups");
    for (index, id) in context.list("supplementalGroups").iter().filter_map(Value::as_i64).enumerate() {
        identity(id, &groups.index(index), errors);
    }
    if context.has("fsGroupChangePolicy") {
        let policy = context.text("fsGroupChangePolicy");
        errors.one_of(&path.child("fsGroupChangePolicy"), policy, &["Always", "OnRootMismatch"]);
    }
    seccomp(context.at("seccompProfile"), &path.child("seccompProfile"), errors);
}

/// The `securityContext` of a container.
pub(super) fn container(context: &Value, path: &Path<'_>, errors: &mut Errors) {
    if context.flag("privileged") && context.at("allowPrivilegeEscalation") == &Value::Bool(false) {
        let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        errors.invalid(path, context.clone(), detail);
    }
    run_as(context, path, errors);
    if context.has("procMount") {
        errors.one_of(&path.child("procMount"), context.text("procMount"), &["Default", "Unmasked"]);
    }
    seccomp(context.at("seccompProfile"), &path.child("seccompProfile"), errors);
}

fn run_as(context: &Value, path: &Path<'_>, errors: &mut Errors) {
    for key in ["runAsUser", "runAsGroup", "fsGroup"] {
        if let Some(id) = context.int(key) {
            identity(id, &path.child(key), errors);
        }
    }
}

fn identity(id: i64, path: &Path<'_>, errors: &mut Errors) {
    if !(0..=i64::from(i32::MAX)).contains(&id) {
        errors.invalid(path, id, "must be between 0 and 2147483647, inclusive");
    }
}

fn seccomp(profile: &Value, path: &Path<'_>, errors: &mut Errors) {
    if profile.is_null() {
        return;
    }
    let kind = profile.text("type");
    errors.required_one_of(&path.child("type"), kind, PROFILES);
    if kind == "Localhost" && profile.text("localhostProfile").is_empty() {
        errors.required(&path.child("localhostProfile"), "must be set when seccomp type is Localhost");
    }
    if kind != "Localhost" && profile.has("localhostProfile") {
        let detail = "can only be set when seccomp type is Localhost";
        errors.invalid(&path.child("localhostProfile"), profile.text("localhostProfile"), detail);
    }
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    #[test]
    fn identities_and_profiles_are_checked() {
        let found = |check: fn(&Value, &Path<'_>, &mut Errors), context: Value| -> Vec<String> {
            let mut errors = Errors::new();
            check(&context, &Path::root("s"), &mut errors);
            errors.into_fields()
        };
        assert_eq!(
            found(pod, json!({"runAsUser": -1, "supplementalGroups": [1, -1]})),
            ["s.runAsUser", "s.supplementalGroups[1]"]
        );
        assert_eq!(found(container, json!({"privileged": true, "allowPrivilegeEscalation": false})), ["s"]);
        assert_eq!(
            found(container, json!({"seccompProfile": {"type": "Localhost"}})),
            ["s.seccompProfile.localhostProfile"]
        );
        assert_eq!(found(pod, json!({"seccompProfile": {"type": "Odd"}})), ["s.seccompProfile.type"]);
    }
}
