//! PodTolerationRestriction: merges default tolerations of the namespace into Pods, and rejects tolerations outside
//! of its whitelist. Off by default.
//!
//! Both lists are annotations of the namespace, as in kube-apiserver. Pods with requests or limits tolerate memory
//! pressure as well. The cluster-wide configuration file of kube-apiserver's plugin is not read. A namespace without
//! the annotations restricts nothing.

use async_trait::async_trait;
use listwatch_kinds::prepare::qos_class;
use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::{Value, json};

use super::{Attributes, Operation, Plugin};
use crate::registry::Resource;

const DEFAULTS: &str = "scheduler.alpha.kubernetes.io/defaultTolerations";
/// An empty or absent list allows everything.
const ALLOWED: &str = "scheduler.alpha.kubernetes.io/tolerationsWhitelist";
const MEMORY_PRESSURE: &str = "node.kubernetes.io/memory-pressure";

/// Mutating and validating, because a webhook may add tolerations in between. Refusals are not a 403 but the untyped
/// error that kube-apiserver returns here.
#[derive(Debug)]
pub(super) struct PodTolerationRestriction;

#[async_trait]
impl Plugin for PodTolerationRestriction {
    fn is_interested(&self, resource: &Resource) -> bool {
        (&*resource.group, &*resource.plural) == ("", "pods")
    }

    fn handles(&self, operation: Operation, subresource: &str) -> bool {
        subresource.is_empty() && matches!(operation, Operation::Create | Operation::Update)
    }

    async fn admit(&self, request: &Attributes<'_>, pod: &mut Value) -> Result<(), Status> {
        let mut extra = match request.operation {
            Operation::Create => annotated(request, DEFAULTS)?.unwrap_or_default(),
            _ => Vec::new(),
        };
        if qos_class(pod.at("spec")) != "BestEffort" {
            extra.push(json!({"key": MEMORY_PRESSURE, "operator": "Exists", "effect": "NoSchedule"}));
        }
        let merged = merge(pod.at("spec").list("tolerations"), &extra);
        if merged != pod.at("spec").list("tolerations")
            && let Some(spec) = pod.inner_or_new("spec")
        {
            spec.put("tolerations", merged);
        }
        Ok(())
    }

    async fn validate(&self, request: &Attributes<'_>, pod: &Value) -> Result<(), Status> {
        let tolerations = pod.at("spec").list("tolerations");
        let allowed = annotated(request, ALLOWED)?.unwrap_or_default();
        let fits = |toleration: &Value| allowed.iter().any(|wide| covers(wide, toleration));
        if tolerations.is_empty() || allowed.is_empty() || tolerations.iter().all(fits) {
            return Ok(());
        }
        let why = "pod tolerations (possibly merged with namespace default tolerations) conflict with its namespace whitelist";
        Err(Status::unknown_reason(why))
    }
}

/// The tolerations that an annotation of the namespace has, if it has any.
fn annotated(request: &Attributes<'_>, key: &str) -> Result<Option<Vec<Value>>, Status> {
    let namespace = request.namespace_object().unwrap_or_default();
    let annotations = namespace.at("metadata").at("annotations");
    if !annotations.has(key) {
        return Ok(None);
    }
    let text = annotations.text(key);
    let read = if text.is_empty() { Ok(json!([])) } else { Value::read(text.as_bytes()) };
    let read = read.map_err(|error| Status::unknown_reason(error.to_string()))?;
    Ok(Some(read.as_array().map(|list| list.to_vec()).unwrap_or_default()))
}

/// Merges both lists, leaving out tolerations that others cover.
/// Quadratic in the number of tolerations, which validation does not bound; Pods have a handful.
fn merge(own: &[Value], extra: &[Value]) -> Vec<Value> {
    let mut merged: Vec<Value> = Vec::new();
    for toleration in own.iter().chain(extra) {
        if merged.iter().any(|known| covers(known, toleration)) {
            continue;
        }
        merged.retain(|known| !covers(toleration, known));
        merged.push(toleration.clone());
    }
    merged
}

/// Returns true if a toleration tolerates at least what another does.
fn covers(wide: &Value, narrow: &Value) -> bool {
    let same = |key: &str| wide.text(key) == narrow.text(key);
    let seconds = |toleration: &Value| toleration.int("tolerationSeconds");
    if wide == narrow {
        return true;
    }
    let any_key = wide.text("key").is_empty() && wide.text("operator") == "Exists";
    if !same("key") && !any_key {
        return false;
    }
    if !wide.text("effect").is_empty() && !same("effect") {
        return false;
    }
    if let Some(longest) = seconds(wide)
        && seconds(narrow).is_none_or(|asked| asked > longest)
    {
        return false;
    }
    match wide.text("operator") {
        "Exists" => true,
        _ => matches!(narrow.text("operator"), "" | "Equal") && same("value"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wider_toleration_replaces_a_narrower_one() {
        let exists = json!({"key": "a", "operator": "Exists"});
        let equal = json!({"key": "a", "operator": "Equal", "value": "1", "effect": "NoSchedule"});
        let other = json!({"key": "b", "operator": "Exists"});
        assert_eq!(
            merge(std::slice::from_ref(&equal), &[exists.clone(), other.clone()]),
            [exists.clone(), other]
        );
        assert!(covers(&exists, &equal) && !covers(&equal, &exists));
        assert!(covers(&json!({"operator": "Exists"}), &equal));
        let brief = json!({"key": "a", "operator": "Exists", "tolerationSeconds": 5});
        assert!(covers(&exists, &brief) && !covers(&brief, &exists));
    }
}
