//! [`InformerBuilder`]: settings that cannot change once an informer runs.
//!
//! The name, the options, the transform, the problem hook and the saved cache are read by tasks without a lock, so they
//! are fixed here. Handlers, indexes and namespaces can be added before or after the start and are methods of
//! [`SharedInformer`].
//!
//! `build` performs no IO and needs no runtime; `start` does. Programs with many informers use
//! [`InformerFactory`](crate::InformerFactory), which shares one informer per kind.

use std::fmt;
use std::sync::Arc;

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::options::InformerOptions;
use super::positions::Positions;
use super::run::Unstarted;
use super::source_set::SourceSet;
use super::{InformerCore, SharedInformer, StopGuard};
use crate::delta::DeltaQueue;
use crate::lister_watcher::Sources;
use crate::monitor::{Monitor, ProblemHook};
use crate::object::Object;
use crate::processor::registry::Processor;
use crate::reflector::{Problem, ProblemResponse, Transform};
use crate::store::Store;
use crate::sync::Mutex;
use crate::warm::{Saver, WarmOptions};

/// Builds a [`SharedInformer`].
///
/// ```
/// use listwatch::lister_watcher::InMemory;
/// use listwatch::{InformerOptions, SharedInformer};
/// use serde_json::{Value, json};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pods = InMemory::new(100);
/// pods.put(&json!({"metadata": {"name": "a", "annotations": {"long": "text"}}, "spec": {}}))?;
///
/// let mut options = InformerOptions::default();
/// options.reflector.page_size = Some(100);
/// let informer = SharedInformer::<Value>::builder(pods)
///     .name("pods")
///     .options(options)
///     // Fields that are never read need not be kept.
///     .transform(|pod| pod.with_value(&json!({"spec": {}})).map_err(|error| error.to_string()))
///     .on_problem(|problem, response| eprintln!("{problem}; {response}"))
///     .build();
/// informer.start()?;
/// assert!(informer.wait_synced().await);
/// let pod = informer.store().get_by("", "a").ok_or("no pod")?;
/// assert_eq!(pod.json(), br#"{"spec":{}}"#);
/// # Ok(())
/// # }
/// ```
#[must_use = "an informer exists only once it is built"]
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
    /// A builder with the default of everything.
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
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets how it lists, queues and resyncs.
    pub fn options(mut self, options: InformerOptions) -> Self {
        self.options = options;
        self
    }

    /// Changes every object before it is cached, exactly once. An object for which it fails is reported and is not
    /// in the cache; the others are not affected.
    #[doc(alias = "SetTransform")]
    pub fn transform(
        mut self,
        transform: impl Fn(Object<K>) -> Result<Object<K>, String> + Send + Sync + 'static,
    ) -> Self {
        self.transform = Some(Arc::new(transform));
        self
    }

    /// Calls a function for every problem: failed lists and watches and unusable objects, each with the reaction.
    /// client-go has `SetWatchErrorHandler`.
    #[doc(alias = "SetWatchErrorHandler")]
    pub fn on_problem(mut self, hook: impl Fn(&Problem, ProblemResponse) + Send + Sync + 'static) -> Self {
        self.hook = Some(Arc::new(hook));
        self
    }

    /// Saves the cache to a directory and resumes from there after a restart. The files are named after the informer, so
    /// give it a [`name`](Self::name) that no other informer of the directory has. See [`warm`](crate::warm).
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
        let core = Arc::new(InformerCore {
            store,
            processor: Mutex::new(Processor::default()),
            queue: Arc::new(DeltaQueue::new(0, queue)),
            positions: Mutex::new(Positions::new(awaiting)),
            source_set: Mutex::new(SourceSet::new(self.sources.open.clone())),
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
        core.add_sources(self.sources);
        SharedInformer { guard: Arc::new(StopGuard(Arc::clone(&core))), core }
    }
}
