//! PodTopologyLabels: copies the zone and region labels of a node to the Pods that are bound to it.
//!
//! It runs on the `binding` subresource, where the scheduler assigns the node, and on Pods created with `nodeName`,
//! so that the downward API can expose the topology. Labels of the Pod with the same names are overwritten, because
//! programs take them for the labels of the node.

use async_trait::async_trait;
use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::Value;

use super::{Attributes, Operation, Plugin};
use crate::registry::Resource;

const LABELS: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

/// Mutating. For a binding the labels are put into the Binding's metadata, from where binding copies them to the Pod.
#[derive(Debug)]
pub(super) struct PodTopologyLabels;

#[async_trait]
impl Plugin for PodTopologyLabels {
    fn is_interested(&self, resource: &Resource) -> bool {
        (&*resource.group, &*resource.plural) == ("", "pods")
    }

    fn handles(&self, operation: Operation, subresource: &str) -> bool {
        operation == Operation::Create && matches!(subresource, "" | "binding")
    }

    async fn admit(&self, request: &Attributes<'_>, object: &mut Value) -> Result<(), Status> {
        let target = object.at("target");
        let name = match request.subresource {
            "binding" if target.text("kind") == "Node" => target.text("name"),
            "binding" => "",
            _ => object.at("spec").text("nodeName"),
        };
        if name.is_empty() {
            return Ok(());
        }
        let node = request.find(("", "v1", "nodes"), None, name).unwrap_or_default();
        copy_labels(object, node.at("metadata").at("labels"));
        Ok(())
    }
}

/// Only labels that the Node has: a missing zone leaves the Pod's own label alone.
fn copy_labels(object: &mut Value, of_node: &Value) {
    for label in LABELS.into_iter().filter(|label| of_node.has(label)) {
        let labels = object.inner_or_new("metadata").and_then(|meta| meta.inner_or_new("labels"));
        labels.into_iter().for_each(|labels| labels.put(label, of_node.text(label)));
    }
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    #[test]
    fn zone_and_region_are_copied_and_nothing_else() {
        let mut pod = json!({"metadata": {"labels": {"a": "b", LABELS[0]: "wrong"}}});
        copy_labels(&mut pod, &json!({LABELS[0]: "z", "other": "x"}));
        assert_eq!(pod.at("metadata").at("labels"), &json!({"a": "b", LABELS[0]: "z"}));
        let mut bare = json!({"metadata": {}});
        copy_labels(&mut bare, &json!({"other": "x"}));
        assert_eq!(bare, json!({"metadata": {}}));
    }
}
