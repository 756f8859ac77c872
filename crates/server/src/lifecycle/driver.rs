//! [`Driver`]: follows the log of changes and runs the tasks they lead to, those of different namespaces at the same time.
//!
//! Tasks run after a delay, [`LifecycleOptions::settle`](crate::LifecycleOptions): an owner may be written after its
//! dependents, and users expect to see a deleted object for a moment. Every task reads the store again before it
//! changes anything, so that a late or repeated task is harmless.
//!
//! Nothing here is durable: tasks follow from the state of the store, so a restart loads the state and finds them
//! again. Several servers on one store may each run one: tasks are idempotent, and writes are conditional.
//!
//! The tasks that a change leads to are `driver/observe.rs`, and their work is `driver/perform.rs`. [`TaskQueue`] has the
//! times at which they are due, [`TaskLanes`] decides which of the due ones run.

mod observe;
mod perform;

use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use listwatch_storage::Error;
use listwatch_wire::{Revision, Status};
use parking_lot::RwLock;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::perform::TaskContext;
use crate::api::Api;
use crate::lifecycle::graph::{OwnerGraph, Uid};
use crate::lifecycle::lanes::TaskLanes;
use crate::lifecycle::protection::MountedClaims;
use crate::lifecycle::queue::TaskQueue;
use crate::lifecycle::task::{LifecycleTask, TaskProgress};

/// The delay before the log is read again after an error.
const LOG_PAUSE: Duration = Duration::from_secs(1);
/// The time after which the queue is looked at again if nothing is in it.
const IDLE: Duration = Duration::from_secs(3600);

/// The controller loop: one task that turns changes into tasks, starts those that are due and takes note of their ends.
#[derive(Debug)]
pub(super) struct Driver {
    api: Arc<Api>,
    context: Arc<TaskContext>,
    /// Tasks by due time. In memory only: after a restart they follow from the state again.
    queue: TaskQueue<LifecycleTask>,
    /// Tasks that are due.
    lanes: TaskLanes,
    /// Tasks that run. They end with the driver.
    running: JoinSet<TaskEnd>,
    /// Owners that wait for dependents, by uid.
    ///
    /// Grows with owners in foreground deletion only.
    waiting: HashMap<Arc<str>, Arc<str>>,
    /// Terminating namespaces that something is left in.
    emptying: HashSet<Arc<str>>,
    /// The last write of each event and when it expires: one entry per event, however often that is written.
    expiring: HashMap<Arc<str>, (Revision, Instant)>,
    /// Namespaces whose bootstrap objects exist or are being written, so that not every Pod leads to a check.
    bootstrapped: HashSet<Arc<str>>,
}

/// A task that has ended: its result, or the panic of a bug.
type TaskEnd = (LifecycleTask, Result<Result<TaskProgress, Status>, Box<dyn Any + Send>>);

impl Driver {
    /// A driver that has seen nothing: the first pass over the store fills the graph.
    pub(super) fn new(api: Arc<Api>, ca_pem: Option<String>) -> Self {
        let context = TaskContext {
            api: Arc::clone(&api),
            ca_pem,
            graph: RwLock::new(OwnerGraph::default()),
            mounted: tokio::sync::Mutex::new(MountedClaims::default()),
        };
        Self {
            api,
            context: Arc::new(context),
            queue: TaskQueue::new(),
            lanes: TaskLanes::default(),
            running: JoinSet::new(),
            waiting: HashMap::new(),
            emptying: HashSet::new(),
            expiring: HashMap::new(),
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
    /// The ends of tasks come before further changes: a change that follows from a task must find it ended.
    async fn follow(&mut self) -> Result<std::convert::Infallible, Error> {
        let position = self.load();
        let mut log = self.api.engine.changes(position).await?;
        loop {
            self.start_due_tasks();
            let due = self.queue.next_due().unwrap_or_else(|| Instant::now() + IDLE);
            tokio::select! {
                biased;
                Some(end) = self.running.join_next() => self.take_note(end),
                batch = log.next() => batch?.changes.iter().for_each(|change| self.observe(change)),
                () = tokio::time::sleep_until(due.into()) => {}
            }
        }
    }

    /// Rebuilds the owner graph and queues tasks from the cache. Returns the revision to follow from.
    ///
    /// Walks all collections once, without parsing more than the fields that matter.
    fn load(&mut self) -> Revision {
        *self.context.graph.write() = OwnerGraph::default();
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

    /// Starts the tasks that are due and have a place in their lane.
    fn start_due_tasks(&mut self) {
        let now = Instant::now();
        while let Some(task) = self.queue.take(now) {
            self.lanes.add(task);
        }
        while let Some(task) = self.lanes.take() {
            self.start(task);
        }
    }

    /// Starts one task. What its work would change in the driver is changed before, so that no change is missed meanwhile.
    fn start(&mut self, task: LifecycleTask) {
        let context = Arc::clone(&self.context);
        match &task {
            LifecycleTask::Expire(key) => {
                let key = Arc::clone(key);
                match self.expired(&key) {
                    Some(revision) => self.spawn(task, async move { context.expire(key, revision).await }),
                    None => self.lanes.ended(&task),
                }
                return;
            }
            LifecycleTask::Namespace(name) => drop(self.emptying.insert(Arc::clone(name))),
            LifecycleTask::BootstrapNamespace(name) => drop(self.bootstrapped.insert(Arc::clone(name))),
            _ => {}
        }
        let own = task.clone();
        self.spawn(task, async move { context.perform(&own).await });
    }

    /// Runs the work of a task beside the driver. A panic ends the task only.
    fn spawn(
        &mut self,
        task: LifecycleTask,
        work: impl Future<Output = Result<TaskProgress, Status>> + Send + 'static,
    ) {
        self.running.spawn(async move { (task, AssertUnwindSafe(work).catch_unwind().await) });
    }

    /// The last revision of an event if it has expired. If it was written again, it is looked at when that version expires.
    fn expired(&mut self, key: &Arc<str>) -> Option<Revision> {
        let (revision, due) = self.expiring.get(key).copied()?;
        if due > Instant::now() {
            self.queue.add(LifecycleTask::Expire(Arc::clone(key)), due);
            return None;
        }
        Some(revision)
    }

    /// Starts the next task in the place of a finished one, and queues that again if it is not done, with backoff if it failed.
    fn take_note(&mut self, end: Result<TaskEnd, tokio::task::JoinError>) {
        let Ok((task, result)) = end else { return };
        self.lanes.ended(&task);
        match result {
            Ok(Ok(TaskProgress::Done)) => return self.succeeded(&task),
            Ok(Ok(TaskProgress::Waits)) => {}
            Ok(Ok(TaskProgress::Blocked(uid))) => self.wait_for_dependents(&task, uid),
            Ok(Err(status)) => return self.failed(task, &status),
            Err(_) => tracing::error!(?task, "a lifecycle task has panicked; it will be tried again"),
        }
        self.queue.retry(task, Instant::now());
    }

    /// Drops the retry state of a task that succeeded.
    fn succeeded(&mut self, task: &LifecycleTask) {
        self.queue.succeeded(task);
        if let LifecycleTask::Namespace(name) = task {
            self.emptying.remove(name);
        }
    }

    /// Queues a failed task again, except for a namespace that is terminating or deleted: that needs no bootstrap objects.
    fn failed(&mut self, task: LifecycleTask, status: &Status) {
        if let LifecycleTask::BootstrapNamespace(name) = &task {
            self.bootstrapped.remove(name);
            if matches!(status.code, 403 | 404) {
                return self.queue.succeeded(&task);
            }
        }
        tracing::debug!(?task, %status, "lifecycle will try again");
        self.queue.retry(task, Instant::now());
    }

    /// Checks the dependents that block an owner, and the owner again when the last of them is gone.
    fn wait_for_dependents(&mut self, owner: &LifecycleTask, uid: Uid) {
        let LifecycleTask::Owner(key) = owner else { return };
        let now = Instant::now();
        let graph = self.context.graph.read();
        if !graph.is_blocked(&uid) {
            // The last of them went while the task ran.
            self.queue.add(owner.clone(), now);
            return;
        }
        for dependent in graph.dependents(&uid) {
            self.queue.add(LifecycleTask::Dependent(dependent), now);
        }
        drop(graph);
        self.waiting.insert(uid, Arc::clone(key));
    }
}
