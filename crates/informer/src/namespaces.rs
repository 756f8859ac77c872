//! [`Namespaces`]: the namespaces that an informer reads, added and removed while it runs.
//!
//! An informer over several namespaces lists and watches each separately, into one cache. The set can change: a
//! namespace that is added is listed, and its objects are delivered as added; a namespace that is removed is no longer
//! read, and its objects are delivered as deleted, with their final state unknown. With
//! [`KubeSource::namespaces_labelled`](crate::kube::KubeSource::namespaces_labelled) the set follows the labels of
//! Namespaces by itself.
//!
//! ```
//! use std::sync::Arc;
//! use listwatch::lister_watcher::{InMemory, ListerWatcher, Sources};
//! use listwatch::SharedInformer;
//! use serde_json::{Value, json};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Against a cluster: `KubeSource::of::<Pod>(client).namespaces(["blue"])`.
//! let sources = Sources::namespaces(["blue"], |namespace: &str| -> Arc<dyn ListerWatcher> {
//!     let pods = InMemory::new(100);
//!     let _ = pods.put(&json!({"metadata": {"namespace": namespace, "name": "web"}}));
//!     Arc::new(pods)
//! });
//! let informer = SharedInformer::<Value>::new(sources);
//! informer.start()?;
//! informer.wait_synced().await;
//!
//! informer.namespaces().add("green")?;
//! informer.namespaces().wait_synced("green").await;
//! assert_eq!(informer.store().len(), 2);
//!
//! informer.namespaces().remove("blue")?;
//! informer.namespaces().wait_removed("blue").await;
//! assert!(informer.store().get_by("blue", "web").is_none());
//! # Ok(())
//! # }
//! ```

use std::collections::HashSet;
use std::fmt;

use crate::informer::{InformerError, SharedInformer};

/// The namespaces of an informer, for adding and removing some while it runs. Holding it keeps the informer alive.
pub struct Namespaces<K> {
    informer: SharedInformer<K>,
}

impl<K> fmt::Debug for Namespaces<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Namespaces").field(&self.informer.name()).finish()
    }
}

impl<K: Send + Sync + 'static> Namespaces<K> {
    pub(crate) fn new(informer: SharedInformer<K>) -> Self {
        Self { informer }
    }

    /// The namespaces, sorted. Empty for an informer that reads all of them by one watch.
    #[must_use]
    pub fn list(&self) -> Vec<String> {
        self.informer.core().namespaces()
    }

    /// Adds a namespace, before or after the start. Returns false if it is there already.
    ///
    /// # Errors
    /// [`InformerError::FixedNamespaces`] if the sources are fixed, [`InformerError::Source`] if this one can never succeed,
    /// [`InformerError::Stopped`].
    pub fn add(&self, namespace: &str) -> Result<bool, InformerError> {
        self.informer.core().add_namespace(namespace)
    }

    /// Removes a namespace. Its objects are delivered to handlers as deleted. Returns false if it is not there.
    ///
    /// # Errors
    /// [`InformerError::FixedNamespaces`] if the sources are fixed, [`InformerError::Stopped`].
    pub fn remove(&self, namespace: &str) -> Result<bool, InformerError> {
        self.informer.core().remove_namespace(namespace)
    }

    /// Makes these the namespaces: adds and removes what differs. The others are not touched.
    ///
    /// # Errors
    /// As [`add`](Self::add) and [`remove`](Self::remove).
    pub fn set<N: Into<String>>(&self, namespaces: impl IntoIterator<Item = N>) -> Result<(), InformerError> {
        let namespaces: HashSet<String> = namespaces.into_iter().map(Into::into).collect();
        self.informer.core().set_namespaces(&namespaces)
    }

    /// Waits until the cache holds the state of a namespace. Returns false if the namespace is not, or no longer, among
    /// them, or the informer stops.
    pub async fn wait_synced(&self, namespace: &str) -> bool {
        let core = self.informer.core();
        core.until(|core| core.is_current(namespace) || !core.has_namespace(namespace)).await;
        core.is_current(namespace)
    }

    /// Waits until the cache holds nothing of a namespace that was removed, or the informer stops.
    pub async fn wait_removed(&self, namespace: &str) {
        self.informer.core().until(|core| core.is_gone(namespace)).await;
    }
}
