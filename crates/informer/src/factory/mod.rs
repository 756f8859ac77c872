//! [`InformerFactory`]: one informer per collection, shared by all its users.
//!
//! Two parts of a program that need the same pods share one watch and one cache. Informers are identified by their
//! [`Scope`]: kind, namespaces and selectors. The factory keeps its informers alive, so a handler can be added without
//! keeping a handle. [`InformerFactory::release_unused`] stops the informers that have no other holder.
//!
//! Where the server offers it, one connection carries the watches of all informers, in the order of revisions.

mod scope;
mod shared;

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use futures::future::{join_all, try_join_all};
use listwatch_wire::Revision;
use tokio::sync::Semaphore;

pub use self::scope::Scope;
use self::shared::AnyInformer;
pub use self::shared::Shared;
use crate::informer::{InformerBuilder, InformerError, InformerOptions, InformerStatus, SharedInformer};
use crate::kube::SharedStream;
use crate::lister::Lister;
use crate::object::Keep;
use crate::store::Stopped;
use crate::sync::Mutex;
use crate::warm::WarmOptions;

/// An informer in both its forms.
struct FactoryEntry {
    /// The typed informer, for callers with the same type.
    typed: Arc<dyn Any + Send + Sync>,
    any: Arc<dyn AnyInformer>,
}

/// The references to an informer that its own [`FactoryEntry`] holds.
const OWN_REFERENCES: usize = 2;

/// The number of informers of a factory that obtain their initial state at a time.
const INITIAL_LISTS: usize = 16;

/// Informers are shared by callers with the same scope and type.
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

    /// Sets the options of informers that are made from now on. By default, 16 of them obtain their
    /// initial state at a time: a program with a hundred informers would else send a hundred lists at once.
    #[must_use]
    pub fn options(mut self, options: InformerOptions) -> Self {
        let places = self.options.reflector.initial_lists.take();
        self.options = options;
        let own = &mut self.options.reflector.initial_lists;
        *own = own.take().or(places);
        self
    }

    /// Sets the parts of each object that its informers keep. Leaving out [managed
    /// fields](crate::object::ManagedFields) saves about a third of the memory.
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

    /// Watches everything over one connection, in one order, from servers that offer it ([`listwatch_wire::stream`]).
    /// Default true. Other servers are watched kind by kind in any case.
    #[must_use]
    pub fn one_stream(mut self, one_stream: bool) -> Self {
        self.stream = one_stream.then(|| SharedStream::new(self.client.clone()));
        self
    }

    /// Returns the informer for all objects of the type.
    pub fn informer<K>(&self) -> Shared<K>
    where
        K: ::kube::Resource<DynamicType = ()> + Send + Sync + 'static,
    {
        self.informer_for(Scope::of::<K>())
    }

    /// Returns the informer for a scope: the one that exists, or a new one that the next [`start`](Self::start)
    /// starts. One that has stopped is replaced.
    pub fn informer_for<K: Send + Sync + 'static>(&self, scope: Scope) -> Shared<K> {
        self.informer_with(scope, |builder| builder)
    }

    /// Returns the informer for a scope as [`informer_for`](Self::informer_for) does, and lets `configure` complete it
    /// if it is new. An existing informer keeps its configuration: that of the first caller.
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

    /// Returns a lister for all objects of the type. It keeps the informer alive, also beyond the factory.
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

    /// Stops the informers without a handler that are not referenced by any handle, lister or stream.
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
    /// returned, later reads of any kind are not older than that write.
    ///
    /// Over one stream that takes a round trip. With separate watches, an idle kind advances with the next bookmark of
    /// the server, which may be a minute away. It waits for ever for a revision that never comes, so combine it with a
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

    /// Returns the status of each informer, in no order.
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
