//! [`Subscriptions`]: the subscriptions of a stream that have begun, and their events in one order.
//!
//! [`MergedCursors`] decides the order; this keeps what belongs to each watch beside its cursor. Slots grow, so
//! watches stay sorted by slot and are found by binary search.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use listwatch_wire::stream::{enclose, event_prefix};
use listwatch_wire::{Revision, Status};
use tokio::time::Instant;

use crate::api::Api;
use crate::auth::{Recheck, Revoked};
use crate::cache::{Cache, Cursor, FilteredEvent, Lost, MergedCursors, Portion, SlotEvent, WatchSlot};
use crate::verbs::watch::writer::EventWriter;

/// One watch of a subscription.
#[derive(Debug)]
struct LiveWatch {
    slot: WatchSlot,
    id: Arc<str>,
    prefix: Bytes,
    writer: EventWriter,
    /// The authorization of the watch, which ends when it no longer holds.
    guard: Option<Box<Recheck>>,
    /// The time at which it ends by itself, unless that is with the stream.
    deadline: Option<Instant>,
}

/// The subscriptions that have begun.
#[derive(Debug)]
pub(super) struct Subscriptions {
    merged: MergedCursors,
    /// In the order of their slots.
    watches: Vec<LiveWatch>,
}

/// A watch that joins the others.
pub(super) struct JoiningWatch {
    pub(super) id: Arc<str>,
    pub(super) cursor: Cursor,
    pub(super) writer: EventWriter,
    pub(super) guard: Option<Box<Recheck>>,
    pub(super) deadline: Option<Instant>,
}

impl Subscriptions {
    pub(super) fn new(cache: Arc<Cache>) -> Self {
        Self { merged: MergedCursors::new(cache), watches: Vec::new() }
    }

    /// Adds a watch that has begun.
    pub(super) fn join(&mut self, joining: JoiningWatch) {
        let JoiningWatch { id, cursor, writer, guard, deadline } = joining;
        let (slot, prefix) = (self.merged.add(cursor), event_prefix(&id));
        self.watches.push(LiveWatch { slot, id, prefix, writer, guard, deadline });
    }

    /// The number of watches.
    pub(super) fn count(&self) -> usize {
        self.watches.len()
    }

    pub(super) fn contains(&self, id: &str) -> bool {
        self.watches.iter().any(|watch| &*watch.id == id)
    }

    /// Removes a subscription with all its watches.
    pub(super) fn remove(&mut self, id: &str) {
        let merged = &mut self.merged;
        self.watches.retain(|watch| {
            let stays = &*watch.id != id;
            if !stays {
                merged.remove(watch.slot);
            }
            stays
        });
    }

    /// The subscription that a cursor belongs to; `None` if it has been removed.
    pub(super) fn id(&self, slot: WatchSlot) -> Option<Arc<str>> {
        self.find(slot).and_then(|at| self.watches.get(at)).map(|watch| Arc::clone(&watch.id))
    }

    /// Slots ascend, so a watch is found by halves.
    fn find(&self, slot: WatchSlot) -> Option<usize> {
        self.watches.binary_search_by_key(&slot, |watch| watch.slot).ok()
    }

    /// Waits for the next events. See [`MergedCursors::next`].
    pub(super) async fn next(
        &mut self,
        portion: Portion,
        until: Revision,
    ) -> Result<Vec<SlotEvent>, (WatchSlot, Lost)> {
        self.merged.next(portion, until).await
    }

    /// The position of all, if nothing waits. See [`MergedCursors::settle`].
    pub(super) fn settle(&mut self) -> Option<Revision> {
        self.merged.settle()
    }

    /// Appends events of one watch. Those of one that has been removed are left out.
    ///
    /// # Errors
    /// When they cannot be converted to the version that is watched.
    pub(super) async fn write(
        &mut self,
        api: &Api,
        slot: WatchSlot,
        events: &[FilteredEvent],
        out: &mut BytesMut,
    ) -> Result<(), Status> {
        let at = self.find(slot);
        let Some(watch) = at.and_then(|at| self.watches.get_mut(at)) else { return Ok(()) };
        let frames = watch.writer.events(api, events).await?;
        frames.iter().for_each(|frame| enclose(&watch.prefix, frame, out));
        if let Some(last) = events.last() {
            watch.writer.sent(&frames, last.event.revision);
        }
        Ok(())
    }

    /// Authorizes again those that are due. Returns those that must end.
    ///
    /// Linear in the watches of the stream, at the interval of the options.
    pub(super) fn recheck(&mut self, api: &Api, now: Instant) -> Vec<(Arc<str>, Revoked)> {
        let mut ending = Vec::new();
        for watch in &mut self.watches {
            let Some(guard) = &mut watch.guard else { continue };
            if let Err(withdrawn) = guard.check(&api.authenticator, &api.authorizer, now) {
                ending.push((Arc::clone(&watch.id), withdrawn));
            }
        }
        ending
    }

    /// The subscriptions whose time is up.
    pub(super) fn due(&self, now: Instant) -> Vec<Arc<str>> {
        let due = |watch: &&LiveWatch| watch.deadline.is_some_and(|deadline| deadline <= now);
        let mut ids: Vec<_> = self.watches.iter().filter(due).map(|watch| Arc::clone(&watch.id)).collect();
        ids.dedup();
        ids
    }

    /// The time at which one of them is to be looked at again.
    pub(super) fn wakes(&self) -> Option<Instant> {
        let guards = self.watches.iter().filter_map(|watch| watch.guard.as_ref()).map(|guard| guard.due());
        guards.chain(self.watches.iter().filter_map(|watch| watch.deadline)).min()
    }
}
