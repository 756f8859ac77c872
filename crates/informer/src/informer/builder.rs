//! [`InformerBuilder`]: everything that must be known before an informer starts.

use std::fmt;
use std::sync::Arc;

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::options::InformerOptions;
use super::positions::Positions;
use super::roster::Roster;
use super::run::Unstarted;
use super::{Core, Guard, SharedInformer};
use crate::delta::DeltaQueue;
use crate::lister_watcher::Sources;
use crate::monitor::{Monitor, ProblemHook};
use crate::object::Object;
use crate::processor::registry::Processor;
use crate::reflector::{Problem, Response, Transform};
use crate::store::Store;
use crate::sync::Mutex;
use crate::warm::{Saver, WarmOptions};

/// Builds a [`SharedInformer`].
pub struct InformerBuilder<K> {
    sources: Sources,
    name: String,
    options: InformerOptions,
    transform: Option<Arc<Transform<K>>>,
    hook: Option<Arc<ProblemHook>>,
    warm: Option<WarmOptions>,
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
            options: InformerOptions::default(),
            transform: None,
            hook: None,
            warm: None,
        }
    }

    /// Sets its name in metrics, logs and on the debug page.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets how it lists, queues and resyncs.
    #[must_use]
    pub fn options(mut self, options: InformerOptions) -> Self {
        self.options = options;
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

    /// Saves the cache to a directory and resumes from there after a restart. The files are named after the informer, so
    /// give it a [`name`](Self::name) that no other informer of the directory has. See [`warm`](crate::warm).
    #[must_use]
    pub fn warm(mut self, options: WarmOptions) -> Self {
        self.warm = Some(options);
        self
    }

    /// The informer, not yet started: add handlers and indexes, or do that later.
    #[must_use]
    pub fn build(self) -> SharedInformer<K> {
        let (store, writer) = Store::new();
        let InformerOptions { reflector, queue, resync } = self.options;
        let monitor = Arc::new(Monitor::new(self.name, self.hook));
        let saver = self.warm.map(|options| Saver::new(options, monitor.name()));
        let unstarted = Unstarted { reflector, transform: self.transform, writer };
        let awaiting = self.sources.open.as_ref().is_some_and(|open| open.follow.is_some());
        let core = Arc::new(Core {
            store,
            processor: Mutex::new(Processor::default()),
            queue: Arc::new(DeltaQueue::new(0, queue)),
            positions: Mutex::new(Positions::new(awaiting)),
            roster: Mutex::new(Roster::new(self.sources.open.clone())),
            moved: watch::Sender::new(()),
            saver,
            last: Mutex::new(None),
            monitor,
            resync,
            usable: watch::Sender::new(false),
            synced: watch::Sender::new(false),
            stopped: watch::Sender::new(false),
            stop: CancellationToken::new(),
            ending: Mutex::new(None),
            resync_changed: Notify::new(),
            unstarted: Mutex::new(Some(unstarted)),
        });
        core.enlist_all(self.sources);
        SharedInformer { guard: Arc::new(Guard(Arc::clone(&core))), core }
    }
}
