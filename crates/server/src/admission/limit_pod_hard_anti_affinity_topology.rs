//! LimitPodHardAntiAffinityTopology: required Pod anti-affinity may only use the topology key
//! `kubernetes.io/hostname`. Off by default.
//!
//! With a larger topology such as a zone, one Pod could keep the Pods of all other tenants out of the zone. Preferred
//! anti-affinity is not limited.

use async_trait::async_trait;
use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::Value;

use super::{Attributes, Operation, Plugin};
use crate::registry::Resource;

/// The only topology key that the plugin allows.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// Validating. Only the first term outside of the limit is reported.
#[derive(Debug)]
pub(super) struct LimitPodHardAntiAffinityTopology;

#[async_trait]
impl Plugin for LimitPodHardAntiAffinityTopology {
    fn is_interested(&self, resource: &Resource) -> bool {
        (&*resource.group, &*resource.plural) == ("", "pods")
    }

    fn handles(&self, operation: Operation, subresource: &str) -> bool {
        subresource.is_empty() && matches!(operation, Operation::Create | Operation::Update)
    }

    async fn validate(&self, request: &Attributes<'_>, pod: &Value) -> Result<(), Status> {
        other_topology(pod).map_or(Ok(()), |key| {
            let why = format!(
                "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key} but only key {HOSTNAME} is allowed"
            );
            Err(request.forbidden(pod, &why))
        })
    }
}

/// The first topology that is not a node.
fn other_topology(pod: &Value) -> Option<&str> {
    let terms = pod.path(&["spec", "affinity", "podAntiAffinity"]);
    let terms = terms.list("requiredDuringSchedulingIgnoredDuringExecution").iter();
    terms.map(|term| term.text("topologyKey")).find(|key| *key != HOSTNAME)
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    #[test]
    fn only_required_terms_count() {
        let pod = |kind: &str, key: &str| json!({"spec": {"affinity": {"podAntiAffinity": {kind: [{"topologyKey": key}]}}}});
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        assert_eq!(other_topology(&pod(required, "zone")), Some("zone"));
        assert_eq!(other_topology(&pod(required, HOSTNAME)), None);
        assert_eq!(other_topology(&pod("preferredDuringSchedulingIgnoredDuringExecution", "zone")), None);
    }
}
