//! Changes of a Pod that exists.

use std::collections::{HashMap, HashSet};

use listwatch_wire::json::Value;
use listwatch_wire::names::subdomain_errors;

use super::checks;
use crate::Kind;
use crate::field::{Errors, Path};
use crate::prepare::qos_class;
use crate::rules::{self, At, Check, Part};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] = checks![pod_changes_little];

const FROZEN: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Runs the rules of a Pod's spec, for subresources that change what an ordinary update may not.
pub(super) fn without_freeze(kind: &Kind, new: &Value, errors: &mut Errors) {
    rules::run(kind, Part::Spec, new, None, errors);
}

/// Of a Pod that exists only a few fields may still change.
fn pod_changes_little(at: &At<'_>, errors: &mut Errors) {
    let Some(old) = at.old else { return };
    let path = Path::root("spec");
    let (new, old) = (at.value.at("spec"), old.at("spec"));
    for key in ["containers", "initContainers"] {
        if new.count(key) != old.count(key) {
            errors.forbidden(&path.child(key), "pod updates may not add or remove containers");
            return;
        }
    }
    deadline_change(new, old, &path, errors);
    gates_change(new, old, &path, errors);
    tolerations_change(new, old, &path, errors);
    if frozen(new, old) != *old {
        errors.forbidden(&path, FROZEN);
    }
}

/// Scheduling gates can only be removed.
fn gates_change(new: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    let known: HashSet<&str> = old.list("schedulingGates").iter().map(|gate| gate.text("name")).collect();
    let path = path.child("schedulingGates");
    for (index, gate) in new.list("schedulingGates").iter().enumerate() {
        let name = gate.text("name");
        if !known.contains(name) {
            let detail = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errors.forbidden(&path.index(index).child("name"), detail);
        }
    }
}

fn deadline_change(new: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    const KEY: &str = "activeDeadlineSeconds";
    let Some(before) = old.int(KEY) else { return };
    let path = path.child(KEY);
    match new.int(KEY) {
        None => errors.invalid(&path, Value::Null, "must not update from a positive integer to nil value"),
        Some(after) if after > before => {
            errors.invalid(&path, after, format!("must be less than or equal to previous value: {before}"));
        }
        Some(_) => {}
    }
}

fn tolerations_change(new: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    fn identity(toleration: &Value) -> [&str; 4] {
        ["key", "operator", "value", "effect"].map(|key| toleration.text(key))
    }
    let kept: HashSet<[&str; 4]> = new.list("tolerations").iter().map(identity).collect();
    for _ in old.list("tolerations").iter().filter(|toleration| !kept.contains(&identity(toleration))) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        errors.forbidden(&path.child("tolerations"), detail);
    }
}

/// The new spec with everything that may change set back.
fn frozen(new: &Value, old: &Value) -> Value {
    let mut frozen = new.clone();
    for key in ["containers", "initContainers"] {
        for (item, before) in frozen.each(key).zip(old.list(key)) {
            item.put("image", before.at("image").clone());
        }
    }
    let Some(fields) = frozen.as_object_mut() else { return frozen };
    let mut changeable = vec!["activeDeadlineSeconds", "tolerations", "schedulingGates"];
    if old.int("terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0) {
        changeable.push("terminationGracePeriodSeconds");
    }
    // A gated Pod is not scheduled yet, so where it may go can still be narrowed.
    if old.count("schedulingGates") > 0 {
        changeable.extend(["nodeSelector", "affinity"]);
    }
    for key in changeable {
        match old.fields().and_then(|old| old.get(key)) {
            Some(before) => fields.insert(key.to_owned(), before.clone()),
            None => fields.remove(key),
        };
    }
    frozen
}

/// Ephemeral containers are only ever added.
pub(super) fn ephemeral_containers(new: &Value, old: &Value, errors: &mut Errors) {
    const KEY: &str = "ephemeralContainers";
    let path = Path::root("spec");
    let path = path.child(KEY);
    let now: HashMap<&str, &Value> = new.list(KEY).iter().map(|item| (item.text("name"), item)).collect();
    for before in old.list(KEY) {
        let name = before.text("name");
        match now.get(name).copied() {
            None => errors
                .forbidden(&path, format!("existing ephemeral containers {name:?} may not be removed\n")),
            Some(after) if after != before => {
                errors
                    .forbidden(&path, format!("existing ephemeral containers {name:?} may not be changed\n"));
            }
            Some(_) => {}
        }
    }
}

/// A Pod keeps the quality of service that it was scheduled under.
pub(super) fn resize(new: &Value, old: &Value, errors: &mut Errors) {
    let class = qos_class(new);
    if class != qos_class(old) {
        let detail = "Pod QOS Class may not change as a result of resizing";
        errors.invalid(&Path::root("spec"), class, detail);
    }
}

pub(super) fn status(new: &Value, old: &Value, errors: &mut Errors) {
    let (path, was) = (Path::root("status"), old.at("status"));
    let now = new.at("status");
    if !was.text("nominatedNodeName").is_empty() && !now.text("nominatedNodeName").is_empty() {
        let name = now.text("nominatedNodeName");
        errors.invalid_all(&path.child("nominatedNodeName"), name, subdomain_errors(name));
    }
    if was.has("qosClass") {
        errors.immutable(&path.child("qosClass"), now.at("qosClass"), was.at("qosClass"));
    }
}
