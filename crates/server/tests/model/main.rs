//! Random calls of the API against a model of it: creates, updates, patches, deletions, lists and pages at old revisions, and
//! watches that must see every change once and in order.
//!
//! `MODEL_SEED` and `MODEL_RUNS` choose others; `cargo xtask fuzz model` looks for bad ones by coverage.

#![cfg(test)]
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    missing_debug_implementations,
    reason = "the fuzz target uses the same files"
)]

mod choices;
mod client;
mod driver;
mod selectors;
mod state;

use std::sync::Arc;

use listwatch_server::{LifecycleOptions, Options, Security, Server};
use listwatch_storage::MemoryEngine;

/// Bytes of choices of one run: about a hundred calls.
const LENGTH: usize = 800;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_api_answers_as_the_model() {
    let options = Options {
        security: Security::InsecureHttp,
        lifecycle: LifecycleOptions::off(),
        ..Options::default()
    };
    let server = Server::start(options, Arc::new(MemoryEngine::default())).await.unwrap();
    let (address, token) = (server.address(), server.admin_token().to_owned());
    let first = number("MODEL_SEED", 1);
    for seed in first..first + number("MODEL_RUNS", 20) {
        let token = token.clone();
        let run = move || driver::run(address, &token, ["m1", "m2"], &choices::seeded(seed, LENGTH));
        let ended = tokio::task::spawn_blocking(run).await;
        assert!(ended.is_ok(), "MODEL_SEED={seed} MODEL_RUNS=1");
    }
    server.shutdown().await;
}
