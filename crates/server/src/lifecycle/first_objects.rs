//! Bootstrap objects besides namespaces and RBAC: APIServices of the built-in groups, system priority classes, the
//! ServiceCIDR, and the ConfigMaps of `kube-system`.
//!
//! Data, as kube-apiserver writes it at its start. `extension-apiserver-authentication` tells extension API servers
//! which CA signs clients and which one signs the front proxy, and with it whose `X-Remote-*` headers to trust. Written
//! by [`super::bootstrap`].

use listwatch_kinds::tree::Tree;
use listwatch_wire::json::{Value, json};

use crate::allocate::services::RANGE_CIDR;

/// The name in the certificate that requests are forwarded with.
pub(crate) const FRONT_PROXY: &str = "front-proxy-client";

/// CAs that extension API servers trust, in PEM.
#[derive(Debug)]
pub(crate) struct Authorities {
    /// The CA of clients.
    pub(crate) clients: String,
    /// The CA of servers that forward requests.
    pub(crate) front_proxy: String,
}

/// The `extension-apiserver-authentication` ConfigMap: which CAs extension API servers trust, for clients and for the
/// front proxy.
///
/// Updated at each start, because the CAs may have been replaced.
pub(super) fn authentication(trusted: &Authorities) -> Value {
    json!({
        "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system"},
        "data": {
            "client-ca-file": trusted.clients.as_str(),
            "requestheader-client-ca-file": trusted.front_proxy.as_str(),
            "requestheader-allowed-names": format!("[{FRONT_PROXY:?}]"),
            "requestheader-username-headers": "[\"X-Remote-User\"]",
            "requestheader-uid-headers": "[\"X-Remote-Uid\"]",
            "requestheader-group-headers": "[\"X-Remote-Group\"]",
            "requestheader-extra-headers-prefix": "[\"X-Remote-Extra-\"]",
        },
    })
}

/// The ConfigMap with the day since which the use of ServiceAccount tokens in Secrets is recorded.
/// kube-controller-manager reads it before it deletes tokens that were not used.
///
/// Written once: a later day would keep unused tokens for longer.
pub(super) fn token_tracking(now: &str) -> Value {
    json!({
        "metadata": {"name": "kube-apiserver-legacy-service-account-token-tracking", "namespace": "kube-system"},
        "data": {"since": now.split('T').next().unwrap_or_default()},
    })
}

/// Group, version, priority of the group and priority of the version.
const API_SERVICES: [(&str, &str, i64, i64); 22] = [
    ("", "v1", 18_000, 1),
    ("admissionregistration.k8s.io", "v1", 16_700, 15),
    ("apiextensions.k8s.io", "v1", 16_700, 15),
    ("apps", "v1", 17_800, 15),
    ("authentication.k8s.io", "v1", 17_700, 15),
    ("authorization.k8s.io", "v1", 17_600, 15),
    ("autoscaling", "v1", 17_500, 15),
    ("autoscaling", "v2", 17_500, 30),
    ("batch", "v1", 17_400, 15),
    ("certificates.k8s.io", "v1", 17_300, 15),
    ("coordination.k8s.io", "v1", 16_500, 15),
    ("discovery.k8s.io", "v1", 16_200, 15),
    ("events.k8s.io", "v1", 17_750, 15),
    ("flowcontrol.apiserver.k8s.io", "v1", 16_100, 21),
    ("networking.k8s.io", "v1", 17_200, 15),
    ("node.k8s.io", "v1", 16_300, 15),
    ("policy", "v1", 17_100, 15),
    ("rbac.authorization.k8s.io", "v1", 17_000, 15),
    ("resource.k8s.io", "v1", 16_200, 21),
    ("scheduling.k8s.io", "v1", 16_600, 15),
    ("storage.k8s.io", "v1", 16_800, 15),
    ("storagemigration.k8s.io", "v1", 15_800, 15),
];

/// Group and plural of each object, the object, and the condition that its status starts with.
pub(super) fn objects() -> Vec<(&'static str, &'static str, Value, Option<Value>)> {
    let services = API_SERVICES.iter().map(|(group, version, group_priority, version_priority)| {
        let object = json!({
            "metadata": {
                "name": format!("{version}.{group}"),
                "labels": {"kube-aggregator.kubernetes.io/automanaged": "onstart"},
            },
            "spec": {
                "group": *group, "version": *version,
                "groupPriorityMinimum": *group_priority, "versionPriority": *version_priority,
            },
        });
        ("apiregistration.k8s.io", "apiservices", object, Some(local_condition()))
    });
    let range = json!({"metadata": {"name": "kubernetes"}, "spec": {"cidrs": [RANGE_CIDR]}});
    let ready = condition(("Ready", "", "Kubernetes default Service CIDR is ready"));
    services
        .chain(priority_classes().map(|class| ("scheduling.k8s.io", "priorityclasses", class, None)))
        .chain([("networking.k8s.io", "servicecidrs", range, Some(ready))])
        .collect()
}

/// The two priority classes of system Pods, which cannot be deleted.
fn priority_classes() -> impl Iterator<Item = Value> {
    let classes = [
        (
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
        (
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
    ];
    classes
        .into_iter()
        .map(|(name, value, about)| json!({"metadata": {"name": name}, "value": value, "description": about}))
}

/// The condition of an APIService that this server serves itself.
pub(super) fn local_condition() -> Value {
    condition(("Available", "Local", "Local APIServices are always available"))
}

/// A condition that holds.
fn condition((kind, reason, message): (&str, &str, &str)) -> Value {
    json!({"type": kind, "status": "True", "reason": reason, "message": message})
}

/// Adds the first condition to an object that has none.
pub(super) fn with_condition(stored: &Value, condition: &Value, now: &str) -> Option<Value> {
    if stored.at("status").count("conditions") > 0 {
        return None;
    }
    let (mut new, mut condition) = (stored.clone(), condition.clone());
    condition.put("lastTransitionTime", now);
    new.inner_or_new("status")?.put("conditions", vec![condition]);
    Some(new)
}
