//! The cost of the decisions about a request, with the server and its client in one process.
//!
//! `cargo xtask bench rights` and `admission`. Times are CPU times of all threads of this process, the client's
//! included: on a shared machine, wall-clock time mostly shows the other load. Lines that are compared are measured in
//! turns.

#![allow(
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    missing_docs,
    reason = "a benchmark"
)]

mod admission;
#[path = "../../tests/common/mod.rs"]
mod common;
#[path = "../../tests/common/https.rs"]
mod https;
mod rights;

use common::Client;
use serde_json::Value;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let wanted = |name: &str| arguments.is_empty() || arguments.iter().any(|a| a == name);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    if wanted("rights") {
        runtime.block_on(rights::run());
    }
    if wanted("admission") {
        runtime.block_on(admission::run());
    }
}

/// Nanoseconds of processor time of this process.
fn cpu() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux");
    let times = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok());
    times.filter_map(|text| text.split(' ').next()?.parse::<f64>().ok()).sum()
}

async fn made(client: &mut Client, path: &str, object: &Value) {
    let answer = client.call("POST", path, Some(object)).await;
    assert!(matches!(answer.status, 201 | 409), "{} {}", answer.status, answer.json());
}
