//! [`SharedInformer`]: a cache that is kept current by list and watch, and calls handlers with its changes.
//!
//! ```text
//!  source ─► reflector ─► delta queue ─► apply ─► store ─► indexes
//!                                          │
//!                                          └─► processor ─► handlers, streams
//! ```
//!
//! One task reflects per source, one runs per handler. With a single source the reflecting task also applies; else
//! deltas are queued for another that does (`run`). `apply` is the step in the middle as plain functions: deltas in,
//! store changed, events out; `applier` is its state.

mod applier;
mod apply;
mod builder;
mod follow;
mod options;
mod positions;
mod run;
mod save;
mod source_set;
mod status;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use listwatch_wire::{ObjectKey, Revision};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

pub use builder::InformerBuilder;
pub use options::InformerOptions;
pub use status::InformerStatus;

use crate::delta::DeltaQueue;
use crate::lister_watcher::{SourceError, Sources};
use crate::monitor::Monitor;
use crate::namespaces::Namespaces;
use crate::object::{Object, Raw};
use crate::processor::backlog::{RemovalEnd, Replay};
use crate::processor::current;
use crate::processor::registry::{Listener, Processor};
use crate::processor::runner::{self, Callee};
use crate::processor::{AsyncEventHandler, EventHandler, EventStream, HandlerOptions, Registration};
use crate::reflector::{Problem, Response};
use crate::store::index::IndexValue;
use crate::store::{Index, IndexError, IndexValues, Snapshot, Store};
use crate::sync::Mutex;
use crate::until::{self, UntilError};
use crate::warm::{Capture, Freshness, Saver};
use positions::Positions;
use source_set::SourceSet;

/// The time that [`SharedInformer::stop`] waits beyond a handler's grace for it to report its end.
const STOP_SLACK: Duration = Duration::from_millis(100);

/// The error of a request to an informer. Lists and watches that fail are retried and reported as problems instead,
/// unless they can never succeed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InformerError {
    /// It was started before. An informer runs once; build another.
    #[error("the informer was started before")]
    AlreadyStarted,
    /// It has no source: the set of namespaces is empty.
    #[error("the informer has no source: its set of namespaces is empty")]
    NoSources,
    /// Namespaces cannot be added or removed: the sources were not made for it. See [`namespaces`](crate::namespaces).
    #[error("the informer cannot add or remove namespaces: it was built over fixed sources")]
    FixedNamespaces,
    /// A source can never succeed as it is set up.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// It has stopped: no handler will ever be called again.
    #[error("the informer has stopped")]
    Stopped,
    /// The thread of a handler could not be started.
    #[error("cannot start the handler's thread: {0}")]
    Thread(#[from] std::io::Error),
    /// Called outside a Tokio runtime.
    #[error("informers need a Tokio runtime: {0}")]
    NoRuntime(#[from] tokio::runtime::TryCurrentError),
}

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
    /// None if it was not asked to end: when its last handle is dropped, what is unread is dropped too.
    pub(crate) ending: Mutex<Option<RemovalEnd>>,
    /// A handler with a resync period joined.
    pub(crate) resync_changed: Notify,
    /// The parts that [`SharedInformer::start`] takes.
    unstarted: Mutex<Option<run::Unstarted<K>>>,
}

/// One object, from now on.
pub(crate) struct Followed<K> {
    /// The object in the cache.
    pub(crate) now: Option<Object<K>>,
    /// The initial state is complete, so that absence means something.
    pub(crate) synced: bool,
    /// Every later change of it.
    pub(crate) changes: EventStream<K>,
}

/// Stops the informer when the last of its handles, registrations and streams is dropped.
pub(crate) struct StopGuard<K>(Arc<InformerCore<K>>);

impl<K> Drop for StopGuard<K> {
    fn drop(&mut self) {
        self.0.stop.cancel();
        self.0.end_unstarted(RemovalEnd::Discard);
    }
}

/// A shared informer. Handles are cheap to clone. The informer stops when the last of its handles, [`Registration`]s
/// and [`EventStream`]s is dropped.
///
/// ```
/// use listwatch::{Event, SharedInformer, lister_watcher::InMemory};
/// use serde_json::{Value, json};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pods = InMemory::new(100);
/// pods.put(&json!({"metadata": {"namespace": "x", "name": "y"}}))?;
///
/// let informer = SharedInformer::<Value>::builder(pods.clone()).name("pods").build();
/// informer.add_event_handler(|event: &Event<Value>| println!("{event}"))?;
/// informer.start()?;
/// assert!(informer.wait_synced().await);
/// assert!(informer.store().get_by("x", "y").is_some());
///
/// // Read your writes: wait until the cache has seen this change.
/// let revision = pods.put(&json!({"metadata": {"namespace": "x", "name": "z"}}))?;
/// informer.store().wait_for(revision).await?;
/// assert_eq!(informer.store().len(), 2);
/// informer.stop().await;
/// # Ok(())
/// # }
/// ```
#[doc(alias = "SharedIndexInformer")]
pub struct SharedInformer<K = Raw> {
    core: Arc<InformerCore<K>>,
    guard: Arc<StopGuard<K>>,
}

impl<K> Clone for SharedInformer<K> {
    fn clone(&self) -> Self {
        Self { core: Arc::clone(&self.core), guard: Arc::clone(&self.guard) }
    }
}

impl<K> fmt::Debug for SharedInformer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedInformer").field("name", &self.name()).field("store", &self.core.store).finish()
    }
}

impl<K: Send + Sync + 'static> SharedInformer<K> {
    /// Begins an informer over these sources; the builder takes what cannot change later.
    pub fn builder(sources: impl Into<Sources>) -> InformerBuilder<K> {
        InformerBuilder::new(sources.into())
    }

    /// An informer over these sources, with default options.
    pub fn new(sources: impl Into<Sources>) -> Self {
        Self::builder(sources).build()
    }

    /// Begins to list and watch, in tasks of the current runtime. Returns at once.
    ///
    /// # Errors
    /// [`InformerError::AlreadyStarted`] the second time, [`InformerError::NoSources`] for an empty set of namespaces,
    /// [`InformerError::Source`] for a source that can never succeed, [`InformerError::NoRuntime`] outside a runtime.
    pub fn start(&self) -> Result<(), InformerError> {
        let runtime = Handle::try_current()?;
        let unstarted = {
            let mut unstarted = self.core.unstarted.lock();
            unstarted.as_ref().map_or(Ok(()), |_| self.core.source_set.lock().check())?;
            unstarted.take().ok_or(InformerError::AlreadyStarted)?
        };
        run::start(&runtime, Arc::clone(&self.core), unstarted);
        Ok(())
    }

    /// Adds a handler with default options. See [`add_event_handler_with`](Self::add_event_handler_with).
    ///
    /// # Errors
    /// As there.
    pub fn add_event_handler(&self, handler: impl EventHandler<K>) -> Result<Registration<K>, InformerError> {
        self.add_event_handler_with(handler, HandlerOptions::default())
    }

    /// Adds a handler, at any time: it receives what is there first, then every change, without a gap between. Adding
    /// it costs the informer a few reference counts, however many objects there are.
    ///
    /// # Errors
    /// [`InformerError::Stopped`], [`InformerError::NoRuntime`], or [`InformerError::Thread`].
    pub fn add_event_handler_with(
        &self,
        handler: impl EventHandler<K>,
        options: HandlerOptions,
    ) -> Result<Registration<K>, InformerError> {
        self.spawn(Callee::Sync(Box::new(handler)), options)
    }

    /// Adds a handler that awaits. The next event follows when its future is done.
    ///
    /// # Errors
    /// As [`add_event_handler_with`](Self::add_event_handler_with).
    pub fn add_async_event_handler(
        &self,
        handler: impl AsyncEventHandler<K>,
        options: HandlerOptions,
    ) -> Result<Registration<K>, InformerError> {
        self.spawn(Callee::Async(Box::new(handler)), options)
    }

    fn spawn(&self, callee: Callee<K>, options: HandlerOptions) -> Result<Registration<K>, InformerError> {
        let runtime = Handle::try_current()?;
        let listener = self.core.join(options, false)?;
        runner::spawn(&runtime, Arc::clone(&listener), callee)?;
        Ok(Registration::new(listener, Arc::clone(&self.guard)))
    }

    /// The events as a stream: what is there, [`Event::Synced`](crate::Event::Synced), every change.
    ///
    /// # Errors
    /// [`InformerError::Stopped`].
    pub fn events(&self) -> Result<EventStream<K>, InformerError> {
        self.events_with(HandlerOptions::default())
    }

    /// [`events`](Self::events) with options.
    ///
    /// # Errors
    /// [`InformerError::Stopped`].
    pub fn events_with(&self, options: HandlerOptions) -> Result<EventStream<K>, InformerError> {
        Ok(EventStream::new(self.core.join(options, true)?, Arc::clone(&self.guard)))
    }

    /// Follows one object.
    pub(crate) fn follow(&self, key: &ObjectKey) -> Result<Followed<K>, InformerError> {
        let mut processor = self.core.processor.lock();
        if processor.closed {
            return Err(InformerError::Stopped);
        }
        let options = HandlerOptions::named("wait").without_resync();
        let listener = processor.join_about(Some(key.clone()), options, true);
        let (now, synced) = (self.core.store.get(key), self.has_synced());
        if synced {
            listener.backlog.initial_complete();
        }
        drop(processor);
        Ok(Followed { now, synced, changes: EventStream::new(listener, Arc::clone(&self.guard)) })
    }

    /// Waits until the cache holds the object under `key` in this version or a later one, or has seen it go: with the
    /// resource version that a write returned, this is read-your-writes for one object, and does not depend on other
    /// changes of the collection. Returns what is there then.
    ///
    /// # Errors
    /// When the informer stops before.
    pub async fn wait_for(
        &self,
        key: &ObjectKey,
        revision: Revision,
    ) -> Result<Option<Object<K>>, UntilError> {
        let reached = |object: Option<&Object<K>>| object.is_some_and(|object| object.revision() >= revision);
        tokio::select! {
            found = until::wait_for(self, key, reached) => found,
            Ok(()) = self.core.store.wait_for(revision) => Ok(self.core.store.get(key)),
        }
    }

    /// Waits until the store holds the initial state. False if the informer stopped before.
    pub async fn wait_synced(&self) -> bool {
        let mut synced = self.core.synced.subscribe();
        let mut stopped = self.core.stopped.subscribe();
        tokio::select! {
            biased;
            // The senders live in the core, which this handle keeps: neither channel closes while we wait.
            _ = synced.wait_for(|synced| *synced) => true,
            _ = stopped.wait_for(|stopped| *stopped) => self.has_synced(),
        }
    }

    /// Waits until the store can be read: it holds the initial state, or a [saved](crate::warm) one. False if the informer
    /// stopped before.
    pub async fn wait_usable(&self) -> bool {
        let mut usable = self.core.usable.subscribe();
        let mut stopped = self.core.stopped.subscribe();
        tokio::select! {
            biased;
            _ = usable.wait_for(|usable| *usable) => true,
            _ = stopped.wait_for(|stopped| *stopped) => self.freshness() > Freshness::Empty,
        }
    }

    /// The namespaces that it reads, to add and remove some.
    #[must_use]
    pub fn namespaces(&self) -> Namespaces<K> {
        Namespaces::new(self.clone())
    }

    pub(crate) fn core(&self) -> &InformerCore<K> {
        &self.core
    }

    /// Ends it at once, also while it drains: the watch is closed and unread events are dropped. Waits for the calls in
    /// progress, each for at most its [`stop_grace`](HandlerOptions::stop_grace). The store stays readable.
    ///
    /// A handler may call it; then it does not wait for that handler.
    pub async fn stop(&self) {
        self.end(RemovalEnd::Discard);
        self.ended().await;
        let waits = self.handlers().into_iter().map(|listener| async move {
            // The runner drops an asynchronous call after the grace; a moment more lets it say so.
            let patience = listener.options.stop_grace + STOP_SLACK;
            if tokio::time::timeout(patience, listener.wait_finished()).await.is_err() {
                tracing::warn!(handler = %listener.name, "event handler is still running, it is not waited for");
            }
        });
        futures::future::join_all(waits).await;
    }

    /// Ends it in order: no more events are received, and the handlers receive all that were, however long that takes.
    /// [`stop`](Self::stop) cuts it short.
    pub async fn drain(&self) {
        self.end(RemovalEnd::Drain);
        self.stopped().await;
        // Handlers have been told more since the informer's own last save.
        if let Some(saving) = self.core.save() {
            let _ = saving.await;
        }
    }

    fn end(&self, how: RemovalEnd) {
        {
            let mut ending = self.core.ending.lock();
            *ending = (*ending).max(Some(how));
        }
        self.core.stop.cancel();
        self.core.end_unstarted(how);
        if how == RemovalEnd::Discard {
            self.core.discard();
        }
    }

    /// Waits until nothing is received or applied any more.
    async fn ended(&self) {
        let mut stopped = self.core.stopped.subscribe();
        let _ = stopped.wait_for(|stopped| *stopped).await;
    }

    /// The handlers to wait for: all that are called, except the one that asks.
    fn handlers(&self) -> Vec<Arc<Listener<K>>> {
        let processor = self.core.processor.lock();
        let waits = |listener: &&Arc<Listener<K>>| !listener.polled && !current::is(listener);
        processor.listeners().filter(waits).cloned().collect()
    }

    /// Waits until it has ended, handlers included. Streams end when they are polled to their end.
    pub async fn stopped(&self) {
        self.ended().await;
        for listener in self.handlers() {
            listener.wait_finished().await;
        }
    }
}

impl<K> SharedInformer<K> {
    /// Its name, for metrics, logs and the debug page.
    #[must_use]
    pub fn name(&self) -> &str {
        self.core.monitor.name()
    }

    /// The cache. It can be read before the informer has synced, and is then incomplete; see
    /// [`wait_synced`](Self::wait_synced).
    #[must_use]
    pub fn store(&self) -> &Store<K> {
        &self.core.store
    }

    /// The content of the cache at this moment.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot<K> {
        self.core.store.snapshot()
    }

    /// Adds an index to the cache, at any time. Objects that it cannot place are reported to the problem hook.
    /// See [`Store::add_index`].
    ///
    /// # Errors
    /// As there.
    pub fn add_index<V, F>(&self, name: &str, extract: F) -> Result<Index<K, V>, IndexError>
    where
        K: 'static,
        V: IndexValue,
        F: Fn(&Object<K>) -> Result<IndexValues<V>, IndexError> + Send + Sync + 'static,
    {
        let index = self.core.store.add_index(name, extract)?;
        for problem in index.unplaced() {
            self.core.monitor.problem(0, &Problem::Index(problem.clone()), Response::Continues);
        }
        Ok(index)
    }

    /// True if the store holds the initial state. Once true, always true.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        *self.core.synced.borrow()
    }

    /// Returns the freshness of the cache: empty, from a [saved state](crate::warm), or current.
    #[must_use]
    pub fn freshness(&self) -> Freshness {
        match (*self.core.synced.borrow(), *self.core.usable.borrow()) {
            (true, _) => Freshness::Current,
            (_, true) => Freshness::Stale,
            _ => Freshness::Empty,
        }
    }

    /// True if it has a handler, or another handle, registration or stream of it exists.
    pub(crate) fn is_used(&self) -> bool {
        Arc::strong_count(&self.guard) > 1 || self.core.processor.lock().has_handlers()
    }

    /// True if it has ended: nothing is received any more, and the store stays as it is.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        *self.core.stopped.borrow()
    }
}

impl<K> InformerCore<K> {
    /// Marks the initial state as complete, if it is.
    pub(crate) fn settle(&self) {
        self.moved.send_replace(());
        let processor = self.processor.lock();
        if self.positions.lock().all_current() && !self.synced.send_replace(true) {
            self.usable.send_replace(true);
            processor.listeners().for_each(|listener| listener.backlog.initial_complete());
            // There is something to tell again from now on.
            self.resync_changed.notify_one();
        }
    }

    /// Ends an informer that was never started: its handlers have nothing more to wait for.
    fn end_unstarted(&self, how: RemovalEnd) {
        if self.unstarted.lock().take().is_some() {
            self.processor.lock().close(how);
            self.monitor.stopped();
            self.stopped.send_replace(true);
        }
    }

    /// Adds a handler. The snapshot it starts from and the first change after it fit together exactly.
    fn join(&self, mut options: HandlerOptions, polled: bool) -> Result<Arc<Listener<K>>, InformerError> {
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
