//! [`Monitor`]: the counters of an informer, incremented where the work happens and read on demand.
//!
//! The counters are plain atomics: counting costs nothing worth measuring, and reading costs only the reader. Each
//! source of an informer (there is one per namespace if it has several) is counted separately, because one may be stuck
//! while the others work.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use listwatch_wire::Revision;
use tokio::time::Instant;

use crate::lister_watcher::WatchRequest;
use crate::problem_log::ProblemLog;
use crate::reflector::{Machine, Problem, ProblemResponse};
use crate::sync::Mutex;

/// Called with every problem of an informer and the reaction to it. Must not block.
pub(crate) type ProblemHook = dyn Fn(&Problem, ProblemResponse) + Send + Sync;

/// The most recent problem of an informer or of one of its sources, with the time and the reaction.
#[derive(Clone, Debug)]
pub struct LastProblem {
    /// When it occurred.
    pub at: SystemTime,
    /// The problem.
    pub problem: Problem,
    /// The response to it.
    pub response: ProblemResponse,
}

/// The status of one source of an informer.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SourceStatus {
    /// Its namespace; none if it has all that the informer is about.
    pub namespace: Option<String>,
    /// The phase of its reflector: `listing`, `watching`, `waiting`…
    pub phase: &'static str,
    /// The last resource version that was received.
    pub received: Revision,
    /// The time since the last event or bookmark of a watch; none before the first.
    pub last_event_age: Option<Duration>,
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
}

/// The figures of one source. Plain atomics: the reflector writes, debug pages read.
#[derive(Default)]
pub(crate) struct MonitorSource {
    namespace: Option<Arc<str>>,
    phase: Mutex<&'static str>,
    seen: AtomicU64,
    /// Milliseconds from the start of the monitor to the last event, plus one; zero before the first.
    last_event: AtomicU64,
    lists: AtomicU64,
    listed_objects: AtomicU64,
    watches: AtomicU64,
    streaming_lists: AtomicU64,
    problems: Mutex<Vec<(&'static str, u64)>>,
    last_problem: Mutex<Option<LastProblem>>,
}

impl MonitorSource {
    /// Counts a problem by its kind and keeps it as the last one.
    fn count(&self, kind: &'static str, problem: &Problem, response: ProblemResponse) {
        count(&mut self.problems.lock(), kind, 1);
        let (at, problem) = (SystemTime::now(), problem.clone());
        *self.last_problem.lock() = Some(LastProblem { at, problem, response });
    }

    /// Copies the figures of one source. Counters are read one by one, so that they may be a moment apart.
    fn status(&self, now_millis: u64) -> SourceStatus {
        let last_event = self.last_event.load(Ordering::Relaxed).checked_sub(1);
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        SourceStatus {
            namespace: self.namespace.as_deref().map(str::to_owned),
            phase: *self.phase.lock(),
            received: Revision(read(&self.seen)),
            last_event_age: last_event.map(|at| Duration::from_millis(now_millis.saturating_sub(at))),
            lists: read(&self.lists),
            listed_objects: read(&self.listed_objects),
            streaming_lists: read(&self.streaming_lists),
            watches: read(&self.watches),
            problems: self.problems.lock().clone(),
            last_problem: self.last_problem.lock().clone(),
        }
    }
}

/// Adds to the count of a kind.
pub(crate) fn count(counts: &mut Vec<(&'static str, u64)>, kind: &'static str, more: u64) {
    match counts.iter_mut().find(|(name, _)| *name == kind) {
        Some((_, count)) => *count += more,
        None => counts.push((kind, more)),
    }
}

/// The figures of an informer, and the hook that reports its problems.
#[derive(Default)]
pub(crate) struct Monitor {
    name: String,
    hook: Option<Arc<ProblemHook>>,
    /// By position; none where a namespace was taken away.
    sources: Mutex<Vec<Option<Arc<MonitorSource>>>>,
    log: Mutex<ProblemLog>,
    started: OnceLock<Instant>,
}

impl fmt::Debug for Monitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Monitor").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Monitor {
    pub(crate) fn new(name: String, hook: Option<Arc<ProblemHook>>) -> Self {
        Self { name, hook, ..Self::default() }
    }

    /// Begins to count for a source at this position.
    pub(crate) fn add(&self, position: usize, namespace: Option<Arc<str>>) {
        let mut sources = self.sources.lock();
        while sources.len() <= position {
            sources.push(None);
        }
        if let Some(place) = sources.get_mut(position) {
            *place = Some(Arc::new(MonitorSource { namespace, ..MonitorSource::default() }));
        }
    }

    /// Removes the source at this position.
    pub(crate) fn remove(&self, position: usize) {
        if let Some(place) = self.sources.lock().get_mut(position) {
            *place = None;
        }
    }

    /// The part of the source at this position.
    pub(crate) fn of(self: &Arc<Self>, position: usize) -> SourceMonitor {
        let source = self.sources.lock().get(position).cloned().flatten().unwrap_or_default();
        SourceMonitor { monitor: Arc::clone(self), source }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// All sources have ended, or will never start.
    pub(crate) fn stopped(&self) {
        self.sources.lock().iter().flatten().for_each(|source| *source.phase.lock() = "stopped");
    }

    /// Milliseconds since something was first timed here.
    fn millis(&self, at: Instant) -> u64 {
        let started = self.started.get_or_init(|| at);
        u64::try_from(at.saturating_duration_since(*started).as_millis()).unwrap_or(u64::MAX)
    }

    /// Counts and reports a problem of the source at this position.
    pub(crate) fn problem(self: &Arc<Self>, position: usize, problem: &Problem, response: ProblemResponse) {
        self.of(position).problem(problem, response);
    }

    /// Counts and reports every problem, and logs a bounded number of them.
    fn report(&self, source: &MonitorSource, problem: &Problem, response: ProblemResponse) {
        let kind = kind_of(problem);
        let admitted = self.log.lock().admit(kind, Instant::now());
        if let Some(left_out) = admitted {
            let namespace = source.namespace.as_deref();
            tracing::warn!(informer = %self.name, namespace, %problem, %response, left_out, "informer problem");
        }
        source.count(kind, problem, response);
        if let Some(hook) = &self.hook {
            let call = std::panic::AssertUnwindSafe(|| hook(problem, response));
            if std::panic::catch_unwind(call).is_err() {
                tracing::error!(informer = %self.name, %problem, "the problem hook panicked");
            }
        }
    }

    /// One status per source that is there now.
    pub(crate) fn statuses(&self) -> Vec<SourceStatus> {
        let now = self.millis(Instant::now());
        self.sources.lock().iter().flatten().map(|source| source.status(now)).collect()
    }
}

/// The part of a [`Monitor`] that one source writes to.
#[derive(Clone, Default)]
pub(crate) struct SourceMonitor {
    monitor: Arc<Monitor>,
    source: Arc<MonitorSource>,
}

impl SourceMonitor {
    /// The name of the informer.
    pub(crate) fn name(&self) -> &str {
        self.monitor.name()
    }

    pub(crate) fn phase(&self, phase: &'static str) {
        *self.source.phase.lock() = phase;
    }

    /// Copies the phase and position of the reflector's machine after each step.
    pub(crate) fn stepped<K>(&self, machine: &Machine<K>) {
        self.phase(machine.phase_name());
        let seen = machine.seen().unwrap_or(Revision::ZERO);
        self.source.seen.store(seen.0, Ordering::Relaxed);
    }

    /// Something came through the open watch.
    pub(crate) fn received(&self, at: Instant) {
        let millis = self.monitor.millis(at);
        self.source.last_event.store(millis.saturating_add(1), Ordering::Relaxed);
    }

    pub(crate) fn listing(&self) {
        self.source.lists.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn listed(&self, objects: usize) {
        self.source.listed_objects.fetch_add(objects as u64, Ordering::Relaxed);
    }

    /// Counts a watch, or a streaming list.
    pub(crate) fn watching(&self, request: &WatchRequest) {
        let counter =
            if request.initial_events { &self.source.streaming_lists } else { &self.source.watches };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn problem(&self, problem: &Problem, response: ProblemResponse) {
        self.monitor.report(&self.source, problem, response);
    }
}

/// A label of few values, for counting.
fn kind_of(problem: &Problem) -> &'static str {
    match problem {
        Problem::List(error) | Problem::Open(error) | Problem::Watch(error) | Problem::Streaming(error)
            if error.is_expired() =>
        {
            "expired"
        }
        Problem::List(error) | Problem::Open(error) | Problem::Watch(error) | Problem::Streaming(error)
            if error.is_too_many_requests() =>
        {
            "too_many_requests"
        }
        Problem::List(_) => "list",
        Problem::Open(_) => "open",
        Problem::Watch(_) => "watch",
        Problem::Streaming(_) => "streaming",
        Problem::StreamingStalled(_) => "streaming_stalled",
        Problem::StreamingEnded { .. } => "streaming_ended",
        Problem::VeryShortWatch(_) => "very_short_watch",
        Problem::HungWatch(_) => "hung_watch",
        Problem::SilentWatch(_) => "silent_watch",
        Problem::StaleList { .. } => "stale_list",
        Problem::HistoryRestarted { .. } => "history_restarted",
        Problem::OutOfOrder { .. } => "out_of_order",
        Problem::Unusable(_) => "unusable",
        Problem::Transform { .. } => "transform",
        Problem::Index(_) => "index",
        Problem::Panicked(_) => "panicked",
        Problem::SavedCache(_) => "saved_cache",
    }
}
