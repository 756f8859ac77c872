//! Reactions to failed requests: which one follows, and after which delay.
//!
//! | failure | reaction |
//! |---|---|
//! | version not available (410, too large) of a list | a consistent list, at once |
//! | version expired (410) of a watch, server cannot read an object | a relist, after the backoff |
//! | streaming list refused | an ordinary list, and no streaming for a while |
//! | anything else | the same request, after the backoff, but not before the server's `Retry-After` |
//!
//! A failed watch is resumed where it broke. Relisting makes the server send a whole collection, which would add load to a
//! server that already fails.

use std::time::Duration;

use super::machine::Machine;
use super::phase::{CatchUp, NextStep, Phase, ReflectorTime};
use super::problem::{Problem, ProblemResponse};
use super::step::{Action, Output};
use crate::lister_watcher::{ListVersion, SourceError};

impl<K> Machine<K> {
    /// Lists again: at once and consistently if the server does not have the requested version (410, or too large),
    /// after the backoff otherwise.
    pub(super) fn list_failed(
        &mut self,
        error: SourceError,
        version: ListVersion,
        now: ReflectorTime,
        out: &mut Output<K>,
    ) {
        let unavailable = error.is_expired() || error.is_too_large_resource_version();
        if unavailable && version != ListVersion::MostRecent {
            self.unavailable = true;
            out.report(Problem::List(error), ProblemResponse::RelistsNow);
            return self.list(now, out);
        }
        let delay = self.wait(NextStep::Cycle, error.retry_after(), now);
        out.report(Problem::List(error), ProblemResponse::Relists(delay));
    }

    /// The streaming list failed, before or after it was opened.
    pub(super) fn streaming_failed(&mut self, error: SourceError, now: ReflectorTime, out: &mut Output<K>) {
        out.actions.push(Action::HangUp);
        if error.is_expired() || error.is_too_large_resource_version() {
            self.unavailable = true;
            let delay = self.wait(NextStep::Cycle, error.retry_after(), now);
            out.report(Problem::Streaming(error), ProblemResponse::Relists(delay));
        } else if error.is_too_many_requests() || matches!(error, SourceError::Refused(_)) {
            let delay = self.wait(NextStep::Cycle, error.retry_after(), now);
            out.report(Problem::Streaming(error), ProblemResponse::Relists(delay));
        } else {
            if error.is_refusal() {
                self.spare_streaming(now);
            }
            out.report(Problem::Streaming(error), ProblemResponse::FallsBackToList);
            self.list(now, out);
        }
    }

    /// Disables streaming lists for a while, because the server refuses them; it may be upgraded later.
    pub(super) fn spare_streaming(&mut self, now: ReflectorTime) {
        self.streaming_refused_until = Some(now + self.options.streaming_refusal);
    }

    /// The watch failed: resume it where it broke, unless only the state itself can help.
    pub(super) fn watch_failed(
        &mut self,
        error: SourceError,
        problem: fn(SourceError) -> Problem,
        now: ReflectorTime,
        out: &mut Output<K>,
    ) {
        out.actions.push(Action::HangUp);
        self.failures += 1;
        self.interrupted = true;
        let stuck = self.is_stuck(&error);
        if self.expired_again(&error) || (stuck && error.is_too_large_resource_version()) {
            self.unavailable = true;
        }
        if error.is_expired() && self.catch_up != CatchUp::Done {
            // Usual for an old saved state: the server's history no longer reaches back to it.
            self.catch_up = CatchUp::Done;
            out.report(problem(error), ProblemResponse::RelistsNow);
            return self.cycle(now, out);
        }
        let relist = error.is_expired() || error.is_store_read_error() || stuck;
        let next = if relist { NextStep::Cycle } else { NextStep::Watch };
        let delay = self.wait(next, error.retry_after(), now);
        out.report(
            problem(error),
            if relist { ProblemResponse::Relists(delay) } else { ProblemResponse::Rewatches(delay) },
        );
    }

    /// True if the watch has failed so often that it will not resume from this revision. Failures of the connection do not
    /// count, nor does an overloaded server: both heal without a list.
    fn is_stuck(&self, error: &SourceError) -> bool {
        let connection =
            matches!(error, SourceError::Refused(_) | SourceError::Transport(_) | SourceError::TimedOut(_));
        self.failures >= self.options.failures_before_relist && !connection && !error.is_too_many_requests()
    }

    /// True if the revision has expired, and the last one that expired was the same: the relist in between was answered
    /// from a cache that is too old.
    fn expired_again(&mut self, error: &SourceError) -> bool {
        error.is_expired()
            && std::mem::replace(&mut self.expired_at, self.seen).is_some_and(|at| Some(at) == self.seen)
    }

    /// Starts over: what the panic interrupted is unknown, and only the state itself can make up for it.
    pub(super) fn panicked(&mut self, message: String, now: ReflectorTime, out: &mut Output<K>) {
        out.actions.push(Action::HangUp);
        let delay = self.wait(NextStep::Cycle, None, now);
        out.report(Problem::Panicked(message), ProblemResponse::Relists(delay));
    }

    /// Waits for the delay of the backoff, and at least for the server's `Retry-After` up to
    /// [`ReflectorOptions::retry_after_max`](super::ReflectorOptions::retry_after_max).
    pub(super) fn wait(
        &mut self,
        next: NextStep,
        retry_after: Option<Duration>,
        now: ReflectorTime,
    ) -> Duration {
        let asked = retry_after.unwrap_or_default().min(self.options.retry_after_max);
        let delay = self.backoff.delay().max(asked);
        self.phase = Phase::Waiting { until: now + delay, next };
        delay
    }
}
