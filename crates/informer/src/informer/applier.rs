//! [`Applier`]: applies deltas to the store and publishes events to the handlers. It owns the only [`StoreWriter`].
//!
//! The processor stays locked from the change of the store to the publication of its events. A handler that joins takes
//! the same lock, so it receives a snapshot and then exactly the changes after it. Lock order: processor, then
//! positions, then the store.
//!
//! Barriers take a path of their own: a replacement is compared with the store, a removed namespace is emptied, a
//! resync publishes the snapshot. The first replacement of a source is delivered as a shared snapshot instead of an
//! event per object. The mapping from changes to events is `apply`; positions of sources are `positions`.

use std::sync::Arc;

use listwatch_wire::Revision;

use super::positions::Positions;
use super::{InformerCore, apply};
use crate::delta::{Delta, DeltaBatch, last_revision};
use crate::object::Object;
use crate::processor::backlog::Replay;
use crate::processor::registry::Processor;
use crate::reflector::{Problem, ProblemResponse};
use crate::store::{IndexError, Snapshot, StoreWriter};
use crate::warm::{HandlerMark, Restored};

/// The only writer of an informer's store.
pub(super) struct Applier<K> {
    pub(super) core: Arc<InformerCore<K>>,
    pub(super) writer: StoreWriter<K>,
}

impl<K: Send + Sync + 'static> Applier<K> {
    /// Applies deltas of the reflector in order, without a queue in between.
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
    pub(super) fn apply_batch(&mut self, batch: DeltaBatch<K>) {
        let DeltaBatch { source, mut deltas, revision } = batch;
        if deltas.last().is_some_and(Delta::is_barrier) {
            return deltas.pop().into_iter().for_each(|delta| self.barrier(source, delta));
        }
        self.changes(source, deltas, revision);
    }

    /// Applies a delta that concerns all objects of a source.
    fn barrier(&mut self, source: usize, delta: Delta<K>) {
        match delta {
            Delta::Replaced { objects, revision, restarted } => {
                self.replace(source, objects, revision, restarted);
            }
            Delta::Current => self.current(source),
            Delta::Removed => {
                self.remove(source);
                self.core.positions.lock().free(source);
            }
            _ => self.core.processor.lock().resync_all(&self.core.store.snapshot()),
        }
    }

    /// Applies the deltas of a batch and publishes their events under the lock of the processor: a handler that is
    /// added at the same time sees each change either in its initial snapshot or as an event, never both or neither.
    fn changes(&mut self, source: usize, deltas: Vec<Delta<K>>, revision: Option<Revision>) {
        if deltas.is_empty() {
            return;
        }
        let processor = self.core.processor.lock();
        let mut positions = self.core.positions.lock();
        if !positions.is_active(source) {
            return;
        }
        // Only a replacement may take the store back.
        let revision = revision.max(positions.revision(source));
        let applied = apply::changes(&mut self.writer, deltas);
        positions.changes += applied.events.len() as u64;
        advance(&self.core, &mut positions, &mut self.writer, source, revision);
        drop(positions);
        processor.publish(applied.events);
        drop(processor);
        self.report(source, applied.problems);
    }

    /// Applies a whole list. The first one is delivered as a replay of the snapshot; a later one as the differences,
    /// since handlers have received the rest.
    fn replace(&mut self, source: usize, objects: Vec<Object<K>>, revision: Revision, restarted: bool) {
        let predecessor = self.core.positions.lock().predecessor(source);
        predecessor.into_iter().for_each(|position| self.remove(position));
        let processor = self.core.processor.lock();
        let mut positions = self.core.positions.lock();
        if !positions.is_active(source) {
            return;
        }
        let namespace = positions.namespace(source);
        let synced = *self.core.synced.borrow();
        let initial = positions.is_initial(source, synced);
        let count = objects.len();
        let list = apply::WholeContent { namespace: namespace.as_deref(), objects, restarted };
        let applied = apply::replace(&mut self.writer, list, initial);
        positions.changes += 1;
        advance(&self.core, &mut positions, &mut self.writer, source, Some(revision));
        positions.set_current(source);
        drop(positions);
        if initial {
            // All handlers read the initial state from the same snapshot; nothing is copied.
            let snapshot = self.core.store.snapshot();
            for listener in processor.listeners() {
                listener.replay(Replay { snapshot: snapshot.clone(), namespace: namespace.clone(), count });
            }
        } else {
            processor.publish(applied.events);
        }
        drop(processor);
        self.core.settle();
        self.report(source, applied.problems);
    }

    /// A restored source has received what it missed.
    fn current(&mut self, source: usize) {
        self.core.positions.lock().set_current(source);
        self.core.settle();
    }

    /// Removes the objects of a namespace that was taken away; handlers receive each deletion.
    fn remove(&mut self, source: usize) {
        let processor = self.core.processor.lock();
        let mut positions = self.core.positions.lock();
        let Some(namespace) = positions.empty(source) else { return };
        let list = apply::WholeContent { namespace: Some(&namespace), objects: Vec::new(), restarted: false };
        let applied = apply::replace(&mut self.writer, list, false);
        positions.changes += 1;
        let slowest = positions.slowest(*self.core.synced.borrow());
        slowest.into_iter().for_each(|revision| self.writer.advance(revision));
        drop(positions);
        processor.publish(applied.events);
        drop(processor);
        self.core.settle();
    }

    /// Makes a saved cache the content of the store. Handlers with a mark in it receive the events that they have not
    /// received yet; the others receive everything.
    pub(super) fn restore(&mut self, restored: Restored<K>) -> Restored<K> {
        let Restored { mut objects, positions: saved, mut marks, server } = restored;
        let processor = self.core.processor.lock();
        let mut positions = self.core.positions.lock();
        let wanted = positions.restored(&saved);
        let known =
            |object: &Object<K>| wanted.iter().any(|(_, namespace, _)| covers(namespace.as_deref(), object));
        let dropped: Vec<_> = objects.extract_if(.., |object| !known(object)).collect();
        // The file has them still: it is not what the next save would write.
        positions.changes += u64::from(!dropped.is_empty());
        let problems = self.writer.replace(None, objects).problems;
        for (position, _, revision) in &wanted {
            advance(&self.core, &mut positions, &mut self.writer, *position, Some(*revision));
        }
        let usable = positions.all_have_state();
        drop(positions);
        marks.iter_mut().for_each(|mark| mark.forget(&dropped));
        resume(&processor, &self.core.store.snapshot(), &marks);
        self.core.usable.send_replace(usable);
        drop(processor);
        self.report(0, problems);
        Restored { objects: Vec::new(), positions: saved, marks, server }
    }

    fn report(&self, source: usize, problems: Vec<IndexError>) {
        for problem in problems {
            self.core.monitor.problem(source, &Problem::Index(problem), ProblemResponse::Continues);
        }
    }
}

/// Delivers to each handler what it has not received: by its mark, or everything if it has none that can be used.
fn resume<K: Send + Sync + 'static>(
    processor: &Processor<K>,
    snapshot: &Snapshot<K>,
    marks: &[HandlerMark<K>],
) {
    for listener in processor.listeners() {
        let mark = listener.mark_name().and_then(|name| marks.iter().find(|mark| mark.name == name));
        match mark.and_then(|mark| mark.events(snapshot)) {
            Some(events) => listener.backlog.publish(&events.into()),
            None => {
                let (snapshot, count) = (snapshot.clone(), snapshot.len());
                listener.replay(Replay { snapshot, namespace: None, count });
            }
        }
    }
}

fn covers<K>(namespace: Option<&str>, object: &Object<K>) -> bool {
    namespace.is_none_or(|namespace| object.namespace() == namespace)
}

/// Sets the revision of the store to that of its slowest source.
fn advance<K>(
    core: &InformerCore<K>,
    positions: &mut Positions,
    writer: &mut StoreWriter<K>,
    source: usize,
    revision: Option<Revision>,
) {
    let Some(revision) = revision else { return };
    positions.advance(source, revision);
    if let Some(slowest) = positions.slowest(*core.synced.borrow()) {
        writer.advance(slowest);
    }
}
