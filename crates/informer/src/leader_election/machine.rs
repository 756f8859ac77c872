//! [`ElectionMachine`]: one candidate of an election, as a pure state machine.
//! [`LeaderElection`](super::LeaderElection) performs its actions; time and results are passed in.
//!
//! Two clocks, two purposes: the monotonic one decides everything, the wall clock is only written down for people.
//! A wall clock that jumps therefore changes nothing.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::time::Instant;

use super::lock::{LeaseRecord, LockError, Observed};
use super::options::{ElectionOptions, JITTER};
use crate::reflector::{Backoff, BackoffOptions};

/// The present by two clocks: a monotonic one for decisions, the wall clock for the text of the record. They are
/// passed in, so that a test can move both.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// The input of decisions.
    pub monotonic: Instant,
    /// The text in the record for people to read.
    pub wall: Timestamp,
}

impl Now {
    /// Both clocks of this machine.
    #[must_use]
    pub fn read() -> Self {
        Self { monotonic: Instant::now(), wall: Timestamp::now() }
    }
}

/// As a Lease has it.
fn text(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

/// A period of leadership. It is extended by each renewal.
///
/// Work is safe until `valid_until` by this machine's clock: no other candidate takes over before. The leader stops
/// at `renew_until`, which is earlier, so that work has the difference to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// Grows with every term of any candidate, so that a storage can reject writes of a former leader.
    pub fencing_token: u32,
    /// Before this moment no other candidate can lead.
    pub valid_until: Instant,
    /// The time at which the leader stops leading unless it has renewed its lease.
    pub renew_until: Instant,
}

/// The next step that the caller of the machine has to take.
#[derive(Clone, Debug, PartialEq)]
pub enum ElectionAction {
    /// Nothing before this moment.
    Wait(Instant),
    /// Read the record and call [`ElectionMachine::on_read`].
    Read,
    /// Write the record, over this version or as the first, and call [`ElectionMachine::on_write`].
    Write(LeaseRecord, Option<Value>),
    /// Leadership is over: end the work before [`Term::valid_until`]. The machine is a candidate again.
    Lost(Term),
}

/// The step that a candidate is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ElectionPhase {
    Wait(Instant),
    Read,
    /// `fresh`: the record has just been read, so a conflict means real competition.
    Write {
        fresh: bool,
    },
}

/// A record and since when it has been as it is, as far as we have seen.
#[derive(Clone, Debug)]
struct SeenRecord {
    observed: Observed,
    since: Instant,
}

/// One candidate of an election. It requests reads and writes and never performs them.
///
/// The safety of the election rests on two rules. A candidate takes over only after it has seen one version of the
/// record, by its own clock, for the whole lease. A leader counts its lease from before it sent the renewal. Clocks
/// of different machines are never compared; only their speed must agree, roughly.
#[derive(Clone, Debug)]
pub struct ElectionMachine {
    options: ElectionOptions,
    pause: Backoff,
    phase: ElectionPhase,
    seen: Option<SeenRecord>,
    /// True if `seen` is the latest known version, so that it can be overwritten without reading.
    current: bool,
    term: Option<Term>,
    lost: Option<Term>,
    /// The number of the next term, however often the record is deleted or edited back.
    next_token: i32,
    /// The last renewal as it was written. Each is later than the one before, by a microsecond at least: other
    /// candidates take an unchanged record for a dead leader, even if only the wall clock has stopped.
    renewal: Timestamp,
    /// When the request under way was sent. A lease is counted from here, not from the response: the others may have
    /// seen the renewal as soon as it was sent.
    sent: Option<Instant>,
}

impl ElectionMachine {
    /// A candidate that has seen nothing yet. The seed spreads the waits of candidates.
    #[must_use]
    pub fn new(options: ElectionOptions, now: Instant, seed: u64) -> Self {
        let (initial, max) = (options.retry_period, options.retry_period);
        let pause = Backoff::new(BackoffOptions { initial, max, factor: 1, jitter: JITTER }, seed);
        Self {
            options,
            pause,
            phase: ElectionPhase::Wait(now),
            seen: None,
            current: false,
            term: None,
            lost: None,
            next_token: 0,
            renewal: Timestamp::MIN,
            sent: None,
        }
    }

    /// The term, while we lead.
    #[must_use]
    pub fn term(&self) -> Option<Term> {
        self.term
    }

    /// The leader, as the record was last seen.
    #[must_use]
    pub fn leader(&self) -> Option<&str> {
        self.seen.as_ref()?.observed.record.holder()
    }

    /// The time a request that is sent now may take: a response after that would be of no use.
    #[must_use]
    pub fn patience(&self, now: Instant) -> Duration {
        match self.term {
            Some(term) => term.renew_until.saturating_duration_since(now),
            None => self.options.renew_deadline,
        }
    }

    /// Returns the step to take now. Call it again after each wait, read and write.
    pub fn step(&mut self, now: Now) -> ElectionAction {
        if let Some(term) = self.term.filter(|term| now.monotonic >= term.renew_until) {
            self.resign(term, now.monotonic);
        }
        if let Some(term) = self.lost.take() {
            return ElectionAction::Lost(term);
        }
        if let ElectionPhase::Wait(until) = self.phase {
            let until = self.term.map_or(until, |term| until.min(term.renew_until));
            if now.monotonic < until {
                return ElectionAction::Wait(until);
            }
            let write_at_once = self.term.is_some() && self.current;
            self.phase =
                if write_at_once { ElectionPhase::Write { fresh: false } } else { ElectionPhase::Read };
        }
        self.sent = Some(now.monotonic);
        match self.phase {
            ElectionPhase::Write { .. } => {
                let version = self.seen.as_ref().map(|seen| seen.observed.version.clone());
                ElectionAction::Write(self.claim(now), version)
            }
            ElectionPhase::Read | ElectionPhase::Wait(_) => ElectionAction::Read,
        }
    }

    /// Takes the result of a read. Another version of the same record is no sign of life of the leader.
    pub fn on_read(&mut self, now: Now, result: &Result<Option<Observed>, LockError>) {
        match result {
            Err(_) => self.pause(now.monotonic),
            Ok(None) => {
                (self.seen, self.current) = (None, true);
                self.phase = ElectionPhase::Write { fresh: true };
            }
            Ok(Some(observed)) => {
                self.see(observed.clone(), now.monotonic);
                if self.may_take(now.monotonic) {
                    self.phase = ElectionPhase::Write { fresh: true };
                } else if let Some(term) = self.term {
                    self.resign(term, now.monotonic);
                } else {
                    self.pause(now.monotonic);
                }
            }
        }
    }

    /// Takes the result of a write. A lease counts from the moment at which the request was sent, not from the
    /// response.
    pub fn on_write(&mut self, now: Now, result: &Result<Observed, LockError>) {
        match result {
            Ok(observed) => {
                let sent = self.sent.unwrap_or(now.monotonic);
                self.term = Some(self.term_from(sent, observed));
                self.see(observed.clone(), now.monotonic);
                self.phase = ElectionPhase::Wait(sent + self.options.retry_period);
            }
            Err(error) => {
                let fresh = matches!(self.phase, ElectionPhase::Write { fresh: true });
                self.current = false;
                if matches!(error, LockError::Conflict) && self.term.is_some() && !fresh {
                    self.phase = ElectionPhase::Read;
                } else {
                    self.pause(now.monotonic);
                }
            }
        }
    }

    /// The record that releases the lease, and the version it replaces. None if the lease is not ours.
    #[must_use]
    pub fn release(&self, now: Now) -> Option<(LeaseRecord, Value)> {
        let Observed { record, version } = &self.seen.as_ref()?.observed;
        let ours = record.holder() == Some(self.options.identity.as_str());
        let released = LeaseRecord {
            holder_identity: Some(String::new()),
            lease_duration_seconds: Some(1),
            acquire_time: Some(text(now.wall)),
            renew_time: Some(text(now.wall)),
            ..record.clone()
        };
        ours.then(|| (released, version.clone()))
    }

    /// Records a read before a [`release`](Self::release).
    pub(super) fn note(&mut self, observed: Observed, now: Instant) {
        self.see(observed, now);
    }

    fn resign(&mut self, term: Term, now: Instant) {
        (self.term, self.lost) = (None, Some(term));
        self.pause(now);
    }

    /// The leader must not dawdle, candidates must not march in step.
    fn pause(&mut self, now: Instant) {
        let pause = if self.term.is_some() { self.options.retry_period } else { self.pause.delay() };
        self.phase = ElectionPhase::Wait(now + pause);
    }

    /// Another version of the same record, a label for instance, is no sign of life.
    fn see(&mut self, observed: Observed, now: Instant) {
        let unchanged = self.seen.as_ref().filter(|seen| seen.observed.record == observed.record);
        let since = unchanged.map_or(now, |seen| seen.since);
        let token = observed.record.lease_transitions.unwrap_or(0).max(0);
        self.next_token = self.next_token.max(token.saturating_add(1));
        (self.seen, self.current) = (Some(SeenRecord { observed, since }), true);
    }

    /// True if the lease is free, ours, or has not been renewed for its whole duration since we first saw this
    /// version of it. Only our own clock counts.
    fn may_take(&self, now: Instant) -> bool {
        let Some(seen) = &self.seen else { return true };
        let record = &seen.observed.record;
        let silence = now.saturating_duration_since(seen.since);
        record.holder().is_none_or(|holder| holder == self.options.identity)
            || silence >= self.duration(record)
    }

    /// A record without a duration lasts as long as ours.
    fn duration(&self, record: &LeaseRecord) -> Duration {
        let seconds = record.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        seconds.filter(|seconds| *seconds > 0).map_or(self.options.lease_duration, Duration::from_secs)
    }

    /// The record with this candidate as the leader. A new term counts as a transition even if the previous leader had
    /// the same identity: requests of a former process of the same name, or from before a lost term, must be
    /// distinguishable by the fencing token.
    fn claim(&mut self, now: Now) -> LeaseRecord {
        let tick = SignedDuration::from_micros(1);
        self.renewal = self.renewal.checked_add(tick).map_or(now.wall, |next| next.max(now.wall));
        let mut record = self.seen.as_ref().map(|seen| seen.observed.record.clone()).unwrap_or_default();
        if self.term.is_none() || record.acquire_time.is_none() {
            record.acquire_time = Some(text(now.wall));
        }
        let token = self.term.and_then(|term| i32::try_from(term.fencing_token).ok());
        record.lease_transitions = Some(token.unwrap_or(self.next_token));
        record.holder_identity = Some(self.options.identity.clone());
        record.lease_duration_seconds = Some(self.options.lease_seconds());
        record.renew_time = Some(text(self.renewal));
        record
    }

    /// Returns the term that a write begun at `sent` has won or extended. Counting from the sending is on the safe
    /// side: others count from when they see it.
    fn term_from(&self, sent: Instant, observed: &Observed) -> Term {
        let written = observed.record.lease_transitions.and_then(|count| u32::try_from(count).ok());
        Term {
            fencing_token: written.unwrap_or(0),
            valid_until: sent + self.options.lease_duration,
            renew_until: sent + self.options.renew_deadline,
        }
    }
}
