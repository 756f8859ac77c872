//! Services: ports, types and policies.

use std::collections::HashSet;

use listwatch_wire::json::Value;
use listwatch_wire::names::subdomain_errors;

use super::checks;
use crate::field::{Errors, Path};
use crate::names;
use crate::rules::{At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] = checks![
    service_annotations_are_valid,
    service_has_ports,
    service_fits_its_type,
    ports_are_named,
    node_ports_are_unique,
    traffic_policy_fits_reach,
    host_is_no_address,
];

const RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";

fn service_annotations_are_valid(at: &At<'_>, errors: &mut Errors) {
    let (spec, annotations) = (at.value.at("spec"), at.value.at("metadata").at("annotations"));
    let path = at.path.child("metadata");
    let path = path.child("annotations");
    let (mode, hints) = ("service.kubernetes.io/topology-mode", "service.kubernetes.io/topology-aware-hints");
    if annotations.has(mode) && annotations.has(hints) && annotations.at(mode) != annotations.at(hints) {
        let detail = format!("must match annotations[{hints}] when both are specified");
        errors.invalid(&path.key(mode), annotations.text(mode), detail);
    }
    if spec.count("loadBalancerSourceRanges") > 0 || !annotations.has(RANGES) {
        return;
    }
    let path = path.key(RANGES);
    if spec.text("type") != "LoadBalancer" {
        errors.forbidden(&path, "may only be used when `type` is 'LoadBalancer'");
    }
    let ranges = annotations.text(RANGES).trim();
    for range in ranges.split(',').map(str::trim).filter(|_| !ranges.is_empty()) {
        if !names::is_cidr(range) {
            errors.invalid(&path, range, names::CIDR);
        }
    }
}

/// Only a Service without an address needs no ports.
fn service_has_ports(at: &At<'_>, errors: &mut Errors) {
    let headless = is_headless(at.value);
    if at.value.count("ports") == 0 && !headless && at.value.text("type") != "ExternalName" {
        errors.required(&at.path.child("ports"), "");
    }
}

pub(super) fn is_headless(spec: &Value) -> bool {
    spec.list("clusterIPs") == [Value::from("None")]
}

fn service_fits_its_type(at: &At<'_>, errors: &mut Errors) {
    match at.value.text("type") {
        kind @ ("LoadBalancer" | "NodePort") if is_headless(at.value) => {
            let detail = format!("may not be set to 'None' for {kind} services");
            errors.invalid(&at.path.child("clusterIPs").index(0), "None", detail);
        }
        "ExternalName" => external_name(at.value, at.path, errors),
        _ => {}
    }
}

fn external_name(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    for key in ["clusterIPs", "ipFamilies"].into_iter().filter(|key| spec.count(key) > 0) {
        errors.forbidden(&path.child(key), "may not be set for ExternalName services");
    }
    if spec.has("ipFamilyPolicy") {
        errors.forbidden(&path.child("ipFamilyPolicy"), "may not be set for ExternalName services");
    }
    let name = spec.text("externalName");
    let name = name.strip_suffix('.').unwrap_or(name);
    match name.is_empty() {
        true => errors.required(&path.child("externalName"), ""),
        false => errors.invalid_all(&path.child("externalName"), name, subdomain_errors(name)),
    }
}

fn ports_are_named(at: &At<'_>, errors: &mut Errors) {
    let ports = at.value.as_array().map(Vec::as_slice).unwrap_or_default();
    for (index, port) in ports.iter().enumerate() {
        if ports.len() > 1 && port.text("name").is_empty() {
            errors.required(&at.path.index(index).child("name"), "");
        }
    }
}

fn node_ports_are_unique(at: &At<'_>, errors: &mut Errors) {
    let inside = at.parent.text("type") == "ClusterIP";
    let mut seen = HashSet::new();
    for (index, port) in at.value.as_array().into_iter().flatten().enumerate() {
        let Some(number) = port.int("nodePort").filter(|number| *number != 0) else { continue };
        let path = at.path.index(index);
        if inside {
            errors.forbidden(&path.child("nodePort"), "may not be used when `type` is 'ClusterIP'");
        }
        if !seen.insert((port.text("protocol"), number)) {
            errors.duplicate(&path.child("nodePort"), number);
        }
    }
}

fn host_is_no_address(at: &At<'_>, errors: &mut Errors) {
    if let Some(host) = at.value.as_str().filter(|host| host.parse::<std::net::IpAddr>().is_ok()) {
        errors.invalid(at.path, host, "must be a DNS name, not an IP address");
    }
}

/// The status of a Service that is not balanced tells of no balancer.
pub(super) fn status(service: &Value, errors: &mut Errors) {
    let path = Path::root("status");
    let path = path.child("loadBalancer");
    let ingress = service.at("status").at("loadBalancer").count("ingress");
    if service.at("spec").text("type") != "LoadBalancer" && ingress > 0 {
        let detail = "may only be used when `spec.type` is 'LoadBalancer'";
        errors.forbidden(&path.child("ingress"), detail);
    }
}

/// Traffic from outside has a policy, and a health check where it stays on its node.
fn traffic_policy_fits_reach(at: &At<'_>, errors: &mut Errors) {
    let (kind, policy) = (at.value.text("type"), at.value.text("externalTrafficPolicy"));
    let reached = matches!(kind, "NodePort" | "LoadBalancer")
        || (kind == "ClusterIP" && at.value.count("externalIPs") > 0);
    let path = at.path.child("externalTrafficPolicy");
    match (reached, policy) {
        (false, "") => {}
        (false, policy) => {
            errors.invalid(&path, policy, "may only be set for externally-accessible services");
        }
        (true, "") => errors.required(&path, ""),
        (true, policy) => errors.one_of(&path, policy, &["Cluster", "Local"]),
    }
    let port = at.value.int("healthCheckNodePort").unwrap_or(0);
    let path = at.path.child("healthCheckNodePort");
    let checked = kind == "LoadBalancer" && policy == "Local";
    if !checked && port != 0 {
        let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        errors.invalid(&path, port, detail);
    } else if checked && port != 0 && !(1..=65_535).contains(&port) {
        errors.invalid(&path, port, "must be between 1 and 65535, inclusive");
    }
}
