//! [`KubeNamespaces`]: one collection in several namespaces, with a separate watch for each.
//!
//! For programs without access to the whole cluster, and for a few namespaces of a large cluster. Adding and removing
//! one while the informer runs is in [`namespaces`](crate::namespaces).

use std::sync::Arc;

use listwatch_wire::selector::LabelSelector;

use super::super::resource::ResourceKind;
use super::KubeSource;
use crate::lister_watcher::{ListerWatcher, Sources};

/// A [`KubeSource`] for several namespaces. More can be [added at run time](crate::namespaces).
#[derive(Clone, Debug)]
pub struct KubeNamespaces {
    pub(super) source: KubeSource,
    pub(super) namespaces: Vec<String>,
    pub(super) may_be_empty: bool,
    pub(super) labels: Option<LabelSelector>,
}

impl KubeNamespaces {
    /// Lets the informer start without a namespace. Else that is an error, because a program that meant all namespaces
    /// would wait for ever.
    #[must_use]
    pub fn allow_empty(mut self) -> Self {
        self.may_be_empty = true;
        self
    }
}

impl From<KubeNamespaces> for Sources {
    fn from(several: KubeNamespaces) -> Self {
        let KubeNamespaces { source, namespaces, may_be_empty, labels } = several;
        let (client, stream) = (source.client.clone(), source.stream.clone());
        let make = move |namespace: &str| -> Arc<dyn ListerWatcher> {
            Arc::new(source.clone().namespace(namespace))
        };
        let mut sources = Self::namespaces(namespaces, make);
        if let Some(labels) = labels {
            let namespaces = KubeSource::new(client, ResourceKind::namespaces().metadata_only());
            sources = sources.follow(Arc::new(namespaces.labels(labels).stream(stream)));
        } else if let Some(open) = &mut sources.open {
            open.may_be_empty = may_be_empty;
        }
        sources
    }
}
