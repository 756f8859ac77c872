//! Validation of the `resize` subresource: what the containers of a Pod, and the Pod as a whole, may use from now on.
//!
//! Amounts of CPU and memory may change. Nothing may be added to or taken from the lists of containers, no amount that
//! was set may be removed, and the Pod keeps its quality of service. As for ordinary updates ([`super::pod_change`]), the
//! amounts are set back in a copy and the rest must be equal.

use listwatch_wire::json::{Map, Value};
use listwatch_wire::status::FieldError;

use crate::field::{Errors, Path};
use crate::prepare::qos_class;
use crate::quantity;
use crate::tree::Tree;

const MIRROR: &str = "kubernetes.io/config.mirror";
const LISTS: [&str; 2] = ["initContainers", "containers"];
const AMOUNTS: [&str; 2] = ["cpu", "memory"];

/// Returns the one error about a Pod that cannot be resized at all.
pub(super) fn refused(old: &Value) -> Option<FieldError> {
    let why = if old.at("metadata").at("annotations").has(MIRROR) {
        "static pods cannot be resized"
    } else if old.path(&["spec", "os"]).text("name") == "windows" {
        "windows pods cannot be resized"
    } else {
        return None;
    };
    let mut errors = Errors::new();
    errors.forbidden(&Path::root(""), why);
    errors.into_vec().pop()
}

/// Checks what changes when a Pod is resized.
pub(super) fn resize(new: &Value, old: &Value, errors: &mut Errors) {
    let path = Path::root("spec");
    let running = old.at("status");
    let (new, old) = (new.at("spec"), old.at("spec"));
    if qos_class(new) != qos_class(old) {
        let detail = "Pod QOS Class may not change as a result of resizing";
        errors.invalid(&path, qos_class(old), detail);
    }
    if !is_supported(running) {
        errors.forbidden(&path, "Pod running on node without support for resize");
    }
    whole_pod(new, old, &path, errors);
    if !same_containers(new, old, &path, errors) {
        return;
    }
    if check_containers(new, old, &path, errors) && set_back(new, old) != *old {
        errors.forbidden(&path, "only cpu and memory resources are mutable");
    }
}

/// Returns false if a container runs whose kubelet does not report what it may use.
fn is_supported(status: &Value) -> bool {
    let mut containers = status.list("containerStatuses").iter();
    let running = containers.find(|container| container.at("state").has("running"));
    running.is_none_or(|container| container.has("resources"))
}

/// Checks the resources of the Pod as a whole.
fn whole_pod(new: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (now, before) = (new.at("resources"), old.at("resources"));
    let path = path.child("resources");
    if before.is_object() && !now.is_object() {
        return errors.forbidden(&path, "pod-level resources cannot be removed");
    }
    for list in ["requests", "limits"] {
        if is_removed(now.at(list), before.at(list)) {
            errors.forbidden(&path.child(list), format!("pod-level resource {list} cannot be removed"));
        }
    }
    if !is_alike(now, before) {
        errors.forbidden(&path.above(), "only cpu and memory resources are mutable at pod-level");
    }
}

/// Checks that the containers are the same, in the same order; false if they are not.
fn same_containers(new: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) -> bool {
    let mut same = true;
    for list in ["containers", "initContainers"] {
        let path = path.child(list);
        if new.count(list) != old.count(list) {
            errors.forbidden(&path, format!("{list} may not be added or removed on resize"));
            same = false;
            continue;
        }
        for (index, (now, before)) in new.list(list).iter().zip(old.list(list)).enumerate() {
            if now.text("name") != before.text("name") {
                let detail = format!("{list} may not be renamed or reordered on resize");
                errors.forbidden(&path.index(index).child("name"), detail);
                same = false;
            }
        }
    }
    same
}

/// Checks container by container; true if nothing was wrong.
fn check_containers(new: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) -> bool {
    let mut well = true;
    for list in LISTS {
        let path = path.child(list);
        for (index, (now, before)) in new.list(list).iter().zip(old.list(list)).enumerate() {
            let path = path.index(index);
            let path = path.child("resources");
            for amounts in ["requests", "limits"] {
                if is_removed(now.at("resources").at(amounts), before.at("resources").at(amounts)) {
                    errors.forbidden(&path.child(amounts), format!("resource {amounts} cannot be removed"));
                    well = false;
                }
            }
        }
    }
    for (now, before) in new.list("containers").iter().zip(old.list("containers")) {
        if container_set_back(now, before) != *before {
            errors.forbidden(path, "only cpu and memory resources are mutable");
            well = false;
        }
    }
    well & check_init_containers(new, old, path, errors)
}

fn check_init_containers(new: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) -> bool {
    const LIST: &str = "initContainers";
    let (path, mut well) = (path.child(LIST), true);
    for (index, (now, before)) in new.list(LIST).iter().zip(old.list(LIST)).enumerate() {
        let path = path.index(index);
        if container_set_back(now, before) != *before {
            errors
                .forbidden(&path, "only cpu and memory resources for init or sidecar containers are mutable");
            well = false;
        }
        let mut policies = now.list("resizePolicy").iter();
        let restarts = policies.any(|policy| policy.text("restartPolicy") == "RestartContainer");
        if now != before && now.text("restartPolicy") != "Always" && restarts {
            let detail =
                "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
            errors.forbidden(&path, detail);
            well = false;
        }
    }
    well
}

/// Returns true if an amount that was set is not there any more.
fn is_removed(now: &Value, before: &Value) -> bool {
    before.fields().into_iter().flatten().any(|(name, _)| !now.has(name))
}

/// Returns true if resources differ in nothing but amounts of CPU and memory.
fn is_alike(now: &Value, before: &Value) -> bool {
    let lists = ["requests", "limits"].iter().all(|list| {
        let (now, before) = (other_amounts(now, list), other_amounts(before, list));
        let mut both = now.iter().zip(&before);
        now.len() == before.len() && both.all(|((a, x), (b, y))| a == b && is_same_amount(x, y))
    });
    lists && now.at("claims") == before.at("claims")
}

/// The amounts of a list that are neither CPU nor memory.
fn other_amounts<'a>(resources: &'a Value, list: &str) -> Vec<(&'a str, &'a Value)> {
    let all = resources.entries(list).map(|(name, amount)| (name.as_str(), amount));
    all.filter(|(name, _)| !AMOUNTS.contains(name)).collect()
}

fn is_same_amount(now: &Value, before: &Value) -> bool {
    let (Some(now), Some(before)) = (now.as_str(), before.as_str()) else { return now == before };
    quantity::compare(now, before) == Ok(std::cmp::Ordering::Equal)
}

/// A container with its old amounts of CPU and memory, if that is all that changed in its resources.
fn container_set_back(now: &Value, before: &Value) -> Value {
    let mut back = now.clone();
    if is_alike(now.at("resources"), before.at("resources"))
        && let Some(container) = back.as_object_mut()
    {
        adopt(container, before, "resources");
    }
    back
}

/// The new spec with everything that may change set back.
fn set_back(new: &Value, old: &Value) -> Value {
    let mut back = new.clone();
    if let Some(spec) = back.as_object_mut() {
        for key in LISTS.into_iter().chain(["resources"]) {
            adopt(spec, old, key);
        }
    }
    back
}

fn adopt(into: &mut Map, from: &Value, key: &str) {
    if from.has(key) {
        into.put(key, from.at(key).clone());
    } else {
        into.remove(key);
    }
}
