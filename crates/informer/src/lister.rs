//! [`Lister`]: reads a cache by name, namespace and labels, with the API server's errors.
//!
//! A thin view on a [`Store`]; for anything that must be consistent with something else, take a snapshot. It never sends a
//! request: what it returns is as old as the cache, and a missing object may be one that has not arrived. client-go calls
//! the same thing a Lister.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use listwatch_wire::gvk::GroupVersionResource;
use listwatch_wire::selector::LabelSelector;
use listwatch_wire::status::Status;

use crate::object::{Object, Raw};
use crate::store::Store;

/// Reads a cache by name, namespace and labels.
///
/// It never sends a request. An object that was created a moment ago may be missing, and one that was deleted may
/// still be there: a controller that acts on a `NotFound` of a lister must tolerate both. Cloning it is cheap, and a
/// lister of a [factory](crate::factory) keeps its informer running.
///
/// ```
/// use listwatch::lister_watcher::InMemory;
/// use listwatch::wire::gvk::GroupVersionResource;
/// use listwatch::{LabelSelector, Lister, SharedInformer};
/// use serde_json::{Value, json};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let source = InMemory::new(100);
/// source.put(&json!({"metadata": {"namespace": "shop", "name": "web", "labels": {"app": "web"}}}))?;
/// source.put(&json!({"metadata": {"namespace": "shop", "name": "db", "labels": {"app": "db"}}}))?;
///
/// let informer = SharedInformer::<Value>::new(source);
/// informer.start()?;
/// informer.wait_synced().await;
///
/// let pods = Lister::new(informer.store().clone(), GroupVersionResource::new("", "v1", "pods"));
/// let web: LabelSelector = "app=web".parse()?;
/// assert_eq!(pods.list(&web).len(), 1);
/// assert!(pods.namespace("shop").get("db").is_ok());
///
/// // The error is the one that the API server would return.
/// let missing = pods.namespace("shop").get("cache").unwrap_err();
/// assert_eq!(missing.message, "pods \"cache\" not found");
/// # Ok(())
/// # }
/// ```
#[doc(alias = "GenericLister")]
pub struct Lister<K = Raw> {
    store: Store<K>,
    resource: GroupVersionResource,
    /// The informer that fills the store, if the lister is all that is left of it.
    alive: Option<Arc<dyn Any + Send + Sync>>,
}

impl<K> Clone for Lister<K> {
    fn clone(&self) -> Self {
        Self { store: self.store.clone(), resource: self.resource.clone(), alive: self.alive.clone() }
    }
}

impl<K> fmt::Debug for Lister<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lister").field("resource", &self.resource).field("store", &self.store).finish()
    }
}

impl<K> Lister<K> {
    /// Returns a lister over this store. The resource is named in its `NotFound` errors, and nowhere else.
    #[must_use]
    pub fn new(store: Store<K>, resource: GroupVersionResource) -> Self {
        Self { store, resource, alive: None }
    }

    /// Keeps `informer` from being dropped for as long as the lister is used.
    pub(crate) fn keeping(mut self, informer: Arc<dyn Any + Send + Sync>) -> Self {
        self.alive = Some(informer);
        self
    }

    /// Returns all objects whose labels match, ordered by namespace and name. An empty selector matches all.
    ///
    /// Every object is looked at. For a query that is made often, add an [index](Store::add_index): its cost is that
    /// of the result.
    #[must_use]
    pub fn list(&self, selector: &LabelSelector) -> Vec<Object<K>> {
        self.store.snapshot().select(selector).cloned().collect()
    }

    /// Returns the cluster-scoped object of this name. Namespaced objects are found through
    /// [`namespace`](Self::namespace).
    ///
    /// # Errors
    /// The server's `NotFound` if it is not in the cache.
    pub fn get(&self, name: &str) -> Result<Object<K>, Status> {
        self.get_in("", name)
    }

    /// Returns a view of one namespace.
    #[must_use]
    pub fn namespace<'a>(&'a self, namespace: &'a str) -> NamespaceLister<'a, K> {
        NamespaceLister { lister: self, namespace }
    }

    /// True if its informer has stopped. The lister still works, but what it reads no longer changes.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.store.is_stopped()
    }

    /// Returns the store, for snapshots, indexes and waiting.
    #[must_use]
    pub fn store(&self) -> &Store<K> {
        &self.store
    }

    fn get_in(&self, namespace: &str, name: &str) -> Result<Object<K>, Status> {
        let not_found = || Status::not_found(&self.resource.group, &self.resource.resource, name);
        self.store.get_by(namespace, name).ok_or_else(not_found)
    }
}

/// Reads one namespace of a cache. Its cost is that of the namespace, not of the whole cache.
#[derive(Debug)]
#[doc(alias = "GenericNamespaceLister")]
pub struct NamespaceLister<'a, K = Raw> {
    lister: &'a Lister<K>,
    namespace: &'a str,
}

impl<K> NamespaceLister<'_, K> {
    /// The object of this name.
    ///
    /// # Errors
    /// The server's `NotFound`, when it is not in the cache.
    pub fn get(&self, name: &str) -> Result<Object<K>, Status> {
        self.lister.get_in(self.namespace, name)
    }

    /// The objects whose labels match, by name.
    #[must_use]
    pub fn list(&self, selector: &LabelSelector) -> Vec<Object<K>> {
        let snapshot = self.lister.store.snapshot();
        snapshot.namespace(self.namespace).filter(|object| object.matches(selector)).cloned().collect()
    }
}
