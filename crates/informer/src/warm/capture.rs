//! [`Capture`]: the state of an informer at one moment, taken under the lock that orders changes and events.
//!
//! Store, positions and unread events are saved together or not at all. If the positions were newer than the objects,
//! the watch would resume behind a gap; if the marks were, a handler would miss a change.
//!
//! Unread events are reduced to keys: after a restart the effect counts, not the number of changes. A handler with more
//! than `WarmOptions::max_unread` of them, or in the middle of its initial objects, receives everything again. Writing
//! is `saver`, reading `restore`.

use listwatch_wire::ObjectKey;

use super::file::SavedPosition;
use crate::object::Object;
use crate::processor::backlog::Unread;
use crate::processor::{Deleted, Event};
use crate::store::Snapshot;

/// The state to save: the store, the position of each source in it, and the events that handlers have not received yet.
pub(crate) struct Capture<K> {
    pub(crate) snapshot: Snapshot<K>,
    pub(crate) positions: Vec<SavedPosition>,
    pub(crate) marks: Vec<HandlerMark<K>>,
    /// Counts changes of objects: the same number means the same objects.
    pub(crate) changes: u64,
}

/// The events that one handler has not received yet.
pub(crate) struct HandlerMark<K> {
    pub(crate) name: String,
    /// None if it must receive everything again.
    pub(crate) unread: Option<UnreadKeys<K>>,
}

/// Unread events by their effect: each key once.
pub(crate) struct UnreadKeys<K> {
    pub(crate) changed: Vec<ObjectKey>,
    pub(crate) deleted: Vec<Object<K>>,
}

impl<K> HandlerMark<K> {
    /// The mark of a handler with these events unread, of which there may be at most `max`.
    pub(crate) fn new(name: String, unread: Unread<K>, snapshot: &Snapshot<K>, max: usize) -> Self {
        if unread.replaying || unread.len() > max {
            return Self { name, unread: None };
        }
        let (mut changed, mut deleted) = (Vec::new(), Vec::new());
        for event in unread.events() {
            let Some(object) = event.object() else { continue };
            // The state counts, not how it came about: an object that was deleted and created again is there.
            if snapshot.get(object.key()).is_some() {
                changed.push(object.key().clone());
            } else {
                deleted.push(object.clone());
            }
        }
        changed.sort();
        changed.dedup();
        // The last state of each; the sort is stable.
        deleted.sort_by(|a, b| a.key().cmp(b.key()));
        deleted.reverse();
        deleted.dedup_by(|later, kept| later.key() == kept.key());
        Self { name, unread: Some(UnreadKeys { changed, deleted }) }
    }

    /// Adds objects of namespaces that are no longer cached, as deletions for the handler.
    pub(crate) fn forget(&mut self, objects: &[Object<K>]) {
        if let Some(unread) = &mut self.unread {
            unread.deleted.extend(objects.iter().cloned());
        }
    }

    /// The events that make up for what was unread. None if everything has to be delivered again.
    pub(crate) fn events(&self, snapshot: &Snapshot<K>) -> Option<Vec<Event<K>>> {
        let unread = self.unread.as_ref()?;
        let gone = unread
            .deleted
            .iter()
            .map(|object| Event::Deleted(Deleted { object: object.clone(), final_state_unknown: true }));
        let objects = unread.changed.iter().filter_map(|key| snapshot.get(key));
        let added = objects.map(|object| Event::Added { object: object.clone(), is_initial: true });
        Some(gone.chain(added).collect())
    }
}
