//! [`Queues`]: the seats of one priority level, and the flows that take turns in them.
//!
//! Fair queuing: the level has a virtual time that runs as fast as each busy queue is served, and each queue knows the
//! virtual time at which its next request would start if all had been served equally. The queue whose request would be done
//! first comes next. The duration of a request is known only afterwards; it is estimated, and the estimate is corrected
//! when the request ends. Pure: time is passed in, and a waiting request is an opaque token.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::shuffle::hand;

/// The seconds that a request is guessed to take; kube-apiserver's.
const GUESS: f64 = 0.003;

/// The queue settings of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueueSettings {
    /// The number of queues; zero if requests that do not fit are rejected at once.
    pub(super) queues: usize,
    /// The queues of one flow.
    pub(super) hand: usize,
    /// The requests that may wait in one queue.
    pub(super) length: usize,
}

/// The result of the arrival of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// The request has its seats.
    Runs(SeatPlace),
    /// The request waits, under this identity; its token is returned when its turn has come.
    Waits(SeatPlace, u64),
    /// There are no queues and no seats.
    NoSeat,
    /// Its queue is full.
    QueueFull,
}

/// The queue and the seats that a request is accounted for with. It must be given back exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SeatPlace {
    queue: usize,
    seats: u32,
}

/// A request in a queue. `id` finds it again when its client disconnects.
#[derive(Debug)]
struct WaitingRequest<T> {
    id: u64,
    seats: u32,
    token: T,
}

/// One of the queues that flows are dealt to.
#[derive(Debug)]
struct FlowQueue<T> {
    waiting: VecDeque<WaitingRequest<T>>,
    waiting_seats: u32,
    running_seats: u32,
    running: u32,
    /// The virtual time at which the next request would start.
    next_start: f64,
}

impl<T> FlowQueue<T> {
    /// Returns true if nothing waits or runs. Such a queue does not slow down virtual time.
    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running == 0
    }
}

/// The demand for seats over a while.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Demand {
    /// The highest demand, in seats.
    pub(super) high: f64,
    /// The average demand over time, in seats.
    pub(super) average: f64,
    /// The standard deviation over time, in seats.
    pub(super) deviation: f64,
}

/// The seats and queues of a level.
#[doc(alias = "queueSet")]
#[doc(alias = "fairqueuing")]
#[derive(Debug)]
pub(super) struct Queues<T> {
    settings: QueueSettings,
    /// Seats that the level has now.
    limit: u32,
    /// Seats held by running requests; above `limit` for a while after seats were lent.
    in_use: u32,
    waiting: usize,
    waiting_seats: u32,
    queues: Vec<FlowQueue<T>>,
    /// Queues with waiting or running requests: virtual time is divided among them.
    busy: usize,
    /// The service in seat-seconds that each busy queue would have had so far under perfect fairness.
    virtual_time: f64,
    now: Instant,
    /// The queue at which the search for the next one begins, so that equal queues take turns.
    robin: usize,
    next_id: u64,
    /// Measures demand for the next adjustment of seats.
    meter: DemandMeter,
}

impl<T> Queues<T> {
    /// Queues for a level with `limit` seats. All of them are allocated now: their number is bounded by `config.rs`.
    pub(super) fn new(settings: QueueSettings, limit: u32, now: Instant) -> Self {
        let queue = |_| FlowQueue {
            waiting: VecDeque::new(),
            waiting_seats: 0,
            running_seats: 0,
            running: 0,
            next_start: 0.0,
        };
        Self {
            settings,
            limit,
            in_use: 0,
            waiting: 0,
            waiting_seats: 0,
            queues: (0..settings.queues.max(1)).map(queue).collect(),
            busy: 0,
            virtual_time: 0.0,
            now,
            robin: 0,
            next_id: 0,
            meter: DemandMeter::default(),
        }
    }

    /// Seats that requests hold.
    pub(super) fn in_use(&self) -> u32 {
        self.in_use
    }

    /// Requests that wait in all queues.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Seats that the level has now. More may be in use for a moment after they were lent to another level.
    pub(super) fn limit(&self) -> u32 {
        self.limit
    }

    /// Adds a request for some seats. If it needs more than the level has, it gets all of them.
    pub(super) fn arrive(
        &mut self,
        now: Instant,
        hash: u64,
        seats: u32,
        token: impl FnOnce() -> T,
    ) -> Arrival {
        self.advance(now);
        let seats = seats.clamp(1, self.limit.max(1));
        let queue = self.choose(hash);
        let place = SeatPlace { queue, seats };
        if self.waiting == 0 && self.fits(seats) {
            self.begin(place);
            return Arrival::Runs(place);
        }
        if self.settings.queues == 0 {
            return Arrival::NoSeat;
        }
        let id = self.next_id;
        let Some(chosen) = self.queues.get_mut(queue) else { return Arrival::NoSeat };
        if chosen.waiting.len() >= self.settings.length {
            return Arrival::QueueFull;
        }
        if chosen.is_idle() {
            chosen.next_start = self.virtual_time;
            self.busy += 1;
        }
        chosen.waiting.push_back(WaitingRequest { id, seats, token: token() });
        chosen.waiting_seats += seats;
        self.next_id += 1;
        self.waiting += 1;
        self.waiting_seats += seats;
        self.note_demand();
        Arrival::Waits(place, id)
    }

    /// Ends a request; returns those whose turn has come.
    pub(super) fn leave(&mut self, now: Instant, place: SeatPlace, took: Duration) -> Vec<(T, SeatPlace)> {
        self.advance(now);
        let seats = f64::from(place.seats);
        self.in_use -= place.seats.min(self.in_use);
        if let Some(queue) = self.queues.get_mut(place.queue) {
            queue.running -= queue.running.min(1);
            queue.running_seats -= place.seats.min(queue.running_seats);
            queue.next_start += (took.as_secs_f64() - GUESS) * seats;
            self.busy -= usize::from(queue.is_idle()).min(self.busy);
        }
        self.note_demand();
        self.next_turns()
    }

    /// A request does not wait any longer. False if its turn had come.
    pub(super) fn give_up(&mut self, now: Instant, place: SeatPlace, id: u64) -> bool {
        self.advance(now);
        let Some(queue) = self.queues.get_mut(place.queue) else { return false };
        let Some(at) = queue.waiting.iter().position(|waiting| waiting.id == id) else { return false };
        queue.waiting.remove(at);
        queue.waiting_seats -= place.seats.min(queue.waiting_seats);
        self.waiting -= 1;
        self.waiting_seats -= place.seats.min(self.waiting_seats);
        self.busy -= usize::from(queue.is_idle()).min(self.busy);
        self.note_demand();
        true
    }

    /// Changes the number of seats; returns those whose turn has come.
    pub(super) fn set_limit(&mut self, now: Instant, limit: u32) -> Vec<(T, SeatPlace)> {
        self.advance(now);
        self.limit = limit;
        self.next_turns()
    }

    /// The demand since this was last asked.
    pub(super) fn take_demand(&mut self, now: Instant) -> Demand {
        self.advance(now);
        self.meter.take(self.demand())
    }

    /// Seats that are taken or waited for.
    fn demand(&self) -> f64 {
        f64::from(self.in_use + self.waiting_seats)
    }

    /// Called after each change of the demand; [`Self::advance`] weights it by the time it lasted.
    fn note_demand(&mut self) {
        let demand = self.demand();
        self.meter.note(demand);
    }

    /// Advances virtual time, at the rate at which each busy queue is served.
    fn advance(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.now).as_secs_f64();
        self.now = self.now.max(now);
        self.meter.pass(passed, self.demand());
        let served = self.demand().min(f64::from(self.limit));
        self.virtual_time += passed * served / self.busy.max(1) as f64;
    }

    /// A request wider than the limit runs alone, since it would wait for ever otherwise.
    fn fits(&self, seats: u32) -> bool {
        self.in_use == 0 || self.in_use + seats <= self.limit
    }

    /// The queue of the hand with the least work.
    fn choose(&self, hash: u64) -> usize {
        let hand = hand(hash, self.queues.len(), self.settings.hand.max(1));
        let work = |queue: &usize| self.queues.get(*queue).map_or(0, |q| q.waiting_seats + q.running_seats);
        hand.into_iter().min_by_key(work).unwrap_or(0)
    }

    /// Assigns seats to a request and charges its queue with an estimate of its duration, which is corrected when it ends.
    fn begin(&mut self, place: SeatPlace) {
        self.in_use += place.seats;
        if let Some(queue) = self.queues.get_mut(place.queue) {
            if queue.is_idle() {
                queue.next_start = self.virtual_time;
                self.busy += 1;
            }
            queue.running += 1;
            queue.running_seats += place.seats;
            queue.next_start += GUESS * f64::from(place.seats);
        }
        self.note_demand();
    }

    /// Dispatches waiting requests while their seats fit, in the order of virtual finish times.
    fn next_turns(&mut self) -> Vec<(T, SeatPlace)> {
        let mut turns = Vec::new();
        while let Some(queue) = self.next_queue() {
            let Some(chosen) = self.queues.get_mut(queue) else { break };
            // A request that does not fit waits for seats, and all others wait behind it: else wide requests would starve.
            let fits = chosen
                .waiting
                .front()
                .is_some_and(|first| self.in_use == 0 || self.in_use + first.seats <= self.limit);
            let Some(first) = fits.then(|| chosen.waiting.pop_front()).flatten() else { break };
            let place = SeatPlace { queue, seats: first.seats };
            chosen.waiting_seats -= first.seats.min(chosen.waiting_seats);
            // The queue counted as busy because of waiting requests.
            self.busy -= usize::from(chosen.is_idle()).min(self.busy);
            let start = chosen.next_start;
            self.waiting -= 1;
            self.waiting_seats -= first.seats.min(self.waiting_seats);
            self.begin(place);
            if let Some(chosen) = self.queues.get_mut(queue) {
                // The queue was not idle, so its virtual time continues.
                chosen.next_start = start + GUESS * f64::from(first.seats);
            }
            self.robin = queue + 1;
            turns.push((first.token, place));
        }
        turns
    }

    /// The queue whose first request would be done first.
    fn next_queue(&self) -> Option<usize> {
        if self.waiting == 0 {
            return None;
        }
        let count = self.queues.len();
        let order = (0..count).map(|step| (self.robin + step) % count);
        let done = |queue: usize| {
            let queue = self.queues.get(queue)?;
            queue.waiting.front().map(|first| queue.next_start + GUESS * f64::from(first.seats))
        };
        let waiting = order.filter_map(|queue| done(queue).map(|done| (done, queue)));
        waiting.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, queue)| queue)
    }
}

/// Measures demand over time.
#[derive(Debug, Default)]
struct DemandMeter {
    seconds: f64,
    sum: f64,
    squares: f64,
    high: f64,
}

impl DemandMeter {
    /// Adds a time in which the demand was constant.
    fn pass(&mut self, seconds: f64, demand: f64) {
        self.seconds += seconds;
        self.sum += demand * seconds;
        self.squares += demand * demand * seconds;
    }

    /// Records the highest demand, however short it was.
    fn note(&mut self, demand: f64) {
        self.high = self.high.max(demand);
    }

    /// Returns the demand since the last call and starts over. Average and deviation are weighted by time.
    fn take(&mut self, now: f64) -> Demand {
        let seconds = self.seconds.max(f64::MIN_POSITIVE);
        let average = self.sum / seconds;
        let variance = (self.squares / seconds - average * average).max(0.0);
        let demand = Demand { high: self.high.max(now), average, deviation: variance.sqrt() };
        *self = Self { high: now, ..Self::default() };
        demand
    }
}

#[cfg(test)]
mod tests;
