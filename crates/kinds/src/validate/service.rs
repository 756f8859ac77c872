//! Services.

use std::collections::HashSet;
use std::net::IpAddr;

use listwatch_wire::json::Value;
use listwatch_wire::names::{label_errors, label_key_errors, subdomain_errors};

use super::container::{PROTOCOLS, port_number, port_number_or_name};
use super::selector;
use crate::field::{Errors, Path};
use crate::names;
use crate::tree::Tree;

const TYPES: &[&str] = &["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"];

pub(super) fn service(new: &Value, errors: &mut Errors) {
    let (spec, path) = (new.at("spec"), Path::root("spec"));
    let kind = spec.text("type");
    let headless = spec.text("clusterIP") == "None";
    if spec.count("ports") == 0 && !headless && kind != "ExternalName" {
        errors.required(&path.child("ports"), "");
    }
    match kind {
        "LoadBalancer" | "NodePort" if headless => {
            let detail = format!("may not be set to 'None' for {kind} services");
            errors.invalid(&path.child("clusterIPs").index(0), "None", detail);
        }
        "ExternalName" => external_name(spec, &path, errors),
        _ => {}
    }
    ports(spec, &path.child("ports"), errors);
    selector::check_labels(spec.at("selector"), &path.child("selector"), errors);
    errors.required_one_of(
        &path.child("sessionAffinity"),
        spec.text("sessionAffinity"),
        &["ClientIP", "None"],
    );
    errors.required_one_of(&path.child("type"), kind, TYPES);
    addresses(spec, &path, errors);
    policies(spec, &path, errors);
}

fn external_name(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    if spec.has("clusterIP") && !spec.text("clusterIP").is_empty() {
        errors.forbidden(&path.child("clusterIPs").index(0), "may not be set when `type` is 'ExternalName'");
    }
    let name = spec.text("externalName").trim_end_matches('.');
    if name.is_empty() {
        errors.required(&path.child("externalName"), "");
    } else {
        errors.invalid_all(&path.child("externalName"), name, subdomain_errors(name));
    }
}

fn ports(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let ports = spec.list("ports");
    let (mut names, mut numbers) = (HashSet::new(), HashSet::new());
    for (index, port) in ports.iter().enumerate() {
        let path = path.index(index);
        let name = port.text("name");
        if name.is_empty() {
            if ports.len() > 1 {
                errors.required(&path.child("name"), "");
            }
        } else {
            errors.invalid_all(&path.child("name"), name, label_errors(name));
            if !names.insert(name) {
                errors.duplicate(&path.child("name"), name);
            }
        }
        let number = port.int("port").unwrap_or(0);
        port_number(number, &path.child("port"), errors);
        errors.required_one_of(&path.child("protocol"), port.text("protocol"), PROTOCOLS);
        port_number_or_name(port.at("targetPort"), &path.child("targetPort"), errors);
        let protocol = port.text("appProtocol");
        if !protocol.is_empty() {
            errors.invalid_all(&path.child("appProtocol"), protocol, label_key_errors(protocol));
        }
        if !numbers.insert((port.text("protocol"), number)) {
            errors.duplicate(
                &path,
                listwatch_wire::json::json!({"protocol": port.text("protocol"), "port": number}),
            );
        }
        if port.int("nodePort").unwrap_or(0) != 0 && matches!(spec.text("type"), "ClusterIP" | "ExternalName")
        {
            let detail = format!("may not be used when `type` is '{}'", spec.text("type"));
            errors.forbidden(&path.child("nodePort"), detail);
        }
    }
}

fn addresses(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    const BAD: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
    let cluster = path.child("clusterIPs");
    for (index, address) in spec.list("clusterIPs").iter().filter_map(Value::as_str).enumerate() {
        if address != "None" && address.parse::<IpAddr>().is_err() {
            errors.invalid(&cluster.index(index), address, BAD);
        }
    }
    if spec.count("clusterIPs") > 2 {
        let detail = "may only hold up to 2 values";
        errors.invalid(&cluster, spec.at("clusterIPs").clone(), detail);
    }
    if let Some(first) = spec.list("clusterIPs").first().filter(|first| *first != spec.at("clusterIP")) {
        errors.invalid(&cluster, first.clone(), "first value must match `clusterIP`");
    }
    let external = path.child("externalIPs");
    for (index, address) in spec.list("externalIPs").iter().filter_map(Value::as_str).enumerate() {
        match address.parse::<IpAddr>() {
            Err(_) => errors.invalid(&external.index(index), address, BAD),
            Ok(ip) => ordinary(ip, address, &external.index(index), errors),
        }
    }
}

/// Addresses that mean something else everywhere lead nowhere in particular.
fn ordinary(ip: IpAddr, address: &str, path: &Path<'_>, errors: &mut Errors) {
    if ip.is_unspecified() {
        errors.invalid(path, address, "may not be unspecified (0.0.0.0 or ::)");
    }
    if ip.is_loopback() {
        errors.invalid(path, address, "may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
}

/// What only a balancer in front of the cluster has.
fn balancer(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let balanced = spec.text("type") == "LoadBalancer";
    for key in ["allocateLoadBalancerNodePorts", "loadBalancerClass", "loadBalancerSourceRanges"] {
        let given = if key == "loadBalancerSourceRanges" { spec.count(key) > 0 } else { spec.has(key) };
        if given && !balanced {
            errors.forbidden(&path.child(key), "may only be used when `type` is 'LoadBalancer'");
        }
    }
    let ranges = path.child("loadBalancerSourceRanges");
    for (index, range) in spec.list("loadBalancerSourceRanges").iter().filter_map(Value::as_str).enumerate() {
        if !names::is_cidr(range.trim()) {
            errors.invalid(&ranges.index(index), range, names::CIDR);
        }
    }
    let checked = balanced && spec.text("externalTrafficPolicy") == "Local";
    if let Some(port) = spec.int("healthCheckNodePort").filter(|port| *port != 0 && !checked) {
        let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        errors.invalid(&path.child("healthCheckNodePort"), port, detail);
    }
}

fn policies(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    for key in ["internalTrafficPolicy", "externalTrafficPolicy"] {
        let policy = spec.text(key);
        if !policy.is_empty() {
            errors.one_of(&path.child(key), policy, &["Cluster", "Local"]);
        }
    }
    let kind = spec.text("type");
    let reached = matches!(kind, "NodePort" | "LoadBalancer") || spec.count("externalIPs") > 0;
    if spec.has("externalTrafficPolicy") && !reached {
        let detail = "may only be set for externally-accessible services";
        errors.invalid(&path.child("externalTrafficPolicy"), spec.text("externalTrafficPolicy"), detail);
    }
    balancer(spec, path, errors);
    if spec.has("trafficDistribution") {
        let known = &["PreferClose", "PreferSameNode", "PreferSameZone"];
        errors.one_of(&path.child("trafficDistribution"), spec.text("trafficDistribution"), known);
    }
    affinity(spec, &path.child("sessionAffinityConfig"), errors);
    families(spec, path, errors);
}

/// How long a client stays with its Pod.
fn affinity(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let config = spec.at("sessionAffinityConfig");
    if spec.text("sessionAffinity") == "None" && config.has("clientIP") {
        let detail = "must not be set when session affinity is None";
        errors.forbidden(path, detail);
    }
    let seconds = config.at("clientIP").int("timeoutSeconds");
    if let Some(seconds) = seconds.filter(|seconds| !(1..=86_400).contains(seconds)) {
        let client = path.child("clientIP");
        let detail = "must be greater than 0 and less than 86400";
        errors.invalid(&client.child("timeoutSeconds"), seconds, detail);
    }
}

/// There is one range of addresses, of one family; only a Service without addresses may claim others.
fn families(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let family = spec.text("ipFamilyPolicy");
    if !family.is_empty() {
        errors.one_of(
            &path.child("ipFamilyPolicy"),
            family,
            &["SingleStack", "PreferDualStack", "RequireDualStack"],
        );
    }
    let at = path.child("ipFamilies");
    for (index, family) in spec.list("ipFamilies").iter().filter_map(Value::as_str).enumerate() {
        errors.one_of(&at.index(index), family, &["IPv4", "IPv6"]);
    }
    let open = spec.text("clusterIP") == "None" && spec.count("selector") == 0;
    let foreign = spec.list("ipFamilies").iter().position(|family| family == "IPv6");
    if let Some(index) = foreign.filter(|_| !open) {
        errors.invalid(&at.index(index), "IPv6", "not configured on this cluster");
    }
    if family == "RequireDualStack" && !open {
        let detail = "this cluster is not configured for dual-stack services";
        errors.invalid(&path.child("ipFamilyPolicy"), family, detail);
    }
}

/// An address stays for life, unless the Service stops having one.
pub(super) fn change(new: &Value, old: &Value, errors: &mut Errors) {
    let path = Path::root("spec");
    let (new, old) = (new.at("spec"), old.at("spec"));
    if old.text("type") == "ExternalName" || new.text("type") == "ExternalName" {
        return;
    }
    let cluster = path.child("clusterIPs");
    if !old.text("clusterIP").is_empty() && new.list("clusterIPs").first() != old.list("clusterIPs").first() {
        errors.invalid(&cluster.index(0), new.at("clusterIPs").clone(), "may not change once set");
    }
}
