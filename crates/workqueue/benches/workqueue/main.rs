//! The cost of the queue: CPU time (of the whole process, all threads) per key, and memory per delayed key.
//!
//! `cargo bench -p listwatch-workqueue`; with arguments after `--`, only the rows that contain one of them. The figures
//! of client-go 1.37 come from the same kind of machine (2 cores). Rows that begin with "limit" measure the machine and
//! what any queue would build on, for comparison: see [`limits`].

#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a benchmark is a program that prints, and may fail by panicking"
)]

mod delayed;
mod fair;
mod limits;
mod one_thread;
#[path = "../../tests/rules/simulation.rs"]
mod simulation;
mod threads;

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The number of keys that go through the queue in each run.
const ADDS: u64 = 2_000_000;
/// Each figure is the least of so many runs: noise only ever adds.
const RUNS: usize = 5;

fn main() {
    let report = Report { wanted: std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect() };
    println!("| what | measured | goal | client-go |\n|---|---|---|---|");
    delayed::memory(&report); // first, before anything else has left freed memory behind
    threads::rows(&report);
    one_thread::rows(&report);
    delayed::rows(&report);
    fair::rows(&report);
}

/// Prints the rows that are wanted.
struct Report {
    wanted: Vec<String>,
}

impl Report {
    /// The least of several runs of `measure`, in CPU µs per key.
    fn cost(&self, what: &str, goal: &str, client_go: &str, mut measure: impl FnMut() -> f64) {
        self.value(what, goal, client_go, || (0..RUNS).map(|_| measure()).fold(f64::INFINITY, f64::min));
    }

    fn value(&self, what: &str, goal: &str, client_go: &str, measure: impl FnOnce() -> f64) {
        if self.wanted.is_empty() || self.wanted.iter().any(|part| what.contains(part)) {
            let measured = measure();
            let digits = if measured < 10.0 { 3 } else { 1 };
            println!("| {what} | {measured:.digits$} | {goal} | {client_go} |");
        }
    }
}

/// Keys in no order that a cache or a hash table could profit from.
fn scatter(key: u64) -> u64 {
    key.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
}

/// CPU µs per key of a function that deals with `ADDS` keys.
fn per_key(run: impl FnOnce()) -> f64 {
    let before = cpu();
    run();
    (cpu() - before).as_secs_f64() * 1e6 / ADDS as f64
}

fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
