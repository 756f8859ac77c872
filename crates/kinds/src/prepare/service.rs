//! Preparation of Services: the allocations that are missing, and the fields that follow from the type.
//!
//! [`needs`] tells the server what to allocate, [`assign`] writes it down; the allocator itself is in the server, since
//! it needs the other Services. An update that leaves allocated fields out keeps them, so that `kubectl apply` of the
//! original manifest does not release the address. A change of type drops what the new type has no use for, unless the
//! update changes that field too, which validation then refuses.

use std::collections::{HashMap, HashSet};

use listwatch_wire::json::{Map, Value, json};

use crate::tree::Tree;

/// The addresses and ports that a Service needs from the allocator.
///
/// Positions refer to `spec.ports` as it is now; the allocator must not reorder it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// An address of the service range.
    pub address: bool,
    /// The address that its spec names.
    pub wanted: Option<String>,
    /// Positions of ports without a node port.
    pub ports: Vec<usize>,
    /// The node ports that its spec names.
    pub wanted_ports: Vec<i64>,
    /// The health check node port: zero to allocate any, `None` if the Service has none.
    pub health: Option<i64>,
}

/// The allocations missing in the spec of a Service.
///
/// A headless Service (`clusterIP: None`) and an ExternalName need no address.
#[must_use]
pub fn needs(spec: &Value) -> Needs {
    let kind = spec.text("type");
    if kind == "ExternalName" {
        return Needs::default();
    }
    let address = spec.text("clusterIP");
    // Validation refuses a list without `clusterIP`, and a family that the cluster has no addresses of.
    let listed = spec.count("clusterIPs") > 0;
    let foreign = spec.list("ipFamilies").first().is_some_and(|family| family == "IPv6");
    let node_ports = gets_node_ports(spec);
    let open = |port: &Value| port.int("nodePort").unwrap_or(0) == 0;
    Needs {
        address: address.is_empty() && !listed && !foreign,
        wanted: (!address.is_empty() && address != "None").then(|| address.to_owned()),
        ports: spec
            .list("ports")
            .iter()
            .enumerate()
            .filter(|(_, port)| node_ports && open(port))
            .map(|(i, _)| i)
            .collect(),
        wanted_ports: spec
            .list("ports")
            .iter()
            .filter_map(|port| port.int("nodePort"))
            .filter(|port| *port != 0)
            .collect(),
        health: is_checked(spec).then(|| spec.int("healthCheckNodePort").unwrap_or(0)),
    }
}

/// Writes down what was allocated, and the fields that follow from it.
///
/// Also fills in the fields that mirror each other, so it must run even if nothing was allocated.
pub fn assign(spec: &mut Value, address: Option<&str>, node_ports: &[(usize, i64)]) {
    if spec.text("type") == "ExternalName" {
        let first = spec.text("clusterIP").to_owned();
        if !first.is_empty() && spec.count("clusterIPs") == 0 {
            spec.put("clusterIPs", json!([first]));
        }
        return;
    }
    if let Some(address) = address {
        spec.put("clusterIP", address);
    }
    let first = spec.text("clusterIP").to_owned();
    if !first.is_empty() && spec.count("clusterIPs") == 0 {
        spec.put("clusterIPs", json!([first]));
    }
    assign_families(spec, if first.contains(':') { ["IPv6", "IPv4"] } else { ["IPv4", "IPv6"] });
    for (position, number) in node_ports {
        if let Some(port) = spec.each("ports").nth(*position) {
            port.put("nodePort", *number);
        }
    }
}

/// Fills in the address families of a Service, its own first.
///
/// A headless Service without a selector may have both families, because its endpoints are written by others.
fn assign_families(spec: &mut Value, [own, other]: [&str; 2]) {
    let open = spec.text("clusterIP") == "None" && spec.count("selector") == 0;
    spec.fill("ipFamilyPolicy", if open { "RequireDualStack" } else { "SingleStack" });
    // Validation refuses an IPv6 address whose family is not named, with an error at the address.
    if spec.count("ipFamilies") == 0 && own == "IPv4" {
        spec.put("ipFamilies", json!([own]));
    }
    if open && spec.text("ipFamilyPolicy") != "SingleStack" && spec.count("ipFamilies") == 1 {
        let given = spec.list("ipFamilies").first().cloned().unwrap_or_default();
        spec.put("ipFamilies", json!([given, if given == own { other } else { own }]));
    }
}

/// Drops what a new Service has no use for.
pub(crate) fn create(service: &mut Value) {
    if let Some(spec) = service.inner("spec") {
        drop_traffic_policy(spec);
    }
}

/// An ExternalName Service has no traffic inside of the cluster. kube-apiserver leaves the policy out when it reads one.
fn drop_traffic_policy(spec: &mut Map) {
    if !has_address(spec) {
        spec.remove("internalTrafficPolicy");
    }
}

/// Makes the spec of a changed Service complete: what an update leaves out it means to keep, and what its new type has no use
/// for goes, unless the update changes that too, which is for validation to refuse.
pub(crate) fn update(new: &mut Value, old: &Value) {
    let before = old.at("spec");
    let Some(spec) = new.inner("spec") else { return };
    keep_allocated(spec, before);
    match_addresses(spec, before);
    drop_unused(spec, before);
    drop_traffic_policy(spec);
    if spec.text("type") != "LoadBalancer"
        && let Some(status) = new.inner("status")
    {
        status.put("loadBalancer", json!({}));
    }
}

/// The mode of a load balancer's address is `VIP` by default.
pub(crate) fn status_update(service: &mut Value, _: &Value) {
    let balancer = service.inner("status").and_then(|status| status.inner("loadBalancer"));
    for ingress in balancer.into_iter().flat_map(|balancer| balancer.each("ingress")) {
        if !ingress.text("ip").is_empty() {
            ingress.fill("ipMode", "VIP");
        }
    }
}

/// Updates `clusterIPs` from `clusterIP` for clients that only know the latter.
fn match_addresses(spec: &mut Map, before: &Value) {
    let (now, was) = (spec.text("clusterIP").to_owned(), before.text("clusterIP"));
    let same = spec.at("clusterIPs") == before.at("clusterIPs");
    if now == was {
        if spec.count("clusterIPs") == 0 && before.count("clusterIPs") > 0 {
            spec.put("clusterIPs", before.at("clusterIPs").clone());
        }
    } else if same && now.is_empty() {
        spec.remove("clusterIPs");
    } else if same {
        spec.put("clusterIPs", json!([now]));
    }
}

/// Only between two types that have addresses. Families follow the addresses: they are kept if those did not change.
fn keep_allocated(spec: &mut Map, before: &Value) {
    if has_address(spec) && has_address(before) {
        if spec.text("clusterIP").is_empty() && before.has("clusterIP") {
            spec.put("clusterIP", before.at("clusterIP").clone());
        }
        if spec.count("clusterIPs") == 0 && before.count("clusterIPs") > 0 {
            spec.put("clusterIPs", before.at("clusterIPs").clone());
        }
        for key in ["ipFamilies", "ipFamilyPolicy"].into_iter().filter(|key| before.has(key)) {
            if spec.at("clusterIPs") == before.at("clusterIPs") {
                spec.fill(key, before.at(key).clone());
            }
        }
    }
    if gets_node_ports(spec) && gets_node_ports(before) {
        keep_node_ports(spec, before);
    }
    if is_checked(spec) && is_checked(before) && spec.int("healthCheckNodePort").unwrap_or(0) == 0 {
        super::keep_field(spec, before, "healthCheckNodePort");
    }
}

/// Ports are recognised by their names; the last of several counts.
fn keep_node_ports(spec: &mut Map, before: &Value) {
    let now: HashSet<i64> = node_ports(spec).collect();
    let used: HashSet<i64> = node_ports(before).filter(|port| now.contains(port)).collect();
    let ports = before.list("ports").iter();
    let known: HashMap<&str, i64> =
        ports.map(|port| (port.text("name"), port.int("nodePort").unwrap_or(0))).collect();
    for port in spec.each("ports").filter(|port| port.int("nodePort").unwrap_or(0) == 0) {
        if let Some(number) = known.get(port.text("name"))
            && *number != 0
            && !used.contains(number)
        {
            port.put("nodePort", *number);
        }
    }
}

/// A field that the update sets to something new stays, for validation to refuse: dropping it silently would hide a
/// mistake.
fn drop_unused(spec: &mut Map, before: &Value) {
    let mut dropped: Vec<&str> = Vec::new();
    if has_address(before) && !has_address(spec) {
        let same = ["clusterIP", "clusterIPs"].iter().all(|key| spec.at(key) == before.at(key));
        dropped.extend(["clusterIP", "clusterIPs"].iter().filter(|_| same));
        dropped.extend(["ipFamilies", "ipFamilyPolicy"].iter().filter(|key| spec.at(key) == before.at(key)));
    }
    if may_have_node_ports(before) && !may_have_node_ports(spec) {
        let known: HashSet<i64> = node_ports(before).collect();
        if node_ports(spec).all(|port| known.contains(&port)) {
            spec.each("ports").for_each(|port| drop(port.remove("nodePort")));
        }
    }
    let mut drop_same = |key: &'static str, was_used: bool, is_used: bool| {
        if was_used && !is_used && spec.at(key) == before.at(key) {
            dropped.push(key);
        }
    };
    drop_same("healthCheckNodePort", is_checked(before), is_checked(spec));
    drop_same("allocateLoadBalancerNodePorts", is_balanced(before), is_balanced(spec));
    drop_same("loadBalancerClass", is_balanced(before), is_balanced(spec));
    drop_same("externalTrafficPolicy", is_reached(before), is_reached(spec));
    for key in dropped {
        spec.remove(key);
    }
}

/// All types but `ExternalName`.
fn has_address(spec: &impl Tree) -> bool {
    spec.text("type") != "ExternalName"
}

fn is_balanced(spec: &impl Tree) -> bool {
    spec.text("type") == "LoadBalancer"
}

fn may_have_node_ports(spec: &impl Tree) -> bool {
    matches!(spec.text("type"), "NodePort" | "LoadBalancer")
}

fn gets_node_ports(spec: &impl Tree) -> bool {
    spec.text("type") == "NodePort"
        || (is_balanced(spec) && spec.at("allocateLoadBalancerNodePorts") != &json!(false))
}

/// True for a Service with a health check node port.
fn is_checked(spec: &impl Tree) -> bool {
    is_balanced(spec) && spec.text("externalTrafficPolicy") == "Local"
}

/// True for a Service that can be reached from outside.
fn is_reached(spec: &impl Tree) -> bool {
    may_have_node_ports(spec) || (spec.text("type") == "ClusterIP" && spec.count("externalIPs") > 0)
}

fn node_ports(spec: &impl Tree) -> impl Iterator<Item = i64> {
    spec.list("ports").iter().filter_map(|port| port.int("nodePort")).filter(|port| *port != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_of_a_service_follow_its_type() {
        for (spec, expected) in [
            (json!({"type": "ExternalName"}), Needs::default()),
            (json!({"type": "ClusterIP"}), Needs { address: true, ..Needs::default() }),
            (json!({"type": "ClusterIP", "clusterIP": "None"}), Needs::default()),
            (
                json!({"type": "ClusterIP", "clusterIP": "10.0.0.9"}),
                Needs { wanted: Some("10.0.0.9".into()), ..Needs::default() },
            ),
            (
                json!({"type": "NodePort", "ports": [{"port": 1}, {"port": 2, "nodePort": 30_001}]}),
                Needs { address: true, ports: vec![0], wanted_ports: vec![30_001], ..Needs::default() },
            ),
        ] {
            assert_eq!(needs(&spec), expected, "{spec}");
        }
    }

    #[test]
    fn an_address_changed_in_one_place_is_changed_in_both() {
        let old = json!({"spec": {"type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"]}});
        // A list that is left out is the stored one.
        for listed in [json!(["10.0.0.1"]), json!(null)] {
            let mut new =
                json!({"spec": {"type": "ClusterIP", "clusterIP": "10.0.0.9", "clusterIPs": listed}});
            update(&mut new, &old);
            assert_eq!(new.at("spec").at("clusterIPs"), &json!(["10.0.0.9"]));
        }
    }

    #[test]
    fn a_headless_service_without_selector_has_both_families() {
        for (spec, policy, families) in [
            (json!({"clusterIP": "None"}), "RequireDualStack", json!(["IPv4", "IPv6"])),
            (json!({"clusterIP": "None", "selector": {"a": "b"}}), "SingleStack", json!(["IPv4"])),
            (json!({"clusterIP": "None", "ipFamilyPolicy": "SingleStack"}), "SingleStack", json!(["IPv4"])),
            (json!({"clusterIP": "10.0.0.9"}), "SingleStack", json!(["IPv4"])),
        ] {
            let mut filled = spec.clone();
            assign(&mut filled, None, &[]);
            assert_eq!(
                (filled.text("ipFamilyPolicy"), filled.at("ipFamilies")),
                (policy, &families),
                "{spec}"
            );
        }
    }

    #[test]
    fn an_external_name_has_no_traffic_policy() {
        for kind in ["ExternalName", "ClusterIP"] {
            let mut service = json!({"spec": {"type": kind, "internalTrafficPolicy": "Local"}});
            let kept = kind == "ClusterIP";
            create(&mut service);
            assert_eq!(service.at("spec").has("internalTrafficPolicy"), kept, "{kind}");
        }
    }

    #[test]
    fn allocated_values_are_written_and_kept() {
        let mut spec = json!({"type": "NodePort", "ports": [{"port": 1, "protocol": "TCP"}]});
        assign(&mut spec, Some("10.96.0.7"), &[(0, 30_500)]);
        assert_eq!(spec.at("clusterIPs"), &json!(["10.96.0.7"]));
        assert_eq!((spec.at("ipFamilies"), spec.text("ipFamilyPolicy")), (&json!(["IPv4"]), "SingleStack"));
        let old = json!({"spec": spec});
        let mut new = json!({"spec": {"type": "NodePort", "ports": [{"port": 1, "protocol": "TCP"}]}});
        update(&mut new, &old);
        assert_eq!(new, old);
    }
}
