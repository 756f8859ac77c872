//! [`Controller`]: a reconcile function, kept up to date by informers.
//!
//! ```text
//!  source of the kind ─┐
//!  owned kinds ────────┼─► keys ─► work queue ─► reconcile
//!  watched kinds ──────┘
//! ```
//!
//! Events of all sources become keys of the reconciled kind. For each key that is due, the function is called with the
//! object in the cache, never concurrently for the same key. All state is in the informers' stores; the controller
//! keeps none, so it can be tested by its effect on an in-memory source.
//!
//! Reading order: this file for the builder, `watched` for sources, [`predicate`] for event filters, [`finalizer`] for
//! cleaning up, `run` for the reconcile loop, `status` for its counters. It is not an informer
//! ([`informer`](crate::informer)), nor a client to write with (`kube::Api`).

pub mod finalizer;
pub mod predicate;
mod run;
mod running;
mod start;
mod status;
mod watched;

use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use listwatch_wire::ObjectKey;
use listwatch_workqueue::Options;
use listwatch_workqueue::limiter::RateLimiter;
use tokio_util::sync::CancellationToken;

pub use finalizer::{FinalizerError, Finalizers, KubeFinalizers};
pub use listwatch_workqueue::Outcome;
pub use run::{ControllerError, OnError, Reconcile};
pub use running::RunningController;
pub use status::{ControllerMonitor, ControllerStatus};
pub use watched::IntoInformer;

use crate::informer::SharedInformer;
use crate::leader_election::{ElectionOutcome, LeaderElection, Leadership, LeaseLock};
use crate::object::Object;
use crate::processor::Event;
use run::{Cleanup, DeletedFunction, Finalize};
use watched::{AnyWatched, Watched, controller_key};

/// Any error, as a reconcile function returns it.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

type ControllerWork = Box<dyn FnOnce(Leadership) -> BoxFuture<'static, ()> + Send>;
type Elect =
    Box<dyn FnOnce(CancellationToken, ControllerWork) -> BoxFuture<'static, ElectionOutcome<()>> + Send>;

/// Bounds on the work of a [`Controller`].
#[derive(Clone, Copy)]
struct ControllerBounds {
    concurrency: usize,
    timeout: Option<Duration>,
    grace: Duration,
}

/// Settings of a [`Controller`] that have nothing to do with its types.
struct Setup {
    name: String,
    bounds: ControllerBounds,
    stop: CancellationToken,
    signals: bool,
    queue: Options<ObjectKey>,
    elect: Option<Elect>,
}

/// A controller for objects of type `K`.
///
/// `J` is the type of the source that was added last: [`filter`](Self::filter) is about that one.
///
/// ```
/// use listwatch::controller::{Controller, Outcome, Reconcile};
/// use listwatch::lister_watcher::InMemory;
/// use serde_json::{Value, json};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // Against a cluster: kube::Api::<Greeting>::all(client).
/// let greetings = InMemory::new(100);
/// greetings.put(&json!({"metadata": {"name": "hi"}, "spec": {"text": "hello"}}))?;
///
/// let controller = Controller::<Value>::new(greetings).start(|greeting: Reconcile<Value>| async move {
///     println!("{} says {}", greeting.key(), greeting.get()?["spec"]["text"]);
///     Ok::<_, listwatch::ObjectError>(Outcome::Done)
/// })?;
/// controller.monitor().idle().await;
/// assert_eq!(controller.monitor().status().reconciles, 1);
/// controller.stop().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a controller does nothing until it is run"]
#[doc(alias = "Reconciler")]
pub struct Controller<K, J = K> {
    setup: Setup,
    informer: SharedInformer<K>,
    /// The sources but the last.
    watched: Vec<Box<dyn AnyWatched>>,
    last: Watched<J>,
    finalize: Option<Finalize<K>>,
    deleted: Option<DeletedFunction>,
    types: PhantomData<fn(&Event<J>) -> K>,
}

impl<K, J> fmt::Debug for Controller<K, J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller").field("name", &self.setup.name).finish_non_exhaustive()
    }
}

impl<K: Send + Sync + 'static> Controller<K> {
    /// Reconciles the objects of this source. Defaults: 8 at a time, no timeout, 30 s of grace at the end, and the
    /// retry delays of client-go.
    pub fn new(source: impl IntoInformer<K>) -> Self {
        let informer = source.into_informer();
        let bounds = ControllerBounds { concurrency: 8, timeout: None, grace: Duration::from_secs(30) };
        let setup = Setup {
            name: informer.name().to_owned(),
            bounds,
            stop: CancellationToken::new(),
            signals: false,
            queue: Options::new(),
            elect: None,
        };
        let map = Arc::new(|object: &Object<K>, keys: &mut Vec<_>| keys.push(object.key().clone()));
        let last = Watched { informer: informer.clone(), predicates: Vec::new(), map };
        Self { setup, informer, watched: Vec::new(), last, finalize: None, deleted: None, types: PhantomData }
    }
}

impl<K: Send + Sync + 'static, J: Send + Sync + 'static> Controller<K, J> {
    /// Adds a source, whose type becomes that of the last one.
    fn and_watches<I>(self, last: Watched<I>) -> Controller<K, I> {
        let mut watched = self.watched;
        watched.push(Box::new(self.last));
        Controller {
            setup: self.setup,
            informer: self.informer,
            watched,
            last,
            finalize: self.finalize,
            deleted: self.deleted,
            types: PhantomData,
        }
    }

    /// Also reconciles an object when one that it owns changes: one whose owner references name it as the controller.
    ///
    /// ```no_run
    /// use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
    /// use kube::Api;
    /// use listwatch::Controller;
    ///
    /// # fn example(client: kube::Client) {
    /// // A Deployment is reconciled when it changes, and when one of its ReplicaSets does.
    /// let controller = Controller::new(Api::<Deployment>::all(client.clone())).owns(Api::<ReplicaSet>::all(client));
    /// # }
    /// ```
    #[doc(alias = "EnqueueRequestForOwner")]
    pub fn owns<I>(self, source: impl IntoInformer<I>) -> Controller<K, I>
    where
        K: kube::Resource<DynamicType = ()>,
    {
        let map =
            Arc::new(|object: &Object<I>, keys: &mut Vec<_>| keys.extend(controller_key::<K, I>(object)));
        self.and_watches(Watched { informer: source.into_informer(), predicates: Vec::new(), map })
    }

    /// Also reconciles the objects that `map` names when an object of another source changes. It is called with the old
    /// and the new state.
    ///
    /// ```
    /// use listwatch::controller::{Controller, Outcome, Reconcile};
    /// use listwatch::lister_watcher::InMemory;
    /// use listwatch::{Object, ObjectKey};
    /// use serde_json::{Value, json};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (apps, secrets) = (InMemory::new(100), InMemory::new(100));
    /// apps.put(&json!({"metadata": {"namespace": "x", "name": "web"}}))?;
    /// // Which app uses a Secret is in the label of the Secret. With an index over the apps it could be any of their fields.
    /// let users = |secret: &Object<Value>| {
    ///     let app = secret.label("app").map(|app| app.into_owned());
    ///     app.map(|app| ObjectKey::namespaced(secret.namespace(), &app))
    /// };
    /// let controller = Controller::<Value>::new(apps)
    ///     .watches(secrets.clone(), users)
    ///     .start(|_: Reconcile<Value>| async { Ok::<_, std::io::Error>(Outcome::Done) })?;
    /// while controller.monitor().status().reconciles < 1 {
    ///     tokio::task::yield_now().await;
    /// }
    /// secrets.put(&json!({"metadata": {"namespace": "x", "name": "s", "labels": {"app": "web"}}}))?;
    /// while controller.monitor().status().reconciles < 2 {
    ///     tokio::task::yield_now().await;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "EnqueueRequestsFromMapFunc")]
    pub fn watches<I, M>(
        self,
        source: impl IntoInformer<I>,
        map: impl Fn(&Object<I>) -> M + Send + Sync + 'static,
    ) -> Controller<K, I>
    where
        M: IntoIterator<Item = ObjectKey>,
    {
        let map = Arc::new(move |object: &Object<I>, keys: &mut Vec<_>| keys.extend(map(object)));
        self.and_watches(Watched { informer: source.into_informer(), predicates: Vec::new(), map })
    }

    /// Ignores the events of the source that was added last which do not pass; see [`predicate`]. Of several filters, an
    /// event must pass all.
    ///
    /// ```no_run
    /// use k8s_openapi::api::apps::v1::Deployment;
    /// use kube::Api;
    /// use listwatch::Controller;
    /// use listwatch::controller::predicate;
    ///
    /// # fn example(client: kube::Client) {
    /// // Not for changes of the status, which the controller itself writes.
    /// let controller = Controller::new(Api::<Deployment>::all(client)).filter(predicate::generation);
    /// # }
    /// ```
    #[doc(alias = "WithEventFilter")]
    pub fn filter(mut self, passes: impl Fn(&Event<J>) -> bool + Send + Sync + 'static) -> Self {
        self.last.predicates.push(Arc::new(passes));
        self
    }

    /// Runs `cleanup` before an object is removed: the object gets this finalizer before it is first reconciled, and
    /// loses it when it is being deleted and `cleanup` returned [`Outcome::Done`].
    ///
    /// It is for resources outside of the cluster: objects in it are deleted by the garbage collector if they have an owner
    /// reference. The clean-up may run more than once, so it must succeed for what is gone already.
    ///
    /// ```no_run
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kube::Api;
    /// use listwatch::Controller;
    /// use listwatch::controller::{KubeFinalizers, Outcome, Reconcile};
    ///
    /// # fn example(client: kube::Client) {
    /// let controller = Controller::new(Api::<ConfigMap>::all(client.clone())).finalizer(
    ///     "example.com/bucket",
    ///     KubeFinalizers::of::<ConfigMap>(client),
    ///     |map: Reconcile<ConfigMap>| async move {
    ///         println!("deleting the bucket of {}", map.key());
    ///         Ok::<_, std::io::Error>(Outcome::Done)
    ///     },
    /// );
    /// # }
    /// ```
    #[doc(alias = "controllerutil.AddFinalizer")]
    pub fn finalizer<F, E>(
        mut self,
        name: impl Into<String>,
        finalizers: impl Finalizers,
        cleanup: impl Fn(Reconcile<K>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Outcome, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        let cleanup: Cleanup<K> = Box::new(move |object| {
            let run = cleanup(object);
            Box::pin(async move { run.await.map_err(Into::into) })
        });
        self.finalize = Some(Finalize { name: name.into(), finalizers: Box::new(finalizers), cleanup });
        self
    }

    /// Calls a function with the key of an object that was deleted, in the place of a reconcile: to drop state that is kept by
    /// key. Clean-up that must not be missed needs a [`finalizer`](Self::finalizer), because a controller that is not running
    /// when the object is deleted never gets its key.
    pub fn on_deleted(mut self, deleted: impl Fn(&ObjectKey) + Send + Sync + 'static) -> Self {
        self.deleted = Some(Arc::new(deleted));
        self
    }

    /// Its name in metrics, spans and logs. Default: the name of the informer.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.setup.name = name.into();
        self
    }

    /// The number of objects that are reconciled at a time; never one twice. Default 8: enough that one slow object
    /// does not hold up the others, few enough to spare the server.
    #[doc(alias = "MaxConcurrentReconciles")]
    pub fn concurrency(mut self, objects: usize) -> Self {
        self.setup.bounds.concurrency = objects;
        self
    }

    /// The time a reconcile may take; then it is dropped at its next await and counts as failed. Default: no limit.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.setup.bounds.timeout = Some(limit);
        self
    }

    /// The time that reconciles may take after the controller was stopped. Default 30 s, the default grace period of a
    /// Pod.
    pub fn shutdown_grace(mut self, grace: Duration) -> Self {
        self.setup.bounds.grace = grace;
        self
    }

    /// Stops when the token is cancelled: keys that are due and reconciles in progress have the
    /// [grace](Self::shutdown_grace).
    pub fn shutdown_on(mut self, stop: CancellationToken) -> Self {
        self.setup.stop = stop;
        self
    }

    /// Stops on SIGINT and SIGTERM, as [`shutdown_on`](Self::shutdown_on) does. Their default action, to end the
    /// process at once, is replaced for the whole process.
    pub fn shutdown_on_signal(mut self) -> Self {
        self.setup.signals = true;
        self
    }

    /// Lets tenants take turns: a flood of one delays the others by one object at most. `|key| key.namespace().to_owned()`
    /// makes each namespace a tenant. Default: one queue for all objects.
    pub fn fair<T: Hash>(mut self, tenant: impl Fn(&ObjectKey) -> T + Send + 'static) -> Self {
        self.setup.queue = self.setup.queue.fair(tenant);
        self
    }

    /// The time an object waits after an error. Default: 5 ms, doubled with each error, up to 1000 s, and no more than ten
    /// retries per second on average.
    #[doc(alias = "RateLimiter")]
    pub fn backoff(mut self, limiter: impl RateLimiter<ObjectKey> + 'static) -> Self {
        self.setup.queue = self.setup.queue.limiter(limiter);
        self
    }

    /// Reconciles only while it is the leader. The caches are filled and kept up to date before, so that work begins at
    /// once when the lease is acquired. [`run`](Self::run) ends with [`ControllerError::LeadershipLost`] when it is lost.
    pub fn leader_election<L: LeaseLock>(mut self, election: LeaderElection<L>) -> Self {
        self.setup.elect =
            Some(Box::new(move |stop, work| Box::pin(async move { election.run(&stop, work).await })));
        self
    }
}
