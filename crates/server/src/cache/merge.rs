//! [`MergedCursors`]: several cursors, read as one in the order of revisions.
//!
//! Every cursor knows the revision up to which it has read, whether it found events or not. Events up to the lowest of these revisions
//! are complete and can be delivered in order; later ones wait. A cursor is read again once none of its events wait, so that each holds
//! no more than its part of one [`Portion`].

use std::collections::VecDeque;
use std::sync::Arc;

use futures::future::select_all;
use listwatch_wire::Revision;

use crate::cache::Cache;
use crate::cache::cursor::{Cursor, Lost};
use crate::cache::view::{FilteredEvent, Portion, View};

/// The name of a cursor among others. Names grow and are not used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WatchSlot(u64);

/// An event, and the cursor that sees it.
pub(crate) type SlotEvent = (WatchSlot, FilteredEvent);

/// Several cursors, read as one in the order of revisions.
///
/// Its invariant: no event is delivered at a revision that some cursor has not read past. So a client has always
/// received the complete state up to a revision, over all kinds.
#[derive(Debug)]
pub(crate) struct MergedCursors {
    cache: Arc<Cache>,
    tracks: Vec<Track>,
    next: u64,
}

/// One cursor among several.
#[derive(Debug)]
struct Track {
    slot: WatchSlot,
    cursor: Cursor,
    /// Events that were read and wait for what other cursors have before them.
    ahead: VecDeque<FilteredEvent>,
}

impl MergedCursors {
    /// No cursors yet.
    pub(crate) fn new(cache: Arc<Cache>) -> Self {
        Self { cache, tracks: Vec::new(), next: 0 }
    }

    /// Adds a cursor. If it is behind the others, they wait until it has caught up.
    pub(crate) fn add(&mut self, cursor: Cursor) -> WatchSlot {
        let slot = WatchSlot(self.next);
        self.next += 1;
        self.tracks.push(Track { slot, cursor, ahead: VecDeque::new() });
        slot
    }

    /// Removes a cursor, and what was read of it.
    pub(crate) fn remove(&mut self, slot: WatchSlot) {
        self.tracks.retain(|track| track.slot != slot);
    }

    /// Waits for the next events up to `until`. Returns none once there are no more up to there. Dropping the future loses
    /// nothing.
    ///
    /// # Errors
    /// The first cursor that cannot continue, and why. The others can, once it is removed.
    pub(crate) async fn next(
        &mut self,
        portion: Portion,
        until: Revision,
    ) -> Result<Vec<SlotEvent>, (WatchSlot, Lost)> {
        loop {
            if let Some(found) = self.poll_events(portion, until).await? {
                return Ok(found);
            }
            let views: Vec<Arc<View>> = self.tracks.iter().map(|t| Arc::clone(t.cursor.view())).collect();
            let mut changes: Vec<_> = views.iter().map(|view| Box::pin(view.changed())).collect();
            for change in &mut changes {
                change.as_mut().enable();
            }
            // Checked again after registering, so that a change in between is not missed.
            if let Some(found) = self.poll_events(portion, until).await? {
                return Ok(found);
            }
            let reaches = self.cache.position().reaches(until);
            if changes.is_empty() {
                reaches.await;
            } else {
                // A view is woken after the position has moved, so that its events are complete then.
                tokio::select! {
                    _ = select_all(changes) => {}
                    () = reaches => {}
                }
            }
        }
    }

    /// Advances past changes that match no cursor. Returns the common position if no event is waiting to be delivered.
    pub(crate) fn settle(&mut self) -> Option<Revision> {
        let mut position = self.tracks.is_empty().then(|| self.cache.position().get());
        for track in &mut self.tracks {
            let settled = track.cursor.settle().filter(|_| track.ahead.is_empty())?;
            position = Some(position.map_or(settled, |position| position.min(settled)));
        }
        position
    }

    /// The events that can be delivered now; `None` if it has to wait.
    async fn poll_events(
        &mut self,
        portion: Portion,
        until: Revision,
    ) -> Result<Option<Vec<SlotEvent>>, (WatchSlot, Lost)> {
        loop {
            let reads_on = self.fill(portion).await?;
            let events = self.take(until);
            if !events.is_empty() || self.frontier() >= until {
                return Ok(Some(events));
            }
            if !reads_on {
                return Ok(None);
            }
        }
    }

    /// Asks the cursors of which nothing waits. Returns true if one of them has more to read.
    async fn fill(&mut self, portion: Portion) -> Result<bool, (WatchSlot, Lost)> {
        let bytes = portion.bytes / self.tracks.len().max(1);
        let portion = Portion { bytes, ..portion };
        let mut reads_on = false;
        for track in self.tracks.iter_mut().filter(|track| track.ahead.is_empty()) {
            let events = track.cursor.poll(portion).await.map_err(|lost| (track.slot, lost))?;
            if let Some(events) = events {
                reads_on = true;
                track.ahead.extend(events);
            }
        }
        Ok(reads_on)
    }

    /// The revision up to which all have looked.
    fn frontier(&self) -> Revision {
        let positions = self.tracks.iter().map(|track| track.cursor.position());
        positions.min().unwrap_or_else(|| self.cache.position().get())
    }

    /// Takes the events that are complete: all tracks have looked further than their revisions.
    fn take(&mut self, until: Revision) -> Vec<SlotEvent> {
        let limit = self.frontier().min(until);
        let mut events = Vec::new();
        for track in &mut self.tracks {
            let complete = track.ahead.partition_point(|filtered| filtered.event.revision <= limit);
            events.extend(track.ahead.drain(..complete).map(|filtered| (track.slot, filtered)));
        }
        events.sort_by_key(|(_, filtered)| filtered.event.revision);
        events
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use listwatch_storage::{Engine, Expect, MemoryEngine, Write, Written};

    use super::*;
    use crate::CacheLimits;
    use crate::cache::Filter;

    const PORTION: Portion = Portion { events: 2, bytes: 1 << 20 };
    const END: Revision = Revision(u64::MAX);

    struct Fixture {
        engine: Arc<MemoryEngine>,
        cache: Arc<Cache>,
        merged: MergedCursors,
    }

    impl Fixture {
        async fn new() -> Self {
            let engine = Arc::new(MemoryEngine::default());
            let cache = Arc::new(Cache::new(Arc::<MemoryEngine>::clone(&engine), CacheLimits::default()));
            let _feeder = cache.start().await.unwrap();
            Self { engine, merged: MergedCursors::new(Arc::clone(&cache)), cache }
        }

        fn watch(&mut self, collection: &str, from: Revision) -> WatchSlot {
            let collection = self.cache.collection(collection, &[]);
            self.merged.add(self.cache.watch(&collection, Filter::default(), from))
        }

        async fn put(&self, collection: &str, name: &str) -> Revision {
            let key = format!("/registry/{collection}/{name}").into();
            let value = Some(format!(r#"{{"metadata":{{"name":"{name}"}}}}"#).into());
            let written =
                self.engine.write(Write { key, value, expect: Expect::Any, origin: None }).await.unwrap();
            let Written::Done { revision } = written else { panic!("{written:?}") };
            self.cache.position().wait_for(revision, std::time::Duration::from_secs(10)).await;
            revision
        }

        async fn revisions(&mut self, count: usize) -> Vec<u64> {
            let mut seen = Vec::new();
            while seen.len() < count {
                let events = self.merged.next(PORTION, END).await.unwrap();
                seen.extend(events.iter().map(|(_, filtered)| filtered.event.revision.0));
            }
            seen
        }
    }

    #[tokio::test]
    async fn events_of_all_cursors_come_in_one_order() {
        let mut fixture = Fixture::new().await;
        for collection in ["a", "b", "c"] {
            fixture.watch(collection, Revision::ZERO);
        }
        for n in 0..30 {
            fixture.put(["a", "b", "b", "a", "c"][n % 5], &n.to_string()).await;
        }
        let seen = fixture.revisions(30).await;
        assert!(seen.is_sorted(), "{seen:?}");
        assert_eq!(fixture.merged.settle().map(|r| r.0), seen.last().copied());
        assert!(fixture.merged.next(PORTION, END).now_or_never().is_none(), "there is no more");
    }

    #[tokio::test]
    async fn it_stops_at_a_revision_and_goes_on_behind_it() {
        let mut fixture = Fixture::new().await;
        let slots = [fixture.watch("a", Revision::ZERO), fixture.watch("b", Revision::ZERO)];
        let first = fixture.put("a", "1").await;
        let second = fixture.put("b", "1").await;
        let events = fixture.merged.next(PORTION, first).await.unwrap();
        assert_eq!(events.iter().map(|(slot, _)| *slot).collect::<Vec<_>>(), slots[..1]);
        assert!(fixture.merged.next(PORTION, first).await.unwrap().is_empty());
        let events = fixture.merged.next(PORTION, END).await.unwrap();
        assert_eq!(events.iter().map(|(_, filtered)| filtered.event.revision).collect::<Vec<_>>(), [second]);
    }

    /// A bookmark beyond events that wait in front of their cursor would lose them for a client that resumes from it.
    #[tokio::test]
    async fn there_is_no_position_of_all_while_events_wait() {
        let mut fixture = Fixture::new().await;
        for collection in ["a", "b"] {
            fixture.watch(collection, Revision::ZERO);
        }
        let first = fixture.put("a", "1").await;
        let second = fixture.put("b", "1").await;
        assert_eq!(fixture.merged.next(PORTION, first).await.unwrap().len(), 1);
        assert_eq!(fixture.merged.settle(), None);
        fixture.revisions(1).await;
        assert_eq!(fixture.merged.settle(), Some(second));
    }

    #[tokio::test]
    async fn a_cursor_that_begins_in_the_past_catches_up_before_the_others_go_on() {
        let mut fixture = Fixture::new().await;
        fixture.watch("a", Revision::ZERO);
        fixture.put("b", "1").await;
        fixture.put("a", "1").await;
        assert_eq!(fixture.revisions(1).await.len(), 1);
        let late = fixture.watch("b", Revision::ZERO);
        fixture.put("a", "2").await;
        let events = fixture.merged.next(PORTION, END).await.unwrap();
        assert_eq!(events.first().map(|(slot, _)| *slot), Some(late));
    }

    #[tokio::test]
    async fn a_removed_cursor_does_not_hold_back_the_others() {
        let mut fixture = Fixture::new().await;
        let (kept, removed) = (fixture.watch("a", Revision::ZERO), fixture.watch("b", Revision::ZERO));
        fixture.put("b", "1").await;
        fixture.merged.remove(removed);
        fixture.put("a", "1").await;
        let events = fixture.merged.next(PORTION, END).await.unwrap();
        assert!(events.iter().all(|(slot, _)| *slot == kept) && events.len() == 1);
    }
}
