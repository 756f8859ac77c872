//! [`InformerCore`]: the state that the tasks of an informer and its handles share, and its shutdown when the last
//! handle is dropped.
//!
//! Locks are taken in one order: source set, processor, positions. The lock of the processor covers both changing the
//! store and queueing the events of the change, so that a handler that joins sees a snapshot and exactly the changes
//! after it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::error::InformerError;
use super::positions::Positions;
use super::run;
use super::source_set::SourceSet;
use crate::delta::DeltaQueue;
use crate::monitor::Monitor;
use crate::processor::HandlerOptions;
use crate::processor::backlog::{RemovalEnd, Replay};
use crate::processor::registry::{Listener, Processor};
use crate::store::Store;
use crate::sync::Mutex;
use crate::warm::{Capture, Saver};

/// The part shared by the tasks of an informer and its handles.
pub(crate) struct InformerCore<K> {
    pub(crate) store: Store<K>,
    /// Also guards the order between changing the store and telling of it; see [`Processor`].
    pub(crate) processor: Mutex<Processor<K>>,
    pub(crate) queue: Arc<DeltaQueue<K>>,
    /// Changed only under the lock of the processor, except for the first state of a source.
    pub(crate) positions: Mutex<Positions>,
    /// Wakes waiters when a namespace is added or removed.
    pub(crate) moved: watch::Sender<()>,
    /// Locked before the others.
    pub(crate) source_set: Mutex<SourceSet<K>>,
    /// Set if the cache is saved.
    pub(crate) saver: Option<Arc<Saver>>,
    /// The state to save last: as it was before unread events were dropped.
    pub(crate) last: Mutex<Option<Arc<Capture<K>>>>,
    pub(crate) monitor: Arc<Monitor>,
    pub(crate) resync: Option<Duration>,
    /// The store holds a complete state, be it a saved one.
    pub(crate) usable: watch::Sender<bool>,
    pub(crate) synced: watch::Sender<bool>,
    pub(crate) stopped: watch::Sender<bool>,
    /// Ends the reflectors; the rest follows when the queue is empty.
    pub(crate) stop: CancellationToken,
    /// None if `stop` and `drain` were not called: when its last handle is dropped, what is unread is dropped too.
    pub(crate) ending: Mutex<Option<RemovalEnd>>,
    /// A handler with a resync period joined.
    pub(crate) resync_changed: Notify,
    /// The parts that [`start`](super::SharedInformer::start) takes.
    pub(super) unstarted: Mutex<Option<run::Unstarted<K>>>,
}

impl<K> InformerCore<K> {
    /// Marks the initial state as complete, if it is.
    pub(crate) fn settle(&self) {
        self.moved.send_replace(());
        let processor = self.processor.lock();
        if self.positions.lock().all_current() && !self.synced.send_replace(true) {
            self.usable.send_replace(true);
            processor.listeners().for_each(|listener| listener.backlog.initial_complete());
            // From now on a handler needs resyncs.
            self.resync_changed.notify_one();
        }
    }

    /// Ends an informer that was never started: its handlers have nothing more to wait for.
    pub(super) fn end_unstarted(&self, how: RemovalEnd) {
        if self.unstarted.lock().take().is_some() {
            self.processor.lock().close(how);
            self.monitor.stopped();
            self.stopped.send_replace(true);
        }
    }

    /// Adds a handler. The snapshot it starts from and the first change after it fit together exactly.
    pub(super) fn join(
        &self,
        mut options: HandlerOptions,
        polled: bool,
    ) -> Result<Arc<Listener<K>>, InformerError> {
        options.resync = options.resync.or(self.resync).filter(|period| !period.is_zero());
        let resyncs = options.resync.is_some();
        let mut processor = self.processor.lock();
        if processor.closed {
            return Err(InformerError::Stopped);
        }
        let listener = processor.join(options, polled);
        let snapshot = self.store.snapshot();
        if !snapshot.is_empty() {
            let count = snapshot.len();
            listener.replay(Replay { snapshot, namespace: None, count });
        }
        if *self.synced.borrow() {
            listener.backlog.initial_complete();
        }
        drop(processor);
        if resyncs {
            self.resync_changed.notify_one();
        }
        Ok(listener)
    }
}

/// Stops the informer when the last of its handles, registrations and streams is dropped.
pub(crate) struct StopGuard<K>(pub(super) Arc<InformerCore<K>>);

impl<K> Drop for StopGuard<K> {
    fn drop(&mut self) {
        self.0.stop.cancel();
        self.0.end_unstarted(RemovalEnd::Discard);
    }
}
