//! Saving the cache: choosing the moment that is saved, and the blocking task that writes it.
//!
//! The capture is taken under the processor's lock, so that the store, the positions of the sources and the unread
//! events of the handlers belong together; a snapshot makes that a matter of microseconds. If the informer stops
//! without draining, the moment before the backlogs were dropped is saved: the next process delivers the events that
//! this one did not.
//!
//! File format and checks are in [`warm`](crate::warm).

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::InformerCore;
use super::positions::Positions;
use crate::lister_watcher::Partition;
use crate::processor::backlog::RemovalEnd;
use crate::processor::registry::Processor;
use crate::reflector::{Problem, ProblemResponse};
use crate::warm::{Capture, HandlerMark, Restored, WarmError};

impl<K: Send + Sync + 'static> InformerCore<K> {
    /// Drops the unread events of handlers, after capturing them for the last save.
    pub(super) fn discard(&self) {
        let mut processor = self.processor.lock();
        if self.saver.is_some() && !processor.closed {
            let capture = self.capture_with(&processor, &self.positions.lock());
            *self.last.lock() = Some(Arc::new(capture));
        }
        processor.close(RemovalEnd::Discard);
    }

    /// Captures one moment: the store, the positions, and what each handler has not read. The caller holds both
    /// locks, so that the three belong together.
    fn capture_with(&self, processor: &Processor<K>, positions: &Positions) -> Capture<K> {
        let snapshot = self.store.snapshot();
        let max = self.saver.as_ref().map_or(0, |saver| saver.options.max_unread);
        let marks = processor.listeners().filter_map(|listener| {
            let name = listener.mark_name()?.to_owned();
            Some(HandlerMark::new(name, listener.backlog.unread(), &snapshot, max))
        });
        let marks = marks.collect();
        Capture { positions: positions.saved(), changes: positions.changes, marks, snapshot }
    }

    /// The moment before what was unread was dropped, or now.
    fn capture(&self) -> Arc<Capture<K>> {
        let processor = self.processor.lock();
        if let Some(last) = &*self.last.lock() {
            return Arc::clone(last);
        }
        Arc::new(self.capture_with(&processor, &self.positions.lock()))
    }

    /// Begins to write the present state. None if there is nothing to save, or nowhere.
    pub(super) fn save(self: &Arc<Self>) -> Option<JoinHandle<()>> {
        let capture = self.saver.as_ref().map(|_| self.capture())?;
        let core = Arc::clone(self);
        let runtime = Handle::try_current().ok()?;
        Some(runtime.spawn_blocking(move || core.write(&capture)))
    }

    /// Writes the present state before it returns.
    pub(super) fn save_now(self: &Arc<Self>) {
        if self.saver.is_some() {
            self.write(&self.capture());
        }
    }

    fn write(self: &Arc<Self>, capture: &Capture<K>) {
        let Some(saver) = self.saver.as_ref().filter(|_| !capture.positions.is_empty()) else { return };
        if let Err(error) = saver.save(capture) {
            self.monitor.problem(0, &Problem::SavedCache(error), ProblemResponse::Continues);
        }
    }

    /// Checks that a saved cache is of the same collections. Namespaces that are followed are read again as they were,
    /// until it is known which of them are still to be followed.
    pub(super) fn adopt(&self, restored: Restored<K>) -> Result<Restored<K>, WarmError> {
        let mut source_set = self.source_set.lock();
        let follows = source_set.open.as_ref().filter(|open| open.follow.is_some());
        if let Some(make) = follows.map(|open| Arc::clone(&open.make)) {
            for namespace in restored.positions.iter().filter_map(|saved| saved.namespace.as_deref()) {
                if !source_set.has(namespace) {
                    let partition = Partition { namespace: Some(namespace.into()), source: make(namespace) };
                    self.add_source(&mut source_set, partition);
                }
            }
        }
        match self.positions.lock().other_scope(&restored.positions) {
            Some((saved, wanted)) => Err(WarmError::OtherScope { saved: saved.scope.clone(), wanted }),
            None => Ok(restored),
        }
    }
}
