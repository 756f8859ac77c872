//! Delayed keys.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use listwatch_workqueue::{Options, Queue};

use crate::{ADDS, Report, limits, scatter};

pub(crate) fn memory(report: &Report) {
    let what = "memory per delayed key of a million, 24-byte key included: bytes";
    report.value(what, "200", "-", || bytes_per_delayed_key(1_000_000));
}

pub(crate) fn rows(report: &Report) {
    for keys in [1_000, 10_000, 100_000, 1_000_000] {
        let of = |what: &str| format!("{what}, {keys} delayed keys");
        report.cost(&of("add_after+expiry+get+done"), "flat", "5.5", || delayed(keys));
        report.cost(&of("limit: bare hash map and heap, no locks"), "-", "-", || limits::heap(keys));
    }
}

/// `keys` delayed keys in flight at all times, until `ADDS` have gone through.
fn delayed(keys: u64) -> f64 {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("runtime");
    runtime.block_on(async {
        let queue: Queue<u64> = Queue::new(Options::new());
        let before = crate::cpu();
        for round in 0..(ADDS / keys) {
            for key in 0..keys {
                let delay = Duration::from_millis(scatter(round * keys + key) % 100_000 + 1);
                queue.add_after(key, delay).expect("open");
            }
            tokio::time::advance(Duration::from_secs(101)).await;
            for _ in 0..keys {
                let _ = black_box(queue.try_get().expect("all are due"));
            }
        }
        (crate::cpu() - before).as_secs_f64() * 1e6 / ADDS as f64
    })
}

fn bytes_per_delayed_key(keys: u64) -> f64 {
    let queue: Queue<Arc<str>> = Queue::new(Options::new());
    let before = resident();
    for i in 0..keys {
        let key = format!("namespace-{:03}/pod-{i:06}", i % 1000);
        queue.add_after(key.into(), Duration::from_secs(60 + i % 3600)).expect("open");
    }
    let after = resident();
    assert_eq!(queue.known() as u64, keys);
    (after - before) as f64 / keys as f64
}

fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("second field");
    pages * rustix::param::page_size() as u64
}
