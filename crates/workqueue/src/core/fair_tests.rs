//! Random histories of a fair queue, checked against its promises.
//! The order between tenants is an implementation detail; the promises are that a tenant's keys stay in order, that the
//! bound on keys in flight holds, and that no tenant with ready keys is passed over for long while another floods.

use std::collections::{HashMap, VecDeque};

use proptest::prelude::*;

use super::slab::Slot;
use super::{Add, CoreSettings, QueueCore};
use crate::pace::Stamp;
use crate::priority::Priority;

#[derive(Debug, Clone)]
enum Step {
    /// Of a tenant: the first floods.
    Add(u8),
    Take,
    Done(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => Just(Step::Add(0)),
        2 => (1..6u8).prop_map(Step::Add),
        6 => Just(Step::Take),
        5 => (0..4usize).prop_map(Step::Done),
    ]
}

type Key = (u8, u32);

struct History {
    core: QueueCore<Key, ()>,
    /// The waiting keys of each tenant, in order.
    waiting: HashMap<u8, VecDeque<u32>>,
    held: Vec<(Slot, u8)>,
    in_flight_max: u32,
    adds: u32,
    /// The number of hand-outs each tenant with keys has seen go to others.
    passed_over: HashMap<u8, usize>,
}

impl History {
    fn new(in_flight_max: u32) -> Self {
        let core = QueueCore::new(CoreSettings {
            capacity: usize::MAX,
            tenant_of: Some(Box::new(|key: &Key| u64::from(key.0))),
            tenant_in_flight_max: in_flight_max,
            background_every: 0,
            metered: false,
        });
        let (waiting, held, passed_over) = Default::default();
        Self { core, waiting, held, in_flight_max, adds: 0, passed_over }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Add(tenant) => self.add(tenant),
            Step::Take => self.take(),
            Step::Done(which) if which < self.held.len() => {
                let (slot, _) = self.held.remove(which);
                self.core.done(slot, |_| Stamp::NONE);
            }
            Step::Done(_) => {}
        }
        let waiting: usize = self.waiting.values().map(VecDeque::len).sum();
        assert_eq!((self.core.ready_len(), self.core.in_flight()), (waiting, self.held.len()));
    }

    fn add(&mut self, tenant: u8) {
        self.adds += 1;
        let (hash, key) = (self.adds, (tenant, self.adds));
        self.core.add(Add { hash, key, reason: (), priority: Priority::Normal, at: Stamp::NONE }).unwrap();
        self.waiting.entry(tenant).or_default().push_back(self.adds);
    }

    fn may_run(&self, tenant: u8) -> bool {
        let running = self.held.iter().filter(|(_, held)| *held == tenant).count();
        running < self.in_flight_max as usize
            && self.waiting.get(&tenant).is_some_and(|keys| !keys.is_empty())
    }

    fn take(&mut self) {
        let candidates: Vec<u8> = (0..6).filter(|tenant| self.may_run(*tenant)).collect();
        let peeked = self.core.peek().copied();
        let Some(taken) = self.core.take(|_| Stamp::NONE) else {
            assert!(candidates.is_empty(), "a worker idles while {candidates:?} may run");
            return;
        };
        let (tenant, number) = taken.key;
        assert!(candidates.contains(&tenant), "beyond its cap");
        assert_eq!(peeked, Some(taken.key));
        assert_eq!(self.waiting.get_mut(&tenant).and_then(VecDeque::pop_front), Some(number), "in order");
        self.held.push((taken.slot, tenant));
        self.passed_over.retain(|passed, _| candidates.contains(passed) && *passed != tenant);
        for passed in candidates.into_iter().filter(|candidate| *candidate != tenant) {
            let times = self.passed_over.entry(passed).or_default();
            *times += 1;
            // Five others with savings of 32 each, and what they earn in that time.
            assert!(*times <= 400, "tenant {passed} starves");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_fair_queue_loses_nothing_keeps_order_and_starves_no_tenant(
        in_flight_max in prop_oneof![Just(u32::MAX), 1..4u32],
        steps in prop::collection::vec(step(), 0..600),
    ) {
        let mut history = History::new(in_flight_max);
        steps.iter().for_each(|step| history.step(step));
        while !history.held.is_empty() || history.core.ready_len() > 0 {
            history.step(&Step::Take);
            history.step(&Step::Done(0));
        }
        prop_assert_eq!(history.core.known(), 0);
    }
}
