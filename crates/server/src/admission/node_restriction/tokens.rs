//! NodeRestriction for tokens and certificates: a kubelet requests them for Pods on its node, and certificates in its
//! own name.
//!
//! A token must be bound to a Pod that runs on the node, by uid, and have an audience that one of the Pod's volumes
//! or CSI drivers asks for; otherwise a compromised node could obtain tokens of any ServiceAccount for any audience.
//! A kubelet's own CertificateSigningRequests must have its user name as the only common name. The tokens themselves
//! are issued in [`crate::subresources`].

use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::go::quote;
use listwatch_wire::json::Value;

use super::{ByNode, Operation};
use crate::auth::node::references;
use crate::auth::{self, Decision, certificates};

/// The drivers that volumes with sources of their own have become.
const MIGRATED: [(&str, &str); 7] = [
    ("awsElasticBlockStore", "ebs.csi.aws.com"),
    ("azureDisk", "disk.csi.azure.com"),
    ("azureFile", "file.csi.azure.com"),
    ("cinder", "cinder.csi.openstack.org"),
    ("gcePersistentDisk", "pd.csi.storage.gke.io"),
    ("portworxVolume", "pxd.portworx.com"),
    ("vsphereVolume", "csi.vsphere.vmware.com"),
];

/// The signers of certificates that identify a node. Requests for other signers are not limited here.
const SIGNERS: [&str; 2] = ["kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet"];

/// A token must be bound to a Pod on the node, and be for an audience of a volume of the Pod.
pub(super) fn admit(by: &ByNode<'_>) -> Result<(), Status> {
    if by.request.operation != Operation::Create {
        return Ok(());
    }
    let bound = by.object.at("spec").at("boundObjectRef");
    let (name, uid) = (bound.text("name"), bound.text("uid"));
    let to_pod = (bound.text("apiVersion"), bound.text("kind")) == ("v1", "Pod") && !name.is_empty();
    by.require(to_pod, || "node requested token not bound to a pod".to_owned())?;
    by.require(!uid.is_empty(), || "node requested token with a pod binding without a uid".to_owned())?;
    let pod = by.pod(name)?;
    by.require(pod.at("metadata").text("uid") == uid, || {
        format!("the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated")
    })?;
    by.require(pod.at("spec").text("nodeName") == by.node, || {
        "node requested token bound to a pod scheduled on a different node".to_owned()
    })?;
    check_audience(by, &pod)
}

/// The audience must be one that the Pod's volumes ask for, or that the kubelet has a permission for. At most one may
/// be requested.
fn check_audience(by: &ByNode<'_>, pod: &Value) -> Result<(), Status> {
    let audience = match by.object.at("spec").list("audiences") {
        [] => "",
        [audience] => audience.as_str().unwrap_or_default(),
        _ => return by.forbid("node may only request 0 or 1 audiences"),
    };
    let asked = requests_token(by, pod, audience);
    if asked == Ok(true) || may(by, "request-serviceaccounts-token-audience", audience, by.request.name) {
        return Ok(());
    }
    let audience = quote(audience);
    by.forbid(&match asked {
        Err(why) => format!("error validating audience {audience}: {why}"),
        Ok(_) => {
            let user = &by.request.user.name;
            format!("{user} is not authorized to request tokens for audience {audience}")
        }
    })
}

/// Asks the authorizer for a custom verb on the audience or signer, which takes the place of the resource.
fn may(by: &ByNode<'_>, verb: &str, resource: &str, name: &str) -> bool {
    let request = by.request;
    let wanted = auth::AuthorizerAttributes {
        verb,
        group: &request.resource.group,
        version: &request.resource.version,
        // A token without an audience needs the permission for all audiences.
        resource: if resource.is_empty() { "*" } else { resource },
        namespace: request.namespace,
        name,
        ..auth::AuthorizerAttributes::default()
    };
    by.authorizer.authorize(request.user, &wanted) == Decision::Allow
}

/// Returns true if the Pod has a volume that needs a token for the audience.
fn requests_token(by: &ByNode<'_>, pod: &Value, audience: &str) -> Result<bool, String> {
    let mut errors = Vec::new();
    for volume in pod.at("spec").list("volumes") {
        let projected = volume.at("projected").list("sources").iter();
        let mut tokens = projected.map(|source| source.at("serviceAccountToken")).filter(|it| !it.is_null());
        if tokens.any(|token| token.text("audience") == audience) {
            return Ok(true);
        }
        match driver(by, pod, volume)
            .and_then(|driver| driver_requests_token(by, driver.as_deref(), audience))
        {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(why) => errors.push(why),
        }
    }
    if errors.is_empty() { Ok(false) } else { Err(listwatch_wire::status::aggregate(errors)) }
}

/// Returns true if the CSI driver requests tokens for the audience.
///
/// # Errors
///
/// The driver has no CSIDriver object, so its audiences are not known.
fn driver_requests_token(by: &ByNode<'_>, driver: Option<&str>, audience: &str) -> Result<bool, String> {
    let Some(driver) = driver else { return Ok(false) };
    let found = by.request.find(("storage.k8s.io", "v1", "csidrivers"), None, driver);
    let found = found.ok_or_else(|| format!("csidriver.storage.k8s.io {} not found", quote(driver)))?;
    Ok(found.at("spec").list("tokenRequests").iter().any(|token| token.text("audience") == audience))
}

/// The CSI driver of a Pod's volume. Found through the claim and the volume that it is bound to; a claim that is not
/// bound is an error, and a volume without a driver has none.
fn driver(by: &ByNode<'_>, pod: &Value, volume: &Value) -> Result<Option<String>, String> {
    let claim = match volume.at("persistentVolumeClaim").text("claimName") {
        "" if volume.at("ephemeral").has("volumeClaimTemplate") => {
            format!("{}-{}", pod.at("metadata").text("name"), volume.text("name"))
        }
        "" => return Ok(source_driver(volume)),
        claim => claim.to_owned(),
    };
    let found = by.request.find(("", "v1", "persistentvolumeclaims"), Some(by.request.namespace), &claim);
    let found = found.ok_or_else(|| format!("persistentvolumeclaim {} not found", quote(&claim)))?;
    let name = found.at("spec").text("volumeName");
    let volume = by.request.find(("", "v1", "persistentvolumes"), None, name);
    let volume = volume.ok_or_else(|| format!("persistentvolume {} not found", quote(name)))?;
    Ok(source_driver(volume.at("spec")))
}

/// The driver of a volume or PersistentVolume by its source, also by an in-tree source that has moved to a driver.
fn source_driver(source: &Value) -> Option<String> {
    let migrated = || MIGRATED.iter().find(|(name, _)| source.has(name)).map(|(_, driver)| *driver);
    let driver = match source.at("csi").text("driver") {
        "" => migrated(),
        driver => Some(driver),
    };
    driver.map(str::to_owned)
}

/// A kubelet may request certificates in its own name only.
pub(super) fn admit_node_certificate(by: &ByNode<'_>) -> Result<(), Status> {
    let spec = by.object.at("spec");
    if by.request.operation != Operation::Create || !SIGNERS.contains(&spec.text("signerName")) {
        return Ok(());
    }
    let names = certificates::common_names(spec.text("request"))
        .map_err(|why| by.request.forbidden(by.object, &format!("unable to parse csr: {why}")))?;
    let own = format!("system:node:{}", by.node);
    // All names must be the node's: programs differ in which of several common names they use.
    let named = !names.is_empty() && names.iter().all(|name| *name == own);
    by.require(named, || format!("can only create a node CSR with CN={own}"))
}

/// A PodCertificateRequest must be for a Pod that runs on the node, as the ServiceAccount named in it, and that
/// mounts a certificate of the signer.
pub(super) fn admit_pod_certificate(by: &ByNode<'_>) -> Result<(), Status> {
    let request = by.request;
    if request.operation != Operation::Create {
        return by.forbid(&format!("unexpected operation {}", request.operation.name()));
    }
    by.require(request.subresource.is_empty(), || format!("unexpected subresource {}", request.subresource))?;
    let spec = by.object.at("spec");
    let (node, pod_name) = (spec.text("nodeName"), spec.text("podName"));
    let shown = quote(&format!("{}/{pod_name}", request.namespace));
    by.require(node == by.node, || {
        let (asked, own) = (quote(node), quote(by.node));
        format!("PodCertificateRequest.Spec.NodeName={asked}, which is not the requesting node {own}")
    })?;
    let same_uid = |object: &Value, field: &str| object.at("metadata").text("uid") == spec.text(field);
    // The cache may be behind, so a retry may succeed.
    let stale = |what: &str| {
        Err(Status::internal(format!("PodCertificateRequest for pod {shown} names another {what}")))
    };
    if !same_uid(&by.own_node()?, "nodeUID") {
        return stale("node UID");
    }
    let pod = by.pod(pod_name)?;
    if !same_uid(&pod, "podUID") {
        return stale("pod UID");
    }
    by.require(pod.at("spec").text("nodeName") == node, || {
        format!("pod {shown} is not running on node {} named in the PodCertificateRequest", quote(node))
    })?;
    by.require(!references::is_mirror(&pod), || format!("pod {shown} is a mirror pod"))?;
    let account = spec.text("serviceAccountName");
    check_pod_account(by, &pod, account, &shown)?;
    let found = request.find(("", "v1", "serviceaccounts"), Some(request.namespace), account);
    if !found.is_some_and(|account| same_uid(&account, "serviceAccountUID")) {
        return stale("service account");
    }
    check_signer(by, &pod, spec.text("signerName"), account, &shown)
}

fn check_pod_account(by: &ByNode<'_>, pod: &Value, account: &str, shown: &str) -> Result<(), Status> {
    let runs_as = pod.at("spec").text("serviceAccountName");
    by.require(account == runs_as, || {
        let (account, runs_as) = (quote(account), quote(runs_as));
        format!("PodCertificateRequest for pod {shown} contains serviceAccountName ({account}) that differs from running pod ({runs_as})")
    })
}

/// A certificate is mounted by a projected volume of this signer, or the kubelet has a permission for signer and
/// account.
fn check_signer(
    by: &ByNode<'_>,
    pod: &Value,
    signer: &str,
    account: &str,
    shown: &str,
) -> Result<(), Status> {
    let volumes = pod.at("spec").list("volumes").iter();
    let mut sources = volumes.flat_map(|volume| volume.at("projected").list("sources"));
    let mounts = sources.any(|source| {
        source.has("podCertificate") && source.at("podCertificate").text("signerName") == signer
    });
    let right = signer.replace('/', ":");
    let allowed = mounts || may(by, "request-serviceaccounts-podcertificate-signer", &right, account);
    by.require(allowed, || {
        let signer = quote(signer);
        format!("pod {shown} does not mount a podCertificate projected volume for signer {signer}")
    })
}
