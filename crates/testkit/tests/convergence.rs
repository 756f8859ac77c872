//! Informers behind a network that cuts, stalls, delays, injects errors and half events: whenever writes pause, every cache
//! becomes equal to the server, and every handler has received a consistent history.
//!
//! Seconds in `cargo test`, a minute with `LISTWATCH_REAL=1`, the long form with `LISTWATCH_CONVERGE_SECONDS=600`.

#![cfg(test)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http::Method;
use k8s_openapi::api::core::v1::Secret;
use kube::core::ApiResource;
use listwatch::delta::Form;
use listwatch::factory::{InformerFactory, Scope};
use listwatch::kube::{KubeSource, ResourceKind};
use listwatch::{Deleted, Event, HandlerOptions, InformerOptions, Object, SharedInformer, Sources};
use listwatch_testkit::history::Seen;
use listwatch_testkit::history::handler::{self, HandlerCall};
use listwatch_testkit::proxy::{Odds, Plan, Proxy};
use listwatch_testkit::{RawClient, TestCollection, TestServer, with_real_parts};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

/// The time in which the first fault of a round must occur.
const FAULTS_WITHIN: Duration = Duration::from_secs(3);
/// The time a healed informer may take: longer than any backoff it may sit in.
const CONVERGES_WITHIN: Duration = Duration::from_secs(60);

fn run_for() -> Duration {
    let asked = std::env::var("LISTWATCH_CONVERGE_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(asked.unwrap_or(if with_real_parts() { 60 } else { 4 }))
}

fn seen(object: &Object<Value>) -> Seen {
    Seen::from_object(serde_json::from_slice(object.json()).unwrap()).unwrap()
}

type State = std::collections::BTreeMap<listwatch::ObjectKey, Seen>;

/// The same objects without anything but their metadata.
fn metadata_of(state: &State) -> State {
    let strip = |seen: &Seen| Seen { content: json!({"metadata": seen.content["metadata"]}), ..seen.clone() };
    state.iter().map(|(key, seen)| (key.clone(), strip(seen))).collect()
}

/// An informer, and the events of its two handlers.
struct Subject {
    informer: SharedInformer<Value>,
    metadata_only: bool,
    histories: Vec<Arc<Mutex<Vec<HandlerCall>>>>,
    /// The number of updates that came as patches.
    patched: Arc<AtomicUsize>,
}

/// The forms in which an informer can be had; each has its own way from the network to the store.
#[derive(Clone, Copy, Debug)]
enum Shape {
    /// One source, applied by the task that reads.
    Plain,
    /// One source per namespace, and a queue between.
    Namespaces,
    /// Changes of a key folded on their way.
    Coalescing,
    /// Lists in small pages instead of streams.
    Pages,
    /// A kind that is known at run time only.
    Dynamic,
    /// Nothing but the metadata.
    Metadata,
    /// The namespaces that have a label, in the coalescing form.
    Followed,
    /// Whole objects, although the server offers patches.
    Whole,
    /// As a part of a stream that carries the watches of a factory.
    OneStream,
}

const SHAPES: [Shape; 9] = [
    Shape::Plain,
    Shape::Namespaces,
    Shape::Coalescing,
    Shape::Pages,
    Shape::Dynamic,
    Shape::Metadata,
    Shape::Followed,
    Shape::Whole,
    Shape::OneStream,
];

impl Shape {
    fn informer(self, client: kube::Client) -> SharedInformer<Value> {
        let source = KubeSource::of::<Secret>(client.clone());
        let mut options = InformerOptions::default();
        let sources: Sources = match self {
            Self::Plain => source.namespace("default").into(),
            Self::Namespaces => source.namespaces(["default", "elsewhere"]).into(),
            Self::Coalescing => {
                options.queue = options.queue.form(Form::Coalescing);
                source.namespace("default").into()
            }
            Self::Pages => {
                options.reflector.streaming = false;
                options.reflector.page_size = Some(3);
                source.namespace("default").into()
            }
            Self::OneStream => {
                let factory = InformerFactory::new(client);
                let scope = Scope::of::<Secret>().namespace("default");
                return SharedInformer::clone(&factory.informer_for::<Value>(scope));
            }
            Self::Whole => source.namespace("default").deltas(false).into(),
            Self::Dynamic => {
                let resource = ApiResource::erase::<Secret>(&());
                KubeSource::new(client, ResourceKind::dynamic(&resource)).namespace("default").into()
            }
            Self::Metadata => {
                let resource = ResourceKind::of::<Secret>().metadata_only();
                KubeSource::new(client, resource).namespace("default").into()
            }
            Self::Followed => {
                options.queue = options.queue.form(Form::Coalescing);
                source.namespaces_labelled("kubernetes.io/metadata.name=default".parse().unwrap()).into()
            }
        };
        SharedInformer::<Value>::builder(sources).name(format!("{self:?}")).options(options).build()
    }
}

impl Subject {
    fn start(config: kube::Config, shape: Shape) -> Self {
        let informer = shape.informer(listwatch::kube::client(config).unwrap());
        let quick = Arc::new(Mutex::new(Vec::new()));
        let slow = Arc::new(Mutex::new(Vec::new()));
        let patched = Arc::new(AtomicUsize::new(0));
        let (history, counted) = (quick.clone(), Arc::clone(&patched));
        let handler = move |event: &Event<Value>| {
            if let Event::Updated { old, new } = event
                && new.changed_paths().is_some()
            {
                counted.fetch_add(1, Ordering::Relaxed);
                assert_eq!(
                    new.changed_since(old, "data.n"),
                    old.field(&["data", "n"]) != new.field(&["data", "n"])
                );
            }
            history.lock().unwrap().extend(handler_call(event));
        };
        informer.add_event_handler_with(handler, HandlerOptions::named("quick")).unwrap();
        let history = slow.clone();
        let handler = move |event: Event<Value>| {
            history.lock().unwrap().extend(handler_call(&event));
            tokio::time::sleep(Duration::from_millis(3))
        };
        informer.add_async_event_handler(handler, HandlerOptions::named("slow").max_backlog(16)).unwrap();
        informer.start().unwrap();
        let metadata_only = matches!(shape, Shape::Metadata);
        Self { informer, metadata_only, histories: vec![quick, slow], patched }
    }

    /// The first difference, if the informer should be up to date by now.
    fn wrong(&self, server: &State) -> Option<String> {
        let server = &if self.metadata_only { metadata_of(server) } else { server.clone() };
        let cache: State =
            self.informer.snapshot().iter().map(|object| (object.key().clone(), seen(object))).collect();
        if cache != *server {
            let name = self.informer.name();
            return Some(format!("{name}: cache has {} objects, server {}", cache.len(), server.len()));
        }
        self.histories.iter().find_map(|history| {
            handler::check(&history.lock().unwrap(), server).first().map(ToString::to_string)
        })
    }
}

fn handler_call(event: &Event<Value>) -> Option<HandlerCall> {
    match event {
        Event::Added { object, .. } => Some(HandlerCall::Added(seen(object))),
        Event::Updated { old, new } => Some(HandlerCall::Updated { old: seen(old), new: seen(new) }),
        Event::Deleted(Deleted { object, .. }) => Some(HandlerCall::Deleted(seen(object))),
        Event::Synced => None,
    }
}

/// Writes at random for a while, through a way without faults.
async fn write(raw: &RawClient, collection: &TestCollection, random: &mut StdRng, writes: usize) {
    for n in 0..writes {
        let name = format!("s{}", random.random_range(0..20));
        let item = format!("{}/{name}", collection.path());
        let body = json!({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": name, "namespace": "default"},
            "data": {"n": format!("{n:08}"), "padding": "QUFB".repeat(500)}});
        let (method, path, body) = match random.random_range(0..3) {
            0 => (Method::POST, collection.path(), Some(body)),
            1 => (Method::PUT, item, Some(body)),
            _ => (Method::DELETE, item, None),
        };
        // Creating what exists and changing what does not are refused; that is part of the noise.
        raw.call(method, &path, body.as_ref()).await.unwrap();
    }
}

async fn converges(server: &TestServer, proxy: &Proxy, seed: u64) {
    let collection = TestCollection::core("secrets", "default");
    let raw = server.raw().unwrap();
    let mut random = StdRng::seed_from_u64(seed);
    let subjects: Vec<_> = SHAPES.iter().map(|shape| Subject::start(proxy.config(), *shape)).collect();
    let end = Instant::now() + run_for();
    let odds = Odds { fault: 0.5, longest_wait: Duration::from_millis(500) };
    let mut round = 0;
    while round == 0 || Instant::now() < end {
        round += 1;
        proxy.set_plan(Plan::random(seed + round, odds));
        // A connection that was cut young is opened again after a second: until one of them has met a fault, the
        // round has shown nothing.
        let (before, faulty_by) = (proxy.counts().1, Instant::now() + FAULTS_WITHIN);
        for _ in 0..3 {
            write(&raw, &collection, &mut random, 60).await;
            proxy.cut_all();
        }
        while proxy.counts().1 == before && Instant::now() < faulty_by {
            write(&raw, &collection, &mut random, 10).await;
        }
        proxy.heal();
        let state = collection.state(&raw).await.unwrap();
        let deadline = Instant::now() + CONVERGES_WITHIN;
        while let Some(wrong) = subjects.iter().find_map(|subject| subject.wrong(&state)) {
            assert!(Instant::now() < deadline, "seed {seed}, round {round}: {wrong}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    let (requests, faults) = proxy.counts();
    assert!(faults > 0, "some requests met a fault");
    println!("seed {seed}: {round} rounds, {requests} requests, {faults} of them with a fault");
    for (shape, subject) in SHAPES.iter().zip(&subjects) {
        subject.informer.stop().await;
        let patched = subject.patched.load(Ordering::Relaxed);
        let whole = matches!(shape, Shape::Whole | Shape::Metadata);
        println!("{shape:?}: {patched} updates as patches");
        assert_eq!(patched > 0, !whole, "{shape:?}: {patched} updates as patches");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn informers_converge_whatever_the_network_does() {
    let server = TestServer::start().await.unwrap();
    let proxy = Proxy::start(server.config(), Plan::none()).await.unwrap();
    converges(&server, &proxy, 1).await;
}
