//! ExtendedResourceToleration: Pods that request an extended resource tolerate a taint with that resource's name. Off
//! by default.
//!
//! Administrators taint nodes with devices such as `nvidia.com/gpu` to keep other Pods away; this plugin spares users
//! the toleration. An extended resource is one with a domain outside of `kubernetes.io`. Existing tolerations with
//! the same key are kept as they are.

use std::collections::BTreeSet;

use async_trait::async_trait;
use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::{Value, json};

use super::{Attributes, Operation, Plugin};
use crate::registry::Resource;

/// Mutating, on creations and updates. Names are sorted, so that equal Pods get equal lists.
#[derive(Debug)]
pub(super) struct ExtendedResourceToleration;

/// The same test as kube-apiserver's `IsExtendedResourceName`, without its check of the name's syntax: validation has
/// done that.
fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/") && !name.starts_with("requests.")
}

#[async_trait]
impl Plugin for ExtendedResourceToleration {
    fn is_interested(&self, resource: &Resource) -> bool {
        (&*resource.group, &*resource.plural) == ("", "pods")
    }

    fn handles(&self, operation: Operation, subresource: &str) -> bool {
        subresource.is_empty() && matches!(operation, Operation::Create | Operation::Update)
    }

    async fn admit(&self, _request: &Attributes<'_>, pod: &mut Value) -> Result<(), Status> {
        let spec = pod.at("spec");
        let containers = spec.list("containers").iter().chain(spec.list("initContainers"));
        let names: BTreeSet<String> = containers
            .flat_map(|container| container.at("resources").entries("requests"))
            .map(|(name, _)| name.to_string())
            .filter(|name| is_extended(name))
            .collect();
        let mut tolerations = spec.list("tolerations").to_vec();
        let known = tolerations.len();
        for name in names {
            if !tolerations.iter().any(|toleration| toleration.text("key") == name) {
                tolerations.push(json!({"key": name, "operator": "Exists"}));
            }
        }
        if let Some(spec) = pod.inner("spec").filter(|_| tolerations.len() > known) {
            spec.put("tolerations", tolerations);
        }
        Ok(())
    }
}
