//! Ingresses, endpoints and their slices.

use std::collections::HashSet;
use std::net::IpAddr;

use listwatch_wire::json::Value;
use listwatch_wire::names::{label_errors, subdomain_errors};

use super::container::{PROTOCOLS, port_number};
use crate::field::{Errors, Path};
use crate::names;
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
    ingress_tls(spec.list("tls"), &path.child("tls"), errors);
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
        let (place, at) = (item.text("path"), path.child("path"));
        match item.text("pathType") {
            "" => {
                errors.required(&path.child("pathType"), "pathType must be specified");
                continue;
            }
            "Exact" | "Prefix" => clean_path(place, &at, errors),
            "ImplementationSpecific" if place.is_empty() || place.starts_with('/') => {}
            "ImplementationSpecific" => errors.invalid(&at, place, "must be an absolute path"),
            other => errors.not_supported(&path.child("pathType"), other, PATH_TYPES),
        }
        backend(item.at("backend"), &path.child("backend"), errors);
    }
}

/// A path that is what it looks like.
fn clean_path(place: &str, path: &Path<'_>, errors: &mut Errors) {
    if !place.starts_with('/') {
        errors.invalid(path, place, "must be an absolute path");
    }
    for part in ["//", "/./", "/../", "%2f", "%2F"].into_iter().filter(|part| place.contains(part)) {
        errors.invalid(path, place, format!("must not contain '{part}'"));
    }
    for end in ["/..", "/."].into_iter().filter(|end| place.ends_with(end)) {
        errors.invalid(path, place, format!("cannot end with '{end}'"));
    }
}

fn backend(backend: &Value, path: &Path<'_>, errors: &mut Errors) {
    match (backend.has("service"), backend.has("resource")) {
        (true, true) => errors.invalid(path, "", "cannot set both resource and service backends"),
        (false, false) => errors.required(path, "resource or service backend is required"),
        (true, false) => service_backend(backend.at("service"), &path.child("service"), errors),
        (false, true) => {
            let path = path.child("resource");
            for key in ["kind", "name"] {
                if backend.at("resource").text(key).is_empty() {
                    errors.required(&path.child(key), "");
                }
            }
        }
    }
}

fn service_backend(service: &Value, path: &Path<'_>, errors: &mut Errors) {
    let name = service.text("name");
    if name.is_empty() {
        errors.required(&path.child("name"), "");
    } else {
        errors.invalid_all(&path.child("name"), name, label_errors(name));
    }
    let (port, at) = (service.at("port"), path.child("port"));
    match (port.text("name"), port.int("number").unwrap_or(0)) {
        ("", 0) => errors.required(path, "port name or number is required"),
        (name, 0) => errors.invalid_all(&at.child("name"), name, names::port_name(name)),
        ("", number) => port_number(number, &at.child("number"), errors),
        _ => errors.invalid(path, "", "cannot set both port name & port number"),
    }
}

/// Who serves which hosts with which certificates.
fn ingress_tls(tls: &[Value], path: &Path<'_>, errors: &mut Errors) {
    for (index, item) in tls.iter().enumerate() {
        let path = path.index(index);
        let hosts = path.child("hosts");
        for (index, name) in item.list("hosts").iter().filter_map(Value::as_str).enumerate() {
            let plain = name.strip_prefix("*.").unwrap_or(name);
            errors.invalid_all(&hosts.index(index), name, subdomain_errors(plain));
        }
        let secret = item.text("secretName");
        if !secret.is_empty() {
            errors.invalid_all(&path.child("secretName"), secret, subdomain_errors(secret));
        }
    }
}

pub(super) fn ingress_class(new: &Value, errors: &mut Errors) {
    let path = Path::root("spec");
    let (path, controller) = (path.child("controller"), new.at("spec").text("controller"));
    match controller.split_once('/') {
        _ if controller.is_empty() => errors.required(&path, ""),
        Some((domain, rest)) if !rest.is_empty() => {
            errors.invalid_all(&path, domain, subdomain_errors(domain))
        }
        _ => errors.invalid(&path, controller, "must be a domain-prefixed path (such as \"acme.io/foo\")"),
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
    slice_ports(new.list("ports"), &Path::root("ports"), errors);
}

fn slice_ports(ports: &[Value], path: &Path<'_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for (index, port) in ports.iter().enumerate() {
        let (path, name) = (path.index(index), port.text("name"));
        if !name.is_empty() {
            errors.invalid_all(&path.child("name"), name, label_errors(name));
        }
        if !seen.insert(name) {
            errors.duplicate(&path.child("name"), name);
        }
        errors.required_one_of(&path.child("protocol"), port.text("protocol"), PROTOCOLS);
        if let Some(number) = port.int("port") {
            port_number(number, &path.child("port"), errors);
        }
    }
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    #[test]
    fn paths_and_backends_of_an_ingress() {
        let found = |item: Value| -> Vec<String> {
            let mut errors = Errors::new();
            ingress_paths(&json!({"paths": [item]}), &Path::root("p"), &mut errors);
            errors.into_fields()
        };
        let backend = json!({"service": {"name": "s", "port": {"number": 80}}});
        assert_eq!(found(json!({"path": "/a", "pathType": "Exact", "backend": backend})), [""; 0]);
        assert_eq!(found(json!({"path": "a", "backend": backend})), ["p[0].pathType"]);
        assert_eq!(
            found(json!({"path": "/a//b/..", "pathType": "Prefix", "backend": backend})),
            ["p[0].path"; 2]
        );
        let odd = json!({"service": {"name": "S", "port": {"name": "A_"}}});
        assert_eq!(
            found(json!({"path": "/", "pathType": "Exact", "backend": odd})),
            ["p[0].backend.service.name", "p[0].backend.service.port.name", "p[0].backend.service.port.name"]
        );
    }
}
