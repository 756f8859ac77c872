//! [`View`]: the recent events of a collection as one filter sees them, shared by all watchers with that filter.
//!
//! A watcher asks for the events after its position, a [`Portion`] at a time, and waits for [`View::changed`] if
//! there are none. Ten thousand watchers with one filter cost one match per change and ten thousand positions.
//!
//! A view is dropped with its last watcher. Events leave it when the cache's bound on bytes is reached; watchers that
//! are further behind read from `history.rs`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use listwatch_wire::Revision;
use parking_lot::Mutex;
use smallvec::SmallVec;
use tokio::sync::Notify;

use crate::cache::event::{CacheEvent, ChangeKind};
use crate::cache::filter::Filter;
use crate::cache::subject::EventSubjects;

/// An event as one filter sees it: an update may be an ADDED or DELETED for a watcher with a selector. Two words; the
/// event itself is shared with the other filters.
#[derive(Clone, Debug)]
pub struct FilteredEvent {
    /// The change as the watcher sees it.
    pub change: ChangeKind,
    /// The change itself.
    pub event: Arc<CacheEvent>,
}

/// A portion of events, in revision order. Inline up to four: a watcher that keeps up takes one or two, and an idle one has room for them.
pub type FilteredEvents = SmallVec<[FilteredEvent; 4]>;

/// The bounds of the events that a watcher takes at a time. It holds them until its client has read them, so this is
/// the memory of a slow watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Portion {
    /// The most events of a portion.
    pub events: usize,
    /// Bytes of objects after which no further event is added. A portion has at least one event.
    pub bytes: usize,
}

impl Portion {
    /// The number of events it takes.
    pub(super) fn of<'a>(self, events: impl Iterator<Item = &'a FilteredEvent>) -> usize {
        let mut bytes = 0;
        let fits = |filtered: &&FilteredEvent| {
            let fits = bytes == 0 || bytes < self.bytes;
            bytes += filtered.bytes();
            fits
        };
        events.take(self.events.max(1)).take_while(fits).count()
    }
}

impl FilteredEvent {
    /// The size that a response grows by, without the frame around it.
    fn bytes(&self) -> usize {
        self.event.subject(self.change).map_or(0, |object| object.stored().len())
    }
}

/// The recent events of a collection as one filter sees them.
///
/// A watcher holds nothing but its position: it reads the events after it, and waits for [`View::changed`] when that
/// is nothing. However many watchers there are, a change is matched once and waited for in one place.
#[derive(Debug)]
pub struct View {
    /// The filter of all its watchers.
    filter: Filter,
    /// Held to append an event or to copy a portion, never across an await.
    recent: Mutex<RecentEvents>,
    /// Wakes the watchers, once per batch of changes.
    changed: Notify,
    /// The number of watchers of the view; at zero the collection drops it.
    watchers: AtomicUsize,
    /// Set when its watches are to end: the server stops, or the kind is no longer served.
    closed: AtomicBool,
    /// Set from the first event that its watchers have not been woken for until they are.
    to_wake: AtomicBool,
}

/// In the order of revisions. Events leave at the front when the cache needs their memory.
#[derive(Debug)]
struct RecentEvents {
    /// Every event after this revision is here.
    floor: Revision,
    events: VecDeque<FilteredEvent>,
}

/// The position is older than what the view has: the events must be read from the log or the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behind {
    /// From here on the view has everything.
    pub floor: Revision,
}

impl View {
    /// An empty view that has every event after `floor`.
    pub(crate) fn new(filter: Filter, floor: Revision) -> Self {
        Self {
            filter,
            recent: Mutex::new(RecentEvents { floor, events: VecDeque::new() }),
            changed: Notify::new(),
            watchers: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            to_wake: AtomicBool::new(false),
        }
    }

    /// The filter that all its watchers have.
    #[must_use]
    pub fn filter(&self) -> &Filter {
        &self.filter
    }

    /// The events after a position.
    ///
    /// # Errors
    /// [`Behind`] if the position is older than what is kept.
    pub fn after(&self, position: Revision, portion: Portion) -> Result<FilteredEvents, Behind> {
        let recent = self.recent.lock();
        if position < recent.floor {
            return Err(Behind { floor: recent.floor });
        }
        // A watcher that keeps up finds its place at the very end; only one that lags has to search.
        let events = &recent.events;
        let start = match events.back() {
            Some(last) if last.event.revision > position => {
                events.partition_point(|filtered| filtered.event.revision <= position)
            }
            _ => return Ok(FilteredEvents::new()),
        };
        let end = start + portion.of(events.range(start..));
        Ok(events.range(start..end).cloned().collect())
    }

    /// The number of events after a position, and the time of the first of them.
    ///
    /// # Errors
    /// [`Behind`] if the position is older than what is kept.
    pub fn pending(&self, position: Revision) -> Result<(usize, Option<Instant>), Behind> {
        let recent = self.recent.lock();
        if position < recent.floor {
            return Err(Behind { floor: recent.floor });
        }
        let start = recent.events.partition_point(|filtered| filtered.event.revision <= position);
        Ok((recent.events.len() - start, recent.events.get(start).map(|filtered| filtered.event.seen)))
    }

    /// Resolves at the next change. Must be created before asking [`View::after`], so that nothing falls in between.
    pub fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.changed.notified()
    }

    /// Wakes the watchers. A watcher that is awake already is not in the list and is not woken again.
    pub(crate) fn wake(&self) {
        self.to_wake.store(false, Ordering::Release);
        self.changed.notify_waiters();
    }

    /// Returns true if its watches should end.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Ends its watches: they return the remaining events and then end. It cannot be opened again.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.wake();
    }

    /// Drops all events: the view has every event after `floor` from now on.
    pub(crate) fn reset(&self, floor: Revision) {
        let mut recent = self.recent.lock();
        recent.events.clear();
        recent.floor = floor;
        drop(recent);
        self.wake();
    }

    /// Adds an event if the filter sees it. Returns true if the watchers are to be woken now and were not before.
    pub(super) fn offer(
        &self,
        event: &Arc<CacheEvent>,
        subjects: &EventSubjects<'_>,
        keep_after: Revision,
    ) -> bool {
        let Some(change) = subjects.change_for(&self.filter) else { return false };
        let mut recent = self.recent.lock();
        recent.trim(keep_after);
        recent.events.push_back(FilteredEvent { change, event: Arc::clone(event) });
        !self.to_wake.swap(true, Ordering::AcqRel)
    }

    /// Makes the view reach back to `floor`, given all events between there and its present floor, oldest first.
    pub(crate) fn extend_back<'a>(
        &self,
        floor: Revision,
        events: impl DoubleEndedIterator<Item = &'a Arc<CacheEvent>>,
    ) {
        let mut recent = self.recent.lock();
        for event in events.rev() {
            if event.revision > recent.floor {
                continue;
            }
            if let Some(change) = event.change_for(&self.filter) {
                recent.events.push_front(FilteredEvent { change, event: Arc::clone(event) });
            }
        }
        recent.floor = recent.floor.min(floor);
    }

    /// Drops the events that the log has dropped.
    pub(crate) fn trim(&self, keep_after: Revision) {
        self.recent.lock().trim(keep_after);
    }

    /// Every event after this revision that the filter sees is in the view.
    pub(crate) fn floor(&self) -> Revision {
        self.recent.lock().floor
    }

    /// Counts one watcher more.
    pub(crate) fn enter(&self) {
        self.watchers.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one watcher less. Returns true if it was the last one.
    pub(crate) fn leave(&self) -> bool {
        self.watchers.fetch_sub(1, Ordering::Relaxed) == 1
    }

    /// Returns true if it has no watchers.
    pub(crate) fn is_unused(&self) -> bool {
        self.watchers.load(Ordering::Relaxed) == 0
    }
}

impl RecentEvents {
    /// Drops events up to a revision that all watchers have passed.
    fn trim(&mut self, keep_after: Revision) {
        while let Some(filtered) = self.events.front() {
            if filtered.event.revision > keep_after {
                return;
            }
            self.floor = self.floor.max(filtered.event.revision);
            self.events.pop_front();
        }
    }
}
