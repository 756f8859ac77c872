//! [`NodeAuthorizer`]: the permissions of kubelets.
//!
//! A kubelet (`system:node:<name>` in the group `system:nodes`) may read what the Pods on its node need and nothing else: the
//! [`graph`] has these objects, [`references`] reads them from Pods and volumes, [`follow`] keeps the graph in step with the
//! cache. Checks that need the body of a request are in the admission plugin NodeRestriction.

mod follow;
mod graph;
pub(crate) mod references;

use std::sync::Arc;

use parking_lot::RwLock;

use self::graph::{NodeGraph, NodeObjectKind, Vertex};
use crate::auth::rbac::{PolicyRule, RoleRef};
use crate::auth::{Authorizer, AuthorizerAttributes, Decision, User};
use crate::cache::Cache;

/// The verbs on objects that the Pods of a node need. A list or watch must name one object, which kubelets do by a
/// field selector on `metadata.name`.
const READ: &[&str] = &["get", "list", "watch"];
/// The verbs on a kubelet's own Lease and CSINode.
const OWN: &[&str] = &["get", "create", "update", "patch", "delete"];

/// The namespace of the Leases that kubelets renew.
pub(crate) const LEASES: &str = "kube-node-lease";

/// The permissions of every kubelet, independent of its Pods: group, resource, verbs.
const GENERAL: [(&str, &str, &[&str]); 11] = [
    ("authentication.k8s.io", "tokenreviews", &["create"]),
    ("authorization.k8s.io", "subjectaccessreviews", &["create"]),
    ("authorization.k8s.io", "localsubjectaccessreviews", &["create"]),
    ("", "services", READ),
    ("", "events", &["create", "update", "patch"]),
    ("events.k8s.io", "events", &["create", "update", "patch"]),
    ("", "endpoints", &["get"]),
    ("certificates.k8s.io", "certificatesigningrequests", &["create", "get", "list", "watch"]),
    ("certificates.k8s.io", "clustertrustbundles", READ),
    ("storage.k8s.io", "csidrivers", READ),
    ("node.k8s.io", "runtimeclasses", READ),
];

/// The node whose kubelet a user is; empty if it is one that names no node.
pub(crate) fn node_of(user: &User) -> Option<&str> {
    let node = user.name.strip_prefix("system:node:")?;
    user.is_in("system:nodes").then_some(node)
}

/// Decides for kubelets, and has no opinion about others.
/// In kube-apiserver the same decisions come from a graph with an edge per reference, which is searched on each
/// request.
#[derive(Debug, Default)]
#[doc(alias = "node.NodeAuthorizer")]
pub struct NodeAuthorizer {
    /// Read by every request of a kubelet, written by the task that feeds the cache.
    graph: RwLock<NodeGraph>,
}

impl NodeAuthorizer {
    /// Follows the objects of this cache that belong to nodes.
    #[must_use]
    pub fn new(cache: &Cache) -> Arc<Self> {
        let authorizer = Arc::new(Self::default());
        follow::start(cache, &authorizer);
        authorizer
    }

    /// Decides by resource. `Err` is the reason in the 403, empty where kube-apiserver has none.
    fn decide(&self, node: &str, wanted: &AuthorizerAttributes<'_>) -> Result<(), String> {
        match (wanted.group, wanted.resource) {
            (_, "") => refuse(""),
            ("", "secrets") => self.read(node, NodeObjectKind::Secret, wanted),
            ("", "configmaps") => self.read(node, NodeObjectKind::ConfigMap, wanted),
            ("", "persistentvolumeclaims") if wanted.subresource == "status" => {
                self.claim_status(node, wanted)
            }
            ("", "persistentvolumeclaims") => self.get(node, NodeObjectKind::PersistentVolumeClaim, wanted),
            ("", "persistentvolumes") => self.get_volume(node, wanted),
            ("", "serviceaccounts") => self.service_account(node, wanted),
            ("", "nodes") => own_node(node, wanted),
            ("", "pods") => self.pod(node, wanted),
            ("resource.k8s.io", "resourceclaims") => self.get(node, NodeObjectKind::ResourceClaim, wanted),
            ("resource.k8s.io", "resourceslices") => self.slice(node, wanted),
            ("storage.k8s.io", "volumeattachments") => {
                self.get(node, NodeObjectKind::VolumeAttachment, wanted)
            }
            ("storage.k8s.io", "csinodes") => own_csi_node(node, wanted),
            ("coordination.k8s.io", "leases") => own_lease(node, wanted),
            ("certificates.k8s.io", "podcertificaterequests") => self.certificate_request(node, wanted),
            _ => general(wanted),
        }
    }

    /// Get, list and watch of single objects.
    fn read(
        &self,
        node: &str,
        kind: NodeObjectKind,
        wanted: &AuthorizerAttributes<'_>,
    ) -> Result<(), String> {
        check(READ.contains(&wanted.verb), "can only read resources of this type")?;
        check(wanted.subresource.is_empty(), "cannot read subresource")?;
        check(!wanted.namespace.is_empty(), "can only read namespaced object of this type")?;
        self.related(node, kind, wanted)
    }

    /// A single object that a Pod on the node refers to. Lists would show those of others.
    fn get(&self, node: &str, kind: NodeObjectKind, wanted: &AuthorizerAttributes<'_>) -> Result<(), String> {
        only_get(wanted)?;
        self.related(node, kind, wanted)
    }

    /// A PersistentVolume that a claim of a Pod on the node is bound to.
    fn get_volume(&self, node: &str, wanted: &AuthorizerAttributes<'_>) -> Result<(), String> {
        only_get(wanted)?;
        check(!wanted.name.is_empty(), "No Object name found")?;
        if self.graph.read().needs_volume(node, wanted.name) { Ok(()) } else { unrelated(node) }
    }

    /// Kubelets write the status of claims when they have expanded a file system.
    fn claim_status(&self, node: &str, wanted: &AuthorizerAttributes<'_>) -> Result<(), String> {
        check(matches!(wanted.verb, "update" | "patch"), "can only get/update/patch this type")?;
        self.related(node, NodeObjectKind::PersistentVolumeClaim, wanted)
    }

    /// Kubelets create tokens for the service accounts of their Pods, which they project into them.
    fn service_account(&self, node: &str, wanted: &AuthorizerAttributes<'_>) -> Result<(), String> {
        if wanted.verb == "get" && wanted.subresource.is_empty() {
            return self.read(node, NodeObjectKind::ServiceAccount, wanted);
        }
        let named = wanted.verb == "create" && !wanted.name.is_empty();
        check(named, "can only create tokens for individual service accounts")?;
        check(wanted.subresource == "token", "can only create token subresource of serviceaccount")?;
        self.related(node, NodeObjectKind::ServiceAccount, wanted)
    }

    /// Creating and deleting Pods is open here because the body is not known yet; NodeRestriction limits it to mirror
    /// Pods and to the own node.
    fn pod(&self, node: &str, wanted: &AuthorizerAttributes<'_>) -> Result<(), String> {
        match (wanted.subresource, wanted.verb) {
            ("", "get") => self.related(node, NodeObjectKind::Pod, wanted),
            ("", "list" | "watch") if selects(wanted, node) => Ok(()),
            ("", "list" | "watch") if !wanted.name.is_empty() => {
                self.related(node, NodeObjectKind::Pod, wanted)
            }
            ("", "list" | "watch") => refuse("can only list/watch pods with spec.nodeName field selector"),
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => Ok(()),
            _ => refuse(""),
        }
    }

    /// Drivers of devices publish through the kubelet. Creation is limited to the own node by NodeRestriction, which
    /// sees the body.
    fn slice(&self, node: &str, wanted: &AuthorizerAttributes<'_>) -> Result<(), String> {
        check(wanted.subresource.is_empty(), "cannot authorize ResourceSlice subresources")?;
        match wanted.verb {
            "create" => Ok(()),
            "get" | "update" | "patch" | "delete" => {
                self.related(node, NodeObjectKind::ResourceSlice, wanted)
            }
            "list" | "watch" | "deletecollection" => check(
                selects(wanted, node),
                "can only list/watch/deletecollection resourceslices with nodeName field selector",
            ),
            _ => refuse(
                "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, deletecollection",
            ),
        }
    }

    /// Requests for certificates of Pods. The signer writes the status, never a kubelet.
    fn certificate_request(&self, node: &str, wanted: &AuthorizerAttributes<'_>) -> Result<(), String> {
        let plain = wanted.subresource.is_empty();
        check(plain, "nodes may not access the status subresource of PodCertificateRequests")?;
        match wanted.verb {
            "create" => Ok(()),
            "get" => self.related(node, NodeObjectKind::PodCertificateRequest, wanted),
            "list" | "watch" => check(
                selects(wanted, node),
                "can only list/watch podcertificaterequests with nodeName field selector",
            ),
            verb => refuse(&format!("nodes may not {verb} podcertificaterequests")),
        }
    }

    /// An object that does not exist is refused like one that is not needed, so a kubelet cannot find out which
    /// Secrets exist.
    fn related(
        &self,
        node: &str,
        kind: NodeObjectKind,
        wanted: &AuthorizerAttributes<'_>,
    ) -> Result<(), String> {
        check(!wanted.name.is_empty(), "No Object name found")?;
        let object = Vertex::new(kind, wanted.namespace, wanted.name);
        if self.graph.read().needs(node, &object) { Ok(()) } else { unrelated(node) }
    }
}

impl Authorizer for NodeAuthorizer {
    fn authorize(&self, user: &User, wanted: &AuthorizerAttributes<'_>) -> Decision {
        let Some(node) = node_of(user) else { return Decision::no_opinion("") };
        if node.is_empty() {
            let name = listwatch_wire::go::quote(&user.name);
            return Decision::no_opinion(format!("unknown node for user {name}"));
        }
        match self.decide(node, wanted) {
            Ok(()) => Decision::Allow,
            Err(why) => Decision::no_opinion(why),
        }
    }

    fn rules(&self, _user: &User, _namespace: &str) -> Vec<PolicyRule> {
        Vec::new()
    }

    fn incomplete(&self, user: &User) -> Option<String> {
        node_of(user).map(|_| "node authorizer does not support user rule resolution".to_owned())
    }

    fn role(&self, _role: &RoleRef, _namespace: &str) -> Option<Vec<PolicyRule>> {
        None
    }
}

/// Leaves the decision to the next authorizer, with the reason that the 403 shows if none allows it.
fn refuse(why: &str) -> Result<(), String> {
    Err(why.to_owned())
}

/// Refuses unless a condition holds.
fn check(holds: bool, why: &str) -> Result<(), String> {
    if holds { Ok(()) } else { refuse(why) }
}

/// The refusal of an object that the node does not need. It is also that of an object which does not exist.
fn unrelated(node: &str) -> Result<(), String> {
    Err(format!("no relationship found between node '{node}' and this object"))
}

/// The one verb for objects that are never listed by kubelets.
fn only_get(wanted: &AuthorizerAttributes<'_>) -> Result<(), String> {
    check(wanted.verb == "get", "can only get individual resources of this type")?;
    check(wanted.subresource.is_empty(), "cannot get subresource")
}

/// Returns true if only objects of this node are requested. A field selector is the only way in which a list can be
/// limited before objects are read.
fn selects(wanted: &AuthorizerAttributes<'_>, node: &str) -> bool {
    let terms = wanted.fields.map(|selector| selector.terms()).unwrap_or_default();
    terms.iter().any(|term| !term.negated && term.field == "spec.nodeName" && term.value == node)
}

/// The kubelet's own Node, by its name, so that it may look for it before it is there. Whether it changes another one is
/// known when the body was read.
fn own_node(node: &str, wanted: &AuthorizerAttributes<'_>) -> Result<(), String> {
    match (wanted.subresource, wanted.verb, wanted.name) {
        ("", "create" | "update" | "patch", _) | ("status", "update" | "patch", _) => Ok(()),
        ("", "get" | "list" | "watch", name) if name == node => Ok(()),
        ("", "get" | "list" | "watch", "") => {
            Err(format!("node '{node}' cannot read all nodes, only its own Node object"))
        }
        ("", "get" | "list" | "watch", name) => {
            Err(format!("node '{node}' cannot read '{name}', only its own Node object"))
        }
        _ => refuse(""),
    }
}

/// The heartbeat of the node. Its name is known only from the body when it is created.
fn own_lease(node: &str, wanted: &AuthorizerAttributes<'_>) -> Result<(), String> {
    check(OWN.contains(&wanted.verb), "can only get, create, update, patch, or delete a node lease")?;
    let here = wanted.namespace == LEASES;
    check(here, "can only access leases in the \"kube-node-lease\" system namespace")?;
    let own = wanted.verb == "create" || wanted.name == node;
    check(own, "can only access node lease with the same name as the requesting node")
}

/// The drivers that are registered on the node, under the name of the node.
fn own_csi_node(node: &str, wanted: &AuthorizerAttributes<'_>) -> Result<(), String> {
    match wanted.subresource {
        "" => check(OWN.contains(&wanted.verb), "can only get, create, update, patch, or delete a CSINode")?,
        "status" => return refuse("CSINode status access requires CSIVolumeHealth feature"),
        _ => return refuse("cannot authorize CSINode subresources"),
    }
    let own = wanted.verb == "create" || wanted.name == node;
    check(own, "can only access CSINode with the same name as the requesting node")
}

/// The rights of every kubelet. Other authorizers decide about the rest.
fn general(wanted: &AuthorizerAttributes<'_>) -> Result<(), String> {
    let allowed = wanted.subresource.is_empty()
        && GENERAL.iter().any(|(group, resource, verbs)| {
            (*group, *resource) == (wanted.group, wanted.resource) && verbs.contains(&wanted.verb)
        });
    check(allowed, "")
}

#[cfg(test)]
mod tests;
