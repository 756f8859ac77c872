//! Defaults of Services, endpoints, network policies and ingress classes.
//!
//! Fields depend on the type of the Service: traffic policies and node ports exist only where the type has them, and a
//! session affinity other than `ClientIP` drops its configuration. Addresses and ports are not defaults: they are
//! allocated by the server after this ([`prepare`](crate::prepare)).

use listwatch_wire::json::{Map, Value, json};

use super::port_protocols;
use crate::tree::Tree;

/// The default timeout of session affinity: three hours.
const AFFINITY_SECONDS: i64 = 10_800;

/// A port's target is its own number by default. Traffic policies exist only for the types that they
/// mean something for.
pub(crate) fn service(object: &mut Map) {
    let Some(spec) = object.inner_or_new("spec") else { return };
    spec.fill_text("sessionAffinity", "None");
    spec.fill_text("type", "ClusterIP");
    affinity(spec);
    for port in spec.each("ports") {
        port.fill_text("protocol", "TCP");
        if matches!(port.at("targetPort"), Value::Null)
            || port.at("targetPort") == &json!(0)
            || port.at("targetPort") == &json!("")
        {
            let number = port.at("port").clone();
            port.put("targetPort", number);
        }
    }
    let kind = spec.text("type").to_owned();
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer")
        || (kind == "ClusterIP" && spec.count("externalIPs") > 0)
    {
        spec.fill_text("externalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        spec.fill("allocateLoadBalancerNodePorts", true);
    }
    if kind != "ExternalName" {
        spec.fill("internalTrafficPolicy", "Cluster");
    }
}

/// A configuration without its affinity is dropped, as kube-apiserver does.
fn affinity(spec: &mut Map) {
    if spec.text("sessionAffinity") == "ClientIP" {
        let Some(config) = spec.inner_or_new("sessionAffinityConfig") else { return };
        if let Some(client) = config.inner_or_new("clientIP") {
            client.fill("timeoutSeconds", AFFINITY_SECONDS);
        }
    } else {
        spec.drop_field("sessionAffinityConfig");
    }
}

pub(crate) fn endpoints(object: &mut Map) {
    for subset in object.each("subsets") {
        port_protocols(subset);
    }
}

/// An empty name is written: a slice with one port has no name for it.
pub(crate) fn endpoint_slice(object: &mut Map) {
    for port in object.each("ports") {
        port.fill("name", "");
        port.fill("protocol", "TCP");
    }
}

/// A policy without types is about ingress, and about egress only if it has rules for it.
pub(crate) fn network_policy(object: &mut Map) {
    let Some(spec) = object.inner_or_new("spec") else { return };
    for direction in ["ingress", "egress"] {
        for rule in spec.each(direction) {
            super::given_port_protocols(rule);
        }
    }
    if spec.count("policyTypes") == 0 {
        let types = if spec.count("egress") > 0 { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
        spec.put("policyTypes", types);
    }
}

pub(crate) fn ingress_class(object: &mut Map) {
    if let Some(parameters) = object.inner("spec").and_then(|spec| spec.inner("parameters")) {
        parameters.fill("scope", "Cluster");
    }
}
