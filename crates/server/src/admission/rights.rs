//! Privilege-escalation check: a user may only grant permissions they already hold, unless they have `escalate` or
//! `bind`.
//!
//! kube-apiserver checks this in the storage of roles and bindings, between mutating admission and validation; here
//! it is the last of the mutating plugins, which is the same point of a write, and it cannot be disabled. The cache
//! is waited for first: permissions withdrawn or granted a moment ago count. The rules are [`crate::auth::grant`].

use std::sync::Arc;

use async_trait::async_trait;
use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::Value;

use super::{Attributes, Operation, Plugin, RequestOptions};
use crate::auth::Authorizer;
use crate::auth::grant::{self, Grant};
use crate::registry::Resource;

/// The check of roles and bindings.
#[derive(Debug)]
pub(super) struct EscalationCheck;

#[async_trait]
impl Plugin for EscalationCheck {
    fn is_interested(&self, resource: &Resource) -> bool {
        &*resource.group == "rbac.authorization.k8s.io"
    }

    fn handles(&self, operation: Operation, subresource: &str) -> bool {
        matches!(operation, Operation::Create | Operation::Update) && subresource.is_empty()
    }

    async fn admit(&self, request: &Attributes<'_>, object: &mut Value) -> Result<(), Status> {
        // The cache is brought up to the store, so that the decision is based on the latest roles.
        request.api.wait_for(None).await?;
        // The path of a POST has no name, even if the object has one.
        let posted = matches!(request.options, RequestOptions::Create(_));
        let grant = Grant {
            resource: &request.resource.plural,
            namespace: request.namespace,
            name: object.at("metadata").text("name"),
            asked: if posted { "" } else { request.name },
            object,
            old: request.old,
        };
        let check = |authorizer: &Arc<dyn Authorizer>| grant::check(&**authorizer, request.user, grant);
        request.api.authorizer.decide(check).await
    }
}
