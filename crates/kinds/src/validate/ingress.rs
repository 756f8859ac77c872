//! Ingresses.

use std::net::IpAddr;

use listwatch_wire::names::subdomain_errors;

use super::checks;
use crate::field::Errors;
use crate::names;
use crate::rules::{At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] = checks![
    ingress_class_is_named_once,
    ingress_leads_somewhere,
    host_is_a_name,
    path_fits_its_type,
    backend_is_one_thing,
];

/// kube-apiserver reports the annotation without its metadata.
fn ingress_class_is_named_once(at: &At<'_>, errors: &mut Errors) {
    const CLASS: &str = "kubernetes.io/ingress.class";
    let (annotations, spec) = (at.value.at("metadata").at("annotations"), at.value.at("spec"));
    let both = annotations.has(CLASS) && spec.has("ingressClassName");
    if at.old.is_none() && both && annotations.text(CLASS) != spec.text("ingressClassName") {
        let path = at.path.child("annotations");
        let detail = "must match `ingressClassName` when both are specified";
        errors.invalid(&path.child(CLASS), annotations.text(CLASS), detail);
    }
}

fn ingress_leads_somewhere(at: &At<'_>, errors: &mut Errors) {
    if at.value.count("rules") == 0 && !at.value.has("defaultBackend") {
        let detail = "either `defaultBackend` or `rules` must be specified";
        errors.invalid(at.path, at.value.clone(), detail);
    }
}

fn host_is_a_name(at: &At<'_>, errors: &mut Errors) {
    let host = at.value.as_str().unwrap_or_default();
    if host.is_empty() {
        return;
    }
    if host.parse::<IpAddr>().is_ok() {
        errors.invalid(at.path, host, "must be a DNS name, not an IP address");
    }
    match host.strip_prefix("*.") {
        Some(rest) if subdomain_errors(rest).is_empty() => {}
        _ if host.contains('*') => {
            errors.invalid(at.path, host, "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character");
        }
        _ => errors.invalid_all(at.path, host, subdomain_errors(host)),
    }
}

fn path_fits_its_type(at: &At<'_>, errors: &mut Errors) {
    let (place, kind) = (at.value.as_str().unwrap_or_default(), at.parent.text("pathType"));
    let exact = matches!(kind, "Exact" | "Prefix");
    if !exact && (kind != "ImplementationSpecific" || place.is_empty()) {
        return;
    }
    if !place.starts_with('/') {
        errors.invalid(at.path, place, "must be an absolute path");
    }
    if !exact {
        return;
    }
    for part in ["//", "/./", "/../", "%2f", "%2F"].into_iter().filter(|part| place.contains(part)) {
        errors.invalid(at.path, place, format!("must not contain '{part}'"));
    }
    for end in ["/..", "/."].into_iter().filter(|end| place.ends_with(end)) {
        errors.invalid(at.path, place, format!("cannot end with '{end}'"));
    }
}

/// A Service and one of its ports, or some other object.
fn backend_is_one_thing(at: &At<'_>, errors: &mut Errors) {
    match (at.value.has("service"), at.value.has("resource")) {
        (true, true) => errors.invalid(at.path, "", "cannot set both resource and service backends"),
        (false, false) => errors.invalid(at.path, "", "resource or service backend is required"),
        (false, true) => {}
        (true, false) => {
            let port = at.value.at("service").at("port");
            let path = at.path.child("service");
            let path = path.child("port");
            match (port.text("name"), port.int("number").unwrap_or(0)) {
                ("", 0) => errors.required(at.path, "port name or number is required"),
                (name, 0) => errors.invalid_all(&path.child("name"), name, names::port_name(name)),
                ("", number) if !(1..=65_535).contains(&number) => {
                    errors.invalid(&path.child("number"), number, "must be between 1 and 65535, inclusive");
                }
                ("", _) => {}
                _ => errors.invalid(at.path, "", "cannot set both port name & port number"),
            }
        }
    }
}
