//! Warnings about values at certain places of an object: addresses in unusual spellings, and deprecated labels of nodes.
//!
//! Each kind names the places that kube-apiserver looks at. Addresses that are not valid are refused before and are not mentioned
//! here. Warnings about Pods and templates begin in `pod`, those about whole objects are in `objects`.

use std::net::{IpAddr, Ipv6Addr};

use listwatch_wire::json::Value;

use super::pod::deprecated_label;
use crate::field::Path;
use crate::names;
use crate::tree::Tree;

/// Warnings about a NetworkPolicy: its ranges.
pub(crate) fn network_policy(new: &Value, _old: Option<&Value>, found: &mut Vec<String>) {
    let spec = Path::root("spec");
    for (list, peers) in [("ingress", "from"), ("egress", "to")] {
        for place in ["cidr", "except[]"] {
            ranges(new.at("spec"), &format!("{list}[].{peers}[].ipBlock.{place}"), &spec, found);
        }
    }
}

/// Warnings about an EndpointSlice: names of hosts, and addresses. What Kubernetes' own controllers write is not looked at.
pub(crate) fn endpoint_slice(new: &Value, _old: Option<&Value>, found: &mut Vec<String>) {
    const CONTROLLERS: [&str; 2] =
        ["endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"];
    if new.text("addressType") == "FQDN" {
        found.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
    }
    let author = new.at("metadata").at("labels").text("endpointslice.kubernetes.io/managed-by");
    if !CONTROLLERS.contains(&author) {
        addresses(new, "endpoints[].addresses[]", &Path::object(), found);
    }
}

/// Warnings about Endpoints: their addresses.
pub(crate) fn endpoints(new: &Value, _old: Option<&Value>, found: &mut Vec<String>) {
    for list in ["subsets[].addresses[].ip", "subsets[].notReadyAddresses[].ip"] {
        addresses(new, list, &Path::object(), found);
    }
}

/// Warnings about a RuntimeClass: deprecated labels in its node selector.
pub(crate) fn runtime_class(new: &Value, _old: Option<&Value>, found: &mut Vec<String>) {
    let labels = new.at("scheduling").entries("nodeSelector").filter_map(|(key, _)| deprecated_label(key));
    found.extend(labels.map(|text| format!("scheduling.nodeSelector: {text}")));
}

/// Warnings about a StorageClass: deprecated labels in its topologies.
pub(crate) fn storage_class(new: &Value, _old: Option<&Value>, found: &mut Vec<String>) {
    let place = "allowedTopologies[].matchLabelExpressions[].key";
    each(new, place, &Path::object(), &mut |key, path| {
        found.extend(deprecated_label(key).map(|text| format!("{path}: {text}")));
    });
}

/// Warnings about a CSIStorageCapacity: deprecated labels in its topology.
pub(crate) fn storage_capacity(new: &Value, _old: Option<&Value>, found: &mut Vec<String>) {
    let (topology, path) = (new.at("nodeTopology"), Path::root("nodeTopology"));
    each(topology, "matchExpressions[].key", &path, &mut |key, path| {
        found.extend(deprecated_label(key).map(|text| format!("{path}: {key} is {text}")));
    });
    let labels = path.child("matchLabels");
    for (key, _) in topology.entries("matchLabels") {
        found.extend(deprecated_label(key).map(|text| format!("{}: {text}", labels.child(key))));
    }
}

/// Warns of the addresses at a place.
pub(super) fn addresses(object: &Value, place: &str, above: &Path<'_>, found: &mut Vec<String>) {
    each(object, place, above, &mut |text, path| found.extend(address(text, path)));
}

/// Warns of the ranges at a place.
pub(super) fn ranges(object: &Value, place: &str, above: &Path<'_>, found: &mut Vec<String>) {
    each(object, place, above, &mut |text, path| found.extend(range(text, path)));
}

/// Warns of an IPv6 address that is not in its canonical form (RFC 5952): programs that compare texts take it for
/// another address.
fn address(text: &str, path: &Path<'_>) -> Option<String> {
    let canonical = text.parse::<Ipv6Addr>().ok()?.to_string();
    (canonical != text).then(|| {
        format!("{path}: IPv6 address {text:?} should be in RFC 5952 canonical format ({canonical:?})")
    })
}

/// A range has one spelling, and no bits beyond the length of its prefix.
fn range(text: &str, path: &Path<'_>) -> Option<String> {
    let (given, _) = text.split_once('/')?;
    let given: IpAddr = given.parse().ok()?;
    let canonical = names::canonical_cidr(text);
    if canonical == text {
        return None;
    }
    let starts = canonical.split_once('/').and_then(|(start, _)| start.parse::<IpAddr>().ok());
    if starts != Some(given) {
        let whole = if given.is_ipv4() { 32 } else { 128 };
        return Some(format!(
            "{path}: CIDR value {text:?} is ambiguous in this context (should be {canonical:?} or \"{given}/{whole}\"?)"
        ));
    }
    Some(format!("{path}: IPv6 CIDR value {text:?} should be in RFC 5952 canonical format ({canonical:?})"))
}

/// Calls back for each text at a place below an object, with its path. `list[]` stands for the elements of a list.
fn each(object: &Value, place: &str, above: &Path<'_>, visit: &mut dyn FnMut(&str, &Path<'_>)) {
    let (step, rest) = place.split_once('.').unwrap_or((place, ""));
    let mut go_on = |value: &Value, path: &Path<'_>| match value.as_str() {
        Some(text) if rest.is_empty() => visit(text, path),
        _ if rest.is_empty() => {}
        _ => each(value, rest, path, visit),
    };
    match step.strip_suffix("[]") {
        None => go_on(object.at(step), &above.child(step)),
        Some(list) => {
            let path = above.child(list);
            for (index, value) in object.list(list).iter().enumerate() {
                go_on(value, &path.index(index));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    fn warned(check: fn(&Value, Option<&Value>, &mut Vec<String>), object: &Value) -> Vec<String> {
        let mut found = Vec::new();
        check(object, None, &mut found);
        found
    }

    #[test]
    fn spellings_of_addresses_are_mentioned() {
        let block = |cidr: &str| json!({"spec": {"ingress": [{"from": [{"ipBlock": {"cidr": cidr}}]}]}});
        assert_eq!(
            warned(network_policy, &block("2001:DB8::/64")),
            [
                "spec.ingress[0].from[0].ipBlock.cidr: IPv6 CIDR value \"2001:DB8::/64\" should be in RFC 5952 canonical format (\"2001:db8::/64\")"
            ]
        );
        assert_eq!(
            warned(network_policy, &block("10.1.2.3/8")),
            [
                "spec.ingress[0].from[0].ipBlock.cidr: CIDR value \"10.1.2.3/8\" is ambiguous in this context (should be \"10.0.0.0/8\" or \"10.1.2.3/32\"?)"
            ]
        );
        assert_eq!(warned(network_policy, &block("10.0.0.0/8")), [""; 0]);
        let slice = json!({"addressType": "FQDN", "endpoints": [{"addresses": ["example.com"]}]});
        assert_eq!(warned(endpoint_slice, &slice), ["spec.addressType: FQDN endpoints are deprecated"]);
    }

    #[test]
    fn old_labels_of_nodes_are_mentioned() {
        let class =
            json!({"allowedTopologies": [{"matchLabelExpressions": [{"key": "beta.kubernetes.io/os"}]}]});
        assert_eq!(
            warned(storage_class, &class),
            [
                "allowedTopologies[0].matchLabelExpressions[0].key: deprecated since v1.14; use \"kubernetes.io/os\" instead"
            ]
        );
        let runtime = json!({"scheduling": {"nodeSelector": {"beta.kubernetes.io/arch": "arm"}}});
        assert_eq!(
            warned(runtime_class, &runtime),
            ["scheduling.nodeSelector: deprecated since v1.14; use \"kubernetes.io/arch\" instead"]
        );
    }
}
