//! A new Pod: fields that follow from other fields of its own.
//!
//! None of this is a default, because templates of Pods do not have it, and because admission has changed the Pod before.

use std::collections::HashMap;

use listwatch_wire::json::{Map, Value, json};

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
    pod_requests(spec);
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

/// The field that the annotation of a container stands for, if it can be one.
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

/// A Pod with limits of its own asks for what its containers ask for, or for its limits where they ask for nothing.
fn pod_requests(spec: &mut Map) {
    if spec.at("resources").count("limits") == 0 {
        return;
    }
    let asked = container_requests(spec);
    let Some(resources) = spec.inner("resources") else { return };
    let limits = resources.at("limits").as_object().cloned().unwrap_or_default();
    let mut requests = resources.at("requests").as_object().cloned().unwrap_or_default();
    for (name, amount) in asked.into_iter().filter(|(name, _)| !name.starts_with("hugepages-")) {
        requests.fill(&name, amount);
    }
    for (name, limit) in limits.iter().filter(|(name, _)| is_pod_level(name)) {
        requests.fill(name, limit.clone());
    }
    if !requests.is_empty() {
        resources.put("requests", requests);
    }
}

/// The resources that a Pod may ask for as a whole.
fn is_pod_level(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory") || resource.starts_with("hugepages-")
}

/// The requests of all containers together: the sum of those that run side by side, or what one that runs before them needs.
fn container_requests(spec: &Map) -> HashMap<String, String> {
    let mut beside: HashMap<String, Quantity> = HashMap::new();
    let mut most: HashMap<String, Quantity> = HashMap::new();
    for container in spec.list("initContainers") {
        let sidecar = container.text("restartPolicy") == "Always";
        for (name, amount) in requests_of(container) {
            let with = beside.get(&name).map_or(amount, |running| running.plus(amount));
            if sidecar {
                beside.insert(name.clone(), with);
            }
            keep_larger(&mut most, name, with);
        }
    }
    for container in spec.list("containers") {
        for (name, amount) in requests_of(container) {
            let with = beside.get(&name).map_or(amount, |running| running.plus(amount));
            beside.insert(name, with);
        }
    }
    for (name, amount) in beside {
        keep_larger(&mut most, name, amount);
    }
    let text = |(name, amount): (String, Quantity)| {
        let amount = amount.to_string();
        (name, quantity::canonical(&amount).map(Into::into).unwrap_or(amount))
    };
    most.into_iter().map(text).collect()
}

/// Amounts that cannot be read are left out; validation reports them.
fn requests_of(container: &Value) -> impl Iterator<Item = (String, Quantity)> {
    let requests = container.at("resources").at("requests").as_object().into_iter().flatten();
    requests
        .filter(|(name, _)| is_pod_level(name))
        .filter_map(|(name, amount)| Some((name.to_string(), Quantity::parse(amount.as_str()?).ok()?)))
}

fn keep_larger(most: &mut HashMap<String, Quantity>, name: String, amount: Quantity) {
    let known = most.entry(name).or_insert(amount);
    if amount > *known {
        *known = amount;
    }
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
}
