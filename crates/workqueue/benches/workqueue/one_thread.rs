//! One thread that adds and takes, with a backlog between: the cost without contention, and how it grows with the backlog.

use std::hint::black_box;

use listwatch_workqueue::{Options, Queue};

use crate::{ADDS, Report, limits, per_key, scatter};

pub(crate) fn rows(report: &Report) {
    report.cost("limit: three uncontended locks", "-", "-", limits::locks);
    for keys in [1_000, 10_000, 100_000, 1_000_000] {
        let of = |what: &str| format!("{what}, backlog of {keys} keys");
        report.cost(&of("add+get+done, one thread"), "flat", "0.31", || cycle(Options::new(), keys));
        report.cost(&of("limit: two random cache lines per key"), "-", "-", || limits::memory(keys));
        report.cost(&of("limit: bare hash map and deque, no locks"), "-", "-", || limits::map(keys));
    }
    let metered = || cycle(Options::new().name("bench"), 10_000);
    report.cost("one thread, backlog of 10000 keys, metrics on", "1.25 x without", "-", metered);
    let fair = || cycle(Options::new().fair(|key: &u64| key % 100), 10_000);
    report.cost("one thread, backlog of 10000 keys, fair by 100 tenants", "-", "-", fair);
    let bounded = || cycle(Options::new().capacity(100_000), 10_000);
    report.cost("one thread, backlog of 10000 keys, bounded", "-", "-", bounded);
}

/// A steady backlog: hand one out, put another in.
fn cycle(options: Options<u64>, backlog: u64) -> f64 {
    let queue: Queue<u64> = Queue::new(options);
    (0..backlog).for_each(|key| queue.add(scatter(key)).expect("open"));
    per_key(|| {
        for key in backlog..backlog + ADDS {
            let _ = black_box(queue.try_get().expect("a backlog"));
            queue.add(scatter(key)).expect("open");
        }
    })
}
