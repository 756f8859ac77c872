//! Admission: the plugins that change or reject a write before it is stored.
//!
//! A [`Plugin`] may change the object ([`Plugin::admit`], before the strategy prepares and validates it) and may reject it
//! ([`Plugin::validate`], after that). The [`Chain`] calls the enabled plugins in kube-apiserver's order. The write verbs
//! call the chain; nothing here writes objects itself.
//!
//! Each plugin is a file named after it. To add one: write the file, add a row to the table in [`chain`].

mod attributes;
mod certificates;
mod chain;
mod default_toleration_seconds;
mod limit_ranger;
#[allow(dead_code, reason = "policies match requests as webhooks do")]
mod matching;
mod namespace_lifecycle;
pub(crate) mod namespaces;
pub(crate) mod pod_resources;
mod pod_security;
mod priority;
mod record;
mod reinvocation;
pub(crate) mod resource_quota;
pub(crate) mod rights;
mod runtime_class;
pub(crate) mod webhook;

use std::fmt::Debug;

use async_trait::async_trait;
use listwatch_wire::Status;
use listwatch_wire::json::Value;

use crate::api::Api;
use crate::registry::Resource;

pub(crate) use attributes::{Attributes, Operation, RequestOptions};
pub use chain::{AdmissionOptions, UnknownPlugin};
pub(crate) use chain::{Chain, Interested};
pub(crate) use record::Record;
pub use webhook::client::WebhookLimits;

/// One admission plugin.
#[async_trait]
pub(crate) trait Plugin: Debug + Send + Sync {
    /// Returns true if the plugin may have something to do for objects of this resource. Asked once per resource.
    fn is_interested(&self, resource: &Resource) -> bool;

    /// Returns true if the plugin handles the operation on this subresource; empty for the resource itself.
    fn handles(&self, operation: Operation, subresource: &str) -> bool;

    /// Returns true if there is nothing configured that the plugin could act on. Asked for every write: must be cheap.
    fn is_idle(&self, _api: &Api) -> bool {
        false
    }

    /// Changes the object, or rejects the request. A deletion and a connection have no object to change: `object` is null.
    async fn admit(&self, _request: &Attributes<'_>, _object: &mut Value) -> Result<(), Status> {
        Ok(())
    }

    /// Rejects the request or lets it pass. `object` is null for a deletion.
    async fn validate(&self, _request: &Attributes<'_>, _object: &Value) -> Result<(), Status> {
        Ok(())
    }
}

/// Returns true if there are no objects of a resource.
fn is_empty(api: &Api, (group, version, plural): (&str, &str, &str)) -> bool {
    let resource = api.registry.find(group, version, plural);
    resource.is_none_or(|resource| resource.collection.snapshot().is_empty())
}

/// Joins errors as kube-apiserver's aggregates do: each once, in brackets if there are several.
fn aggregate(errors: Vec<String>) -> String {
    let mut unique: Vec<String> = Vec::new();
    for error in errors {
        if !unique.contains(&error) {
            unique.push(error);
        }
    }
    match &unique[..] {
        [only] => only.clone(),
        _ => format!("[{}]", unique.join(", ")),
    }
}

/// Returns true for resources that plugins read, whose changes should take effect at once.
pub(crate) fn is_configuration(resource: &Resource) -> bool {
    match &*resource.group {
        "" => matches!(&*resource.plural, "limitranges" | "resourcequotas" | "namespaces"),
        "admissionregistration.k8s.io" => true,
        "scheduling.k8s.io" | "node.k8s.io" => true,
        "storage.k8s.io" => &*resource.plural == "storageclasses",
        "networking.k8s.io" => &*resource.plural == "ingressclasses",
        _ => false,
    }
}
