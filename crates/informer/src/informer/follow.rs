//! Namespaces by label: an inner informer of Namespaces adds and removes the namespaces of the outer informer.
//!
//! The initial set is applied as a whole after the inner informer has synced. Only then are namespaces removed that a
//! saved cache had and that no longer match; the outer informer does not count as synced before, since more namespaces
//! may follow.
//!
//! The task holds a weak reference: following namespaces must not keep an informer alive that its owner has dropped.
//! Adding and removing a source is `source_set`.

use std::collections::HashSet;
use std::sync::{Arc, Weak};

use futures::StreamExt;
use tokio_util::sync::CancellationToken;

use super::{InformerCore, InformerError, SharedInformer};
use crate::lister_watcher::{ListerWatcher, Sources};
use crate::object::Raw;
use crate::processor::Event;

/// Adds and removes the namespaces of an informer until it stops.
pub(super) async fn run<K: Send + Sync + 'static>(
    core: Weak<InformerCore<K>>,
    namespaces: Arc<dyn ListerWatcher>,
    stop: CancellationToken,
) {
    let Some(name) = core.upgrade().map(|core| format!("{} namespaces", core.monitor.name())) else { return };
    let informer = SharedInformer::<Raw>::builder(Sources::one(namespaces)).name(name).build();
    let (Ok(mut events), Ok(())) = (informer.events(), informer.start()) else { return };
    // The initial namespaces are collected, so that those of a saved cache that no longer exist are found by comparison.
    let mut initial = Some(HashSet::new());
    while let Some(Some(event)) = stop.run_until_cancelled(events.next()).await {
        let Some(core) = core.upgrade() else { break };
        let name = event.key().map(|key| key.name().to_owned()).unwrap_or_default();
        let done = match (&event, &mut initial) {
            (Event::Synced, initial) => core.follow_initial(&initial.take().unwrap_or_default()),
            (Event::Deleted(_), Some(initial)) => {
                initial.remove(&name);
                Ok(())
            }
            (_, Some(initial)) => {
                initial.insert(name.clone());
                Ok(())
            }
            (Event::Deleted(_), None) => core.remove_namespace(&name).map(drop),
            (_, None) => core.add_namespace(&name).map(drop),
        };
        if let Err(error) = done {
            tracing::warn!(informer = %core.monitor.name(), namespace = %name, %error, "cannot follow a namespace");
        }
    }
    informer.stop().await;
}

impl<K: Send + Sync + 'static> InformerCore<K> {
    /// The namespaces to follow are these.
    fn follow_initial(&self, namespaces: &HashSet<String>) -> Result<(), InformerError> {
        self.set_namespaces(namespaces)?;
        self.positions.lock().set_known();
        self.settle();
        Ok(())
    }
}
