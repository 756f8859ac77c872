//! LimitRanger: applies the LimitRanges of a namespace: default requests and limits for containers, then minimum,
//! maximum and ratio checks.
//!
//! Defaults are set in `admit` and bounds are checked in `validate`, so that mutations of other plugins are checked
//! as well. What was set is recorded in the annotation `kubernetes.io/limit-ranger`, as in kube-apiserver. A plain
//! update of a Pod is not checked, because resources change only through `resize`; objects that are being deleted are
//! not checked, or they could never go. Sums over a Pod are [`super::pod_resources`].

use std::fmt::Write as _;

use async_trait::async_trait;
use listwatch_kinds::quantity::Quantity;
use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::{Map, Value};
use listwatch_wire::status::aggregate;

use super::config_source::ConfigSource;
use super::pod_resources::{self, Amounts, amounts};
use super::{Attributes, Operation, Plugin};
use crate::api::Api;
use crate::registry::Resource;

const LIMIT_RANGES: (&str, &str, &str) = ("", "v1", "limitranges");
const ANNOTATION: &str = "kubernetes.io/limit-ranger";
/// The length of the annotation after which no more defaults are set: the annotations of an object may not be longer, so the
/// Pod is invalid. Every container may lack every default, so a small Pod and a small LimitRange can mean gigabytes.
const MAX_ANNOTATION: usize = 256 * 1024;
/// Violations after which no more containers are checked, since every container may violate every bound.
const MAX_VIOLATIONS: usize = 10_000;

/// Both phases; idle while the cluster has no LimitRange. LimitRanges come from the watch cache without waiting: one
/// that is created at the same time as a Pod may or may not count.
#[derive(Debug)]
pub(super) struct LimitRanger(ConfigSource);

impl Default for LimitRanger {
    fn default() -> Self {
        Self(ConfigSource::new(LIMIT_RANGES))
    }
}

#[async_trait]
impl Plugin for LimitRanger {
    fn is_interested(&self, resource: &Resource) -> bool {
        resource.group.is_empty() && matches!(&*resource.plural, "pods" | "persistentvolumeclaims")
    }

    fn handles(&self, operation: Operation, subresource: &str) -> bool {
        match operation {
            Operation::Create => subresource.is_empty(),
            Operation::Update => matches!(subresource, "" | "resize"),
            _ => false,
        }
    }

    fn is_idle(&self, api: &Api) -> bool {
        self.0.is_empty(api)
    }

    async fn admit(&self, request: &Attributes<'_>, object: &mut Value) -> Result<(), Status> {
        if request.is("", "pods") && is_checked(request) {
            for range in request.list(LIMIT_RANGES, Some(request.namespace)) {
                if set_defaults(object, &range) > MAX_ANNOTATION {
                    break;
                }
            }
        }
        Ok(())
    }

    async fn validate(&self, request: &Attributes<'_>, object: &Value) -> Result<(), Status> {
        if !is_checked(request) {
            return Ok(());
        }
        for range in request.list(LIMIT_RANGES, Some(request.namespace)) {
            let errors = if request.is("", "pods") {
                pod_errors(object, &range)
            } else {
                claim_errors(object, &range)
            };
            if !errors.is_empty() {
                return Err(request.forbidden(object, &aggregate(errors)));
            }
        }
        Ok(())
    }
}

/// Returns false for plain updates of Pods, whose resources change through `resize` only, and for objects that are
/// being deleted.
fn is_checked(request: &Attributes<'_>) -> bool {
    let plain_pod_update =
        request.is("", "pods") && request.operation == Operation::Update && request.subresource.is_empty();
    let deleted = request.old.is_some_and(|old| old.at("metadata").has("deletionTimestamp"));
    !plain_pod_update && !deleted
}

/// Several items of one type are possible, and all apply.
fn items<'a>(range: &'a Value, kind: &str) -> impl Iterator<Item = &'a Value> {
    range.at("spec").list("limits").iter().filter(move |item| item.text("type") == kind)
}

/// Fills in the requests and limits that containers leave out, and returns the length of the annotation that lists them.
/// Ephemeral containers are left out: they have no resources of their own.
fn set_defaults(pod: &mut Value, range: &Value) -> usize {
    const PREFIX: &str = "LimitRanger plugin set: ";
    let mut text = PREFIX.to_owned();
    for item in items(range, "Container") {
        let Some(spec) = pod.inner("spec") else { return 0 };
        for (key, prefix) in [("containers", "container"), ("initContainers", "init container")] {
            for container in spec.each(key) {
                fill_container(container, prefix, item, &mut text);
                if text.len() > MAX_ANNOTATION {
                    break;
                }
            }
        }
    }
    if text.len() == PREFIX.len() {
        return 0;
    }
    let length = text.len();
    if let Some(annotations) = pod.inner_or_new("metadata").and_then(|meta| meta.inner_or_new("annotations"))
    {
        annotations.put(ANNOTATION, text);
    }
    length
}

/// Fills in the requests and limits of one container, and appends what was set to the text of the annotation.
fn fill_container(container: &mut Map, prefix: &str, item: &Value, text: &mut String) {
    let name = container.text("name").to_owned();
    for (which, default, word) in [("requests", "defaultRequest", "request"), ("limits", "default", "limit")]
    {
        let added = fill(container, which, item.at(default));
        if !added.is_empty() {
            let separator = if text.ends_with(": ") { "" } else { "; " };
            let _ = write!(text, "{separator}{} {word} for {prefix} {name}", added.join(", "));
        }
    }
}

/// Adds the defaults that a resource list lacks; returns their names, sorted.
fn fill(container: &mut Map, which: &str, defaults: &Value) -> Vec<String> {
    let given = container.at("resources").at(which);
    let mut missing: Vec<(String, Value)> = defaults
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, _)| !given.has(name))
        .map(|(name, amount)| (name.to_string(), amount.clone()))
        .collect();
    missing.sort_by(|a, b| a.0.cmp(&b.0));
    if missing.is_empty() {
        return Vec::new();
    }
    let list = container.inner_or_new("resources").and_then(|resources| resources.inner_or_new(which));
    let Some(list) = list else { return Vec::new() };
    for (name, amount) in &missing {
        list.put(name, amount.clone());
    }
    missing.into_iter().map(|(name, _)| name).collect()
}

/// The violations of one LimitRange: by each container, and by the Pod as a whole. Other item types do not concern
/// Pods.
fn pod_errors(pod: &Value, range: &Value) -> Vec<String> {
    let spec = pod.at("spec");
    let mut errors = Vec::new();
    for item in range.at("spec").list("limits") {
        match item.text("type") {
            "Container" => {
                for container in spec.list("containers").iter().chain(spec.list("initContainers")) {
                    let resources = container.at("resources");
                    let use_of = Use {
                        of: "Container",
                        requests: amounts(resources.at("requests")),
                        limits: amounts(resources.at("limits")),
                    };
                    use_of.check(item, &mut errors);
                    if errors.len() >= MAX_VIOLATIONS {
                        return errors;
                    }
                }
            }
            "Pod" => Use {
                of: "Pod",
                requests: pod_resources::of_pod(spec, "requests"),
                limits: pod_resources::of_pod(spec, "limits"),
            }
            .check(item, &mut errors),
            _ => {}
        }
    }
    errors
}

/// Claims have requests only.
fn claim_errors(claim: &Value, range: &Value) -> Vec<String> {
    let requests = amounts(claim.at("spec").at("resources").at("requests"));
    let use_of = Use { of: "PersistentVolumeClaim", requests, limits: Amounts::new() };
    let mut errors = Vec::new();
    for item in items(range, "PersistentVolumeClaim") {
        errors.extend(amounts(item.at("min")).iter().filter_map(|(name, min)| use_of.below(name, *min)));
        errors.extend(
            amounts(item.at("max")).iter().filter_map(|(name, max)| use_of.request_above(name, *max)),
        );
    }
    errors
}

/// Requests and limits of something that a limit range bounds.
/// Messages name it by `of`: `Container`, `Pod` or `PersistentVolumeClaim`.
struct Use {
    of: &'static str,
    requests: Amounts,
    limits: Amounts,
}

impl Use {
    /// The three kinds of bounds in the order in which kube-apiserver reports them.
    fn check(&self, item: &Value, errors: &mut Vec<String>) {
        errors.extend(amounts(item.at("min")).iter().filter_map(|(name, min)| self.below(name, *min)));
        errors.extend(amounts(item.at("max")).iter().filter_map(|(name, max)| self.above(name, *max)));
        let ratios = amounts(item.at("maxLimitRequestRatio"));
        errors.extend(ratios.iter().filter_map(|(name, ratio)| self.beyond_ratio(name, *ratio)));
    }

    /// A missing request violates a minimum: the scheduler would count it as zero.
    fn below(&self, name: &str, min: Quantity) -> Option<String> {
        let bound = format!("minimum {name} usage per {} is {min}", self.of);
        let Some(request) = self.requests.get(name) else {
            return Some(format!("{bound}.  No request is specified"));
        };
        if *request < min {
            return Some(format!("{bound}, but request is {request}"));
        }
        let limit = self.limits.get(name).filter(|limit| **limit < min)?;
        Some(format!("{bound}, but limit is {limit}"))
    }

    /// A missing limit violates a maximum, since the container could use any amount.
    fn above(&self, name: &str, max: Quantity) -> Option<String> {
        let bound = format!("maximum {name} usage per {} is {max}", self.of);
        let Some(limit) = self.limits.get(name) else {
            return Some(format!("{bound}.  No limit is specified"));
        };
        if *limit > max {
            return Some(format!("{bound}, but limit is {limit}"));
        }
        let request = self.requests.get(name).filter(|request| **request > max)?;
        Some(format!("{bound}, but request is {request}"))
    }

    /// The maximum of claims, which have no limits: their request is compared.
    fn request_above(&self, name: &str, max: Quantity) -> Option<String> {
        let bound = format!("maximum {name} usage per {} is {max}", self.of);
        let Some(request) = self.requests.get(name) else {
            return Some(format!("{bound}.  No request is specified"));
        };
        (*request > max).then(|| format!("{bound}, but request is {request}"))
    }

    /// The violation of `maxLimitRequestRatio`. A missing request or limit violates it, since there is no ratio.
    fn beyond_ratio(&self, name: &str, max: Quantity) -> Option<String> {
        let bound = format!("{name} max limit to request ratio per {} is {max}", self.of);
        let amount = |list: &Amounts| list.get(name).copied().filter(|amount| !amount.is_zero());
        let Some(request) = amount(&self.requests) else {
            return Some(format!("{bound}, but no request is specified or request is 0"));
        };
        let Some(limit) = amount(&self.limits) else {
            return Some(format!("{bound}, but no limit is specified or limit is 0"));
        };
        let ratio = limit.as_f64() / request.as_f64();
        (ratio > max.as_f64()).then(|| format!("{bound}, but provided ratio is {ratio:.6}"))
    }
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    fn containers(count: usize) -> Value {
        let containers: Value = (0..count).map(|n| json!({"name": format!("c{n}")})).collect();
        json!({"metadata": {}, "spec": {"containers": containers}})
    }

    fn range(key: &str, resources: usize) -> Value {
        let amounts: Map = (0..resources).map(|n| (format!("a.b/r{n}"), "1".into())).collect();
        json!({"spec": {"limits": [{"type": "Container", key: amounts}]}})
    }

    /// 2,000 containers and 2,000 resources took 1.2 GB and 10 s of a processor, in proportion to both.
    #[test]
    fn defaults_end_where_their_annotation_is_too_long() {
        let mut pod = containers(2000);
        assert!(set_defaults(&mut pod, &range("default", 2000)) > MAX_ANNOTATION);
        let filled = pod.at("spec").list("containers").iter().filter(|container| container.has("resources"));
        assert!(filled.count() < 20);
        let annotation = pod.at("metadata").at("annotations").text(ANNOTATION);
        assert!(annotation.len() > MAX_ANNOTATION, "validation refuses the Pod");
        assert!(annotation.starts_with("LimitRanger plugin set: a.b/r0, a.b/r1, "));
    }

    #[test]
    fn defaults_are_listed_in_the_annotation() {
        let mut pod = containers(2);
        set_defaults(&mut pod, &range("default", 1));
        assert_eq!(
            pod.at("metadata").at("annotations").text(ANNOTATION),
            "LimitRanger plugin set: a.b/r0 limit for container c0; a.b/r0 limit for container c1"
        );
        assert_eq!(set_defaults(&mut pod, &range("default", 1)), 0, "nothing is missing");
    }

    #[test]
    fn violations_are_bounded() {
        let errors = pod_errors(&containers(2000), &range("max", 2000));
        assert!((MAX_VIOLATIONS..MAX_VIOLATIONS + 2000).contains(&errors.len()), "{}", errors.len());
    }

    #[test]
    fn the_annotation_names_what_was_filled_in() {
        let range = json!({"spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"memory": "1Mi", "cpu": "500m"}}]}});
        let mut pod = json!({"metadata": {}, "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]}});
        set_defaults(&mut pod, &range);
        let resources = &pod["spec"]["containers"][0]["resources"];
        assert_eq!(resources, &json!({"limits": {"cpu": "2"}, "requests": {"cpu": "500m", "memory": "1Mi"}}));
        let text = "LimitRanger plugin set: cpu, memory request for container c";
        assert_eq!(pod["metadata"]["annotations"][ANNOTATION], text);
    }

    #[test]
    fn bounds_are_worded_as_in_kube_apiserver() {
        let range = |item: Value| json!({"spec": {"limits": [item]}});
        let pod = json!({"spec": {"containers": [{"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "3"}}}]}});
        for (item, expected) in [
            (
                json!({"type": "Container", "max": {"cpu": "2"}}),
                "maximum cpu usage per Container is 2, but limit is 3",
            ),
            (
                json!({"type": "Pod", "min": {"cpu": "1500m"}}),
                "minimum cpu usage per Pod is 1500m, but request is 1",
            ),
            (
                json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}}),
                "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
            ),
            (
                json!({"type": "Container", "max": {"memory": "1Mi"}}),
                "maximum memory usage per Container is 1Mi.  No limit is specified",
            ),
        ] {
            assert_eq!(pod_errors(&pod, &range(item)), [expected]);
        }
    }
}
