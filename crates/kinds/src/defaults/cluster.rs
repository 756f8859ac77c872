//! Defaults of cluster-wide kinds: RBAC, quotas, nodes, devices, flow control, admission, API extension.
//!
//! They are kube-apiserver's `SetDefaults_*` functions. Some are derived and not constants: a LimitRange inherits from
//! its own maxima, and `podCIDR` and `podCIDRs` of a Node are kept in step, the older field winning. Zero counts as
//! absent where Go's type is not a pointer.

use listwatch_wire::json::{Map, Value, json};

use super::empty;
use crate::tree::Tree;

const RBAC: &str = "rbac.authorization.k8s.io";

/// Service accounts get no group: theirs is the empty one.
pub(crate) fn role_binding(object: &mut Map) {
    if let Some(role) = object.inner_or_new("roleRef") {
        role.fill_text("apiGroup", RBAC);
    }
    for subject in object.each("subjects") {
        if matches!(subject.text("kind"), "User" | "Group") {
            subject.fill_text("apiGroup", RBAC);
        }
    }
}

/// Completes the limits on containers: `default` from `max`, and `defaultRequest` from `default` or else `min`.
pub(crate) fn limit_range(object: &mut Map) {
    let Some(spec) = object.inner("spec") else { return };
    for limit in spec.each("limits").filter(|limit| limit.text("type") == "Container") {
        inherit(limit, "default", "max");
        inherit(limit, "defaultRequest", "default");
        inherit(limit, "defaultRequest", "min");
    }
}

/// `allocatable` defaults to `capacity`, and the deprecated `podCIDR` to the first of `podCIDRs`.
pub(crate) fn node(object: &mut Map) {
    node_status(object);
    let Some(spec) = object.inner("spec") else { return };
    let (first, listed) = (spec.text("podCIDR").to_owned(), spec.list("podCIDRs").first().cloned());
    match listed {
        Some(listed) if first.is_empty() => spec.put("podCIDR", listed),
        // The older field takes precedence.
        listed if !first.is_empty() && listed != Some(Value::from(first.as_str())) => {
            spec.put("podCIDRs", json!([first]));
        }
        _ => {}
    }
}

/// `allocatable` defaults to `capacity`.
pub(crate) fn node_status(object: &mut Map) {
    if let Some(status) = object.inner("status")
        && status.has("capacity")
        && !status.has("allocatable")
    {
        let capacity = status.at("capacity").clone();
        status.put("allocatable", capacity);
    }
}

/// The taint of a rule is dated.
pub(crate) fn device_taint_rule(object: &mut Map) {
    if let Some(taint) = object.inner("spec").and_then(|spec| spec.inner("taint"))
        && !taint.has("timeAdded")
    {
        taint.put("timeAdded", crate::time::now());
    }
}

/// Taints of devices are dated.
pub(crate) fn resource_slice(object: &mut Map) {
    let Some(spec) = object.inner("spec") else { return };
    for device in spec.each("devices") {
        for taint in device.each("taints").filter(|taint| !taint.has("timeAdded")) {
            taint.put("timeAdded", crate::time::now());
        }
    }
}

/// A request of a claim is for one device by default.
pub(crate) fn resource_claim(object: &mut Map) {
    let allocation = object.inner("status").and_then(|status| status.inner("allocation"));
    if let Some(devices) = allocation.and_then(|allocation| allocation.inner("devices")) {
        devices.each("results").for_each(tolerate_equal);
    }
    let Some(devices) = object.inner("spec").and_then(|spec| spec.inner("devices")) else { return };
    for request in devices.each("requests") {
        if let Some(exactly) = request.inner("exactly") {
            device_count(exactly);
        }
        for option in request.each("firstAvailable") {
            device_count(option);
        }
    }
}

/// Zero is not a count: a request for no device would be satisfied by any node.
fn device_count(request: &mut Map) {
    request.fill_text("allocationMode", "ExactCount");
    if request.text("allocationMode") == "ExactCount" && request.int("count").unwrap_or(0) == 0 {
        request.put("count", 1);
    }
    tolerate_equal(request);
}

/// The operator of a toleration is `Equal` by default.
fn tolerate_equal(holder: &mut Map) {
    for toleration in holder.each("tolerations") {
        toleration.fill_text("operator", "Equal");
    }
}

/// Names that the target already has stay as they are.
fn inherit(limit: &mut Map, to: &str, from: &str) {
    let Some(source) = limit.at(from).as_object().cloned() else { return };
    if let Some(target) = limit.inner_or_new(to) {
        for (name, amount) in source {
            target.fill(&name, amount);
        }
    }
}

/// Precedence 1000: after the bootstrap schemas of the system, before those for all users.
pub(crate) fn flow_schema(object: &mut Map) {
    if let Some(spec) = object.inner_or_new("spec")
        && spec.int("matchingPrecedence").unwrap_or(0) == 0
    {
        spec.put("matchingPrecedence", 1000);
    }
}

/// Thirty shares are kube-apiserver's default. Zero shares must be explicit.
pub(crate) fn priority_level(object: &mut Map) {
    let Some(spec) = object.inner_or_new("spec") else { return };
    if let Some(exempt) = spec.inner("exempt") {
        exempt.fill("nominalConcurrencyShares", 0);
        exempt.fill("lendablePercent", 0);
    }
    let Some(limited) = spec.inner("limited") else { return };
    limited.fill("nominalConcurrencyShares", 30);
    limited.fill("lendablePercent", 0);
    let Some(queuing) = limited.inner("limitResponse").and_then(|response| response.inner("queuing")) else {
        return;
    };
    for (key, value) in [("queues", 64), ("handSize", 8), ("queueLengthLimit", 50)] {
        if queuing.int(key).unwrap_or(0) == 0 {
            queuing.put(key, value);
        }
    }
}

/// Defaults of webhooks that change objects.
pub(crate) fn mutating_webhooks(object: &mut Map) {
    for hook in object.each("webhooks") {
        webhook(hook, true);
    }
}

/// Defaults of validating webhooks.
pub(crate) fn validating_webhooks(object: &mut Map) {
    for hook in object.each("webhooks") {
        webhook(hook, false);
    }
}

/// Defaults of a policy of either kind.
pub(crate) fn admission_policy(object: &mut Map) {
    let Some(spec) = object.inner_or_new("spec") else { return };
    spec.fill("failurePolicy", "Fail");
    if let Some(constraints) = spec.inner("matchConstraints") {
        match_resources(constraints);
    }
}

/// Defaults of a binding of a policy of either kind.
pub(crate) fn admission_policy_binding(object: &mut Map) {
    if let Some(resources) = object.inner("spec").and_then(|spec| spec.inner("matchResources")) {
        match_resources(resources);
    }
}

/// A priority class lets its Pods take the place of others.
pub(crate) fn priority_class(object: &mut Map) {
    object.fill("preemptionPolicy", "PreemptLowerPriority");
}

/// Defaults of the claim that a template makes.
pub(crate) fn resource_claim_template(object: &mut Map) {
    if let Some(spec) = object.inner("spec") {
        resource_claim(spec);
    }
}

/// Defaults of `matchResources` of an admission policy: everything matches that is not excluded.
fn match_resources(resources: &mut Map) {
    resources.fill("matchPolicy", "Equivalent");
    resources.fill("namespaceSelector", empty());
    resources.fill("objectSelector", empty());
    for key in ["resourceRules", "excludeResourceRules"] {
        for rule in resources.each(key) {
            rule.fill("scope", "*");
        }
    }
}

/// Validating webhooks have no reinvocation: they change nothing that another could look at again.
fn webhook(hook: &mut Map, mutating: bool) {
    hook.fill("failurePolicy", "Fail");
    hook.fill("matchPolicy", "Equivalent");
    hook.fill("namespaceSelector", empty());
    hook.fill("objectSelector", empty());
    hook.fill("timeoutSeconds", 10);
    if mutating {
        hook.fill("reinvocationPolicy", "Never");
    }
    for rule in hook.each("rules") {
        rule.fill("scope", "*");
    }
    if let Some(service) = hook.inner("clientConfig").and_then(|config| config.inner("service")) {
        service.fill("port", 443);
    }
}

/// A definition that lists no stored version has its storage version.
pub(crate) fn stored_version(object: &mut Map) {
    let Some(status) = object.get("status").filter(|status| status.list("storedVersions").is_empty()) else {
        return;
    };
    let versions = object.get("spec").map(|spec| spec.list("versions")).unwrap_or_default();
    let Some(stored) = versions.iter().find(|version| version.flag("storage")) else { return };
    let (mut status, name) = (status.clone(), stored.at("name").clone());
    if let Some(fields) = status.as_object_mut() {
        fields.put("storedVersions", vec![name]);
        object.put("status", status);
    }
}

/// Names that follow from the kind. The plural is not one of them, since it is part of the object's name.
pub(crate) fn definition(object: &mut Map) {
    let Some(spec) = object.inner_or_new("spec") else { return };
    if let Some(names) = spec.inner("names") {
        let kind = names.text("kind").to_owned();
        names.fill_text("singular", &kind.to_lowercase());
        if !kind.is_empty() {
            names.fill_text("listKind", &format!("{kind}List"));
        }
    }
    spec.fill("conversion", json!({"strategy": "None"}));
    let service = spec
        .inner("conversion")
        .and_then(|conversion| conversion.inner("webhook"))
        .and_then(|hook| hook.inner("clientConfig"))
        .and_then(|config| config.inner("service"));
    if let Some(service) = service {
        service.fill("port", 443);
    }
}

pub(crate) fn api_service(object: &mut Map) {
    if let Some(service) = object.inner("spec").and_then(|spec| spec.inner("service")) {
        service.fill("port", 443);
    }
}
