//! A factory whose informers share one stream: with a server that offers it, with one that does not, and behind a network with
//! faults.
//!
//! Seconds in `cargo test`, the long form with `LISTWATCH_CONVERGE_SECONDS=600`.

#![cfg(test)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http::{Method, StatusCode};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use listwatch::factory::{InformerFactory, Scope, Shared};
use listwatch::warm::WarmOptions;
use listwatch::{Event, Object, Revision};
use listwatch_testkit::proxy::{Fault, FaultAnswer, Odds, Plan, Proxy, Rule};
use listwatch_testkit::{RawClient, TestCollection, TestServer, with_real_parts};
use listwatch_wire::Status;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(60);
const KINDS: [&str; 2] = ["secrets", "configmaps"];

fn run_for() -> Duration {
    let asked = std::env::var("LISTWATCH_CONVERGE_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(asked.unwrap_or(if with_real_parts() { 60 } else { 4 }))
}

/// The informers of a program that is about several kinds.
struct Program {
    factory: InformerFactory,
    /// In the order of [`KINDS`].
    informers: [Shared<Value>; 2],
}

impl Program {
    async fn start(factory: InformerFactory) -> Self {
        let secrets = factory.informer_for::<Value>(Scope::of::<Secret>().namespace("default"));
        let maps = factory.informer_for::<Value>(Scope::of::<ConfigMap>().namespace("default"));
        factory.informer_for::<Value>(Scope::of::<Namespace>());
        factory.start().unwrap();
        Self { factory, informers: [secrets, maps] }
    }

    async fn synced(self) -> Self {
        let synced = tokio::time::timeout(PATIENCE, self.factory.wait_for_cache_sync()).await;
        assert!(synced.unwrap());
        self
    }

    fn cache(&self, kind: usize) -> BTreeMap<String, u64> {
        let seen = |object: &Object<Value>| (object.key().to_string(), object.revision().0);
        self.informers[kind].snapshot().iter().map(seen).collect()
    }
}

fn factory(config: kube::Config) -> InformerFactory {
    InformerFactory::new(listwatch::kube::client(config).unwrap())
}

fn object(kind: &str, name: &str, n: usize) -> Value {
    let (kind, text) = if kind == "secrets" { ("Secret", "QUFB") } else { ("ConfigMap", "text") };
    json!({"kind": kind, "apiVersion": "v1", "metadata": {"name": name, "namespace": "default"},
        "data": {"n": format!("{n:08}"), "padding": text.repeat(500)}})
}

async fn put(raw: &RawClient, kind: &str, name: &str, n: usize) -> Revision {
    let path = TestCollection::core(kind, "default").path();
    let body = object(kind, name, n);
    let mut answer = raw.call(Method::PUT, &format!("{path}/{name}"), Some(&body)).await.unwrap();
    if answer.0 == StatusCode::NOT_FOUND {
        answer = raw.call(Method::POST, &path, Some(&body)).await.unwrap();
    }
    answer.1["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

/// A rule that no request should meet.
fn never(requests_with: &'static str) -> Plan {
    Plan::script(vec![Rule { requests_with, fault: Fault::Refuse }; 20])
}

async fn streams(raw: &RawClient) -> u64 {
    let (_, metrics) = raw.call(Method::GET, "/metrics", None).await.unwrap();
    let metrics = metrics.as_str().unwrap();
    let counted = |line: &&str| {
        line.starts_with("apiserver_request_total") && line.contains("subresource=\"/listwatch/v1/watch\"")
    };
    let counts =
        metrics.lines().filter(counted).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    counts.sum::<f64>() as u64
}

#[tokio::test(flavor = "multi_thread")]
async fn the_informers_of_a_factory_share_one_stream() {
    let server = TestServer::start().await.unwrap();
    let raw = server.raw().unwrap();
    put(&raw, "secrets", "before", 0).await;
    let proxy = Proxy::start(server.config(), never("watch=")).await.unwrap();
    let program = Program::start(factory(proxy.config())).await.synced().await;
    assert_eq!(program.cache(0).len(), 1);
    let revision = put(&raw, "configmaps", "after", 1).await;
    tokio::time::timeout(PATIENCE, program.informers[1].store().wait_for(revision)).await.unwrap().unwrap();
    assert_eq!(proxy.counts().1, 0, "no ordinary watch was opened");
    // Another kind joins later, and one goes.
    let later = program.factory.informer_for::<Value>(Scope::of::<Secret>());
    program.factory.start().unwrap();
    assert!(tokio::time::timeout(PATIENCE, later.wait_synced()).await.unwrap());
    drop(later);
    program.factory.release_unused();
    let revision = put(&raw, "configmaps", "after", 2).await;
    tokio::time::timeout(PATIENCE, program.informers[1].store().wait_for(revision)).await.unwrap().unwrap();
    assert_eq!(proxy.counts().1, 0);
    program.factory.shutdown().await;
}

/// After `wait_for`, what is read of any kind is not older than the write, also of a kind that is quiet: without a stream that
/// takes until the next bookmark, a minute.
#[tokio::test(flavor = "multi_thread")]
async fn all_kinds_have_seen_a_revision_that_was_waited_for() {
    let server = TestServer::start().await.unwrap();
    let raw = server.raw().unwrap();
    let program = Program::start(factory(server.config())).await.synced().await;
    for n in 0..5 {
        let secret = put(&raw, "secrets", "s", n).await;
        let map = put(&raw, "configmaps", "m", n).await;
        let quiet = put(&raw, "secrets", "s", n + 100).await;
        let waited = tokio::time::timeout(Duration::from_secs(20), program.factory.wait_for(quiet));
        waited.await.expect("well before the next bookmark").unwrap();
        assert!(secret < map && map < quiet);
        assert_eq!(program.cache(0)["default/s"], quiet.0);
        assert_eq!(program.cache(1)["default/m"], map.0);
        assert!(program.informers.iter().all(|informer| informer.store().revision() >= quiet));
    }
    program.factory.shutdown().await;
    assert!(program.factory.wait_for(Revision(u64::MAX - 1)).await.is_err(), "nothing comes any more");
}

/// A server, or a proxy on the way, that has no streams is watched kind by kind.
#[tokio::test(flavor = "multi_thread")]
async fn without_streams_each_kind_is_watched_on_its_own() {
    let server = TestServer::start().await.unwrap();
    let raw = server.raw().unwrap();
    let not_found = || Fault::Answer(FaultAnswer::status(&Status::no_such_path()));
    let forbidden = || Fault::Answer(FaultAnswer::status(&Status::forbidden("", "", "", "no")));
    let unavailable = || Fault::Answer(FaultAnswer::html(502));
    for (path, fault) in [
        ("/listwatch/v1", not_found()),
        ("/listwatch/v1", forbidden()),
        ("/listwatch/v1", unavailable()),
        ("/listwatch/v1/watch", not_found()),
        ("/listwatch/v1/watch", unavailable()),
        ("/listwatch/v1/watch", Fault::Refuse),
        ("/listwatch/v1/watch", Fault::Answer(FaultAnswer::error_event(&Status::internal("no")))),
    ] {
        let plan = Plan::script(vec![Rule { requests_with: path, fault: fault.clone() }; 50]);
        let proxy = Proxy::start(server.config(), plan).await.unwrap();
        let program = Program::start(factory(proxy.config())).await.synced().await;
        let revision = put(&raw, "secrets", "s", 1).await;
        let waited = tokio::time::timeout(PATIENCE, program.informers[0].store().wait_for(revision)).await;
        assert!(waited.is_ok(), "{path} {fault:?}");
        program.factory.shutdown().await;
    }
    assert_eq!(streams(&raw).await, 0, "no stream was opened");
}

/// The server is replaced by one without streams while they are in use: the watches go on.
#[tokio::test(flavor = "multi_thread")]
async fn informers_go_on_when_streams_are_no_longer_offered() {
    let server = TestServer::start().await.unwrap();
    let raw = server.raw().unwrap();
    let proxy = Proxy::start(server.config(), Plan::none()).await.unwrap();
    let program = Program::start(factory(proxy.config())).await.synced().await;
    let gone = Fault::Answer(FaultAnswer::status(&Status::no_such_path()));
    proxy.set_plan(Plan::script(vec![Rule { requests_with: "/listwatch/v1", fault: gone }; 1000]));
    proxy.cut_all();
    let revision = put(&raw, "secrets", "s", 1).await;
    tokio::time::timeout(PATIENCE, program.informers[0].store().wait_for(revision)).await.unwrap().unwrap();
    program.factory.shutdown().await;
}

async fn write(raw: &RawClient, random: &mut StdRng, writes: usize) {
    for n in 0..writes {
        let kind = KINDS[random.random_range(0..2)];
        let name = format!("o{}", random.random_range(0..10));
        if random.random_bool(0.3) {
            let path = format!("{}/{name}", TestCollection::core(kind, "default").path());
            raw.call(Method::DELETE, &path, None).await.unwrap();
        } else {
            put(raw, kind, &name, n).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn informers_of_one_stream_converge_whatever_the_network_does() {
    let server = TestServer::start().await.unwrap();
    let raw = server.raw().unwrap();
    let proxy = Proxy::start(server.config(), Plan::none()).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let warm = || WarmOptions::new(directory.path()).interval(Duration::from_secs(1));
    let mut random = StdRng::seed_from_u64(1);
    let mut program = Program::start(factory(proxy.config()).warm(warm())).await;
    let patched = Arc::new(Mutex::new(0));
    let (end, mut round) = (Instant::now() + run_for(), 0);
    while round < 3 || Instant::now() < end {
        round += 1;
        for informer in &program.informers {
            let patched = Arc::clone(&patched);
            let count = move |event: &Event<Value>| {
                if let Event::Updated { new, .. } = event {
                    *patched.lock().unwrap() += usize::from(new.changed_paths().is_some());
                }
            };
            informer.add_event_handler(count).unwrap();
        }
        let odds = Odds { fault: 0.4, longest_wait: Duration::from_millis(300) };
        proxy.set_plan(Plan::random(round, odds));
        for _ in 0..3 {
            write(&raw, &mut random, 40).await;
            proxy.cut_all();
        }
        proxy.heal();
        for (kind, name) in KINDS.iter().enumerate() {
            let state = TestCollection::core(name, "default").state(&raw).await.unwrap();
            let state: BTreeMap<_, _> =
                state.iter().map(|(key, seen)| (key.to_string(), seen.revision.0)).collect();
            let by = Instant::now() + PATIENCE;
            while program.cache(kind) != state {
                assert!(Instant::now() < by, "round {round}: {name} {:?} {state:?}", program.cache(kind));
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        // The program ends, and its caches are used again.
        if round % 2 == 0 {
            program.factory.shutdown().await;
            program = Program::start(factory(proxy.config()).warm(warm())).await;
        }
    }
    program.factory.shutdown().await;
    assert!(*patched.lock().unwrap() > 0, "some updates came as patches");
    assert!(proxy.counts().1 > 0, "some requests met a fault");
    assert!(streams(&raw).await > 0, "streams were used");
}
