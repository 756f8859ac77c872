//! [`Monitor`]: what an informer knows about itself, counted where it happens and read by whoever asks.
//!
//! The counters are plain atomics: counting costs nothing worth measuring, and asking costs only the one who asks.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use listwatch_wire::Revision;

use crate::lister_watcher::WatchRequest;
use crate::reflector::{Machine, Problem, Response};
use crate::sync::Mutex;

/// Hears of every problem of an informer, with what is done about it. Must not block.
pub(crate) type ProblemHook = dyn Fn(&Problem, Response) + Send + Sync;

/// The most recent problem.
#[derive(Clone, Debug)]
pub struct LastProblem {
    /// When it occurred.
    pub at: SystemTime,
    /// What it was.
    pub problem: Problem,
    /// What was done about it.
    pub response: Response,
}

#[derive(Default)]
pub(crate) struct Monitor {
    name: String,
    hook: Option<Arc<ProblemHook>>,
    phase: Mutex<&'static str>,
    last_problem: Mutex<Option<LastProblem>>,
    pub(crate) seen: AtomicU64,
    pub(crate) lists: AtomicU64,
    pub(crate) listed_objects: AtomicU64,
    pub(crate) watches: AtomicU64,
    pub(crate) streaming_lists: AtomicU64,
    problems: Mutex<Vec<(&'static str, u64)>>,
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

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn phase(&self, phase: &'static str) {
        *self.phase.lock() = phase;
    }

    pub(crate) fn current_phase(&self) -> &'static str {
        *self.phase.lock()
    }

    pub(crate) fn stepped<K>(&self, machine: &Machine<K>) {
        self.phase(machine.phase_name());
        let seen = machine.seen().unwrap_or(Revision::ZERO);
        self.seen.store(seen.0, Ordering::Relaxed);
    }

    pub(crate) fn listing(&self) {
        self.lists.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn listed(&self, objects: usize) {
        self.listed_objects.fetch_add(objects as u64, Ordering::Relaxed);
    }

    pub(crate) fn watching(&self, request: &WatchRequest) {
        let counter = if request.initial_events { &self.streaming_lists } else { &self.watches };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn problem(&self, problem: &Problem, response: Response) {
        tracing::warn!(informer = %self.name, %problem, %response, "informer problem");
        {
            let mut counts = self.problems.lock();
            let kind = kind_of(problem);
            match counts.iter_mut().find(|(name, _)| *name == kind) {
                Some((_, count)) => *count += 1,
                None => counts.push((kind, 1)),
            }
        }
        let at = SystemTime::now();
        *self.last_problem.lock() = Some(LastProblem { at, problem: problem.clone(), response });
        if let Some(hook) = &self.hook {
            hook(problem, response);
        }
    }

    pub(crate) fn last_problem(&self) -> Option<LastProblem> {
        self.last_problem.lock().clone()
    }

    pub(crate) fn problem_counts(&self) -> Vec<(&'static str, u64)> {
        self.problems.lock().clone()
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
        Problem::StaleList { .. } => "stale_list",
        Problem::HistoryRestarted { .. } => "history_restarted",
        Problem::OutOfOrder { .. } => "out_of_order",
        Problem::Unusable(_) => "unusable",
        Problem::Transform { .. } => "transform",
        Problem::Index(_) => "index",
    }
}
