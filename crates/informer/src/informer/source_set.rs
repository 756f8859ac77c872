//! [`SourceSet`]: the sources of an informer and the reflectors that read them, one per namespace if there are several.
//!
//! A source is known by its position, which indexes the delta queue, the monitor and `positions`. A position is given
//! to another namespace only after its reflector has ended and its objects are out of the store: a late delta would
//! else be applied to the wrong namespace.
//!
//! Adding or removing a namespace opens or ends one watch and leaves the others alone. Cluster-wide informers have one
//! member without a namespace and never change.

use std::collections::HashSet;
use std::sync::Arc;

use listwatch_wire::Revision;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{InformerCore, InformerError};
use crate::lister_watcher::{HeldObjects, ListerWatcher, OpenNamespaces, Partition, Sources};
use crate::object::Object;
use crate::reflector::{Apply, Reflector, ReflectorOptions, Transform};

/// The parts that a reflector is started with.
pub(super) struct Launch<K> {
    pub(super) runtime: Handle,
    pub(super) options: ReflectorOptions,
    pub(super) transform: Option<Arc<Transform<K>>>,
}

/// A source with its reflector.
struct ReadSource {
    position: usize,
    partition: Partition,
    stop: CancellationToken,
    /// None before the start.
    task: Option<JoinHandle<()>>,
}

/// The sources of an informer.
pub(crate) struct SourceSet<K> {
    members: Vec<ReadSource>,
    /// Positions of namespaces that were taken away, with the tasks that read them.
    vacated: Vec<(usize, Option<JoinHandle<()>>)>,
    pub(super) open: Option<OpenNamespaces>,
    pub(super) launch: Option<Launch<K>>,
    pub(super) tasks: TaskTracker,
}

impl<K> SourceSet<K> {
    pub(super) fn new(open: Option<OpenNamespaces>) -> Self {
        let (members, vacated) = (Vec::new(), Vec::new());
        Self { members, vacated, open, launch: None, tasks: TaskTracker::new() }
    }

    /// Fails if a source can never be read.
    pub(super) fn check(&self) -> Result<(), InformerError> {
        let may_be_empty = self.open.as_ref().is_some_and(|open| open.may_be_empty);
        if self.members.is_empty() && !may_be_empty {
            return Err(InformerError::NoSources);
        }
        self.members.iter().try_for_each(|member| Ok(member.partition.source.check()?))
    }

    /// Any source, for requests that are about no namespace in particular.
    pub(super) fn first_source(&self) -> Option<Arc<dyn ListerWatcher>> {
        let member = self.members.first().map(|member| Arc::clone(&member.partition.source));
        member.or_else(|| self.open.as_ref().map(|open| (open.make)("")))
    }

    pub(super) fn has(&self, namespace: &str) -> bool {
        self.find(namespace).is_some()
    }

    fn find(&self, namespace: &str) -> Option<usize> {
        self.members.iter().position(|member| member.partition.namespace.as_deref() == Some(namespace))
    }

    /// The namespaces, in the order in which they were added.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.members.iter().filter_map(|member| member.partition.namespace.as_deref())
    }

    /// The only source, if there can be no other.
    pub(super) fn is_alone(&self) -> bool {
        self.members.len() == 1 && self.open.is_none()
    }
}

impl<K: Send + Sync + 'static> InformerCore<K> {
    /// Adds the sources that the informer is built with.
    pub(super) fn add_sources(&self, sources: Sources) {
        let mut source_set = self.source_set.lock();
        sources.partitions.into_iter().for_each(|partition| self.add_source(&mut source_set, partition));
    }

    /// Adds a source; it is read at once if the informer was started.
    pub(super) fn add_source(&self, source_set: &mut SourceSet<K>, partition: Partition) {
        let position = self.free_position(source_set);
        let (namespace, scope) = (partition.namespace.clone(), partition.source.scope());
        self.positions.lock().put(position, namespace.clone(), scope);
        self.queue.ensure_source(position);
        self.monitor.add(position, namespace);
        let stop = self.stop.child_token();
        source_set.members.push(ReadSource { position, partition, stop, task: None });
        if source_set.launch.is_some() {
            self.reflect(source_set, position, None, None);
        }
    }

    /// A position that is free again, or a new one.
    fn free_position(&self, source_set: &mut SourceSet<K>) -> usize {
        let positions = self.positions.lock();
        let free_position = source_set.vacated.iter().position(|(position, task)| {
            positions.is_free(*position) && task.as_ref().is_none_or(JoinHandle::is_finished)
        });
        free_position.map_or(positions.len(), |at| source_set.vacated.swap_remove(at).0)
    }

    /// Takes a namespace away: it is no longer read, and its objects are delivered as deleted.
    pub(super) fn remove_source(&self, source_set: &mut SourceSet<K>, namespace: &str) -> bool {
        let Some(at) = source_set.find(namespace) else { return false };
        let member = source_set.members.swap_remove(at);
        member.stop.cancel();
        self.positions.lock().leave(member.position);
        self.monitor.remove(member.position);
        self.queue.retire_source(member.position);
        source_set.vacated.push((member.position, member.task));
        self.moved.send_replace(());
        true
    }

    /// Starts the reflector of a position.
    pub(super) fn reflect(
        &self,
        source_set: &mut SourceSet<K>,
        position: usize,
        resume: Option<Revision>,
        apply: Option<Box<Apply<K>>>,
    ) {
        let SourceSet { members, launch: Some(launch), tasks, .. } = source_set else { return };
        let Some(member) = members.iter_mut().find(|member| member.position == position) else { return };
        let source = Arc::clone(&member.partition.source);
        // A transformed object is not what the server sent, and cannot be patched.
        let held = launch.transform.is_none().then(|| {
            let store = self.store.clone();
            HeldObjects::new(move |namespace, name| store.get_by(namespace, name).map(Object::cast))
        });
        let mut reflector = Reflector::new(source, Arc::clone(&self.queue), position, launch.options.clone())
            .transform(launch.transform.clone())
            .held(held)
            .monitor(self.monitor.of(position))
            .resume(resume);
        if let Some(apply) = apply {
            reflector = reflector.apply(apply);
        }
        member.task = Some(tasks.spawn_on(reflector.run(member.stop.clone()), &launch.runtime));
    }

    /// The positions that have no reflector yet.
    pub(super) fn idle_positions(source_set: &SourceSet<K>) -> Vec<usize> {
        let idle = source_set.members.iter().filter(|member| member.task.is_none());
        idle.map(|member| member.position).collect()
    }

    /// Adds a namespace. False if it is there already.
    pub(crate) fn add_namespace(&self, namespace: &str) -> Result<bool, InformerError> {
        let mut source_set = self.source_set.lock();
        if self.stop.is_cancelled() {
            return Err(InformerError::Stopped);
        }
        let make = source_set.open.as_ref().map(|open| Arc::clone(&open.make));
        let make = make.ok_or(InformerError::FixedNamespaces)?;
        if source_set.has(namespace) {
            return Ok(false);
        }
        let source = make(namespace);
        source.check()?;
        self.add_source(&mut source_set, Partition { namespace: Some(namespace.into()), source });
        Ok(true)
    }

    /// Takes a namespace away. False if it is not there.
    pub(crate) fn remove_namespace(&self, namespace: &str) -> Result<bool, InformerError> {
        let mut source_set = self.source_set.lock();
        if self.stop.is_cancelled() {
            return Err(InformerError::Stopped);
        }
        if source_set.open.is_none() {
            return Err(InformerError::FixedNamespaces);
        }
        Ok(self.remove_source(&mut source_set, namespace))
    }

    /// Makes these the namespaces.
    pub(crate) fn set_namespaces(&self, namespaces: &HashSet<String>) -> Result<(), InformerError> {
        let before: Vec<_> = self.source_set.lock().namespaces().map(str::to_owned).collect();
        for gone in before.iter().filter(|namespace| !namespaces.contains(*namespace)) {
            self.remove_namespace(gone)?;
        }
        namespaces.iter().try_for_each(|namespace| self.add_namespace(namespace).map(drop))
    }
}

impl<K> InformerCore<K> {
    /// Sorted; empty for an informer of all namespaces.
    pub(crate) fn namespaces(&self) -> Vec<String> {
        let mut namespaces: Vec<_> = self.source_set.lock().namespaces().map(str::to_owned).collect();
        namespaces.sort();
        namespaces
    }

    pub(crate) fn has_namespace(&self, namespace: &str) -> bool {
        self.source_set.lock().has(namespace)
    }

    /// True if the namespace has been listed, so that what is not there does not exist.
    pub(crate) fn is_current(&self, namespace: &str) -> bool {
        self.positions.lock().is_current(namespace)
    }

    /// Nothing of the namespace is read or cached.
    pub(crate) fn is_gone(&self, namespace: &str) -> bool {
        !self.has_namespace(namespace) && !self.positions.lock().is_leaving(namespace)
    }

    /// Waits until something holds, or the informer has stopped.
    pub(crate) async fn until(&self, holds: impl Fn(&Self) -> bool) {
        let (mut moved, mut stopped) = (self.moved.subscribe(), self.stopped.subscribe());
        while !holds(self) {
            tokio::select! {
                _ = moved.changed() => {}
                _ = stopped.wait_for(|stopped| *stopped) => return,
            }
        }
    }
}
