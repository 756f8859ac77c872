//! Benchmarks of the server as a process, over TLS on loopback: the effect of slow watchers and floods on other clients, the
//! cost of many objects and of a status change, and the savings of deltas.
//!
//! `cargo xtask bench watchers`, `memory`, `flood`, `patches` and `delta`. They compare within one run, because on a
//! shared machine two runs differ by more than what is looked for. `LISTWATCH_BINARY` names another binary to measure.
//!
//! [`watchers`], [`memory`], [`flood`], [`patches`] and [`delta`] are the measurements; [`process`] is the server,
//! [`client`] talks to it.

#![allow(
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    missing_docs,
    reason = "a benchmark"
)]

mod client;
mod delta;
mod flood;
mod memory;
mod patches;
mod process;
mod watchers;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let wanted = |name: &str| arguments.is_empty() || arguments.iter().any(|a| a == name);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    if let [first, form, events] = arguments.as_slice()
        && first == "delta-client"
    {
        return runtime.block_on(delta::follow(form, events.parse().unwrap()));
    }
    if wanted("watchers") {
        runtime.block_on(watchers::run());
    }
    if wanted("memory") {
        runtime.block_on(memory::run());
    }
    if wanted("flood") {
        runtime.block_on(flood::run());
    }
    if wanted("patches") {
        runtime.block_on(patches::run());
    }
    if wanted("delta") {
        runtime.block_on(delta::run());
    }
}

/// A count from the environment, for a shorter or a longer run.
fn count(variable: &str, default: usize) -> usize {
    std::env::var(variable).ok().map_or(default, |text| text.parse().expect("a number"))
}
