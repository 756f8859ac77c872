//! [`InformerStatus`]: how an informer does, all at once.

use std::sync::atomic::Ordering;

use listwatch_wire::Revision;

use super::SharedInformer;
use crate::monitor::LastProblem;
use crate::processor::HandlerStatus;

/// How an informer does: for the debug page, metrics and tests.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InformerStatus {
    /// Its name.
    pub name: String,
    /// What the reflector is doing: `listing`, `watching`, `waiting`…
    pub phase: &'static str,
    /// Whether the store holds the initial state.
    pub synced: bool,
    /// How many objects there are.
    pub objects: usize,
    /// The resource version of the store.
    pub revision: Revision,
    /// The last resource version that was received; ahead of the store's by what is queued.
    pub received: Revision,
    /// How many objects wait to be applied.
    pub queued: usize,
    /// Lists made.
    pub lists: u64,
    /// Objects received by lists.
    pub listed_objects: u64,
    /// Streaming lists opened.
    pub streaming_lists: u64,
    /// Watches opened.
    pub watches: u64,
    /// Problems by kind.
    pub problems: Vec<(&'static str, u64)>,
    /// The most recent problem.
    pub last_problem: Option<LastProblem>,
    /// The handlers.
    pub handlers: Vec<HandlerStatus>,
}

impl<K> SharedInformer<K> {
    /// How it does.
    #[must_use]
    pub fn status(&self) -> InformerStatus {
        let core = &self.core;
        let monitor = &core.monitor;
        let snapshot = core.store.snapshot();
        InformerStatus {
            name: monitor.name().to_owned(),
            phase: monitor.current_phase(),
            synced: *core.synced.borrow(),
            objects: snapshot.len(),
            revision: snapshot.revision(),
            received: Revision(monitor.seen.load(Ordering::Relaxed)),
            queued: core.queue.len(),
            lists: monitor.lists.load(Ordering::Relaxed),
            listed_objects: monitor.listed_objects.load(Ordering::Relaxed),
            streaming_lists: monitor.streaming_lists.load(Ordering::Relaxed),
            watches: monitor.watches.load(Ordering::Relaxed),
            problems: monitor.problem_counts(),
            last_problem: monitor.last_problem(),
            handlers: core.processor.lock().statuses(),
        }
    }
}
