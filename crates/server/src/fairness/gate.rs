//! [`Fairness`]: assigns seats to requests, or makes them wait.
//!
//! The configuration is compiled (`gate/compiled.rs`) from the objects in the cache when those have changed; classification then
//! reads it without a lock. A level keeps its queues, and the requests in them, as long as its queue settings stay the same;
//! otherwise it is replaced and the old one drains. A request that is dropped while it waits leaves its queue
//! (`Wait`), and one that is dropped while it runs releases its seats ([`Seats`]).
//!
//! The caller is [`crate::chain::service`]; the fair-queuing algorithm is `queues.rs`, borrowing and lending
//! `shares.rs`.

mod compiled;

use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use http::HeaderValue;
use listwatch_wire::Status;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use self::compiled::CompiledConfig;
use super::config::PriorityLevel;
use super::metrics::LevelCounts;
use super::pacing::Pacing;
use super::queues::{Arrival, Queues, SeatPlace};
use super::shares::{self, Need, SeatBounds};
use super::turns::{Turns, UserTurns};
use super::width;
use crate::RequestLimits;
use crate::auth::{AuthorizerAttributes, User};
use crate::cache::{Cache, Collection, CollectionSnapshot};

/// The API group of FlowSchemas and PriorityLevelConfigurations.
const GROUP: &str = "flowcontrol.apiserver.k8s.io";

/// The message of a 429, with kube-apiserver's text. The chain recognises it and answers in plain text.
pub(crate) const TOO_MANY: &str = "Too many requests, please try again later.";

/// Turns of a round: the processors have work while the next round begins, and no more than that.
const TURNS_PER_PROCESSOR: usize = 2;

/// The `Retry-After` of a 429, in seconds.
const RETRY_AFTER: u32 = 1;

/// The seats of the server and their assignment to requests.
#[doc(alias = "APF")]
#[doc(alias = "configController")]
#[derive(Debug)]
pub(crate) struct Fairness {
    /// Seats of the server, shared by all levels.
    total: u32,
    /// The longest wait of a request for its seats.
    patience: Duration,
    schemas: Arc<Collection>,
    levels: Arc<Collection>,
    /// The configuration compiled from the last snapshots of both collections.
    compiled: ArcSwapOption<CompiledConfig>,
    /// The order among users.
    pub(crate) turns: Arc<Turns>,
    /// The order among users for the pieces of long responses.
    pub(crate) pieces: Arc<Turns>,
    /// The processor time of users.
    pub(crate) pacing: Arc<Pacing>,
    /// Hashes user names with a random key, so that no user can choose a name that shares the turns of another.
    keys: foldhash::fast::RandomState,
    /// Held while the configuration is compiled and while seats are dealt out.
    changing: Mutex<()>,
}

/// The values of the response headers about the classification of a request.
#[derive(Clone, Debug)]
pub(crate) struct FlowHeaders {
    pub(crate) schema: HeaderValue,
    pub(crate) level: HeaderValue,
}

/// A priority level with its queues and seats. Kept across changes of the configuration that do not concern its
/// queues, so that waiting requests keep their places.
#[doc(alias = "priorityLevelState")]
#[derive(Debug)]
pub(crate) struct PriorityLevelState {
    config: PriorityLevel,
    /// Nominal, least and most seats; changed with the shares of any level.
    bounds: Mutex<SeatBounds>,
    /// Smoothed demand, from one adjustment to the next.
    smooth: Mutex<f64>,
    /// Held for one step of the algorithm, never while a request waits.
    queues: Mutex<Queues<oneshot::Sender<()>>>,
    pub(super) counts: LevelCounts,
}

/// The flow of a classified request: its level and its hash. It holds no seats yet; [`Flow::enter`] takes them.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    /// Where the request waits for its turn. Exempt users take turns as well.
    turns: Option<Arc<Turns>>,
    /// Where it waits for its share of the processors, with the level that counts the wait.
    pacing: Option<(Arc<Pacing>, Arc<PriorityLevelState>)>,
    user: u64,
    level: Option<Arc<PriorityLevelState>>,
    hash: u64,
    schema: Arc<str>,
    patience: Duration,
    pub(crate) headers: FlowHeaders,
}

/// Seats of a priority level. Dropping it frees them and dispatches the next requests, so it is held until the
/// response is made.
#[derive(Debug)]
pub(crate) struct Seats {
    held: Option<(Arc<PriorityLevelState>, SeatPlace)>,
    since: Instant,
}

impl Fairness {
    /// Shares the seats by the objects in the cache. As in kube-apiserver a request waits for them a quarter of the time it has.
    pub(crate) fn new(cache: &Cache, limits: &RequestLimits) -> Self {
        let collection = |plural: &str| cache.collection(&format!("{plural}.{GROUP}"), &[]);
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            total: u32::try_from(limits.in_flight).unwrap_or(u32::MAX),
            patience: limits.timeout / 4,
            schemas: collection("flowschemas"),
            levels: collection("prioritylevelconfigurations"),
            compiled: ArcSwapOption::empty(),
            turns: Arc::new(Turns::of_requests(TURNS_PER_PROCESSOR * processors)),
            pacing: Arc::new(Pacing::new(limits.user_processor_percent, processors)),
            pieces: Arc::new(Turns::of_pieces(TURNS_PER_PROCESSOR * processors)),
            keys: foldhash::fast::RandomState::default(),
            changing: Mutex::new(()),
        }
    }

    /// Returns the flow of a request: that of the first FlowSchema by precedence that matches. Never fails: the
    /// mandatory schemas match every user.
    pub(crate) fn classify(&self, user: &User, request: &AuthorizerAttributes<'_>) -> Flow {
        let compiled = self.compiled();
        let taken = compiled.schemas.iter().find(|schema| schema.schema.takes(user, request));
        // The last one matches all users; only a user without any group does not match it.
        let Some(found) = taken.or(compiled.schemas.last()) else { return Flow::unlimited() };
        let exempt = found.level.config.is_exempt();
        Flow {
            turns: Some(Arc::clone(&self.turns)),
            pacing: Some((Arc::clone(&self.pacing), Arc::clone(&found.level))),
            user: self.keys.hash_one(&user.name),
            level: (!exempt).then(|| Arc::clone(&found.level)),
            hash: if exempt { 0 } else { found.schema.flow(user, request) },
            schema: Arc::clone(&found.name),
            patience: self.patience,
            headers: found.headers.clone(),
        }
    }

    /// The turns of a user for the pieces of long responses.
    pub(crate) fn turns_for_pieces(&self, user: &str) -> UserTurns {
        UserTurns {
            turns: Arc::clone(&self.pieces),
            pacing: Some(Arc::clone(&self.pacing)),
            user: self.keys.hash_one(user),
        }
    }

    /// The objects that the configuration is compiled from. Other snapshots mean that it has changed.
    pub(crate) fn snapshots(&self) -> (Arc<CollectionSnapshot>, Arc<CollectionSnapshot>) {
        (self.schemas.snapshot(), self.levels.snapshot())
    }

    /// Deals out the seats again, by what was needed since the last time.
    pub(crate) fn adjust(&self, now: Instant) {
        let _changing = self.changing.lock();
        let Some(compiled) = self.compiled.load_full() else { return };
        let levels: Vec<&Arc<PriorityLevelState>> =
            compiled.levels.values().filter(|level| !level.config.is_exempt()).collect();
        let needs: Vec<Need> = levels.iter().map(|level| level.need(now)).collect();
        for (level, seats) in levels.iter().zip(shares::allot(self.total, &needs)) {
            level.set_limit(now, seats);
        }
    }

    /// The levels in the order of their names, for metrics.
    pub(super) fn all(&self) -> Vec<Arc<PriorityLevelState>> {
        let mut all: Vec<_> = self.compiled().levels.values().cloned().collect();
        all.sort_by(|a, b| a.name().cmp(b.name()));
        all
    }

    /// The compiled configuration, compiled again if one of the collections has another snapshot. Two requests at
    /// once compile it once.
    fn compiled(&self) -> Arc<CompiledConfig> {
        let is_current =
            |compiled: &CompiledConfig, from: &(Arc<CollectionSnapshot>, Arc<CollectionSnapshot>)| {
                Arc::ptr_eq(&compiled.from.0, &from.0) && Arc::ptr_eq(&compiled.from.1, &from.1)
            };
        let now = self.snapshots();
        if let Some(compiled) = self.compiled.load_full().filter(|compiled| is_current(compiled, &now)) {
            return compiled;
        }
        let _changing = self.changing.lock();
        let from = self.snapshots();
        let before = self.compiled.load_full();
        if let Some(compiled) = before.as_ref().filter(|compiled| is_current(compiled, &from)) {
            return Arc::clone(compiled);
        }
        let compiled = Arc::new(CompiledConfig::new(self, from, before.as_deref()));
        self.compiled.store(Some(Arc::clone(&compiled)));
        compiled
    }
}

impl PriorityLevelState {
    /// The level of a configuration: the one that is there, if its requests wait in the same way.
    fn after(old: Option<&Arc<Self>>, config: PriorityLevel, bounds: SeatBounds) -> Arc<Self> {
        if let Some(old) = old.filter(|old| {
            old.config.settings() == config.settings()
                && old.config.is_exempt() == config.is_exempt()
                && old.config.metadata.uid == config.metadata.uid
        }) {
            let changed = std::mem::replace(&mut *old.bounds.lock(), bounds) != bounds;
            if changed {
                old.set_limit(Instant::now(), bounds.nominal.max(1));
            }
            return Arc::clone(old);
        }
        let queues = Queues::new(config.settings(), bounds.nominal.max(1), Instant::now());
        Arc::new(Self {
            config,
            bounds: Mutex::new(bounds),
            smooth: Mutex::new(0.0),
            queues: Mutex::new(queues),
            counts: LevelCounts::default(),
        })
    }

    /// The name of its PriorityLevelConfiguration, which is the label of its metrics.
    pub(super) fn name(&self) -> &str {
        &self.config.metadata.name
    }

    /// The seats of the level by its shares, before borrowing and lending.
    pub(super) fn nominal(&self) -> u32 {
        self.bounds.lock().nominal
    }

    /// The seats that are taken.
    pub(super) fn executing(&self) -> u32 {
        self.queues.lock().in_use()
    }

    /// The requests that wait for seats.
    pub(super) fn waiting(&self) -> usize {
        self.queues.lock().waiting()
    }

    /// The seats that there are, with those that are borrowed or lent.
    pub(super) fn limit(&self) -> u32 {
        self.queues.lock().limit()
    }

    /// The demand since the last adjustment, smoothed: a short burst must not decide about the seats of the whole next period.
    fn need(&self, now: Instant) -> Need {
        let demand = self.queues.lock().take_demand(now);
        let mut smooth = self.smooth.lock();
        *smooth = shares::smooth(*smooth, demand);
        Need { bounds: *self.bounds.lock(), smooth: *smooth, high: demand.high }
    }

    /// Changes the number of seats and wakes the requests that fit now. Seats that are taken stay until they are given back.
    fn set_limit(&self, now: Instant, seats: u32) {
        let turns = self.queues.lock().set_limit(now, seats);
        call(turns);
    }

    /// The most seats of one request: a list must not take all of a small level.
    fn widest(&self) -> u32 {
        width::MOST.min(self.nominal().saturating_mul(15).div_ceil(100)).max(1)
    }

    /// Releases seats. `took` corrects the estimate of the request in virtual time.
    fn leave(&self, place: SeatPlace, took: Duration) {
        let turns = self.queues.lock().leave(Instant::now(), place, took);
        call(turns);
    }
}

/// Wakes the requests whose turn has come. One that was dropped since frees its seats when its wait is dropped.
fn call(turns: Vec<(oneshot::Sender<()>, SeatPlace)>) {
    for (waiting, _) in turns {
        let _ = waiting.send(());
    }
}

impl Flow {
    /// The hash of the user, under which processor time is counted.
    pub(crate) fn user(&self) -> u64 {
        self.user
    }

    /// Returns true if the user has a share of the processors while others are there.
    pub(crate) fn is_paced(&self) -> bool {
        self.pacing.as_ref().is_some_and(|(_, level)| level.config.is_paced())
    }

    /// A flow that takes no seats.
    fn unlimited() -> Self {
        let none = HeaderValue::from_static("");
        let headers = FlowHeaders { schema: none.clone(), level: none };
        Self {
            turns: None,
            pacing: None,
            user: 0,
            level: None,
            hash: 0,
            schema: "".into(),
            patience: Duration::ZERO,
            headers,
        }
    }

    /// Waits for the user's share of CPU time and for a turn, then takes seats, waiting for them if needed.
    ///
    /// # Errors
    /// 429 if there is no room, or none in time.
    pub(crate) async fn enter(&self, seats: u32) -> Result<Seats, Status> {
        if let Some((pacing, level)) = &self.pacing
            && let Some(waited) = pacing.enter(self.user, Some(level.config.is_paced())).await
        {
            level.counts.pace(waited);
        }
        if let Some(turns) = &self.turns {
            turns.enter(self.user).await;
        }
        let Some(level) = &self.level else { return Ok(Seats { held: None, since: Instant::now() }) };
        let (sender, turn) = oneshot::channel();
        let arrival =
            level.queues.lock().arrive(Instant::now(), self.hash, seats.min(level.widest()), || sender);
        let rejected = |why| {
            level.counts.reject(&self.schema, why);
            Err(Status::too_many_requests(TOO_MANY, RETRY_AFTER))
        };
        let place = match arrival {
            Arrival::Runs(place) => place,
            Arrival::NoSeat => return rejected("concurrency-limit"),
            Arrival::QueueFull => return rejected("queue-full"),
            Arrival::Waits(place, id) => {
                let mut wait = Wait { level, place, id, over: false };
                let called = matches!(tokio::time::timeout(self.patience, turn).await, Ok(Ok(())));
                wait.over = true;
                if !called && level.queues.lock().give_up(Instant::now(), place, id) {
                    return rejected("time-out");
                }
                place
            }
        };
        level.counts.dispatch(&self.schema);
        Ok(Seats { held: Some((Arc::clone(level), place)), since: Instant::now() })
    }
}

/// A request that waits. Dropped before its turn, it leaves the queue, or releases the seats it has just got.
struct Wait<'a> {
    level: &'a Arc<PriorityLevelState>,
    place: SeatPlace,
    id: u64,
    over: bool,
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if !self.over && !self.level.queues.lock().give_up(Instant::now(), self.place, self.id) {
            self.level.leave(self.place, Duration::ZERO);
        }
    }
}

impl Drop for Seats {
    fn drop(&mut self) {
        if let Some((level, place)) = self.held.take() {
            level.leave(place, self.since.elapsed());
        }
    }
}
