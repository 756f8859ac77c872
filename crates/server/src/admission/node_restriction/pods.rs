//! NodeRestriction for Pods, evictions and the status of PersistentVolumeClaims: a kubelet deals with the Pods of its
//! own node only.
//!
//! It creates mirror Pods only, and those may not refer to any API object: a reference to a Secret would make the
//! Node authorizer grant that Secret to the node. Every volume source must be in one of the two lists; an unknown one
//! is an error, so that a new source is decided about and not forgotten. Reading references is shared with the Node
//! authorizer ([`crate::auth::node::references`]).

use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::go::quote;
use listwatch_wire::json::Value;

use super::{ByNode, Operation, same};
use crate::auth::node::references::{self, MIRROR};

/// Volume sources that need nothing from the API server.
const LOCAL_SOURCES: [&str; 22] = [
    "awsElasticBlockStore",
    "azureDisk",
    "cephfs",
    "cinder",
    "downwardAPI",
    "emptyDir",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "hostPath",
    "image",
    "iscsi",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];

/// Volume sources that need an API object, with the text that the error has for them.
const API_SOURCES: [(&str, &str); 7] = [
    ("configMap", "configmaps (via configmap volumes)"),
    ("secret", "secrets (via secret volumes)"),
    ("csi", "csidrivers (via CSI volumes)"),
    ("glusterfs", "endpoints (via glusterFS volumes)"),
    ("persistentVolumeClaim", "persistentvolumeclaims"),
    ("ephemeral", "persistentvolumeclaims (via ephemeral volumes)"),
    ("azureFile", "secrets (via azureFile volumes)"),
];

/// Sources of projected volumes that need an API object, with the text that the error has for them.
const API_PROJECTIONS: [(&str, &str); 5] = [
    ("configMap", "configmaps (via projected volumes)"),
    ("secret", "secrets (via projected volumes)"),
    ("serviceAccountToken", "serviceaccounts (via projected volumes)"),
    ("clusterTrustBundle", "clustertrustbundles"),
    ("podCertificate", "podcertificates"),
];

/// A kubelet creates mirror Pods and deletes Pods of its node. It never updates a Pod, only its status.
pub(super) fn admit(by: &ByNode<'_>) -> Result<(), Status> {
    let node = quote(by.node);
    match by.request.operation {
        Operation::Create => admit_new(by, &node),
        Operation::Delete => {
            let pod = by.pod(by.request.name)?;
            by.require(is_on(&pod, by.node), || {
                format!("node {node} can only delete pods with spec.nodeName set to itself")
            })
        }
        operation @ (Operation::Update | Operation::Connect) => by.forbid(&format!(
            "unexpected operation {:?}, node {node} can only create and delete mirror pods",
            operation.name()
        )),
    }
}

fn is_on(pod: &Value, node: &str) -> bool {
    pod.at("spec").text("nodeName") == node
}

/// A kubelet may only create mirror Pods, which represent static Pods and refer to no API objects.
///
/// The checks are in the order of kube-apiserver, since the first failure is the message that users see: the
/// annotation, the node, the owner, then references.
fn admit_new(by: &ByNode<'_>, node: &str) -> Result<(), Status> {
    let pod = by.object;
    by.require(references::is_mirror(pod), || {
        let mark = quote(MIRROR);
        format!("pod does not have {mark} annotation, node {node} can only create mirror pods")
    })?;
    by.require(is_on(pod, by.node), || {
        format!("node {node} can only create pods with spec.nodeName set to itself")
    })?;
    check_owner(by, node)?;
    let needed = needs(pod).map_err(|why| {
        by.request.forbidden(pod, &format!("error checking mirror pod for API references: {why}"))
    })?;
    match needed {
        Some(what) => by.forbid(&format!("node {node} can not create pods that reference {what}")),
        None => Ok(()),
    }
}

/// A mirror Pod must be owned by the Node alone, and is deleted with it. The uid must be that of the present Node: a
/// Pod owned by a deleted Node would be garbage-collected at once.
fn check_owner(by: &ByNode<'_>, node: &str) -> Result<(), Status> {
    let [owner] = by.object.at("metadata").list("ownerReferences") else {
        let several = by.object.at("metadata").count("ownerReferences") > 1;
        let which = if several { "a single" } else { "an" };
        return by
            .forbid(&format!("node {node} can only create pods with {which} owner reference set to itself"));
    };
    let own = (owner.text("apiVersion"), owner.text("kind"), owner.text("name")) == ("v1", "Node", by.node);
    by.require(own, || format!("node {node} can only create pods with an owner reference set to itself"))?;
    by.require(owner.flag("controller"), || {
        format!("node {node} can only create pods with a controller owner reference set to itself")
    })?;
    by.require(!owner.flag("blockOwnerDeletion"), || {
        format!("node {node} must not set blockOwnerDeletion on an owner reference")
    })?;
    let stored = by.own_node()?;
    let (given, uid) = (owner.text("uid"), stored.at("metadata").text("uid"));
    by.require(given == uid, || format!("node {} UID mismatch: expected {given} got {uid}", by.node))
}

/// The first API object that a Pod needs, if any.
///
/// # Errors
///
/// A volume of a kind that is not known, by its name.
fn needs(pod: &Value) -> Result<Option<&'static str>, String> {
    let spec = pod.at("spec");
    if !spec.text("serviceAccountName").is_empty() {
        return Ok(Some("serviceaccounts"));
    }
    if !references::secrets(pod).is_empty() {
        return Ok(Some("secrets"));
    }
    if !references::config_maps(pod).is_empty() {
        return Ok(Some("configmaps"));
    }
    if spec.count("resourceClaims") > 0 {
        return Ok(Some("resourceclaims"));
    }
    for volume in spec.list("volumes") {
        if let Some(what) = volume_needs(volume)? {
            return Ok(Some(what));
        }
    }
    Ok(None)
}

/// The API object that a volume needs, if any.
///
/// # Errors
/// A volume source that is in neither list: it must be decided about before it is allowed.
fn volume_needs(volume: &Value) -> Result<Option<&'static str>, String> {
    if LOCAL_SOURCES.iter().any(|source| volume.has(source)) {
        return Ok(None);
    }
    if let Some((_, what)) = API_SOURCES.iter().find(|(source, _)| volume.has(source)) {
        return Ok(Some(what));
    }
    let name = quote(volume.text("name"));
    if !volume.has("projected") {
        return Err(format!("unknown volume type for volume  {name}"));
    }
    for part in volume.at("projected").list("sources") {
        match API_PROJECTIONS.iter().find(|(source, _)| part.has(source)) {
            Some((_, what)) => return Ok(Some(what)),
            None if part.has("downwardAPI") => {}
            None => return Err(format!("unknown source for projected volume {name}")),
        }
    }
    Ok(None)
}

/// A kubelet may report the status of Pods on its node. Labels and claim statuses, which others decide by, must stay
/// as they are.
pub(super) fn admit_status(by: &ByNode<'_>) -> Result<(), Status> {
    let node = quote(by.node);
    let Some(old) = by.request.old.filter(|_| by.request.operation == Operation::Update) else {
        return by.unexpected();
    };
    by.require(is_on(old, by.node), || {
        format!("node {node} can only update pod status for pods with spec.nodeName set to itself")
    })?;
    let labels = |pod: &Value| pod.at("metadata").at("labels").clone();
    by.require(same(&labels(old), &labels(by.object)), || {
        format!("node {node} cannot update labels through pod status")
    })?;
    for (field, what) in [
        ("resourceClaimStatuses", "resource claim statues"),
        ("extendedResourceClaimStatus", "extended resource claim status"),
        ("nodeAllocatableResourceClaimStatuses", "node allocatable resource claim statuses"),
    ] {
        let unchanged = same(old.at("status").at(field), by.object.at("status").at(field));
        by.require(unchanged, || format!("node {node} cannot update {what}"))?;
    }
    Ok(())
}

/// A kubelet evicts Pods of its own node only, such as under memory pressure.
pub(super) fn admit_eviction(by: &ByNode<'_>) -> Result<(), Status> {
    if by.request.operation != Operation::Create {
        return by.unexpected();
    }
    let name = by.name();
    by.require(!name.is_empty(), || "could not determine pod from request data".to_owned())?;
    let pod = by.pod(name)?;
    by.require(is_on(&pod, by.node), || {
        format!("node {} can only evict pods with spec.nodeName set to itself", by.node)
    })
}

/// A kubelet that has expanded a volume may update sizes and conditions in the status of the claim, and nothing else.
pub(super) fn admit_claim_status(by: &ByNode<'_>) -> Result<(), Status> {
    let Some(old) = by.request.old.filter(|_| by.request.operation == Operation::Update) else {
        return by.unexpected();
    };
    let (before, after) = (without_sizes(old), without_sizes(by.object));
    by.require(before == after, || {
        let node = quote(by.node);
        format!(
            "node {node} is not allowed to update fields other than status.quantity and status.conditions"
        )
    })
}

/// Returns a claim without the fields that a kubelet may change and those that change with every write, for
/// comparison.
fn without_sizes(claim: &Value) -> Value {
    let mut claim = claim.clone();
    if let Some(metadata) = claim.inner("metadata") {
        metadata.drop_field("resourceVersion");
        metadata.drop_field("managedFields");
    }
    if let Some(status) = claim.inner("status") {
        for field in ["capacity", "conditions", "allocatedResourceStatuses", "allocatedResources"] {
            status.drop_field(field);
        }
        if status.is_empty() {
            claim.drop_field("status");
        }
    }
    claim
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    #[test]
    fn a_mirror_pod_may_not_refer_to_api_objects() {
        for (spec, expected) in [
            (json!({"containers": [{}]}), Ok(None)),
            (
                json!({"volumes": [{"hostPath": {}}, {"projected": {"sources": [{"downwardAPI": {}}]}}]}),
                Ok(None),
            ),
            (json!({"serviceAccountName": "a"}), Ok(Some("serviceaccounts"))),
            (json!({"imagePullSecrets": [{"name": "a"}]}), Ok(Some("secrets"))),
            (json!({"containers": [{"envFrom": [{"configMapRef": {"name": "a"}}]}]}), Ok(Some("configmaps"))),
            (json!({"resourceClaims": [{"name": "a"}]}), Ok(Some("resourceclaims"))),
            (
                json!({"volumes": [{"persistentVolumeClaim": {"claimName": "a"}}]}),
                Ok(Some("persistentvolumeclaims")),
            ),
            (
                json!({"volumes": [{"ephemeral": {}}]}),
                Ok(Some("persistentvolumeclaims (via ephemeral volumes)")),
            ),
            (
                json!({"volumes": [{"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]}),
                Ok(Some("serviceaccounts (via projected volumes)")),
            ),
            (
                json!({"volumes": [{"name": "v", "new": {}}]}),
                Err("unknown volume type for volume  \"v\"".to_owned()),
            ),
        ] {
            assert_eq!(needs(&json!({"spec": spec.clone()})), expected, "{spec}");
        }
    }
}
