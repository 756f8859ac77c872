//! [`decide`]: the effect of a deletion on an object, as a pure function of the object, the options and the time.
//!
//! An object with finalizers is only marked; removing the last finalizer removes the object (`change.rs`, `is_done`).
//! A Pod on a node is marked with its grace period and removed by its kubelet. Namespaces and
//! CustomResourceDefinitions are marked and emptied by controllers first. `propagationPolicy` becomes a finalizer of
//! the garbage collector.
//!
//! Nothing is written here: [`super::delete`] commits the verdict, and repeats the decision if the object changed meanwhile.

use jiff::{SignedDuration, Timestamp};
use listwatch_kinds::tree::Tree;
use listwatch_wire::json::Value;
use listwatch_wire::options::{DeleteOptions, Propagation};

use crate::pipeline::change::is_done;
use crate::pipeline::seconds;
use crate::pipeline::transaction::Verdict;

/// Finalizers that make the garbage collector orphan the dependents of an object, or delete them before it.
const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";
/// The default grace period of a Pod, in seconds.
const DEFAULT_GRACE: i64 = 30;

/// The effect of a deletion on an object.
///
/// The order matters: namespaces and definitions are always marked first.
#[doc(alias = "BeforeDelete")]
pub(super) fn decide(
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

/// An object that is deleted at once is shown as it was.
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

/// The policy of kinds whose dependents are orphaned unless the deletion or a finalizer chooses another.
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

/// The shortest grace period of a graceful deletion.
const LAST_SECOND: i64 = 1;

/// Sets the deletion timestamp and grace period, or shortens the grace period of a marked object.
///
/// A period can only be shortened, so repeating a deletion never gives a Pod more time. It is counted from the first deletion;
/// where it is over already, the kubelet gets a last second.
fn mark(object: &mut Value, grace: i64, now: Timestamp) {
    let Some(meta) = object.inner_or_new("metadata") else { return };
    let marked = meta.has("deletionTimestamp");
    let had = meta.int("deletionGracePeriodSeconds").unwrap_or(0);
    if marked && grace >= had {
        return;
    }
    let end = |start: Timestamp, grace| start.checked_add(SignedDuration::from_secs(grace)).unwrap_or(now);
    let first: Option<Timestamp> = meta.text("deletionTimestamp").parse().ok();
    let (end, grace) = match first.map(|first| end(first, grace.saturating_sub(had))) {
        Some(end) if end < now => (now, grace.min(LAST_SECOND)),
        Some(end) => (end, grace),
        None => (end(now, grace), grace),
    };
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

    /// The period began again when it was shortened.
    #[test]
    fn a_shorter_period_counts_from_the_first_deletion() {
        let marked = |grace, after| {
            let mut pod = json!({"metadata": {"deletionTimestamp": "1970-01-01T00:00:30Z", "deletionGracePeriodSeconds": 30}});
            mark(&mut pod, grace, Timestamp::from_second(after).unwrap());
            let meta = pod.at("metadata");
            (meta.text("deletionTimestamp").to_owned(), meta.int("deletionGracePeriodSeconds"))
        };
        assert_eq!(marked(20, 10), ("1970-01-01T00:00:20Z".to_owned(), Some(20)));
        assert_eq!(marked(5, 10), ("1970-01-01T00:00:10Z".to_owned(), Some(1)));
        assert_eq!(marked(0, 10), ("1970-01-01T00:00:10Z".to_owned(), Some(0)));
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
    fn a_deleted_definition_has_the_terminating_condition() {
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
