//! Validation of changes of a Pod that exists: ordinary updates and ephemeral containers.
//!
//! A kubelet may have started the Pod, so almost everything is immutable. The rule is applied as kube-apiserver does:
//! the fields that may change are set back to their old values in a copy, and the rest must be equal. A Pod with
//! scheduling gates is not scheduled yet; its node selector and node affinity may still be narrowed. The subresource
//! `ephemeralcontainers` has a function of its own, which skips the freeze; `resize` is [`super::pod_resize`].

use std::collections::{HashMap, HashSet};

use listwatch_wire::json::Value;

use super::each;
use super::freeze::set_back;
use crate::Kind;
use crate::field::{Errors, Path};
use crate::prepare::APPARMOR;
use crate::rules::{self, At, Check, ObjectPart};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] = checks![pod_changes_little, pod_annotations_stay];

/// Marks the Pods that a kubelet has made from a file on its node.
const MIRROR: &str = "kubernetes.io/config.mirror";
const FROZEN: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Runs the rules of a Pod's spec, for subresources that change what an ordinary update may not.
pub(super) fn without_freeze(kind: &Kind, new: &Value, errors: &mut Errors) {
    rules::run(kind, ObjectPart::Spec, new, None, errors);
}

fn pod_annotations_stay(at: &At<'_>, errors: &mut Errors) {
    if let Some(old) = at.old {
        annotations_stay(at.value, old, errors);
    }
}

/// Checks the annotations of a Pod at a write to its status, which may carry metadata.
pub(super) fn status_annotations(new: &Value, old: &Value, errors: &mut Errors) {
    annotations_stay(new, old, errors);
    rules::run_variant("core.v1.Pod@status", new, errors);
}

/// The annotations that say where a Pod comes from and how it is confined stay as they are: the rights of kubelets and the
/// security of Pods are decided by them when the Pod is created.
fn annotations_stay(new: &Value, old: &Value, errors: &mut Errors) {
    let metadata = Path::root("metadata");
    let path = metadata.child("annotations");
    let (now, was) = (new.below("metadata.annotations"), old.below("metadata.annotations"));
    let mut refuse = |key: &str, verb: &str| {
        if key.starts_with(APPARMOR) {
            errors.forbidden(&path.key(key), format!("may not {verb} AppArmor annotations"));
        } else if key == MIRROR {
            errors.forbidden(&path.key(key), format!("may not {verb} mirror pod annotation"));
        }
    };
    for (key, value) in was.as_object().into_iter().flatten() {
        if now.at(key) != value {
            refuse(key, "remove or update");
        }
    }
    for (key, _) in now.as_object().into_iter().flatten() {
        if !was.has(key) {
            refuse(key, "add");
        }
    }
}

/// Only a few fields of an existing Pod may change.
fn pod_changes_little(at: &At<'_>, errors: &mut Errors) {
    let Some(old) = at.old else { return };
    let path = Path::root("spec");
    let (new, old) = (at.value.at("spec"), old.at("spec"));
    tolerations_change(new, old, &path, errors);
    gates_change(new, old, &path, errors);
    if old.count("schedulingGates") > 0 {
        gated_pod_change(new, old, &path, errors);
    }
    if changes_what_is_frozen(new, old) {
        errors.forbidden(&path, FROZEN);
    }
}

/// Scheduling gates can only be removed.
fn gates_change(new: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    let known: HashSet<&str> = old.list("schedulingGates").iter().map(|gate| gate.text("name")).collect();
    each(new, "schedulingGates", path, |gate, path| {
        let name = gate.text("name");
        if !known.contains(name) {
            let detail = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errors.forbidden(&path.child("name"), detail);
        }
    });
}

/// A gated Pod is not scheduled yet, so where it may go can still be narrowed.
fn gated_pod_change(new: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    let mut lost =
        old.entries("nodeSelector").filter(|(key, value)| new.at("nodeSelector").at(key) != *value);
    if lost.next().is_some() {
        let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        errors.invalid(&path.child("nodeSelector"), new.at("nodeSelector").clone(), detail);
    }
    const TERMS: &str =
        "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    let place = path.child(TERMS);
    let listed = |spec: &Value| spec.below(TERMS).as_array().cloned().unwrap_or_default();
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

/// Returns true if an update changes a field that no update may change.
fn changes_what_is_frozen(new: &Value, old: &Value) -> bool {
    let mut free = vec!["containers[].image", "initContainers[].image"];
    free.extend(["activeDeadlineSeconds", "tolerations", "schedulingGates"]);
    if old.int("terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0) {
        free.push("terminationGracePeriodSeconds");
    }
    if old.count("schedulingGates") > 0 {
        free.push("nodeSelector");
        // An empty affinity cannot be removed: kube-apiserver distinguishes it from an absent one.
        free.extend((old.count("affinity") > 0 || new.has("affinity")).then_some("affinity.nodeAffinity"));
    }
    set_back(new, old, &free) != *old
}

/// Ephemeral containers are only ever added.
pub(super) fn ephemeral_containers(new: &Value, old: &Value, errors: &mut Errors) {
    const KEY: &str = "ephemeralContainers";
    let path = Path::root("spec.ephemeralContainers");
    let now = new.at("spec").list(KEY);
    let now: HashMap<&str, &Value> = now.iter().map(|item| (item.text("name"), item)).collect();
    for before in old.at("spec").list(KEY) {
        let name = before.text("name");
        let what = match now.get(name).copied() {
            Some(after) if after == before => continue,
            Some(_) => "changed",
            None => "removed",
        };
        errors.forbidden(&path, format!("existing ephemeral containers {name:?} may not be {what}\n"));
    }
}
