//! Priority: resolves the PriorityClass of new Pods to `priority` and `preemptionPolicy`, and allows one global
//! default class.
//!
//! Only the plugin sets the numbers: a Pod with values other than those of its class is rejected, or any user could
//! preempt any Pod. The two system classes need no object, so that system Pods can start in an empty cluster. Of
//! several default classes the one with the smallest value wins, as in kube-apiserver. Existing Pods keep their
//! priority when a class changes.

use async_trait::async_trait;
use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::Value;

use super::{Attributes, Operation, Plugin};
use crate::cache::CachedObject;
use crate::registry::Resource;

/// Classes that need no object.
const SYSTEM: [(&str, i64); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];
const CLASSES: (&str, &str, &str) = ("scheduling.k8s.io", "v1", "priorityclasses");
/// The policy of classes that state none.
const DEFAULT_POLICY: &str = "PreemptLowerPriority";

/// Mutating for Pods, validating for classes. The check of a second default is made against the cache, so two created
/// at the same moment may both pass; `default_class` then takes the smaller.
#[derive(Debug)]
#[doc(alias = "priority.Plugin")]
pub(super) struct PriorityPlugin;

/// The values that a PriorityClass sets in a Pod.
#[derive(Debug, PartialEq, Eq)]
struct Class {
    name: String,
    value: i64,
    /// `PreemptLowerPriority` or `Never`.
    policy: String,
}

#[async_trait]
impl Plugin for PriorityPlugin {
    fn is_interested(&self, resource: &Resource) -> bool {
        let of = (&*resource.group, &*resource.plural);
        of == ("", "pods") || of == ("scheduling.k8s.io", "priorityclasses")
    }

    fn handles(&self, operation: Operation, subresource: &str) -> bool {
        subresource.is_empty() && matches!(operation, Operation::Create | Operation::Update)
    }

    async fn admit(&self, request: &Attributes<'_>, pod: &mut Value) -> Result<(), Status> {
        if !request.is("", "pods") {
            return Ok(());
        }
        if let Some(old) = request.old {
            carry_over(pod, old);
            return Ok(());
        }
        if pod.at("spec").has("priorityClassName") {
            // The cache is brought up to the store, so that the latest classes are found.
            request.api.wait_for(None).await?;
        }
        let class = class_of(request, pod)?;
        settle(pod, &class).map_err(|why| request.forbidden(pod, &why))
    }

    async fn validate(&self, request: &Attributes<'_>, object: &Value) -> Result<(), Status> {
        if request.is("", "pods") || !object.flag("globalDefault") {
            return Ok(());
        }
        let name = object.at("metadata").text("name");
        let other = default_class(request).filter(|other| other.name != name);
        let Some(other) = other else { return Ok(()) };
        let other = other.name;
        let why = format!("PriorityClass {other} is already marked as default. Only one default can exist");
        Err(request.forbidden(object, &why))
    }
}

/// An update without the priority keeps it.
fn carry_over(pod: &mut Value, old: &Value) {
    let Some(spec) = pod.inner("spec") else { return };
    for key in ["priority", "preemptionPolicy"] {
        if let Some(value) = old.at("spec").fields().and_then(|fields| fields.get(key)) {
            spec.fill(key, value.clone());
        }
    }
}

/// The class a Pod names, or the default one.
///
/// # Errors
///
/// 403 for a class that does not exist.
fn class_of(request: &Attributes<'_>, pod: &Value) -> Result<Class, Status> {
    let name = pod.at("spec").text("priorityClassName");
    if name.is_empty() {
        let none = || Class { name: String::new(), value: 0, policy: DEFAULT_POLICY.to_owned() };
        return Ok(default_class(request).unwrap_or_else(none));
    }
    if let Some((name, value)) = SYSTEM.into_iter().find(|(system, _)| *system == name) {
        return Ok(Class { name: name.to_owned(), value, policy: DEFAULT_POLICY.to_owned() });
    }
    let found = request.find(CLASSES, None, name);
    let missing = || request.forbidden(pod, &format!("no PriorityClass with name {name} was found"));
    found.as_ref().map(read).ok_or_else(missing)
}

/// The class for Pods that name none: of several, the one with the smallest value.
fn default_class(request: &Attributes<'_>) -> Option<Class> {
    let is_default = |class: &CachedObject| class.field("globalDefault") == Some("true");
    let classes = request.list_where(CLASSES, None, is_default);
    classes.iter().map(read).min_by_key(|class| class.value)
}

/// Reads what admission needs of a PriorityClass.
fn read(class: &Value) -> Class {
    let policy = class.text("preemptionPolicy");
    Class {
        name: class.at("metadata").text("name").to_owned(),
        value: class.int("value").unwrap_or(0),
        policy: if policy.is_empty() { DEFAULT_POLICY } else { policy }.to_owned(),
    }
}

/// Writes name, value and preemption policy of the class into the Pod.
///
/// # Errors
/// The Pod has other values than its class.
fn settle(pod: &mut Value, class: &Class) -> Result<(), String> {
    let Some(spec) = pod.inner_or_new("spec") else { return Ok(()) };
    let computed = |what: &str, asked: &str, value: &str| {
        format!(
            "the {what} ({asked}) must not be provided in pod spec; priority admission controller computed {value} from the given PriorityClass name"
        )
    };
    if let Some(asked) = spec.int("priority").filter(|asked| *asked != class.value) {
        return Err(computed("integer value of priority", &asked.to_string(), &class.value.to_string()));
    }
    let asked = spec.text("preemptionPolicy");
    if spec.has("preemptionPolicy") && asked != class.policy {
        return Err(computed("string value of PreemptionPolicy", asked, &class.policy));
    }
    if !class.name.is_empty() {
        spec.put("priorityClassName", class.name.as_str());
    }
    spec.put("priority", class.value);
    spec.put("preemptionPolicy", class.policy.as_str());
    Ok(())
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    #[test]
    fn the_priority_of_a_pod_must_be_that_of_its_class() {
        let class = Class { name: String::new(), value: 0, policy: DEFAULT_POLICY.to_owned() };
        for (spec, fits) in [
            (json!({}), true),
            (json!({"priority": 0}), true),
            (json!({"priority": 5}), false),
            (json!({"preemptionPolicy": "Never"}), false),
        ] {
            let mut pod = json!({"spec": spec});
            assert_eq!(settle(&mut pod, &class).is_ok(), fits, "{pod:?}");
        }
    }
}
