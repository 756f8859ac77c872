//! The tasks of an informer: who reflects, who applies, and who winds everything down at the end.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::Core;
use super::applier::Applier;
use crate::delta::Form;
use crate::lister_watcher::Sources;
use crate::processor::backlog::End;
use crate::reflector::{Reflector, ReflectorOptions, Transform};
use crate::store::StoreWriter;

/// The parts that the start takes.
pub(super) struct Unstarted<K> {
    pub(super) sources: Sources,
    pub(super) reflector: ReflectorOptions,
    pub(super) transform: Option<Arc<Transform<K>>>,
    pub(super) writer: StoreWriter<K>,
}

pub(super) fn start<K: Send + Sync + 'static>(runtime: &Handle, core: Arc<Core<K>>, unstarted: Unstarted<K>) {
    let Unstarted { sources: Sources(partitions), reflector: options, transform, writer } = unstarted;
    let mut reflectors: Vec<_> = partitions
        .iter()
        .enumerate()
        .map(|(position, partition)| {
            let (source, queue) = (Arc::clone(&partition.source), Arc::clone(&core.queue));
            Reflector::new(source, queue, position, options.clone())
                .transform(transform.clone())
                .monitor(Arc::clone(&core.monitor))
        })
        .collect();
    let revisions = vec![None; partitions.len()];
    let mut applier = Some(Applier { core: Arc::clone(&core), partitions, revisions, writer });
    // With one source there is nobody to take turns with, and keys in order need no queue to be put in order: the
    // reflector's own task applies what it reads, and no other has to be woken for it.
    if let ([_], Form::InOrder) = (reflectors.as_slice(), core.queue.form()) {
        let direct = reflectors.pop().zip(applier.take());
        reflectors.extend(direct.map(|(reflector, mut applier)| {
            reflector.apply(Box::new(move |deltas| applier.apply_all(0, deltas)))
        }));
    }
    reflect(runtime, &core, reflectors);
    runtime.spawn(Loop { core, applier, started: Instant::now() }.run());
}

fn reflect<K: Send + Sync + 'static>(runtime: &Handle, core: &Core<K>, reflectors: Vec<Reflector<K>>) {
    let mut running = JoinSet::new();
    for reflector in reflectors {
        running.spawn_on(reflector.run(core.stop.clone()), runtime);
    }
    let queue = Arc::clone(&core.queue);
    runtime.spawn(async move {
        while running.join_next().await.is_some() {}
        queue.close();
    });
}

/// Applies what is queued, keeps the resyncs, and knows when all is over.
struct Loop<K> {
    core: Arc<Core<K>>,
    /// None if the reflector applies.
    applier: Option<Applier<K>>,
    started: Instant,
}

/// Says that the informer has ended, even if its task is dropped with its runtime.
struct Ended<K>(Arc<Core<K>>);

impl<K> Drop for Ended<K> {
    fn drop(&mut self) {
        let how = self.0.ending.lock().unwrap_or(End::Discard);
        // Nobody applies any more, so nobody shall read: also if this task panicked or was dropped with its runtime.
        self.0.stop.cancel();
        self.0.queue.close();
        self.0.processor.lock().close(how);
        self.0.monitor.stopped();
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
                batch = core.queue.pop_batch() => match (batch, &mut self.applier) {
                    (Some(batch), Some(applier)) => applier.apply_batch(batch),
                    _ => return,
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

    /// Tells what is due, and returns when something will be due again.
    fn resync(&mut self) -> Option<Instant> {
        let now = self.started.elapsed();
        let mut processor = self.core.processor.lock();
        let next: Option<Duration> = processor.resync(&self.core.store, now);
        next.map(|at| self.started + at)
    }
}
