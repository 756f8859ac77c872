//! Deletion of one object: it is removed at once, or marked and removed once finalizers and grace period allow it.
//!
//! An object with finalizers is only marked; removing the last finalizer removes the object (`change.rs`, `is_done`).
//! A Pod on a node is marked with its grace period and removed by its kubelet. Namespaces and
//! CustomResourceDefinitions are marked and emptied by controllers first. `propagationPolicy` becomes a finalizer of
//! the garbage collector. Dry runs and preconditions are checked on each attempt.
//!
//! `verbs/delete.rs` reads the request; the commit is `transaction.rs`.

use std::borrow::Cow;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use listwatch_kinds::tree::Tree;
use listwatch_wire::json::Value;
use listwatch_wire::options::{DeleteOptions, Preconditions, Propagation};
use listwatch_wire::{Revision, Status};

use crate::api::stored::Stored;
use crate::api::{Api, Attributes, Operation, RequestOptions};
use crate::cache::Object;
use crate::pipeline::change::is_done;
use crate::pipeline::target::Target;
use crate::pipeline::transaction::{Decide, Done, Verdict, change};
use crate::pipeline::unreadable::remove_unreadable;
use crate::pipeline::{WriteUser, seconds};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";
/// The default grace period of a Pod, in seconds.
const DEFAULT_GRACE: i64 = 30;

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
/// # Errors
/// 404, 409 if preconditions fail, 403 by admission, 5xx. An object whose stored bytes cannot be read is removed
/// without its finalizers.
///
/// Used by DELETE, by the deletion of collections, by eviction and by controllers.
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

/// Removes an object that is marked and whose grace period is over. A kubelet that saw the mark may have done so first, which is as good.
async fn remove_marked(api: &Api, target: &Target<'_>, marked: &Arc<Object>) -> Result<Done, Status> {
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

/// The effect of a deletion on an object.
///
/// Pure: time and options are passed in. The order matters: namespaces and definitions are always marked first.
fn decide(
    graceful: bool,
    held_by: Option<&str>,
    options: &DeleteOptions,
    stored: &Value,
    now: Timestamp,
) -> Verdict {
    let marked = stored.at("metadata").has("deletionTimestamp");
    if is_namespace(stored) && !marked {
        return Verdict::Mark(begin_end_of_namespace(stored, options, now));
    }
    if let (Some(finalizer), false) = (held_by, marked) {
        return Verdict::Mark(begin_end_of_definition(stored, finalizer, now));
    }
    let grace = if graceful { grace_period(options, stored) } else { 0 };
    let mut object = stored.clone();
    if !is_event(stored) {
        set_finalizers(&mut object, options.propagation().or_else(|| default_policy(stored)));
    }
    mark(&mut object, grace, now);
    if is_done(&object) {
        return Verdict::Remove(if graceful { object } else { without_mark(object, stored) });
    }
    if object == *stored { Verdict::Keep } else { Verdict::Mark(object) }
}

/// An object that goes at once is shown as it was.
fn without_mark(object: Value, stored: &Value) -> Value {
    if stored.at("metadata").has("deletionTimestamp") { object } else { stored.clone() }
}

/// The grace period of a Pod.
fn grace_period(options: &DeleteOptions, pod: &Value) -> i64 {
    let finished = matches!(pod.at("status").text("phase"), "Succeeded" | "Failed");
    if pod.at("spec").text("nodeName").is_empty() || finished {
        return 0;
    }
    let asked = options.grace_period_seconds.or_else(|| pod.at("spec").int("terminationGracePeriodSeconds"));
    match asked.unwrap_or(DEFAULT_GRACE) {
        negative if negative < 0 => 1,
        period => period,
    }
}

/// Events own nothing: garbage collection does not look at them, so that a policy has nothing to wait for.
fn is_event(object: &Value) -> bool {
    object.text("kind") == "Event" && matches!(object.text("apiVersion"), "v1" | "events.k8s.io/v1")
}

/// The policy of kinds whose dependents are orphaned unless the deletion or a finalizer says otherwise.
fn default_policy(object: &Value) -> Option<Propagation> {
    let kind = (object.text("apiVersion"), object.text("kind"));
    let finalizers = object.at("metadata").list("finalizers");
    let said = finalizers.iter().any(|finalizer| finalizer == ORPHAN || finalizer == FOREGROUND);
    let orphans = matches!(kind, ("v1", "ReplicationController") | ("batch/v1", "Job"));
    (orphans && !said).then_some(Propagation::Orphan)
}

/// The finalizers of the garbage collector follow the policy; without one they stay as they are.
///
/// `orphan` and `foregroundDeletion` exclude each other: the later policy replaces the earlier one.
fn set_finalizers(object: &mut Value, policy: Option<Propagation>) {
    let Some(policy) = policy else { return };
    let Some(meta) = object.inner_or_new("metadata") else { return };
    let mut finalizers = meta.list("finalizers").to_vec();
    let wanted = match policy {
        Propagation::Orphan => Some(ORPHAN),
        Propagation::Foreground => Some(FOREGROUND),
        Propagation::Background => None,
    };
    finalizers.retain(|finalizer| {
        Some(finalizer.as_str().unwrap_or_default()) == wanted
            || (finalizer != ORPHAN && finalizer != FOREGROUND)
    });
    if let Some(wanted) = wanted
        && !finalizers.iter().any(|finalizer| finalizer == wanted)
    {
        finalizers.push(wanted.into());
    }
    if finalizers.is_empty() { drop(meta.remove("finalizers")) } else { meta.put("finalizers", finalizers) }
}

/// A definition is held by the server itself until it has tidied up after it. Like a namespace it has no time of grace.
fn begin_end_of_definition(stored: &Value, finalizer: &str, now: Timestamp) -> Value {
    let mut object = stored.clone();
    let time = seconds(now);
    if let Some(meta) = object.inner_or_new("metadata") {
        let mut finalizers = meta.list("finalizers").to_vec();
        if !finalizers.iter().any(|held| held == finalizer) {
            finalizers.push(finalizer.into());
        }
        meta.put("finalizers", finalizers);
        meta.put("deletionTimestamp", time.as_str());
    }
    let why = (
        "InstanceDeletionPending",
        "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    );
    listwatch_custom::set_condition(&mut object, "Terminating", true, why, &time);
    object
}

/// Sets the deletion timestamp and grace period, or shortens the grace period of a marked object.
///
/// A period can only be shortened, so repeating a deletion never gives a Pod more time.
fn mark(object: &mut Value, grace: i64, now: Timestamp) {
    let Some(meta) = object.inner_or_new("metadata") else { return };
    let marked = meta.has("deletionTimestamp");
    if marked && grace >= meta.int("deletionGracePeriodSeconds").unwrap_or(0) {
        return;
    }
    let end = now.checked_add(SignedDuration::from_secs(grace)).unwrap_or(now);
    meta.put("deletionTimestamp", seconds(end));
    meta.put("deletionGracePeriodSeconds", grace);
    if let Some(generation) = meta.int("generation").filter(|generation| *generation > 0 && !marked) {
        meta.put("generation", generation + 1);
    }
}

/// By the object and not by the resource, because stored objects name their kind.
fn is_namespace(object: &Value) -> bool {
    object.text("kind") == "Namespace" && object.text("apiVersion") == "v1"
}

/// Marks a namespace as terminating, even if nothing holds it. It has no grace period, and unlike other objects no
/// `deletionGracePeriodSeconds`.
fn begin_end_of_namespace(stored: &Value, options: &DeleteOptions, now: Timestamp) -> Value {
    let mut object = stored.clone();
    set_finalizers(&mut object, options.propagation().or_else(|| default_policy(stored)));
    if let Some(meta) = object.inner_or_new("metadata") {
        meta.put("deletionTimestamp", seconds(now));
    }
    if let Some(status) = object.inner_or_new("status") {
        status.put("phase", "Terminating");
    }
    object
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    #[test]
    fn a_policy_sets_its_own_finalizer_and_keeps_those_of_others() {
        for (policy, before, after) in [
            (None, json!(["a/b"]), json!(["a/b"])),
            (Some(Propagation::Orphan), json!(["a/b"]), json!(["a/b", "orphan"])),
            (Some(Propagation::Foreground), json!(["orphan"]), json!(["foregroundDeletion"])),
            (Some(Propagation::Foreground), json!(["foregroundDeletion"]), json!(["foregroundDeletion"])),
            (Some(Propagation::Background), json!(["orphan", "a/b"]), json!(["a/b"])),
        ] {
            let mut object = json!({"metadata": {"finalizers": before}});
            set_finalizers(&mut object, policy);
            assert_eq!(object.at("metadata").at("finalizers"), &after, "{policy:?}");
        }
    }

    #[test]
    fn the_time_a_pod_has_can_only_be_shortened() {
        let mut pod = json!({"metadata": {"generation": 1}});
        for (grace, left, generation) in [(30, 30, 2), (60, 30, 2), (5, 5, 2)] {
            mark(&mut pod, grace, Timestamp::UNIX_EPOCH);
            assert_eq!(pod.at("metadata").int("deletionGracePeriodSeconds"), Some(left));
            assert_eq!(pod.at("metadata").int("generation"), Some(generation));
        }
        assert_eq!(pod.at("metadata").text("deletionTimestamp"), "1970-01-01T00:00:05Z");
    }

    #[test]
    fn a_namespace_is_marked_first_and_without_grace() {
        let decide =
            |stored: &Value| decide(false, None, &DeleteOptions::default(), stored, Timestamp::UNIX_EPOCH);
        let namespace =
            |spec: Value| json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {}, "spec": spec});
        let Verdict::Mark(marked) = decide(&namespace(json!({}))) else { panic!("not written") };
        assert_eq!(marked.at("metadata"), &json!({"deletionTimestamp": "1970-01-01T00:00:00Z"}));
        assert_eq!(marked.at("status").text("phase"), "Terminating");
        assert!(matches!(decide(&marked), Verdict::Remove(_)));
        let mut held = namespace(json!({"finalizers": ["kubernetes"]}));
        held.as_object_mut().unwrap().put("metadata", marked.at("metadata").clone());
        assert!(matches!(decide(&held), Verdict::Keep));
    }

    #[test]
    fn a_definition_says_that_it_is_going() {
        let stored = json!({"kind": "CustomResourceDefinition", "metadata": {"generation": 1}, "status": {}});
        let options = DeleteOptions::default();
        let verdict = decide(false, Some("cleanup"), &options, &stored, Timestamp::UNIX_EPOCH);
        let Verdict::Mark(marked) = verdict else { panic!("not written") };
        let time = "1970-01-01T00:00:00Z";
        let meta = json!({"generation": 1, "finalizers": ["cleanup"], "deletionTimestamp": time});
        assert_eq!(marked.at("metadata"), &meta);
        assert_eq!(marked["status"]["conditions"][0]["reason"], "InstanceDeletionPending");
        assert!(matches!(
            decide(false, Some("cleanup"), &options, &marked, Timestamp::UNIX_EPOCH),
            Verdict::Keep
        ));
    }

    #[test]
    fn only_a_pod_that_runs_somewhere_gets_time() {
        let options = |grace| DeleteOptions { grace_period_seconds: grace, ..DeleteOptions::default() };
        let running = json!({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": 7}});
        for (pod, asked, expected) in [
            (running.clone(), None, 7),
            (running.clone(), Some(-5), 1),
            (running, Some(0), 0),
            (json!({"spec": {}}), Some(9), 0),
            (json!({"spec": {"nodeName": "n"}, "status": {"phase": "Failed"}}), None, 0),
            (json!({"spec": {"nodeName": "n"}}), None, 30),
        ] {
            assert_eq!(grace_period(&options(asked), &pod), expected);
        }
    }
}
