//! NodeRestriction: kubelets change only their own Node, the Pods on it and what belongs to them.
//!
//! It completes the Node authorizer ([`crate::auth::node`]): that one decides by the path before the body is read,
//! this plugin by the objects. Together they keep a compromised node from taking over others. [`nodes`] has the rules
//! for Nodes and objects named after one, [`pods`] those for Pods, [`tokens`] those for tokens and certificates.
//! Users who are not kubelets pass at once. Where another object decides, the cache is waited for first, so that a
//! Pod bound a moment ago counts.

mod nodes;
mod pods;
mod tokens;

use async_trait::async_trait;
use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::Value;

use super::{Attributes, Operation, Plugin};
use crate::auth::Authorizer;
use crate::auth::node::node_of;
use crate::registry::Resource;

/// The plugin: limits what kubelets may write to their own Node and the Pods on it. Other users pass.
#[derive(Debug)]
pub(super) struct NodeRestriction;

/// A write by the kubelet of a node.
/// The object is null for a deletion; the old one is in the request.
#[derive(Clone, Copy, Debug)]
struct ByNode<'a> {
    authorizer: &'a dyn Authorizer,
    node: &'a str,
    request: &'a Attributes<'a>,
    object: &'a Value,
}

#[async_trait]
impl Plugin for NodeRestriction {
    fn is_interested(&self, resource: &Resource) -> bool {
        matches!(
            (&*resource.group, &*resource.plural),
            ("", "pods" | "nodes" | "persistentvolumeclaims" | "serviceaccounts")
                | ("coordination.k8s.io", "leases")
                | ("storage.k8s.io", "csinodes")
                | ("resource.k8s.io", "resourceslices")
                | ("certificates.k8s.io", "certificatesigningrequests" | "podcertificaterequests")
        )
    }

    fn handles(&self, operation: Operation, _subresource: &str) -> bool {
        operation != Operation::Connect
    }

    async fn admit(&self, request: &Attributes<'_>, object: &mut Value) -> Result<(), Status> {
        let Some(node) = node_of(request.user) else { return Ok(()) };
        let object = &*object;
        let union = request.api.authorizer.union();
        let by = ByNode { node, request, object, authorizer: &*union };
        if node.is_empty() {
            let user = listwatch_wire::go::quote(&request.user.name);
            return by.forbid(&format!("could not determine node from user {user}"));
        }
        if by.looks_up() {
            // The cache is brought up to the store, so that a Pod that was just bound is found.
            request.api.wait_for(None).await?;
        }
        request.api.authorizer.decide(|authorizer| ByNode { authorizer: &**authorizer, ..by }.admit()).await
    }
}

impl ByNode<'_> {
    /// Dispatches by resource and subresource. Resources that are not listed are limited by the Node authorizer
    /// alone.
    fn admit(&self) -> Result<(), Status> {
        match (&*self.request.resource.plural, self.request.subresource) {
            ("pods", "") => pods::admit(self),
            ("pods", "status") => pods::admit_status(self),
            ("pods", "eviction") => pods::admit_eviction(self),
            ("pods", other) => self.forbid(&format!(
                "unexpected pod subresource {other:?}, only 'status' and 'eviction' are allowed"
            )),
            ("nodes", _) => nodes::admit(self),
            ("leases", _) => nodes::admit_lease(self),
            ("csinodes", _) => nodes::admit_csi_node(self),
            ("resourceslices", _) => nodes::admit_slice(self),
            ("persistentvolumeclaims", "status") => pods::admit_claim_status(self),
            ("persistentvolumeclaims", _) => self.forbid("may only update PVC status"),
            ("serviceaccounts", "token") => tokens::admit(self),
            ("certificatesigningrequests", _) => tokens::admit_node_certificate(self),
            ("podcertificaterequests", _) => tokens::admit_pod_certificate(self),
            _ => Ok(()),
        }
    }

    /// Returns true if objects other than the written one decide. Heartbeats and the status of Pods need none.
    fn looks_up(&self) -> bool {
        match &*self.request.resource.plural {
            "pods" => self.request.subresource != "status",
            "serviceaccounts" | "podcertificaterequests" => true,
            _ => false,
        }
    }

    /// Refuses the write with the wording of kube-apiserver.
    ///
    /// # Errors
    ///
    /// Always: the 403.
    fn forbid(&self, why: &str) -> Result<(), Status> {
        Err(self.request.forbidden(self.object, why))
    }

    fn require(&self, holds: bool, why: impl FnOnce() -> String) -> Result<(), Status> {
        if holds { Ok(()) } else { self.forbid(&why()) }
    }

    /// An operation that the Node authorizer lets through and that no rule is about. Refused, so that a new operation
    /// is decided about before kubelets may use it.
    fn unexpected(&self) -> Result<(), Status> {
        self.forbid(&format!("unexpected operation {:?}", self.request.operation.name()))
    }

    /// The name of the object, also of one that is being created.
    fn name(&self) -> &str {
        match self.request.name {
            "" => self.object.at("metadata").text("name"),
            name => name,
        }
    }

    /// A Pod of the request's namespace.
    fn pod(&self, name: &str) -> Result<Value, Status> {
        let found = self.request.find(("", "v1", "pods"), Some(self.request.namespace), name);
        found.ok_or_else(|| Status::not_found("", "pods", name))
    }

    /// The Node in the cache. A kubelet creates mirror Pods only after its Node, so a 404 is a real one.
    fn own_node(&self) -> Result<Value, Status> {
        let found = self.request.find(("", "v1", "nodes"), None, self.node);
        found.ok_or_else(|| Status::not_found("", "nodes", self.node))
    }
}

/// Returns true if two values are the same. Empty and absent are the same.
/// Kubelets write back what they read, and encoders drop empty lists.
fn same(one: &Value, other: &Value) -> bool {
    let empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    one == other || (empty(one) && empty(other))
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    #[test]
    fn empty_and_absent_are_the_same() {
        assert!(same(&Value::Null, &json!([])) && same(&json!({}), &Value::Null));
        assert!(!same(&json!([1]), &Value::Null) && !same(&json!(""), &json!("a")));
    }
}
