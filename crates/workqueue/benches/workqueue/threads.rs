//! Producers and workers on threads of their own, and as tasks.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use listwatch_workqueue::{Job, Options, Outcome, Parallel, Priority, Queue, Runner};

use crate::{ADDS, Report, per_key, scatter};

/// The lead of producers over workers, where that is limited.
const LEAD: u64 = 10_000;

pub(crate) fn rows(report: &Report) {
    let text = |i: u64| -> Arc<str> { format!("namespace-{:03}/pod-{i:08}", i % 100).into() };
    let name = "add+get+done, 1 producer, 1 worker, backlog up to 10,000: CPU µs per add";
    report.cost(name, "0.10", "0.195", || hammer(1, LEAD, scatter));
    report.cost("the same, 4 producers, 4 workers", "0.20", "0.45", || hammer(4, LEAD, scatter));
    let named = || Options::new().name("bench");
    report.cost("1 producer, 1 worker, metrics on", "-", "-", || hammer_with(named(), 1, LEAD, scatter));
    report.cost("4 producers, 4 workers, metrics on", "-", "-", || hammer_with(named(), 4, LEAD, scatter));
    report.cost("1 producer, 1 worker, Arc<str> keys", "-", "-", || hammer(1, LEAD, text));
    report.cost("4 producers, 4 workers, Arc<str> keys", "-", "-", || hammer(4, LEAD, text));
    for backlog in [1_000, 10_000, 100_000, 1_000_000] {
        let name = format!("1 producer, 1 worker, a steady backlog of {backlog}");
        report.cost(&name, "flat", "-", || steady(backlog));
    }
    report.cost("1 producer, 1 worker, backlog of millions", "-", "-", || hammer(1, u64::MAX, scatter));
    report.cost("4 producers, 4 workers, backlog of millions", "-", "-", || hammer(4, u64::MAX, scatter));
    report.cost("1 producer, 1 worker, async on tokio, backlog of millions", "-", "-", hammer_async);
    report.cost("runner, 4 workers, empty function", "-", "-", runner);
    let name = "parallel, 1000 empty pieces, 10 workers, chunks of";
    report.cost(&format!("{name} 1: CPU µs for all"), "-", "146 (time)", || parallel(1));
    report.cost(&format!("{name} 100: CPU µs for all"), "-", "34 (time)", || parallel(100));
}

/// Every key is new, so that each add means one hand-out. Producers pause while they are `lead` ahead of the workers, as a
/// cluster's changes do not outrun a controller for long.
fn hammer<K>(threads: u64, lead: u64, key: impl Fn(u64) -> K) -> f64
where
    K: listwatch_workqueue::Key + Sync,
{
    hammer_with(Options::new(), threads, lead, key)
}

fn hammer_with<K>(options: Options<K>, threads: u64, lead: u64, key: impl Fn(u64) -> K) -> f64
where
    K: listwatch_workqueue::Key + Sync,
{
    let share = ADDS / threads;
    let keys: Vec<Vec<K>> = (0..threads).map(|p| (0..share).map(|i| key(p * share + i)).collect()).collect();
    let queue: Queue<K> = Queue::new(options);
    let handed_out: Arc<AtomicU64> = Arc::default();
    let before = crate::cpu();
    let workers: Vec<_> =
        (0..threads).map(|_| spawn_worker(queue.clone(), Arc::clone(&handed_out))).collect();
    let pace = || Pace { lead, handed_out: Arc::clone(&handed_out) };
    let producers: Vec<_> =
        keys.into_iter().map(|keys| spawn_producer(queue.clone(), keys, threads, pace())).collect();
    // The vectors come back and are freed outside of the measurement.
    let keys: Vec<_> = producers.into_iter().map(|thread| thread.join().expect("producer")).collect();
    queue.shut_down();
    workers.into_iter().for_each(|thread| thread.join().expect("worker"));
    let spent = crate::cpu() - before;
    assert_eq!(handed_out.load(Relaxed), share * threads, "every key is handed out once");
    drop(keys);
    spent.as_secs_f64() * 1e6 / ADDS as f64
}

/// One producer and one worker, with a backlog that is there before and stays: what is taken is added. Measured until the
/// producer is through; the backlog is left.
fn steady(backlog: u64) -> f64 {
    let queue: Queue<u64> = Queue::new(Options::new());
    (ADDS..ADDS + backlog).for_each(|key| queue.add(scatter(key)).expect("open"));
    let handed_out: Arc<AtomicU64> = Arc::default();
    let pace = Pace { lead: 512, handed_out: Arc::clone(&handed_out) };
    let keys = (0..ADDS).map(scatter).collect();
    let before = crate::cpu();
    let worker = spawn_worker(queue.clone(), handed_out);
    let keys = spawn_producer(queue.clone(), keys, 1, pace).join().expect("producer");
    let spent = crate::cpu() - before;
    queue.shut_down();
    worker.join().expect("worker");
    drop(keys);
    spent.as_secs_f64() * 1e6 / ADDS as f64
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
        let Some(mut item) = queue.get_blocking() else { return };
        let mut count = 0;
        loop {
            black_box(item.key());
            count += 1;
            if count == 256 {
                handed_out.fetch_add(std::mem::take(&mut count), Relaxed);
            }
            if !item.next_blocking() {
                break;
            }
        }
        handed_out.fetch_add(count, Relaxed);
    })
}

fn hammer_async() -> f64 {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("runtime");
    let queue: Queue<u64> = Queue::new(Options::new());
    per_key(|| {
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
        })
    })
}

fn runner() -> f64 {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("runtime");
    let queue: Queue<u64> = Queue::new(Options::new());
    per_key(|| {
        runtime.block_on(async {
            let running = Runner::new(|_: Job<u64>| async { Ok::<_, std::io::Error>(Outcome::Done) })
                .workers(4)
                .start(&queue);
            for key in 0..ADDS {
                queue.add_with(key, (), Priority::Normal).expect("open");
            }
            running.shut_down().await;
        })
    })
}

fn parallel(chunk: usize) -> f64 {
    const TIMES: u64 = 1000;
    let empty = |piece| async move {
        black_box(piece);
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("runtime");
    let all = per_key(|| {
        runtime.block_on(async {
            for _ in 0..TIMES {
                Parallel::new(10).chunk(chunk).run(1000, empty).await;
            }
        });
    });
    all * ADDS as f64 / TIMES as f64
}
