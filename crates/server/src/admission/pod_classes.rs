//! What a new Pod takes from the classes it names.

use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::Value;

use crate::api::Api;
use crate::pipeline::target::Target;
use crate::pipeline::transaction::cached;
use crate::registry::Resource;

/// What a Pod says about its own priority, which is for its class to say.
#[derive(Debug)]
pub(crate) struct AskedPriority {
    priority: Option<i64>,
    preemption: String,
}

impl AskedPriority {
    /// Takes it out of a Pod, so that it does not count. Other objects say nothing of the kind.
    pub(crate) fn take(resource: &Resource, object: &mut Value) -> Self {
        match (&*resource.group, &*resource.kind) {
            ("", "Pod") => Self::of(object),
            _ => Self { priority: None, preemption: String::new() },
        }
    }

    fn of(pod: &mut Value) -> Self {
        let asked = Self {
            priority: pod.at("spec").int("priority"),
            preemption: pod.at("spec").text("preemptionPolicy").to_owned(),
        };
        if let Some(spec) = pod.inner("spec") {
            spec.remove("priority");
            spec.remove("preemptionPolicy");
        }
        asked
    }

    /// Whether it is what the class says, too.
    pub(crate) fn check(&self, target: &Target<'_>, pod: &Value) -> Result<(), Status> {
        self.objection(pod.at("spec")).map_or(Ok(()), |why| Err(refused(target, &why)))
    }

    fn objection(&self, spec: &Value) -> Option<String> {
        let (priority, preemption) = (spec.int("priority").unwrap_or(0), spec.text("preemptionPolicy"));
        let (what, asked, computed) = match self.priority.filter(|asked| *asked != priority) {
            Some(asked) => ("integer value of priority", asked.to_string(), priority.to_string()),
            None if self.preemption.is_empty() || self.preemption == preemption => return None,
            None => ("string value of PreemptionPolicy", self.preemption.clone(), preemption.to_owned()),
        };
        Some(format!(
            "the {what} ({asked}) must not be provided in pod spec; priority admission controller computed {computed} from the given PriorityClass name"
        ))
    }
}

fn refused(target: &Target<'_>, why: &str) -> Status {
    Status::forbidden("", "pods", target.name, why)
}

/// Gives a new Pod the priority of its class.
pub(crate) fn priority(api: &Api, target: &Target<'_>, pod: &mut Value) -> Result<(), Status> {
    let class = pod.at("spec").text("priorityClassName").to_owned();
    if class.is_empty() || class.starts_with("system-") {
        return Ok(());
    }
    let Some(classes) = api.registry.find("scheduling.k8s.io", "v1", "priorityclasses") else {
        return Ok(());
    };
    let Some(found) = cached(api, &Target::new(&classes, None, &class))? else {
        return Err(refused(target, &format!("no PriorityClass with name {class} was found")));
    };
    if let Some(spec) = pod.inner("spec") {
        spec.put("priority", found.value.int("value").unwrap_or(0));
        spec.put("preemptionPolicy", found.value.text("preemptionPolicy"));
    }
    Ok(())
}

/// A Pod runs only in a way that there is, and costs what that way costs.
pub(crate) fn runtime_class(api: &Api, target: &Target<'_>, pod: &mut Value) -> Result<(), Status> {
    let class = pod.at("spec").text("runtimeClassName").to_owned();
    let asked = pod.at("spec").at("overhead").clone();
    let mut overhead = Value::Null;
    if let Some(classes) = api.registry.find("node.k8s.io", "v1", "runtimeclasses")
        && !class.is_empty()
    {
        let Some(found) = cached(api, &Target::new(&classes, None, &class))? else {
            return Err(refused(target, &format!("pod rejected: RuntimeClass {class:?} not found")));
        };
        overhead = found.value.at("overhead").at("podFixed").clone();
    }
    if asked == overhead {
        return Ok(());
    }
    if !asked.is_null() {
        let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
        return Err(refused(target, why));
    }
    if let Some(spec) = pod.inner("spec") {
        spec.put("overhead", overhead);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    #[test]
    fn a_pod_may_only_repeat_what_its_class_says() {
        let spec = json!({"priority": 0, "preemptionPolicy": "PreemptLowerPriority"});
        for (asked, fits) in [
            (json!({}), true),
            (json!({"priority": 0}), true),
            (json!({"priority": 5}), false),
            (json!({"preemptionPolicy": "Never"}), false),
        ] {
            let mut pod = json!({"spec": asked});
            let asked = AskedPriority::of(&mut pod);
            assert_eq!(asked.objection(&spec).is_none(), fits, "{asked:?}");
            assert_eq!(pod, json!({"spec": {}}));
        }
    }
}
