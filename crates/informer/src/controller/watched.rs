//! The informers of a controller, and the mapping from their events to keys of the objects to reconcile.
//!
//! One informer is of the reconciled kind; the others are what controller-runtime calls `Owns` and `Watches`. Each gets
//! one handler, which filters by predicates, maps and enqueues. An update is mapped with the old and the new object: an
//! object whose owner changed must lead to a reconcile of both owners.
//!
//! `AnyWatched` and `AnyBegun` erase the type of the watched object, so that a controller can hold informers of
//! different kinds in one list. The reconcile loop itself is in `run`.

use std::sync::Arc;

use futures::future::BoxFuture;
use listwatch_wire::ObjectKey;
use listwatch_workqueue::Queue;

use crate::factory::Shared;
use crate::informer::{InformerError, InformerStatus, SharedInformer};
use crate::kube::{KubeNamespaces, is_cluster_scoped};
use crate::lister_watcher::{ListerWatcher, Sources};
use crate::object::Object;
use crate::processor::enqueue::priority_of;
use crate::processor::{Event, HandlerOptions, Registration};

/// A source that a controller can watch: a [`SharedInformer`] or an informer of a factory, which others may use too, or the
/// source of a new one: a `kube::Api`, a [`KubeSource`](crate::kube::KubeSource), an
/// [`InMemory`](crate::lister_watcher::InMemory) collection.
///
/// An informer that several controllers share has one cache, and one watch at the server:
///
/// ```
/// use listwatch::controller::{Controller, Outcome, Reconcile};
/// use listwatch::{SharedInformer, lister_watcher::InMemory};
/// use serde_json::Value;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pods = SharedInformer::<Value>::new(InMemory::new(100));
/// let done = |_: Reconcile<Value>| async { Ok::<_, std::io::Error>(Outcome::Done) };
/// let first = Controller::new(pods.clone()).name("first").start(done)?;
/// let second = Controller::new(pods.clone()).name("second").start(done)?;
/// first.monitor().idle().await;
/// assert_eq!(pods.status().handlers.len(), 2);
/// # second.stop().await?;
/// # Ok(())
/// # }
/// ```
#[doc(alias = "Source")]
pub trait IntoInformer<K> {
    /// Returns the informer. One that is shared is returned as it is, with its handlers and whether or not it was
    /// started.
    fn into_informer(self) -> SharedInformer<K>;
}

impl<K> IntoInformer<K> for SharedInformer<K> {
    fn into_informer(self) -> SharedInformer<K> {
        self
    }
}

impl<K> IntoInformer<K> for Shared<K> {
    fn into_informer(self) -> SharedInformer<K> {
        (*self).clone()
    }
}

/// The type is that of the `Api`, so it need not be named again.
impl<K: kube::Resource<DynamicType = ()> + Send + Sync + 'static> IntoInformer<K> for kube::Api<K> {
    fn into_informer(self) -> SharedInformer<K> {
        let name = K::plural(&()).into_owned();
        SharedInformer::builder(self).name(name).build()
    }
}

impl<K: Send + Sync + 'static> IntoInformer<K> for Sources {
    fn into_informer(self) -> SharedInformer<K> {
        SharedInformer::new(self)
    }
}

impl<K: Send + Sync + 'static> IntoInformer<K> for KubeNamespaces {
    fn into_informer(self) -> SharedInformer<K> {
        SharedInformer::new(self)
    }
}

impl<K: Send + Sync + 'static, L: ListerWatcher> IntoInformer<K> for L {
    fn into_informer(self) -> SharedInformer<K> {
        SharedInformer::new(self)
    }
}

impl<K: Send + Sync + 'static, L: ListerWatcher> IntoInformer<K> for Arc<L> {
    fn into_informer(self) -> SharedInformer<K> {
        SharedInformer::new(self)
    }
}

/// Decides which events of a source count.
pub(super) type Predicate<J> = Arc<dyn Fn(&Event<J>) -> bool + Send + Sync>;
/// Finds the objects to reconcile when another object changes.
pub(super) type MapFunction<J> = Arc<dyn Fn(&Object<J>, &mut Vec<ObjectKey>) + Send + Sync>;

/// A source with its rules.
pub(super) struct Watched<J> {
    pub(super) informer: SharedInformer<J>,
    pub(super) predicates: Vec<Predicate<J>>,
    pub(super) map: MapFunction<J>,
}

/// A source with its object type erased.
pub(super) trait AnyWatched: Send + Sync {
    /// Adds the handler and starts the informer, unless it was started.
    fn begin(self: Box<Self>, queue: &Queue<ObjectKey>, controller: &str) -> Result<Begun, InformerError>;
}

/// A source at work.
pub(super) struct Begun {
    pub(super) synced: BoxFuture<'static, bool>,
    pub(super) source: Arc<dyn AnyBegun>,
}

/// A started source with its object type erased.
pub(super) trait AnyBegun: Send + Sync {
    /// Events that have not become keys yet.
    fn backlog(&self) -> usize;
    /// For the status of the controller.
    fn status(&self) -> InformerStatus;
    fn is_stopped(&self) -> bool;
    /// No more events become keys.
    fn end(&self);
}

/// An informer and the registration of the controller's handler, which ends when this is dropped.
struct WatchedSource<J> {
    informer: SharedInformer<J>,
    handler: Registration<J>,
}

impl<J: Send + Sync + 'static> AnyBegun for WatchedSource<J> {
    fn backlog(&self) -> usize {
        self.handler.status().backlog
    }

    fn status(&self) -> InformerStatus {
        self.informer.status()
    }

    fn is_stopped(&self) -> bool {
        self.informer.is_stopped()
    }

    fn end(&self) {
        self.handler.remove();
    }
}

impl<J: Send + Sync + 'static> AnyWatched for Watched<J> {
    fn begin(self: Box<Self>, queue: &Queue<ObjectKey>, controller: &str) -> Result<Begun, InformerError> {
        let Self { informer, predicates, map } = *self;
        let queue = queue.clone();
        let mut keys = Vec::new();
        let enqueue = move |event: &Event<J>| {
            if !predicates.iter().all(|passes| passes(event)) {
                return;
            }
            keys_of(event, &map, &mut keys);
            let priority = priority_of(event);
            for key in keys.drain(..) {
                // The queue has no bound and refuses only when it is shut down: then no worker runs any more.
                let _ = queue.add_with(key, (), priority);
            }
        };
        let handler = informer.add_event_handler_with(enqueue, HandlerOptions::named(controller))?;
        match informer.start() {
            Ok(()) | Err(InformerError::AlreadyStarted) => {}
            Err(error) => return Err(error),
        }
        let waits = handler.clone();
        let synced = Box::pin(async move { waits.wait_synced().await });
        Ok(Begun { synced, source: Arc::new(WatchedSource { informer, handler }) })
    }
}

/// The objects that an event is about. An object that moved from one to another is about both.
fn keys_of<J>(event: &Event<J>, map: &MapFunction<J>, keys: &mut Vec<ObjectKey>) {
    if let Event::Updated { old, .. } = event {
        map(old, keys);
    }
    if let Some(object) = event.object() {
        map(object, keys);
    }
    keys.sort_unstable();
    keys.dedup();
}

/// The key of the `K` that manages an object, by its owner references.
pub(super) fn controller_key<K, J>(object: &Object<J>) -> Option<ObjectKey>
where
    K: kube::Resource<DynamicType = ()>,
{
    let owner = object.controller_owner()?;
    if owner.kind != K::kind(&()) || owner.group() != K::group(&()) {
        return None;
    }
    let namespace = if is_cluster_scoped::<K>() { "" } else { object.namespace() };
    Some(ObjectKey::namespaced(namespace, &owner.name))
}
