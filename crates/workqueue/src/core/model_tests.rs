//! Random histories of the state machine, compared with a model made of sets, a vector and linear searches.
//! Both see the same adds, delays, takes and shutdowns; after each step the key taken, the lengths and the next
//! deadline must agree. Delays straddle the levels of the timing wheel, where an off-by-one would hide.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::slab::Slot;
use super::{Add, CoreSettings, QueueCore};
use crate::error::AddError;
use crate::pace::Stamp;
use crate::priority::Priority;

const MS: u64 = 1_000_000;
/// Time passes in multiples of this many milliseconds and each key's delays are off by its own number, so that no two keys fall
/// due at once: the order of those is not promised.
const GRID: u64 = 16;

#[derive(Debug, Clone)]
enum Step {
    Add(u8, Priority),
    AddAfter(u8, Priority, u64),
    Cancel(u8),
    Take,
    Done(usize),
    Sleep(u64),
    Pause(bool),
    Close,
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..12u8;
    let priority = prop::sample::select(Priority::ALL.to_vec());
    // Delays around the borders of the wheel's levels, and a few that span many.
    let delay = prop_oneof![0..5u64, 60..70u64, 4090..4100u64, 0..300_000u64];
    prop_oneof![
        6 => (key.clone(), priority.clone()).prop_map(|(key, priority)| Step::Add(key, priority)),
        4 => (key.clone(), priority, delay.clone()).prop_map(|(key, priority, delay)| Step::AddAfter(key, priority, delay)),
        1 => key.prop_map(Step::Cancel),
        6 => Just(Step::Take),
        5 => (0..4usize).prop_map(Step::Done),
        3 => delay.prop_map(Step::Sleep),
        1 => any::<bool>().prop_map(Step::Pause),
        1 => prop::bool::weighted(0.05).prop_map(|close| if close { Step::Close } else { Step::Take }),
    ]
}

#[derive(Default)]
struct Model {
    capacity: usize,
    /// Ready keys in order, with their priority.
    ready: Vec<(u8, Priority)>,
    /// Dirty behind their own run.
    again: BTreeMap<u8, Priority>,
    processing: BTreeSet<u8>,
    /// When, and how urgent then.
    delayed: BTreeMap<u8, (u64, Priority)>,
    closed: bool,
    paused: bool,
}

impl Model {
    fn knows(&self, key: u8) -> bool {
        self.ready.iter().any(|(ready, _)| *ready == key)
            || self.processing.contains(&key)
            || self.delayed.contains_key(&key)
    }

    fn known(&self) -> usize {
        (0..=u8::MAX).filter(|key| self.knows(*key)).count()
    }

    fn refuses(&self, key: u8) -> Option<AddError<u8>> {
        match (self.closed, self.knows(key) || self.known() < self.capacity) {
            (true, _) => Some(AddError::ShutDown(key)),
            (false, false) => Some(AddError::Full(key)),
            (false, true) => None,
        }
    }

    fn dirty(&mut self, key: u8, priority: Priority) {
        if self.processing.contains(&key) {
            let entry = self.again.entry(key).or_insert(priority);
            *entry = priority.min(*entry);
        } else if let Some(at) = self.ready.iter().position(|(ready, _)| *ready == key) {
            if priority < self.ready[at].1 {
                self.ready.remove(at);
                self.ready.push((key, priority));
            }
        } else {
            self.ready.push((key, priority));
        }
    }

    fn take(&mut self) -> Option<u8> {
        let best = self.ready.iter().map(|(_, priority)| *priority).min().filter(|_| !self.paused)?;
        let at = self.ready.iter().position(|(_, priority)| *priority == best)?;
        let (key, _) = self.ready.remove(at);
        self.processing.insert(key);
        Some(key)
    }

    fn done(&mut self, key: u8) {
        self.processing.remove(&key);
        if let Some(priority) = self.again.remove(&key) {
            self.ready.push((key, priority));
        }
    }

    /// The keys that fall due up to `now`, in the order of their times.
    fn pop_due(&mut self, now: u64) -> Vec<(u8, Priority)> {
        let mut due: Vec<_> =
            self.delayed.iter().map(|(key, (due, priority))| (*due, *key, *priority)).collect();
        due.retain(|(due, ..)| *due <= now);
        due.sort_unstable();
        self.delayed.retain(|_, (due, _)| *due > now);
        due.into_iter().map(|(_, key, priority)| (key, priority)).collect()
    }
}

struct Pair {
    core: QueueCore<u8, ()>,
    model: Model,
    held: Vec<(Slot, u8)>,
    now: u64,
}

impl Pair {
    fn new(capacity: usize) -> Self {
        let settings = CoreSettings {
            capacity,
            tenant_of: None,
            tenant_in_flight_max: 1,
            background_every: 0,
            metered: true,
        };
        Self {
            core: QueueCore::new(settings),
            model: Model { capacity, ..Model::default() },
            held: Vec::new(),
            now: 0,
        }
    }

    fn add(&self, key: u8, priority: Priority) -> Add<u8, ()> {
        // A poor hash on purpose: keys collide in the index.
        Add { hash: u32::from(key % 5), key, reason: (), priority, at: Stamp::exact(self.now * MS) }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Add(key, priority) => {
                let refused = self.model.refuses(key);
                assert_eq!(self.core.add(self.add(key, priority)).err(), refused);
                if refused.is_none() {
                    self.model.dirty(key, priority);
                }
            }
            Step::AddAfter(key, priority, delay) => {
                let (refused, due) = (self.model.refuses(key), self.now + delay * GRID + u64::from(key));
                assert_eq!(self.core.add_after(self.add(key, priority), due * MS).err(), refused);
                if refused.is_none() {
                    let entry = self.model.delayed.entry(key).or_insert((due, priority));
                    *entry = (due.min(entry.0), priority.min(entry.1));
                }
            }
            Step::Cancel(key) => {
                let found = self.model.delayed.remove(&key).is_some();
                assert_eq!(self.core.cancel(u32::from(key % 5), &key), found);
            }
            Step::Take => {
                let taken = self.core.take(|_| Stamp::exact(self.now * MS));
                assert_eq!(taken.as_ref().map(|taken| taken.key), self.model.take());
                self.held.extend(taken.map(|taken| (taken.slot, taken.key)));
            }
            Step::Done(which) if which < self.held.len() => {
                let (slot, key) = self.held.remove(which);
                self.core.done(slot, |_| Stamp::exact(self.now * MS));
                self.model.done(key);
            }
            Step::Done(_) => {}
            Step::Sleep(time) => self.sleep(time),
            Step::Pause(paused) => {
                self.core.set_paused(paused);
                self.model.paused = paused && !self.model.closed;
            }
            Step::Close => {
                assert_eq!(self.core.close(), self.model.delayed.len());
                self.model.delayed.clear();
                (self.model.closed, self.model.paused) = (true, false);
            }
        }
    }

    fn sleep(&mut self, time: u64) {
        let earliest = self.model.delayed.values().map(|(due, _)| *due).min();
        assert!(
            self.core.next_due().unwrap_or(u64::MAX)
                <= earliest.map_or(u64::MAX, |due| due.max(self.now) * MS)
        );
        self.now += time * GRID;
        let due = self.model.pop_due(self.now);
        due.into_iter().for_each(|(key, priority)| self.model.dirty(key, priority));
        // With so few keys the two do the same.
        match time.is_multiple_of(2) {
            true => self.core.advance_all(self.now * MS),
            false => self.core.advance(self.now * MS),
        }
    }

    fn compare(&self) {
        let (core, model) = (&self.core, &self.model);
        assert_eq!(core.ready_len(), model.ready.len());
        assert_eq!(core.depth(), model.ready.len() + model.again.len());
        assert_eq!(core.in_flight(), model.processing.len());
        assert_eq!(core.delayed_len(), model.delayed.len());
        assert_eq!(core.known(), model.known());
        assert_eq!(core.is_idle(), model.ready.is_empty() && model.processing.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_core_does_what_the_model_does(
        capacity in prop_oneof![Just(usize::MAX), 1..8usize],
        steps in prop::collection::vec(step(), 0..200),
    ) {
        let mut pair = Pair::new(capacity);
        for step in &steps {
            pair.step(step);
            pair.compare();
        }
    }
}
