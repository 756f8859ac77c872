//! Table columns of Nodes.
//!
//! Roles are labels with the prefix `node-role.kubernetes.io/`, plus the older `kubernetes.io/role`; nothing else knows
//! about roles. Status is the `Ready` condition and whether the node is cordoned. A missing condition is `Unknown` and
//! not `NotReady`.

use std::collections::BTreeSet;

use jiff::Timestamp;
use listwatch_wire::json::Value;

use super::{AGE, KindColumns, NAME, NONE, age_of, name, text, wide};
use crate::tree::Tree;

const ROLE: &str = "node-role.kubernetes.io/";

pub(crate) const NODE: KindColumns = KindColumns {
    columns: &[
        NAME,
        text("Status"),
        text("Roles"),
        AGE,
        text("Version"),
        wide("Internal-IP"),
        wide("External-IP"),
        wide("OS-Image"),
        wide("Kernel-Version"),
        wide("Container-Runtime"),
    ],
    cells: row,
};

/// The columns of a Node. The node reports its versions itself, so a node that never has is `<unknown>`.
fn row(node: &Value, now: Timestamp) -> Vec<Value> {
    let (status, info) = (node.at("status"), node.at("status").at("nodeInfo"));
    let address = |kind: &str| {
        let found = status.list("addresses").iter().find(|address| address.text("type") == kind);
        Value::from(found.map_or(NONE, |address| address.text("address")))
    };
    let known = |key: &str| Value::from(if info.text(key).is_empty() { "<unknown>" } else { info.text(key) });
    let kernel = match (known("kernelVersion"), info.text("architecture")) {
        (kernel, "") => kernel,
        (kernel, architecture) => format!("{} ({architecture})", kernel.as_str().unwrap_or_default()).into(),
    };
    vec![
        name(node),
        state(node).into(),
        roles(node).into(),
        age_of(node, now),
        info.text("kubeletVersion").into(),
        address("InternalIP"),
        address("ExternalIP"),
        known("osImage"),
        kernel,
        known("containerRuntimeVersion"),
    ]
}

/// `SchedulingDisabled` is added for a cordoned node in any condition.
fn state(node: &Value) -> String {
    let ready =
        node.at("status").list("conditions").iter().find(|condition| condition.text("type") == "Ready");
    let mut state = match ready.map(|condition| condition.text("status")) {
        None => "Unknown",
        Some("True") => "Ready",
        Some(_) => "NotReady",
    }
    .to_owned();
    if node.at("spec").flag("unschedulable") {
        state.push_str(",SchedulingDisabled");
    }
    state
}

/// Each role once, sorted.
fn roles(node: &Value) -> String {
    let roles: BTreeSet<_> = node
        .at("metadata")
        .entries("labels")
        .filter_map(|(key, value)| match key.strip_prefix(ROLE) {
            Some(role) if !role.is_empty() => Some(role),
            None if key == "kubernetes.io/role" => value.as_str().filter(|role| !role.is_empty()),
            _ => None,
        })
        .collect();
    if roles.is_empty() { NONE.to_owned() } else { roles.into_iter().collect::<Vec<_>>().join(",") }
}
