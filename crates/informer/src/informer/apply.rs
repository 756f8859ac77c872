//! Deltas to changes of the store, and changes of the store to events for handlers, as plain functions.
//!
//! The type of an event is decided by the store, not by the type that the server sent: after a resumed watch `ADDED`
//! may be about a known object. The rules are those of client-go's `processDeltas`, with two additions. A different uid
//! under the same key is delivered as a deletion and an addition, and the same resourceVersion again is not delivered
//! at all.
//!
//! A deletion that only a relist shows carries the cached object and `final_state_unknown`, client-go's
//! `DeletedFinalStateUnknown`. Locking and positions are the caller's (`applier`).

use listwatch_wire::Revision;

use crate::delta::Delta;
use crate::object::Object;
use crate::processor::{Deleted, Event};
use crate::store::{IndexError, StoreChange, StoreWrite, StoreWriter};

/// The result of applying deltas.
pub(super) struct AppliedDeltas<K> {
    pub(super) events: Vec<Event<K>>,
    pub(super) problems: Vec<IndexError>,
}

/// Applies changes of single objects, in order.
pub(super) fn changes<K>(writer: &mut StoreWriter<K>, deltas: Vec<Delta<K>>) -> AppliedDeltas<K> {
    let mut events = Vec::with_capacity(deltas.len());
    let writes = deltas.into_iter().filter_map(write).collect();
    let problems = writer.write_each(writes, |change, last_state| emit(change, last_state, &mut events));
    AppliedDeltas { events, problems }
}

/// Turns a delta into a write, with the last state of a deleted object.
fn write<K>(delta: Delta<K>) -> Option<(StoreWrite<K>, Option<Object<K>>)> {
    match delta {
        Delta::Added(object) | Delta::Updated(object) => Some((StoreWrite::Put(object), None)),
        Delta::Deleted(object) => Some((StoreWrite::Remove(object.key().clone()), Some(object))),
        Delta::Rejected { key, .. } => Some((StoreWrite::Remove(key), None)),
        Delta::Bookmark(_) | Delta::SyncAll | Delta::Current | Delta::Removed | Delta::Replaced { .. } => {
            None
        }
    }
}

/// The whole content of a namespace, or of everything.
pub(super) struct WholeContent<'a, K> {
    pub(super) namespace: Option<&'a str>,
    pub(super) objects: Vec<Object<K>>,
    /// The server's history went back, so versions that were seen before may mean other content.
    pub(super) restarted: bool,
}

/// Makes a list the content of its namespace, or of everything. The first is delivered as a snapshot, not as events.
pub(super) fn replace<K>(
    writer: &mut StoreWriter<K>,
    list: WholeContent<'_, K>,
    first: bool,
) -> AppliedDeltas<K> {
    let same = if list.restarted { Object::same_content } else { Object::same_version };
    let replacement = writer.replace_unless(list.namespace, list.objects, same);
    let mut events = Vec::new();
    for change in replacement.changes.into_iter().filter(|_| !first) {
        match change {
            StoreChange { old: Some(old), new: Some(new) }
                if list.restarted && old.same_version(&new) && !old.same_content(&new) =>
            {
                events.push(Event::Updated { old, new });
            }
            change => emit(change, None, &mut events),
        }
    }
    AppliedDeltas { events, problems: replacement.problems }
}

/// Turns a change of the store into events for handlers. The store decides, not the server's event type, because the
/// store has the state that handlers have received.
fn emit<K>(change: StoreChange<K>, last_state: Option<Object<K>>, events: &mut Vec<Event<K>>) {
    match (change.old, change.new) {
        (None, None) => {}
        (None, Some(object)) => events.push(Event::Added { object, is_initial: false }),
        (Some(old), None) => {
            let final_state_unknown = last_state.is_none();
            events.push(Event::Deleted(Deleted { object: last_state.unwrap_or(old), final_state_unknown }));
        }
        (Some(old), Some(new)) if !old.same_identity(&new) => {
            events.push(Event::Deleted(Deleted { object: old, final_state_unknown: true }));
            events.push(Event::Added { object: new, is_initial: false });
        }
        // The same version again, from a relist or a resumed watch, is not delivered.
        (Some(old), Some(new)) if old.same_version(&new) && new.revision() != Revision::ZERO => {}
        (Some(old), Some(new)) => events.push(Event::Updated { old, new }),
    }
}
