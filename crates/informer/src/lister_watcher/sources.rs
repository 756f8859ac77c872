//! [`Sources`]: the sources that one informer reads, by namespace.
//!
//! They are only named here. [`informer`](crate::informer) runs a reflector for each, and [`namespaces`](crate::namespaces) adds
//! and removes them at run time.

use std::fmt;
use std::sync::Arc;

use super::ListerWatcher;

/// The sources that an informer reads: one, or one per namespace.
///
/// A `ListerWatcher` converts into one by itself, so [`SharedInformer::new`](crate::SharedInformer::new) takes either.
/// Several sources share one cache and one sequence of events; each has its own reflector, position and backoff.
///
/// ```
/// use std::sync::Arc;
///
/// use listwatch::lister_watcher::{InMemory, ListerWatcher, Sources};
/// use listwatch::SharedInformer;
/// use serde_json::{Value, json};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (a, b) = (InMemory::new(10), InMemory::new(10));
/// a.put(&json!({"metadata": {"namespace": "a", "name": "x"}}))?;
/// b.put(&json!({"metadata": {"namespace": "b", "name": "x"}}))?;
/// let both: [(String, Arc<dyn ListerWatcher>); 2] = [("a".into(), Arc::new(a)), ("b".into(), Arc::new(b))];
/// let informer = SharedInformer::<Value>::new(Sources::per_namespace(both));
/// informer.start()?;
/// assert!(informer.wait_synced().await);
/// assert_eq!(informer.store().len(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Sources {
    pub(crate) partitions: Vec<Partition>,
    /// Set if namespaces can be added and removed at run time.
    pub(crate) open: Option<OpenNamespaces>,
}

/// A source that has one namespace to itself, or everything.
#[derive(Clone)]
pub(crate) struct Partition {
    pub(crate) namespace: Option<Arc<str>>,
    pub(crate) source: Arc<dyn ListerWatcher>,
}

pub(crate) type MakeSource = dyn Fn(&str) -> Arc<dyn ListerWatcher> + Send + Sync;

/// The reader of namespaces that are added later.
#[derive(Clone)]
pub(crate) struct OpenNamespaces {
    pub(crate) make: Arc<MakeSource>,
    /// A collection of Namespaces: those in it are read.
    pub(crate) follow: Option<Arc<dyn ListerWatcher>>,
    /// There may be none at the start.
    pub(crate) may_be_empty: bool,
}

impl Sources {
    /// One source for everything that the informer is about.
    #[must_use]
    pub fn one(source: Arc<dyn ListerWatcher>) -> Self {
        Self { partitions: vec![Partition { namespace: None, source }], open: None }
    }

    /// One source per namespace. Each is listed and watched on its own, so one that fails delays only itself.
    pub fn per_namespace(sources: impl IntoIterator<Item = (String, Arc<dyn ListerWatcher>)>) -> Self {
        let partition =
            |(namespace, source): (String, _)| Partition { namespace: Some(namespace.into()), source };
        Self { partitions: sources.into_iter().map(partition).collect(), open: None }
    }

    /// One source per namespace, each made by `make` from its name. Namespaces can be [added and
    /// removed](crate::namespaces) while the informer runs, and there may be none at the start.
    pub fn namespaces<N: Into<String>>(
        namespaces: impl IntoIterator<Item = N>,
        make: impl Fn(&str) -> Arc<dyn ListerWatcher> + Send + Sync + 'static,
    ) -> Self {
        let mut names: Vec<String> = namespaces.into_iter().map(Into::into).collect();
        names.sort();
        names.dedup();
        let made = names.into_iter().map(|namespace| {
            let source = make(&namespace);
            (namespace, source)
        });
        let made: Vec<_> = made.collect();
        let open = OpenNamespaces { make: Arc::new(make), follow: None, may_be_empty: true };
        Self { open: Some(open), ..Self::per_namespace(made) }
    }

    /// Follows a collection of Namespaces: those in it are read, from when they appear to when they go. With the source of
    /// Namespaces limited by a label selector, a Namespace that gains or loses the label is added or removed.
    /// Sources that were not made by [`namespaces`](Self::namespaces) follow nothing.
    #[must_use]
    pub fn follow(mut self, namespaces: Arc<dyn ListerWatcher>) -> Self {
        if let Some(open) = &mut self.open {
            open.follow = Some(namespaces);
        }
        self
    }
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.partitions.iter().map(|partition| &partition.namespace)).finish()
    }
}

impl<L: ListerWatcher> From<L> for Sources {
    fn from(source: L) -> Self {
        Self::one(Arc::new(source))
    }
}

impl<L: ListerWatcher> From<Arc<L>> for Sources {
    fn from(source: Arc<L>) -> Self {
        Self::one(source)
    }
}
