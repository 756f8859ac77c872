//! The tasks of an informer: restore, reflect, apply, resync, save, and shut down in that order.
//!
//! With one source and the in-order queue the reflector's task applies deltas itself, and the loop here only resyncs
//! and saves. Else one loop pops the delta queue. On stop the queue closes after the last reflector has ended, so the
//! loop drains everything that was received before it returns.
//!
//! `Ended` signals the end from its `Drop`, because a task also ends when its runtime is dropped or it panics, and
//! `stop` and the handlers would wait for ever. [`Applier`] changes the store; handlers run in `processor::runner`.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::InformerCore;
use super::applier::Applier;
use super::follow;
use super::source_set::Launch;
use crate::delta::Form;
use crate::processor::backlog::RemovalEnd;
use crate::reflector::{Problem, ProblemResponse, ReflectorOptions, Transform};
use crate::store::StoreWriter;
use crate::warm::{self, Restored, Saver, WarmError};

/// The parts that the start takes.
pub(super) struct Unstarted<K> {
    pub(super) reflector: ReflectorOptions,
    pub(super) transform: Option<Arc<Transform<K>>>,
    pub(super) writer: StoreWriter<K>,
}

/// Spawns the task of an informer. Everything else runs in tasks below it, which end with the token of the informer.
pub(super) fn start<K: Send + Sync + 'static>(
    runtime: &Handle,
    core: Arc<InformerCore<K>>,
    unstarted: Unstarted<K>,
) {
    let Unstarted { reflector: options, transform, writer } = unstarted;
    let launch = Launch { runtime: runtime.clone(), options, transform };
    let applier = Applier { core: Arc::clone(&core), writer };
    runtime.spawn(run(core, launch, applier));
}

/// Runs an informer from its start to its end: restores a saved cache, begins the reflectors, applies deltas, and
/// marks the end even if a task panics.
async fn run<K: Send + Sync + 'static>(
    core: Arc<InformerCore<K>>,
    launch: Launch<K>,
    mut applier: Applier<K>,
) {
    let mut ended = Ended { core: Arc::clone(&core), saved: false };
    let restored = match &core.saver {
        Some(saver) => core.stop.run_until_cancelled(restore(&core, saver, &mut applier)).await.flatten(),
        None => None,
    };
    let runtime = launch.runtime.clone();
    let applier = begin(&core, launch, applier, restored);
    if let Some(namespaces) = core.source_set.lock().open.as_ref().and_then(|open| open.follow.clone()) {
        runtime.spawn(follow::run(Arc::downgrade(&core), namespaces, core.stop.clone()));
    }
    // Nothing more can be queued once all reflectors have ended.
    let (closing, tasks) = (Arc::clone(&core), core.source_set.lock().tasks.clone());
    runtime.spawn(async move {
        closing.stop.cancelled().await;
        tasks.close();
        tasks.wait().await;
        closing.queue.close();
    });
    let mut informer = Loop { core, applier, started: Instant::now(), saving: None };
    informer.run().await;
    informer.save_last().await;
    ended.saved = true;
}

/// Starts the reflectors. Returns the applier, unless the only reflector applies itself.
fn begin<K: Send + Sync + 'static>(
    core: &Arc<InformerCore<K>>,
    launch: Launch<K>,
    applier: Applier<K>,
    restored: Option<Restored<K>>,
) -> Option<Applier<K>> {
    let mut source_set = core.source_set.lock();
    source_set.launch = Some(launch);
    let idle = InformerCore::idle_positions(&source_set);
    let resume = |position| restored.as_ref().and_then(|_| core.positions.lock().revision(position));
    // With one source and the in-order form no queue is needed: the reflector's own task applies what it reads, and no
    // other task has to be woken.
    if let ([only], true, Form::InOrder) = (idle.as_slice(), source_set.is_alone(), core.queue.form()) {
        let (only, mut applier) = (*only, applier);
        let apply = Box::new(move |deltas| applier.apply_all(only, deltas));
        core.reflect(&mut source_set, only, resume(only), Some(apply));
        return None;
    }
    idle.into_iter().for_each(|position| core.reflect(&mut source_set, position, resume(position), None));
    Some(applier)
}

/// Reads the saved cache. Returns the positions to resume from; `None` if a list is needed.
async fn restore<K: Send + Sync + 'static>(
    core: &Arc<InformerCore<K>>,
    saver: &Arc<Saver>,
    applier: &mut Applier<K>,
) -> Option<Restored<K>> {
    // Reading the file takes most of the time; the request for the server's identity runs at the same time.
    let identified = identify(core, saver);
    let (reader, adopter) = (Arc::clone(saver), Arc::clone(core));
    let reading = tokio::task::spawn_blocking(move || {
        warm::read::<K>(&reader)?.map(|restored| adopter.adopt(restored)).transpose()
    });
    let restored = match reading.await.ok()? {
        Ok(restored) => restored?,
        Err(error) => return refuse(core, error),
    };
    let (server, unverified) = (restored.server.clone(), saver.options.unverified);
    let restored = if unverified { applier.restore(restored) } else { restored };
    identified.await.ok().filter(|identified| *identified)?;
    if let Err(error) = saver.compare(&server) {
        return refuse(core, error);
    }
    Some(if unverified { restored } else { applier.restore(restored) })
}

fn refuse<K, T>(core: &InformerCore<K>, error: WarmError) -> Option<T> {
    core.monitor.problem(0, &Problem::SavedCache(error), ProblemResponse::RelistsNow);
    None
}

/// Reads the identity of the server in a separate task: without a saved cache nothing waits for it, but the next save
/// needs it. Returns true if there is one.
fn identify<K: Send + Sync + 'static>(core: &Arc<InformerCore<K>>, saver: &Arc<Saver>) -> JoinHandle<bool> {
    let (core, saver) = (Arc::clone(core), Arc::clone(saver));
    tokio::spawn(async move {
        let Some(source) = core.source_set.lock().first_source() else { return false };
        match core.stop.run_until_cancelled(warm::identify(&saver, &source)).await {
            Some(Ok(())) => true,
            Some(Err(error)) => refuse::<K, ()>(&core, error).is_some(),
            None => false,
        }
    })
}

/// The loop of an informer: applies queued deltas, runs resyncs and saves, until it is stopped.
struct Loop<K> {
    core: Arc<InformerCore<K>>,
    /// None if the reflector applies.
    applier: Option<Applier<K>>,
    started: Instant,
    /// The save in progress.
    saving: Option<JoinHandle<()>>,
}

/// Marks the informer as ended, even if its task is dropped with its runtime.
struct Ended<K: Send + Sync + 'static> {
    core: Arc<InformerCore<K>>,
    /// The last state was saved, if it is saved at all.
    saved: bool,
}

impl<K: Send + Sync + 'static> Drop for Ended<K> {
    fn drop(&mut self) {
        let how = self.core.ending.lock().unwrap_or(RemovalEnd::Discard);
        // Deltas are no longer applied, so the reflectors must stop, even if this task panicked or was dropped with its
        // runtime.
        self.core.stop.cancel();
        self.core.queue.close();
        if !self.saved {
            // The program returned from `main` without a stop: its runtime has ended, and nothing can be awaited.
            self.core.save_now();
        }
        self.core.processor.lock().close(how);
        self.core.monitor.stopped();
        self.core.stopped.send_replace(true);
    }
}

impl<K: Send + Sync + 'static> Loop<K> {
    /// Applies what the reflectors queue, and resyncs and saves when it is time, until the queue is closed and empty.
    async fn run(&mut self) {
        let core = Arc::clone(&self.core);
        let mut resync_at: Option<Instant> = None;
        let interval = core.saver.as_ref().map(|saver| saver.options.interval);
        let mut save_at = interval.map(|interval| self.started + interval);
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
                () = sleep_until(save_at.unwrap_or(self.started)), if save_at.is_some() => {
                    save_at = interval.map(|interval| Instant::now() + interval);
                    self.save();
                }
            }
            // A source that always has more must not keep the runtime's thread to itself.
            tokio::task::coop::consume_budget().await;
        }
    }

    /// Delivers the resyncs that are due, and returns the time of the next.
    fn resync(&mut self) -> Option<Instant> {
        let now = self.started.elapsed();
        let mut processor = self.core.processor.lock();
        let next: Option<Duration> = processor.resync(&self.core.store, now);
        next.map(|at| self.started + at)
    }

    /// Begins to save the present state, unless the save before is still being written.
    fn save(&mut self) {
        if self.saving.as_ref().is_some_and(|saving| !saving.is_finished()) {
            return;
        }
        self.saving = self.core.save();
    }

    /// Saves the last state and waits for it.
    async fn save_last(mut self) {
        if let Some(saving) = self.saving.take() {
            let _ = saving.await;
        }
        if let Some(saving) = self.core.save() {
            let _ = saving.await;
        }
    }
}
