//! The task that applies what the reflectors bring, and winds everything down at the end.

use std::sync::Arc;
use std::time::Duration;

use listwatch_wire::Revision;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::{Core, apply};
use crate::delta::{Batch, Delta};
use crate::lister_watcher::{Partition, Sources};
use crate::processor::backlog::Replay;
use crate::reflector::{Problem, Reflector, ReflectorOptions, Response, Transform};
use crate::store::StoreWriter;

/// What is needed once, at the start.
pub(super) struct Unstarted<K> {
    pub(super) sources: Sources,
    pub(super) reflector: ReflectorOptions,
    pub(super) transform: Option<Arc<Transform<K>>>,
    pub(super) writer: StoreWriter<K>,
}

pub(super) fn start<K: Send + Sync + 'static>(runtime: &Handle, core: Arc<Core<K>>, unstarted: Unstarted<K>) {
    let Unstarted { sources: Sources(partitions), reflector, transform, writer } = unstarted;
    let mut reflectors = JoinSet::new();
    for (position, partition) in partitions.iter().enumerate() {
        let (source, queue) = (Arc::clone(&partition.source), Arc::clone(&core.queue));
        let reflector = Reflector::new(source, queue, position, reflector.clone())
            .transform(transform.clone())
            .monitor(Arc::clone(&core.monitor));
        reflectors.spawn_on(reflector.run(core.stop.clone()), runtime);
    }
    let queue = Arc::clone(&core.queue);
    runtime.spawn(async move {
        // Also when a reflector panics: an informer that silently stopped listening would be worse than a stopped one.
        while reflectors.join_next().await.is_some() {}
        queue.close();
    });
    let revisions = vec![None; partitions.len()];
    let informer = Loop { core, partitions, revisions, writer, started: Instant::now() };
    runtime.spawn(informer.run());
}

struct Loop<K> {
    core: Arc<Core<K>>,
    partitions: Vec<Partition>,
    /// Where each source stands; none before its first state.
    revisions: Vec<Option<Revision>>,
    writer: StoreWriter<K>,
    started: Instant,
}

/// Says that the informer has ended, even if its task is dropped with its runtime.
struct Ended<K>(Arc<Core<K>>);

impl<K> Drop for Ended<K> {
    fn drop(&mut self) {
        let how = *self.0.ending.lock();
        self.0.processor.lock().close(how);
        self.0.stopped.send_replace(true);
    }
}

impl<K: Send + Sync + 'static> Loop<K> {
    async fn run(mut self) {
        let _ended = Ended(Arc::clone(&self.core));
        let core = Arc::clone(&self.core);
        let mut resync_at: Option<Instant> = None;
        loop {
            tokio::select! {
                biased;
                batch = core.queue.pop_batch() => match batch {
                    Some(batch) => self.apply(batch),
                    None => return,
                },
                () = core.resync_changed.notified() => resync_at = self.resync(),
                () = sleep_until(resync_at.unwrap_or(self.started)), if resync_at.is_some() => {
                    resync_at = self.resync();
                }
            }
            // A source that always has more must not keep the runtime's thread to itself.
            tokio::task::coop::consume_budget().await;
        }
    }

    fn apply(&mut self, batch: Batch<K>) {
        let Batch { source, mut deltas } = batch;
        if matches!(deltas.as_slice(), [barrier] if barrier.is_barrier()) {
            if let Some(Delta::Replaced { objects, revision }) = deltas.pop() {
                self.replace(source, objects, revision);
            } else {
                self.core.processor.lock().resync_all(&self.core.store.snapshot());
            }
            return;
        }
        let processor = self.core.processor.lock();
        let applied = apply::changes(&mut self.writer, deltas);
        advance(&mut self.revisions, &mut self.writer, source, applied.revision);
        processor.publish(applied.events);
        drop(processor);
        self.report(applied.problems);
    }

    fn replace(&mut self, source: usize, objects: Vec<crate::object::Object<K>>, revision: Revision) {
        let namespace = self.partitions.get(source).and_then(|partition| partition.namespace.clone());
        let first = self.revisions.get(source).is_none_or(Option::is_none);
        let processor = self.core.processor.lock();
        let applied = apply::replace(&mut self.writer, namespace.as_deref(), objects, revision, first);
        advance(&mut self.revisions, &mut self.writer, source, applied.revision);
        if first {
            // Everybody reads the initial state from the same snapshot; nothing is copied for anybody.
            let snapshot = self.core.store.snapshot();
            for listener in processor.listeners() {
                listener.backlog.replay(Replay { snapshot: snapshot.clone(), namespace: namespace.clone() });
            }
        } else {
            processor.publish(applied.events);
        }
        if self.revisions.iter().all(Option::is_some) && !self.core.synced.send_replace(true) {
            processor.listeners().for_each(|listener| listener.backlog.initial_complete());
        }
        drop(processor);
        self.report(applied.problems);
    }

    fn report(&self, problems: Vec<crate::store::IndexError>) {
        for problem in problems {
            self.core.monitor.problem(&Problem::Index(problem), Response::Continues);
        }
    }

    /// Tells what is due, and returns when something will be due again.
    fn resync(&mut self) -> Option<Instant> {
        let now = self.started.elapsed();
        let mut processor = self.core.processor.lock();
        let next: Option<Duration> = processor.resync(&self.core.store, now);
        next.map(|at| self.started + at)
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
