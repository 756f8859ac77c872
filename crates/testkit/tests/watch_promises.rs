//! The watch promises on every engine: concurrent writers, watchers with random selectors that hang up and resume, lists in
//! between; all of it held against the store's own log.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests say what they expect by panicking"
)]

use std::time::Duration;

use listwatch_testkit::proxy::{Odds, Plan, Proxy};
use listwatch_testkit::{Etcd, Raw, Store, TestServer, Workload, with_real_parts};

/// Small enough for every `cargo test`, larger where time was granted.
fn workload(seed: u64) -> Workload {
    let writes = if with_real_parts() { 150 } else { 40 };
    Workload { seed, writes, ..Workload::default() }
}

async fn promises_hold(writes: Raw, reads: Raw, server: &TestServer, workload: Workload) {
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
}

async fn promises_hold_on(server: &TestServer) {
    let raw = server.raw().unwrap();
    for seed in [1, 2] {
        promises_hold(raw.clone(), raw.clone(), server, workload(seed)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_memory() {
    promises_hold_on(&TestServer::start().await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_the_embedded_engine() {
    promises_hold_on(&TestServer::on(Store::Embedded).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn through_a_network_that_breaks() {
    let server = TestServer::start().await.unwrap();
    let odds = Odds { fault: 0.3, longest_wait: Duration::from_millis(300) };
    let proxy = Proxy::start(server.config(), Plan::random(7, odds)).await.unwrap();
    let (writes, reads) = (server.raw().unwrap(), Raw::new(proxy.config()).unwrap());
    promises_hold(writes, reads, &server, workload(7)).await;
    assert!(proxy.counts().1 > 0, "some requests met a fault");
}

#[tokio::test(flavor = "multi_thread")]
async fn on_etcd() {
    let Some(etcd) = Etcd::if_wanted().await.unwrap() else { return };
    promises_hold_on(&TestServer::on(Store::Etcd(etcd.endpoint())).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn between_two_servers_on_one_etcd() {
    let Some(etcd) = Etcd::if_wanted().await.unwrap() else { return };
    let one = TestServer::on(Store::Etcd(etcd.endpoint())).await.unwrap();
    let two = TestServer::on(Store::Etcd(etcd.endpoint())).await.unwrap();
    promises_hold(one.raw().unwrap(), two.raw().unwrap(), &one, workload(3)).await;
}
