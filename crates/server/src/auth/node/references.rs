//! The objects that Pods and PersistentVolumes refer to: Secrets, ConfigMaps, claims, ServiceAccounts.
//!
//! The Node authorizer grants a kubelet access to these, so a reference that is missing here breaks Pods at start, and
//! one too many leaks a Secret to a node. The lists of volume sources are those of kube-apiserver's `podutil` and
//! `persistentvolume` packages. Mirror Pods refer to nothing: a kubelet creates them itself and could otherwise give
//! itself access to any Secret.
//!
//! Pure. Used by [`super::follow`] and by the NodeRestriction plugin ([`crate::admission`]).

use std::collections::HashMap;

use listwatch_kinds::tree::Tree;
use listwatch_wire::json::Value;

use super::graph::{NodeObjectKind, Vertex, Volume};

/// Marks a Pod that a kubelet made for itself.
pub(crate) const MIRROR: &str = "kubernetes.io/config.mirror";

/// The volume sources that name a Secret of the Pod's namespace, and where.
const SECRET_SOURCES: [(&str, &str); 8] = [
    ("cephfs", "secretRef"),
    ("cinder", "secretRef"),
    ("flexVolume", "secretRef"),
    ("rbd", "secretRef"),
    ("scaleIO", "secretRef"),
    ("iscsi", "secretRef"),
    ("storageos", "secretRef"),
    ("csi", "nodePublishSecretRef"),
];

/// The volume sources of PersistentVolumes that name a Secret without a namespace: the claim's namespace applies.
const CLAIM_SECRET_SOURCES: [&str; 5] = ["cephfs", "flexVolume", "rbd", "scaleIO", "iscsi"];

/// Returns true if the kubelet created the Pod itself: a mirror Pod.
pub(crate) fn is_mirror(pod: &Value) -> bool {
    pod.at("metadata").at("annotations").has(MIRROR)
}

/// The names of the Secrets that a Pod refers to.
///
/// A name may occur twice; the graph counts it twice and removes it twice.
pub(crate) fn secrets(pod: &Value) -> Vec<&str> {
    let spec = pod.at("spec");
    let mut names: Vec<&str> =
        spec.list("imagePullSecrets").iter().map(|reference| reference.text("name")).collect();
    names.extend(container_references(spec, "secretRef", "secretKeyRef"));
    for volume in spec.list("volumes") {
        names.push(volume.at("azureFile").text("secretName"));
        names.push(volume.at("secret").text("secretName"));
        names.extend(SECRET_SOURCES.map(|(source, field)| volume.at(source).at(field).text("name")));
        names.extend(projected(volume).map(|source| source.at("secret").text("name")));
    }
    names.retain(|name| !name.is_empty());
    names
}

/// The names of the ConfigMaps that a Pod refers to.
pub(crate) fn config_maps(pod: &Value) -> Vec<&str> {
    let spec = pod.at("spec");
    let mut names: Vec<&str> = container_references(spec, "configMapRef", "configMapKeyRef").collect();
    for volume in spec.list("volumes") {
        names.push(volume.at("configMap").text("name"));
        names.extend(projected(volume).map(|source| source.at("configMap").text("name")));
    }
    names.retain(|name| !name.is_empty());
    names
}

fn projected(volume: &Value) -> impl Iterator<Item = &Value> {
    volume.at("projected").list("sources").iter()
}

/// The names that the environments of all containers refer to, as a whole (`from`) or by key.
fn container_references<'a>(spec: &'a Value, from: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    let containers = ["initContainers", "containers", "ephemeralContainers"];
    containers.into_iter().flat_map(|list| spec.list(list)).flat_map(move |container| {
        let whole = container.list("envFrom").iter().map(move |source| source.at(from).text("name"));
        let keys =
            container.list("env").iter().map(move |variable| variable.at("valueFrom").at(key).text("name"));
        whole.chain(keys)
    })
}

/// The claims that a Pod's volumes use. An ephemeral volume has one that is named after both.
pub(crate) fn volume_claims(pod: &Value) -> Vec<String> {
    let name = pod.at("metadata").text("name");
    let volumes = pod.at("spec").list("volumes").iter();
    let claims = volumes.filter_map(|volume| match volume.at("persistentVolumeClaim").text("claimName") {
        "" => volume.has("ephemeral").then(|| format!("{name}-{}", volume.text("name"))),
        claim => Some(claim.to_owned()),
    });
    claims.collect()
}

/// The ResourceClaims of a Pod. For one made from a template, the name is in the Pod's status.
fn resource_claims(pod: &Value) -> Vec<&str> {
    let statuses = pod.at("status").list("resourceClaimStatuses").iter();
    let named = statuses.map(|status| (status.text("name"), status.text("resourceClaimName")));
    // The first of two with the same name counts.
    let made: HashMap<&str, &str> = named.rev().collect();
    let wanted =
        pod.at("spec").list("resourceClaims").iter().map(|claim| match claim.text("resourceClaimName") {
            "" if claim.has("resourceClaimTemplateName") => {
                made.get(claim.text("name")).copied().unwrap_or_default()
            }
            name => name,
        });
    let extended = pod.at("status").at("extendedResourceClaimStatus").text("resourceClaimName");
    wanted.chain([extended]).filter(|name| !name.is_empty()).collect()
}

/// All that a Pod refers to. A mirror Pod, made by the kubelet itself, grants it nothing.
pub(super) fn of_pod(pod: &Value) -> Vec<Vertex> {
    if is_mirror(pod) {
        return Vec::new();
    }
    let namespace = pod.at("metadata").text("namespace");
    let vertex = |kind, name: &str| Vertex::new(kind, namespace, name);
    let mut all = Vec::new();
    let account = pod.at("spec").text("serviceAccountName");
    if !account.is_empty() {
        all.push(vertex(NodeObjectKind::ServiceAccount, account));
    }
    all.extend(secrets(pod).into_iter().map(|name| vertex(NodeObjectKind::Secret, name)));
    all.extend(config_maps(pod).into_iter().map(|name| vertex(NodeObjectKind::ConfigMap, name)));
    all.extend(volume_claims(pod).iter().map(|name| vertex(NodeObjectKind::PersistentVolumeClaim, name)));
    all.extend(resource_claims(pod).into_iter().map(|name| vertex(NodeObjectKind::ResourceClaim, name)));
    all
}

/// The objects that a PersistentVolume refers to; `None` if it is not bound to a claim.
///
/// A Secret without a namespace is in the namespace of the claim, where kubelets look for it.
pub(super) fn of_volume(volume: &Value) -> Option<Volume> {
    let spec = volume.at("spec");
    let claim = spec.at("claimRef");
    if !spec.has("claimRef") {
        return None;
    }
    let namespace = claim.text("namespace");
    let mut named: Vec<(&str, &str)> = Vec::new();
    let azure = spec.at("azureFile");
    named.push((or(azure.text("secretNamespace"), namespace), azure.text("secretName")));
    for source in CLAIM_SECRET_SOURCES {
        let secret = spec.at(source).at("secretRef");
        named.push((or(secret.text("namespace"), namespace), secret.text("name")));
    }
    for source in ["cinder", "storageos"] {
        let secret = spec.at(source).at("secretRef");
        named.push((secret.text("namespace"), secret.text("name")));
    }
    for field in ["nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef"] {
        let secret = spec.at("csi").at(field);
        named.push((secret.text("namespace"), secret.text("name")));
    }
    let secrets = named.into_iter().filter(|(_, name)| !name.is_empty());
    Some(Volume {
        claim: Vertex::new(NodeObjectKind::PersistentVolumeClaim, namespace, claim.text("name")),
        secrets: secrets
            .map(|(namespace, name)| Vertex::new(NodeObjectKind::Secret, namespace, name))
            .collect(),
    })
}

fn or<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.is_empty() { otherwise } else { text }
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    fn pod() -> Value {
        json!({
            "metadata": {"name": "p", "namespace": "a"},
            "spec": {
                "serviceAccountName": "robot",
                "imagePullSecrets": [{"name": "pull"}, {}],
                "initContainers": [{"envFrom": [{"secretRef": {"name": "init"}}]}],
                "containers": [{"env": [
                    {"name": "x", "valueFrom": {"secretKeyRef": {"name": "env", "key": "k"}}},
                    {"name": "y", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "k"}}},
                ]}],
                "ephemeralContainers": [{"envFrom": [{"configMapRef": {"name": "debug"}}]}],
                "volumes": [
                    {"name": "a", "secret": {"secretName": "mounted"}},
                    {"name": "b", "configMap": {"name": "files"}},
                    {"name": "c", "projected": {"sources": [
                        {"secret": {"name": "part"}}, {"configMap": {"name": "parts"}}, {"downwardAPI": {}}]}},
                    {"name": "d", "csi": {"driver": "x", "nodePublishSecretRef": {"name": "driver"}}},
                    {"name": "e", "persistentVolumeClaim": {"claimName": "claimed"}},
                    {"name": "f", "ephemeral": {"volumeClaimTemplate": {}}},
                    {"name": "g", "azureFile": {"secretName": "azure", "shareName": "s"}},
                ],
                "resourceClaims": [
                    {"name": "gpu", "resourceClaimName": "mine"},
                    {"name": "fpga", "resourceClaimTemplateName": "t"},
                    {"name": "none", "resourceClaimTemplateName": "t"},
                ],
            },
            "status": {
                "resourceClaimStatuses": [{"name": "fpga", "resourceClaimName": "p-fpga"}, {"name": "none"}],
                "extendedResourceClaimStatus": {"resourceClaimName": "extended"},
            },
        })
    }

    #[test]
    fn every_reference_of_a_pod_is_found() {
        let pod = pod();
        assert_eq!(secrets(&pod), ["pull", "init", "env", "mounted", "part", "driver", "azure"]);
        assert_eq!(config_maps(&pod), ["settings", "debug", "files", "parts"]);
        assert_eq!(volume_claims(&pod), ["claimed", "p-f"]);
        assert_eq!(resource_claims(&pod), ["mine", "p-fpga", "extended"]);
        assert_eq!(of_pod(&pod).len(), 1 + 7 + 4 + 2 + 3);
    }

    /// A kubelet may make Pods for itself; if they counted, it could read every object that it names in one.
    #[test]
    fn a_mirror_pod_refers_to_nothing() {
        let mut pod = pod();
        if let Some(metadata) = pod.inner_or_new("metadata") {
            metadata.put("annotations", json!({MIRROR: ""}));
        }
        assert_eq!(of_pod(&pod), []);
    }

    #[test]
    fn the_secrets_of_a_volume_are_those_that_kubelets_mount_it_with() {
        let secret = |name: &str| json!({"name": name, "namespace": "b"});
        let volume = json!({"metadata": {"name": "v"}, "spec": {
            "claimRef": {"namespace": "a", "name": "c"},
            "csi": {
                "controllerPublishSecretRef": secret("controller"), "controllerExpandSecretRef": secret("expand"),
                "nodePublishSecretRef": secret("publish"), "nodeStageSecretRef": secret("stage"),
                "nodeExpandSecretRef": secret("grow"),
            },
        }});
        let found = of_volume(&volume).unwrap();
        let names: Vec<&str> = found.secrets.iter().map(|secret| &*secret.name).collect();
        assert_eq!(names, ["publish", "stage", "grow"]);
        assert_eq!(found.claim, Vertex::new(NodeObjectKind::PersistentVolumeClaim, "a", "c"));
        let rbd = json!({"spec": {"claimRef": {"namespace": "a", "name": "c"}, "rbd": {"secretRef": {"name": "s"}}}});
        assert_eq!(of_volume(&rbd).unwrap().secrets, [Vertex::new(NodeObjectKind::Secret, "a", "s")]);
        assert_eq!(of_volume(&json!({"spec": {"rbd": {"secretRef": {"name": "s"}}}})), None);
    }
}
