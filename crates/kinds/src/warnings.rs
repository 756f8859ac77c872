//! Deprecations and likely mistakes that a write is told of in `Warning` headers but not refused for.

use std::collections::{HashMap, HashSet};

use listwatch_wire::json::Value;

use crate::Kind;
use crate::field::Path;
use crate::tree::Tree;

/// Node labels that have newer names.
const OLD_NODE_LABELS: [(&str, &str, &str); 5] = [
    ("beta.kubernetes.io/arch", "v1.14", "kubernetes.io/arch"),
    ("beta.kubernetes.io/os", "v1.14", "kubernetes.io/os"),
    ("failure-domain.beta.kubernetes.io/region", "v1.17", "topology.kubernetes.io/region"),
    ("failure-domain.beta.kubernetes.io/zone", "v1.17", "topology.kubernetes.io/zone"),
    ("beta.kubernetes.io/instance-type", "v1.17", "node.kubernetes.io/instance-type"),
];
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APPARMOR_CONTAINER: &str = "container.apparmor.security.beta.kubernetes.io/";

/// The most repetitions that are told; the headers of an answer have room for fewer.
const MAX_WARNINGS: usize = 1000;

/// What every answer about a deprecated kind carries.
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

/// Warnings about a new or changed object.
#[must_use]
pub fn of(kind: &Kind, new: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let spec = Path::root("spec");
    match (kind.group, kind.kind) {
        ("", "Pod") => pod(new, None, &mut found),
        ("apps", _) | ("batch", "Job") | ("", "ReplicationController") => {
            pod(new.at("spec").at("template"), Some(&spec.child("template")), &mut found);
        }
        ("batch", "CronJob") => {
            let path = spec.child("jobTemplate");
            let path = path.child("spec");
            pod(
                new.path(&["spec", "jobTemplate", "spec", "template"]),
                Some(&path.child("template")),
                &mut found,
            );
        }
        _ => {}
    }
    found
}

fn pod(template: &Value, path: Option<&Path<'_>>, found: &mut Vec<String>) {
    let meta = path.map_or(Path::root("metadata"), |path| path.child("metadata"));
    let spec_path = path.map_or(Path::root("spec"), |path| path.child("spec"));
    let spec = template.at("spec");
    annotations(template.at("metadata"), &meta.child("annotations"), found);
    let selector = spec_path.child("nodeSelector");
    for (label, since, instead) in OLD_NODE_LABELS {
        if spec.at("nodeSelector").has(label) {
            found.push(format!("{}: deprecated since {since}; use {instead:?} instead", selector.key(label)));
        }
    }
    let volumes = spec_path.child("volumes");
    for (index, volume) in spec.list("volumes").iter().enumerate() {
        if volume.has("gitRepo") {
            found.push(format!("{}: deprecated in v1.11", volumes.index(index).child("gitRepo")));
        }
    }
    if spec.int("terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0) {
        let place = spec_path.child("terminationGracePeriodSeconds");
        found.push(format!("{place}: must be >= 0; negative values are invalid and will be treated as 1"));
    }
    for key in ["containers", "initContainers"] {
        let path = spec_path.child(key);
        for (index, container) in spec.list(key).iter().enumerate() {
            repeated(container, &path.index(index), found);
        }
    }
}

fn annotations(meta: &Value, path: &Path<'_>, found: &mut Vec<String>) {
    for (key, _) in meta.entries("annotations") {
        if key == SECCOMP_POD || key.starts_with(SECCOMP_CONTAINER) {
            found.push(format!(
                "{}: non-functional in v1.27+; use the \"seccompProfile\" field instead",
                path.key(key)
            ));
        } else if key.starts_with(APPARMOR_CONTAINER) {
            found.push(format!(
                "{}: deprecated since v1.30; use the \"appArmorProfile\" field instead",
                path.key(key)
            ));
        }
    }
}

/// Lists that should be maps but are not checked as such: later entries hide earlier ones.
fn repeated(container: &Value, path: &Path<'_>, found: &mut Vec<String>) {
    let at = path.child("env");
    let mut names = HashSet::new();
    for (index, variable) in container.list("env").iter().enumerate() {
        let name = variable.text("name");
        if !names.insert(name) && found.len() < MAX_WARNINGS {
            let place = at.index(index);
            found.push(format!(
                "{place}: hides previous definition of {name:?}, which may be dropped when using apply"
            ));
        }
    }
    let at = path.child("ports");
    let mut ports = HashMap::new();
    for (index, port) in container.list("ports").iter().enumerate() {
        let identity = (port.int("containerPort"), port.text("protocol"), port.text("hostIP"));
        let earlier = *ports.entry(identity).or_insert(index);
        if earlier != index && found.len() < MAX_WARNINGS {
            found.push(format!("{}: duplicate port definition with {}", at.index(index), at.index(earlier)));
        }
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
            "metadata": {"annotations": {"seccomp.security.alpha.kubernetes.io/pod": "runtime/default"}},
            "spec": {
                "nodeSelector": {"beta.kubernetes.io/os": "linux"},
                "containers": [{"name": "a", "env": [{"name": "A"}, {"name": "A"}]}]
            }
        });
        assert_eq!(
            of(by_kind("", "v1", "Pod").unwrap(), &pod),
            [
                "metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]: non-functional in v1.27+; use the \"seccompProfile\" field instead",
                "spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead",
                "spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped when using apply",
            ]
        );
        let deployment = json!({"spec": {"template": pod}});
        let found = of(by_kind("apps", "v1", "Deployment").unwrap(), &deployment);
        assert!(found.iter().all(|warning| warning.starts_with("spec.template.")), "{found:?}");
        assert_eq!(found.len(), 3);
    }
}
