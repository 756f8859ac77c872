//! Validation of the `resize` subresource: changed resources of the containers of a Pod, and of the Pod as a whole.
//!
//! Amounts of CPU and memory may change. Nothing may be added to or taken from the lists of containers, no amount that
//! was set may be removed, and the Pod keeps its quality of service. Ordinary updates are [`super::pod_change`].

use listwatch_wire::json::Value;

use super::freeze::set_back;
use crate::field::{Errors, Path};
use crate::prepare::qos_class;
use crate::tree::Tree;

/// The fields of a container, and of a Pod as a whole, that may change.
const RESIZABLE: [&str; 4] = [
    "resources.requests.cpu",
    "resources.requests.memory",
    "resources.limits.cpu",
    "resources.limits.memory",
];
const MUTABLE: &str = "only cpu and memory resources are mutable";

/// Checks what changes when a Pod is resized.
pub(super) fn resize(new: &Value, old: &Value, errors: &mut Errors) {
    let path = Path::root("spec");
    let running = old.at("status");
    let (new, old) = (new.at("spec"), old.at("spec"));
    if qos_class(new) != qos_class(old) {
        errors.invalid(&path, qos_class(old), "Pod QOS Class may not change as a result of resizing");
    }
    if !is_supported(running) {
        errors.forbidden(&path, "Pod running on node without support for resize");
    }
    whole_pod(new, old, &path, errors);
    let found = errors.count();
    same_containers(new, old, &path, errors);
    if errors.count() > found {
        return;
    }
    for list in ["initContainers", "containers"] {
        each((new, old), list, &path, |now, before, path| {
            amounts_stay(
                now.at("resources"),
                before.at("resources"),
                "resource",
                &path.child("resources"),
                errors,
            );
        });
    }
    only_amounts_change(new, old, &path, errors);
    let free = ["initContainers", "containers", "resources"];
    if errors.count() == found && set_back(new, old, &free) != *old {
        errors.forbidden(&path, MUTABLE);
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
    let place = path.child("resources");
    if before.is_object() && !now.is_object() {
        return errors.forbidden(&place, "pod-level resources cannot be removed");
    }
    amounts_stay(now, before, "pod-level resource", &place, errors);
    if set_back(new, old, &RESIZABLE).at("resources") != before {
        errors.forbidden(path, "only cpu and memory resources are mutable at pod-level");
    }
}

/// Calls back with the containers of a list, their stored forms and their paths.
fn each<'a>(
    (new, old): (&'a Value, &'a Value),
    list: &str,
    path: &Path<'_>,
    mut visit: impl FnMut(&'a Value, &'a Value, &Path<'_>),
) {
    let path = path.child(list);
    for (index, (now, before)) in new.list(list).iter().zip(old.list(list)).enumerate() {
        visit(now, before, &path.index(index));
    }
}

/// Checks that the containers are the same, in the same order.
fn same_containers(new: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    for list in ["containers", "initContainers"] {
        if new.count(list) != old.count(list) {
            errors.forbidden(&path.child(list), format!("{list} may not be added or removed on resize"));
            continue;
        }
        each((new, old), list, path, |now, before, path| {
            if now.text("name") != before.text("name") {
                let detail = format!("{list} may not be renamed or reordered on resize");
                errors.forbidden(&path.child("name"), detail);
            }
        });
    }
}

/// Amounts that were set stay set.
fn amounts_stay(now: &Value, before: &Value, what: &str, path: &Path<'_>, errors: &mut Errors) {
    for list in ["requests", "limits"] {
        if before.entries(list).any(|(name, _)| !now.at(list).has(name)) {
            errors.forbidden(&path.child(list), format!("{what} {list} cannot be removed"));
        }
    }
}

/// Errors about containers are reported at the spec, errors about init containers at the container.
fn only_amounts_change(new: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    each((new, old), "containers", path, |now, before, _| {
        if set_back(now, before, &RESIZABLE) != *before {
            errors.forbidden(path, MUTABLE);
        }
    });
    each((new, old), "initContainers", path, |now, before, path| {
        if set_back(now, before, &RESIZABLE) != *before {
            errors
                .forbidden(path, "only cpu and memory resources for init or sidecar containers are mutable");
        }
        let mut policies = now.list("resizePolicy").iter();
        let restarts = policies.any(|policy| policy.text("restartPolicy") == "RestartContainer");
        if now != before && now.text("restartPolicy") != "Always" && restarts {
            let detail =
                "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
            errors.forbidden(path, detail);
        }
    });
}
