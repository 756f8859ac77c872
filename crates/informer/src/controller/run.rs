//! The run of a controller: wait for the caches, acquire the lease if there is an election, reconcile, drain.
//!
//! No key is taken from the work queue before every informer of the controller has synced (client-go's
//! `WaitForCacheSync`): an object that is not in a cache yet would be reconciled as deleted. Informers start before the
//! election is won, so that a standby has full caches when it takes over.
//!
//! The finalizer step runs in the worker, before the user's function, because it decides from the cached object whether
//! that function is called at all. Events become keys in `watched`; the queue, its backoff and its workers are
//! [`listwatch_workqueue`].

use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use listwatch_wire::ObjectKey;
use listwatch_workqueue::{Job, Outcome, Runner, Running};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::finalizer::Finalizers;
use super::running::RunningController;
use super::status::ControllerMonitor;
use super::watched::{AnyWatched, Begun};
use super::{BoxError, ControllerBounds, Setup};
use crate::informer::{InformerError, SharedInformer};
use crate::leader_election::ElectionOutcome;
use crate::object::{Object, Raw};

/// The reason that a controller ended, or did not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControllerError {
    /// An informer could not be started.
    #[error(transparent)]
    Informer(#[from] InformerError),
    /// An informer ended before its cache was filled.
    #[error("an informer stopped before its cache was filled")]
    NotSynced,
    /// Another candidate leads now. Reconciles in progress have ended.
    #[error("leadership was lost")]
    LeadershipLost,
    /// The reconciles in progress did not end within the grace; they were dropped.
    #[error("{0} objects were not reconciled within the shutdown grace")]
    Unfinished(usize),
    /// A task of the controller panicked, with this message.
    #[error("the controller panicked: {0}")]
    Panicked(String),
}

/// The reaction to an error of a reconcile.
///
/// Errors that time will heal are retried with a growing delay; an error that only a change of the object can heal is
/// not worth a retry, and the object's next event brings it back.
///
/// ```
/// use std::time::Duration;
///
/// use listwatch::controller::{Controller, OnError, Outcome, Reconcile};
/// use listwatch::lister_watcher::InMemory;
/// use serde_json::{Value, json};
///
/// #[derive(Debug, thiserror::Error)]
/// enum Failed {
///     #[error("the spec makes no sense")]
///     Invalid,
///     #[error("the service is down")]
///     Down,
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let apps = InMemory::new(100);
/// apps.put(&json!({"metadata": {"name": "web"}}))?;
/// let controller = Controller::<Value>::new(apps).start_with(
///     |_: Reconcile<Value>| async { Err::<Outcome, _>(Failed::Invalid) },
///     |error: &Failed, retries| match error {
///         Failed::Invalid => OnError::GiveUp,
///         Failed::Down if retries > 10 => OnError::After(Duration::from_secs(300)),
///         Failed::Down => OnError::Backoff,
///     },
/// )?;
/// while controller.monitor().status().errors == 0 {
///     tokio::task::yield_now().await;
/// }
/// controller.stop().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "error_policy")]
pub enum OnError {
    /// The object is reconciled again after the delay of the [backoff](super::Controller::backoff).
    Backoff,
    /// The object is reconciled again after this time.
    After(Duration),
    /// The object is left alone until it changes.
    GiveUp,
}

/// An object to reconcile, as the cache holds it. Dereferences to the [`Object`].
#[derive(Debug)]
#[non_exhaustive]
#[doc(alias = "Request")]
pub struct Reconcile<K> {
    /// The object.
    pub object: Object<K>,
    /// The number of times it has failed since it last succeeded.
    pub retries: u32,
}

impl<K> Deref for Reconcile<K> {
    type Target = Object<K>;

    fn deref(&self) -> &Object<K> {
        &self.object
    }
}

pub(super) type Cleanup<K> =
    Box<dyn Fn(Reconcile<K>) -> BoxFuture<'static, Result<Outcome, BoxError>> + Send + Sync>;

/// Called with the key of an object that no longer exists.
pub(super) type DeletedFunction = Arc<dyn Fn(&ObjectKey) + Send + Sync>;

/// A finalizer and its clean-up function.
pub(super) struct Finalize<K> {
    pub(super) name: String,
    pub(super) finalizers: Box<dyn Finalizers>,
    pub(super) cleanup: Cleanup<K>,
}

/// The step before, or instead of, the user's function.
enum ReconcileStep {
    Reconcile,
    /// Nothing is left to do for an object in this state.
    Nothing,
    AddFinalizer,
    CleanUp,
}

impl<K: Send + Sync + 'static> Finalize<K> {
    /// Chooses between adding the finalizer, reconciling, cleaning up and leaving alone.
    fn step(&self, object: &Object<K>) -> ReconcileStep {
        match (object.is_deleting(), object.has_finalizer(&self.name)) {
            (false, true) => ReconcileStep::Reconcile,
            (false, false) => ReconcileStep::AddFinalizer,
            (true, true) => ReconcileStep::CleanUp,
            (true, false) => ReconcileStep::Nothing,
        }
    }

    /// Writes the list of finalizers under the condition that the object has not changed.
    async fn write(&self, object: &Object<K>, finalizers: Vec<String>) -> Result<(), BoxError> {
        let raw: Object<Raw> = object.clone().cast();
        Ok(self.finalizers.write(&raw, finalizers).await?)
    }

    /// The change that this makes leads to the next reconcile.
    async fn add(&self, object: &Object<K>) -> Result<Outcome, BoxError> {
        let mut finalizers = object.finalizers();
        finalizers.push(self.name.clone());
        self.write(object, finalizers).await?;
        Ok(Outcome::Done)
    }

    /// Runs the cleanup of the user, and takes the finalizer away when it is done.
    async fn clean_up(&self, reconcile: Reconcile<K>) -> Result<Outcome, BoxError> {
        let object = reconcile.object.clone();
        let outcome = (self.cleanup)(reconcile).await?;
        if outcome == Outcome::Done {
            let finalizers = object.finalizers();
            self.write(&object, finalizers.into_iter().filter(|name| *name != self.name).collect()).await?;
        }
        Ok(outcome)
    }
}

/// Everything that a worker needs.
pub(super) struct Worker<K, R, P> {
    pub(super) informer: SharedInformer<K>,
    pub(super) finalize: Option<Finalize<K>>,
    pub(super) deleted: Option<DeletedFunction>,
    pub(super) reconcile: R,
    pub(super) on_error: P,
    pub(super) monitor: ControllerMonitor,
}

/// A worker whose types do not matter.
pub(super) trait AnyWorker: Send + Sync + 'static {
    fn work(self: Arc<Self>, job: Job<ObjectKey>) -> BoxFuture<'static, Result<Outcome, BoxError>>;
}

impl<K, R, P, F, E> AnyWorker for Worker<K, R, P>
where
    K: Send + Sync + 'static,
    R: Fn(Reconcile<K>) -> F + Send + Sync + 'static,
    P: Fn(&E, u32) -> OnError + Send + Sync + 'static,
    F: Future<Output = Result<Outcome, E>> + Send + 'static,
    E: Into<BoxError> + Send + 'static,
{
    fn work(self: Arc<Self>, job: Job<ObjectKey>) -> BoxFuture<'static, Result<Outcome, BoxError>> {
        let Some(object) = self.informer.store().get(&job.key) else {
            self.monitor.counters().missing.fetch_add(1, Ordering::Relaxed);
            self.deleted.iter().for_each(|deleted| deleted(&job.key));
            return Box::pin(std::future::ready(Ok(Outcome::Done)));
        };
        let span = tracing::info_span!("reconcile", key = %job.key, revision = %object.revision(), retries = job.retries);
        let run = async move {
            let mut timed = Timed { monitor: &self.monitor, began: Instant::now(), failed: true };
            let mut error_handled = false;
            let result = self.step(Reconcile { object, retries: job.retries }, &mut error_handled).await;
            timed.failed = error_handled || result.is_err();
            result
        };
        Box::pin(run.instrument(span))
    }
}

impl<K, R, P, F, E> Worker<K, R, P>
where
    K: Send + Sync + 'static,
    R: Fn(Reconcile<K>) -> F + Send + Sync + 'static,
    P: Fn(&E, u32) -> OnError + Send + Sync + 'static,
    F: Future<Output = Result<Outcome, E>> + Send + 'static,
    E: Into<BoxError> + Send + 'static,
{
    /// Handles the finalizer first, if the controller has one: an object is reconciled only once the finalizer is on it, and is
    /// cleaned up instead when it is being deleted.
    async fn step(&self, reconcile: Reconcile<K>, error_handled: &mut bool) -> Result<Outcome, BoxError> {
        let Some(finalize) = &self.finalize else { return self.reconcile(reconcile, error_handled).await };
        match finalize.step(&reconcile.object) {
            ReconcileStep::Reconcile => self.reconcile(reconcile, error_handled).await,
            ReconcileStep::Nothing => Ok(Outcome::Done),
            ReconcileStep::AddFinalizer => finalize.add(&reconcile.object).await,
            ReconcileStep::CleanUp => finalize.clean_up(reconcile).await,
        }
    }

    /// Runs the user's function and, after an error, the error policy. Only `Backoff` reaches the queue as an error,
    /// which counts a failure of the key; the others are outcomes, and set `error_handled` for the counters of the
    /// controller.
    async fn reconcile(
        &self,
        reconcile: Reconcile<K>,
        error_handled: &mut bool,
    ) -> Result<Outcome, BoxError> {
        let retries = reconcile.retries;
        let error = match (self.reconcile)(reconcile).await {
            Ok(outcome) => return Ok(outcome),
            Err(error) => error,
        };
        *error_handled = true;
        match (self.on_error)(&error, retries) {
            OnError::Backoff => Err(error.into()),
            OnError::After(delay) => {
                let error: BoxError = error.into();
                tracing::warn!(error, ?delay, "reconciling failed, will retry");
                Ok(Outcome::RequeueAfter(delay))
            }
            OnError::GiveUp => {
                let error: BoxError = error.into();
                tracing::warn!(error, "reconciling failed, giving up until the object changes");
                Ok(Outcome::Done)
            }
        }
    }
}

/// Counts a reconcile when it ends, also by a panic or a timeout.
struct Timed<'a> {
    monitor: &'a ControllerMonitor,
    began: Instant,
    failed: bool,
}

impl Drop for Timed<'_> {
    fn drop(&mut self) {
        self.monitor.reconciled(self.began.elapsed(), self.failed);
    }
}

/// Starts the informers and the task of the controller. Handlers are added before informers start, so that no event can
/// be missed.
pub(super) fn start<W: AnyWorker>(
    setup: Setup,
    watched: Vec<Box<dyn AnyWatched>>,
    worker: Arc<W>,
    monitor: ControllerMonitor,
) -> Result<RunningController, ControllerError> {
    let mut synced = Vec::with_capacity(watched.len());
    for source in watched {
        let Begun { synced: wait, source } = source.begin(monitor.queue(), &setup.name)?;
        synced.push(wait);
        monitor.watches(source);
    }
    let stop = setup.stop.child_token();
    if setup.signals {
        tokio::spawn(cancel_on_signal(stop.clone()));
    }
    let (dropped, guard) = (stop.clone(), stop.clone().drop_guard());
    let span = tracing::info_span!("controller", name = %setup.name);
    let run = run(setup, synced, worker, monitor.clone(), dropped).instrument(span);
    Ok(RunningController { monitor, stop, task: tokio::spawn(run), _guard: guard })
}

/// Runs the work alone, or for as long as this candidate leads. A controller leads once: after a lost term it ends,
/// since its caches and timers belong to that term, and the program is restarted or builds another.
async fn run<W: AnyWorker>(
    mut setup: Setup,
    synced: Vec<BoxFuture<'static, bool>>,
    worker: Arc<W>,
    monitor: ControllerMonitor,
    stop: CancellationToken,
) -> Result<(), ControllerError> {
    let (elect, bounds) = (setup.elect.take(), setup.bounds);
    let end = monitor.clone();
    let ended = match elect {
        None => work(bounds, synced, worker, monitor, &stop).await,
        Some(elect) => {
            let (result, ends) = tokio::sync::oneshot::channel();
            let work = Box::new(move |leadership: crate::leader_election::Leadership| {
                let term: BoxFuture<'static, ()> = Box::pin(async move {
                    let ended = work(bounds, synced, worker, monitor, &leadership.token()).await;
                    let _ = result.send(ended);
                });
                term
            });
            match elect(stop.clone(), work).await {
                ElectionOutcome::NeverLed => Ok(()),
                ElectionOutcome::Finished(()) => ends.await.unwrap_or(Ok(())),
                ElectionOutcome::Lost(_) => Err(ControllerError::LeadershipLost),
                ElectionOutcome::Aborted => Err(ControllerError::Unfinished(end.queue().in_flight())),
                ElectionOutcome::Panicked(message) => Err(ControllerError::Panicked(message)),
            }
        }
    };
    end.release();
    ended
}

/// Reconciles until `over`, then drains.
async fn work<W: AnyWorker>(
    bounds: ControllerBounds,
    synced: Vec<BoxFuture<'static, bool>>,
    worker: Arc<W>,
    monitor: ControllerMonitor,
    over: &CancellationToken,
) -> Result<(), ControllerError> {
    // All caches, not only that of the reconciled kind: an object that is not there yet would be taken for deleted.
    match over.run_until_cancelled(join_all(synced)).await {
        None => return Ok(()),
        Some(synced) if synced.iter().all(|synced| *synced) => {}
        Some(_) => return Err(ControllerError::NotSynced),
    }
    let mut runner = Runner::new(move |job| Arc::clone(&worker).work(job)).workers(bounds.concurrency);
    if let Some(limit) = bounds.timeout {
        runner = runner.timeout(limit);
    }
    let running = runner.start(monitor.queue());
    monitor.counters().active.store(true, Ordering::Relaxed);
    over.cancelled().await;
    monitor.counters().active.store(false, Ordering::Relaxed);
    drain(running, bounds.grace).await
}

/// Lets running reconciliations end within the grace period.
async fn drain(running: Running<ObjectKey>, grace: Duration) -> Result<(), ControllerError> {
    let drained = running.shut_down_within(grace).await;
    drained.map_err(|unfinished| ControllerError::Unfinished(unfinished.keys.len()))
}

/// Cancels `stop` on SIGTERM, which a Pod receives before it is killed, or Ctrl-C.
async fn cancel_on_signal(stop: CancellationToken) {
    let signal = async {
        #[cfg(unix)]
        if let Ok(mut term) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            tokio::select! {
                _ = term.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
            return;
        }
        let _ = tokio::signal::ctrl_c().await;
    };
    stop.run_until_cancelled(signal).await;
    stop.cancel();
}
