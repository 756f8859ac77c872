//! Validation of a Service's cluster IPs, IP families and their policy.
//!
//! [`before_allocation`] runs before every other rule, and its errors are the whole response, because kube-apiserver
//! allocates addresses before it validates. There is one range of addresses, IPv4, so dual-stack policies and IPv6 are
//! refused, except for a headless Service without a selector, whose endpoints are written by its users. Allocation itself
//! is in the server.

use std::net::IpAddr;

use listwatch_wire::json::Value;

use crate::field::{Errors, Path};
use crate::rules;
use crate::tree::Tree;

/// One per family.
const MAX_ADDRESSES: usize = 2;

/// True if the Service has no cluster IP (`None`).
fn is_headless(spec: &Value) -> bool {
    spec.list("clusterIPs") == [Value::from("None")]
}

/// Checks the fields that decide about allocation. kube-apiserver does so first, and stops there if one is invalid:
/// first each field for itself, then what this cluster has.
pub(crate) fn before_allocation(service: &Value, errors: &mut Errors) {
    let (spec, path) = (service.at("spec"), Path::root("spec"));
    if spec.text("type") == "ExternalName" {
        return;
    }
    let path = path.child("clusterIPs");
    rules::run_variant("core.v1.Service@allocation", service, errors);
    cluster_ips(spec, &path, errors);
    if errors.is_empty() {
        rules::run_variant("core.v1.Service@policy", service, errors);
        second_family(spec, &path, errors);
    }
    // Only a headless Service without a selector may have families that the cluster does not have.
    if errors.is_empty() && !(is_headless(spec) && spec.count("selector") == 0) {
        rules::run_variant("core.v1.Service@families", service, errors);
    }
}

/// The addresses themselves, and their number.
fn cluster_ips(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let given = spec.list("clusterIPs");
    let valid = addresses(given, path, errors);
    if given.len() > MAX_ADDRESSES {
        errors.invalid(path, given.to_vec(), "may only hold up to 2 values");
    }
    if valid {
        one_address_per_family(spec, path, errors);
    }
}

/// Addresses that cannot be parsed are reported before and not counted here.
fn one_address_per_family(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let given = spec.list("clusterIPs");
    let parsed: Vec<IpAddr> = given.iter().filter_map(|ip| ip.as_str()?.parse().ok()).collect();
    if let [first, second, ..] = parsed.as_slice()
        && first.is_ipv4() == second.is_ipv4()
    {
        let all = spec.at("clusterIPs").clone();
        errors.invalid(path, all, "may specify no more than one IP for each IP family");
    }
    for (index, (ip, family)) in parsed.iter().zip(spec.list("ipFamilies")).enumerate() {
        let expected = if ip.is_ipv4() { "IPv4" } else { "IPv6" };
        if family != expected && (family == "IPv4" || family == "IPv6") {
            let family = family.as_str().unwrap_or_default();
            let detail = format!("expected an {family} value as indicated by `ipFamilies[{index}]`");
            errors.invalid(&path.index(index), ip.to_string(), detail);
        }
    }
}

/// True if all of them can be addresses.
fn addresses(given: &[Value], path: &Path<'_>, errors: &mut Errors) -> bool {
    let mut valid = true;
    for (index, address) in given.iter().filter_map(Value::as_str).enumerate() {
        if index == 0 && address == "None" {
            if given.len() > 1 {
                errors.invalid(path, given.to_vec(), "'None' must be the first and only value");
                valid = false;
            }
        } else {
            let problems = rules::ip(address);
            valid &= problems.is_empty();
            errors.invalid_all(&path.index(index), address, problems);
        }
    }
    valid
}

/// There is one range of addresses, of one family: a second address needs its family.
fn second_family(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let named = spec.count("ipFamilies");
    for (index, address) in spec.list("clusterIPs").iter().filter_map(Value::as_str).enumerate() {
        if index >= named && address.parse::<IpAddr>().is_ok_and(|address| address.is_ipv6()) {
            let all = spec.at("clusterIPs").clone();
            errors.invalid(&path.index(index), all, "IPv6 is not configured on this cluster");
        }
    }
}
