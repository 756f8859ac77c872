//! A simulation of 100 tenants that share four workers, on simulated time: the fairness test and the benchmark run it.
//!
//! Arrivals are Poisson and run times exponential, from a seed. The tenants together keep the workers busy for some part of the
//! time (the *load*). Then the same with the first tenant adding a thousand times as much: how much longer do the others
//! wait?
//!
//! **What to expect.** Runs are not interrupted, so in a flood, when all workers are always busy, a key waits for the
//! end of a run even if it is next. No queue can spare it that; what a queue can do is let it wait for nothing else
//! than the other tenants' keys. Queueing theory has the exact mean wait, for *c* workers, runs of mean *r* and a load
//! ρ:
//!
//! - quiet: `C · r/c / (1 − ρ)`, where `C` is Erlang's probability that all workers are busy;
//! - flooded: `r/c / (1 − ρ)`, ρ without the first tenant. ([`least_wait`])
//!
//! Their ratio is about `1/C`, so "within twice" is possible where `C` ≥ ½, which for four workers is a load of three
//! quarters and more, and for no queue below: where a key finds a free worker at once as a rule, any wait is many times nothing.
//! What holds at every load is that the difference, `(1 − C) · r/c / (1 − ρ)`, is less than one run. So the time from add to
//! done, a run included, at most doubles.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use listwatch_workqueue::{Item, Options, Queue};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const TENANTS: u32 = 100;
const WORKERS: usize = 4;
/// In nanoseconds.
pub(crate) const RUN_MEAN: f64 = 1e6;

/// Tenant and running number.
type Key = (u32, u64);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    pub(crate) fair: bool,
    pub(crate) in_flight_max: u32,
    pub(crate) flood: f64,
    /// The part of the time that the workers are busy without a flood.
    pub(crate) load: f64,
    /// Simulated nanoseconds.
    pub(crate) lasts: u64,
}

/// The waits of the tenants other than the first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    pub(crate) mean: Duration,
    pub(crate) p99: Duration,
}

impl Scenario {
    pub(crate) fn fair(load: f64, lasts: u64) -> Self {
        Self { fair: true, in_flight_max: u32::MAX, flood: 1000.0, load, lasts }
    }

    /// The waits without and with the flood.
    pub(crate) fn compare(&self, seed: u64) -> (Waits, Waits) {
        (simulate(&Self { flood: 1.0, ..*self }, seed), simulate(self, seed))
    }
}

/// The least mean wait that is possible in the flood.
pub(crate) fn least_wait(load: f64) -> Duration {
    let others = load * f64::from(TENANTS - 1) / f64::from(TENANTS);
    Duration::from_nanos((RUN_MEAN / WORKERS as f64 / (1.0 - others)) as u64)
}

enum Event {
    Arrival(u32),
    Done(usize),
}

struct Simulation<'q> {
    queue: &'q Queue<Key>,
    rng: StdRng,
    now: u64,
    events: BinaryHeap<Reverse<(u64, u64, u64)>>,
    log: Vec<Event>,
    /// When each key arrived, by its running number.
    arrived: Vec<u64>,
    busy: Vec<Option<Item<'q, Key>>>,
    waits: Vec<u64>,
    scenario: &'q Scenario,
}

fn simulate(scenario: &Scenario, seed: u64) -> Waits {
    let mut options = Options::new().tenant_in_flight_max(scenario.in_flight_max);
    if scenario.fair {
        options = options.fair(|key: &Key| key.0);
    }
    let queue = Queue::new(options);
    let mut simulation = Simulation {
        queue: &queue,
        rng: StdRng::seed_from_u64(seed),
        now: 0,
        events: BinaryHeap::new(),
        log: Vec::new(),
        arrived: Vec::new(),
        busy: (0..WORKERS).map(|_| None).collect(),
        waits: Vec::new(),
        scenario,
    };
    (0..TENANTS).for_each(|tenant| simulation.schedule_arrival(tenant));
    while simulation.step() {}
    simulation.summary()
}

impl Simulation<'_> {
    fn exponential(&mut self, mean: f64) -> u64 {
        (-self.rng.random_range(f64::EPSILON..1.0).ln() * mean) as u64
    }

    fn schedule(&mut self, after: u64, event: Event) {
        let number = self.log.len() as u64;
        self.log.push(event);
        self.events.push(Reverse((self.now + after, number, number)));
    }

    fn schedule_arrival(&mut self, tenant: u32) {
        let flood = if tenant == 0 { self.scenario.flood } else { 1.0 };
        let rate = self.scenario.load * WORKERS as f64 / f64::from(TENANTS) * flood;
        let after = self.exponential(RUN_MEAN / rate);
        self.schedule(after, Event::Arrival(tenant));
    }

    fn step(&mut self) -> bool {
        let Some(Reverse((at, _, number))) = self.events.pop() else { return false };
        self.now = at;
        match self.log[number as usize] {
            Event::Arrival(tenant) => {
                self.queue.add((tenant, self.arrived.len() as u64)).expect("open");
                self.arrived.push(at);
                self.schedule_arrival(tenant);
            }
            Event::Done(worker) => self.busy[worker] = None,
        }
        self.employ();
        at < self.scenario.lasts
    }

    fn employ(&mut self) {
        while let Some(worker) = self.busy.iter().position(Option::is_none) {
            let Some(item) = self.queue.try_get() else { return };
            let (tenant, number) = *item.key();
            if tenant != 0 {
                self.waits.push(self.now - self.arrived[number as usize]);
            }
            self.busy[worker] = Some(item);
            let run = self.exponential(RUN_MEAN);
            self.schedule(run, Event::Done(worker));
        }
    }

    fn summary(&mut self) -> Waits {
        self.waits.sort_unstable();
        let mean = self.waits.iter().sum::<u64>() / self.waits.len() as u64;
        let p99 = self.waits[self.waits.len() * 99 / 100];
        Waits { mean: Duration::from_nanos(mean), p99: Duration::from_nanos(p99) }
    }
}
