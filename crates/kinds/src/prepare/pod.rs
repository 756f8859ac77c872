//! Pods: quality of service, and being placed on a node.

use std::cmp::Ordering;

use listwatch_wire::json::{Value, json};

use crate::quantity;
use crate::tree::Tree;

/// A new Pod waits to be placed; one with gates is not even looked at.
pub(super) fn initial_status(spec: &Value) -> Value {
    let mut status = json!({"phase": "Pending", "qosClass": qos_class(spec)});
    if spec.count("schedulingGates") > 0 {
        status.put(
            "conditions",
            json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
                "lastProbeTime": null, "lastTransitionTime": null}]),
        );
    }
    status
}

pub(super) fn status_update(new: &mut Value, old: &Value) {
    let class = old.at("status").at("qosClass").clone();
    if let Some(status) = new.inner_or_new("status")
        && !class.is_null()
    {
        status.fill("qosClass", class);
    }
}

/// The QoS class of a Pod, from the resources of its containers.
#[must_use]
pub fn qos_class(spec: &Value) -> &'static str {
    let containers = || spec.list("containers").iter().chain(spec.list("initContainers"));
    let amount = |container: &Value, list: &str, name: &str| {
        let text = container.path(&["resources", list]).text(name).to_owned();
        quantity::compare(&text, "0").is_ok_and(|order| order == Ordering::Greater).then_some(text)
    };
    let mut any = false;
    let mut all = true;
    for container in containers() {
        for name in ["cpu", "memory"] {
            let (request, limit) = (amount(container, "requests", name), amount(container, "limits", name));
            any |= request.is_some() || limit.is_some();
            let equal = match (&request, &limit) {
                (_, None) => false,
                (None, Some(_)) => true,
                (Some(request), Some(limit)) => quantity::compare(request, limit) == Ok(Ordering::Equal),
            };
            all &= equal;
        }
    }
    match (any, all) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

/// Places a Pod on a node.
///
/// # Errors
/// Why it cannot be placed, in the words of kube-apiserver.
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
    set_scheduled(pod, now);
    Ok(())
}

fn set_scheduled(pod: &mut Value, now: &str) {
    let Some(status) = pod.inner_or_new("status") else { return };
    let mut conditions = status.list("conditions").to_vec();
    conditions.retain(|condition| condition.text("type") != "PodScheduled");
    conditions.push(
        json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now}),
    );
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
            (json!({"limits": {"cpu": "1", "memory": "1Gi"}}), "Guaranteed"),
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
