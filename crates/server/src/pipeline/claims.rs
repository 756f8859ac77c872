//! Permissions that writes of ResourceClaims need besides those of their verb (dynamic resource allocation).
//!
//! - Admin access to devices is allowed only in namespaces with a label, so that a user who may create claims cannot
//!   obtain it elsewhere.
//! - In the status, allocations are the scheduler's (`resourceclaims/binding`) and the devices are those of each driver
//!   (`resourceclaims/driver`, by the name of the driver, with a verb for the same node and one for any node).
//!
//! A missing permission is a field error and is reported with the others, as in kube-apiserver. Validation without
//! permissions is the strategy's (`registry/strategy.rs`).

use std::collections::BTreeSet;
use std::sync::Arc;

use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::Value;
use listwatch_wire::names::subdomain_errors;
use listwatch_wire::status::FieldError;

use crate::api::stored::{cached, fresh};
use crate::api::{Api, RequestOptions};
use crate::auth::{Authorizer, AuthorizerAttributes, NODE_NAME, User};
use crate::pipeline::change::ObjectChange;
use crate::pipeline::target::Target;
use crate::registry::Resource;
use crate::registry::view::ObjectView;

/// The label of namespaces whose claims may ask for admin access.
const ADMIN_ACCESS: &str = "resource.kubernetes.io/admin-access";

/// Returns the errors of a new claim or template; none for other kinds.
///
/// # Errors
/// 5xx if the namespace cannot be read.
pub(crate) async fn errors_of_new(
    api: &Api,
    resource: &Resource,
    namespace: Option<&str>,
    new: &Value,
) -> Result<Vec<FieldError>, Status> {
    let spec = match (&*resource.group, &*resource.kind) {
        ("resource.k8s.io", "ResourceClaim") => new.at("spec"),
        ("resource.k8s.io", "ResourceClaimTemplate") => new.at("spec").at("spec"),
        _ => return Ok(Vec::new()),
    };
    let requests = spec.at("devices").list("requests");
    let asks = |request: &Value| request.at("exactly").at("adminAccess") == &Value::Bool(true);
    match requests.iter().position(asks) {
        Some(index) => {
            admin_access(api, namespace, format!("spec.devices.requests[{index}].adminAccess")).await
        }
        None => Ok(Vec::new()),
    }
}

/// Returns the errors of a changed status of a claim; none for other kinds and views.
///
/// # Errors
/// 5xx if the namespace cannot be read.
pub(crate) async fn errors_of_update(
    change: &ObjectChange<'_>,
    target: &Target<'_>,
    new: &Value,
    old: &Value,
) -> Result<Vec<FieldError>, Status> {
    let resource = target.resource;
    if change.view != ObjectView::Status
        || (&*resource.group, &*resource.kind) != ("resource.k8s.io", "ResourceClaim")
    {
        return Ok(Vec::new());
    }
    let (new, old) = (new.at("status"), old.at("status"));
    let mut errors = match granted(new) {
        Some(index) if granted(old).is_none() => {
            let path = format!("status.allocation.devices.results[{index}].adminAccess");
            admin_access(change.api, target.namespace, path).await?
        }
        _ => Vec::new(),
    };
    let refused = |authorizer: &Arc<dyn Authorizer>| {
        let rights = ClaimRights {
            authorizer: &**authorizer,
            user: &change.request.user,
            verb: if matches!(change.options, RequestOptions::Patch(_)) { "patch" } else { "update" },
            version: &resource.version,
            namespace: target.namespace.unwrap_or_default(),
        };
        let mut errors: Vec<FieldError> = rights.binding(new, old).into_iter().collect();
        // The devices of a claim that is not allocated are dropped.
        if new.has("allocation") {
            errors.extend(rights.devices(new, old));
        }
        errors
    };
    errors.extend(change.api.authorizer.decide(refused).await);
    Ok(errors)
}

/// The first result of an allocation that has admin access.
fn granted(status: &Value) -> Option<usize> {
    let results = status.at("allocation").at("devices").list("results");
    results.iter().position(|result| result.at("adminAccess") == &Value::Bool(true))
}

/// The error at `path` unless the namespace has the label. The store is read before an error, since the label may be
/// new.
async fn admin_access(api: &Api, namespace: Option<&str>, path: String) -> Result<Vec<FieldError>, Status> {
    let Some(namespaces) = api.registry.find("", "v1", "namespaces") else { return Ok(Vec::new()) };
    let home = Target::new(&namespaces, None, namespace.unwrap_or_default());
    let is_labelled =
        |object: &Value| object.at("metadata").at("labels").at(ADMIN_ACCESS).as_str() == Some("true");
    let known = cached(api, &home).await?.is_some_and(|stored| is_labelled(&stored.value));
    if known || fresh(api, &home).await?.is_some_and(|stored| is_labelled(&stored.value)) {
        return Ok(Vec::new());
    }
    let why = format!(
        "admin access to devices requires the `{ADMIN_ACCESS}: true` label on the containing namespace"
    );
    Ok(vec![FieldError::forbidden(path, why)])
}

/// Permissions for parts of a claim's status, checked as virtual subresources.
struct ClaimRights<'a> {
    authorizer: &'a dyn Authorizer,
    user: &'a User,
    verb: &'static str,
    version: &'a str,
    namespace: &'a str,
}

impl ClaimRights<'_> {
    /// Allocating a claim, or reserving it, is a right for the whole cluster.
    fn binding(&self, new: &Value, old: &Value) -> Option<FieldError> {
        let same = |part: &str| new.at(part) == old.at(part);
        if same("allocation") && same("reservedFor") {
            return None;
        }
        let refused = self.require(self.verb, "binding", "", "").err()?;
        let verb = self.verb;
        let why = format!(
            "changing status.allocation or status.reservedFor requires resource=\"resourceclaims/binding\", verb=\"{verb}\" permission: {}",
            refused.message
        );
        Some(FieldError::forbidden("status.allocation", why))
    }

    /// The devices of a driver are its own. A driver on the node of the claim may have less than the right for all
    /// nodes.
    fn devices(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        let local = is_on_node(self.user, allocated_node(new.at("allocation")));
        let prefixes: &[&str] =
            if local { &["associated-node", "arbitrary-node"] } else { &["arbitrary-node"] };
        let verbs: Vec<String> = prefixes.iter().map(|prefix| format!("{prefix}:{}", self.verb)).collect();
        let refused = |driver: &str| {
            let mut tried = verbs.iter().map(|verb| self.require(verb, "driver", self.namespace, driver));
            let first = tried.next()?.err()?;
            tried.all(|refused| refused.is_err()).then_some(first)
        };
        let errors = changed_drivers(new, old).into_iter().filter_map(|driver| {
            let why = format!(
                "changing status.devices requires resource=\"resourceclaims/driver\", verb=\"[{}]\" permission: {}",
                verbs.join(" "),
                refused(driver)?.message
            );
            Some(FieldError::forbidden("status.devices", why))
        });
        errors.collect()
    }

    /// Requires a permission on a claim, for the user of the request.
    fn require(&self, verb: &str, subresource: &str, namespace: &str, name: &str) -> Result<(), Status> {
        let attributes = AuthorizerAttributes {
            verb,
            group: "resource.k8s.io",
            version: self.version,
            resource: "resourceclaims",
            subresource,
            namespace,
            name,
            ..AuthorizerAttributes::default()
        };
        self.authorizer.require_decided(self.user, &attributes)
    }
}

/// The drivers that a device was added for, removed from or changed, in order.
fn changed_drivers<'a>(new: &'a Value, old: &'a Value) -> BTreeSet<&'a str> {
    let (new, old) = (new.list("devices"), old.list("devices"));
    let only = |these: &'a [Value], those: &'a [Value]| {
        these.iter().filter(move |device| !those.contains(device)).map(|device| device.text("driver"))
    };
    only(new, old).chain(only(old, new)).collect()
}

/// The node that an allocation selects by its name alone; empty for any other selection.
fn allocated_node(allocation: &Value) -> &str {
    let [term] = allocation.at("nodeSelector").list("nodeSelectorTerms") else { return "" };
    let ([field], []) = (term.list("matchFields"), term.list("matchExpressions")) else { return "" };
    match (field.text("key"), field.text("operator"), field.list("values")) {
        ("metadata.name", "In", [name]) => name.as_str().unwrap_or_default(),
        _ => "",
    }
}

/// Returns true for a service account whose token belongs to a Pod on this node.
fn is_on_node(user: &User, node: &str) -> bool {
    let told = user.extra.get(NODE_NAME).map(Vec::as_slice).unwrap_or_default();
    !node.is_empty()
        && user.name.starts_with("system:serviceaccount:")
        && told == [node]
        && subdomain_errors(node).is_empty()
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    #[test]
    fn drivers_of_changed_devices_are_found_once() {
        let device =
            |driver: &str, data: u32| json!({"driver": driver, "pool": "p", "device": "d", "data": data});
        let old = json!({"devices": [device("a", 1), device("b", 1), device("c", 1)]});
        let new = json!({"devices": [device("b", 2), device("c", 1), device("d", 1), device("d", 2)]});
        assert_eq!(Vec::from_iter(changed_drivers(&new, &old)), ["a", "b", "d"]);
        assert!(changed_drivers(&old, &old).is_empty());
    }

    #[test]
    fn only_a_selection_by_name_alone_names_the_node() {
        let selects = |term: Value| json!({"nodeSelector": {"nodeSelectorTerms": [term]}});
        let by_name = || json!({"key": "metadata.name", "operator": "In", "values": ["n"]});
        assert_eq!(allocated_node(&selects(json!({"matchFields": [by_name()]}))), "n");
        let labels = json!([{"key": "a", "operator": "Exists"}]);
        let more = json!({"matchFields": [by_name()], "matchExpressions": labels});
        assert_eq!(allocated_node(&selects(more)), "");
        assert_eq!(allocated_node(&selects(json!({"matchFields": [by_name(), by_name()]}))), "");
        assert_eq!(allocated_node(&json!({})), "");
    }
}
