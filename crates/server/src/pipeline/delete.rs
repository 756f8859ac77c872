//! Deletion of one object: it is removed at once, or marked and removed once finalizers and grace period allow it.
//!
//! [`super::before_delete`] decides the effect on the object; here are preconditions, admission and the attempts to commit. Dry
//! runs and preconditions are checked on each attempt.
//!
//! `verbs/delete.rs` reads the request; the commit is `transaction.rs`.

use std::borrow::Cow;
use std::sync::Arc;

use jiff::Timestamp;
use listwatch_kinds::tree::Tree;
use listwatch_wire::json::Value;
use listwatch_wire::options::{DeleteOptions, Preconditions};
use listwatch_wire::{Revision, Status};

use crate::api::stored::Stored;
use crate::api::{Api, Attributes, Operation, RequestOptions};
use crate::cache::CachedObject;
use crate::pipeline::WriteUser;
use crate::pipeline::before_delete::decide;
use crate::pipeline::change::is_done;
use crate::pipeline::target::Target;
use crate::pipeline::transaction::{Decide, Done, Verdict, change};
use crate::pipeline::unreadable::remove_unreadable;

/// A deletion of one object.
struct Deleting<'a> {
    api: &'a Api,
    target: &'a Target<'a>,
    /// As the client sent them; preconditions are checked on every attempt.
    options: &'a DeleteOptions,
    writer: WriteUser<'a>,
    admission: DeletionAdmission,
    /// True for Pods, which have a grace period.
    graceful: bool,
    /// The time of the request: the same for every attempt.
    now: Timestamp,
}

impl Decide for Deleting<'_> {
    async fn decide(&mut self, stored: Option<&Stored>) -> Result<Verdict, Status> {
        let Self { target, options, graceful, .. } = *self;
        let stored = stored.ok_or_else(|| target.not_found())?;
        if options.ignore_store_read_error_with_cluster_breaking_potential == Some(true) {
            return Err(readable(target, stored.revision));
        }
        check_preconditions(target, options, &stored.value, stored.revision)?;
        self.admit(stored).await?;
        Ok(match decide(graceful, target.resource.rules.held_by(), options, &stored.value, self.now) {
            // Watchers of a Pod see it marked before it is removed, even without a grace period.
            Verdict::Remove(object) if graceful && !options.is_dry_run() && object != stored.value => {
                Verdict::Mark(object)
            }
            other => other,
        })
    }
}

impl Deleting<'_> {
    /// The object of a deletion is null and the old one is the stored version, so admission runs again for each
    /// version that is tried.
    async fn admit(&self, stored: &Stored) -> Result<(), Status> {
        let Self { api, target, writer, .. } = *self;
        let name = match self.admission {
            DeletionAdmission::Named => target.name,
            DeletionAdmission::Collection => "",
            DeletionAdmission::Done => return Ok(()),
        };
        let options = self.shown_options(stored);
        let attributes = writer.attributes(api, target.resource, target.namespace, target.name);
        let attributes = Attributes {
            operation: Operation::Delete,
            options: RequestOptions::Delete(&options),
            old: Some(&stored.value),
            old_version: Some(stored.revision),
            name,
            ..attributes
        };
        api.admission.admit(&attributes, &mut Value::Null).await?;
        api.admission.validate(&attributes, &Value::Null).await
    }

    /// The options as admission sees them: a namespace is always deleted as the one that it is.
    fn shown_options(&self, stored: &Stored) -> Cow<'_, DeleteOptions> {
        let resource = self.target.resource;
        if (&*resource.group, &*resource.kind) != ("", "Namespace") {
            return Cow::Borrowed(self.options);
        }
        let mut options = self.options.clone();
        let uid = || stored.value.at("metadata").text("uid").to_owned();
        options.preconditions.get_or_insert_default().uid.get_or_insert_with(uid);
        Cow::Owned(options)
    }
}

/// The admission request of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeletionAdmission {
    /// By the name of the object.
    Named,
    /// As one of a collection, without a name.
    Collection,
    /// Not at all: the request that the deletion is a part of was admitted.
    Done,
}

/// Deletes an object, or marks it if finalizers or a grace period hold it. Admission is part of each attempt.
///
/// Used by DELETE, by the deletion of collections, by eviction and by controllers.
///
/// # Errors
/// 404, 409 if preconditions fail, 403 by admission, 5xx. An object whose stored bytes cannot be read is removed
/// without its finalizers.
pub(crate) async fn delete_target(
    api: &Api,
    target: &Target<'_>,
    options: &DeleteOptions,
    writer: WriteUser<'_>,
    admission: DeletionAdmission,
) -> Result<Done, Status> {
    let graceful = target.resource.builtin.is_some_and(|kind| kind.flags.graceful_deletion);
    let deleting = Deleting { api, target, options, writer, admission, graceful, now: Timestamp::now() };
    let dry_run = options.is_dry_run();
    let done = change(api, target, dry_run, deleting).await;
    let mut done = match done {
        Err(status) if status.code == 500 && !dry_run => {
            let check = |object: &Value, revision| check_preconditions(target, options, object, revision);
            remove_unreadable(api, target, check).await?.ok_or(status)?
        }
        done => done?,
    };
    if let (true, Done::Stored { object, .. }) = (graceful, &done)
        && Value::read(object.stored()).is_ok_and(|object| is_done(&object))
    {
        done = remove_marked(api, target, object).await?;
    }
    Ok(done)
}

/// Removes an object that is marked and whose grace period is over. A kubelet that saw the mark may have done so first,
/// which is equivalent.
async fn remove_marked(api: &Api, target: &Target<'_>, marked: &Arc<CachedObject>) -> Result<Done, Status> {
    let uid = marked.field("metadata.uid").unwrap_or_default();
    let same = |stored: &&Stored| stored.value.at("metadata").text("uid") == uid;
    let removed = change(api, target, false, |stored: Option<&Stored>| {
        let stored = stored.filter(same).ok_or_else(|| target.not_found())?;
        Ok(if is_done(&stored.value) { Verdict::Remove(stored.value.clone()) } else { Verdict::Keep })
    });
    match removed.await {
        Err(status) if status.code == 404 => {
            Ok(Done::Removed { object: Arc::clone(marked), at: marked.revision() })
        }
        other => other,
    }
}

/// The response to the unsafe deletion of an object that can be read: it must be deleted in the ordinary way.
fn readable(target: &Target<'_>, revision: Revision) -> Status {
    target.conflict(&format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{}, ResourceVersion: {revision}, AdditionalErrorMsg: unsafe deletion is not allowed because the object is decodable from storage",
        target.key,
    ))
}

/// 409 if the object is not the one that the deletion is about.
pub(crate) fn check_preconditions(
    target: &Target<'_>,
    options: &DeleteOptions,
    stored: &Value,
    revision: Revision,
) -> Result<(), Status> {
    let Some(conditions) = &options.preconditions else { return Ok(()) };
    let resource = target.resource;
    if (&*resource.group, &*resource.kind) == ("", "Namespace") {
        return check_namespace(target, conditions, stored, revision);
    }
    // Only here kube-apiserver names the kind instead of the resource, and its group is that of the stored version.
    let (group, _) = &resource.stored_as;
    let conflict = |why: &str| Status::conflict(group, &resource.kind, target.name, why);
    let found = stored.at("metadata").text("uid");
    if let Some(uid) = conditions.uid.as_deref().filter(|uid| *uid != found) {
        return Err(conflict(&format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({found}). The object might have been deleted and then recreated"
        )));
    }
    let found = revision.to_string();
    if let Some(version) = conditions.resource_version.as_deref().filter(|version| *version != found) {
        return Err(conflict(&format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({found}). The object might have been modified"
        )));
    }
    Ok(())
}

/// Namespaces have a different message for preconditions.
fn check_namespace(
    target: &Target<'_>,
    conditions: &Preconditions,
    stored: &Value,
    revision: Revision,
) -> Result<(), Status> {
    let uid = stored.at("metadata").text("uid").to_owned();
    for (what, wanted, found) in [
        ("UID", &conditions.uid, uid),
        ("ResourceVersion", &conditions.resource_version, revision.to_string()),
    ] {
        if let Some(wanted) = wanted.as_deref().filter(|wanted| *wanted != found) {
            let why = format!(
                "Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
            );
            return Err(target.conflict(&why));
        }
    }
    Ok(())
}
