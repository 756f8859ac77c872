//! [`InformerFactory`]: one informer per collection, however many ask for it.
//!
//! Two parts of a program that need the same pods share one watch and one cache. What makes informers the same is
//! their [`Scope`]: kind, namespaces and selectors. The factory keeps its informers alive, so a handler can be added
//! without holding on to anything. [`InformerFactory::release_unused`] stops those that nobody else holds.
//!
//! Where the server offers it, one connection carries the watches of all informers, in the order of revisions.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use futures::future::{BoxFuture, join_all, try_join_all};
use listwatch_wire::Revision;
use listwatch_wire::selector::{FieldSelector, LabelSelector};
use tokio::sync::Semaphore;

use crate::informer::{InformerBuilder, InformerError, InformerOptions, InformerStatus, SharedInformer};
use crate::kube::{KubeSource, ResourceKind, SharedStream};
use crate::lister::Lister;
use crate::lister_watcher::Sources;
use crate::object::Keep;
use crate::store::Stopped;
use crate::sync::Mutex;
use crate::warm::WarmOptions;

/// The selection of objects that an informer caches. Equal scopes share an informer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scope {
    resource: ResourceKind,
    /// Sorted; empty for all.
    namespaces: Vec<String>,
    /// Of the namespaces themselves; none if they are named, or all.
    namespace_labels: Option<String>,
    labels: String,
    fields: String,
}

impl Scope {
    /// All objects of the kind, in all namespaces.
    #[must_use]
    pub fn new(resource: ResourceKind) -> Self {
        Self {
            resource,
            namespaces: Vec::new(),
            namespace_labels: None,
            labels: String::new(),
            fields: String::new(),
        }
    }

    /// All objects of a type that knows its collection.
    #[must_use]
    pub fn of<K: ::kube::Resource<DynamicType = ()>>() -> Self {
        Self::new(ResourceKind::of::<K>())
    }

    /// Also, or only, this namespace: a scope without any has all.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespaces.push(namespace.into());
        self.namespaces.sort();
        self.namespaces.dedup();
        self
    }

    /// Only namespaces with such labels, as they come and go. Takes the place of named namespaces.
    #[must_use]
    pub fn namespaces_labelled(mut self, selector: &LabelSelector) -> Self {
        self.namespace_labels = Some(selector.to_string());
        self
    }

    /// Only objects whose labels match. Part of the scope: another selector is another informer with a watch of its
    /// own.
    #[must_use]
    pub fn labels(mut self, selector: &LabelSelector) -> Self {
        self.labels = selector.to_string();
        self
    }

    /// Only objects whose fields match. Part of the scope, like the labels; the server decides which fields can be
    /// selected.
    #[must_use]
    pub fn fields(mut self, selector: &FieldSelector) -> Self {
        self.fields = selector.to_string();
        self
    }

    /// The sources of a scope: one, or one per namespace.
    fn sources(&self, client: &::kube::Client, keep: Keep, stream: Option<SharedStream>) -> Sources {
        let mut source = KubeSource::new(client.clone(), self.resource.clone()).keep(keep).stream(stream);
        // Selectors were parsed before they were printed.
        source = source.labels(self.labels.parse().unwrap_or_default());
        source = source.fields(self.fields.parse().unwrap_or_default());
        if let Some(labels) = &self.namespace_labels {
            return source.namespaces_labelled(labels.parse().unwrap_or_default()).into();
        }
        match self.namespaces.as_slice() {
            [] => source.into(),
            [one] => source.namespace(one).into(),
            several => source.namespaces(several.iter().cloned()).into(),
        }
    }

    /// The name in metrics: resource and group, and the selectors that tell informers apart.
    fn name(&self) -> String {
        let mut name = self.resource.resource.resource.to_string();
        if !self.resource.resource.group.is_empty() {
            name = format!("{name}.{}", self.resource.resource.group);
        }
        let namespaces = self.namespace_labels.clone().unwrap_or_else(|| self.namespaces.join(","));
        for part in [namespaces, self.labels.clone(), self.fields.clone()] {
            if !part.is_empty() {
                name = format!("{name}/{part}");
            }
        }
        name
    }
}

/// An informer whose type the factory does not know.
trait AnyInformer: Send + Sync {
    /// Starts the informer; nothing if it runs.
    fn start(&self) -> Result<(), InformerError>;
    /// For the status of the factory.
    fn status(&self) -> InformerStatus;
    /// Waits for the first complete state. False if the informer ended before.
    fn wait_synced(&self) -> BoxFuture<'_, bool>;
    /// Waits until the cache is at least at this revision, for reading one's own writes.
    fn wait_for(&self, revision: Revision) -> BoxFuture<'_, Result<(), Stopped>>;
    /// Ends the informer and waits for its handlers.
    fn stop(&self) -> BoxFuture<'_, ()>;
    /// A stopped informer is replaced by a new one when it is asked for.
    fn is_stopped(&self) -> bool;
    /// True if it has a handler, or anything outside the factory holds a registration or a stream of it.
    fn is_observed(&self) -> bool;
}

impl<K: Send + Sync + 'static> AnyInformer for SharedInformer<K> {
    fn start(&self) -> Result<(), InformerError> {
        Self::start(self)
    }

    fn status(&self) -> InformerStatus {
        Self::status(self)
    }

    fn wait_synced(&self) -> BoxFuture<'_, bool> {
        Box::pin(Self::wait_synced(self))
    }

    fn wait_for(&self, revision: Revision) -> BoxFuture<'_, Result<(), Stopped>> {
        Box::pin(self.store().wait_for(revision))
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(Self::stop(self))
    }

    fn is_stopped(&self) -> bool {
        Self::is_stopped(self)
    }

    fn is_observed(&self) -> bool {
        self.is_used()
    }
}

/// An informer of the factory: derefs to the [`SharedInformer`], and keeps it alive.
pub struct Shared<K> {
    informer: Arc<SharedInformer<K>>,
    scope: Scope,
}

impl<K> Clone for Shared<K> {
    fn clone(&self) -> Self {
        Self { informer: Arc::clone(&self.informer), scope: self.scope.clone() }
    }
}

impl<K> fmt::Debug for Shared<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.informer.fmt(f)
    }
}

impl<K> std::ops::Deref for Shared<K> {
    type Target = SharedInformer<K>;

    fn deref(&self) -> &SharedInformer<K> {
        &self.informer
    }
}

impl<K: Send + Sync + 'static> Shared<K> {
    /// Returns a lister over its cache, which keeps the informer running for as long as it exists.
    #[must_use]
    pub fn lister(&self) -> Lister<K> {
        let informer: Arc<dyn Any + Send + Sync> = Arc::<SharedInformer<K>>::clone(&self.informer);
        Lister::new(self.informer.store().clone(), self.scope.resource.resource.clone()).keeping(informer)
    }
}

/// An informer in both its forms.
struct FactoryEntry {
    /// Typed, for whoever asks with the same type.
    typed: Arc<dyn Any + Send + Sync>,
    any: Arc<dyn AnyInformer>,
}

/// The references to an informer that its own [`FactoryEntry`] holds.
const OWN_REFERENCES: usize = 2;

/// The number of informers of a factory that obtain their initial state at a time.
const INITIAL_LISTS: usize = 16;

/// Informers are shared by those who ask for the same scope with the same type.
type FactoryEntries = HashMap<(Scope, std::any::TypeId), FactoryEntry>;

/// Makes and shares informers over one client.
///
/// ```no_run
/// use k8s_openapi::api::core::v1::{Node, Pod};
/// use listwatch::factory::{InformerFactory, Scope};
///
/// # async fn example(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let factory = InformerFactory::new(client);
/// let pods = factory.informer::<Pod>();
/// let nodes = factory.informer_for::<Node>(Scope::of::<Node>().labels(&"pool=batch".parse()?));
/// factory.start()?;
/// assert!(factory.wait_for_cache_sync().await);
/// let pod = pods.lister().namespace("default").get("web-0")?;
/// println!("{} of {} nodes", pod.key(), nodes.store().len());
/// factory.shutdown().await;
/// # Ok(())
/// # }
/// ```
#[doc(alias = "SharedInformerFactory")]
#[doc(alias = "DynamicSharedInformerFactory")]
pub struct InformerFactory {
    client: ::kube::Client,
    entries: Mutex<FactoryEntries>,
    options: InformerOptions,
    keep: Keep,
    warm: Option<WarmOptions>,
    /// Carries the watches of all informers, where the server offers it.
    stream: Option<SharedStream>,
}

impl fmt::Debug for InformerFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformerFactory")
            .field("informers", &self.entries.lock().len())
            .finish_non_exhaustive()
    }
}

impl InformerFactory {
    /// A factory with default options.
    #[must_use]
    pub fn new(client: ::kube::Client) -> Self {
        let mut options = InformerOptions::default();
        options.reflector.initial_lists = Some(Arc::new(Semaphore::new(INITIAL_LISTS)));
        let stream = Some(SharedStream::new(client.clone()));
        Self {
            client,
            entries: Mutex::new(HashMap::new()),
            options,
            keep: Keep::default(),
            warm: None,
            stream,
        }
    }

    /// Sets how its informers list, queue and resync. Unless they say otherwise, they obtain 16 initial states at a time.
    #[must_use]
    pub fn options(mut self, options: InformerOptions) -> Self {
        let places = self.options.reflector.initial_lists.take();
        self.options = options;
        let own = &mut self.options.reflector.initial_lists;
        *own = own.take().or(places);
        self
    }

    /// Sets the parts of each object that its informers keep.
    #[must_use]
    pub fn keep(mut self, keep: Keep) -> Self {
        self.keep = keep;
        self
    }

    /// Saves the caches of its informers to a directory and resumes from there after a restart. See [`warm`](crate::warm).
    #[must_use]
    pub fn warm(mut self, options: WarmOptions) -> Self {
        self.warm = Some(options);
        self
    }

    /// Watches everything over one connection, in one order, from servers that offer it ([`listwatch_wire::stream`]). Default true.
    /// Other servers are watched kind by kind in any case.
    #[must_use]
    pub fn one_stream(mut self, one_stream: bool) -> Self {
        self.stream = one_stream.then(|| SharedStream::new(self.client.clone()));
        self
    }

    /// The informer for all objects of the type.
    pub fn informer<K>(&self) -> Shared<K>
    where
        K: ::kube::Resource<DynamicType = ()> + Send + Sync + 'static,
    {
        self.informer_for(Scope::of::<K>())
    }

    /// The informer for a scope: the one that exists, or a new one that the next [`start`](Self::start) starts.
    pub fn informer_for<K: Send + Sync + 'static>(&self, scope: Scope) -> Shared<K> {
        self.informer_with(scope, |builder| builder)
    }

    /// The same, and `configure` completes the options if the informer is new.
    pub fn informer_with<K: Send + Sync + 'static>(
        &self,
        scope: Scope,
        configure: impl FnOnce(InformerBuilder<K>) -> InformerBuilder<K>,
    ) -> Shared<K> {
        let mut entries = self.entries.lock();
        let id = (scope.clone(), std::any::TypeId::of::<K>());
        let known = entries.get(&id).map(|entry| Arc::clone(&entry.typed));
        if let Some(informer) = known.and_then(|any| any.downcast::<SharedInformer<K>>().ok())
            && !informer.is_stopped()
        {
            return Shared { informer, scope };
        }
        let mut builder =
            SharedInformer::<K>::builder(scope.sources(&self.client, self.keep, self.stream.clone()))
                .name(scope.name())
                .options(self.options.clone());
        if let Some(warm) = &self.warm {
            builder = builder.warm(warm.clone());
        }
        let informer = Arc::new(configure(builder).build());
        let any: Arc<dyn AnyInformer> = Arc::<SharedInformer<K>>::clone(&informer);
        let typed: Arc<dyn Any + Send + Sync> = Arc::<SharedInformer<K>>::clone(&informer);
        entries.retain(|_, entry| !entry.any.is_stopped());
        entries.insert(id, FactoryEntry { typed, any });
        Shared { informer, scope }
    }

    /// The lister for all objects of the type. It keeps the informer alive, also beyond the factory.
    pub fn lister<K>(&self) -> Lister<K>
    where
        K: ::kube::Resource<DynamicType = ()> + Send + Sync + 'static,
    {
        self.informer::<K>().lister()
    }

    /// A copy of the list, so that nothing is awaited under the lock.
    fn informers(&self) -> Vec<Arc<dyn AnyInformer>> {
        self.entries.lock().values().map(|entry| Arc::clone(&entry.any)).collect()
    }

    /// Starts every informer that has not been started. May be called again after more were made.
    ///
    /// # Errors
    /// [`InformerError::NoRuntime`] outside a Tokio runtime.
    pub fn start(&self) -> Result<(), InformerError> {
        for informer in self.informers() {
            match informer.start() {
                Ok(()) | Err(InformerError::AlreadyStarted) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Stops the informers that have no handler, and of which nobody holds a handle, lister or stream.
    pub fn release_unused(&self) {
        let unused = |entry: &FactoryEntry| {
            Arc::strong_count(&entry.any) <= OWN_REFERENCES && !entry.any.is_observed()
        };
        self.entries.lock().retain(|_, entry| !unused(entry));
    }

    /// Waits until the caches of all informers hold their initial state, all at the same time. Returns false if one of
    /// them stopped before, and for a factory without informers: nothing was cached. An informer that was not started
    /// is waited for, too.
    #[must_use = "false means that a cache is not filled"]
    pub async fn wait_for_cache_sync(&self) -> bool {
        let informers = self.informers();
        if informers.is_empty() {
            return false;
        }
        join_all(informers.iter().map(|informer| informer.wait_synced()))
            .await
            .into_iter()
            .all(|synced| synced)
    }

    /// Waits until the cache of every informer holds everything up to `revision`: with the resource version that a write
    /// returned, what is read of several kinds afterwards is not older than that write.
    ///
    /// Over one stream that takes a round trip. Where kinds are watched on their own, one that is quiet learns of it with the next
    /// bookmark of the server, which may be a minute away. A revision that never comes is waited for without end, so combine it with a
    /// timeout.
    ///
    /// # Errors
    /// [`Stopped`] when one of them has ended before that.
    pub async fn wait_for(&self, revision: Revision) -> Result<(), Stopped> {
        let informers = self.informers();
        if let Some(stream) = &self.stream {
            stream.bookmark(revision);
        }
        try_join_all(informers.iter().map(|informer| informer.wait_for(revision))).await.map(drop)
    }

    /// Returns the status of each informer.
    #[must_use]
    pub fn status(&self) -> Vec<InformerStatus> {
        self.informers().iter().map(|informer| informer.status()).collect()
    }

    /// Stops every informer and waits for them, handlers included. Informers made after this call are not affected.
    pub async fn shutdown(&self) {
        let informers = self.informers();
        join_all(informers.iter().map(|informer| informer.stop())).await;
    }
}
