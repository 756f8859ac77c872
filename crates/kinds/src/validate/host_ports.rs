//! Ports that containers take on their node.

use std::collections::HashSet;

use listwatch_wire::json::Value;

use crate::field::{Errors, Path};
use crate::tree::Tree;

pub(super) fn check(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let containers = path.child("containers");
    let mut taken = HashSet::new();
    for (index, container) in spec.list("containers").iter().enumerate() {
        conflicts(container, &mut taken, &containers.index(index), errors);
    }
    // These run one after the other.
    let first = path.child("initContainers");
    for (index, container) in spec.list("initContainers").iter().enumerate() {
        conflicts(container, &mut HashSet::new(), &first.index(index), errors);
    }
    if spec.flag("hostNetwork") {
        for (index, container) in spec.list("containers").iter().enumerate() {
            same_as_host(container, &containers.index(index), errors);
        }
    }
}

fn conflicts(container: &Value, taken: &mut HashSet<String>, path: &Path<'_>, errors: &mut Errors) {
    let path = path.child("ports");
    for (index, port) in container.list("ports").iter().enumerate() {
        let Some(number) = port.int("hostPort").filter(|number| *number != 0) else { continue };
        let place = format!("{}/{}/{number}", port.text("protocol"), port.text("hostIP"));
        if !taken.insert(place.clone()) {
            errors.duplicate(&path.index(index).child("hostPort"), place);
        }
    }
}

/// On the network of its node a container has no ports of its own.
fn same_as_host(container: &Value, path: &Path<'_>, errors: &mut Errors) {
    let path = path.child("ports");
    for (index, port) in container.list("ports").iter().enumerate() {
        let number = port.int("hostPort").unwrap_or(0);
        if number != 0 && number != port.int("containerPort").unwrap_or(0) {
            let detail = "must match `containerPort` when `hostNetwork` is true";
            errors.invalid(&path.index(index).child("hostPort"), number, detail);
        }
    }
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    #[test]
    fn a_port_of_a_node_is_taken_once() {
        let ports = |list: Value, host: bool| {
            let spec = json!({"hostNetwork": host, "containers": [{"ports": list}]});
            let mut errors = Errors::new();
            check(&spec, &Path::root("spec"), &mut errors);
            errors.into_vec().iter().map(|e| format!("{} {:?}", e.field, e.kind)).collect::<Vec<_>>()
        };
        let port = |own: i64, host: i64| json!({"containerPort": own, "hostPort": host, "protocol": "TCP"});
        assert_eq!(
            ports(json!([port(80, 80), port(81, 80)]), false),
            ["spec.containers[0].ports[1].hostPort Duplicate"]
        );
        assert_eq!(ports(json!([port(80, 81)]), true), ["spec.containers[0].ports[0].hostPort Invalid"]);
    }
}
