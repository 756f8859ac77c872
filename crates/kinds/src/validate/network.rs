//! Ingresses, network policies, endpoints and their slices.

use std::net::IpAddr;

use listwatch_wire::json::Value;
use listwatch_wire::names::subdomain_errors;

use super::container::{PROTOCOLS, port_number};
use super::selector;
use crate::field::{Errors, Path};
use crate::tree::Tree;

const PATH_TYPES: &[&str] = &["Exact", "ImplementationSpecific", "Prefix"];

pub(super) fn ingress(new: &Value, errors: &mut Errors) {
    let (spec, path) = (new.at("spec"), Path::root("spec"));
    if spec.count("rules") == 0 && !spec.has("defaultBackend") {
        errors.invalid(&path, spec.clone(), "either `defaultBackend` or `rules` must be specified");
    }
    if spec.has("defaultBackend") {
        backend(spec.at("defaultBackend"), &path.child("defaultBackend"), errors);
    }
    let rules = path.child("rules");
    for (index, rule) in spec.list("rules").iter().enumerate() {
        let path = rules.index(index);
        host(rule.text("host"), &path.child("host"), errors);
        if rule.has("http") {
            let http = path.child("http");
            ingress_paths(rule.at("http"), &http.child("paths"), errors);
        }
    }
    let class = spec.text("ingressClassName");
    if !class.is_empty() {
        errors.invalid_all(&path.child("ingressClassName"), class, subdomain_errors(class));
    }
}

fn host(host: &str, path: &Path<'_>, errors: &mut Errors) {
    if host.is_empty() {
        return;
    }
    if host.parse::<IpAddr>().is_ok() {
        errors.invalid(path, host, "must be a DNS name, not an IP address");
        return;
    }
    let plain = host.strip_prefix("*.").unwrap_or(host);
    errors.invalid_all(path, host, subdomain_errors(plain));
}

fn ingress_paths(http: &Value, path: &Path<'_>, errors: &mut Errors) {
    if http.count("paths") == 0 {
        errors.required(path, "");
    }
    for (index, item) in http.list("paths").iter().enumerate() {
        let path = path.index(index);
        let (place, kind) = (item.text("path"), item.text("pathType"));
        if kind.is_empty() {
            errors.required(&path.child("pathType"), "pathType must be specified");
        } else {
            errors.one_of(&path.child("pathType"), kind, PATH_TYPES);
        }
        let anything = place.is_empty() && kind == "ImplementationSpecific";
        if !place.starts_with('/') && !anything {
            errors.invalid(&path.child("path"), place, "must be an absolute path");
        }
        backend(item.at("backend"), &path.child("backend"), errors);
    }
}

fn backend(backend: &Value, path: &Path<'_>, errors: &mut Errors) {
    match (backend.has("service"), backend.has("resource")) {
        (true, true) => errors.invalid(path, "", "cannot set both resource and service backends"),
        (false, false) => errors.required(path, "resource or service backend is required"),
        (true, false) => {
            let (service, path) = (backend.at("service"), path.child("service"));
            if service.text("name").is_empty() {
                errors.required(&path.child("name"), "");
            }
            let (port, at) = (service.at("port"), path.child("port"));
            match (port.text("name").is_empty(), port.int("number").unwrap_or(0)) {
                (true, 0) => errors.required(&path, "port name or number is required"),
                (false, 0) => {}
                (true, number) => port_number(number, &at.child("number"), errors),
                (false, _) => errors.invalid(&path, "", "cannot set both port name & port number"),
            }
        }
        (false, true) => {}
    }
}

pub(super) fn ingress_class(new: &Value, errors: &mut Errors) {
    if new.at("spec").text("controller").is_empty() {
        errors.required(&Path::root("spec").child("controller"), "");
    }
}

pub(super) fn network_policy(new: &Value, errors: &mut Errors) {
    let (spec, path) = (new.at("spec"), Path::root("spec"));
    selector::check(spec.at("podSelector"), &path.child("podSelector"), errors);
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        let path = path.child(direction);
        for (index, rule) in spec.list(direction).iter().enumerate() {
            let path = path.index(index);
            let ports = path.child("ports");
            for (index, port) in rule.list("ports").iter().enumerate() {
                errors.one_of(&ports.index(index).child("protocol"), port.text("protocol"), PROTOCOLS);
            }
            let at = path.child(peers);
            for (index, peer) in rule.list(peers).iter().enumerate() {
                policy_peer(peer, &at.index(index), errors);
            }
        }
    }
    let types = path.child("policyTypes");
    for (index, name) in spec.list("policyTypes").iter().filter_map(Value::as_str).enumerate() {
        errors.one_of(&types.index(index), name, &["Ingress", "Egress"]);
    }
}

fn policy_peer(peer: &Value, path: &Path<'_>, errors: &mut Errors) {
    let selectors = ["podSelector", "namespaceSelector"].iter().filter(|key| peer.has(key)).count();
    match (selectors, peer.has("ipBlock")) {
        (0, false) => errors.required(path, "must specify a peer"),
        (1.., true) => errors.forbidden(path, "may not specify both ipBlock and another peer"),
        (0, true) if peer.at("ipBlock").text("cidr").is_empty() => {
            errors.required(&path.child("ipBlock").child("cidr"), "");
        }
        _ => {}
    }
}

pub(super) fn endpoints(new: &Value, errors: &mut Errors) {
    let path = Path::root("subsets");
    for (index, subset) in new.list("subsets").iter().enumerate() {
        let path = path.index(index);
        if subset.count("addresses") == 0 && subset.count("notReadyAddresses") == 0 {
            errors.required(&path, "must specify `addresses` or `notReadyAddresses`");
        }
        for key in ["addresses", "notReadyAddresses"] {
            let path = path.child(key);
            for (index, address) in subset.list(key).iter().enumerate() {
                if address.text("ip").parse::<IpAddr>().is_err() {
                    let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
                    errors.invalid(&path.index(index).child("ip"), address.text("ip"), detail);
                }
            }
        }
        let ports = path.child("ports");
        for (index, port) in subset.list("ports").iter().enumerate() {
            let path = ports.index(index);
            if port.text("name").is_empty() && subset.count("ports") > 1 {
                errors.required(&path.child("name"), "");
            }
            port_number(port.int("port").unwrap_or(0), &path.child("port"), errors);
            errors.required_one_of(&path.child("protocol"), port.text("protocol"), PROTOCOLS);
        }
    }
}

pub(super) fn endpoint_slice(new: &Value, errors: &mut Errors) {
    let kind = new.text("addressType");
    errors.required_one_of(&Path::root("addressType"), kind, &["IPv4", "IPv6", "FQDN"]);
    let path = Path::root("endpoints");
    for (index, endpoint) in new.list("endpoints").iter().enumerate() {
        let addresses = path.index(index);
        let addresses = addresses.child("addresses");
        if endpoint.count("addresses") == 0 {
            errors.required(&addresses, "must contain at least 1 address");
        }
        for (index, address) in endpoint.list("addresses").iter().filter_map(Value::as_str).enumerate() {
            let fits = match kind {
                "IPv4" => address.parse::<std::net::Ipv4Addr>().is_ok(),
                "IPv6" => address.parse::<std::net::Ipv6Addr>().is_ok(),
                _ => subdomain_errors(address).is_empty(),
            };
            if !fits {
                errors.invalid(&addresses.index(index), address, format!("must be a valid {kind} address"));
            }
        }
    }
}
