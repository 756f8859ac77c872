//! Containers of a pod spec: their names and ports, together.
//!
//! Single fields of a container are rows of the tables in `rules`; here is what needs all containers of a Pod at
//! once. [`each`] is shared by the other checks of pod specs, so that all of them visit containers in one order,
//! which is the order of errors.

use std::collections::HashSet;

use listwatch_wire::json::Value;

use crate::field::{Errors, Path};
use crate::rules::{At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] = checks![container_names_are_unique, host_ports_are_unique];

/// The lists of containers in a pod spec.
pub(super) const LISTS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// Calls back for each container of the lists, with its path.
pub(super) fn each<'a>(
    spec: &'a Value,
    lists: &[&str],
    path: &Path<'_>,
    mut visit: impl FnMut(&str, &'a Value, &Path<'_>),
) {
    for list in lists {
        super::each(spec, list, path, |container, path| visit(list, container, path));
    }
}

/// Names are unique over all lists of containers.
///
/// Ephemeral containers are compared after the others, so that the one that is added later is blamed.
fn container_names_are_unique(at: &At<'_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    each(at.value, &LISTS, at.path, |list, container, path| {
        let name = container.text("name");
        // An init container without a name repeats a container without one, but not another init container.
        let nameless = name.is_empty() && list == "initContainers";
        let repeated = if nameless { seen.contains(name) } else { !seen.insert(name) };
        if repeated {
            errors.duplicate(&path.child("name"), name);
        }
    });
}

/// Ports that containers take on their node. Init containers run one after the other.
///
/// Two ports clash if number, protocol and host address are the same; `0.0.0.0` and a single address do not, as in
/// kube-apiserver.
fn host_ports_are_unique(at: &At<'_>, errors: &mut Errors) {
    let mut taken = HashSet::new();
    each(at.value, &["containers", "initContainers"], at.path, |list, container, path| {
        let mut alone = HashSet::new();
        let taken = if list == "containers" { &mut taken } else { &mut alone };
        super::each(container, "ports", path, |port, path| {
            let host = port.int("hostPort").unwrap_or(0);
            let place = format!("{}/{}/{host}", port.text("protocol"), port.text("hostIP"));
            if host != 0 && !taken.insert(place.clone()) {
                errors.duplicate(&path.child("hostPort"), place);
            }
        });
    });
}
