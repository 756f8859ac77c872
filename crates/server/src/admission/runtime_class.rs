//! RuntimeClass: new Pods must name a runtime class that exists, and get its overhead, node selector and tolerations.
//!
//! `overhead` is the class's to set: a Pod that brings another value is rejected, because quota and scheduling count
//! it. The cache is waited for, so that a class created just before counts. A conflict between node selectors is an
//! error rather than a choice.

use async_trait::async_trait;
use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::Value;

use super::{Attributes, Operation, Plugin};
use crate::registry::Resource;

/// Both phases: `admit` sets the overhead, `validate` checks that nothing changed it.
#[derive(Debug)]
pub(super) struct RuntimeClass;

#[async_trait]
impl Plugin for RuntimeClass {
    fn is_interested(&self, resource: &Resource) -> bool {
        (&*resource.group, &*resource.plural) == ("", "pods")
    }

    fn handles(&self, operation: Operation, subresource: &str) -> bool {
        subresource.is_empty() && operation == Operation::Create
    }

    async fn admit(&self, request: &Attributes<'_>, pod: &mut Value) -> Result<(), Status> {
        let Some(class) = class_of(request, pod).await? else { return Ok(()) };
        set_overhead(pod, class.at("overhead").at("podFixed"))
            .and_then(|()| set_scheduling(pod, class.at("scheduling")))
            .map_err(|why| request.forbidden(pod, &why))
    }

    async fn validate(&self, request: &Attributes<'_>, pod: &Value) -> Result<(), Status> {
        let class = class_of(request, pod).await?.unwrap_or_default();
        if pod.at("spec").at("overhead") == class.at("overhead").at("podFixed") {
            return Ok(());
        }
        let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
        Err(request.forbidden(pod, why))
    }
}

/// The class that the Pod names; `None` if it names none, which costs nothing.
///
/// # Errors
///
/// 403 for a class that does not exist; 5xx if the store does not return its current revision.
async fn class_of(request: &Attributes<'_>, pod: &Value) -> Result<Option<Value>, Status> {
    let name = pod.at("spec").text("runtimeClassName");
    if name.is_empty() {
        return Ok(None);
    }
    // The cache is brought up to the store, so that the latest classes are found.
    request.api.wait_for(None).await?;
    let found = request.find(("node.k8s.io", "v1", "runtimeclasses"), None, name);
    let missing = || request.forbidden(pod, &format!("pod rejected: RuntimeClass {name:?} not found"));
    found.ok_or_else(missing).map(Some)
}

/// Sets the overhead of the class on a Pod that has none.
///
/// # Errors
///
/// The Pod brings another overhead than its class has.
fn set_overhead(pod: &mut Value, overhead: &Value) -> Result<(), String> {
    let given = pod.at("spec").at("overhead");
    if overhead.is_null() || given == overhead {
        return Ok(());
    }
    if !given.is_null() {
        return Err("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead".to_owned());
    }
    if let Some(spec) = pod.inner("spec") {
        spec.put("overhead", overhead.clone());
    }
    Ok(())
}

/// Adds the node selector and the tolerations of the class.
fn set_scheduling(pod: &mut Value, scheduling: &Value) -> Result<(), String> {
    let Some(spec) = pod.inner("spec") else { return Ok(()) };
    if scheduling.count("nodeSelector") > 0 {
        let Some(selector) = spec.inner_or_new("nodeSelector") else { return Ok(()) };
        for (key, value) in scheduling.entries("nodeSelector") {
            if selector.has(key) && selector.at(key) != value {
                return Err(format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; pod.spec.nodeSelector[{key}] = {}",
                    value.as_str().unwrap_or_default(),
                    selector.text(key)
                ));
            }
            selector.put(key, value.clone());
        }
    }
    let mut tolerations = spec.list("tolerations").to_vec();
    let given = tolerations.len();
    for toleration in scheduling.list("tolerations") {
        if !tolerations.contains(toleration) {
            tolerations.push(toleration.clone());
        }
    }
    if tolerations.len() > given {
        spec.put("tolerations", tolerations);
    }
    Ok(())
}
