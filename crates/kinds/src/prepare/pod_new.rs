//! Preparation of a new Pod: fields that are derived from its other fields.
//!
//! None of this is a default, because templates of Pods do not have it, and because admission has changed the Pod before.

use listwatch_wire::json::{Map, Value, json};

use crate::amounts::{Amounts, is_of_pods, of_containers, quantity as quantity_of};
use crate::quantity::{self, Quantity};
use crate::tree::Tree;

/// The annotation of a container that was there before the field.
pub(crate) const APPARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// Completes a new Pod.
///
/// Runs after admission, so that labels and resources set by a webhook count.
pub(crate) fn create(pod: &mut Value) {
    let meta = pod.at("metadata").clone();
    let Some(spec) = pod.inner("spec") else { return };
    profiles(spec, meta.at("annotations"));
    label_keys(spec, meta.at("labels"));
    pod_amounts(spec);
}

/// Profiles of AppArmor that annotations name become fields.
fn profiles(spec: &mut Map, annotations: &Value) {
    let named = |(key, _): (&_, &Value)| str::starts_with(key, APPARMOR);
    if !annotations.fields().into_iter().flatten().any(|(key, value)| named((key.as_str(), value)))
        || spec.at("os").text("name") == "windows"
    {
        return;
    }
    let general = spec.at("securityContext").at("appArmorProfile").clone();
    for list in CONTAINERS {
        for container in spec.each(list) {
            let Some(profile) = profile_of(annotations, container.text("name")) else { continue };
            if !container.at("securityContext").has("appArmorProfile")
                && profile != general
                && let Some(context) = container.inner_or_new("securityContext")
            {
                context.put("appArmorProfile", profile);
            }
        }
    }
}

/// The field that corresponds to the annotation of a container, if it is valid.
pub(crate) fn profile_of(annotations: &Value, container: &str) -> Option<Value> {
    let text = annotations.at(&format!("{APPARMOR}{container}")).as_str()?;
    let local = |name: &&str| !name.is_empty() && name.trim() == *name && name.len() <= 4095;
    match text {
        "unconfined" => Some(json!({"type": "Unconfined"})),
        "runtime/default" => Some(json!({"type": "RuntimeDefault"})),
        _ => {
            let name = text.strip_prefix("localhost/").filter(local)?;
            Some(json!({"type": "Localhost", "localhostProfile": name}))
        }
    }
}

/// Label keys of affinity and spread become part of their selectors, with the values of the Pod's own labels.
fn label_keys(spec: &mut Map, labels: &Value) {
    if let Some(affinity) = spec.inner("affinity") {
        for direction in ["podAffinity", "podAntiAffinity"] {
            let Some(direction) = affinity.inner(direction) else { continue };
            for preferred in direction.each("preferredDuringSchedulingIgnoredDuringExecution") {
                if let Some(term) = preferred.inner("podAffinityTerm") {
                    select_labels(term, labels);
                }
            }
            for term in direction.each("requiredDuringSchedulingIgnoredDuringExecution") {
                select_labels(term, labels);
            }
        }
    }
    for constraint in spec.each("topologySpreadConstraints") {
        select_labels(constraint, labels);
    }
}

/// Added to the expressions and not to `matchLabels`, where a value of the user would be overwritten. Keys that the
/// Pod's labels lack are ignored.
fn select_labels(term: &mut Map, labels: &Value) {
    let mut added = Vec::new();
    for (list, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        let keys = term.list(list).iter().filter_map(Value::as_str).filter(|key| labels.has(key));
        added.extend(keys.map(|key| json!({"key": key, "operator": operator, "values": [labels.text(key)]})));
    }
    if let Some(selector) = term.inner("labelSelector").filter(|_| !added.is_empty()) {
        let mut expressions = selector.list("matchExpressions").to_vec();
        expressions.extend(added);
        selector.put("matchExpressions", expressions);
    }
}

/// Completes the requests and limits of the Pod as a whole, if it has any.
///
/// Each request is the sum of the containers' requests, or the limit of the Pod if they have none. Where all containers have a
/// limit, the Pod's is their sum, and not less than its request. Huge pages cannot be overcommitted: their limit is that of the
/// containers, and the request follows the limit.
#[doc(alias = "DefaultPodLevelResources")]
pub fn pod_amounts(spec: &mut Map) {
    let (asked, most) = (of_containers(spec, "requests"), of_containers(spec, "limits"));
    let everywhere = limited_everywhere(spec, &most);
    let is_huge = |name: &str| name.starts_with("hugepages-");
    let Some(resources) = spec.inner("resources") else { return };
    if resources.count("limits") == 0 && resources.count("requests") == 0 {
        return;
    }
    let mut limits = resources.at("limits").as_object().cloned().unwrap_or_default();
    let mut requests = resources.at("requests").as_object().cloned().unwrap_or_default();
    for (name, amount) in most.iter().filter(|(name, _)| is_huge(name) && !requests.has(name)) {
        limits.fill(name, canonical(*amount));
    }
    for (name, amount) in asked.into_iter().filter(|(name, _)| is_of_pods(name) && !is_huge(name)) {
        requests.fill(&name, canonical(amount));
    }
    for (name, limit) in limits.iter().filter(|(name, _)| is_of_pods(name)) {
        requests.fill(name, limit.clone());
    }
    for (name, amount) in everywhere.into_iter().filter(|(name, _)| is_of_pods(name) && requests.has(name)) {
        limits.fill(&name, canonical(quantity_of(requests.at(&name)).max(amount)));
    }
    for (list, amounts) in [("limits", limits), ("requests", requests)] {
        if !amounts.is_empty() {
            resources.put(list, amounts);
        }
    }
}

/// Returns those sums of limits that every container has a part in. An ephemeral container has no resources.
fn limited_everywhere(spec: &Map, sums: &Amounts) -> Amounts {
    let containers = || CONTAINERS.iter().flat_map(|list| spec.list(list));
    let limited = |name: &str| containers().all(|one| one.at("resources").at("limits").has(name));
    sums.iter().filter(|(name, _)| limited(name)).map(|(name, amount)| (name.clone(), *amount)).collect()
}

/// An amount as the server writes it.
fn canonical(amount: Quantity) -> String {
    let amount = amount.to_string();
    quantity::canonical(&amount).map(Into::into).unwrap_or(amount)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn created(spec: Value) -> Value {
        let mut pod = json!({
            "metadata": {"name": "p", "labels": {"app": "a"}, "annotations": {format!("{APPARMOR}c"): "unconfined"}},
            "spec": spec,
        });
        create(&mut pod);
        pod.at("spec").clone()
    }

    #[test]
    fn an_annotated_profile_becomes_a_field_unless_there_is_one() {
        let spec = created(json!({"containers": [{"name": "c"}, {"name": "d"}]}));
        let profile = json!({"appArmorProfile": {"type": "Unconfined"}});
        assert_eq!(spec.at("containers"), &json!([{"name": "c", "securityContext": profile}, {"name": "d"}]));
        let own = json!([{"name": "c", "securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}}]);
        assert_eq!(created(json!({"containers": own.clone()})).at("containers"), &own);
    }

    #[test]
    fn label_keys_select_the_labels_of_the_pod() {
        let spec = created(json!({"topologySpreadConstraints": [
            {"labelSelector": {}, "matchLabelKeys": ["app", "other"]}, {"matchLabelKeys": ["app"]}
        ]}));
        let selector = json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["a"]}]});
        let constraint = json!({"labelSelector": selector, "matchLabelKeys": ["app", "other"]});
        let expected = json!([constraint, {"matchLabelKeys": ["app"]}]);
        assert_eq!(spec.at("topologySpreadConstraints"), &expected);
    }

    #[test]
    fn requests_of_the_pod_are_those_of_its_containers_or_its_limits() {
        let container = json!({"name": "c", "resources": {"requests": {"cpu": "100m"}}});
        let spec = created(json!({
            "containers": [container.clone(), container],
            "resources": {"limits": {"cpu": "2", "memory": "2Gi"}}
        }));
        assert_eq!(spec.at("resources").at("requests"), &json!({"cpu": "200m", "memory": "2Gi"}));
    }

    #[test]
    fn limits_of_the_pod_are_those_that_all_containers_have() {
        let container =
            |limits: Value| json!({"name": "c", "resources": {"limits": limits, "requests": limits}});
        let (both, one) =
            (container(json!({"cpu": "100m", "memory": "10Mi"})), container(json!({"memory": "20Mi"})));
        let resources = |spec: Value| created(spec).at("resources").clone();
        assert_eq!(
            resources(json!({"containers": [both, one], "resources": {"requests": {"cpu": "1"}}})),
            json!({"requests": {"cpu": "1", "memory": "30Mi"}, "limits": {"memory": "30Mi"}})
        );
        assert_eq!(
            resources(json!({"containers": [both], "resources": {"requests": {"memory": "1Gi"}}})),
            json!({"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"cpu": "100m", "memory": "1Gi"}})
        );
    }

    /// Huge pages of containers did not count for their Pod.
    #[test]
    fn huge_pages_of_the_pod_are_those_of_its_containers() {
        let container = json!({"name": "c", "resources": {"limits": {"hugepages-2Mi": "4Mi"}}});
        let spec = created(json!({"containers": [container], "resources": {"requests": {"cpu": "1"}}}));
        let expected =
            json!({"limits": {"hugepages-2Mi": "4Mi"}, "requests": {"cpu": "1", "hugepages-2Mi": "4Mi"}});
        assert_eq!(spec.at("resources"), &expected);
    }
}
