//! [`Lister`]: reading a cache by name, namespace and labels, with the errors one knows from the API.
//!
//! A thin view on a [`Store`]; for anything that must be consistent with something else, take a snapshot. It never asks
//! the server: what it returns is as old as the cache, and a missing object may be one that has not arrived. client-go
//! calls the same thing a Lister.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use listwatch_wire::gvk::GroupVersionResource;
use listwatch_wire::selector::LabelSelector;
use listwatch_wire::status::Status;

use crate::object::{Object, Raw};
use crate::store::Store;

/// Reads a cache by name, namespace and labels. Never sends a request: an object that was created a moment ago may be
/// missing.
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
    /// Reads this store; the resource is named in errors.
    #[must_use]
    pub fn new(store: Store<K>, resource: GroupVersionResource) -> Self {
        Self { store, resource, alive: None }
    }

    /// Keeps `informer` from being dropped for as long as the lister is used.
    pub(crate) fn keeping(mut self, informer: Arc<dyn Any + Send + Sync>) -> Self {
        self.alive = Some(informer);
        self
    }

    /// All objects whose labels match, by namespace and name. An empty selector matches all.
    #[must_use]
    pub fn list(&self, selector: &LabelSelector) -> Vec<Object<K>> {
        self.store.snapshot().select(selector).cloned().collect()
    }

    /// The object without a namespace of this name.
    ///
    /// # Errors
    /// The server's `NotFound`, when it is not in the cache.
    pub fn get(&self, name: &str) -> Result<Object<K>, Status> {
        self.get_in("", name)
    }

    /// Returns a view of one namespace.
    #[must_use]
    pub fn namespace<'a>(&'a self, namespace: &'a str) -> NamespaceLister<'a, K> {
        NamespaceLister { lister: self, namespace }
    }

    /// True if its informer has stopped: what it reads grows old.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.store.is_stopped()
    }

    /// The store.
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
