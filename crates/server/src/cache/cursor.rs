//! [`Cursor`]: the position of one watcher in the log of a collection.
//!
//! A watcher is this position and a pointer to a shared [`View`]; there is no queue per watcher that could fill up. A
//! position that is older than the events in memory is served from the engine's log (`history.rs`) until it has
//! caught up. Only when the engine has compacted that part, the watch ends with 410.
//!
//! In kube-apiserver this is the cacheWatcher, which has a bounded channel and is closed when that is full. Next: `view.rs`.

use std::pin::pin;
use std::sync::Arc;

use listwatch_wire::Revision;

use crate::cache::Cache;
use crate::cache::collection::Collection;
use crate::cache::filter::Filter;
use crate::cache::history::History;
use crate::cache::view::{FilteredEvents, Portion, View};

/// The reason why a watch cannot continue. Clients see `Expired` as 410 and list again; the others end the stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// History no longer reaches back to the position: the client must list again.
    #[error("too old resource version: {asked} ({oldest})")]
    Expired {
        /// The position.
        asked: Revision,
        /// The oldest revision that history reaches back to.
        oldest: Revision,
    },
    /// The watch ends normally: the server stops, or the kind is no longer served.
    #[error("the watch has ended")]
    Ended,
    /// The store failed.
    #[error("{0}")]
    Failed(String),
}

/// A watcher: its position in the log and the view it reads through. A few hundred bytes however slow its client is;
/// dropping it leaves the view.
#[doc(alias = "cacheWatcher")]
#[derive(Debug)]
pub struct Cursor {
    /// For the position of the cache, and for the engine when the cursor is behind.
    cache: Arc<Cache>,
    collection: Arc<Collection>,
    /// The view shared with all watchers of an equal filter.
    view: Arc<View>,
    /// Everything up to this revision was returned or does not match.
    position: Revision,
    /// Set while the position is older than what is in memory.
    history: Option<Box<History>>,
}

impl Cursor {
    /// Opens the view of the filter. The position is not checked: the first read finds out if history still has it.
    pub(super) fn new(
        cache: Arc<Cache>,
        collection: Arc<Collection>,
        filter: Filter,
        position: Revision,
    ) -> Self {
        let view = collection.open(filter, position);
        Self { cache, collection, view, position, history: None }
    }

    /// Every event up to here has been delivered or does not match the filter.
    #[must_use]
    pub fn position(&self) -> Revision {
        self.position
    }

    /// The view that the watcher reads.
    #[must_use]
    pub fn view(&self) -> &Arc<View> {
        &self.view
    }

    /// Waits for the next events. Dropping the future loses nothing.
    ///
    /// # Errors
    /// [`Lost`] when there will be no more.
    #[expect(clippy::manual_async_fn, reason = "an async fn holds its arguments twice, in every idle watch")]
    pub fn next(
        &mut self,
        portion: Portion,
    ) -> impl Future<Output = Result<FilteredEvents, Lost>> + Send + use<'_> {
        async move {
            loop {
                // A busy view has something most of the time: look before getting in line to be woken.
                let Some(polled) = self.poll_memory(portion) else { break };
                if let Some(events) = polled? {
                    return Ok(events);
                }
                let view = Arc::clone(&self.view);
                let mut changed = pin!(view.changed());
                changed.as_mut().enable();
                let Some(polled) = self.poll_memory(portion) else { break };
                if let Some(events) = polled? {
                    return Ok(events);
                }
                changed.await;
            }
            // Boxed: few cursors read history, and every idle one would carry its state.
            Box::pin(self.read_history(portion)).await.map(Option::unwrap_or_default)
        }
    }

    /// Advances the position over events that the filter does not see. Returns the position if nothing is waiting to
    /// be sent: then it may be sent as a bookmark. `None` if a bookmark now would skip events.
    pub fn settle(&mut self) -> Option<Revision> {
        let reached = self.cache.position().get();
        match self.view.pending(self.position) {
            Ok((0, _)) if self.history.is_none() => {
                self.position = self.position.max(reached);
                Some(self.position)
            }
            _ => None,
        }
    }

    /// Returns the events that are there now: from the view, else from the log through the view, else from the
    /// engine. `None` if they have to be waited for; an empty portion if there is more to read.
    pub(super) async fn poll(&mut self, portion: Portion) -> Result<Option<FilteredEvents>, Lost> {
        match self.poll_memory(portion) {
            Some(outcome) => outcome,
            None => Box::pin(self.read_history(portion)).await,
        }
    }

    /// Returns the events that the view or the log has now; `None` if they are only in the engine.
    fn poll_memory(&mut self, portion: Portion) -> Option<Result<Option<FilteredEvents>, Lost>> {
        if self.history.is_some() {
            return None;
        }
        // Read first: events that were published before the end are still delivered.
        let closed = self.view.is_closed();
        // In this order: events are in the view before the position covers them.
        let reached = self.cache.position().get();
        match self.view.after(self.position, portion) {
            Ok(events) => return Some(self.take(events, reached, closed)),
            Err(_) if closed => return Some(Err(Lost::Ended)),
            Err(_) => self.collection.extend_back(&self.view, self.position),
        }
        let events = self.view.after(self.position, portion).ok()?;
        Some(self.take(events, reached, closed))
    }

    /// Moves the cursor past what it returns. Without events it moves to the end of the view, so that an idle watcher
    /// does not hold old events.
    fn take(
        &mut self,
        events: FilteredEvents,
        reached: Revision,
        closed: bool,
    ) -> Result<Option<FilteredEvents>, Lost> {
        match events.last() {
            Some(last) => self.position = last.event.revision,
            None if closed => return Err(Lost::Ended),
            None => self.position = self.position.max(reached),
        }
        Ok((!events.is_empty()).then_some(events))
    }

    /// Reads a portion from the engine, and goes over to the view once history has been read up to where the view
    /// begins.
    async fn read_history(&mut self, portion: Portion) -> Result<Option<FilteredEvents>, Lost> {
        if self.history.is_none() {
            self.history = Some(History::open(&self.cache, &self.collection, self.position).await?);
        }
        let Some(history) = &mut self.history else { return Ok(None) };
        let events = history.next(self.view.filter(), portion).await?;
        self.position = self.position.max(history.position());
        if history.is_drained() && self.position >= self.view.floor() {
            self.history = None;
        }
        // Do not wait if this is empty: either there is more history, or the view continues from here.
        Ok(Some(events))
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        self.collection.close(&self.view);
    }
}
