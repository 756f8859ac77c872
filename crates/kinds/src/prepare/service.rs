//! Services: which addresses and ports are still to be given out, and which were.

use std::collections::HashMap;

use listwatch_wire::json::{Value, json};

use crate::tree::Tree;

/// The addresses and ports that a Service needs from the allocator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// An address of the service range.
    pub address: bool,
    /// The address it asks for by itself.
    pub wanted: Option<String>,
    /// Positions of ports without a node port.
    pub ports: Vec<usize>,
    /// Node ports it asks for by itself.
    pub wanted_ports: Vec<i64>,
}

/// The allocations missing in the spec of a Service.
#[must_use]
pub fn needs(spec: &Value) -> Needs {
    let kind = spec.text("type");
    if kind == "ExternalName" {
        return Needs::default();
    }
    let address = match (spec.text("clusterIP"), spec.list("clusterIPs").first().and_then(Value::as_str)) {
        ("", None) => "",
        ("", Some(first)) => first,
        (given, _) => given,
    };
    let node_ports = kind == "NodePort"
        || (kind == "LoadBalancer" && spec.at("allocateLoadBalancerNodePorts") != &json!(false));
    let open = |port: &Value| port.int("nodePort").unwrap_or(0) == 0;
    Needs {
        address: address.is_empty(),
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
    }
}

/// Writes down what was allocated, and the fields that follow from it.
pub fn assign(spec: &mut Value, address: Option<&str>, node_ports: &[(usize, i64)]) {
    if spec.text("type") == "ExternalName" {
        return;
    }
    if let Some(address) = address {
        spec.put("clusterIP", address);
    }
    let first = match (spec.text("clusterIP"), spec.list("clusterIPs").first().and_then(Value::as_str)) {
        ("", Some(first)) => first.to_owned(),
        (given, _) => given.to_owned(),
    };
    spec.put("clusterIP", first.clone());
    if spec.count("clusterIPs") == 0 {
        spec.put("clusterIPs", json!([first]));
    }
    assign_families(spec, if first.contains(':') { ["IPv6", "IPv4"] } else { ["IPv4", "IPv6"] });
    for (position, number) in node_ports {
        if let Some(port) = spec.each("ports").nth(*position) {
            port.put("nodePort", *number);
        }
    }
}

/// Which address families a Service has, its own first.
///
/// One without addresses and without Pods of its choosing is up to whoever writes its endpoints, and may have both.
fn assign_families(spec: &mut Value, [own, other]: [&str; 2]) {
    let open = spec.text("clusterIP") == "None" && spec.count("selector") == 0;
    spec.fill_text("ipFamilyPolicy", if open { "RequireDualStack" } else { "SingleStack" });
    if spec.count("ipFamilies") == 0 {
        spec.put("ipFamilies", json!([own]));
    }
    if open && spec.text("ipFamilyPolicy") != "SingleStack" && spec.count("ipFamilies") == 1 {
        let given = spec.list("ipFamilies").first().cloned().unwrap_or_default();
        spec.put("ipFamilies", json!([given, if given == own { other } else { own }]));
    }
}

/// An update that leaves out what was allocated means to keep it.
pub(super) fn keep_allocated(new: &mut Value, old: &Value) {
    let before = old.at("spec");
    let Some(spec) = new.inner("spec") else { return };
    if spec.text("type") == "ExternalName" || before.text("type") == "ExternalName" {
        // A mere name has no traffic; who wrote nothing about it means nothing by it.
        for key in ["internalTrafficPolicy", "externalTrafficPolicy"] {
            if spec.text("type") == "ExternalName" && spec.at(key) == before.at(key) {
                spec.remove(key);
            }
        }
        return;
    }
    let (address, was) = (spec.text("clusterIP").to_owned(), before.text("clusterIP"));
    if !address.is_empty() && address != was && spec.at("clusterIPs") == before.at("clusterIPs") {
        // The list follows its first address, and whether that may change is for validation to say.
        let rest = before.list("clusterIPs").iter().skip(1).cloned();
        spec.put("clusterIPs", std::iter::once(Value::from(address)).chain(rest).collect::<Vec<_>>());
    }
    if spec.text("clusterIP").is_empty() && before.has("clusterIP") {
        spec.put("clusterIP", was);
    }
    if spec.count("clusterIPs") == 0 && spec.text("clusterIP") == was && before.has("clusterIPs") {
        spec.put("clusterIPs", before.at("clusterIPs").clone());
    }
    for key in ["ipFamilies", "ipFamilyPolicy"] {
        if before.has(key) {
            spec.fill(key, before.at(key).clone());
        }
    }
    if matches!(spec.text("type"), "NodePort" | "LoadBalancer") {
        // The first of several counts.
        let given = before.list("ports").iter().rev();
        let given: HashMap<_, _> =
            given.map(|port| ((port.int("port"), port.text("protocol")), port.int("nodePort"))).collect();
        for port in spec.each("ports").filter(|port| port.int("nodePort").unwrap_or(0) == 0) {
            if let Some(Some(number)) = given.get(&(port.int("port"), port.text("protocol"))) {
                port.put("nodePort", *number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_service_needs() {
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
        let mut new =
            json!({"spec": {"type": "ClusterIP", "clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.1"]}});
        keep_allocated(&mut new, &old);
        assert_eq!(new.at("spec").at("clusterIPs"), &json!(["10.0.0.9"]));
    }

    #[test]
    fn a_service_of_somebody_elses_endpoints_has_both_families() {
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
    fn what_was_allocated_is_written_down_and_kept() {
        let mut spec = json!({"type": "NodePort", "ports": [{"port": 1, "protocol": "TCP"}]});
        assign(&mut spec, Some("10.96.0.7"), &[(0, 30_500)]);
        assert_eq!(spec.at("clusterIPs"), &json!(["10.96.0.7"]));
        assert_eq!((spec.at("ipFamilies"), spec.text("ipFamilyPolicy")), (&json!(["IPv4"]), "SingleStack"));
        let old = json!({"spec": spec});
        let mut new = json!({"spec": {"type": "NodePort", "ports": [{"port": 1, "protocol": "TCP"}]}});
        keep_allocated(&mut new, &old);
        assert_eq!(new, old);
    }
}
