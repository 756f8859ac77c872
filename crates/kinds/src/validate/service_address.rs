//! Addresses and address families of Services.

use std::collections::HashSet;
use std::net::IpAddr;

use listwatch_wire::json::Value;

use super::checks;
use super::service::is_headless;
use crate::field::{Errors, Path};
use crate::rules::{At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] = checks![cluster_addresses_are_valid, service_changes_little];

const ADDRESS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const MAX_ADDRESSES: usize = 2;

fn cluster_addresses_are_valid(at: &At<'_>, errors: &mut Errors) {
    let (spec, path) = (at.value, at.path.child("clusterIPs"));
    if spec.text("type") == "ExternalName" {
        return;
    }
    let given = spec.list("clusterIPs");
    let all = || spec.at("clusterIPs").clone();
    match (spec.text("clusterIP"), given.first()) {
        ("", Some(_)) => errors.invalid(&path, all(), "must be empty when `clusterIP` is not specified"),
        ("", None) => {}
        (_, None) => errors.required(&path, ""),
        (first, Some(other)) if other != first => {
            errors.invalid(&path, all(), "first value must match `clusterIP`");
        }
        _ => {}
    }
    families(spec, at.path, errors);
    addresses(given, &path, errors);
    if given.len() > MAX_ADDRESSES {
        errors.invalid(&path, all(), "may only hold up to 2 values");
    }
    let parsed: Vec<IpAddr> = given.iter().filter_map(|ip| ip.as_str()?.parse().ok()).collect();
    if let [first, second, ..] = parsed.as_slice()
        && parsed.len() == given.len()
        && first.is_ipv4() == second.is_ipv4()
    {
        errors.invalid(&path, all(), "may specify no more than one IP for each IP family");
    }
    for (index, (ip, family)) in parsed.iter().zip(spec.list("ipFamilies")).enumerate() {
        let expected = if ip.is_ipv4() { "IPv4" } else { "IPv6" };
        if parsed.len() == given.len() && family != expected && (family == "IPv4" || family == "IPv6") {
            let family = family.as_str().unwrap_or_default();
            let detail = format!("expected an {family} value as indicated by `ipFamilies[{index}]`");
            errors.invalid(&path.index(index), ip.to_string(), detail);
        }
    }
}

fn addresses(given: &[Value], path: &Path<'_>, errors: &mut Errors) {
    for (index, address) in given.iter().filter_map(Value::as_str).enumerate() {
        if index == 0 && address == "None" {
            if given.len() > 1 {
                errors.invalid(path, given.to_vec(), "'None' must be the first and only value");
            }
        } else if address.parse::<IpAddr>().is_err() {
            errors.invalid(&path.index(index), address, ADDRESS);
        }
    }
}

/// There is one range of addresses, of one family; only a Service without addresses may claim others.
fn families(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let at = path.child("ipFamilies");
    let mut seen = HashSet::new();
    for (index, family) in spec.list("ipFamilies").iter().filter_map(Value::as_str).enumerate() {
        errors.one_of(&at.index(index), family, &["IPv4", "IPv6"]);
        if !seen.insert(family) {
            errors.duplicate(&at.index(index), family);
        }
    }
    let policy = spec.text("ipFamilyPolicy");
    let known = &["SingleStack", "PreferDualStack", "RequireDualStack"];
    if spec.has("ipFamilyPolicy") {
        errors.one_of(&path.child("ipFamilyPolicy"), policy, known);
    }
    let open = is_headless(spec) && spec.count("selector") == 0;
    let foreign = spec.list("ipFamilies").iter().position(|family| family == "IPv6");
    if let Some(index) = foreign.filter(|_| !open) {
        errors.invalid(&at.index(index), "IPv6", "not configured on this cluster");
    }
    if policy == "RequireDualStack" && !open {
        let detail = "this cluster is not configured for dual-stack services";
        errors.invalid(&path.child("ipFamilyPolicy"), policy, detail);
    }
}

/// An address stays for life, unless the Service stops having one.
fn service_changes_little(at: &At<'_>, errors: &mut Errors) {
    let Some(old) = at.old else { return };
    let (new, path) = (at.value, at.path);
    let balanced = |spec: &Value| spec.text("type") == "LoadBalancer";
    if balanced(old) && balanced(new) && new.at("loadBalancerClass") != old.at("loadBalancerClass") {
        let class = new.at("loadBalancerClass").clone();
        errors.invalid(&path.child("loadBalancerClass"), class, "may not change once set");
    }
    let checked = |spec: &Value| balanced(spec) && spec.text("externalTrafficPolicy") == "Local";
    if checked(old) && checked(new) && new.at("healthCheckNodePort") != old.at("healthCheckNodePort") {
        errors.forbidden(&path.child("healthCheckNodePort"), "field is immutable");
    }
    if old.text("type") == "ExternalName" || new.text("type") == "ExternalName" {
        return;
    }
    let addresses = path.child("clusterIPs");
    if !old.text("clusterIP").is_empty() && new.list("clusterIPs").first() != old.list("clusterIPs").first() {
        errors.invalid(&addresses.index(0), new.at("clusterIPs").clone(), "may not change once set");
    }
}
