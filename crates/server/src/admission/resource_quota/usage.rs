//! [`QuotaUsage`]: the cost of one object in the resources that quotas limit.
//!
//! Every kind counts as `count/<plural>.<group>`; Pods, Services and claims are measured by their specs too, under
//! kube-apiserver's names. The same measurement charges a write ([`super`]) and recalculates usage
//! (`lifecycle/quotas.rs`): if the two differed, usage would drift. A Pod that has ended, or whose node has not
//! confirmed its deletion in time, costs nothing but its count.

use std::collections::BTreeMap;

use listwatch_kinds::quantity::Quantity;
use listwatch_kinds::tree::Tree;
use listwatch_wire::json::Value;

use crate::admission::pod_resources::{Amounts, add, amounts, of_pod, quantity};
use crate::registry::Resource;

/// The middle of names such as `gold.storageclass.storage.k8s.io/requests.storage`.
const BY_CLASS: &str = ".storageclass.storage.k8s.io/";
/// The resources that every container must name if a quota limits them.
const MUST_SPECIFY: [&str; 6] =
    ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

/// The measurement of objects of a resource.
#[doc(alias = "Evaluator")]
pub(crate) struct QuotaUsage {
    kind: MeasureKind,
    /// `count/plural.group`.
    count: String,
    /// The older name of the count, for some kinds.
    alias: Option<&'static str>,
}

/// Kinds that cost more than their count.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MeasureKind {
    Pod,
    Service,
    Claim,
    Other,
}

impl QuotaUsage {
    /// The measurement for objects of a resource. Every kind has a count; Pods, Services and claims have more.
    pub(crate) fn of(resource: &Resource) -> Self {
        let (group, plural) = (&*resource.group, &*resource.plural);
        let (kind, alias) = match (group, plural) {
            ("", "pods") => (MeasureKind::Pod, None),
            ("", "services") => (MeasureKind::Service, Some("services")),
            ("", "persistentvolumeclaims") => (MeasureKind::Claim, Some("persistentvolumeclaims")),
            ("", "configmaps") => (MeasureKind::Other, Some("configmaps")),
            ("", "secrets") => (MeasureKind::Other, Some("secrets")),
            ("", "replicationcontrollers") => (MeasureKind::Other, Some("replicationcontrollers")),
            ("", "resourcequotas") => (MeasureKind::Other, Some("resourcequotas")),
            _ => (MeasureKind::Other, None),
        };
        let count =
            if group.is_empty() { format!("count/{plural}") } else { format!("count/{plural}.{group}") };
        Self { kind, count, alias }
    }

    /// Returns true if objects of this resource may use up the named one.
    ///
    /// Decides if a quota is charged at all, before the object is measured.
    pub(crate) fn counts(&self, name: &str) -> bool {
        if name == self.count || Some(name) == self.alias {
            return true;
        }
        match self.kind {
            MeasureKind::Pod => is_pod_resource(name),
            MeasureKind::Service => matches!(name, "services.nodeports" | "services.loadbalancers"),
            MeasureKind::Claim => {
                let by_class = name.split_once(BY_CLASS).map(|(_, resource)| resource);
                name == "requests.storage"
                    || matches!(by_class, Some("requests.storage" | "persistentvolumeclaims"))
            }
            MeasureKind::Other => false,
        }
    }

    /// Returns what the object costs, by quota resource name. Zero amounts may be included.
    ///
    /// Proportional to the containers or ports of the object. It reads nothing but the object and the clock, by which
    /// an overdue Pod costs less.
    pub(crate) fn measure(&self, object: &Value) -> Amounts {
        let one = Quantity::whole(1);
        let mut usage = Amounts::from([(self.count.clone(), one)]);
        usage.extend(self.alias.map(|alias| (alias.to_owned(), one)));
        match self.kind {
            MeasureKind::Pod => measure_pod(object, &mut usage),
            MeasureKind::Service => measure_service(object.at("spec"), &mut usage),
            MeasureKind::Claim => measure_claim(object, &mut usage),
            MeasureKind::Other => {}
        }
        usage
    }

    /// Returns the containers that do not name a resource which a quota may require, by resource.
    pub(crate) fn unspecified<'a>(&self, object: &'a Value) -> Unspecified<'a> {
        let spec = object.at("spec");
        let of_pod = spec.at("resources");
        let mut unspecified = Unspecified::new();
        if self.kind != MeasureKind::Pod || of_pod.count("requests") > 0 || of_pod.count("limits") > 0 {
            return unspecified;
        }
        for container in spec.list("containers").iter().chain(spec.list("initContainers")) {
            let resources = container.at("resources");
            let named = compute(&amounts(resources.at("requests")), &amounts(resources.at("limits")));
            for name in MUST_SPECIFY.into_iter().filter(|name| !named.contains_key(*name)) {
                unspecified.entry(name).or_default().push(container.text("name"));
            }
        }
        for containers in unspecified.values_mut() {
            containers.sort_unstable();
            containers.dedup();
        }
        unspecified
    }
}

/// The containers that name no amount of a resource, sorted, by resource.
pub(crate) type Unspecified<'a> = BTreeMap<&'static str, Vec<&'a str>>;

/// Returns the limited resources that containers do not name: `cpu for: a,b; memory for: c`.
pub(super) fn missing(unspecified: &Unspecified<'_>, restricted: &[&String]) -> Option<String> {
    let limited = unspecified.iter().filter(|(name, _)| restricted.iter().any(|limited| limited == *name));
    let each: Vec<_> = limited.map(|(name, them)| format!("{name} for: {}", them.join(","))).collect();
    (!each.is_empty()).then(|| each.join("; "))
}

/// Quotas name compute resources with and without `requests.`; extended resources only with it, because they cannot
/// be overcommitted.
fn is_pod_resource(name: &str) -> bool {
    /// Resources that Pods may request without a domain in the name.
    const COMPUTE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
    let bare = name.strip_prefix("requests.").or_else(|| name.strip_prefix("limits.")).unwrap_or(name);
    let extended = name.strip_prefix("requests.").is_some_and(|bare| {
        bare.contains('/') && (!bare.contains("kubernetes.io/") || bare.starts_with("deviceclass.resource."))
    });
    name == "pods"
        || COMPUTE.contains(&bare)
        || name.starts_with("hugepages-")
        || name.starts_with("requests.hugepages-")
        || extended
}

/// The names under which quotas limit requests and limits.
fn compute(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut usage = Amounts::new();
    for (name, amount) in requests {
        let native = matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage");
        if native || name.starts_with("hugepages-") {
            usage.insert(name.clone(), *amount);
        }
        if native || name.starts_with("hugepages-") || name.contains('/') {
            usage.insert(format!("requests.{name}"), *amount);
        }
    }
    for (name, amount) in limits {
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") {
            usage.insert(format!("limits.{name}"), *amount);
        }
    }
    usage
}

/// A Pod that has ended counts as an object only.
fn measure_pod(pod: &Value, usage: &mut Amounts) {
    if matches!(pod.at("status").text("phase"), "Failed" | "Succeeded") || is_overdue(pod.at("metadata")) {
        return;
    }
    usage.insert("pods".to_owned(), Quantity::whole(1));
    let spec = pod.at("spec");
    let overhead = amounts(spec.at("overhead"));
    let mut requests = of_pod(spec, "requests");
    add(&mut requests, &overhead);
    let mut limits = of_pod(spec, "limits");
    let limited: Vec<String> = limits.keys().cloned().collect();
    add(&mut limits, &overhead.into_iter().filter(|(name, _)| limited.contains(name)).collect());
    usage.extend(compute(&requests, &limits));
}

/// A Pod whose node does not confirm its end in time is not charged any more.
fn is_overdue(meta: &Value) -> bool {
    let end: Option<jiff::Timestamp> = meta.text("deletionTimestamp").parse().ok();
    let grace = meta.int("deletionGracePeriodSeconds");
    end.zip(grace).is_some_and(|(end, grace)| {
        let due = end.checked_add(jiff::SignedDuration::from_secs(grace)).unwrap_or(end);
        jiff::Timestamp::now() > due
    })
}

/// Node ports count by the ports of the Service, allocated or not, unless allocation is switched off.
fn measure_service(spec: &Value, usage: &mut Amounts) {
    let ports = spec.list("ports");
    let balanced = spec.text("type") == "LoadBalancer";
    let node_ports = match spec.text("type") {
        "LoadBalancer" if spec.at("allocateLoadBalancerNodePorts").as_bool() == Some(false) => {
            ports.iter().filter(|port| port.int("nodePort").is_some_and(|number| number != 0)).count()
        }
        "NodePort" | "LoadBalancer" => ports.len(),
        _ => 0,
    };
    let node_ports = i64::try_from(node_ports).unwrap_or(i64::MAX);
    usage.insert("services.nodeports".to_owned(), Quantity::whole(node_ports));
    usage.insert("services.loadbalancers".to_owned(), Quantity::whole(i64::from(balanced)));
}

/// Storage counts by the larger of request and allocated size, so that a shrunk request does not free quota too
/// early; per StorageClass as well.
fn measure_claim(claim: &Value, usage: &mut Amounts) {
    let legacy = claim.at("metadata").at("annotations").text("volume.beta.kubernetes.io/storage-class");
    let class = if legacy.is_empty() { claim.at("spec").text("storageClassName") } else { legacy };
    let requests = claim.at("spec").at("resources").at("requests");
    let allocated = quantity(claim.at("status").at("allocatedResources").at("storage"));
    let storage = requests.has("storage").then(|| quantity(requests.at("storage")).max(allocated));
    usage.extend(storage.map(|storage| ("requests.storage".to_owned(), storage)));
    if !class.is_empty() {
        usage.insert(format!("{class}{BY_CLASS}persistentvolumeclaims"), Quantity::whole(1));
        usage.extend(storage.map(|storage| (format!("{class}{BY_CLASS}requests.storage"), storage)));
    }
}
