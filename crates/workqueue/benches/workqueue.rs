//! What the queue costs: CPU time (of the whole process, all threads) per key, and memory per delayed key.
//!
//! `cargo bench -p listwatch-workqueue`. The figures of client-go 1.37 come from the same kind of machine (2 cores).

#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a benchmark is a program that prints, and may fail by panicking"
)]

#[path = "../tests/rules/simulation.rs"]
mod fairness;

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use listwatch_workqueue::{Job, Options, Outcome, Priority, Queue, Runner};
use rustix::time::{ClockId, clock_gettime};

const ADDS: u64 = 2_000_000;
/// How far producers run ahead of workers, where that is limited.
const LEAD: u64 = 10_000;
/// Each figure is the least of so many runs: noise only ever adds.
const RUNS: usize = 5;

/// The measurements by name; memory first, before anything else has left freed memory behind.
const SECTIONS: [(&str, fn()); 5] = [
    ("memory", memory),
    ("threads", threads),
    ("options", options),
    ("flat", flatness),
    ("fair", fairness_soak),
];

/// Without arguments all sections, else those named.
fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    println!("| what | measured | goal | client-go |\n|---|---|---|---|");
    for (name, section) in SECTIONS {
        if wanted.is_empty() || wanted.iter().any(|arg| arg == name) {
            section();
        }
    }
}

fn memory() {
    let bytes = bytes_per_delayed_key(1_000_000);
    row("memory per delayed key of a million, 24-byte key included: bytes", bytes, "200", "-");
}

fn row(what: &str, measured: f64, goal: &str, client_go: &str) {
    let digits = if measured < 10.0 { 3 } else { 1 };
    println!("| {what} | {measured:.digits$} | {goal} | {client_go} |");
}

fn threads() {
    let text = |i: u64| -> Arc<str> { format!("namespace-{:03}/pod-{i:08}", i % 100).into() };
    let steady = |threads, lead| best(|| hammer(threads, lead, scatter));
    row(
        "add+get+done, 1 producer, 1 worker, backlog up to 10,000: CPU µs per add",
        steady(1, LEAD),
        "0.10",
        "0.195",
    );
    row("the same, 4 producers, 4 workers", steady(4, LEAD), "0.20", "0.45");
    row("1 producer, 1 worker, backlog of millions", steady(1, u64::MAX), "-", "-");
    row("4 producers, 4 workers, backlog of millions", steady(4, u64::MAX), "-", "-");
    row("1 producer, 1 worker, Arc<str> keys", best(|| hammer(1, LEAD, text)), "-", "-");
    row("4 producers, 4 workers, Arc<str> keys", best(|| hammer(4, LEAD, text)), "-", "-");
    row("1 producer, 1 worker, async on tokio, backlog of millions", best(hammer_async), "-", "-");
}

fn options() {
    row("the same one thread, metrics on", best(|| cycle(Options::new().name("bench"), 10_000)), "-", "-");
    row(
        "one thread, fair by 100 tenants",
        best(|| cycle(Options::new().fair(|key: &u64| key % 100), 10_000)),
        "-",
        "-",
    );
    row("one thread, bounded", best(|| cycle(Options::new().capacity(100_000), 10_000)), "-", "-");
    row("runner, 4 workers, empty function: CPU µs per key", best(runner), "-", "-");
}

fn flatness() {
    for keys in [1_000, 10_000, 100_000, 1_000_000] {
        let what = format!("add+get+done, one thread, backlog of {keys} keys: CPU µs");
        row(&what, best(|| cycle(Options::new(), keys)), "flat", "0.31");
    }
    for keys in [1_000, 10_000, 100_000, 1_000_000] {
        let what = format!("add_after+expiry+get+done, {keys} delayed keys: CPU µs");
        row(&what, best(|| delayed(keys)), "flat", "5.5");
    }
}

fn fairness_soak() {
    for (name, scenario) in fairness::scenarios() {
        let (quiet, flooded) = fairness::compare(&scenario, 1);
        let goal = if scenario.fair { "2" } else { "-" };
        let ratio = |quiet: Duration, flooded: Duration| flooded.as_secs_f64() / quiet.as_secs_f64();
        let what = format!("99 tenants while one floods, {name}: mean wait, times the quiet one");
        row(&what, ratio(quiet.mean, flooded.mean), goal, "-");
        row("the same, 99th percentile", ratio(quiet.p99, flooded.p99), goal, "-");
    }
}

/// Every key is new, so that each add means one hand-out. Producers pause while they are `lead` ahead of the workers, as a
/// cluster's changes do not outrun a controller for long.
fn hammer<K>(threads: u64, lead: u64, key: impl Fn(u64) -> K) -> f64
where
    K: listwatch_workqueue::Key + Sync,
{
    let share = ADDS / threads;
    let keys: Vec<Vec<K>> = (0..threads).map(|p| (0..share).map(|i| key(p * share + i)).collect()).collect();
    let queue: Queue<K> = Queue::new(Options::new());
    let handed_out: Arc<AtomicU64> = Arc::default();
    let before = cpu();
    let workers: Vec<_> =
        (0..threads).map(|_| spawn_worker(queue.clone(), Arc::clone(&handed_out))).collect();
    let pace = || Pace { lead, handed_out: Arc::clone(&handed_out) };
    let producers: Vec<_> =
        keys.into_iter().map(|keys| spawn_producer(queue.clone(), keys, threads, pace())).collect();
    // The vectors come back and are freed outside of the measurement.
    let keys: Vec<_> = producers.into_iter().map(|thread| thread.join().expect("producer")).collect();
    queue.shut_down();
    workers.into_iter().for_each(|thread| thread.join().expect("worker"));
    let spent = cpu() - before;
    assert_eq!(handed_out.load(Relaxed), share * threads, "every key is handed out once");
    drop(keys);
    per(spent, ADDS)
}

/// Keeps a producer from running too far ahead.
struct Pace {
    lead: u64,
    handed_out: Arc<AtomicU64>,
}

impl Pace {
    fn keep(&self, added: u64) {
        while added.saturating_sub(self.handed_out.load(Relaxed)) > self.lead {
            thread::sleep(Duration::from_micros(100));
        }
    }
}

fn spawn_producer<K>(queue: Queue<K>, keys: Vec<K>, producers: u64, pace: Pace) -> thread::JoinHandle<Vec<K>>
where
    K: listwatch_workqueue::Key + Sync,
{
    thread::spawn(move || {
        for (number, key) in keys.iter().enumerate() {
            assert!(queue.add(key.clone()).is_ok());
            if number % 512 == 0 {
                pace.keep(number as u64 * producers);
            }
        }
        keys
    })
}

fn spawn_worker<K: listwatch_workqueue::Key>(
    queue: Queue<K>,
    handed_out: Arc<AtomicU64>,
) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let mut count = 0;
        let mut next = queue.get_blocking();
        while let Some(item) = next {
            black_box(item.key());
            next = queue.done_and_get_blocking(item);
            count += 1;
            if count == 256 {
                handed_out.fetch_add(std::mem::take(&mut count), Relaxed);
            }
        }
        handed_out.fetch_add(count, Relaxed);
    })
}

fn hammer_async() -> f64 {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("runtime");
    let queue: Queue<u64> = Queue::new(Options::new());
    let before = cpu();
    runtime.block_on(async {
        let worker = tokio::spawn({
            let queue = queue.clone();
            async move {
                let mut count = 0;
                while let Some(item) = queue.get().await {
                    black_box(item.key());
                    count += 1;
                }
                count
            }
        });
        for key in 0..ADDS {
            queue.add(key).expect("open");
        }
        queue.shut_down();
        assert_eq!(worker.await.expect("worker"), ADDS);
    });
    per(cpu() - before, ADDS)
}

/// A steady backlog: hand one out, put another in.
fn cycle(options: Options<u64>, backlog: u64) -> f64 {
    let queue: Queue<u64> = Queue::new(options);
    (0..backlog).for_each(|key| queue.add(scatter(key)).expect("open"));
    let before = cpu();
    for key in backlog..backlog + ADDS {
        let _ = black_box(queue.try_get().expect("a backlog"));
        queue.add(scatter(key)).expect("open");
    }
    per(cpu() - before, ADDS)
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
        let before = cpu();
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
        per(cpu() - before, ADDS)
    })
}

fn runner() -> f64 {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("runtime");
    let queue: Queue<u64> = Queue::new(Options::new());
    let before = cpu();
    runtime.block_on(async {
        let running = Runner::new(|_: Job<u64>| async { Ok::<_, std::io::Error>(Outcome::Done) })
            .workers(4)
            .start(&queue);
        for key in 0..ADDS {
            queue.add_with(key, (), Priority::Normal).expect("open");
        }
        running.shut_down().await;
    });
    per(cpu() - before, ADDS)
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

/// Keys in no order that a cache or a hash table could profit from.
fn scatter(key: u64) -> u64 {
    key.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
}

fn best(mut run: impl FnMut() -> f64) -> f64 {
    (0..RUNS).map(|_| run()).fold(f64::INFINITY, f64::min)
}

fn per(spent: Duration, count: u64) -> f64 {
    spent.as_secs_f64() * 1e6 / count as f64
}

fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("second field");
    pages * rustix::param::page_size() as u64
}
