//! Programs that end and start again behind a network with faults: whenever writes pause, the restored cache becomes equal to
//! the server, and the events of a handler over all runs add up to its state.
//!
//! Seconds in `cargo test`, the long form with `LISTWATCH_CONVERGE_SECONDS=600`.

#![cfg(test)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http::Method;
use k8s_openapi::api::core::v1::Secret;
use listwatch::kube::KubeSource;
use listwatch::warm::WarmOptions;
use listwatch::{Event, HandlerOptions, SharedInformer, Sources};
use listwatch_testkit::proxy::{Odds, Plan, Proxy};
use listwatch_testkit::{RawClient, TestCollection, TestServer, with_real_parts};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

/// The time a healed informer may take: longer than any backoff it may sit in.
const CONVERGES_WITHIN: Duration = Duration::from_secs(60);

fn run_for() -> Duration {
    let asked = std::env::var("LISTWATCH_CONVERGE_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(asked.unwrap_or(if with_real_parts() { 60 } else { 4 }))
}

/// A form of informer: its name, and how its sources are made.
type Shape = (&'static str, fn(KubeSource) -> Sources);

/// Revisions by key.
type Known = BTreeMap<String, u64>;

/// The state of a handler over all runs of its program, from its events alone.
fn learn(known: &Mutex<Known>, event: &Event<Value>) {
    let mut known = known.lock().unwrap();
    match event {
        Event::Added { object, .. } | Event::Updated { new: object, .. } => {
            known.insert(object.key().to_string(), object.revision().0);
        }
        Event::Deleted(gone) => {
            known.remove(gone.object.key().as_str());
        }
        Event::Synced => {}
    }
}

/// A run of the program.
fn start(sources: Sources, name: &str, directory: &Path, known: &Arc<Mutex<Known>>) -> SharedInformer<Value> {
    let mut options = WarmOptions::new(directory).interval(Duration::from_secs(1));
    options.max_unread = 1000;
    let informer = SharedInformer::builder(sources).name(name).warm(options).build();
    let known = Arc::clone(known);
    let handler = move |event: Event<Value>| {
        learn(&known, &event);
        tokio::time::sleep(Duration::from_millis(1))
    };
    let options = HandlerOptions::named("model").since_last_run();
    informer.add_async_event_handler(handler, options).unwrap();
    informer.start().unwrap();
    informer
}

async fn write(raw: &RawClient, collection: &TestCollection, random: &mut StdRng, writes: usize) {
    for n in 0..writes {
        let name = format!("s{}", random.random_range(0..20));
        let item = format!("{}/{name}", collection.path());
        let body = json!({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": name, "namespace": "default"},
            "data": {"n": format!("{n:08}")}});
        let (method, path, body) = match random.random_range(0..3) {
            0 => (Method::POST, collection.path(), Some(body)),
            1 => (Method::PUT, item, Some(body)),
            _ => (Method::DELETE, item, None),
        };
        raw.call(method, &path, body.as_ref()).await.unwrap();
    }
}

/// The ways in which a program ends.
async fn end(informer: SharedInformer<Value>, how: u32) {
    match how {
        0 => informer.drain().await,
        1 => informer.stop().await,
        // Killed: only the last save remains.
        _ => drop(informer),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_saved_cache_converges_through_restarts() {
    let server = TestServer::start().await.unwrap();
    let proxy = Proxy::start(server.config(), Plan::none()).await.unwrap();
    let (raw, collection) = (server.raw().unwrap(), TestCollection::core("secrets", "default"));
    let directory = tempfile::tempdir().unwrap();
    let mut random = StdRng::seed_from_u64(1);
    let shapes: [Shape; 2] = [
        ("plain", |source| source.namespace("default").into()),
        ("namespaces", |source| source.namespaces(["default", "elsewhere"]).into()),
    ];
    let known: Vec<Arc<Mutex<Known>>> = shapes.iter().map(|_| Arc::default()).collect();
    let (deadline, mut round, mut resumed, mut killed) = (Instant::now() + run_for(), 0, 0, false);
    while round < 3 || Instant::now() < deadline {
        round += 1;
        proxy.set_plan(Plan::random(round, Odds { fault: 0.3, longest_wait: Duration::from_millis(200) }));
        let client = listwatch::kube::client(proxy.config()).unwrap();
        let informers = shapes.iter().zip(&known).map(|((name, sources), known)| {
            start(sources(KubeSource::of::<Secret>(client.clone())), name, directory.path(), known)
        });
        let informers: Vec<_> = informers.collect();
        write(&raw, &collection, &mut random, 60).await;
        proxy.heal();
        let state = collection.state(&raw).await.unwrap();
        let state: Known = state.iter().map(|(key, seen)| (key.to_string(), seen.revision.0)).collect();
        for (informer, known) in informers.iter().zip(&known) {
            let by = Instant::now() + CONVERGES_WITHIN;
            loop {
                if killed {
                    // Objects delivered after the last save are not in it, so their deletion cannot be found by a list.
                    known.lock().unwrap().retain(|key, _| state.contains_key(key));
                }
                let snapshot = informer.snapshot();
                let cache: Known = snapshot.iter().map(|o| (o.key().to_string(), o.revision().0)).collect();
                if cache == state && *known.lock().unwrap() == state && informer.has_synced() {
                    break;
                }
                let told = known.lock().unwrap().len();
                let (name, has) = (informer.name(), cache.len());
                assert!(
                    Instant::now() < by,
                    "round {round}, {name}: {has} cached, {told} told, {}",
                    state.len()
                );
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            let status = informer.status();
            resumed += u64::from(status.lists + status.streaming_lists == 0);
        }
        // Half of the time the end comes in the middle of the work.
        let how = random.random_range(0..3);
        killed = how == 2;
        if random.random_bool(0.5) {
            write(&raw, &collection, &mut random, 30).await;
        }
        for informer in informers {
            end(informer, how).await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        write(&raw, &collection, &mut random, 20).await;
    }
    assert!(resumed > 0, "some runs went on where the one before had ended");
    server.stop().await;
}
