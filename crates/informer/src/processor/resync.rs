//! [`Resync`]: telling every object again, a few at a time.
//!
//! A resync of N objects at once is a burst of N calls, and of as much work behind them. So a pass is spread evenly
//! over its period: at any moment, the share of the objects that has been told is the share of the period that has
//! passed. The pass follows the keys in order and survives every watch failure, since it has no part in it.

use std::time::Duration;

use listwatch_wire::ObjectKey;

use super::event::Event;
use crate::object::Object;
use crate::store::Snapshot;

/// Shorter periods are raised to this: a resync is a safety net, not a clock.
pub(crate) const MIN_PERIOD: Duration = Duration::from_secs(1);
/// No handler is visited more often than this.
const MIN_STEP: Duration = Duration::from_millis(20);

/// The position of one handler in its pass. Time is counted from whenever the caller likes.
pub(crate) struct Resync {
    period: Duration,
    started: Duration,
    /// Objects at the start of the pass: what the share is taken of.
    size: usize,
    told: usize,
    last: Option<ObjectKey>,
}

impl Resync {
    pub(crate) fn new(period: Duration, now: Duration) -> Self {
        Self { period: period.max(MIN_PERIOD), started: now, size: 0, told: 0, last: None }
    }

    /// When to call [`step`](Self::step) next.
    pub(crate) fn due(&self, now: Duration) -> Duration {
        let objects = u32::try_from(self.size.max(1)).unwrap_or(u32::MAX);
        let end = self.started + self.period;
        (now + (self.period / objects).max(MIN_STEP)).min(end.max(now))
    }

    /// What is to be told now.
    pub(crate) fn step<K>(&mut self, snapshot: &Snapshot<K>, now: Duration) -> Vec<Event<K>> {
        if self.told == 0 && self.last.is_none() {
            self.size = snapshot.len();
        }
        let passed = now.saturating_sub(self.started);
        if passed >= self.period {
            let rest = self.take(snapshot, usize::MAX);
            // Passes that were missed altogether (a suspended machine) are not made up for.
            self.started +=
                self.period * u32::try_from(passed.as_nanos() / self.period.as_nanos()).unwrap_or(1);
            (self.told, self.last, self.size) = (0, None, snapshot.len());
            return rest;
        }
        let share = passed.as_secs_f64() / self.period.as_secs_f64();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a size")]
        let wanted = (self.size as f64 * share) as usize;
        self.take(snapshot, wanted.saturating_sub(self.told))
    }

    fn take<K>(&mut self, snapshot: &Snapshot<K>, count: usize) -> Vec<Event<K>> {
        let objects = snapshot.page(self.last.as_ref(), count);
        self.told += objects.len();
        self.last = objects.last().map(Object::key).cloned().or(self.last.take());
        objects.into_iter().map(|object| Event::Updated { old: object.clone(), new: object }).collect()
    }
}
