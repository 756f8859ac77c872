//! The cost of the engines. `cargo bench -p listwatch-storage [-- PART …]`, with the parts `puts`, `reads`, `replay`,
//! `million`, `scale`; all without.
//!
//! CPU time is that of the whole process, the tasks that ask included, so the figures are an upper bound of what the
//! engine itself takes. Files go to a directory under the target directory, which is on a disk where `/tmp` may not be;
//! `LISTWATCH_BENCH_DIR` names another.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark prints, and has nobody to report an error to"
)]

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use listwatch_storage::{
    EmbeddedEngine, EmbeddedOptions, Engine, Expect, MemoryEngine, Range, Write, Written,
};
use tempfile::TempDir;

const SECOND: Duration = Duration::from_secs(1);

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let part = |name: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name);
    if part("puts") {
        runtime.block_on(puts());
    }
    if part("reads") {
        runtime.block_on(reads());
    }
    if part("replay") {
        runtime.block_on(replay());
    }
    if part("million") {
        runtime.block_on(million());
    }
    if part("scale") {
        runtime.block_on(scale());
    }
}

/// CPU time of the process so far, of all threads.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    // The name of the program may hold anything, but it ends with the last parenthesis.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |n: usize| fields.get(n).and_then(|field| field.parse::<u64>().ok()).expect("a number");
    Duration::from_millis((ticks(11) + ticks(12)) * 10)
}

/// Memory in use, in MiB.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a figure");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<f64>().ok()).expect("a number") / 1024.0
}

struct Measured {
    count: u64,
    wall: Duration,
    cpu: Duration,
}

impl Measured {
    async fn of(work: impl Future<Output = u64>) -> Self {
        let (wall, busy) = (Instant::now(), cpu());
        let count = work.await;
        Self { count, wall: wall.elapsed(), cpu: cpu() - busy }
    }

    fn print(&self, what: &str) {
        let rate = self.count as f64 / self.wall.as_secs_f64();
        let each = self.cpu.as_secs_f64() * 1e6 / self.count as f64;
        println!("{what:<52} {rate:>11.0}/s {each:>9.2} µs CPU each");
    }
}

fn directory() -> TempDir {
    let base = std::env::var_os("LISTWATCH_BENCH_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    std::fs::create_dir_all(&base).expect("a directory");
    TempDir::new_in(base).expect("a directory")
}

async fn embedded(directory: &TempDir) -> Arc<dyn Engine> {
    Arc::new(EmbeddedEngine::open(directory.path(), EmbeddedOptions::default()).await.expect("a store"))
}

fn key(n: u64) -> Arc<str> {
    format!("/registry/configmaps/default/object-{n:07}").into()
}

fn put(n: u64, value: &Bytes) -> Write {
    Write { key: key(n), value: Some(value.clone()), expect: Expect::Any, origin: None }
}

async fn write(engine: &Arc<dyn Engine>, write: Write) {
    let outcome = engine.write(write).await.expect("a write");
    assert!(matches!(outcome, Written::Done { .. }));
}

/// A cheap pseudo-random sequence: every key occurs, in an order without locality of pages.
fn scatter(n: u64, among: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9) % among
}

/// `writers` tasks put values under `keys` keys until the deadline or until `limit` puts are done.
async fn load(
    engine: &Arc<dyn Engine>,
    writers: u64,
    keys: u64,
    size: usize,
    limit: u64,
    time: Duration,
) -> u64 {
    let value = Bytes::from(vec![b'x'; size]);
    let started = Arc::new(AtomicU64::new(0));
    let deadline = Instant::now() + time;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..writers {
        let (engine, value, started) = (Arc::clone(engine), value.clone(), Arc::clone(&started));
        tasks.spawn(async move {
            let mut done = 0;
            while Instant::now() < deadline {
                let n = started.fetch_add(1, Ordering::Relaxed);
                if n >= limit {
                    break;
                }
                write(&engine, put(scatter(n, keys), &value)).await;
                done += 1;
            }
            done
        });
    }
    tasks.join_all().await.into_iter().sum()
}

async fn fill(engine: &Arc<dyn Engine>, keys: u64, size: usize) {
    let value = Bytes::from(vec![b'x'; size]);
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..256 {
        let (engine, value) = (Arc::clone(engine), value.clone());
        tasks.spawn(async move {
            for n in (task..keys).step_by(256) {
                write(&engine, put(n, &value)).await;
            }
        });
    }
    tasks.join_all().await;
}

async fn puts() {
    for writers in [1, 16, 256] {
        let directory = directory();
        let engine = embedded(&directory).await;
        fill(&engine, 10_000, 1200).await;
        let measured = Measured::of(load(&engine, writers, 10_000, 1200, u64::MAX, 5 * SECOND)).await;
        measured.print(&format!("embedded: durable puts of 1.2 KB, {writers} writers"));
        engine.close().await.expect("the end");
    }
    for writers in [1, 16] {
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::default());
        fill(&engine, 10_000, 1200).await;
        let measured = Measured::of(load(&engine, writers, 10_000, 1200, u64::MAX, 2 * SECOND)).await;
        measured.print(&format!("memory: puts of 1.2 KB, {writers} writers"));
    }
}

async fn reads() {
    let directory = directory();
    let engine = embedded(&directory).await;
    fill(&engine, 100_000, 1200).await;
    let old = engine.current().await.expect("a revision");
    Measured::of(gets(&engine, 1000)).await.print("embedded: get, recently written");
    engine.close().await.expect("the end");
    let engine = embedded(&directory).await;
    Measured::of(gets(&engine, 100_000)).await.print("embedded: get, from disk");
    Measured::of(pages(&engine, 500, None)).await.print("embedded: item of a range, pages of 500 of 100,000");
    Measured::of(pages(&engine, 0, None)).await.print("embedded: item of a range, all 100,000");
    load(&engine, 16, 100_000, 1200, 20_000, 10 * SECOND).await;
    Measured::of(pages(&engine, 0, Some(old))).await.print("embedded: item of a range, 20,000 changes ago");
    engine.close().await.expect("the end");
}

async fn gets(engine: &Arc<dyn Engine>, among: u64) -> u64 {
    for n in 0..50_000 {
        // The newest keys are those with the highest numbers.
        let found = engine.get(&key(99_999 - scatter(n, among)), None).await.expect("a read");
        assert!(found.is_some());
    }
    50_000
}

async fn pages(engine: &Arc<dyn Engine>, limit: usize, at: Option<listwatch_storage::Revision>) -> u64 {
    let mut range = Range { limit, at, ..Range::prefix("/registry/configmaps/") };
    let mut seen = 0;
    loop {
        let page = engine.range(range.clone()).await.expect("a page");
        seen += page.items.len() as u64;
        let Some(last) = page.items.last() else { panic!("an empty page") };
        if page.items.len() as u64 == page.count {
            return seen;
        }
        range.start = format!("{}\0", last.key).into();
    }
}

async fn replay() {
    let directory = directory();
    let engine = embedded(&directory).await;
    load(&engine, 256, 10_000, 1200, 100_000, 60 * SECOND).await;
    let upto = engine.current().await.expect("a revision");
    Measured::of(follow(&engine, upto.0 - 5000, upto.0))
        .await
        .print("embedded: change of the log, from memory");
    Measured::of(follow(&engine, 0, upto.0 - 20_000)).await.print("embedded: change of the log, from disk");
    engine.close().await.expect("the end");
}

async fn follow(engine: &Arc<dyn Engine>, after: u64, upto: u64) -> u64 {
    let mut log = engine.changes(listwatch_storage::Revision(after)).await.expect("a log");
    let mut seen = 0;
    loop {
        let batch = log.next().await.expect("a batch");
        seen += batch.changes.len() as u64;
        if batch.upto.0 >= upto {
            return seen;
        }
    }
}

async fn million() {
    let directory = directory();
    let before = resident();
    let engine = embedded(&directory).await;
    let measured = Measured::of(load(&engine, 256, 10_000, 1500, 1_000_000, 300 * SECOND)).await;
    measured.print("embedded: a million updates of 10,000 keys of 1.5 KB");
    println!("{:<52} {:>11.1} MiB", "  memory taken", resident() - before);
    println!("{:<52} {:>11.1} MiB", "  files, all history kept", size(&directory));
    let upto = engine.current().await.expect("a revision");
    let measured = Measured::of(async {
        engine.compact(upto).await.expect("a compaction");
        load(&engine, 16, 10_000, 1500, u64::MAX, 10 * SECOND).await
    });
    measured.await.print("  puts while all that history is cleared, 16 writers");
    engine.close().await.expect("the end");
    let path = directory.path().to_owned();
    let report =
        tokio::task::spawn_blocking(move || listwatch_storage::embedded::offline::compact(&path)).await;
    let report = report.expect("an end").expect("a report");
    println!("{:<52} {:>11.1} MiB", "  files, compacted", report.bytes as f64 / 1048576.0);
}

fn size(directory: &TempDir) -> f64 {
    let files = std::fs::read_dir(directory.path()).expect("a directory");
    let bytes: u64 =
        files.map(|file| file.and_then(|file| file.metadata()).map_or(0, |metadata| metadata.len())).sum();
    bytes as f64 / 1048576.0
}

async fn scale() {
    for keys in [10_000, 100_000, 1_000_000] {
        let directory = directory();
        let engine = embedded(&directory).await;
        fill(&engine, keys, 1200).await;
        Measured::of(load(&engine, 16, keys, 1200, u64::MAX, 5 * SECOND))
            .await
            .print(&format!("embedded: puts among {keys} keys, 16 writers"));
        drop(engine);
        let opened = Instant::now();
        let engine = embedded(&directory).await;
        println!("{:<52} {:>11.1} ms", "  opening", opened.elapsed().as_secs_f64() * 1e3);
        Measured::of(async {
            for n in 0..20_000 {
                assert!(engine.get(&key(scatter(n, keys)), None).await.expect("a read").is_some());
            }
            20_000
        })
        .await
        .print("  get, from disk");
        engine.close().await.expect("the end");
    }
}
