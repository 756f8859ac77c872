//! [`InformerStatus`]: the state of an informer in one value, for metrics, the debug page and tests.
//!
//! Sums over sources hide one that is stuck, so `phase` is that of the first source that does not watch, and
//! [`InformerStatus::sources`] has each by itself. Taking a status locks the store and the processor for as long as it
//! takes to copy the figures, and holds up no handler.

use std::time::Duration;

use listwatch_wire::Revision;

use super::SharedInformer;
use crate::monitor::{LastProblem, SourceStatus, count};
use crate::processor::HandlerStatus;
use crate::warm::Freshness;

/// The status of an informer: for the debug page, metrics and tests.
///
/// A readiness probe needs `synced`; an alert on a cache that lags needs `last_event_age`, because a watch that hangs keeps
/// its phase `watching` until it is reopened.
///
/// ```
/// use std::time::Duration;
///
/// use listwatch::{SharedInformer, lister_watcher::InMemory};
/// use serde_json::{Value, json};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pods = InMemory::new(100);
/// pods.put(&json!({"metadata": {"name": "a"}}))?;
/// let informer = SharedInformer::<Value>::new(pods);
/// informer.start()?;
/// informer.wait_synced().await;
///
/// let status = informer.status();
/// let lags = status.last_event_age.is_some_and(|age| age > Duration::from_secs(120));
/// assert!(status.synced && !lags);
/// assert_eq!((status.objects, status.problems.len()), (1, 0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct InformerStatus {
    /// Its name.
    pub name: String,
    /// The phase: `listing`, `watching`, `waiting`… Of several sources, the first that does not watch.
    pub phase: &'static str,
    /// True if the store holds the initial state.
    pub synced: bool,
    /// The freshness of the store.
    pub freshness: Freshness,
    /// The number of objects.
    pub objects: usize,
    /// The resource version of the store.
    pub revision: Revision,
    /// The last resource version that was received; ahead of the store's by what is queued.
    pub received: Revision,
    /// The time since the last event or bookmark of a watch; of several sources, of the one that waits longest. None
    /// before the first.
    pub last_event_age: Option<Duration>,
    /// The number of objects that wait to be applied.
    pub queued: usize,
    /// The number of LIST requests, failed ones included; pages of one list count once.
    pub lists: u64,
    /// Objects received by lists.
    pub listed_objects: u64,
    /// Streaming lists opened.
    pub streaming_lists: u64,
    /// The number of WATCH requests that continued from a resourceVersion.
    pub watches: u64,
    /// Problems by kind.
    pub problems: Vec<(&'static str, u64)>,
    /// The most recent problem.
    pub last_problem: Option<LastProblem>,
    /// The sources, one by one; what is above adds them up.
    pub sources: Vec<SourceStatus>,
    /// The handlers.
    pub handlers: Vec<HandlerStatus>,
}

impl InformerStatus {
    /// Adds up what its sources did.
    fn of(sources: Vec<SourceStatus>) -> Self {
        let sum = |figure: fn(&SourceStatus) -> u64| sources.iter().map(figure).sum();
        let mut problems = Vec::new();
        for (kind, more) in sources.iter().flat_map(|source| &source.problems) {
            count(&mut problems, kind, *more);
        }
        // Of several sources, the first that is not watching.
        let phase = sources.iter().map(|source| source.phase).find(|phase| *phase != "watching");
        let last = sources.iter().filter_map(|source| source.last_problem.clone());
        Self {
            phase: phase.or(sources.first().map(|source| source.phase)).unwrap_or_default(),
            received: sources.iter().map(|source| source.received).max().unwrap_or_default(),
            last_event_age: sources.iter().filter_map(|source| source.last_event_age).max(),
            lists: sum(|source| source.lists),
            listed_objects: sum(|source| source.listed_objects),
            streaming_lists: sum(|source| source.streaming_lists),
            watches: sum(|source| source.watches),
            problems,
            last_problem: last.max_by_key(|last| last.at),
            sources,
            ..Self::default()
        }
    }
}

impl<K> SharedInformer<K> {
    /// Returns the present status. Cost: one snapshot of the store and a copy of the counters of each handler.
    #[must_use]
    pub fn status(&self) -> InformerStatus {
        let core = &self.core;
        let snapshot = core.store.snapshot();
        InformerStatus {
            name: core.monitor.name().to_owned(),
            synced: *core.synced.borrow(),
            freshness: self.freshness(),
            objects: snapshot.len(),
            revision: snapshot.revision(),
            queued: core.queue.len(),
            handlers: core.processor.lock().statuses(),
            ..InformerStatus::of(core.monitor.statuses())
        }
    }
}
