//! Warnings about Pods and Pod templates.
//!
//! Deprecated labels, annotations and volume sources are tables here, with the versions that kube-apiserver names.
//! Comparisons of ports with each other and the number of warnings are bounded, since a template can have thousands of
//! ports and a header has little room. Templates and Pods differ in few places: the AppArmor annotation of a Pod
//! becomes a field, that of a template stays.

use std::collections::{HashMap, HashSet};

use listwatch_wire::json::Value;

use super::{affinity, overlaps, places};
use crate::field::Path;
use crate::prepare::{APPARMOR, profile_of};
use crate::quantity;
use crate::tree::Tree;

/// The most warnings that are returned; the headers of a response have room for fewer.
pub(super) const MAX_WARNINGS: usize = 1000;
/// The most definitions of one port that another one is compared with.
const MAX_OTHERS: usize = 16;

const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Node labels that are deprecated, and the texts about them.
const NODE_LABELS: [(&str, &str); 8] = [
    ("beta.kubernetes.io/arch", "deprecated since v1.14; use \"kubernetes.io/arch\" instead"),
    ("beta.kubernetes.io/os", "deprecated since v1.14; use \"kubernetes.io/os\" instead"),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead",
    ),
    (
        "beta.kubernetes.io/instance-type",
        "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead",
    ),
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    (
        "scheduler.alpha.kubernetes.io/preferAvoidPods",
        "deprecated since v1.22; use Taints and Tolerations instead",
    ),
    ("node-role.kubernetes.io/master", "use \"node-role.kubernetes.io/control-plane\" instead"),
];

const ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    ("security.alpha.kubernetes.io/sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
];

/// Volume sources that were removed from Kubernetes.
const SOURCES: [(&str, &str); 9] = [
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

const SECCOMP: &str = "non-functional in v1.27+; use the \"seccompProfile\" field instead";
const APPARMOR_FIELD: &str = "deprecated since v1.30; use the \"appArmorProfile\" field instead";

/// Warns of a Pod, or of a template at a path.
///
/// Called for new objects, and for updates that change the spec. Paths are those of the Pod or of the template in its
/// owner.
pub(super) fn warn(template: &Value, path: Option<&Path<'_>>, found: &mut Vec<String>) {
    let root = Path::object();
    let above = path.unwrap_or(&root);
    let (meta, spec_path) = (above.child("metadata"), above.child("spec"));
    let spec = template.at("spec");
    node_labels(spec, &spec_path, found);
    let annotations = template.at("metadata").at("annotations");
    let place = meta.child("annotations");
    for (key, text) in ANNOTATIONS.iter().filter(|(key, _)| annotations.has(key)) {
        found.push(format!("{}: {text}", place.key(key)));
    }
    let volumes = spec_path.child("volumes");
    for (index, volume) in spec.list("volumes").iter().enumerate() {
        deprecated_sources(volume, &volumes.index(index), found);
    }
    overlaps::warn(spec, found);
    lists(spec, &spec_path, found);
    profiles(template, &place, path.is_some(), found);
    each(spec, &spec_path, |container, path| {
        fractions(container.at("resources"), &path.child("resources"), found);
        variables(container, path, found);
    });
    ports(spec, &spec_path, found);
    if spec.int("terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0) {
        let place = spec_path.child("terminationGracePeriodSeconds");
        found.push(format!("{place}: must be >= 0; negative values are invalid and will be treated as 1"));
    }
    affinity::pods(spec, &spec_path, found);
    for place in ["dnsConfig.nameservers[]", "hostAliases[].ip"] {
        places::addresses(spec, place, &spec_path, found);
    }
}

/// The text about a node label that is deprecated.
pub(super) fn deprecated_label(key: &str) -> Option<&'static str> {
    NODE_LABELS.iter().find(|(label, _)| *label == key).map(|(_, text)| *text)
}

/// Warns of volume sources that were removed from Kubernetes.
pub(super) fn deprecated_sources(volume: &Value, path: &Path<'_>, found: &mut Vec<String>) {
    for (source, text) in SOURCES.iter().filter(|(source, _)| volume.has(source)) {
        let shown = if *source == "storageos" { "storageOS" } else { source };
        found.push(format!("{}: {text}", path.child(shown)));
    }
}

/// Calls back for each container of the lists, with its path.
/// The order of lists is that of kube-apiserver's visitor, and warnings come in that order.
fn each<'a>(spec: &'a Value, path: &Path<'_>, mut visit: impl FnMut(&'a Value, &Path<'_>)) {
    for list in CONTAINERS {
        let path = path.child(list);
        for (index, container) in spec.list(list).iter().enumerate() {
            visit(container, &path.index(index));
        }
    }
}

/// Warns of deprecated node labels, and of spread constraints that match no Pod.
fn node_labels(spec: &Value, path: &Path<'_>, found: &mut Vec<String>) {
    let selector = path.child("nodeSelector");
    for (key, _) in spec.entries("nodeSelector") {
        if let Some(text) = deprecated_label(key) {
            found.push(format!("{}: {text}", selector.key(key)));
        }
    }
    affinity::nodes(spec, path, found);
    let constraints = path.child("topologySpreadConstraints");
    for (index, constraint) in spec.list("topologySpreadConstraints").iter().enumerate() {
        let (path, key) = (constraints.index(index), constraint.text("topologyKey"));
        if let Some(text) = deprecated_label(key) {
            found.push(format!("{}: {key} is {text}", path.child("topologyKey")));
        }
        if !constraint.has("labelSelector") {
            let place = path.child("labelSelector");
            found.push(format!("{place}: a null labelSelector results in matching no pod"));
        }
    }
}

/// Lists that should have each entry once.
fn lists(spec: &Value, path: &Path<'_>, found: &mut Vec<String>) {
    for (list, key) in [("hostAliases", "ip"), ("imagePullSecrets", "name")] {
        let path = path.child(list);
        let mut seen = HashSet::new();
        for (index, item) in spec.list(list).iter().enumerate() {
            if !seen.insert(item.text(key)) {
                let place = path.index(index);
                found.push(format!("{}: duplicate {key} {:?}", place.child(key), item.text(key)));
            }
        }
    }
    let path = path.child("imagePullSecrets");
    for (index, secret) in spec.list("imagePullSecrets").iter().enumerate() {
        if secret.text("name").is_empty() {
            found.push(format!("{}: invalid empty name \"\"", path.index(index).child("name")));
        }
    }
}

/// Annotations that have become fields.
fn profiles(template: &Value, place: &Path<'_>, in_template: bool, found: &mut Vec<String>) {
    let (spec, annotations) = (template.at("spec"), template.at("metadata").at("annotations"));
    const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
    if annotations.has(SECCOMP_POD) && !spec.at("securityContext").has("seccompProfile") {
        found.push(format!("{}: {SECCOMP}", place.key(SECCOMP_POD)));
    }
    for container in CONTAINERS.iter().flat_map(|list| spec.list(list)) {
        let (name, context) = (container.text("name"), container.at("securityContext"));
        let key = format!("container.seccomp.security.alpha.kubernetes.io/{name}");
        if annotations.has(&key) && !context.has("seccompProfile") {
            found.push(format!("{}: {SECCOMP}", place.key(&key)));
        }
        let key = format!("{APPARMOR}{name}");
        if in_template && annotations.has(&key) && !context.has("appArmorProfile") {
            found.push(format!("{}: {APPARMOR_FIELD}", place.key(&key)));
        }
    }
}

/// An annotation that becomes a field, or cannot become one.
pub(crate) fn apparmor(pod: &Value, found: &mut Vec<String>) {
    let (spec, annotations) = (pod.at("spec"), pod.at("metadata").at("annotations"));
    if spec.at("os").text("name") == "windows" {
        return;
    }
    let metadata = Path::root("metadata");
    let place = metadata.child("annotations");
    let general = spec.at("securityContext").at("appArmorProfile");
    for container in CONTAINERS.iter().flat_map(|list| spec.list(list)) {
        let name = container.text("name");
        let key = format!("{APPARMOR}{name}");
        let told = profile_of(annotations, name).is_none_or(|profile| profile != *general);
        if annotations.has(&key) && !container.at("securityContext").has("appArmorProfile") && told {
            found.push(format!("{}: {APPARMOR_FIELD}", place.key(&key)));
        }
    }
}

/// There are no parts of bytes.
/// A suffix such as `m` is most often meant to be `M`; kube-apiserver warns of it for the same reason.
fn fractions(resources: &Value, path: &Path<'_>, found: &mut Vec<String>) {
    for (list, name) in [
        ("limits", "memory"),
        ("requests", "memory"),
        ("limits", "ephemeral-storage"),
        ("requests", "ephemeral-storage"),
    ] {
        let amount = quantity::canonical(resources.at(list).text(name)).unwrap_or_default();
        if amount.ends_with(['m', 'u', 'n']) {
            let place = path.child(list);
            let place = place.key(name);
            found.push(format!("{place}: fractional byte value {amount:?} is invalid, must be an integer"));
        }
    }
}

/// A later variable hides an earlier one, unless it makes something of it.
fn variables(container: &Value, path: &Path<'_>, found: &mut Vec<String>) {
    let path = path.child("env");
    let mut seen = HashSet::new();
    for (index, variable) in container.list("env").iter().enumerate() {
        let (name, value) = (variable.text("name"), variable.text("value"));
        let reference = format!("$({name})");
        let extends = !variable.has("valueFrom") && value != reference && value.contains(&reference);
        if !seen.insert(name) && !extends && found.len() < MAX_WARNINGS {
            let place = path.index(index);
            found.push(format!(
                "{place}: hides previous definition of {name:?}, which may be dropped when using apply"
            ));
        }
    }
}

/// Warns of ports that are defined twice. The comparisons are bounded, since a Pod may have thousands of ports with one
/// number.
fn ports(spec: &Value, path: &Path<'_>, found: &mut Vec<String>) {
    let mut numbers: HashMap<(i64, &str), Vec<(String, &Value)>> = HashMap::new();
    let mut names: Vec<(String, &str)> = Vec::new();
    each(spec, path, |container, path| {
        let path = path.child("ports");
        for (index, port) in container.list("ports").iter().enumerate() {
            let place = path.index(index).to_string();
            if !port.text("hostIP").is_empty() && port.int("hostPort").unwrap_or(0) == 0 {
                found.push(format!("{place}: hostIP set without hostPort: {}", shown_port(port)));
            }
            let protocol = if port.text("protocol").is_empty() { "TCP" } else { port.text("protocol") };
            let others = numbers.entry((port.int("containerPort").unwrap_or(0), protocol)).or_default();
            let room = MAX_WARNINGS.saturating_sub(found.len()).min(MAX_OTHERS);
            for (other_place, other) in others.iter().take(room) {
                if let Some(relation) = overlap(port, other) {
                    found.push(format!("{place}: {relation} port definition with {other_place}"));
                }
            }
            names.push((place.clone(), port.text("name")));
            others.push((place, port));
        }
    });
    let mut first: HashMap<&str, &str> = HashMap::new();
    for (place, name) in names.iter().filter(|(_, name)| !name.is_empty()) {
        match first.get(name) {
            Some(other) => found.push(format!("{place}: duplicate port name {name:?} with {other}, services and probes that select ports by name will use {other}")),
            None => drop(first.insert(name, place)),
        }
    }
}

/// A port as Go prints the struct.
fn shown_port(port: &Value) -> String {
    let number = |key: &str| port.int(key).unwrap_or(0);
    format!(
        "{{Name:{} HostPort:{} ContainerPort:{} Protocol:{} HostIP:{}}}",
        port.text("name"),
        number("hostPort"),
        number("containerPort"),
        port.text("protocol"),
        port.text("hostIP")
    )
}

/// The kind of overlap between two definitions of one port.
///
/// `None` for definitions that can exist side by side.
fn overlap(port: &Value, other: &Value) -> Option<&'static str> {
    let (a, b) = (port.int("hostPort").unwrap_or(0), other.int("hostPort").unwrap_or(0));
    let (ip, other_ip) = (port.text("hostIP"), other.text("hostIP"));
    match () {
        () if ip == other_ip && a == b => Some("duplicate"),
        () if a == 0 || b == 0 => Some("overlapping"),
        () if a == b && ip.is_empty() != other_ip.is_empty() => Some("dangerously ambiguous"),
        () => None,
    }
}
