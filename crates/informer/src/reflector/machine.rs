//! [`Machine`]: the rules of the reflector, without IO.
//!
//! Feed it an [`Input`] and the time; it answers with deltas for the queue, [`Action`]s for the driver and problems
//! for the user. Between inputs it must be woken at [`Machine::deadline`].
//!
//! This file has the path without failures: listing, opening a watch, deadlines. The states themselves are in
//! [`phase`](super::phase), reading one stream in [`stream`](super::stream), and reactions to failures in
//! [`failure`](super::failure).

use std::fmt;
use std::time::Duration;

use listwatch_wire::Revision;

use super::backoff::Backoff;
use super::collected::CollectedObjects;
use super::options::ReflectorOptions;
use super::phase::{CatchUp, InitialEvents, Live, NextStep, Phase, ReflectorTime};
use super::problem::{Problem, ProblemResponse};
use super::step::{Action, Input, Listing, Output};
use crate::delta::Delta;
use crate::lister_watcher::{ListRequest, ListVersion, SourceError, WatchRequest};
use crate::object::{Object, Raw};

/// Objects per page where the server reads them from its database.
const PAGE: u32 = 500;

/// The length of the watches by which a restored cache catches up. Servers send a bookmark a little before the end of a watch,
/// which proves that nothing is missing; the next regular one may be a minute away.
const CATCH_UP_WATCH: Duration = Duration::from_secs(5);

/// The reflector's rules. See the [module](super) for what they promise.
///
/// It performs no IO and reads no clock. Drive it with [`step`](Self::step), carry out the actions of each output,
/// and send [`Input::Tick`] at the [`deadline`](Self::deadline).
///
/// ```
/// use std::time::Duration;
///
/// use listwatch::reflector::{Action, Input, Listing, Machine, ReflectorOptions};
/// use listwatch::{Raw, Revision};
///
/// let mut options = ReflectorOptions::default();
/// options.streaming = false;
/// let mut machine = Machine::<Raw>::new(options, true);
///
/// let started = machine.step(Input::Start, Duration::ZERO);
/// assert!(matches!(started.actions[..], [Action::List(_)]));
///
/// let empty = Listing { objects: Vec::new(), revision: Revision(7), pages: 1 };
/// let listed = machine.step(Input::Listed(empty), Duration::from_secs(1));
/// assert_eq!(listed.deltas.len(), 1);
/// assert!(matches!(&listed.actions[..], [Action::Watch(request)] if request.revision == Some(Revision(7))));
/// ```
pub struct Machine<K = Raw> {
    pub(super) options: ReflectorOptions,
    pub(super) phase: Phase<K>,
    /// The last resource version seen in a list, an event or a bookmark.
    pub(super) seen: Option<Revision>,
    /// The server could not serve `seen`: request the latest state instead.
    pub(super) unavailable: bool,
    /// The first list came in pages although any version was allowed: this server lists from its database, and an
    /// unpaged list would overload it.
    paginated: bool,
    pub(super) backoff: Backoff,
    pub(super) streaming_refused_until: Option<ReflectorTime>,
    /// Initial streams in a row that were closed before their end.
    pub(super) early_ends: u32,
    /// Watch failures in a row without an event.
    pub(super) failures: u32,
    /// The last watch did not end at its timeout. The server may have been restored from a backup since, and would then
    /// be silent, because its revisions are older than the last one seen.
    pub(super) interrupted: bool,
    /// The resource version at which the watch expired last. If that happens twice at one version, the lists in between
    /// were no newer.
    pub(super) expired_at: Option<Revision>,
    /// The server has sent a bookmark, so its silence means that the connection is dead.
    pub(super) bookmarks: bool,
    pub(super) catch_up: CatchUp,
}

impl<K> fmt::Debug for Machine<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine").field("phase", &self.phase_name()).field("seen", &self.seen).finish()
    }
}

impl<K> Machine<K> {
    /// A reflector that has not started. `streams` is true if the source can stream its initial state.
    #[must_use]
    pub fn new(options: ReflectorOptions, streams: bool) -> Self {
        let backoff = Backoff::new(options.backoff, options.seed_or_random());
        let options = ReflectorOptions { streaming: options.streaming && streams, ..options };
        Self {
            options,
            phase: Phase::Idle,
            seen: None,
            unavailable: false,
            paginated: false,
            backoff,
            streaming_refused_until: None,
            early_ends: 0,
            failures: 0,
            interrupted: false,
            expired_at: None,
            bookmarks: false,
            catch_up: CatchUp::Done,
        }
    }

    /// Begins at a saved state instead of obtaining one: call it before [`Input::Start`].
    #[must_use]
    pub fn resume(mut self, revision: Revision) -> Self {
        self.seen = Some(revision);
        self.catch_up = CatchUp::Probing;
        self
    }

    /// Returns the last resource version that was seen, in a list, an event or a bookmark. A watch resumes from it.
    #[must_use]
    pub fn seen(&self) -> Option<Revision> {
        self.seen
    }

    /// Returns the name of the phase, for the status and the debug page.
    #[must_use]
    pub fn phase_name(&self) -> &'static str {
        match self.phase {
            Phase::Idle => "idle",
            Phase::Listing { .. } => "listing",
            Phase::Opening { .. } => "opening",
            Phase::Streaming(_) => "streaming",
            Phase::Watching(_) if self.catch_up != CatchUp::Done => "catching up",
            Phase::Watching(_) => "watching",
            Phase::Waiting { .. } => "waiting",
        }
    }

    /// True if the first attempt to obtain the state has ended, in success or not.
    pub(super) fn has_tried(&self) -> bool {
        self.seen.is_some() || matches!(self.phase, Phase::Waiting { .. })
    }

    /// Returns the time at which to send [`Input::Tick`], if nothing else happens before. There is always one, except
    /// before the start: nothing is waited for without a limit.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        match &self.phase {
            Phase::Idle => None,
            Phase::Listing { until, .. } | Phase::Opening { until, .. } | Phase::Waiting { until, .. } => {
                Some(*until)
            }
            Phase::Streaming(initial) => Some(initial.stalls.min(initial.live.dies)),
            Phase::Watching(live) => Some(live.wakes()),
        }
    }

    /// Takes one input at the time `now`. Inputs that do not fit the phase (the response to a request that was given
    /// up) are ignored.
    pub fn step(&mut self, input: Input<K>, now: Duration) -> Output<K> {
        let mut out = Output::default();
        match (input, &mut self.phase) {
            (Input::Start, Phase::Idle) if self.seen.is_some() => self.open(false, now, &mut out),
            (Input::Start, Phase::Idle) => self.cycle(now, &mut out),
            (Input::Listed(listing), &mut Phase::Listing { version, .. }) => {
                self.listed(listing, version, now, &mut out);
            }
            (Input::ListFailed(error), &mut Phase::Listing { version, .. }) => {
                self.list_failed(error, version, now, &mut out);
            }
            (Input::Opened, &mut Phase::Opening { initial_events, timeout, .. }) => {
                self.opened(initial_events, timeout, now);
            }
            (Input::OpenFailed(error), Phase::Opening { initial_events: true, .. }) => {
                self.streaming_failed(error, now, &mut out);
            }
            (Input::OpenFailed(error), Phase::Opening { .. }) => {
                self.watch_failed(error, Problem::Open, now, &mut out);
            }
            (Input::Events(events), Phase::Streaming(_) | Phase::Watching(_)) => {
                self.events(events, now, &mut out);
            }
            (Input::Closed, Phase::Streaming(_) | Phase::Watching(_)) => self.closed(now, &mut out),
            (Input::Broken(error), Phase::Streaming(_)) => self.streaming_failed(error, now, &mut out),
            (Input::Broken(error), Phase::Watching(_)) => {
                self.note_health(now);
                self.watch_failed(error, Problem::Watch, now, &mut out);
            }
            (Input::Tick, _) => self.tick(now, &mut out),
            (Input::Probed(Ok(at)), Phase::Watching(_)) => self.probed(at, now, &mut out),
            (Input::Probed(Err(_)), Phase::Watching(live)) if self.catch_up == CatchUp::Probing => {
                live.probe = Some(now + self.options.healthy_after);
            }
            (Input::Panicked(message), _) => self.panicked(message, now, &mut out),
            _ => {}
        }
        out
    }

    /// Obtains the state: as a stream if the server may offer that, else as a list.
    pub(super) fn cycle(&mut self, now: ReflectorTime, out: &mut Output<K>) {
        let spared = self.streaming_refused_until.is_some_and(|until| now < until);
        if self.options.streaming && !spared {
            self.open(true, now, out);
        } else {
            self.list(now, out);
        }
    }

    /// Opens a watch; with `initial_events` it is a streaming list. Timeouts are spread, so that watches do not end
    /// together.
    pub(super) fn open(&mut self, initial_events: bool, now: ReflectorTime, out: &mut Output<K>) {
        let timeout = match self.catch_up {
            CatchUp::Done => self.backoff.spread(self.options.watch_timeout),
            CatchUp::Probing | CatchUp::Until(_) => CATCH_UP_WATCH,
        };
        // A whole number of seconds is all the wire has room for.
        let timeout = Duration::from_secs(timeout.as_secs().max(1));
        let revision = self.seen.filter(|_| !(initial_events && self.unavailable));
        out.actions.push(Action::Watch(WatchRequest { revision, initial_events, timeout: Some(timeout) }));
        let until = now + self.options.open_timeout;
        self.phase = Phase::Opening { initial_events, timeout, until };
    }

    /// Lists from the server's cache if it can be as new as what was seen, else from its store.
    pub(super) fn list(&mut self, now: ReflectorTime, out: &mut Output<K>) {
        let version = match self.seen {
            _ if self.unavailable => ListVersion::MostRecent,
            None => ListVersion::Any,
            Some(revision) => ListVersion::NotOlderThan(revision),
        };
        out.actions.push(Action::List(ListRequest::first(version, self.page_size(version))));
        self.phase = Phase::Listing { version, until: now + self.options.list_timeout };
    }

    /// A list not older than a version is answered from the server's cache, without pages: a limit would make the
    /// server read its database.
    fn page_size(&self, version: ListVersion) -> Option<u32> {
        let from_cache = matches!(version, ListVersion::NotOlderThan(_)) && !self.paginated;
        self.options.page_size.or((!from_cache).then_some(PAGE))
    }

    /// Takes a complete list.
    fn listed(&mut self, listing: Listing<K>, version: ListVersion, now: ReflectorTime, out: &mut Output<K>) {
        if version == ListVersion::Any && listing.pages > 1 {
            self.paginated = true;
        }
        if self.refuse_stale(listing.revision, version == ListVersion::MostRecent, now, out) {
            return;
        }
        self.replace(listing.objects, listing.revision, out);
        self.open(false, now, out);
    }

    /// True if a state is older than what was seen and must not be taken; then arranges for a better one.
    pub(super) fn refuse_stale(
        &mut self,
        got: Revision,
        consistent: bool,
        now: ReflectorTime,
        out: &mut Output<K>,
    ) -> bool {
        let Some(seen) = self.seen.filter(|seen| got < *seen) else { return false };
        if consistent {
            out.report(Problem::HistoryRestarted { got, seen }, ProblemResponse::Continues);
            return false;
        }
        self.unavailable = true;
        let delay = self.wait(NextStep::Cycle, None, now);
        out.report(Problem::StaleList { got, seen }, ProblemResponse::Relists(delay));
        true
    }

    /// Replaces the state. Objects that are not in it were deleted while no watch was open.
    pub(super) fn replace(&mut self, objects: Vec<Object<K>>, revision: Revision, out: &mut Output<K>) {
        // A history that went back reuses its revisions: the same version of an object may be another.
        let restarted = self.seen.is_some_and(|seen| revision < seen);
        out.deltas.push(Delta::Replaced { objects, revision, restarted });
        self.seen = Some(revision);
        self.catch_up = CatchUp::Done;
        self.unavailable = false;
        self.interrupted = false;
        self.early_ends = 0;
        self.failures = 0;
    }

    /// Sets the deadlines of a watch: its own end with some grace, and silence before.
    fn opened(&mut self, initial_events: bool, timeout: Duration, now: ReflectorTime) {
        let dies = now + timeout + self.options.watch_grace;
        let probe = match self.catch_up {
            CatchUp::Probing => Some(now),
            _ => (self.interrupted && !initial_events).then_some(now + self.options.probe_after),
        };
        let silent = now + self.options.watch_idle;
        let live = Live { opened: now, dies, silent, ends: now + timeout, probe, events: 0 };
        self.phase = if initial_events {
            let stalls = now + self.options.streaming_stall;
            Phase::Streaming(InitialEvents { objects: CollectedObjects::default(), live, stalls })
        } else {
            Phase::Watching(live)
        };
    }

    /// Handles a deadline that has passed. Which one it is follows from the phase: each phase has one at a time,
    /// besides the probe of a watch.
    fn tick(&mut self, now: ReflectorTime, out: &mut Output<K>) {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return;
        }
        match &self.phase {
            Phase::Idle => {}
            Phase::Waiting { next: NextStep::Cycle, .. } => self.cycle(now, out),
            Phase::Waiting { next: NextStep::Watch, .. } => self.open(false, now, out),
            Phase::Listing { version, .. } => {
                let version = *version;
                out.actions.push(Action::HangUp);
                self.list_failed(SourceError::TimedOut(self.options.list_timeout), version, now, out);
            }
            Phase::Opening { initial_events, .. } => {
                let error = SourceError::TimedOut(self.options.open_timeout);
                if *initial_events {
                    self.streaming_failed(error, now, out);
                } else {
                    self.watch_failed(error, Problem::Open, now, out);
                }
            }
            Phase::Streaming(_) => self.stalled(now, out),
            Phase::Watching(live) if live.probe.is_some_and(|probe| now >= probe) => self.probe(out),
            Phase::Watching(_) => self.hung(now, out),
        }
    }
}
