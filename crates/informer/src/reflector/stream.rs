//! The part of the [`Machine`] that reads one stream: its events, its silence and its end.
//!
//! Every event and bookmark advances the position; one that goes back ends the stream and leads to a consistent read,
//! since only a restored or replaced server goes back. Unusable events do not advance it, so a resumed watch gets them
//! again.
//!
//! A silent stream is ended after `watch_idle`: bookmarks come every minute, and TCP alone may take hours to notice a
//! dead peer. After an interruption a silent watch is probed, because a server whose revision counter went back would
//! be silent until it catches up. Listing, opening and waiting are in `machine`.

use std::time::Duration;

use listwatch_wire::Revision;

use super::machine::Machine;
use super::phase::{CatchUp, InitialEvents, Live, NextStep, Phase, ReflectorTime};
use super::problem::{Problem, ProblemResponse};
use super::step::{Action, Output};
use crate::delta::Delta;
use crate::lister_watcher::{SourceError, WatchEvent};

/// A watch that the server closes more than this before its time was interrupted.
const ENDS_EARLY: Duration = Duration::from_secs(5);

/// After this many initial streams in a row that ended early, a list is tried.
const EARLY_ENDS: u32 = 3;

impl<K> Machine<K> {
    /// Events of the open stream, which may turn from streaming to watching on the way.
    pub(super) fn events(&mut self, events: Vec<WatchEvent<K>>, now: ReflectorTime, out: &mut Output<K>) {
        let mut events = events.into_iter();
        while let Some(event) = events.next() {
            let continues = match self.phase {
                Phase::Streaming(_) => self.initial_event(event, now, out),
                Phase::Watching(_) => {
                    // The common case: nothing but changes, so the phase is looked at once for all of them.
                    self.live_event(event, now, out)
                        && events.by_ref().all(|event| self.live_event(event, now, out))
                }
                _ => false,
            };
            if !continues {
                return;
            }
        }
        if let Phase::Watching(live) = &mut self.phase {
            live.silent = now + self.options.watch_idle;
            live.probe = live.probe.filter(|_| self.catch_up == CatchUp::Probing);
        }
        self.caught_up(out);
    }

    /// Reports that a restored cache has received all that it missed.
    fn caught_up(&mut self, out: &mut Output<K>) {
        if let CatchUp::Until(present) = self.catch_up
            && self.seen >= Some(present)
        {
            self.catch_up = CatchUp::Done;
            out.deltas.push(Delta::Current);
        }
    }

    /// Returns true if the stream continues.
    fn initial_event(&mut self, event: WatchEvent<K>, now: ReflectorTime, out: &mut Output<K>) -> bool {
        let Phase::Streaming(initial) = &mut self.phase else { return false };
        initial.live.events += 1;
        initial.stalls = now + self.options.streaming_stall;
        match event {
            WatchEvent::Added(object) => initial.objects.add(object),
            WatchEvent::Modified(object) => initial.objects.change(object),
            WatchEvent::Deleted(object) => initial.objects.remove(object.key()),
            WatchEvent::Rejected { key, reason, .. } => {
                initial.objects.remove(&key);
                out.report(Problem::Transform { key, reason }, ProblemResponse::Continues);
            }
            WatchEvent::Unusable(reason) => out.report(Problem::Unusable(reason), ProblemResponse::Continues),
            WatchEvent::Error(status) => {
                self.streaming_failed(SourceError::Status(status), now, out);
                return false;
            }
            // A bookmark without the mark is ignored: the state is not complete at its revision.
            WatchEvent::Bookmark { initial_events_end: false, .. } => {}
            WatchEvent::Bookmark { revision, .. } => return self.initial_end(revision, now, out),
        }
        true
    }

    /// The initial state is complete; the same stream continues with changes.
    fn initial_end(&mut self, revision: Revision, now: ReflectorTime, out: &mut Output<K>) -> bool {
        self.bookmarks = true;
        let consistent = self.unavailable;
        let Phase::Streaming(initial) = std::mem::replace(&mut self.phase, Phase::Idle) else { return false };
        if self.refuse_stale(revision, consistent, now, out) {
            out.actions.push(Action::HangUp);
            return false;
        }
        let InitialEvents { objects, live, .. } = initial;
        self.replace(objects.into_objects(), revision, out);
        self.phase = Phase::Watching(live);
        true
    }

    /// Returns true if the stream continues.
    fn live_event(&mut self, event: WatchEvent<K>, now: ReflectorTime, out: &mut Output<K>) -> bool {
        self.bookmarks |= matches!(event, WatchEvent::Bookmark { .. });
        if event.revision().is_some_and(|revision| !self.advances(revision, now, out)) {
            return false;
        }
        match event {
            WatchEvent::Added(object) => out.deltas.push(Delta::Added(object)),
            WatchEvent::Modified(object) => out.deltas.push(Delta::Updated(object)),
            WatchEvent::Deleted(object) => out.deltas.push(Delta::Deleted(object)),
            WatchEvent::Bookmark { revision, .. } => out.deltas.push(Delta::Bookmark(revision)),
            WatchEvent::Rejected { key, revision, reason } => {
                out.deltas.push(Delta::Rejected { key: key.clone(), revision });
                out.report(Problem::Transform { key, reason }, ProblemResponse::Continues);
            }
            // The revision does not advance: the change of this event was not applied.
            WatchEvent::Unusable(reason) => out.report(Problem::Unusable(reason), ProblemResponse::Continues),
            WatchEvent::Error(status) => {
                self.note_health(now);
                self.watch_failed(SourceError::Status(status), Problem::Watch, now, out);
                return false;
            }
        }
        if let Phase::Watching(live) = &mut self.phase {
            live.events += 1;
        }
        true
    }

    /// Moves on to `revision`, unless that is the past: then the server's history may have restarted, and the stream is
    /// given up for a consistent read. Several objects may change in one revision.
    fn advances(&mut self, revision: Revision, now: ReflectorTime, out: &mut Output<K>) -> bool {
        if let Some(seen) = self.seen
            && revision < seen
        {
            self.out_of_order(revision, seen, now, out);
            return false;
        }
        self.seen = Some(revision);
        self.failures = 0;
        true
    }

    /// Ends the stream after a revision that decreased, and reads the latest state from the store.
    #[cold]
    fn out_of_order(&mut self, got: Revision, seen: Revision, now: ReflectorTime, out: &mut Output<K>) {
        self.note_health(now);
        out.actions.push(Action::HangUp);
        self.unavailable = true;
        let delay = self.wait(NextStep::Cycle, None, now);
        out.report(Problem::OutOfOrder { got, seen }, ProblemResponse::Relists(delay));
    }

    /// Reads the server's latest resource version: the watch was resumed after an interruption and has been silent
    /// since.
    pub(super) fn probe(&mut self, out: &mut Output<K>) {
        if let Phase::Watching(live) = &mut self.phase {
            live.probe = None;
            out.actions.push(Action::Probe);
        }
    }

    /// The server is at revision `at`. A consistent read that is older than the last seen revision shows that its
    /// history restarted.
    pub(super) fn probed(&mut self, at: Revision, now: ReflectorTime, out: &mut Output<K>) {
        self.interrupted = false;
        if let Some(seen) = self.seen.filter(|seen| at < *seen) {
            return self.out_of_order(at, seen, now, out);
        }
        if self.catch_up == CatchUp::Probing {
            self.catch_up = CatchUp::Until(at);
            self.caught_up(out);
        }
    }

    /// A stream that stayed open for a while shows that the outage, if there was one, is over.
    pub(super) fn note_health(&mut self, now: ReflectorTime) {
        if let Phase::Watching(live) = &self.phase
            && now.saturating_sub(live.opened) >= self.options.healthy_after
        {
            self.backoff.reset();
        }
    }

    /// The server closed the stream.
    pub(super) fn closed(&mut self, now: ReflectorTime, out: &mut Output<K>) {
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Streaming(initial) => self.initial_closed(&initial.live, now, out),
            Phase::Watching(live) => {
                self.phase = Phase::Watching(live);
                self.live_closed(now, out);
            }
            other => self.phase = other,
        }
    }

    /// Closed before the initial state was complete. What came of it is thrown away: the rest would be missing.
    fn initial_closed(&mut self, live: &Live, now: ReflectorTime, out: &mut Output<K>) {
        self.early_ends += 1;
        let problem = Problem::StreamingEnded { events: live.events };
        let at_once = live.events == 0 && now.saturating_sub(live.opened) < self.options.min_watch;
        if at_once || self.early_ends >= EARLY_ENDS {
            if self.early_ends >= EARLY_ENDS {
                self.spare_streaming(now);
            }
            out.report(problem, ProblemResponse::FallsBackToList);
            return self.list(now, out);
        }
        let delay = self.wait(NextStep::Cycle, None, now);
        out.report(problem, ProblemResponse::Relists(delay));
    }

    /// The ordinary end of a watch, unless it came too soon.
    fn live_closed(&mut self, now: ReflectorTime, out: &mut Output<K>) {
        self.note_health(now);
        let Phase::Watching(live) = &self.phase else { return };
        let lived = now.saturating_sub(live.opened);
        let reopens = live.opened + self.options.min_watch;
        self.interrupted |= now + ENDS_EARLY < live.ends;
        if lived >= self.options.min_watch {
            self.open(false, now, out);
        } else if live.events > 0 {
            self.phase = Phase::Waiting { until: reopens, next: NextStep::Watch };
        } else {
            let delay = self.wait(NextStep::Watch, None, now);
            out.report(Problem::VeryShortWatch(lived), ProblemResponse::Rewatches(delay));
        }
    }

    /// The initial stream went silent, or outlived its time.
    pub(super) fn stalled(&mut self, now: ReflectorTime, out: &mut Output<K>) {
        out.actions.push(Action::HangUp);
        self.spare_streaming(now);
        let problem = Problem::StreamingStalled(self.options.streaming_stall);
        out.report(problem, ProblemResponse::FallsBackToList);
        self.list(now, out);
    }

    /// The watch should have ended by itself, or has been silent for too long: the connection is dead. The silence of a
    /// server that has never sent a bookmark may be ordinary; the watch is reopened all the same.
    pub(super) fn hung(&mut self, now: ReflectorTime, out: &mut Output<K>) {
        self.note_health(now);
        let Phase::Watching(live) = &self.phase else { return };
        let problem = if now < live.dies {
            self.bookmarks.then_some(Problem::SilentWatch(self.options.watch_idle))
        } else {
            Some(Problem::HungWatch(now.saturating_sub(live.opened)))
        };
        self.interrupted |= problem.is_some();
        out.actions.push(Action::HangUp);
        problem
            .into_iter()
            .for_each(|problem| out.report(problem, ProblemResponse::Rewatches(Duration::ZERO)));
        self.open(false, now, out);
    }
}
