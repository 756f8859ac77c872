//! Warnings about Services, volumes, Ingresses, CSI drivers and TLS secrets.
//!
//! A warning is a `Warning` header: the write succeeds. They are the ones of kube-apiserver's strategies
//! (`WarningsOnCreate`, `WarningsOnUpdate`), with the same texts. Some are given on create only, so that controllers
//! which update an old object are not warned on every write.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use listwatch_wire::json::Value;

use super::spec_changes;
use crate::field::Path;
use crate::tree::Tree;

/// Warnings about a Service: fields that its type ignores, and deprecated ones.
pub(crate) fn service(new: &Value, _old: Option<&Value>, found: &mut Vec<String>) {
    const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
    let spec = new.at("spec");
    let headless = spec.text("clusterIP") == "None";
    let external = spec.text("type") == "ExternalName";
    let addresses = spec.count("externalIPs") > 0;
    let mut warn = |wanted: bool, text: &str| {
        if wanted {
            found.push(text.to_owned());
        }
    };
    let hinted = new.at("metadata").at("annotations").has(HINTS);
    warn(
        hinted,
        "annotation service.kubernetes.io/topology-aware-hints is deprecated, please use service.kubernetes.io/topology-mode instead",
    );
    let balanced = !spec.text("loadBalancerIP").is_empty();
    warn(headless && balanced, "spec.loadBalancerIP is ignored for headless services");
    warn(headless && addresses, "spec.externalIPs is ignored for headless services");
    let sticky = spec.text("sessionAffinity") != "None";
    warn(headless && sticky, "spec.SessionAffinity is ignored for headless services");
    warn(
        addresses && !headless && !external,
        "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
    );
    warn(external && addresses, "spec.externalIPs is ignored when spec.type is \"ExternalName\"");
    let named = !spec.text("externalName").is_empty();
    warn(!external && named, "spec.externalName is ignored when spec.type is not \"ExternalName\"");
    warn(
        spec.text("trafficDistribution") == "PreferClose",
        "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"",
    );
}

/// Warnings about a PersistentVolume: the deprecated reclaim policy and volume sources.
pub(crate) fn volume(new: &Value, old: Option<&Value>, found: &mut Vec<String>) {
    if !spec_changes(new, old) {
        return;
    }
    let (spec, path) = (new.at("spec"), Path::root("spec"));
    if spec.text("persistentVolumeReclaimPolicy") == "Recycle" {
        let place = path.child("persistentVolumeReclaimPolicy");
        found.push(format!("{place}: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning."));
    }
    super::pod::deprecated_sources(spec, &path, found);
}

/// Warnings about an Ingress. The deprecated class annotation is only mentioned on creation.
pub(crate) fn ingress(new: &Value, old: Option<&Value>, found: &mut Vec<String>) {
    const CLASS: &str = "kubernetes.io/ingress.class";
    if old.is_none() && new.at("metadata").at("annotations").has(CLASS) {
        found.push(format!("annotation {CLASS:?} is deprecated, please use 'spec.ingressClassName' instead"));
    }
}

/// Tokens of a driver are better kept in secrets.
pub(crate) fn driver(new: &Value, old: Option<&Value>, found: &mut Vec<String>) {
    let spec = new.at("spec");
    let changed = old.is_none_or(|old| old.at("spec").at("tokenRequests") != spec.at("tokenRequests"));
    if changed && spec.count("tokenRequests") > 0 && !spec.has("serviceAccountTokenInSecrets") {
        found.push("spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes".to_owned());
    }
}

/// A certificate that is none.
pub(crate) fn secret(new: &Value, _old: Option<&Value>, found: &mut Vec<String>) {
    const PEM: &str = "-----BEGIN ";
    if new.text("type") != "kubernetes.io/tls" {
        return;
    }
    for (key, what) in [("tls.crt", "certificate"), ("tls.key", "key")] {
        let text = BASE64.decode(new.at("data").text(key)).unwrap_or_default();
        if !String::from_utf8_lossy(&text).contains(PEM) {
            found.push(format!("tls: failed to find any PEM data in {what} input"));
            return;
        }
    }
}
