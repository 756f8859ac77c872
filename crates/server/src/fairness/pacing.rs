//! [`Pacing`]: the share of CPU time that one user may use while others are active.
//!
//! [`super::turns`] makes users take turns. But a user with two hundred connections in a closed loop keeps all processors busy
//! between the turns of others, on the clients' side too if they run on the same machine: another user's request then waits
//! for the kernel's time slices, which are milliseconds long. So while another user has been active recently, each user has a
//! share of the CPU time, and requests beyond it wait for some milliseconds. The clients of that user wait for their responses
//! in that time, and the processors are free for other users. No request is rejected. A user without competition is neither
//! measured nor delayed.
//!
//! The time of the threads that work for the connections of a user is counted ([`crate::http::metered`]), encryption and system
//! calls included, and that of the threads that work on large objects. The components of a cluster are not paced
//! ([`super::config`] has their levels), because all users depend on them.
//!
//! [`Paces`] is the state machine; [`Pacing`] makes requests wait accordingly.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

/// The time after which a user counts as alone when no request of another one has come.
const ALONE: Duration = Duration::from_secs(1);

/// The interval at which waiting requests are released: a user's share of it runs at once, and is the longest that others wait
/// for it. It is the precision of the runtime's clock.
const TICK: Duration = Duration::from_millis(1);

/// The time that a user may be ahead of its share before its requests wait, so that few requests, however close
/// together, never do.
const AHEAD: Duration = Duration::from_millis(2);

/// The users that are counted at a time, about 100 bytes each. Further ones are not paced.
const MAX_USERS: usize = 4096;

/// The least time between two searches for users without debt when there is no room for another one: each search is linear in the
/// number of users.
const SWEEP: Duration = Duration::from_millis(10);

/// The requests that an estimate of their cost is made from, and its weight among the estimates before it.
const SAMPLE: f64 = 8.0;
const WEIGHT: f64 = 0.2;

/// The use of the processors by one user, in seconds.
#[derive(Debug)]
struct UserPace<T> {
    /// False for a component of the cluster: it never waits.
    paced: bool,
    /// The time used beyond the share, as of `at`.
    debt: f64,
    at: Instant,
    /// The part of the debt that is an estimate, for requests that have begun and are not measured yet.
    estimated: f64,
    /// The cost of a request, and the sample of which the next estimate is made.
    cost: f64,
    measured: f64,
    begun: f64,
    waiting: VecDeque<T>,
    /// Waiting requests whose clients have disconnected.
    gone: usize,
}

impl<T> UserPace<T> {
    /// A user without debt, whose cost is not known: the first requests begin without an estimate.
    fn new(now: Instant) -> Self {
        Self {
            paced: true,
            debt: 0.0,
            at: now,
            estimated: 0.0,
            cost: 0.0,
            measured: 0.0,
            begun: 0.0,
            waiting: VecDeque::new(),
            gone: 0,
        }
    }

    /// Reduces the debt by the share of the time that has passed. Unused time is not saved up.
    fn settle(&mut self, rate: f64, now: Instant) {
        self.debt = (self.debt - rate * now.saturating_duration_since(self.at).as_secs_f64()).max(0.0);
        self.at = self.at.max(now);
    }

    /// A request begins. It is charged with what it will probably take: those after it must not wait for the measure.
    fn begin(&mut self) {
        self.debt += self.cost;
        self.estimated += self.cost;
        self.begun += 1.0;
    }

    /// Replaces the estimate of a request by what it took. The cost of the next ones is a moving average of samples, so that one
    /// expensive request does not hold up many cheap ones.
    fn charge(&mut self, took: f64) {
        let known = self.estimated.min(took);
        self.estimated -= known;
        self.debt += took - known;
        self.measured += took;
        if self.begun >= SAMPLE {
            self.cost += (self.measured / self.begun - self.cost) * WEIGHT;
            (self.measured, self.begun) = (0.0, 0.0);
        }
    }
}

/// The shares of users and the requests that wait.
#[derive(Debug)]
struct Paces<T> {
    /// Seconds of processor time per second that are the share of a user.
    rate: f64,
    /// The user of the last request, and the end of the time in which shares matter because another user was there.
    last: Option<u64>,
    shared_until: Instant,
    users: HashMap<u64, UserPace<T>, foldhash::fast::RandomState>,
    /// The users with waiting requests.
    held: VecDeque<u64>,
    /// The time from which users may be looked for whose shares are even.
    next_sweep: Instant,
}

impl<T> Paces<T> {
    /// No user is counted until two users have sent requests within `ALONE`.
    fn new(rate: f64, now: Instant) -> Self {
        Self {
            rate,
            last: None,
            shared_until: now,
            users: HashMap::default(),
            held: VecDeque::new(),
            next_sweep: now,
        }
    }

    /// Returns true if requests of two users came within `ALONE`: a user that is alone may use everything.
    fn is_shared(&self, now: Instant) -> bool {
        now < self.shared_until
    }

    /// Records a request, and returns true if it may continue at once. `paced` is `None` for the next piece of an
    /// answer.
    fn enter(&mut self, user: u64, paced: Option<bool>, now: Instant) -> bool {
        if self.last.replace(user).is_some_and(|last| last != user) {
            self.shared_until = now + ALONE;
        }
        if !self.is_shared(now) {
            if self.held.is_empty() {
                self.users.clear();
            }
            return true;
        }
        let rate = self.rate;
        let Some(pace) = self.pace(user, now) else { return true };
        pace.settle(rate, now);
        pace.paced = paced.unwrap_or(pace.paced);
        let free = !pace.paced || (pace.waiting.is_empty() && pace.debt < AHEAD.as_secs_f64());
        if free {
            pace.begin();
        }
        free
    }

    /// Queues a request behind the others of its user. Users that wait are served in turns, for any number of their requests.
    fn wait(&mut self, user: u64, waiting: T) {
        let Some(pace) = self.users.get_mut(&user) else { return };
        if pace.waiting.is_empty() {
            self.held.push_back(user);
        }
        pace.waiting.push_back(waiting);
    }

    /// Records that a waiting request was dropped. Dropped requests are removed once they are the majority.
    fn leave(&mut self, user: u64, is_gone: impl Fn(&T) -> bool) {
        let Some(pace) = self.users.get_mut(&user) else { return };
        pace.gone += 1;
        if pace.gone * 2 > pace.waiting.len() {
            pace.waiting.retain(|waiting| !is_gone(waiting));
            pace.gone = 0;
        }
    }

    /// Adds time that was used for a user.
    fn charge(&mut self, user: u64, took: Duration, now: Instant) {
        if self.is_shared(now)
            && let rate = self.rate
            && let Some(pace) = self.pace(user, now)
        {
            pace.settle(rate, now);
            pace.charge(took.as_secs_f64());
        }
    }

    /// Returns the requests that may continue now: of each user as its share of one tick allows, and all if no other user is
    /// active any more.
    fn release(&mut self, now: Instant) -> Vec<T> {
        let (alone, tick) = (!self.is_shared(now), self.rate * TICK.as_secs_f64());
        let mut released = Vec::new();
        for _ in 0..self.held.len() {
            let Some(user) = self.held.pop_front() else { break };
            let Some(pace) = self.users.get_mut(&user) else { continue };
            pace.settle(self.rate, now);
            while (alone || pace.debt < tick)
                && let Some(waiting) = pace.waiting.pop_front()
            {
                pace.begin();
                released.push(waiting);
            }
            if !pace.waiting.is_empty() {
                self.held.push_back(user);
            }
        }
        released
    }

    /// The account of a user; `None` if there are too many.
    fn pace(&mut self, user: u64, now: Instant) -> Option<&mut UserPace<T>> {
        if self.users.len() >= MAX_USERS && !self.users.contains_key(&user) {
            self.sweep(now);
            if self.users.len() >= MAX_USERS {
                return None;
            }
        }
        Some(self.users.entry(user).or_insert_with(|| UserPace::new(now)))
    }

    /// Removes the users without debt, unless that was done recently.
    fn sweep(&mut self, now: Instant) {
        if now < self.next_sweep {
            return;
        }
        self.next_sweep = now + SWEEP;
        let rate = self.rate;
        self.users.retain(|_, pace| {
            pace.settle(rate, now);
            pace.debt > 0.0 || !pace.waiting.is_empty()
        });
    }
}

/// The place where requests wait that go beyond the share of their user.
#[derive(Debug)]
pub(crate) struct Pacing {
    /// `None` if users may use all of the processors.
    paces: Option<Mutex<Paces<oneshot::Sender<()>>>>,
    /// True while shares matter: then time is measured.
    shared: AtomicBool,
    last: AtomicU64,
    held: Notify,
}

impl Pacing {
    /// Limits each user to this share of the CPU time of so many processors; from 100 percent on no user is paced.
    pub(crate) fn new(percent: u32, processors: usize) -> Self {
        let rate = f64::from(percent) / 100.0 * processors as f64;
        let paces = (percent < 100).then(|| Mutex::new(Paces::new(rate, Instant::now())));
        Self { paces, shared: AtomicBool::new(false), last: AtomicU64::new(0), held: Notify::new() }
    }

    /// Returns true if processor time should be counted.
    pub(crate) fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Relaxed)
    }

    /// Counts processor time that was used for a user.
    pub(crate) fn charge(&self, user: u64, took: Duration) {
        if let Some(paces) = &self.paces {
            paces.lock().charge(user, took, Instant::now());
        }
    }

    /// Waits until a request of a user fits its share, and returns how long that took; `None` if it did not wait. `paced` is
    /// `None` for the next piece of a response, which is treated as the last request of its user was.
    pub(crate) async fn enter(&self, user: u64, paced: Option<bool>) -> Option<Duration> {
        let paces = self.paces.as_ref()?;
        // Without competition no lock is taken.
        if !self.is_shared() && self.last.load(Ordering::Relaxed) == user {
            return None;
        }
        let now = Instant::now();
        let turn = {
            let mut paces = paces.lock();
            let free = paces.enter(user, paced, now);
            self.shared.store(paces.is_shared(now), Ordering::Relaxed);
            self.last.store(user, Ordering::Relaxed);
            if free {
                return None;
            }
            let (sender, turn) = oneshot::channel();
            paces.wait(user, sender);
            turn
        };
        self.held.notify_one();
        let mut held = HeldRequest { paces, user, over: false };
        // It cannot fail while requests are released; and if that ends, so does the server.
        let _ = turn.await;
        held.over = true;
        Some(now.elapsed())
    }

    /// Releases requests for as long as any wait, for ever.
    pub(crate) async fn run(self: Arc<Self>) {
        let Some(paces) = &self.paces else { return std::future::pending().await };
        loop {
            self.held.notified().await;
            while !paces.lock().held.is_empty() {
                tokio::time::sleep(TICK).await;
                let released = paces.lock().release(Instant::now());
                for waiting in released {
                    // The share of a dropped request stays unused.
                    let _ = waiting.send(());
                }
            }
        }
    }
}

/// A waiting request. Dropping it removes it from the queue.
struct HeldRequest<'a> {
    paces: &'a Mutex<Paces<oneshot::Sender<()>>>,
    user: u64,
    over: bool,
}

impl Drop for HeldRequest<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.paces.lock().leave(self.user, oneshot::Sender::is_closed);
        }
    }
}

#[cfg(test)]
mod tests;
