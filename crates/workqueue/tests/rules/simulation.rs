//! A simulation of 100 tenants that share four workers, on simulated time: the fairness test and the benchmark run it.
//!
//! Arrivals are Poisson and run times exponential, from a seed. The tenants keep the workers five sixths busy. Then
//! the same with the first tenant adding a thousand times as much: how much longer do the others wait?
//!
//! With much less to do there is nothing to compare: a key finds a free worker at once, and any flood makes it wait for the
//! end of a run, since runs are not interrupted.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use listwatch_workqueue::{Item, Options, Queue};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const TENANTS: u32 = 100;
const WORKERS: usize = 4;
const RUN_MEAN: f64 = 1e6;
const ARRIVALS_PER_SECOND: f64 = 33.3;
const SIMULATED: u64 = 20_000_000_000;

/// Tenant and running number.
type Key = (u32, u64);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    pub(crate) fair: bool,
    pub(crate) in_flight_max: u32,
    pub(crate) flood: f64,
}

/// What the tenants other than the first experience.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    pub(crate) mean: Duration,
    pub(crate) p99: Duration,
}

/// The ways to run the queue that are compared.
pub(crate) fn scenarios() -> [(&'static str, Scenario); 3] {
    let fair = Scenario { fair: true, in_flight_max: u32::MAX, flood: 1000.0 };
    [
        ("first in first out", Scenario { fair: false, ..fair }),
        ("fair", fair),
        ("fair, two in flight per tenant", Scenario { in_flight_max: 2, ..fair }),
    ]
}

/// The waits without and with the flood.
pub(crate) fn compare(scenario: &Scenario, seed: u64) -> (Waits, Waits) {
    (simulate(&Scenario { flood: 1.0, ..*scenario }, seed), simulate(scenario, seed))
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
}

pub(crate) fn simulate(scenario: &Scenario, seed: u64) -> Waits {
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
    };
    (0..TENANTS).for_each(|tenant| simulation.schedule_arrival(tenant, scenario.flood));
    while simulation.step(scenario.flood) {}
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

    fn schedule_arrival(&mut self, tenant: u32, flood: f64) {
        let rate = ARRIVALS_PER_SECOND * if tenant == 0 { flood } else { 1.0 };
        let after = self.exponential(1e9 / rate);
        self.schedule(after, Event::Arrival(tenant));
    }

    fn step(&mut self, flood: f64) -> bool {
        let Some(Reverse((at, _, number))) = self.events.pop() else { return false };
        self.now = at;
        match self.log[number as usize] {
            Event::Arrival(tenant) => {
                self.queue.add((tenant, self.arrived.len() as u64)).expect("open");
                self.arrived.push(at);
                self.schedule_arrival(tenant, flood);
            }
            Event::Done(worker) => self.busy[worker] = None,
        }
        self.employ();
        at < SIMULATED
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
