//! [`Driver`]: follows the log of changes and runs the tasks they lead to, one at a time.
//!
//! Tasks run after a delay, [`LifecycleOptions::settle`](crate::LifecycleOptions): an owner may be written after its
//! dependents, and users expect to see a deleted object for a moment. Every task reads the store again before it
//! changes anything, so that a late or repeated task is harmless.
//!
//! Nothing here is durable: tasks follow from the state of the store, so a restart loads the state and finds them
//! again. Several servers on one store may each run one: tasks are idempotent, and writes are conditional.
//!
//! The tasks that a change leads to are `driver/observe.rs`; the order in which they are due is [`TaskQueue`].

mod observe;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use listwatch_storage::{Error, Expect, Write};
use listwatch_wire::{Revision, Status};
use tokio_util::sync::CancellationToken;

use crate::api::Api;
use crate::lifecycle::graph::OwnerGraph;
use crate::lifecycle::protection::MountedClaims;
use crate::lifecycle::queue::TaskQueue;
use crate::lifecycle::task::{LifecycleTask, TaskProgress};
use crate::lifecycle::{addresses, bootstrap, garbage, namespaces, policies, protection, quotas};
use crate::pipeline::origin;

/// The delay before the log is read again after an error.
const LOG_PAUSE: Duration = Duration::from_secs(1);

/// The controller loop: one task that turns changes into tasks and performs them one at a time. Nothing in it needs a
/// lock.
#[derive(Debug)]
pub(super) struct Driver {
    api: Arc<Api>,
    ca_pem: Option<String>,
    /// Tasks by due time. In memory only: after a restart they follow from the state again.
    queue: TaskQueue<LifecycleTask>,
    /// Owners and dependents of all kinds.
    graph: OwnerGraph,
    /// Owners that wait for dependents, by uid.
    ///
    /// Grows with owners in foreground deletion only.
    waiting: HashMap<Arc<str>, Arc<str>>,
    /// Terminating namespaces that something is left in.
    emptying: HashSet<Arc<str>>,
    /// The last write of each event and when it expires: one entry per event, however often that is written.
    expiring: HashMap<Arc<str>, (Revision, Instant)>,
    /// The claims that Pods use, as of the last time that was asked.
    mounted: MountedClaims,
    /// Namespaces whose bootstrap objects exist, so that not every Pod leads to a check.
    bootstrapped: HashSet<Arc<str>>,
}

impl Driver {
    /// A driver that has seen nothing: the first pass over the store fills the graph.
    pub(super) fn new(api: Arc<Api>, ca_pem: Option<String>) -> Self {
        Self {
            api,
            ca_pem,
            queue: TaskQueue::new(),
            graph: OwnerGraph::default(),
            waiting: HashMap::new(),
            emptying: HashSet::new(),
            expiring: HashMap::new(),
            mounted: MountedClaims::default(),
            bootstrapped: HashSet::new(),
        }
    }

    /// Follows the log until `stop` is cancelled or the engine is closed. After an error it starts over from the
    /// state of the cache.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        let work = async {
            loop {
                let problem = match self.follow().await {
                    Ok(never) => match never {},
                    Err(error) => error,
                };
                if matches!(problem, Error::Closed) {
                    return;
                }
                tracing::warn!(error = %problem, "lifecycle lost the log, starting over");
                tokio::time::sleep(LOG_PAUSE).await;
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = work => {}
        }
    }

    /// Loads the state of the cache, then follows the log from that revision.
    ///
    /// Between two batches of the log everything that is due is done, so a task never runs on a state older than what
    /// led to it.
    async fn follow(&mut self) -> Result<std::convert::Infallible, Error> {
        let position = self.load();
        let mut log = self.api.engine.changes(position).await?;
        loop {
            self.run_due_tasks().await;
            let batch = match self.queue.next_due() {
                Some(due) => tokio::time::timeout_at(due.into(), log.next()).await.ok(),
                None => Some(log.next().await),
            };
            if let Some(batch) = batch.transpose()? {
                batch.changes.iter().for_each(|change| self.observe(change));
            }
        }
    }

    /// Rebuilds the owner graph and queues tasks from the cache. Returns the revision to follow from.
    ///
    /// Walks all collections once, without parsing more than the fields that matter.
    fn load(&mut self) -> Revision {
        self.graph = OwnerGraph::default();
        self.expiring.clear();
        let position = self.api.cache.position().get();
        for collection in self.api.cache.collections() {
            let snapshot = collection.snapshot();
            let all = collection.walk(&crate::cache::Filter::default(), None);
            for object in snapshot.range(&all) {
                self.present(object.key(), object.stored(), object.revision(), true);
            }
        }
        position
    }

    /// The delay is the same for all tasks, so they run in the order in which their changes came.
    /// The time at which work that a change causes is due: changes that follow at once are part of it.
    fn settle_time(&self) -> Instant {
        Instant::now() + self.api.options.lifecycle.settle
    }

    /// Performs all tasks that are due. One that fails is tried again later.
    ///
    /// A task that fails is queued again with a growing delay. Tasks that wait for nothing would keep a thread to themselves, and
    /// connections with it, so others have their turn after each.
    async fn run_due_tasks(&mut self) {
        while let Some(task) = self.queue.take(Instant::now()) {
            tokio::task::yield_now().await;
            match self.perform(&task).await {
                Ok(TaskProgress::Done) => self.queue.succeeded(&task),
                Ok(TaskProgress::Waits) => self.queue.retry(task, Instant::now()),
                Err(status) => {
                    tracing::debug!(?task, %status, "lifecycle will try again");
                    self.queue.retry(task, Instant::now());
                }
            }
        }
    }

    /// Runs one task. Those that wait for other objects queue themselves again.
    ///
    /// # Errors
    ///
    /// The store or a write fails; the task is tried again later.
    async fn perform(&mut self, task: &LifecycleTask) -> Result<TaskProgress, Status> {
        match task {
            LifecycleTask::Dependent(key) => garbage::check_dependent(&self.api, &self.graph, key).await?,
            LifecycleTask::Owner(key) => return self.release(key).await,
            LifecycleTask::Namespace(name) => return self.empty(name).await,
            LifecycleTask::BootstrapNamespace(namespace) => {
                match bootstrap::bootstrap_namespace(&self.api, namespace, self.ca_pem.as_deref()).await {
                    // A namespace that is terminating or deleted needs nothing.
                    Err(status) if matches!(status.code, 403 | 404) => return Ok(TaskProgress::Done),
                    other => other?,
                }
                self.bootstrapped.insert(Arc::clone(namespace));
            }
            LifecycleTask::Release(collection, path) => {
                if !protection::release(&self.api, &mut self.mounted, collection, path).await? {
                    return Ok(TaskProgress::Waits);
                }
            }
            LifecycleTask::Address(address, path) => addresses::reconcile(&self.api, address, path).await?,
            LifecycleTask::Quotas(namespace) => quotas::recalculate(&self.api, namespace).await?,
            LifecycleTask::Policy(name) => policies::check(&self.api, name).await?,
            LifecycleTask::Expire(key) => self.expire(key).await?,
        }
        Ok(TaskProgress::Done)
    }

    /// Deletes an event, unless it was written again: then it is looked at when that version expires.
    async fn expire(&mut self, key: &Arc<str>) -> Result<(), Status> {
        let Some((revision, due)) = self.expiring.get(key).copied() else { return Ok(()) };
        if due > Instant::now() {
            self.queue.add(LifecycleTask::Expire(Arc::clone(key)), due);
            return Ok(());
        }
        let (expect, origin) = (Expect::At(revision), Some(origin::own()));
        let write = Write { key: Arc::clone(key), value: None, expect, origin };
        self.api.engine.write(write).await.map(drop).map_err(Status::internal)
    }

    /// Empties a namespace, and notes it while something is left.
    async fn empty(&mut self, name: &Arc<str>) -> Result<TaskProgress, Status> {
        // Added before the namespace is read, so that a deletion in between is not missed.
        self.emptying.insert(Arc::clone(name));
        if !namespaces::empty(&self.api, name).await? {
            return Ok(TaskProgress::Waits);
        }
        self.emptying.remove(name);
        Ok(TaskProgress::Done)
    }

    /// Carries out the finalizer of an owner. If dependents block it, they are checked first, and the owner again when
    /// the last of them is gone.
    async fn release(&mut self, key: &Arc<str>) -> Result<TaskProgress, Status> {
        let garbage::OwnerProgress::Blocked(uid) =
            garbage::release_owner(&self.api, &self.graph, key).await?
        else {
            return Ok(TaskProgress::Done);
        };
        let now = Instant::now();
        for dependent in self.graph.dependents(&uid) {
            self.queue.add(LifecycleTask::Dependent(dependent), now);
        }
        self.waiting.insert(uid, Arc::clone(key));
        Ok(TaskProgress::Waits)
    }
}
