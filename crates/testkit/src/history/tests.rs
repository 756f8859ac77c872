//! Tests of the validators: histories made by hand, each with one thing wrong.
//! A validator that accepts everything would make all workload tests pass, so every [`Violation`] has a history that
//! must produce it.

use std::collections::BTreeMap;

use listwatch_wire::event::EventType;
use listwatch_wire::{ObjectKey, Revision};
use serde_json::{Value, json};

use super::handler::{self, HandlerCall, HandlerViolation};
use super::{Acknowledged, Frame, ListRecord, Seen, Start, Truth, Violation, Watch, WatchFilter};

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("ns", name)
}

fn content(name: &str, color: &str, data: u32) -> Value {
    json!({"metadata": {"namespace": "ns", "name": name, "labels": {"color": color}}, "data": {"n": data.to_string()}})
}

fn seen(revision: u64, name: &str, color: &str, data: u32) -> Seen {
    Seen { key: key(name), revision: Revision(revision), content: content(name, color, data) }
}

/// `a` is red, grows, turns blue, turns red again and goes; `b` is blue all the time.
fn truth() -> Truth {
    let mut truth = Truth::default();
    truth.push(Revision(10), key("a"), Some(content("a", "red", 1)));
    truth.push(Revision(11), key("b"), Some(content("b", "blue", 1)));
    truth.push(Revision(12), key("a"), Some(content("a", "red", 2)));
    truth.push(Revision(13), key("a"), Some(content("a", "blue", 3)));
    truth.push(Revision(14), key("a"), Some(content("a", "red", 4)));
    truth.push(Revision(15), key("a"), None);
    truth
}

fn event(kind: EventType, object: Seen) -> Frame {
    Frame::Event { kind, object }
}

fn bookmark(revision: u64) -> Frame {
    Frame::Bookmark { revision: Revision(revision), ends_initial: false }
}

/// The events that a watch of red objects from the beginning must deliver.
fn good() -> Vec<Frame> {
    vec![
        event(EventType::Added, seen(10, "a", "red", 1)),
        event(EventType::Modified, seen(12, "a", "red", 2)),
        event(EventType::Deleted, seen(13, "a", "red", 2)),
        event(EventType::Added, seen(14, "a", "red", 4)),
        event(EventType::Deleted, seen(15, "a", "red", 4)),
    ]
}

fn watch(start: Start, frames: Vec<Frame>) -> Watch {
    let filter = WatchFilter { namespace: Some("ns".into()), labels: "color=red".parse().unwrap() };
    let mut watch = Watch::new("w", filter, start);
    (watch.frames, watch.complete_until) = (frames, Some(Revision(15)));
    watch
}

fn from(revision: u64, frames: Vec<Frame>) -> Vec<Violation> {
    watch(Start::After(Revision(revision)), frames).check(&truth())
}

macro_rules! breaks {
    ($violations:expr, $promise:pat) => {
        let violations = $violations;
        assert!(violations.iter().any(|violation| matches!(violation, $promise)), "{violations:?}");
    };
}

#[test]
fn a_faithful_stream_breaks_nothing() {
    assert_eq!(from(0, good()), []);
    assert_eq!(from(12, good().split_off(2)), []);
    let mut with_bookmarks = good();
    with_bookmarks.insert(2, bookmark(12));
    with_bookmarks.push(bookmark(99));
    assert_eq!(from(0, with_bookmarks), []);
}

#[test]
fn ordered_two_events_swapped() {
    let mut frames = good();
    frames.swap(1, 2);
    breaks!(from(0, frames), Violation::Ordered(_));
}

#[test]
fn unique_an_event_repeated() {
    let mut frames = good();
    frames.insert(2, frames[1].clone());
    breaks!(from(0, frames), Violation::Unique(_));
}

#[test]
fn reliable_an_event_left_out_in_the_middle_or_at_the_end() {
    let mut middle = good();
    middle.remove(2);
    breaks!(from(0, middle), Violation::Reliable(_));
    let mut end = good();
    end.pop();
    breaks!(from(0, end), Violation::Reliable(_));
}

#[test]
fn delta_a_patch_that_made_something_else_or_did_not_fit() {
    let mut wrong = good();
    wrong[1] = event(EventType::Modified, seen(12, "a", "red", 3));
    let mut wrong = watch(Start::After(Revision(0)), wrong);
    wrong.deltas = vec![Revision(12)];
    breaks!(wrong.check(&truth()), Violation::Delta(_));
    let mut misfit = watch(Start::After(Revision(0)), good());
    misfit.misfit = Some("no base".into());
    breaks!(misfit.check(&truth()), Violation::Delta(_));
}

#[test]
fn a_stream_that_was_cut_owes_nothing_after_the_cut() {
    let mut cut = watch(Start::After(Revision(0)), good()[..2].to_vec());
    cut.complete_until = None;
    assert_eq!(cut.check(&truth()), []);
}

#[test]
fn atomic_content_of_another_revision_or_a_revision_never_committed() {
    let mut frames = good();
    frames[1] = event(EventType::Modified, seen(12, "a", "red", 1));
    breaks!(from(0, frames), Violation::Atomic(_));
    let mut frames = good();
    frames.push(event(EventType::Added, seen(16, "a", "red", 5)));
    breaks!(from(0, frames), Violation::Atomic(_));
}

#[test]
fn resumable_a_stream_that_begins_too_early_or_too_late() {
    breaks!(from(12, good().split_off(1)), Violation::Resumable(_));
    breaks!(from(10, good().split_off(2)), Violation::Resumable(_));
}

#[test]
fn bookmarkable_a_bookmark_that_ran_ahead_or_went_back() {
    let mut ahead = good();
    ahead.insert(2, bookmark(13));
    breaks!(from(0, ahead), Violation::Bookmarkable(_));
    let mut back = good();
    back.insert(2, bookmark(11));
    breaks!(from(0, back), Violation::Bookmarkable(_));
}

#[test]
fn filter_an_object_that_does_not_match_or_the_wrong_type() {
    let mut frames = good();
    frames.insert(1, event(EventType::Added, seen(11, "b", "blue", 1)));
    breaks!(from(0, frames), Violation::Filter(_));
    let mut frames = good();
    frames[3] = event(EventType::Modified, seen(14, "a", "red", 4));
    breaks!(from(0, frames), Violation::Filter(_));
}

#[test]
fn previous_value_a_deletion_with_the_new_content() {
    let mut frames = good();
    frames[2] = event(EventType::Deleted, seen(13, "a", "blue", 3));
    breaks!(from(0, frames), Violation::PreviousValue(_));
}

fn initial(not_older: u64, mut frames: Vec<Frame>, end: u64) -> Vec<Violation> {
    frames.push(Frame::Bookmark { revision: Revision(end), ends_initial: true });
    frames.extend(good().split_off(2));
    watch(Start::Initial(Revision(not_older)), frames).check(&truth())
}

#[test]
fn initial_events_are_the_state_of_their_bookmark() {
    let state = event(EventType::Added, seen(12, "a", "red", 2));
    assert_eq!(initial(12, vec![state.clone()], 12), []);
    breaks!(initial(13, vec![state.clone()], 12), Violation::Initial(_));
    breaks!(initial(0, vec![], 12), Violation::Initial(_));
    breaks!(initial(0, vec![state.clone(), state], 12), Violation::Initial(_));
    breaks!(initial(0, vec![event(EventType::Added, seen(10, "a", "red", 1))], 12), Violation::Initial(_));
    breaks!(initial(0, vec![event(EventType::Modified, seen(12, "a", "red", 2))], 12), Violation::Initial(_));
}

#[test]
fn the_position_of_a_stream_is_where_it_can_resume() {
    assert_eq!(watch(Start::After(Revision(0)), good()).position(), Some(Revision(15)));
    let only_initial = vec![event(EventType::Added, seen(12, "a", "red", 2))];
    assert_eq!(watch(Start::Initial(Revision(0)), only_initial).position(), None);
}

fn list(revision: u64, not_older_than: u64, items: Vec<Seen>) -> Vec<Violation> {
    let (revision, not_older_than) = (Revision(revision), Revision(not_older_than));
    ListRecord { name: "l".into(), filter: WatchFilter::default(), not_older_than, revision, items }
        .check(&truth())
}

#[test]
fn snapshot_a_list_is_the_state_of_its_revision() {
    let (a, b) = (seen(12, "a", "red", 2), seen(11, "b", "blue", 1));
    assert_eq!(list(12, 12, vec![a.clone(), b.clone()]), []);
    breaks!(list(12, 13, vec![a.clone(), b.clone()]), Violation::Snapshot(_));
    breaks!(list(12, 12, vec![b.clone(), a.clone()]), Violation::Snapshot(_));
    breaks!(list(12, 12, vec![a.clone()]), Violation::Snapshot(_));
    breaks!(list(15, 15, vec![a, b]), Violation::Snapshot(_));
}

#[test]
fn durable_an_acknowledged_write_that_the_log_does_not_have() {
    let write = |object: Seen| Acknowledged { key: object.key.clone(), object: Some(object) };
    let deletion = Acknowledged { key: key("a"), object: None };
    assert_eq!(truth().check_acknowledged(&[write(seen(12, "a", "red", 2)), deletion.clone()]), []);
    breaks!(truth().check_acknowledged(&[write(seen(16, "a", "red", 2))]), Violation::Durable(_));
    breaks!(truth().check_acknowledged(&[write(seen(12, "a", "red", 7))]), Violation::Durable(_));
    breaks!(truth().check_acknowledged(&[deletion.clone(), deletion]), Violation::Durable(_));
}

fn violations<const N: usize, const M: usize>(
    history: [&HandlerCall; N],
    server: [&Seen; M],
) -> Vec<HandlerViolation> {
    let server: BTreeMap<_, _> = server.iter().map(|seen| (seen.key.clone(), (*seen).clone())).collect();
    handler::check(&history.map(Clone::clone), &server)
}

#[test]
fn a_handler_must_receive_a_consistent_history() {
    let (one, two) = (&seen(10, "a", "red", 1), &seen(12, "a", "red", 2));
    let (added, added_two) = (&HandlerCall::Added(one.clone()), &HandlerCall::Added(two.clone()));
    let updated = &HandlerCall::Updated { old: one.clone(), new: two.clone() };
    let (deleted, deleted_two) = (&HandlerCall::Deleted(one.clone()), &HandlerCall::Deleted(two.clone()));
    assert_eq!(violations([added, updated], [two]), []);
    assert_eq!(violations([added, updated, deleted_two], []), []);
    breaks!(violations([added, added], [one]), HandlerViolation::OutOfTurn(_));
    breaks!(violations([updated], [two]), HandlerViolation::OutOfTurn(_));
    breaks!(violations([deleted], []), HandlerViolation::OutOfTurn(_));
    breaks!(violations([added_two, updated], [two]), HandlerViolation::WrongOld(_));
    breaks!(violations([added, deleted_two, added], [one]), HandlerViolation::BackInTime(_));
    breaks!(violations([added], [two]), HandlerViolation::NotConverged(_));
    breaks!(violations([added], []), HandlerViolation::NotConverged(_));
}

#[test]
fn a_recreated_object_is_not_an_update_of_the_old_one() {
    let with_uid = |revision, uid: &str| {
        let mut object = seen(revision, "a", "red", 1);
        object.content["metadata"]["uid"] = uid.into();
        object
    };
    let (old, new) = (with_uid(10, "1"), with_uid(12, "2"));
    let (added, updated) = (HandlerCall::Added(old.clone()), HandlerCall::Updated { old, new: new.clone() });
    breaks!(violations([&added, &updated], [&new]), HandlerViolation::MixedIdentities(_));
}

#[test]
fn an_object_is_taken_apart_as_it_comes_over_the_wire() {
    let object = json!({"kind": "Secret", "apiVersion": "v1",
        "metadata": {"name": "a", "namespace": "ns", "resourceVersion": "12", "labels": {"color": "red"}}, "data": {"n": "2"}});
    assert_eq!(Seen::from_object(object), Some(seen(12, "a", "red", 2)));
    assert_eq!(Seen::from_object(json!({"metadata": {"name": "a"}})), None);
    assert_eq!(Seen::from_object(json!("garbage")), None);
}
