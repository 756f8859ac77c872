//! The watch promises on every engine: concurrent writers, watchers with random selectors that hang up and resume, lists in
//! between; all of it held against the store's own log.
//!
//! `LISTWATCH_SEEDS=50 cargo test -p listwatch-testkit --test watch_promises` is the long form: so many histories of each kind,
//! each several times as long.

#![cfg(test)]

use std::ops::RangeInclusive;
use std::time::Duration;

use listwatch_testkit::proxy::{Odds, Plan, Proxy};
use listwatch_testkit::{Etcd, RawClient, TestServer, TestStore, Workload, with_real_parts};

/// The number of histories of the long form.
fn long() -> Option<u64> {
    std::env::var("LISTWATCH_SEEDS").ok().map(|text| text.parse().expect("LISTWATCH_SEEDS is a number"))
}

/// The seeds of one kind of history, some of them or as many as asked for.
fn seeds(some: RangeInclusive<u64>) -> RangeInclusive<u64> {
    let first = *some.start();
    long().map_or(some, |count| first..=first + count - 1)
}

/// Small enough for every `cargo test`, larger where time was granted.
fn workload(seed: u64) -> Workload {
    if long().is_some() {
        return Workload { seed, writes: 400, keys: 6, watchers: 16, listers: 4, ..Workload::default() };
    }
    let writes = if with_real_parts() { 150 } else { 40 };
    Workload { seed, writes, ..Workload::default() }
}

async fn promises_hold(writes: RawClient, reads: RawClient, server: &TestServer, workload: Workload) {
    let record = workload.run(writes, reads, server.engine().as_ref()).await.unwrap();
    let violations = record.check();
    assert!(
        violations.is_empty(),
        "seed {}: {} violations, first: {}",
        workload.seed,
        violations.len(),
        violations[0]
    );
    assert!(record.truth.len() >= workload.writes, "the workload wrote");
    assert!(record.watches.len() >= workload.watchers && !record.lists.is_empty(), "the workload read");
    let frames: usize = record.watches.iter().map(|watch| watch.frames.len()).sum();
    let deltas: usize = record.watches.iter().map(|watch| watch.deltas.len()).sum();
    assert!(deltas > 0, "some events came as deltas");
    let (changes, streams, lists) = (record.truth.len(), record.watches.len(), record.lists.len());
    println!(
        "seed {}: {changes} changes, {streams} streams with {frames} frames, {deltas} of them deltas, {lists} lists",
        workload.seed
    );
}

async fn promises_hold_on(server: &TestServer) {
    let raw = server.raw().unwrap();
    for seed in seeds(1..=2) {
        promises_hold(raw.clone(), raw.clone(), server, workload(seed)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_memory() {
    promises_hold_on(&TestServer::start().await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_the_embedded_engine() {
    promises_hold_on(&TestServer::on(TestStore::Embedded).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn through_a_network_that_breaks() {
    let server = TestServer::start().await.unwrap();
    let odds = Odds { fault: 0.3, longest_wait: Duration::from_millis(300) };
    let proxy = Proxy::start(server.config(), Plan::random(7, odds)).await.unwrap();
    let (writes, reads) = (server.raw().unwrap(), RawClient::new(proxy.config()).unwrap());
    for seed in seeds(7..=7) {
        promises_hold(writes.clone(), reads.clone(), &server, workload(seed)).await;
    }
    assert!(proxy.counts().1 > 0, "some requests met a fault");
}

#[tokio::test(flavor = "multi_thread")]
async fn on_etcd() {
    let Some(etcd) = Etcd::if_wanted().await.unwrap() else { return };
    promises_hold_on(&TestServer::on(TestStore::Etcd(etcd.endpoint())).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn between_two_servers_on_one_etcd() {
    let Some(etcd) = Etcd::if_wanted().await.unwrap() else { return };
    let one = TestServer::on(TestStore::Etcd(etcd.endpoint())).await.unwrap();
    let two = TestServer::on(TestStore::Etcd(etcd.endpoint())).await.unwrap();
    for seed in seeds(3..=3) {
        promises_hold(one.raw().unwrap(), two.raw().unwrap(), &one, workload(seed)).await;
    }
}
