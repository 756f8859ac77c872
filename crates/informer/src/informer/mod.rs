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
//!
//! This file is the handle: making an informer, starting it, adding handlers and reading. `core` is the part that its
//! tasks share, `wait` has the methods that wait for a state, `shutdown` the ways to end. An informer has no rule about
//! listing or watching; those are the [`reflector`](crate::reflector)'s.

mod applier;
mod apply;
mod builder;
mod core;
mod error;
mod follow;
mod options;
mod positions;
mod run;
mod save;
mod shutdown;
mod source_set;
mod status;
mod wait;

use std::fmt;
use std::sync::Arc;

use tokio::runtime::Handle;

pub(crate) use self::core::{InformerCore, StopGuard};
pub use builder::InformerBuilder;
pub use error::InformerError;
pub use options::InformerOptions;
pub use status::InformerStatus;
pub(crate) use wait::Followed;

use crate::lister_watcher::Sources;
use crate::namespaces::Namespaces;
use crate::object::{Object, Raw};
use crate::processor::runner::{self, Callee};
use crate::processor::{AsyncEventHandler, EventHandler, EventStream, HandlerOptions, Registration};
use crate::reflector::{Problem, ProblemResponse};
use crate::store::index::IndexValue;
use crate::store::{Index, IndexError, IndexValues, Snapshot, Store};
use crate::warm::Freshness;

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
    /// Returns a builder over these sources. It takes the settings that cannot change while the informer runs: name,
    /// transformation, warm cache and [options](InformerOptions).
    pub fn builder(sources: impl Into<Sources>) -> InformerBuilder<K> {
        InformerBuilder::new(sources.into())
    }

    /// Returns an informer over these sources, with default options. It does nothing until [`start`](Self::start).
    pub fn new(sources: impl Into<Sources>) -> Self {
        Self::builder(sources).build()
    }

    /// Begins to list and watch, in tasks of the current runtime. Returns at once; [`wait_synced`](Self::wait_synced)
    /// waits for the first complete state.
    ///
    /// An informer runs once. After [`stop`](Self::stop) build another: its handlers would otherwise need
    /// everything that happened in between.
    ///
    /// # Errors
    /// [`InformerError::AlreadyStarted`] the second time, [`InformerError::NoSources`] for an empty set of
    /// namespaces, [`InformerError::Source`] for a source that can never succeed, [`InformerError::NoRuntime`]
    /// outside a runtime.
    #[doc(alias = "Run")]
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

    /// Adds a handler, at any time. It receives every object that is there, then every change, without a gap between.
    /// Adding it costs the informer a few reference counts, however many objects there are.
    ///
    /// Each handler has its own position in the sequence of events. One that is slow, or that panics, delays itself
    /// only; beyond [`HandlerOptions::max_backlog`] unread events its backlog keeps only the latest state of each
    /// object.
    ///
    /// # Errors
    /// [`InformerError::Stopped`], [`InformerError::NoRuntime`], or [`InformerError::Thread`].
    #[doc(alias = "AddEventHandlerWithResyncPeriod")]
    #[doc(alias = "AddEventHandlerWithOptions")]
    pub fn add_event_handler_with(
        &self,
        handler: impl EventHandler<K>,
        options: HandlerOptions,
    ) -> Result<Registration<K>, InformerError> {
        self.spawn(Callee::Sync(Box::new(handler)), options)
    }

    /// Adds a handler that awaits. The next event follows when its future is done, so events of different objects
    /// wait for each other. For work that takes long, queue keys with
    /// [`enqueue_keys`](crate::processor::enqueue_keys) and let workers take them, or use a
    /// [`Controller`](crate::Controller).
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

    /// Adds a listener and starts the task or thread that calls the handler.
    fn spawn(&self, callee: Callee<K>, options: HandlerOptions) -> Result<Registration<K>, InformerError> {
        let runtime = Handle::try_current()?;
        let listener = self.core.join(options, false)?;
        runner::spawn(&runtime, Arc::clone(&listener), callee)?;
        Ok(Registration::new(listener, Arc::clone(&self.guard)))
    }

    /// Returns the events as a stream: every object that is there, [`Event::Synced`](crate::Event::Synced), then
    /// every change.
    ///
    /// ```
    /// use futures::StreamExt;
    /// use listwatch::lister_watcher::InMemory;
    /// use listwatch::{Event, SharedInformer};
    /// use serde_json::{Value, json};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let nodes = InMemory::new(100);
    /// nodes.put(&json!({"metadata": {"name": "node-1"}}))?;
    ///
    /// let informer = SharedInformer::<Value>::new(nodes);
    /// let mut events = informer.events()?;
    /// informer.start()?;
    /// assert!(matches!(events.next().await, Some(Event::Added { .. })));
    /// assert!(matches!(events.next().await, Some(Event::Synced)));
    /// # Ok(())
    /// # }
    /// ```
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

    /// Returns the set of namespaces that it reads, to add and remove some. See [`namespaces`](crate::namespaces).
    #[must_use]
    pub fn namespaces(&self) -> Namespaces<K> {
        Namespaces::new(self.clone())
    }

    pub(crate) fn core(&self) -> &InformerCore<K> {
        &self.core
    }
}

impl<K> SharedInformer<K> {
    /// Its name, for metrics, logs and the debug page.
    #[must_use]
    pub fn name(&self) -> &str {
        self.core.monitor.name()
    }

    /// Returns the cache. It can be read before the informer has synced, and is then incomplete; see
    /// [`wait_synced`](Self::wait_synced). It stays readable after the informer has stopped.
    #[must_use]
    #[doc(alias = "GetIndexer")]
    pub fn store(&self) -> &Store<K> {
        &self.core.store
    }

    /// Returns the content of the cache at this moment: every read of it agrees with every other.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot<K> {
        self.core.store.snapshot()
    }

    /// Adds an index to the cache, at any time. Objects that it cannot place are reported to the problem hook.
    /// See [`Store::add_index`].
    ///
    /// # Errors
    /// As there.
    #[doc(alias = "AddIndexers")]
    pub fn add_index<V, F>(&self, name: &str, extract: F) -> Result<Index<K, V>, IndexError>
    where
        K: 'static,
        V: IndexValue,
        F: Fn(&Object<K>) -> Result<IndexValues<V>, IndexError> + Send + Sync + 'static,
    {
        let index = self.core.store.add_index(name, extract)?;
        for problem in index.unplaced() {
            self.core.monitor.problem(0, &Problem::Index(problem.clone()), ProblemResponse::Continues);
        }
        Ok(index)
    }

    /// True if the store holds the initial state. Once true, it stays true: a later relist replaces the state in one
    /// step.
    ///
    /// This is about the store. Whether a handler has received all of it is [`Registration::has_synced`].
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
