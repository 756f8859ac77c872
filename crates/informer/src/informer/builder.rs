//! [`InformerBuilder`]: everything that must be known before an informer starts.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::run::Unstarted;
use super::{Core, Guard, SharedInformer};
use crate::delta::{DeltaQueue, QueueOptions};
use crate::lister_watcher::Sources;
use crate::monitor::{Monitor, ProblemHook};
use crate::object::Object;
use crate::processor::backlog::End;
use crate::processor::registry::Processor;
use crate::reflector::{Problem, ReflectorOptions, Response, Transform};
use crate::store::Store;
use crate::sync::Mutex;

/// Builds a [`SharedInformer`].
pub struct InformerBuilder<K> {
    sources: Sources,
    name: String,
    reflector: ReflectorOptions,
    queue: QueueOptions,
    resync: Option<Duration>,
    transform: Option<Arc<Transform<K>>>,
    hook: Option<Arc<ProblemHook>>,
}

impl<K> fmt::Debug for InformerBuilder<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformerBuilder").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<K: Send + Sync + 'static> InformerBuilder<K> {
    pub(super) fn new(sources: Sources) -> Self {
        Self {
            sources,
            name: "informer".to_owned(),
            reflector: ReflectorOptions::default(),
            queue: QueueOptions::default(),
            resync: None,
            transform: None,
            hook: None,
        }
    }

    /// What it is called in metrics, logs and on the debug page.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// How it lists and watches.
    #[must_use]
    pub fn reflector(mut self, options: ReflectorOptions) -> Self {
        self.reflector = options;
        self
    }

    /// How changes are queued on their way to the store.
    #[must_use]
    pub fn queue(mut self, options: QueueOptions) -> Self {
        self.queue = options;
        self
    }

    /// Handlers that do not say otherwise are told every object again once per this time.
    #[must_use]
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }

    /// Changes every object before it is cached, exactly once. An object for which it fails is reported and is not
    /// in the cache; the others are not affected.
    #[must_use]
    pub fn transform(
        mut self,
        transform: impl Fn(Object<K>) -> Result<Object<K>, String> + Send + Sync + 'static,
    ) -> Self {
        self.transform = Some(Arc::new(transform));
        self
    }

    /// Hears of every problem: failed lists and watches, objects that cannot be used, what is done about it.
    #[must_use]
    pub fn on_problem(mut self, hook: impl Fn(&Problem, Response) + Send + Sync + 'static) -> Self {
        self.hook = Some(Arc::new(hook));
        self
    }

    /// The informer, not yet started: add handlers and indexes, or do that later.
    #[must_use]
    pub fn build(self) -> SharedInformer<K> {
        let (store, writer) = Store::new();
        let stop = CancellationToken::new();
        let core = Arc::new(Core {
            store,
            processor: Mutex::new(Processor::default()),
            queue: Arc::new(DeltaQueue::new(self.sources.0.len(), self.queue)),
            monitor: Arc::new(Monitor::new(self.name, self.hook)),
            resync: self.resync,
            synced: watch::Sender::new(false),
            stopped: watch::Sender::new(false),
            stop: stop.clone(),
            ending: Mutex::new(End::Discard),
            resync_changed: Notify::new(),
        });
        let unstarted =
            Unstarted { sources: self.sources, reflector: self.reflector, transform: self.transform, writer };
        SharedInformer {
            core,
            unstarted: Arc::new(Mutex::new(Some(unstarted))),
            _guard: Arc::new(Guard(stop)),
        }
    }
}
