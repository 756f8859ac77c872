//! NamespaceLifecycle: creations need a namespace that exists and is not terminating; `default`, `kube-system` and
//! `kube-public` cannot be deleted.
//!
//! The check of a terminating namespace is what lets the namespace controller empty it and finish: without it, new
//! objects could appear behind the controller's back. The error has the cause `NamespaceTerminating`, by which
//! controllers recognise that a retry is pointless. The state of the namespace is [`super::namespaces`].

use async_trait::async_trait;
use listwatch_wire::Status;
use listwatch_wire::json::Value;

use super::namespaces::is_terminating;
use super::{Attributes, Operation, Plugin};
use crate::registry::Resource;

/// Namespaces that cannot be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// Mutating although it changes nothing: it comes early in the chain, so that no webhook is called for a write that
/// cannot succeed. kube-apiserver does the same.
#[derive(Debug)]
#[doc(alias = "lifecycle.Lifecycle")]
pub(super) struct NamespaceLifecycle;

/// Namespaces themselves: only their deletion is restricted.
fn is_namespace(resource: &Resource) -> bool {
    resource.group.is_empty() && &*resource.plural == "namespaces"
}

/// Access reviews may ask about namespaces that do not exist.
fn is_access_review(resource: &Resource) -> bool {
    (&*resource.group, &*resource.plural) == ("authorization.k8s.io", "localsubjectaccessreviews")
}

#[async_trait]
impl Plugin for NamespaceLifecycle {
    fn is_interested(&self, resource: &Resource) -> bool {
        (resource.namespaced && !is_access_review(resource)) || is_namespace(resource)
    }

    fn handles(&self, operation: Operation, subresource: &str) -> bool {
        // Tokens, bindings and evictions are created in a namespace like any object.
        operation == Operation::Create || (operation == Operation::Delete && subresource.is_empty())
    }

    async fn admit(&self, request: &Attributes<'_>, object: &mut Value) -> Result<(), Status> {
        match request.operation {
            Operation::Delete if is_namespace(request.resource) && IMMORTAL.contains(&request.name) => {
                Err(request.forbidden(&Value::Null, "this namespace may not be deleted"))
            }
            Operation::Create if !is_namespace(request.resource) => takes_new(request, object).await,
            _ => Ok(()),
        }
    }
}

/// Checks that the namespace takes new objects.
///
/// # Errors
///
/// 404 for a namespace that does not exist, 403 with the cause `NamespaceTerminating` for one that is being deleted.
async fn takes_new(request: &Attributes<'_>, object: &Value) -> Result<(), Status> {
    let namespace = request.namespace;
    if !is_terminating(request.api, namespace).await? {
        return Ok(());
    }
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let cause = format!("namespace {namespace} is being terminated");
    Err(request.forbidden(object, &why).with_cause("NamespaceTerminating", cause, "metadata.namespace"))
}
