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
use crate::lifecycle::queue::TaskQueue;
use crate::lifecycle::{addresses, bootstrap, garbage, namespaces, policies, protection, quotas};
use crate::pipeline::origin;

/// The delay before a task that waits for other objects runs again.
const AGAIN: Duration = Duration::from_millis(500);
/// The delay before the log is read again after an error.
const LOG_PAUSE: Duration = Duration::from_secs(1);

/// One piece of work, due at some time.
///
/// Hashable, so that a task that is queued already is not queued twice.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum LifecycleTask {
    /// Decide about an object that names owners.
    Dependent(Arc<str>),
    /// Carry out foreground or orphan deletion of an owner.
    Owner(Arc<str>),
    /// Empty a namespace.
    Namespace(Arc<str>),
    /// Create the default ServiceAccount and the `kube-root-ca.crt` ConfigMap of a namespace.
    BootstrapNamespace(Arc<str>),
    /// Remove the protection of a deleted claim or volume that is not used: collection and path.
    Release(Arc<str>, Arc<str>),
    /// Write or remove the IPAddress of an address that a Service has or had: address and path of the Service.
    Address(Arc<str>, Arc<str>),
    /// Count the usage of the quotas of a namespace.
    Quotas(Arc<str>),
    /// Check the types in a policy.
    Policy(Arc<str>),
    /// Delete an event if it is still the same.
    Expire(Arc<str>, Revision),
}

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
                    self.queue.add(LifecycleTask::Expire(Arc::clone(key), revision), due);
                }
            }
            _ => {}
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
            if self.graph.set(key, value, || trees.peek_bytes(key, value)) {
                self.queue.add(LifecycleTask::Dependent(Arc::clone(key)), soon);
            }
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
        if let Some(("namespaces", name)) = split(key) {
            self.bootstrapped.remove(name);
        }
        if let Some((collection, path)) = split(key)
            && collection != "events"
            && self.api.options.lifecycle.quota_status
        {
            self.recount(path);
        }
        let now = Instant::now();
        for uid in self.graph.remove(key) {
            if let Some(owner) = self.waiting.remove(&uid) {
                self.queue.add(LifecycleTask::Owner(owner), now);
            }
        }
        let soon = self.settle_time();
        let dependents = last.and_then(graph::uid).map(|uid| self.graph.dependents(&uid)).unwrap_or_default();
        for dependent in dependents {
            self.queue.add(LifecycleTask::Dependent(dependent), soon);
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
                Ok(()) => self.queue.succeeded(&task),
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
    async fn perform(&mut self, task: &LifecycleTask) -> Result<(), Status> {
        match task {
            LifecycleTask::Dependent(key) => garbage::check_dependent(&self.api, &self.graph, key).await,
            LifecycleTask::Owner(key) => self.release(key).await,
            LifecycleTask::Namespace(name) => {
                if !namespaces::empty(&self.api, name).await? {
                    self.queue.add(LifecycleTask::Namespace(Arc::clone(name)), Instant::now() + AGAIN);
                }
                Ok(())
            }
            LifecycleTask::BootstrapNamespace(namespace) => {
                match bootstrap::bootstrap_namespace(&self.api, namespace, self.ca_pem.as_deref()).await {
                    // A namespace that is terminating or deleted needs nothing.
                    Err(status) if matches!(status.code, 403 | 404) => return Ok(()),
                    other => other?,
                }
                self.bootstrapped.insert(Arc::clone(namespace));
                Ok(())
            }
            LifecycleTask::Release(collection, path) => {
                if !protection::release(&self.api, collection, path).await? {
                    self.queue.add(task.clone(), Instant::now() + AGAIN);
                }
                Ok(())
            }
            LifecycleTask::Address(address, path) => addresses::reconcile(&self.api, address, path).await,
            LifecycleTask::Quotas(namespace) => quotas::recalculate(&self.api, namespace).await,
            LifecycleTask::Policy(name) => policies::check(&self.api, name).await,
            LifecycleTask::Expire(key, revision) => {
                let (expect, origin) = (Expect::At(*revision), Some(origin::own()));
                let write = Write { key: Arc::clone(key), value: None, expect, origin };
                self.api.engine.write(write).await.map(drop).map_err(Status::internal)
            }
        }
    }

    /// Carries out the finalizer of an owner. If dependents block it, they are checked first and the owner again when
    /// one of them is deleted.
    async fn release(&mut self, key: &Arc<str>) -> Result<(), Status> {
        let garbage::OwnerProgress::WaitFor(dependents) =
            garbage::release_owner(&self.api, &self.graph, key).await?
        else {
            return Ok(());
        };
        let now = Instant::now();
        let found = self.api.engine.get(key, None).await.map_err(Status::internal)?;
        if let Some(uid) = found.and_then(|found| graph::uid(&found.value)) {
            self.waiting.insert(uid, Arc::clone(key));
        }
        for dependent in dependents {
            self.queue.add(LifecycleTask::Dependent(dependent), now);
        }
        self.queue.add(LifecycleTask::Owner(Arc::clone(key)), now + AGAIN);
        Ok(())
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
