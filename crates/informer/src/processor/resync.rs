//! [`Resync`]: delivers every cached object again, a few at a time.
//!
//! A resync of N objects at once is a burst of N calls, and of as much work behind them. So a pass is spread evenly
//! over its period: the remaining objects are spread over the remaining time, even if objects are added or deleted
//! during the pass. The pass follows the keys in order and is independent of watch failures.

use std::time::Duration;

use listwatch_wire::ObjectKey;

use super::event::Event;
use crate::object::Object;
use crate::store::Snapshot;

/// Shorter periods are raised to this: a resync is a safety net, not a clock.
pub(crate) const MIN_PERIOD: Duration = Duration::from_secs(1);
/// No handler is visited more often than this.
const MIN_STEP: Duration = Duration::from_millis(20);
/// No pass is looked after less often than this share of its period, so that it notices what has come.
const MIN_STEPS: u32 = 16;
/// The most objects that are delivered at once at the end of a pass, or a sixteenth of all if that is more.
const MAX_BURST: usize = 64;

/// The position of one handler in its pass. Times are counted from any moment that the caller chooses.
pub(crate) struct Resync {
    period: Duration,
    pass: Option<ResyncPass>,
    /// Objects at the last step.
    size: usize,
}

struct ResyncPass {
    started: Duration,
    stepped: Duration,
    delivered: usize,
    last: Option<ObjectKey>,
}

impl ResyncPass {
    fn new(started: Duration) -> Self {
        Self { started, stepped: started, delivered: 0, last: None }
    }

    /// The share of the `left` objects that is due: that of the time since the last step in the time that is left.
    fn share(&self, left: usize, now: Duration, end: Duration) -> usize {
        let (passed, total) = (now.saturating_sub(self.stepped), end.saturating_sub(self.stepped));
        let share = (left as u128).saturating_mul(passed.as_nanos()) / total.as_nanos().max(1);
        usize::try_from(share).unwrap_or(usize::MAX)
    }

    /// Takes the next objects of the pass, as updates from themselves to themselves, which is how client-go delivers
    /// a resync.
    fn take<K>(&mut self, snapshot: &Snapshot<K>, count: usize, now: Duration) -> Vec<Event<K>> {
        if count == 0 {
            return Vec::new();
        }
        let objects = snapshot.page(self.last.as_ref(), count);
        self.delivered += objects.len();
        self.stepped = now;
        self.last = objects.last().map(Object::key).cloned().or(self.last.take());
        objects.into_iter().map(|object| Event::Updated { old: object.clone(), new: object }).collect()
    }
}

impl Resync {
    pub(crate) fn new(period: Duration) -> Self {
        Self { period: period.max(MIN_PERIOD), pass: None, size: 0 }
    }

    /// When to call [`step`](Self::step) next.
    pub(crate) fn due(&self, now: Duration) -> Duration {
        let steps = u32::try_from(self.size).unwrap_or(u32::MAX).max(MIN_STEPS);
        let next = now + (self.period / steps).max(MIN_STEP);
        let end = self.pass.as_ref().map(|pass| pass.started + self.period);
        end.filter(|end| *end > now).map_or(next, |end| next.min(end))
    }

    /// Returns the events that are due now.
    pub(crate) fn step<K>(&mut self, snapshot: &Snapshot<K>, now: Duration) -> Vec<Event<K>> {
        self.size = snapshot.len();
        let Some(pass) = &mut self.pass else {
            // A pass begins when there are objects to deliver. The time before does not count.
            self.pass = (self.size > 0).then(|| ResyncPass::new(now));
            return Vec::new();
        };
        let end = pass.started + self.period;
        if now < end {
            let share = pass.share(self.size.saturating_sub(pass.delivered), now, end);
            return pass.take(snapshot, share, now);
        }
        let most = MAX_BURST.max(self.size / MIN_STEPS as usize);
        let rest = pass.take(snapshot, most, now);
        if rest.len() < most {
            self.pass = (self.size > 0).then(|| ResyncPass::new(self.next_start(end, now)));
        }
        rest
    }

    /// Passes follow each other; those that were missed altogether (a suspended machine) are not made up for.
    fn next_start(&self, end: Duration, now: Duration) -> Duration {
        let missed = now.saturating_sub(end).as_nanos() / self.period.as_nanos().max(1);
        end + self.period * u32::try_from(missed).unwrap_or(0)
    }
}
