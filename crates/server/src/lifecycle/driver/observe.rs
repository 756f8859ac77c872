//! The tasks that a change of the store leads to.
//!
//! Nothing is written or awaited here: a change is looked at once, in the order of the log, and leaves tasks in the
//! queue. They are performed by [`super`]. A controller is a case of [`Driver::present`] or [`Driver::gone`] and a
//! task.

use std::sync::Arc;
use std::time::{Duration, Instant};

use listwatch_storage::Change;
use listwatch_wire::Revision;

use super::Driver;
use crate::NamespaceObjects;
use crate::lifecycle::graph;
use crate::lifecycle::place::split;
use crate::lifecycle::task::LifecycleTask;
use crate::lifecycle::words::ChangedObject;
use crate::lifecycle::{addresses, garbage, namespaces, policies, protection, quotas};

/// The delay before a namespace is looked at again after an object in it is gone: many may go one after the other.
const AGAIN: Duration = Duration::from_millis(500);

impl Driver {
    /// The previous value matters for Services: an address that it no longer has must be given up.
    pub(super) fn observe(&mut self, change: &Change) {
        let previous = change.previous.as_ref().map(|(_, value)| &value[..]);
        self.note_address(&change.key, previous);
        match &change.value {
            Some(value) => self.present(&change.key, value, change.revision, false),
            None => self.gone(&change.key, previous),
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

    /// Adds the tasks that follow from an object that is new or changed.
    pub(super) fn present(&mut self, key: &Arc<str>, value: &[u8], revision: Revision, at_start: bool) {
        let options = self.api.options.lifecycle;
        let Some((collection, path)) = split(key) else { return };
        let soon = self.settle_time();
        self.note_address(key, Some(value));
        self.note_namespace(collection, path, value, soon);
        if collection == "events" {
            let age = if at_start { age(value) } else { Duration::ZERO };
            self.note_event(key, revision, age);
        }
        let tree = self.api.cache.trees.peek_bytes(key, value);
        let object = ChangedObject { bytes: value, tree: tree.as_ref() };
        if collection == "pods" && quotas::gives_back(object) {
            self.release_claims(path, Some(value));
        }
        if options.storage_protection && protection::waits(collection, value) {
            self.queue.add(LifecycleTask::Release(collection.into(), path.into()), soon);
        }
        if options.quota_status {
            self.note_quotas(collection, path, object);
        }
        if options.policy_status && collection == policies::COLLECTION && policies::is_outdated(value) {
            self.queue.add(LifecycleTask::Policy(path.into()), Instant::now());
        }
        if options.collect_garbage {
            self.note_owners(key, object, soon);
        }
    }

    /// A namespace that is being deleted is emptied; one that is new, or has its first Pod, gets its bootstrap objects.
    fn note_namespace(&mut self, collection: &str, path: &str, value: &[u8], soon: Instant) {
        let options = self.api.options.lifecycle;
        match collection {
            "namespaces" if options.empty_namespaces && namespaces::terminating(value) => {
                self.queue.add(LifecycleTask::Namespace(path.into()), soon);
            }
            "namespaces" if options.namespace_objects == NamespaceObjects::AtOnce => {
                self.bootstrap_namespace(path);
            }
            "pods" if options.namespace_objects == NamespaceObjects::WithFirstPod => {
                if let Some((namespace, _)) = path.split_once('/') {
                    self.bootstrap_namespace(namespace);
                }
            }
            _ => {}
        }
    }

    /// Plans the expiry of an Event that was written so long ago.
    fn note_event(&mut self, key: &Arc<str>, revision: Revision, age: Duration) {
        if let Some(ttl) = self.api.options.lifecycle.event_ttl {
            let due = Instant::now() + ttl.saturating_sub(age);
            self.expiring.insert(Arc::clone(key), (revision, due));
            self.queue.add(LifecycleTask::Expire(Arc::clone(key)), due);
        }
    }

    /// Takes an object into the graph of owners, and queues those that garbage collection has to look at.
    fn note_owners(&mut self, key: &Arc<str>, object: ChangedObject<'_>, soon: Instant) {
        let change = self.context.graph.write().set(key, object);
        if change.has_new_owners {
            self.queue.add(LifecycleTask::Dependent(Arc::clone(key)), soon);
        }
        self.wake_owners(&change.former);
        if garbage::waits(object) {
            self.queue.add(LifecycleTask::Owner(Arc::clone(key)), soon);
        }
    }

    /// Usage is counted again when a quota changes its limits or a Pod releases resources.
    fn note_quotas(&mut self, collection: &str, path: &str, object: ChangedObject<'_>) {
        match collection {
            // The cache may not have the quota yet.
            "resourcequotas" if quotas::is_outdated(object.bytes) => {
                let soon = self.settle_time();
                if let Some((namespace, _)) = path.split_once('/') {
                    self.queue.add(LifecycleTask::Quotas(namespace.into()), soon);
                }
            }
            "pods" if quotas::gives_back(object) => self.recount(path),
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
        let owners = self.context.graph.write().remove(key);
        self.wake_owners(&owners);
        let soon = self.settle_time();
        let uid = last.and_then(graph::uid);
        let dependents =
            uid.as_ref().map(|uid| self.context.graph.read().dependents(uid)).unwrap_or_default();
        uid.iter().for_each(|uid| drop(self.waiting.remove(uid)));
        for dependent in dependents {
            self.queue.add(LifecycleTask::Dependent(dependent), soon);
        }
    }

    /// Queues the owners among these that nothing blocks any longer.
    fn wake_owners(&mut self, uids: &[Arc<str>]) {
        let graph = self.context.graph.read();
        let free = uids.iter().filter(|uid| !graph.is_blocked(uid));
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
            if self.queue.contains(&task) || self.lanes.contains(&task) {
                self.queue.add(task, soon);
            }
        }
    }
}

/// Returns the age of an event, by its creation time.
///
/// Zero for an event without a readable time, so that its time to live begins now.
fn age(value: &[u8]) -> Duration {
    let created = listwatch_wire::json::raw::lookup(value, &["metadata", "creationTimestamp"]);
    let text = created.and_then(|raw| std::str::from_utf8(raw).ok()).unwrap_or_default().trim_matches('"');
    let Ok(created) = text.parse::<jiff::Timestamp>() else { return Duration::ZERO };
    let seconds = jiff::Timestamp::now().as_second() - created.as_second();
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}
