//! Waiting for a state of the cache: synced, usable, or as new as a write.
//!
//! Every method here returns when the informer stops, so that a program that shuts down has no task left that waits for
//! a state that will never come. Waiting for a condition of one object is [`until::wait_for`].

use std::sync::Arc;

use listwatch_wire::{ObjectKey, Revision};

use super::{InformerError, SharedInformer};
use crate::object::Object;
use crate::processor::{EventStream, HandlerOptions};
use crate::until::{self, UntilError};
use crate::warm::Freshness;

/// One object, from now on.
pub(crate) struct Followed<K> {
    /// The object in the cache.
    pub(crate) now: Option<Object<K>>,
    /// The initial state is complete, so that absence means something.
    pub(crate) synced: bool,
    /// Every later change of it.
    pub(crate) changes: EventStream<K>,
}

impl<K: Send + Sync + 'static> SharedInformer<K> {
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

    /// Waits until the cache holds the object under `key` in this version or a later one, or has seen it go. Returns
    /// the object that is there then.
    ///
    /// With the resource version that a write returned, this is read-your-writes for one object. It does not depend
    /// on other changes of the collection, so it is sooner than [`Store::wait_for`](crate::Store::wait_for) where
    /// many sources feed one cache. It waits without end for a version that never comes: combine it with a timeout.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use listwatch::SharedInformer;
    /// use listwatch::lister_watcher::InMemory;
    /// use serde_json::json;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = InMemory::new(1000);
    /// let informer = SharedInformer::<listwatch::Raw>::new(server.clone());
    /// informer.start()?;
    ///
    /// // A controller writes, and must not decide by an older state afterwards.
    /// let written = server.put(&json!({"metadata": {"namespace": "default", "name": "web"}}))?;
    /// let key = listwatch::ObjectKey::namespaced("default", "web");
    /// let found = tokio::time::timeout(Duration::from_secs(10), informer.wait_for(&key, written)).await??;
    /// assert!(found.is_some_and(|object| object.revision() >= written));
    /// # informer.stop().await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`UntilError`] if the informer stops before.
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

    /// Waits until the store holds the initial state. Returns false if the informer stopped before, so that a program
    /// that is shut down while its server is unreachable does not hang here.
    #[doc(alias = "WaitForCacheSync")]
    pub async fn wait_synced(&self) -> bool {
        let mut synced = self.core.synced.subscribe();
        let mut stopped = self.core.stopped.subscribe();
        tokio::select! {
            biased;
            // The core owns the senders, and this handle keeps the core: neither channel closes while this waits.
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
}
