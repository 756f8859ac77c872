//! Warnings about Services, volumes, Ingresses, CSI drivers, TLS secrets, ServiceAccounts, quotas and webhooks.
//!
//! A warning is a `Warning` header: the write succeeds. They are the ones of kube-apiserver's strategies
//! (`WarningsOnCreate`, `WarningsOnUpdate`), with the same texts. Some are given on create only, so that controllers
//! which update an old object are not warned on every write.

use std::cmp::Ordering;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use listwatch_wire::json::Value;

use super::{affinity, places};
use crate::field::Path;
use crate::quantity::compare;
use crate::tree::Tree;

/// Warnings about a Service: fields that its type ignores, and deprecated ones.
pub(crate) fn service(new: &Value, _old: Option<&Value>, found: &mut Vec<String>) {
    const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
    let (spec, path) = (new.at("spec"), Path::root("spec"));
    let headless = spec.text("clusterIP") == "None";
    let external = spec.text("type") == "ExternalName";
    let addresses = spec.count("externalIPs") > 0;
    let hinted = new.at("metadata").at("annotations").has(HINTS);
    let hint = "annotation service.kubernetes.io/topology-aware-hints is deprecated, please use service.kubernetes.io/topology-mode instead";
    let balanced = !spec.text("loadBalancerIP").is_empty();
    let sticky = spec.text("sessionAffinity") != "None";
    warn_of(
        &[
            (hinted, hint),
            (headless && balanced, "spec.loadBalancerIP is ignored for headless services"),
            (headless && addresses, "spec.externalIPs is ignored for headless services"),
            (headless && sticky, "spec.SessionAffinity is ignored for headless services"),
        ],
        found,
    );
    places::addresses(spec, "externalIPs[]", &path, found);
    let deprecated = "spec.externalIPs is deprecated and may no longer be implemented in some clusters";
    warn_of(&[(addresses && !headless && !external, deprecated)], found);
    places::addresses(spec, "loadBalancerIP", &path, found);
    places::ranges(spec, "loadBalancerSourceRanges[]", &path, found);
    let named = !spec.text("externalName").is_empty();
    let close = spec.text("trafficDistribution") == "PreferClose";
    warn_of(
        &[
            (external && addresses, "spec.externalIPs is ignored when spec.type is \"ExternalName\""),
            (!external && named, "spec.externalName is ignored when spec.type is not \"ExternalName\""),
            (close, "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\""),
        ],
        found,
    );
}

/// Adds the warnings that apply.
fn warn_of(known: &[(bool, &str)], found: &mut Vec<String>) {
    found.extend(known.iter().filter(|(applies, _)| *applies).map(|(_, text)| (*text).to_owned()));
}

/// Warnings about a PersistentVolume: the deprecated reclaim policy and volume sources.
pub(crate) fn volume(new: &Value, _old: Option<&Value>, found: &mut Vec<String>) {
    const DEPRECATED: [(&str, &str, &str); 6] = [
        ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
        ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
        ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
        ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
        ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
        ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
    ];
    let (spec, path) = (new.at("spec"), Path::root("spec"));
    deprecated_annotations(new, &ANNOTATIONS, found);
    if spec.text("persistentVolumeReclaimPolicy") == "Recycle" {
        let place = path.child("persistentVolumeReclaimPolicy");
        found.push(format!("{place}: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning."));
    }
    let affinity = path.child("nodeAffinity");
    affinity::required(spec.at("nodeAffinity").at("required"), &affinity.child("required"), found);
    for (source, shown, detail) in DEPRECATED {
        if spec.has(source) {
            found.push(format!("{}: {detail}", path.child(shown)));
        }
    }
}

/// The deprecated annotations of volumes and claims; a claim has the first only.
const ANNOTATIONS: [(&str, &str); 2] = [
    (
        "volume.beta.kubernetes.io/storage-class",
        "deprecated since v1.8; use \"storageClassName\" attribute instead",
    ),
    (
        "volume.beta.kubernetes.io/mount-options",
        "deprecated since v1.31; use \"mountOptions\" attribute instead",
    ),
];

/// Warns of annotations that were replaced by fields.
fn deprecated_annotations(object: &Value, known: &[(&str, &str)], found: &mut Vec<String>) {
    let path = Path::root("metadata");
    let path = path.child("annotations");
    for (key, detail) in known {
        if object.at("metadata").at("annotations").has(key) {
            found.push(format!("{}: {detail}", path.key(key)));
        }
    }
}

/// Warnings about a PersistentVolumeClaim: the deprecated annotation, and parts of bytes.
pub(crate) fn claim(new: &Value, _old: Option<&Value>, found: &mut Vec<String>) {
    deprecated_annotations(new, ANNOTATIONS.get(..1).unwrap_or_default(), found);
    claim_amounts(new.at("spec"), &Path::root("spec"), found);
}

/// Warns of parts of bytes in the spec of a claim.
pub(super) fn claim_amounts(spec: &Value, path: &Path<'_>, found: &mut Vec<String>) {
    let path = path.child("resources");
    for list in ["requests", "limits"] {
        let amount = spec.at("resources").at(list).text("storage");
        if !amount.is_empty() && amount.ends_with(['m', 'u', 'n']) {
            let place = path.child(list);
            found.push(format!(
                "{}: fractional byte value {amount:?} is invalid, must be an integer",
                place.key("storage")
            ));
        }
    }
}

/// Warnings about a Node: a field that nothing reads any more.
pub(crate) fn node(new: &Value, _old: Option<&Value>, found: &mut Vec<String>) {
    if !new.at("spec").text("externalID").is_empty() {
        found.push("spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned());
    }
    places::ranges(new.at("spec"), "podCIDRs[]", &Path::root("spec"), found);
}

/// Warnings about an Ingress. The deprecated class annotation is only mentioned on creation, and where the field is not set.
pub(crate) fn ingress(new: &Value, old: Option<&Value>, found: &mut Vec<String>) {
    const CLASS: &str = "kubernetes.io/ingress.class";
    let annotated = new.at("metadata").at("annotations").has(CLASS);
    if old.is_none() && annotated && !new.at("spec").has("ingressClassName") {
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

/// Warnings about a ServiceAccount: an annotation that separate namespaces replace, where it is new.
pub(crate) fn service_account(new: &Value, old: Option<&Value>, found: &mut Vec<String>) {
    const ANNOTATION: &str = "kubernetes.io/enforce-mountable-secrets";
    let marked = |account: &Value| account.at("metadata").at("annotations").has(ANNOTATION);
    if marked(new) && !old.is_some_and(marked) {
        found.push(format!("metadata.annotations[{ANNOTATION}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"));
    }
}

/// Warnings about a new ResourceQuota: limits below the requests of the same resource.
pub(crate) fn quota(new: &Value, old: Option<&Value>, found: &mut Vec<String>) {
    let hard = new.at("spec").at("hard");
    for resource in ["cpu", "memory", "storage", "ephemeral-storage"] {
        let (mut request, limit) = (format!("requests.{resource}"), format!("limits.{resource}"));
        if !hard.has(&request) && matches!(resource, "cpu" | "memory") {
            request = resource.to_owned();
        }
        let (requested, limited) = (hard.text(&request), hard.text(&limit));
        if old.is_none() && compare(requested, limited).is_ok_and(|order| order == Ordering::Greater) {
            found.push(format!(
                "ResourceQuota {request} ({requested}) should be less than {limit} ({limited})"
            ));
        }
    }
}

/// Warnings about the configuration of webhooks: rules about resources that webhooks are never called for.
pub(crate) fn webhooks(new: &Value, _old: Option<&Value>, found: &mut Vec<String>) {
    let path = Path::root("webhooks");
    for (index, webhook) in new.list("webhooks").iter().enumerate() {
        let (path, rules) = (path.index(index), webhook.list("rules"));
        let path = path.child("rules");
        for (index, rule) in rules.iter().enumerate() {
            for name in reviews(rule) {
                let place = path.index(index);
                found.push(format!(
                    "{place}: {name} is excluded from admission webhooks; this rule will have no effect"
                ));
            }
        }
    }
}

/// The reviews that a rule names, as `resource.group`. Rules for everything do not mean them.
fn reviews(rule: &Value) -> Vec<String> {
    let (groups, resources) = (rule.list("apiGroups"), rule.list("resources"));
    let all = Value::from("*");
    if groups.contains(&all) || resources.contains(&all) {
        return Vec::new();
    }
    let named = REVIEWS.iter().filter(|(group, resource)| {
        groups.iter().any(|given| given == group) && resources.iter().any(|given| given == resource)
    });
    named.map(|(group, resource)| format!("{resource}.{group}")).collect()
}

/// Resources that are not stored and that webhooks are not called for, by group.
const REVIEWS: [(&str, &str); 6] = [
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
];

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

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    /// An update was silent, and two sources were warned of that kube-apiserver does not mention.
    #[test]
    fn volumes_warn_of_what_is_deprecated_on_every_write() {
        let volume = |source: &str| json!({"spec": {"persistentVolumeReclaimPolicy": "Recycle", source: {}}});
        let told = |source: &str| {
            let mut found = Vec::new();
            super::volume(&volume(source), Some(&volume(source)), &mut found);
            found.len()
        };
        assert_eq!((told("rbd"), told("storageos"), told("flocker"), told("quobyte")), (2, 2, 1, 1));
    }

    #[test]
    fn claims_are_for_whole_bytes() {
        let claim =
            json!({"spec": {"resources": {"requests": {"storage": "500m"}, "limits": {"storage": "1Gi"}}}});
        let mut found = Vec::new();
        super::claim(&claim, None, &mut found);
        assert_eq!(
            found,
            [
                "spec.resources.requests[storage]: fractional byte value \"500m\" is invalid, must be an integer"
            ]
        );
    }
}
