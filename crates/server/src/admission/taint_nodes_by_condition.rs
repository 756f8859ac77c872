//! TaintNodesByCondition: new Nodes get the taint `node.kubernetes.io/not-ready:NoSchedule`.
//!
//! Otherwise the scheduler could place Pods on a node between its registration and the first look of the node
//! lifecycle controller at its conditions. That controller removes the taint; in a server without it, the taint stays
//! until it is removed.

use async_trait::async_trait;
use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::{Value, json};

use super::{Attributes, Operation, Plugin};
use crate::registry::Resource;

const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// Mutating, on creations.
#[derive(Debug)]
pub(super) struct TaintNodesByCondition;

#[async_trait]
impl Plugin for TaintNodesByCondition {
    fn is_interested(&self, resource: &Resource) -> bool {
        (&*resource.group, &*resource.plural) == ("", "nodes")
    }

    fn handles(&self, operation: Operation, subresource: &str) -> bool {
        subresource.is_empty() && operation == Operation::Create
    }

    async fn admit(&self, _request: &Attributes<'_>, node: &mut Value) -> Result<(), Status> {
        add_taint(node);
        Ok(())
    }
}

/// Adds the taint unless it is there, so that a new node gets no Pods before it is ready.
fn add_taint(node: &mut Value) {
    let Some(spec) = node.inner_or_new("spec") else { return };
    let mut taints = spec.list("taints").to_vec();
    let present = |taint: &Value| taint.text("key") == NOT_READY && taint.text("effect") == "NoSchedule";
    if !taints.iter().any(present) {
        taints.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
        spec.put("taints", taints);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_tainted_once() {
        let mut node = json!({"spec": {"taints": [{"key": "own", "effect": "NoExecute"}]}});
        for _ in 0..2 {
            add_taint(&mut node);
            assert_eq!(node.at("spec").count("taints"), 2);
        }
    }
}
