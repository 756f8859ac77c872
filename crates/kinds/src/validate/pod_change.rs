//! Validation of changes of a Pod that exists: ordinary updates and ephemeral containers.
//!
//! A kubelet may have started the Pod, so almost everything is immutable. The rule is applied as kube-apiserver does:
//! the fields that may change are set back to their old values in a copy, and the rest must be equal. A Pod with
//! scheduling gates is not scheduled yet; its node selector and node affinity may still be narrowed. The subresource
//! `ephemeralcontainers` has a function of its own, which skips the freeze; `resize` is [`super::pod_resize`].

use std::collections::{HashMap, HashSet};

use listwatch_wire::json::{Map, Value};

use crate::Kind;
use crate::field::{Errors, Path};
use crate::rules::{self, At, Check, ObjectPart};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] = checks![pod_changes_little];

const FROZEN: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Runs the rules of a Pod's spec, for subresources that change what an ordinary update may not.
pub(super) fn without_freeze(kind: &Kind, new: &Value, errors: &mut Errors) {
    rules::run(kind, ObjectPart::Spec, new, None, errors);
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
    if !deadline_change(new, old, &path, errors) {
        return;
    }
    tolerations_change(new, old, &path, errors);
    gates_change(new, old, &path, errors);
    if old.count("schedulingGates") > 0 {
        gated_pod_change(new, old, &path, errors);
    }
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

/// False if the deadline is one that nothing more is said about.
fn deadline_change(new: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) -> bool {
    const KEY: &str = "activeDeadlineSeconds";
    let (path, before) = (path.child(KEY), old.int(KEY));
    match (new.int(KEY), before) {
        (Some(after), _) if !(0..=i64::from(i32::MAX)).contains(&after) => {
            let detail = format!("must be between 0 and {}, inclusive", i32::MAX);
            errors.invalid(&path, after, detail);
            return false;
        }
        (Some(after), Some(before)) if after > before => {
            errors.invalid(&path, after, "must be less than or equal to previous value");
            return false;
        }
        (None, Some(_)) => {
            errors.invalid(&path, Value::Null, "must not update from a positive integer to nil value");
        }
        _ => {}
    }
    true
}

/// A gated Pod is not scheduled yet, so where it may go can still be narrowed.
fn gated_pod_change(new: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    let mut lost =
        old.entries("nodeSelector").filter(|(key, value)| new.at("nodeSelector").at(key) != *value);
    if lost.next().is_some() {
        let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        errors.invalid(&path.child("nodeSelector"), new.at("nodeSelector").clone(), detail);
    }
    const KEYS: [&str; 4] =
        ["affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"];
    let (affinity, required) = (path.child("affinity"), KEYS[2]);
    let affinity = affinity.child("nodeAffinity");
    let place = affinity.child(required);
    let place = place.child("nodeSelectorTerms");
    let listed = |spec: &Value| spec.path(&KEYS).as_array().cloned().unwrap_or_default();
    let (now, before) = (listed(new), listed(old));
    if !before.is_empty() && before.len() != now.len() {
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        errors.invalid(&place, now, detail);
        return;
    }
    for (index, (now, before)) in now.iter().zip(&before).enumerate() {
        if !only_adds(now, before) {
            let detail = "only additions are allowed (no mutations or deletions)";
            errors.invalid(&place.index(index), now.clone(), detail);
        }
    }
}

/// A term that selected everything may not begin to select, since that would be a change and no narrowing.
fn only_adds(now: &Value, before: &Value) -> bool {
    const LISTS: [&str; 2] = ["matchExpressions", "matchFields"];
    if LISTS.iter().all(|list| before.count(list) == 0) {
        return LISTS.iter().all(|list| now.count(list) == 0);
    }
    LISTS.iter().all(|list| now.list(list).starts_with(before.list(list)))
}

/// Only `tolerationSeconds` may change, and tolerations may be added: taking one away could evict the Pod.
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
    if old.count("schedulingGates") > 0 {
        changeable.push("nodeSelector");
        set_back_node_affinity(fields, old);
    }
    for key in changeable {
        match old.fields().and_then(|old| old.get(key)) {
            Some(before) => fields.insert(key.to_owned(), before.clone()),
            None => fields.remove(key),
        };
    }
    frozen
}

/// Also restores the absence of an affinity, so that a Pod which gets its first one compares equal.
fn set_back_node_affinity(spec: &mut Map, old: &Value) {
    let before = old.at("affinity");
    if before.has("nodeAffinity") {
        if let Some(affinity) = spec.inner_or_new("affinity") {
            affinity.put("nodeAffinity", before.at("nodeAffinity").clone());
        }
    } else if let Some(affinity) = spec.inner("affinity") {
        affinity.remove("nodeAffinity");
        if affinity.is_empty() && before.is_null() {
            spec.remove("affinity");
        }
    }
}

/// Ephemeral containers are only ever added.
pub(super) fn ephemeral_containers(new: &Value, old: &Value, errors: &mut Errors) {
    const KEY: &str = "ephemeralContainers";
    let (new, old) = (new.at("spec"), old.at("spec"));
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
