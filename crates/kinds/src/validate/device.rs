//! Validation of ResourceClaims and ResourceClaimTemplates (dynamic resource allocation).
//!
//! The checks here follow references inside a claim: constraints and configuration name requests, or one of their
//! alternatives as `request/subrequest`, and an attribute is named with the domain of its driver. The devices that
//! exist are in ResourceSlices, and whether a claim can be satisfied is the scheduler's decision; neither is looked at.
//! The use of a claim by a container is checked in `resources`.

use std::collections::{HashMap, HashSet};

use listwatch_wire::json::Value;
use listwatch_wire::names::{label_errors, subdomain_errors};

use super::each;
use crate::field::{Errors, Path};
use crate::rules::{self, At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] = checks![
    claim_names_its_requests,
    attribute_is_fully_named,
    allocation_is_of_the_claim,
    shared_capacities_are_of_shared_devices,
];

/// Characters of the domain before the slash: a driver's name.
const MAX_DOMAIN: usize = 63;
/// Characters of the name behind the slash.
const MAX_ID: usize = 32;

/// The requests of a claim by name, each with its alternatives.
struct KnownRequests<'a>(HashMap<&'a str, HashSet<&'a str>>);

impl<'a> KnownRequests<'a> {
    /// Collects the names of the requests of a claim, and of the alternatives of each.
    fn of(devices: &'a Value) -> Self {
        let named = devices.list("requests").iter().map(|request| {
            let alternatives = request.list("firstAvailable").iter().map(|option| option.text("name"));
            (request.text("name"), alternatives.collect())
        });
        Self(named.collect())
    }

    /// True for the name of a request, or of an alternative as `request/alternative`.
    fn has(&self, name: &str) -> bool {
        match name.split_once('/') {
            None => self.0.contains_key(name),
            Some((request, option)) => self.0.get(request).is_some_and(|options| options.contains(option)),
        }
    }
}

/// Constraints and configuration are about requests of the claim, or about their alternatives.
fn claim_names_its_requests(at: &At<'_>, errors: &mut Errors) {
    let known = KnownRequests::of(at.value);
    for list in ["constraints", "config"] {
        each(at.value, list, at.path, |item, path| names_requests(item, path, &known, errors));
    }
}

/// Devices are allocated for requests of the claim; a status may only be about allocated devices.
fn allocation_is_of_the_claim(at: &At<'_>, errors: &mut Errors) {
    let allocated = at.value.at("allocation").at("devices");
    fn identity(device: &Value) -> [&str; 4] {
        ["driver", "pool", "device", "shareID"].map(|key| device.text(key))
    }
    let given: HashSet<[&str; 4]> = allocated.list("results").iter().map(identity).collect();
    each(at.value, "devices", at.path, |device, path| {
        if !given.contains(&identity(device)) {
            errors.invalid(path, device.clone(), "must be an allocated device in the claim");
        }
    });
    if at.old.is_some_and(|old| old.has("allocation")) {
        return;
    }
    let known = KnownRequests::of(at.top.at("spec").at("devices"));
    let path = at.path.child("allocation.devices");
    each(allocated, "results", &path, |result, path| {
        names_request(result.text("request"), &path.child("request"), &known, errors);
    });
    each(allocated, "config", &path, |item, path| names_requests(item, path, &known, errors));
}

/// Only a device that several claims can have may have a policy for requests of its capacity.
fn shared_capacities_are_of_shared_devices(at: &At<'_>, errors: &mut Errors) {
    if at.value.flag("allowMultipleAllocations") {
        return;
    }
    let path = at.path.child("capacity");
    for (name, _) in at.value.entries("capacity").filter(|(_, capacity)| capacity.has("requestPolicy")) {
        let path = path.key(name);
        errors.forbidden(&path.child("requestPolicy"), "allowMultipleAllocations must be true");
    }
}

/// Checks the requests that a constraint or configuration names.
///
/// Unknown names are errors and not warnings: a constraint that matches nothing would silently not constrain.
fn names_requests(item: &Value, path: &Path<'_>, known: &KnownRequests<'_>, errors: &mut Errors) {
    each(item, "requests", path, |name, path| {
        names_request(name.as_str().unwrap_or_default(), path, known, errors);
    });
}

/// Each part of the name has its own errors beside the one that the whole is not known.
fn names_request(name: &str, path: &Path<'_>, known: &KnownRequests<'_>, errors: &mut Errors) {
    if name.matches('/').count() < 2 {
        for part in name.split('/') {
            errors.invalid_all(path, part, label_errors(part));
        }
    }
    if !known.has(name) {
        let detail = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
        errors.invalid(path, name, detail);
    }
}

/// The name of an attribute with its domain.
fn attribute_is_fully_named(at: &At<'_>, errors: &mut Errors) {
    let Some(name) = at.value.as_str() else { return };
    let Some((domain, id)) = name.split_once('/') else {
        identifier(name, at.path, errors);
        let detail = "a fully qualified name must be a domain and a name separated by a slash";
        errors.invalid(at.path, name, detail);
        return;
    };
    if domain.is_empty() {
        errors.required(at.path, "the domain must not be empty");
    } else if domain.len() > MAX_DOMAIN {
        errors.too_long(at.path, MAX_DOMAIN);
    } else {
        errors.invalid_all(at.path, domain, subdomain_errors(domain));
    }
    if id.is_empty() {
        errors.required(at.path, "the name must not be empty");
    } else {
        identifier(id, at.path, errors);
    }
}

/// Both halves of a fully qualified name may fail, each with its own error.
fn identifier(id: &str, path: &Path<'_>, errors: &mut Errors) {
    if id.len() > MAX_ID {
        errors.too_long(path, MAX_ID);
    }
    errors.invalid_all(path, id, rules::form_errors("c-identifier", id));
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;
    use crate::{by_kind, validate};

    fn claim(status: Value) -> Value {
        json!({
            "metadata": {"name": "c", "namespace": "n", "resourceVersion": "1"},
            "spec": {"devices": {"requests": [{"name": "q", "exactly": {"deviceClassName": "c"}}]}},
            "status": status,
        })
    }

    fn allocated(request: &str) -> Value {
        json!({"devices": {"results": [{"request": request, "driver": "a.b", "pool": "p", "device": "d"}]}})
    }

    fn fields(status: Value) -> Vec<String> {
        let kind = by_kind("resource.k8s.io", "v1", "ResourceClaim").unwrap();
        let errors = validate::status_update(kind, &claim(status), &claim(json!({})));
        errors.into_iter().map(|error| error.field).collect()
    }

    /// Any device could be reported for a claim, and any request named.
    #[test]
    fn devices_of_a_claim_are_those_allocated_for_its_requests() {
        let device = |name: &str| json!([{"driver": "a.b", "pool": "p", "device": name}]);
        assert_eq!(fields(json!({"allocation": allocated("q"), "devices": device("d")})), [""; 0]);
        let other = fields(json!({"allocation": allocated("q"), "devices": device("e")}));
        assert_eq!(other, ["status.devices[0]"]);
        let unknown = fields(json!({"allocation": allocated("r")}));
        assert_eq!(unknown, ["status.allocation.devices.results[0].request"]);
    }

    #[test]
    fn settings_are_objects_and_resources_have_a_domain() {
        let kind = by_kind("resource.k8s.io", "v1", "DeviceClass").unwrap();
        let fields = |parameters: Value, resource: &str| -> Vec<String> {
            let class = json!({"metadata": {"name": "c"}, "spec": {"extendedResourceName": resource,
                "config": [{"opaque": {"driver": "a.b", "parameters": parameters}}]}});
            validate::create(kind, &class).into_iter().map(|error| error.field).collect()
        };
        assert_eq!(fields(json!({}), "a.b/gpu"), [""; 0]);
        assert_eq!(fields(json!("x"), "a.b/gpu"), ["spec.config[0].opaque.parameters"]);
        assert_eq!(fields(json!({"x": 1}), "gpu"), ["spec.extendedResourceName"]);
    }
}
