//! [`Turns`]: round-robin between the requests of different users.
//!
//! Seats bound how many requests are in progress. Most are served in one poll, without waiting, so that they hold no
//! seat by the time the next one arrives: then the run queue of the async workers decides the order, and there a user
//! with two hundred connections has two hundred entries. So a request whose user was already served in the present
//! round waits here for the next one. Rounds follow each other as fast as the workers process what is ready to run; in
//! each, users are served one after the other. No request is rejected, and a user without competition takes no turns,
//! because each costs a wake-up.
//!
//! [`Order`] is the state machine; [`Turns`] wakes requests accordingly.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use super::pacing::Pacing;
use crate::observe::timed;

/// The time after which a round without waiting requests has ended.
const ROUND: Duration = Duration::from_micros(500);

/// The time after which a user counts as alone when no request of another one has come. The first request after it
/// meets what the other user has in the run queue: a few milliseconds, once.
const ALONE: Duration = Duration::from_secs(1);

/// The work that turns are for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum TurnWork {
    /// Requests, which take microseconds: a round ends by itself, and a user without competition takes no turns.
    Requests,
    /// Pieces of about a millisecond: a round ends when the workers have processed what is ready, and all users take turns.
    Pieces,
}

/// The order of turns.
#[derive(Debug)]
struct Order<T> {
    /// The turns of a round.
    turns: usize,
    taken: usize,
    since: Instant,
    work: TurnWork,
    /// The user of the last request, and the end of the time in which turns are taken because another user was there.
    last: Option<u64>,
    shared_until: Instant,
    /// Waiting requests by user, and the users in the order of their turns.
    waiting: HashMap<u64, VecDeque<T>, foldhash::fast::RandomState>,
    users: VecDeque<u64>,
}

impl<T> Order<T> {
    fn new(turns: usize, work: TurnWork, now: Instant) -> Self {
        Self {
            turns,
            taken: 0,
            since: now,
            work,
            last: None,
            shared_until: now,
            waiting: HashMap::default(),
            users: VecDeque::new(),
        }
    }

    /// Returns true if a request may continue at once.
    fn enter(&mut self, user: u64, now: Instant) -> bool {
        if self.last.replace(user).is_some_and(|last| last != user) {
            self.shared_until = now + ALONE;
        }
        if !self.users.is_empty() {
            return false;
        }
        if self.work == TurnWork::Requests {
            if now >= self.shared_until {
                return true;
            }
            if now.duration_since(self.since) >= ROUND {
                (self.taken, self.since) = (0, now);
            }
        }
        let free = self.taken < self.turns;
        self.taken += usize::from(free);
        free
    }

    /// Adds a request to the queue of its user. A user with an empty queue joins the end of the round.
    fn wait(&mut self, user: u64, waiting: T) {
        let queue = self.waiting.entry(user).or_default();
        if queue.is_empty() {
            self.users.push_back(user);
        }
        queue.push_back(waiting);
    }

    /// Begins the next round and returns the requests whose turn has come: one of each user, as long as there are
    /// turns.
    fn next_round(&mut self, now: Instant) -> Vec<T> {
        (self.taken, self.since) = (0, now);
        let mut called = Vec::with_capacity(self.turns);
        while self.taken < self.turns
            && let Some(user) = self.users.pop_front()
        {
            let Some(queue) = self.waiting.get_mut(&user) else { continue };
            called.extend(queue.pop_front());
            self.taken += 1;
            if queue.is_empty() {
                self.waiting.remove(&user);
            } else {
                self.users.push_back(user);
            }
        }
        called
    }

    /// Returns true if no round has to be begun.
    fn is_idle(&self) -> bool {
        self.users.is_empty() && (self.work == TurnWork::Requests || self.taken == 0)
    }
}

/// The queue in which requests of users wait for their turns, and the state machine that orders them.
#[derive(Debug)]
pub(crate) struct Turns {
    order: Mutex<Order<oneshot::Sender<()>>>,
    begun: Notify,
}

impl Turns {
    /// Rounds of so many requests: as many as can be worked on at a time, so that the next round is never far.
    pub(crate) fn of_requests(turns: usize) -> Self {
        Self::new(turns, TurnWork::Requests)
    }

    /// Rounds for work that takes about a millisecond, such as a piece of a list or of the state that a watch begins with.
    /// A user without competition takes turns as well, because health checks and the next user would wait for all of its
    /// work.
    pub(crate) fn of_pieces(turns: usize) -> Self {
        Self::new(turns, TurnWork::Pieces)
    }

    fn new(turns: usize, work: TurnWork) -> Self {
        Self { order: Mutex::new(Order::new(turns.max(1), work, Instant::now())), begun: Notify::new() }
    }

    /// Waits for a turn of a user.
    pub(crate) async fn enter(&self, user: u64) {
        let turn = {
            let mut order = self.order.lock();
            if order.enter(user, Instant::now()) {
                let idle = order.is_idle();
                drop(order);
                if !idle {
                    self.begun.notify_one();
                }
                return;
            }
            let (sender, turn) = oneshot::channel();
            order.wait(user, sender);
            turn
        };
        self.begun.notify_one();
        // It cannot fail while the rounds run; they end with the server.
        let _ = turn.await;
    }

    /// Begins rounds while requests wait. Never returns.
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            self.begun.notified().await;
            while !self.order.lock().is_idle() {
                // Yields to all tasks that are ready, so that requests that have just arrived take part in the round.
                tokio::task::yield_now().await;
                let called = self.order.lock().next_round(Instant::now());
                for waiting in called {
                    // The turn of a dropped request stays unused.
                    let _ = waiting.send(());
                }
            }
        }
    }
}

/// The turns of one user.
#[derive(Clone, Debug)]
pub(crate) struct UserTurns {
    pub(super) turns: Arc<Turns>,
    pub(super) pacing: Option<Arc<Pacing>>,
    pub(super) user: u64,
}

impl UserTurns {
    /// Turns of a single user, without waiting.
    #[cfg(test)]
    pub(crate) fn unlimited() -> Self {
        Self { turns: Arc::new(Turns::new(1000, TurnWork::Pieces)), pacing: None, user: 0 }
    }

    /// Waits for a turn.
    pub(crate) async fn enter(&self) {
        self.wait_for_share().await;
        self.turns.enter(self.user).await;
    }

    /// Waits until the user's share of the processors allows more work.
    pub(crate) async fn wait_for_share(&self) {
        if let Some(pacing) = &self.pacing {
            pacing.enter(self.user, None).await;
        }
    }

    /// Does work that counts as the user's.
    pub(crate) fn counted<T>(&self, work: impl FnOnce() -> T) -> T {
        let Some(pacing) = self.pacing.as_ref().filter(|pacing| pacing.is_shared()) else { return work() };
        let (worked, took) = timed(work);
        pacing.charge(self.user, took);
        worked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_a_round_each_user_has_a_turn_before_anybody_has_two() {
        let now = Instant::now();
        let mut order = Order::new(3, TurnWork::Requests, now);
        assert!(order.enter(2, now), "alone");
        assert!((0..3).all(|_| order.enter(1, now)) && !order.enter(1, now), "three at once");
        for n in 0..200 {
            order.wait(1, ("greedy", n));
        }
        order.wait(2, ("modest", 0));
        assert!(!order.enter(1, now + ALONE * 9), "not past those who wait");
        assert_eq!(order.next_round(now), [("greedy", 0), ("modest", 0), ("greedy", 1)]);
        order.wait(2, ("modest", 1));
        assert_eq!(order.next_round(now), [("greedy", 2), ("modest", 1), ("greedy", 3)]);
        while !order.is_idle() {
            order.next_round(now);
        }
        assert!(order.waiting.is_empty() && order.next_round(now).is_empty());
    }

    #[test]
    fn a_round_without_waiters_ends_by_itself() {
        let now = Instant::now();
        let mut order = Order::<()>::new(1, TurnWork::Requests, now);
        assert!(order.enter(2, now) && order.enter(1, now));
        assert!(!order.enter(1, now) && order.enter(1, now + ROUND));
    }

    #[test]
    fn a_user_takes_turns_only_while_another_one_is_there() {
        let now = Instant::now();
        let mut order = Order::<()>::new(1, TurnWork::Requests, now);
        assert!((0..100).all(|_| order.enter(1, now)), "nobody else was ever there");
        assert!(order.enter(2, now) && !order.enter(1, now));
        assert!(!(0..2).all(|_| order.enter(1, now + ALONE - ROUND)), "the other one was there a moment ago");
        assert!((0..100).all(|_| order.enter(1, now + ALONE)));
    }

    /// A thousand streams of one user, each with milliseconds of encoding to do, kept health checks waiting for all of them.
    #[test]
    fn a_user_who_is_alone_takes_turns_for_long_work() {
        let now = Instant::now();
        let mut order = Order::<()>::new(2, TurnWork::Pieces, now);
        assert!(order.enter(1, now) && order.enter(1, now) && !order.enter(1, now));
        assert!(!order.enter(1, now + ALONE), "time does not end a round: the work itself takes longer");
        assert!(!order.is_idle() && order.next_round(now).is_empty() && order.is_idle());
        assert!(order.enter(1, now));
    }

    /// The run queue is shared: the next request waits for one round, not for the work of a thousand streams.
    #[tokio::test]
    async fn long_work_of_many_streams_is_done_a_round_at_a_time() {
        let turns = Arc::new(Turns::of_pieces(2));
        let rounds = tokio::spawn(Arc::clone(&turns).run());
        let done = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        for _ in 0..1000 {
            let (turns, done) = (Arc::clone(&turns), Arc::clone(&done));
            tokio::spawn(async move {
                turns.enter(1).await;
                std::thread::sleep(Duration::from_micros(600));
                done.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            });
        }
        // Each time behind everything that is ready to run, as a health check would be.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        let meanwhile = done.load(std::sync::atomic::Ordering::SeqCst);
        assert!(
            (2..=10 * 2 * 2).contains(&meanwhile),
            "{meanwhile} pieces were worked on before ten health checks"
        );
        rounds.abort();
    }

    #[tokio::test]
    async fn everybody_gets_a_turn() {
        let turns = Arc::new(Turns::of_requests(2));
        let rounds = tokio::spawn(Arc::clone(&turns).run());
        let all = (0..100).map(|n| {
            let turns = Arc::clone(&turns);
            tokio::spawn(async move { turns.enter(n % 3).await })
        });
        for one in futures::future::join_all(all).await {
            one.unwrap();
        }
        rounds.abort();
    }
}
