//! Preparation of Pods: QoS class, initial status, fields kept on status updates, and binding to a node.
//!
//! The QoS class is computed once and never changes, as in kube-apiserver. A status update from an older client must
//! not erase fields that it does not know, so some are carried over. `podIP` and `podIPs` are kept in step, the single
//! one winning. [`bind`] is the work of the `binding` subresource, with its error texts.

use std::cmp::Ordering;
use std::collections::HashMap;

use listwatch_wire::json::{Map, Value, json};

use crate::quantity;
use crate::tree::Tree;

/// A new Pod waits to be placed; one with gates is not even looked at.
pub(crate) fn initial_status(pod: &Value) -> Value {
    let spec = pod.at("spec");
    let mut status = json!({"phase": "Pending", "qosClass": qos_class(spec)});
    if spec.count("schedulingGates") > 0 {
        let born = pod.at("metadata").at("creationTimestamp");
        status.put(
            "conditions",
            json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
                "lastProbeTime": null, "lastTransitionTime": born}]),
        );
    }
    status
}

/// Keeps the pod-level resources that an older client left out because it does not know them.
pub(crate) fn update(new: &mut Value, old: &Value) {
    let before = old.at("spec").at("resources");
    if !before.is_null()
        && let Some(spec) = new.inner("spec")
        && !spec.has("resources")
    {
        spec.put("resources", before.clone());
    }
}

/// Lists of the status that an update keeps if it leaves them out, and clears if it has them empty.
pub(crate) const POD_CLAIM_LISTS: [&str; 2] =
    ["resourceClaimStatuses", "nodeAllocatableResourceClaimStatuses"];

/// Keeps fields of the status that an older client left out because it does not know them.
pub(crate) fn status_update(new: &mut Value, old: &Value) {
    const KEPT: [&str; 2] = ["extendedResourceClaimStatus", "observedGeneration"];
    let was = old.at("status");
    let Some(status) = new.inner_or_new("status") else { return };
    if was.has("qosClass") {
        status.fill_text("qosClass", was.text("qosClass"));
    }
    for key in KEPT.into_iter().chain(POD_CLAIM_LISTS).filter(|key| was.has(key)) {
        status.fill(key, was.at(key).clone());
    }
    for key in POD_CLAIM_LISTS {
        if status.get(key).and_then(Value::as_array).is_some_and(Vec::is_empty) {
            status.remove(key);
        }
    }
    let mut known: HashMap<&str, &Value> = HashMap::new();
    for condition in was.list("conditions").iter().rev() {
        known.insert(condition.text("type"), condition.at("observedGeneration"));
    }
    for condition in status.each("conditions") {
        if let Some(generation) = known.remove(condition.text("type")).filter(|value| !value.is_null()) {
            condition.fill("observedGeneration", generation.clone());
        }
    }
    same_addresses(status);
}

/// The addresses of a Pod, in step.
pub(crate) fn pod_addresses(pod: &mut Map) {
    pod.inner("status").into_iter().for_each(same_addresses);
}

/// The single address and the first of the list are equal; the single one takes precedence.
fn same_addresses(status: &mut Map) {
    let (one, first) = (status.text("podIP").to_owned(), status.list("podIPs").first());
    let listed = first.map(|entry| entry.text("ip").to_owned());
    match (one.as_str(), listed) {
        ("", Some(listed)) => status.put("podIP", listed),
        ("", None) => {}
        (one, listed) if listed.as_deref() != Some(one) => status.put("podIPs", json!([{"ip": one}])),
        _ => {}
    }
}

/// The QoS class of a Pod, from its own resources or those of its containers.
///
/// Guaranteed if every container has limits equal to its requests for both CPU and memory, BestEffort if none has
/// either.
///
/// ```
/// use listwatch_kinds::prepare::qos_class;
/// use listwatch_wire::json::json;
///
/// let amounts = json!({"cpu": "1", "memory": "1Gi"});
/// let spec = json!({"containers": [{"resources": {"limits": amounts, "requests": amounts}}]});
/// assert_eq!(qos_class(&spec), "Guaranteed");
/// assert_eq!(qos_class(&json!({"containers": [{}]})), "BestEffort");
/// ```
#[must_use]
pub fn qos_class(spec: &Value) -> &'static str {
    let own = spec.at("resources");
    if ["requests", "limits"].iter().any(|list| own.count(list) > 0) {
        return class_of(own);
    }
    let containers = spec.list("initContainers").iter().chain(spec.list("containers"));
    let mut classes = containers.map(|container| class_of(container.at("resources")));
    let first = classes.next().unwrap_or("BestEffort");
    if classes.all(|class| class == first) { first } else { "Burstable" }
}

/// Returns the quality of service of one container or of the Pod's own resources: by CPU and memory, which must
/// agree.
fn class_of(resources: &Value) -> &'static str {
    let amount = |list: &str, name: &str| match resources.at(list).text(name) {
        "" => "0".to_owned(),
        text => text.to_owned(),
    };
    let [cpu, memory] = ["cpu", "memory"].map(|name| {
        let (request, limit) = (amount("requests", name), amount("limits", name));
        match quantity::compare(&request, &limit) {
            Ok(Ordering::Equal) if quantity::compare(&limit, "0") == Ok(Ordering::Equal) => "BestEffort",
            Ok(Ordering::Equal) => "Guaranteed",
            _ => "Burstable",
        }
    });
    if cpu == memory { cpu } else { "Burstable" }
}

/// Places a Pod on a node.
///
/// The caller writes the Pod under the condition that it has not changed since, so two schedulers cannot place it
/// twice.
///
/// # Errors
/// The reason why it cannot be bound, with kube-apiserver's message.
pub fn bind(pod: &mut Value, node: &str, annotations: &Value, now: &str) -> Result<(), String> {
    let name = pod.at("metadata").text("name").to_owned();
    if pod.at("metadata").has("deletionTimestamp") {
        return Err(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    let taken = pod.at("spec").text("nodeName");
    if !taken.is_empty() {
        return Err(format!("pod {name} is already assigned to node {taken:?}"));
    }
    if pod.at("spec").count("schedulingGates") > 0 {
        return Err(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    if let Some(spec) = pod.inner_or_new("spec") {
        spec.put("nodeName", node);
    }
    if let Some(given) = annotations.as_object().filter(|given| !given.is_empty())
        && let Some(kept) = pod.inner_or_new("metadata").and_then(|meta| meta.inner_or_new("annotations"))
    {
        kept.extend(given.clone());
    }
    set_condition(pod, &json!({"type": "PodScheduled", "status": "True"}), now);
    Ok(())
}

/// Sets a condition of a Pod. The time of its transition stays where its status does.
pub fn set_condition(pod: &mut Value, condition: &Value, now: &str) {
    let Some(status) = pod.inner_or_new("status") else { return };
    let mut conditions = status.list("conditions").to_vec();
    let kind = condition.text("type");
    let before = conditions.iter().find(|known| known.text("type") == kind).cloned().unwrap_or_default();
    let mut new = json!({"lastProbeTime": null, "lastTransitionTime": now});
    if let (Some(fields), Some(given)) = (new.as_object_mut(), condition.as_object()) {
        fields.extend(given.clone());
        if before.at("status") == condition.at("status") {
            fields.put("lastTransitionTime", before.at("lastTransitionTime").clone());
        }
    }
    match conditions.iter_mut().find(|known| known.text("type") == kind) {
        Some(known) => *known = new,
        None => conditions.push(new),
    }
    status.put("conditions", conditions);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quality_of_service() {
        let pod = |resources: Value| json!({"containers": [{"resources": resources}]});
        for (resources, expected) in [
            (json!({}), "BestEffort"),
            (json!({"requests": {"cpu": "0"}}), "BestEffort"),
            (json!({"requests": {"cpu": "1"}}), "Burstable"),
            (
                json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1024Mi"}}),
                "Guaranteed",
            ),
            (
                json!({"limits": {"cpu": "2", "memory": "2Gi"}, "requests": {"cpu": "500m", "memory": "1Gi"}}),
                "Burstable",
            ),
        ] {
            assert_eq!(qos_class(&pod(resources.clone())), expected, "{resources}");
        }
    }

    /// An empty list left the claims as they were.
    #[test]
    fn claims_are_kept_if_absent_and_cleared_if_empty() {
        let old = json!({"status": {"resourceClaimStatuses": [{"name": "a"}]}});
        let mut new = json!({"status": {}});
        status_update(&mut new, &old);
        assert_eq!(new["status"]["resourceClaimStatuses"], old["status"]["resourceClaimStatuses"]);
        let pod = crate::schema::node("", "v1", "Pod").unwrap();
        let mut new = json!({"apiVersion": "v1", "kind": "Pod", "status": {"resourceClaimStatuses": []}});
        assert!(crate::typecheck::decode(pod, &mut new, Some(&old)).error.is_none());
        status_update(&mut new, &old);
        assert_eq!(new["status"], json!({}));
    }

    #[test]
    fn a_pod_is_placed_once() {
        let mut pod = json!({"metadata": {"name": "p"}, "spec": {}});
        bind(&mut pod, "node-x", &Value::Null, "t").unwrap();
        assert_eq!(pod.at("spec").text("nodeName"), "node-x");
        assert_eq!(
            bind(&mut pod, "node-y", &Value::Null, "t").unwrap_err(),
            "pod p is already assigned to node \"node-x\""
        );
    }
}
