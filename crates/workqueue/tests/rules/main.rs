//! The rules of the queue as its users see them, a file per subject. The state machine against a model, and the locking
//! under shuttle, are tested next to their sources.

#![cfg(test)]

mod delay;
mod fairness;
mod limiter;
mod metrics;
mod parallel;
mod queue;
mod runner;
mod shutdown;
mod simulation;

use std::time::Duration;

use listwatch_workqueue::{Key, Queue, Reason};

fn add_all<K: Key + std::fmt::Debug, R: Reason>(queue: &Queue<K, R>, keys: impl IntoIterator<Item = K>) {
    keys.into_iter().for_each(|key| queue.add(key).unwrap());
}

/// Hands out and finishes everything that is ready now.
fn take_all<K: Key, R: Reason>(queue: &Queue<K, R>) -> Vec<K> {
    std::iter::from_fn(|| queue.try_get().map(|item| item.key().clone())).collect()
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
