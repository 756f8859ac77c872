//! [`Applier`]: what the reflectors bring becomes the content of the store, and events for the handlers.

use std::sync::Arc;

use listwatch_wire::Revision;

use super::{Core, apply};
use crate::delta::{Batch, Delta, last_revision};
use crate::lister_watcher::Partition;
use crate::object::Object;
use crate::processor::backlog::Replay;
use crate::reflector::{Problem, Response};
use crate::store::{IndexError, StoreWriter};

/// The only one who writes to an informer's store.
pub(super) struct Applier<K> {
    pub(super) core: Arc<Core<K>>,
    pub(super) partitions: Vec<Partition>,
    /// Where each source stands; none before its first state.
    pub(super) revisions: Vec<Option<Revision>>,
    pub(super) writer: StoreWriter<K>,
}

impl<K: Send + Sync + 'static> Applier<K> {
    /// Applies deltas that the reflector hands over in order, without a queue between.
    pub(super) fn apply_all(&mut self, source: usize, deltas: Vec<Delta<K>>) {
        let mut changes = Vec::with_capacity(deltas.len());
        for delta in deltas {
            if delta.is_barrier() {
                self.apply_in_order(source, std::mem::take(&mut changes));
                self.barrier(source, delta);
            } else {
                changes.push(delta);
            }
        }
        self.apply_in_order(source, changes);
    }

    fn apply_in_order(&mut self, source: usize, deltas: Vec<Delta<K>>) {
        let revision = last_revision(&deltas);
        self.changes(source, deltas, revision);
    }

    /// Applies what was popped from the queue: changes, or a barrier alone.
    pub(super) fn apply_batch(&mut self, batch: Batch<K>) {
        let Batch { source, mut deltas, revision } = batch;
        if deltas.last().is_some_and(Delta::is_barrier) {
            return deltas.pop().into_iter().for_each(|delta| self.barrier(source, delta));
        }
        self.changes(source, deltas, revision);
    }

    fn barrier(&mut self, source: usize, delta: Delta<K>) {
        if let Delta::Replaced { objects, revision, restarted } = delta {
            self.replace(source, objects, revision, restarted);
        } else {
            self.core.processor.lock().resync_all(&self.core.store.snapshot());
        }
    }

    fn changes(&mut self, source: usize, deltas: Vec<Delta<K>>, revision: Option<Revision>) {
        if deltas.is_empty() {
            return;
        }
        // Only a replacement may take the store back.
        let revision = revision.max(self.revisions.get(source).copied().flatten());
        let processor = self.core.processor.lock();
        let applied = apply::changes(&mut self.writer, deltas);
        advance(&mut self.revisions, &mut self.writer, source, revision);
        processor.publish(applied.events);
        drop(processor);
        self.report(source, applied.problems);
    }

    fn replace(&mut self, source: usize, objects: Vec<Object<K>>, revision: Revision, restarted: bool) {
        let namespace = self.partitions.get(source).and_then(|partition| partition.namespace.clone());
        let first = self.revisions.get(source).is_none_or(Option::is_none);
        let processor = self.core.processor.lock();
        let count = objects.len();
        let list = apply::List { namespace: namespace.as_deref(), objects, restarted };
        let applied = apply::replace(&mut self.writer, list, first);
        advance(&mut self.revisions, &mut self.writer, source, Some(revision));
        if first {
            // Everybody reads the initial state from the same snapshot; nothing is copied for anybody.
            let snapshot = self.core.store.snapshot();
            for listener in processor.listeners() {
                listener.replay(Replay { snapshot: snapshot.clone(), namespace: namespace.clone(), count });
            }
        } else {
            processor.publish(applied.events);
        }
        if self.revisions.iter().all(Option::is_some) && !self.core.synced.send_replace(true) {
            processor.listeners().for_each(|listener| listener.backlog.initial_complete());
        }
        drop(processor);
        self.report(source, applied.problems);
    }

    fn report(&self, source: usize, problems: Vec<IndexError>) {
        for problem in problems {
            self.core.monitor.problem(source, &Problem::Index(problem), Response::Continues);
        }
    }
}

/// The store stands where the slowest of its sources stands.
fn advance<K>(
    revisions: &mut [Option<Revision>],
    writer: &mut StoreWriter<K>,
    source: usize,
    revision: Option<Revision>,
) {
    let Some(revision) = revision else { return };
    if let Some(slot) = revisions.get_mut(source) {
        *slot = Some(revision);
    }
    if let Some(slowest) = revisions.iter().copied().min().flatten() {
        writer.advance(slowest);
    }
}
