//! Deprecations and likely mistakes, which are returned in `Warning` headers and do not fail a write.
//!
//! A new object gets all warnings; a changed one only if what it is made from changed, and those of a Pod never,
//! because controllers write Pods all the time. The row of a kind names its function ([`crate::strategy`]): those of
//! workloads are here, what they share about Pods in `pod`, addresses and labels of nodes in `places`, the others in
//! `objects`.

mod affinity;
pub(crate) mod objects;
mod overlaps;
pub(crate) mod places;
pub(crate) mod pod;

use listwatch_wire::json::Value;
use listwatch_wire::names::label_errors;

use crate::Kind;
use crate::field::Path;
use crate::tree::Tree;

/// The warning that every response about a deprecated kind carries.
///
/// kube-apiserver takes the text from the type's lifecycle; only two kinds that are still served have one.
#[must_use]
pub fn deprecated_kind(kind: &Kind) -> Option<&'static str> {
    kind.strategy.deprecated
}

/// Warnings about what the server makes something else of when it creates the object.
#[must_use]
pub fn as_sent(kind: &Kind, object: &Value) -> Vec<String> {
    let mut found = Vec::new();
    (kind.strategy.warnings_as_sent)(object, &mut found);
    found
}

/// Warnings about a new object, or about a changed one and the stored one that it replaces.
///
/// The comparison with the stored spec is by shared parts, so an update of the status costs next to nothing.
#[must_use]
pub fn of(kind: &Kind, new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut found = Vec::new();
    (kind.strategy.warnings)(new, old, &mut found);
    found
}

/// True if the object is new or its spec differs from the stored one.
fn spec_changes(new: &Value, old: Option<&Value>) -> bool {
    old.is_none_or(|old| new.at("spec") != old.at("spec"))
}

/// Warnings about the template of a Deployment, ReplicaSet or ReplicationController, and about the name that its Pods get.
pub(crate) fn named_workload(new: &Value, old: Option<&Value>, found: &mut Vec<String>) {
    if old.is_none() {
        name(new, "Pod names and hostnames", found);
    }
    workload(new, old, found);
}

/// Warnings about the template of a DaemonSet.
pub(crate) fn workload(new: &Value, old: Option<&Value>, found: &mut Vec<String>) {
    if spec_changes(new, old) {
        let spec = Path::root("spec");
        pod::warn(new.at("spec").at("template"), Some(&spec.child("template")), found);
    }
}

/// Warnings about a Job.
pub(crate) fn job(new: &Value, old: Option<&Value>, found: &mut Vec<String>) {
    if old.is_none() {
        name(new, "Pod names and hostnames", found);
    }
    if spec_changes(new, old) {
        job_spec(new.at("spec"), &Path::root("spec"), found);
    }
}

/// Warnings about the spec of a Job: counts that its status has no room for, and the template.
fn job_spec(spec: &Value, path: &Path<'_>, found: &mut Vec<String>) {
    let count = |key| spec.int(key).unwrap_or(0);
    let large = count("completions") > 100_000 && count("parallelism") > 10_000;
    if spec.text("completionMode") == "Indexed" && large {
        found.push(format!("{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"));
    }
    pod::warn(spec.at("template"), Some(&path.child("template")), found);
}

/// Warnings about a StatefulSet.
pub(crate) fn stateful_set(new: &Value, old: Option<&Value>, found: &mut Vec<String>) {
    workload(new, old, found);
    let spec = Path::root("spec");
    let claims = spec.child("volumeClaimTemplates");
    for (index, claim) in new.at("spec").list("volumeClaimTemplates").iter().enumerate() {
        // For updates kube-apiserver reports the warning at another path.
        let path = claims.index(index);
        let path = if old.is_some() { &path.child("Spec") } else { &path };
        objects::claim_amounts(claim.at("spec"), path, found);
    }
    let limit = new.at("spec").int("revisionHistoryLimit");
    // kube-apiserver repeats this one in every update.
    if limit.is_some_and(|limit| limit < 0) {
        found.push("spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended".to_owned());
    }
}

/// Warnings about a CronJob.
pub(crate) fn cron_job(new: &Value, old: Option<&Value>, found: &mut Vec<String>) {
    if old.is_none() {
        name(new, "Pod names and hostnames", found);
    }
    if spec_changes(new, old) {
        let path = Path::root("spec");
        let path = path.child("jobTemplate");
        let path = path.child("spec");
        job_spec(new.path(&["spec", "jobTemplate", "spec"]), &path, found);
    }
}

/// Warnings about a new PodTemplate.
pub(crate) fn pod_template(new: &Value, old: Option<&Value>, found: &mut Vec<String>) {
    if old.is_none() {
        pod::warn(new.at("template"), Some(&Path::root("template")), found);
    }
}

/// Warnings about a new Pod.
pub(crate) fn pod(new: &Value, old: Option<&Value>, found: &mut Vec<String>) {
    if old.is_none() {
        name(new, "the Pod's hostname", found);
        pod::warn(new, None, found);
    }
}

/// A name that becomes part of host names should be a label.
fn name(object: &Value, used_in: &str, found: &mut Vec<String>) {
    let wrong = label_errors(object.at("metadata").text("name"));
    if !wrong.is_empty() {
        found.push(format!(
            "metadata.name: this is used in {used_in}, which can result in surprising behavior; a DNS label is recommended: [{}]",
            wrong.join(" ")
        ));
    }
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;
    use crate::by_kind;

    #[test]
    fn warnings_name_the_field_and_the_remedy() {
        let pod = json!({
            "metadata": {"name": "p", "annotations": {"seccomp.security.alpha.kubernetes.io/pod": "runtime/default"}},
            "spec": {
                "nodeSelector": {"beta.kubernetes.io/os": "linux"},
                "containers": [{"name": "a", "env": [{"name": "A"}, {"name": "A"}]}]
            }
        });
        assert_eq!(
            of(by_kind("", "v1", "Pod").unwrap(), &pod, None),
            [
                "spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead",
                "metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]: non-functional in v1.27+; use the \"seccompProfile\" field instead",
                "spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped when using apply",
            ]
        );
        let deployment = json!({"metadata": {"name": "d"}, "spec": {"template": pod}});
        let kind = by_kind("apps", "v1", "Deployment").unwrap();
        let found = of(kind, &deployment, None);
        assert!(found.iter().all(|warning| warning.starts_with("spec.template.")), "{found:?}");
        assert_eq!(found.len(), 3);
        assert_eq!(of(kind, &deployment, Some(&deployment)), [""; 0]);
    }

    #[test]
    fn names_of_hosts_should_be_labels_and_port_names_unique() {
        let ports = json!([{"containerPort": 1, "name": "x"}]);
        let pod = json!({"metadata": {"name": "a.b"}, "spec": {"containers": [{"ports": ports}, {"ports": ports}]}});
        assert_eq!(
            of(by_kind("", "v1", "Pod").unwrap(), &pod, None),
            [
                "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]",
                "spec.containers[1].ports[0]: duplicate port definition with spec.containers[0].ports[0]",
                "spec.containers[1].ports[0]: duplicate port name \"x\" with spec.containers[0].ports[0], services and probes that select ports by name will use spec.containers[0].ports[0]",
            ]
        );
        assert_eq!(of(by_kind("", "v1", "Pod").unwrap(), &pod, Some(&json!({}))), [""; 0]);
    }
}
