//! [`Correlator`]: decides which occurrences become events. Pure: the time is passed in, nothing is sent.
//!
//! The first occurrence of a kind is written at once, the second turns it into a series, and later ones are counted and
//! written periodically. Writes about one object are limited by a token bucket, so that a faulty program does not flood
//! the cluster; occurrences over the limit are still counted if their series exists.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::event::{EventRecord, ObjectReference, Occurrence, Reporter, Series, Severity};
use crate::lru::Lru;

/// The bounds and times of a [`Correlator`]: what a controller that repeats one event for ever may cost the API
/// server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CorrelatorOptions {
    /// The number of series that are tracked; beyond it the one that has been idle for longest ends. Default 4096.
    pub series_max: usize,
    /// A series ends when nothing of it has happened for this long. Default six minutes.
    pub series_idle: Duration,
    /// The period in which a continuing series is written. Default 30 minutes, because events expire after an hour.
    pub heartbeat: Duration,
    /// So many writes about one object at once. Default 25.
    pub burst: u32,
    /// One more write per object in this time. Default five minutes.
    pub refill: Duration,
    /// The number of objects with a rate limit of their own; beyond it the limit of the longest idle one is reset.
    /// Default 4096.
    pub objects_max: usize,
}

impl Default for CorrelatorOptions {
    fn default() -> Self {
        Self {
            series_max: 4096,
            series_idle: Duration::from_secs(6 * 60),
            heartbeat: Duration::from_secs(30 * 60),
            burst: 25,
            refill: Duration::from_secs(5 * 60),
            objects_max: 4096,
        }
    }
}

/// The identity of an occurrence.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct SeriesKey {
    severity: Severity,
    regarding: ObjectReference,
    related: Option<ObjectReference>,
    reason: String,
    action: String,
}

impl SeriesKey {
    /// Returns the key of the series that an occurrence belongs to: everything but the note.
    fn of(occurrence: &Occurrence) -> Self {
        Self {
            severity: occurrence.severity,
            regarding: occurrence.regarding.clone(),
            related: occurrence.related.clone(),
            reason: occurrence.reason.clone(),
            action: occurrence.action.clone(),
        }
    }
}

/// An event that may become a series, or is one.
#[derive(Clone, Debug)]
struct SeriesEntry {
    record: EventRecord,
    seen: Instant,
    written: Instant,
    /// Occurrences since the last write.
    unwritten: u32,
}

impl SeriesEntry {
    fn write(&mut self, now: Instant) -> EventRecord {
        (self.written, self.unwritten) = (now, 0);
        self.record.clone()
    }
}

/// The reaction to an occurrence, for the caller to carry out. The correlator itself writes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(alias = "EventCorrelateResult")]
pub enum CorrelateResult {
    /// Create this event.
    Create(EventRecord),
    /// Update the series of this event.
    Extend(EventRecord),
    /// Nothing to write now: it is counted, and written later.
    Counted,
    /// Nothing to write: the rate limit of this object is exceeded.
    Limited,
}

/// Decides which occurrences become events: client-go's `EventCorrelator`, with series instead of message aggregation.
/// Memory is bounded by [`CorrelatorOptions`].
///
/// ```
/// use listwatch::event_recorder::{CorrelateResult, Correlator, CorrelatorOptions, ObjectReference, Occurrence, Reporter};
/// use tokio::time::Instant;
///
/// # let pod = k8s_openapi::api::core::v1::Pod::default();
/// let reporter = Reporter { controller: "example.com/cleaner".into(), instance: "cleaner-1".into() };
/// let mut correlator = Correlator::new(reporter, CorrelatorOptions::default());
/// let (now, wall) = (Instant::now(), jiff::Timestamp::now());
/// let failed = || Occurrence::warning(ObjectReference::of(&pod), "PullFailed", "Pull", "no such image");
/// assert!(matches!(correlator.observe(failed(), now, wall), CorrelateResult::Create(_)));
/// assert!(matches!(correlator.observe(failed(), now, wall), CorrelateResult::Extend(_)));
/// // From the third on they are counted, and written with the heartbeat of the series.
/// assert_eq!(correlator.observe(failed(), now, wall), CorrelateResult::Counted);
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "EventCorrelator")]
pub struct Correlator {
    options: CorrelatorOptions,
    reporter: Arc<Reporter>,
    series: Lru<SeriesKey, SeriesEntry>,
    /// The time at which the bucket of each object will be full again, which is the whole state of a token bucket.
    buckets: Lru<ObjectReference, Instant>,
    /// Series that were pushed out with something left to write.
    pushed_out: Vec<EventRecord>,
    created: u64,
}

impl Correlator {
    /// A new correlator. The reporter is written into every event.
    #[must_use]
    pub fn new(reporter: Reporter, options: CorrelatorOptions) -> Self {
        Self {
            options,
            reporter: Arc::new(reporter),
            series: Lru::new(options.series_max),
            buckets: Lru::new(options.objects_max),
            pushed_out: Vec::new(),
            created: 0,
        }
    }

    /// Records an occurrence and decides what to write. `now` is for the limits, `wall` is the time in the event.
    pub fn observe(&mut self, occurrence: Occurrence, now: Instant, wall: Timestamp) -> CorrelateResult {
        let key = SeriesKey::of(&occurrence);
        self.end_if_idle(&key, now);
        if let Some(entry) = self.series.get_mut(&key) {
            let first_repeat = entry.record.series.is_none();
            let count = entry.record.series.map_or(1, |series| series.count).saturating_add(1);
            entry.record.series = Some(Series { count, last: wall });
            (entry.seen, entry.unwritten) = (now, entry.unwritten.saturating_add(1));
            if !first_repeat || !self.admit(&key.regarding, now) {
                return CorrelateResult::Counted;
            }
            return self
                .series
                .get_mut(&key)
                .map_or(CorrelateResult::Counted, |entry| CorrelateResult::Extend(entry.write(now)));
        }
        if !self.admit(&key.regarding, now) {
            return CorrelateResult::Limited;
        }
        self.created += 1;
        let record = EventRecord::new(occurrence.cut(), Arc::clone(&self.reporter), wall, self.created);
        let entry = SeriesEntry { record: record.clone(), seen: now, written: now, unwritten: 0 };
        if let Some((_, entry)) = self.series.insert(key, entry).filter(|(_, entry)| entry.unwritten > 0) {
            self.pushed_out.push(entry.record);
        }
        CorrelateResult::Create(record)
    }

    /// Returns the series that have to be written now: those that have ended, and those that continue for longer than
    /// the heartbeat. Call it about once a minute.
    pub fn tick(&mut self, now: Instant) -> Vec<EventRecord> {
        let mut due = std::mem::take(&mut self.pushed_out);
        // Every occurrence touches its series, so the longest idle is always the oldest.
        while self.series.oldest().is_some_and(|(_, entry)| self.idle(entry, now)) {
            let ended = self.series.pop_oldest().filter(|(_, entry)| entry.unwritten > 0);
            due.extend(ended.map(|(_, entry)| entry.record));
        }
        let heartbeat = self.options.heartbeat;
        let late = |entry: &&mut SeriesEntry| {
            entry.unwritten > 0 && now.saturating_duration_since(entry.written) >= heartbeat
        };
        due.extend(self.series.values_mut().filter(late).map(|entry| entry.write(now)));
        due
    }

    /// All series that have something left to write, for the end of the program.
    pub fn flush(&mut self, now: Instant) -> Vec<EventRecord> {
        let mut due = std::mem::take(&mut self.pushed_out);
        let left = self.series.values_mut().filter(|entry| entry.unwritten > 0);
        due.extend(left.map(|entry| entry.write(now)));
        due
    }

    /// The event could not be created: the next occurrence is the first again.
    pub fn forget(&mut self, occurrence: &Occurrence) {
        self.series.remove(&SeriesKey::of(occurrence));
    }

    /// The number of series that are followed.
    #[must_use]
    pub fn followed(&self) -> usize {
        self.series.len()
    }

    fn idle(&self, entry: &SeriesEntry, now: Instant) -> bool {
        now.saturating_duration_since(entry.seen) >= self.options.series_idle
    }

    /// Ends a series that has been idle for long enough, before the next occurrence would join it. Repetitions that
    /// were counted and not written yet are written with the next batch.
    fn end_if_idle(&mut self, key: &SeriesKey, now: Instant) {
        if self.series.peek(key).is_some_and(|entry| self.idle(entry, now))
            && let Some(entry) = self.series.remove(key).filter(|entry| entry.unwritten > 0)
        {
            self.pushed_out.push(entry.record);
        }
    }

    /// Takes a token, if there is one.
    fn admit(&mut self, regarding: &ObjectReference, now: Instant) -> bool {
        let full_at = self.buckets.peek(regarding).copied().unwrap_or(now).max(now);
        let next = full_at + self.options.refill;
        let admitted =
            next.saturating_duration_since(now) <= self.options.refill.saturating_mul(self.options.burst);
        if admitted {
            self.buckets.insert(regarding.clone(), next);
        }
        admitted
    }
}
