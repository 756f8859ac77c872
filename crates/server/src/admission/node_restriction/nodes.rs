//! NodeRestriction for Nodes and objects named after a node: Leases, CSINodes, ResourceSlices.
//!
//! A kubelet may change its own Node but not attract Pods to it: taints, owner references and labels with the prefix
//! `node-restriction.kubernetes.io/` or in other reserved `kubernetes.io` domains are off limits. The labels it may
//! set are kube-apiserver's list. Messages are kube-apiserver's. Which requests reach this file is decided in
//! [`super`].

use std::collections::BTreeSet;

use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::go::quote;
use listwatch_wire::json::Value;

use super::{ByNode, Operation, same};
use crate::auth::node::LEASES;

/// Labels of Kubernetes' own that a kubelet sets on its Node.
const KUBELET_LABELS: [&str; 11] = [
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];

/// A Node is changed by its own kubelet only, which cannot draw to itself the Pods that others keep away from it.
pub(super) fn admit(by: &ByNode<'_>) -> Result<(), Status> {
    let node = quote(by.node);
    let name = by.name();
    by.require(name == by.node, || format!("node {node} is not allowed to modify node {}", quote(name)))?;
    match by.request.operation {
        Operation::Create => admit_new(by, &node),
        Operation::Update => admit_changed(by, &node),
        Operation::Delete | Operation::Connect => Ok(()),
    }
}

/// Taints are allowed at creation: a kubelet registers with the taints of its configuration, and they only keep Pods
/// away.
fn admit_new(by: &ByNode<'_>, node: &str) -> Result<(), Status> {
    let configured = by.object.at("spec").has("configSource");
    by.require(!configured, || {
        format!("node {node} is not allowed to create pods with a non-nil configSource")
    })?;
    let forbidden = forbidden_labels(by.object, &Value::Null);
    by.require(forbidden.is_empty(), || {
        format!("node {node} is not allowed to set the following labels: {}", join(&forbidden))
    })
}

/// An update of the kubelet's own Node may not change taints, owners or reserved labels.
fn admit_changed(by: &ByNode<'_>, node: &str) -> Result<(), Status> {
    let old = by.request.old.unwrap_or(&Value::Null);
    let (spec, before) = (by.object.at("spec"), old.at("spec"));
    let source = spec.at("configSource");
    by.require(source.is_null() || source == before.at("configSource"), || {
        format!("node {node} is not allowed to update configSource to a new non-nil configSource")
    })?;
    by.require(same(spec.at("taints"), before.at("taints")), || {
        format!("node {node} is not allowed to modify taints")
    })?;
    let owners = |value: &Value| value.at("metadata").at("ownerReferences").clone();
    by.require(same(&owners(by.object), &owners(old)), || {
        format!("node {node} is not allowed to modify ownerReferences")
    })?;
    let forbidden = forbidden_labels(by.object, old);
    by.require(forbidden.is_empty(), || format!("is not allowed to modify labels: {}", join(&forbidden)))
}

/// A kubelet writes only the Lease with its node's name in `kube-node-lease`: its heartbeat. Another one would keep a
/// dead node alive.
pub(super) fn admit_lease(by: &ByNode<'_>) -> Result<(), Status> {
    by.require(by.request.namespace == LEASES, || {
        format!("can only access leases in the {} system namespace", quote(LEASES))
    })?;
    by.require(by.name() == by.node, || {
        "can only access node lease with the same name as the requesting node".to_owned()
    })
}

/// A kubelet writes only its own CSINode. Its status needs a feature that is off.
pub(super) fn admit_csi_node(by: &ByNode<'_>) -> Result<(), Status> {
    by.require(by.name() == by.node, || {
        "can only access CSINode with the same name as the requesting node".to_owned()
    })?;
    let plain = by.request.subresource != "status";
    by.require(plain, || "CSIVolumeHealth feature gate is disabled".to_owned())
}

/// A kubelet creates and deletes ResourceSlices of its own node only. Updates need no check: `nodeName` is immutable.
pub(super) fn admit_slice(by: &ByNode<'_>) -> Result<(), Status> {
    let (slice, verb) = match by.request.operation {
        Operation::Create => (by.object, "create"),
        Operation::Delete => (by.request.old.unwrap_or(&Value::Null), "delete"),
        Operation::Update | Operation::Connect => return Ok(()),
    };
    by.require(slice.at("spec").text("nodeName") == by.node, || {
        format!("can only {verb} ResourceSlice with the same NodeName as the requesting node")
    })
}

/// The labels that differ and that a kubelet must not touch, in order.
fn forbidden_labels<'a>(new: &'a Value, old: &'a Value) -> BTreeSet<&'a str> {
    let labels = |object: &'a Value| object.at("metadata").at("labels");
    let (after, before) = (labels(new), labels(old));
    let keys = [new, old].into_iter().flat_map(|object| object.at("metadata").entries("labels"));
    let changed = keys.map(|(key, _)| key.as_str()).filter(|key| after.at(key) != before.at(key));
    changed.filter(|key| is_forbidden(key)).collect()
}

/// Sorted, so that a message is the same each time.
fn join(labels: &BTreeSet<&str>) -> String {
    labels.iter().copied().collect::<Vec<_>>().join(", ")
}

/// Labels without a domain, or with one outside of `kubernetes.io` and `k8s.io`, belong to the administrator and may
/// be set.
fn is_forbidden(label: &str) -> bool {
    let domain = label.split_once('/').map_or("", |(domain, _)| domain);
    let within =
        |parent: &str| domain.strip_suffix(parent).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    let of_kubernetes = within("kubernetes.io") || within("k8s.io");
    let of_kubelets =
        KUBELET_LABELS.contains(&label) || within("kubelet.kubernetes.io") || within("node.kubernetes.io");
    within("node-restriction.kubernetes.io") || (of_kubernetes && !of_kubelets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubelet_sets_only_its_own_labels_of_kubernetes() {
        for label in [
            "app",
            "example.com/pool",
            "notkubernetes.io/x",
            "kubernetes.io/hostname",
            "node.kubernetes.io/anything",
            "a.node.kubernetes.io/x",
            "kubelet.kubernetes.io/x",
        ] {
            assert!(!is_forbidden(label), "{label}");
        }
        for label in [
            "node-restriction.kubernetes.io/x",
            "team.node-restriction.kubernetes.io/x",
            "kubernetes.io/x",
            "node-role.kubernetes.io/control-plane",
            "k8s.io/x",
            "a.k8s.io/x",
            "mynode.kubernetes.io/x",
        ] {
            assert!(is_forbidden(label), "{label}");
        }
    }
}
