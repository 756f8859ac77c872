//! [`Shared`]: an informer held by a factory and its users, and its type-erased form.
//!
//! A factory has informers of many types in one map. [`AnyInformer`] is the part of an informer that does not depend on
//! the type of its objects, which is all that starting, waiting and stopping need.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use listwatch_wire::Revision;

use super::scope::Scope;
use crate::informer::{InformerError, InformerStatus, SharedInformer};
use crate::lister::Lister;
use crate::store::Stopped;

/// An informer with its object type erased.
pub(super) trait AnyInformer: Send + Sync {
    /// Starts the informer; nothing if it runs.
    fn start(&self) -> Result<(), InformerError>;
    /// For the status of the factory.
    fn status(&self) -> InformerStatus;
    /// Waits for the first complete state. False if the informer ended before.
    fn wait_synced(&self) -> BoxFuture<'_, bool>;
    /// Waits until the cache is at least at this revision, to read your own writes.
    fn wait_for(&self, revision: Revision) -> BoxFuture<'_, Result<(), Stopped>>;
    /// Ends the informer and waits for its handlers.
    fn stop(&self) -> BoxFuture<'_, ()>;
    /// A stopped informer is replaced by a new one on the next request.
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

/// An informer of the factory: dereferences to the [`SharedInformer`], and keeps it alive.
///
/// As long as one exists, [`InformerFactory::release_unused`](super::InformerFactory::release_unused) does not stop
/// the informer.
pub struct Shared<K> {
    pub(super) informer: Arc<SharedInformer<K>>,
    pub(super) scope: Scope,
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
