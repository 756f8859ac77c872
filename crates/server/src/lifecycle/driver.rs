//! [`Driver`]: follows the log of changes and runs the tasks they lead to, one at a time.
//!
//! Tasks run after a delay, [`LifecycleOptions::settle`](crate::LifecycleOptions): an owner may be written after its
//! dependents, and users expect to see a deleted object for a moment. Every task reads the store again before it
//! changes anything, so that a late or repeated task is harmless.
//!
//! Nothing here is durable: tasks follow from the state of the store, so a restart loads the state and finds them
//! again. Several servers on one store may each run one: tasks are idempotent, and writes are conditional.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use listwatch_storage::{Change, Error, Expect, Write};
use listwatch_wire::{Revision, Status};
use tokio_util::sync::CancellationToken;

use crate::NamespaceObjects;
use crate::api::Api;
use crate::lifecycle::graph;
use crate::lifecycle::graph::OwnerGraph;
use crate::lifecycle::place::split;
use crate::lifecycle::protection::MountedClaims;
use crate::lifecycle::queue::TaskQueue;
use crate::lifecycle::task::{LifecycleTask, TaskProgress};
use crate::lifecycle::{addresses, bootstrap, garbage, namespaces, policies, protection, quotas};
use crate::pipeline::origin;

/// The delay before a namespace is looked at again after an object in it is gone: many may go one after the other.
const AGAIN: Duration = Duration::from_millis(500);
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

    /// The previous value matters for Services: an address that it no longer has must be given up.
    fn observe(&mut self, change: &Change) {
        let previous = change.previous.as_ref().map(|(_, value)| &value[..]);
        self.note_address(&change.key, previous);
        match &change.value {
            Some(value) => self.present(&change.key, value, change.revision, false),
            None => self.gone(&change.key, change.previous.as_ref().map(|(_, value)| &value[..])),
        }
    }

    /// An address that a Service has, or had before, is looked at.
    fn note_address(&mut self, key: &str, service: Option<&[u8]>) {
        if self.api.options.lifecycle.service_addresses
            && let (Some(("services", path)), Some(service)) = (split(key), service)
            && let Some(address) = addresses::address_of(service)
        {
            self.queue.add(LifecycleTask::Address(address, path.into()), Instant::now());
        }
    }

    /// An object is there, new or changed.
    fn present(&mut self, key: &Arc<str>, value: &[u8], revision: Revision, at_start: bool) {
        let options = self.api.options.lifecycle;
        let Some((collection, path)) = split(key) else { return };
        let soon = self.settle_time();
        self.note_address(key, Some(value));
        match collection {
            "namespaces" if options.empty_namespaces && namespaces::terminating(value) => {
                self.queue.add(LifecycleTask::Namespace(path.into()), soon);
            }
            "namespaces" if options.namespace_objects == NamespaceObjects::AtOnce => {
                self.bootstrap_namespace(path)
            }
            "pods" if options.namespace_objects == NamespaceObjects::WithFirstPod => {
                if let Some((namespace, _)) = path.split_once('/') {
                    self.bootstrap_namespace(namespace);
                }
            }
            "events" => {
                if let Some(ttl) = options.event_ttl {
                    let age = if at_start { age(value) } else { Duration::ZERO };
                    let due = Instant::now() + ttl.saturating_sub(age);
                    self.expiring.insert(Arc::clone(key), (revision, due));
                    self.queue.add(LifecycleTask::Expire(Arc::clone(key)), due);
                }
            }
            _ => {}
        }
        if collection == "pods" && quotas::gives_back(value) {
            self.release_claims(path, Some(value));
        }
        if options.storage_protection && protection::waits(collection, value) {
            self.queue.add(LifecycleTask::Release(collection.into(), path.into()), soon);
        }
        if options.quota_status {
            self.note_quotas(collection, path, value);
        }
        if options.policy_status && collection == policies::COLLECTION && policies::is_outdated(value) {
            self.queue.add(LifecycleTask::Policy(path.into()), Instant::now());
        }
        if options.collect_garbage {
            let trees = &self.api.cache.trees;
            let change = self.graph.set(key, value, || trees.peek_bytes(key, value));
            if change.has_new_owners {
                self.queue.add(LifecycleTask::Dependent(Arc::clone(key)), soon);
            }
            self.wake_owners(&change.former);
            if garbage::waits(value) {
                self.queue.add(LifecycleTask::Owner(Arc::clone(key)), soon);
            }
        }
    }

    /// Usage is counted again when a quota changes its limits or a Pod gives something back.
    fn note_quotas(&mut self, collection: &str, path: &str, value: &[u8]) {
        match collection {
            // The cache may not have the quota yet.
            "resourcequotas" if quotas::is_outdated(value) => {
                let soon = self.settle_time();
                if let Some((namespace, _)) = path.split_once('/') {
                    self.queue.add(LifecycleTask::Quotas(namespace.into()), soon);
                }
            }
            "pods" if quotas::gives_back(value) => self.recount(path),
            _ => {}
        }
    }

    /// Only for namespaces with quotas, which is a lookup in the cache.
    fn recount(&mut self, path: &str) {
        if let Some((namespace, _)) = path.split_once('/')
            && quotas::limits(&self.api, namespace)
        {
            let soon = self.settle_time();
            self.queue.add(LifecycleTask::Quotas(namespace.into()), soon);
        }
    }

    /// Queues the bootstrap objects of a namespace, once in the life of the process.
    fn bootstrap_namespace(&mut self, namespace: &str) {
        if !self.bootstrapped.contains(namespace) {
            self.queue.add(LifecycleTask::BootstrapNamespace(namespace.into()), Instant::now());
        }
    }

    /// Handles a deleted object: its dependents are checked, and its owners may be released.
    fn gone(&mut self, key: &Arc<str>, last: Option<&[u8]>) {
        match split(key) {
            Some(("namespaces", name)) => {
                self.bootstrapped.remove(name);
                self.emptying.remove(name);
            }
            Some(("events", _)) => {
                self.expiring.remove(key);
                self.queue.remove(&LifecycleTask::Expire(Arc::clone(key)));
            }
            Some(("pods", path)) => self.release_claims(path, last),
            _ => {}
        }
        self.look_into_namespace(key);
        if let Some((collection, path)) = split(key)
            && collection != "events"
            && self.api.options.lifecycle.quota_status
        {
            self.recount(path);
        }
        let owners = self.graph.remove(key);
        self.wake_owners(&owners);
        let soon = self.settle_time();
        let uid = last.and_then(graph::uid);
        let dependents = uid.as_ref().map(|uid| self.graph.dependents(uid)).unwrap_or_default();
        uid.iter().for_each(|uid| drop(self.waiting.remove(uid)));
        for dependent in dependents {
            self.queue.add(LifecycleTask::Dependent(dependent), soon);
        }
    }

    /// Queues the owners among these that nothing blocks any longer.
    fn wake_owners(&mut self, uids: &[Arc<str>]) {
        let free = uids.iter().filter(|uid| !self.graph.is_blocked(uid));
        for owner in free.filter_map(|uid| self.waiting.get(uid)) {
            self.queue.add(LifecycleTask::Owner(Arc::clone(owner)), Instant::now());
        }
    }

    /// Queues the namespace of an object that is gone, if it waits for that.
    fn look_into_namespace(&mut self, key: &str) {
        let namespace = split(key).and_then(|(_, path)| path.split_once('/')).map(|(namespace, _)| namespace);
        if let Some(name) = namespace.and_then(|namespace| self.emptying.get(namespace)) {
            self.queue.add(LifecycleTask::Namespace(Arc::clone(name)), Instant::now() + AGAIN);
        }
    }

    /// Queues the deleted claims of a Pod that is gone or has ended.
    fn release_claims(&mut self, path: &str, pod: Option<&[u8]>) {
        let (Some((namespace, _)), Some(pod)) = (path.split_once('/'), pod) else { return };
        let soon = self.settle_time();
        for claim in protection::claims_of(pod) {
            let path = Arc::from(format!("{namespace}/{claim}"));
            let task = LifecycleTask::Release(protection::CLAIMS.into(), path);
            if self.queue.contains(&task) {
                self.queue.add(task, soon);
            }
        }
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
        // Before it is looked at, so that nothing that goes meanwhile is missed.
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

/// Returns the age of an event, by its creation time.
///
/// Zero for an event without a readable time, so that it lives for its whole time from now on.
fn age(value: &[u8]) -> Duration {
    let created = listwatch_wire::json::raw::lookup(value, &["metadata", "creationTimestamp"]);
    let text = created.and_then(|raw| std::str::from_utf8(raw).ok()).unwrap_or_default().trim_matches('"');
    let Ok(created) = text.parse::<jiff::Timestamp>() else { return Duration::ZERO };
    let seconds = jiff::Timestamp::now().as_second() - created.as_second();
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}
