//! Deprecations and likely mistakes, which are returned in `Warning` headers and do not fail a write.
//!
//! A new object gets all warnings; a changed one only if what it is made from changed, and those of a Pod never,
//! because controllers write Pods all the time.

mod affinity;
mod objects;
mod overlaps;
mod pod;

use listwatch_wire::json::Value;
use listwatch_wire::names::label_errors;

use crate::Kind;
use crate::field::Path;
use crate::tree::Tree;

/// The warning that every answer about a deprecated kind carries.
#[must_use]
pub fn deprecated_kind(kind: &Kind) -> Option<&'static str> {
    match (kind.group, kind.kind) {
        ("", "ComponentStatus") => Some("v1 ComponentStatus is deprecated in v1.19+"),
        ("", "Endpoints") => {
            Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
        }
        _ => None,
    }
}

/// Warnings about what the server makes something else of when it creates the object.
#[must_use]
pub fn as_sent(kind: &Kind, object: &Value) -> Vec<String> {
    let mut found = Vec::new();
    if (kind.group, kind.kind) == ("", "Pod") {
        pod::apparmor(object, &mut found);
    }
    found
}

/// Warnings about a new object, or about a changed one and the stored one that it replaces.
#[must_use]
pub fn of(kind: &Kind, new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut found = Vec::new();
    let spec = Path::root("spec");
    let template = spec.child("template");
    let same = old.is_some_and(|old| new.at("spec") == old.at("spec"));
    if same && !matches!((kind.group, kind.kind), ("", "Service" | "Secret")) {
        return found;
    }
    match (kind.group, kind.kind) {
        ("", "Pod") if old.is_none() => {
            name(new, "the Pod's hostname", &mut found);
            pod::warn(new, None, &mut found);
        }
        ("apps", "Deployment" | "ReplicaSet") | ("batch", "Job") | ("", "ReplicationController") => {
            if old.is_none() {
                name(new, "Pod names and hostnames", &mut found);
            }
            pod::warn(new.at("spec").at("template"), Some(&template), &mut found);
        }
        ("apps", "StatefulSet") => {
            pod::warn(new.at("spec").at("template"), Some(&template), &mut found);
            if new.at("spec").int("revisionHistoryLimit").is_some_and(|limit| limit < 0) {
                found.push("spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended".to_owned());
            }
        }
        ("apps", "DaemonSet") => pod::warn(new.at("spec").at("template"), Some(&template), &mut found),
        ("batch", "CronJob") => {
            if old.is_none() {
                name(new, "Pod names and hostnames", &mut found);
            }
            let path = spec.child("jobTemplate");
            let path = path.child("spec");
            let template = new.path(&["spec", "jobTemplate", "spec", "template"]);
            pod::warn(template, Some(&path.child("template")), &mut found);
        }
        ("", "PodTemplate") => pod::warn(new.at("template"), Some(&Path::root("template")), &mut found),
        ("", "Service") => objects::service(new, &mut found),
        ("", "PersistentVolume") => objects::volume(new, &mut found),
        ("storage.k8s.io", "CSIDriver") => objects::driver(new, old, &mut found),
        ("", "Secret") => objects::secret(new, &mut found),
        ("networking.k8s.io", "Ingress") => objects::ingress(new, old, &mut found),
        _ => {}
    }
    found
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
