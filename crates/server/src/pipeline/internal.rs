//! Writes that the server makes on its own behalf: bootstrap objects, finalizers, conditions.
//!
//! The user is `system:apiserver`, a member of `system:masters`. Creations and deletions take the steps of a client's
//! request, admission included, so that nothing is stored that a client could not have stored; [`amend`] changes an
//! object as it is stored, without admission, for status and finalizers only. Kinds with a conversion webhook are
//! written in their stored version, so that the server depends on no webhook. The callers are the controllers in
//! `lifecycle/`.

use std::sync::Arc;

use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::Value;
use listwatch_wire::options::DeleteOptions;
use listwatch_wire::status::StatusReason;

use crate::admission::AdmissionRecord;
use crate::api::Api;
use crate::api::stored::Stored;
use crate::auth::User;
use crate::pipeline::change::is_done;
use crate::pipeline::delete::{DeletionAdmission, delete_target};
use crate::pipeline::target::Target;
use crate::pipeline::transaction::{Done, Verdict, change};
use crate::pipeline::{WriteRequest, WriteUser, create};
use crate::registry::Resource;
use crate::registry::target::OWN_USER;

/// The field manager of the server's own writes. kube-apiserver's name, since clients look for it.
pub(crate) const OWN_MANAGER: &str = "kube-apiserver";

/// The user of the server's own writes.
fn own_user() -> User {
    User {
        name: OWN_USER.to_owned(),
        groups: vec!["system:masters".to_owned(), "system:authenticated".to_owned()],
        ..User::default()
    }
}

/// Creates an object unless there is one of that name.
///
/// For bootstrap objects: what exists is left as an administrator may have changed it.
///
/// # Errors
/// As [`create::create`].
pub(crate) async fn ensure(api: &Api, resource: Arc<Resource>, object: &Value) -> Result<(), Status> {
    let namespace = object.at("metadata").text("namespace");
    let request = WriteRequest {
        namespace: Some(namespace.to_owned()).filter(|namespace| !namespace.is_empty()),
        resource,
        name: None,
        subresource: None,
        query: Arc::default(),
        content_type: None,
        body: listwatch_wire::json::encode(object).into(),
        user: Arc::new(own_user()),
        user_agent: OWN_MANAGER.to_owned(),
        record: Arc::default(),
    };
    match create::create(api, &request).await {
        Err(status) if status.reason != StatusReason::AlreadyExists => Err(status),
        _ => Ok(()),
    }
}

/// Deletes an object; returns true if it no longer exists.
///
/// # Errors
/// 409 if the preconditions do not hold, 5xx if the store fails.
pub(crate) async fn remove(
    api: &Api,
    resource: &Resource,
    namespace: Option<&str>,
    name: &str,
    options: &DeleteOptions,
) -> Result<bool, Status> {
    let (user, record) = (own_user(), AdmissionRecord::default());
    let writer = WriteUser { user: &user, record: &record };
    let stored = stored_version(api, resource);
    let resource = stored.as_deref().unwrap_or(resource);
    let target = Target::new(resource, namespace, name);
    match delete_target(api, &target, options, writer, DeletionAdmission::Named).await {
        Ok(done) => Ok(matches!(done, Done::Removed { .. } | Done::Dry { removed: true, .. })),
        Err(status) if status.reason == StatusReason::NotFound => Ok(true),
        Err(status) => Err(status),
    }
}

/// The version that is stored of a kind with a conversion webhook, so that the server's own writes depend on no webhook.
fn stored_version(api: &Api, resource: &Resource) -> Option<Arc<Resource>> {
    resource.conversion.as_ref()?;
    let (group, version) = &resource.stored_as;
    api.registry.find(group, version, &resource.plural)
}

/// Changes an object as it is now; `None` leaves it. One that is not there is left alone, too.
///
/// Called again with the newer object after a conflict, so `decide` must not have side effects.
///
/// # Errors
/// 5xx if the store fails.
pub(crate) async fn amend(
    api: &Api,
    resource: &Resource,
    namespace: Option<&str>,
    name: &str,
    mut decide: impl FnMut(&Value) -> Option<Value> + Send,
) -> Result<(), Status> {
    let stored = stored_version(api, resource);
    let target = Target::new(stored.as_deref().unwrap_or(resource), namespace, name);
    let done = change(api, &target, false, |stored: Option<&Stored>| {
        let stored = stored.ok_or_else(|| target.not_found())?;
        Ok(match decide(&stored.value) {
            Some(new) if is_done(&new) => Verdict::Remove(new),
            Some(new) if new == stored.value => Verdict::Keep,
            Some(new) => Verdict::Mark(new),
            None => Verdict::Keep,
        })
    })
    .await;
    match done {
        Err(status) if status.reason != StatusReason::NotFound => Err(status),
        _ => Ok(()),
    }
}
