//! The cost of the machine and of the standard collections for the same keys, so that the queue's figures can be
//! compared: a cost that grows with the number of keys in [`memory`], too, is that of memory that is not in the
//! cache.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::hash::BuildHasher;
use std::hint::black_box;
use std::sync::Mutex;

use foldhash::fast::RandomState;

use crate::{ADDS, per_key, scatter};

/// The locks that one add, get and done on one thread take.
pub(crate) fn locks() -> f64 {
    let mutex = Mutex::new(0_u64);
    per_key(|| (0..3 * ADDS).for_each(|key| *black_box(&mutex).lock().expect("not poisoned") += key))
}

/// Marks each key in a table when it comes and when it goes, a cache line for every four keys: without this no duplicate
/// is recognised.
pub(crate) fn memory(backlog: u64) -> f64 {
    let mut lines = vec![[0_u64; 8]; (backlog / 4).next_power_of_two() as usize];
    let (mask, hasher) = (lines.len() as u64 - 1, RandomState::default());
    per_key(|| {
        for key in 0..ADDS {
            lines[(hasher.hash_one(scatter(key + backlog)) & mask) as usize][0] += 1;
            lines[(hasher.hash_one(scatter(key)) & mask) as usize][0] += 1;
        }
        black_box(&lines);
    })
}

/// The simplest queue without duplicates: what is queued in a map, the order in a deque.
pub(crate) fn map(backlog: u64) -> f64 {
    let mut queued: HashMap<u64, u32, RandomState> = HashMap::default();
    let mut order = VecDeque::new();
    let add = |queued: &mut HashMap<u64, u32, RandomState>, order: &mut VecDeque<u64>, key| {
        if queued.insert(key, 0).is_none() {
            order.push_back(key);
        }
    };
    (0..backlog).for_each(|key| add(&mut queued, &mut order, scatter(key)));
    per_key(|| {
        for key in backlog..backlog + ADDS {
            let next = order.pop_front().expect("a backlog");
            queued.remove(&next);
            add(&mut queued, &mut order, scatter(key));
        }
    })
}

/// The simplest delaying queue, as client-go's: what is delayed in a map, the order in a heap.
pub(crate) fn heap(keys: u64) -> f64 {
    per_key(|| {
        for round in 0..(ADDS / keys) {
            let mut delayed: HashMap<u64, u64, RandomState> = HashMap::default();
            let mut order = BinaryHeap::new();
            for key in 0..keys {
                let due = scatter(round * keys + key) % 100_000;
                delayed.insert(key, due);
                order.push(Reverse((due, key)));
            }
            while let Some(Reverse((_, key))) = order.pop() {
                black_box(delayed.remove(&key));
            }
        }
    })
}
