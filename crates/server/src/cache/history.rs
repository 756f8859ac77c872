//! [`History`]: events that are older than those in memory, read from the engine's log.
//!
//! Each lagging watcher reads separately: old events are needed rarely, by few watchers, and at different positions, so
//! sharing them would cost memory without a benefit. Nothing is kept once a watcher has caught up; then its
//! [`super::Cursor`] continues with the view.

use std::collections::VecDeque;
use std::sync::Arc;

use listwatch_storage::{Changes, Error};
use listwatch_wire::Revision;

use crate::cache::Cache;
use crate::cache::collection::Collection;
use crate::cache::cursor::Lost;
use crate::cache::event::CacheEvent;
use crate::cache::filter::Filter;
use crate::cache::view::{FilteredEvent, FilteredEvents, Portion};

/// A reader of the engine's log for one watcher that is behind, until it has caught up with the events in memory.
/// Nothing of it is shared.
#[derive(Debug)]
pub(crate) struct History {
    changes: Box<dyn Changes>,
    collection: Arc<Collection>,
    /// Read but not yet delivered.
    waiting: VecDeque<FilteredEvent>,
    /// The last revision that was read.
    read: Revision,
    handed: Revision,
}

impl History {
    /// Opens the engine's log after a revision.
    ///
    /// # Errors
    /// [`Lost::Expired`] if the engine has compacted that part.
    pub(crate) async fn open(
        cache: &Arc<Cache>,
        collection: &Arc<Collection>,
        after: Revision,
    ) -> Result<Box<Self>, Lost> {
        let changes = cache.engine().changes(after).await.map_err(|error| lost(error, after))?;
        let collection = Arc::clone(collection);
        Ok(Box::new(Self { changes, collection, waiting: VecDeque::new(), read: after, handed: after }))
    }

    /// The next events; none if a stretch of the log held nothing of interest.
    pub(crate) async fn next(&mut self, filter: &Filter, portion: Portion) -> Result<FilteredEvents, Lost> {
        if self.waiting.is_empty() {
            let batch = self.changes.next().await.map_err(|error| lost(error, self.read))?;
            for change in batch.changes.iter().filter(|c| c.key.starts_with(self.collection.prefix())) {
                self.waiting.extend(self.event(change, filter));
            }
            self.read = batch.upto;
        }
        let events: FilteredEvents = self.waiting.drain(..portion.of(self.waiting.iter())).collect();
        self.handed = match events.last() {
            Some(last) if !self.waiting.is_empty() => last.event.revision,
            _ => self.read,
        };
        Ok(events)
    }

    /// The revision up to which everything has been returned or did not match.
    pub(crate) fn position(&self) -> Revision {
        self.handed
    }

    /// Returns true if nothing that was read waits to be returned: only then may the watcher continue with its view.
    pub(crate) fn is_drained(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns the event that a watch with this filter sees for a stored change, if any.
    fn event(&self, change: &listwatch_storage::Change, filter: &Filter) -> Option<FilteredEvent> {
        let version = |(revision, value)| self.collection.object(&change.key, value, revision);
        let object = change.value.clone().and_then(|value| version((change.revision, value)));
        let previous = change.previous.clone().and_then(version);
        let event = CacheEvent::new(change.revision, object, previous);
        // It was never in the log of the cache, so its frames do not count against the log's bound.
        event.leave_log();
        let seen = event.change_for(filter)?;
        Some(FilteredEvent { change: seen, event: Arc::new(event) })
    }
}

/// Sorts an error by what the watcher receives: 410 if a list helps, the end of the stream if the server stops, else
/// the error.
fn lost(error: Error, asked: Revision) -> Lost {
    match error {
        Error::Compacted { oldest, .. } => Lost::Expired { asked, oldest },
        Error::Closed => Lost::Ended,
        // History has a hole here; the present state is read another way.
        Error::Corrupt(_) => Lost::Expired { asked, oldest: asked.next() },
        error => Lost::Failed(error.to_string()),
    }
}
