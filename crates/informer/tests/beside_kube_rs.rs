//! Four ways in which kube-rs (5.0) loses track, each beside what happens here. Both sides get the same client and the
//! same results; only what is built on top of it differs.
//!
//! The assertions about kube-rs are there to notice when it gets better: then its half of the test is to be deleted.

#![cfg(test)]

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ObjectMeta};
use kube::client::Body;
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Client, ResourceExt};
use listwatch::kube::KubeSource;
use listwatch::lister_watcher::InMemory;
use listwatch::{Event, SharedInformer};
use serde_json::{Value, json};
use tokio::time::timeout;

/// Of the paused clock: long enough for every backoff there is.
const LONG: Duration = Duration::from_secs(600);

type ScriptedAnswer = Response<StreamBody<BoxStream<'static, Result<Frame<Bytes>, Infallible>>>>;

fn answer(code: u16, body: String, stays_open: bool) -> ScriptedAnswer {
    let data = stream::iter([Ok(Frame::data(Bytes::from(body)))]);
    let body = if stays_open { data.chain(stream::pending()).boxed() } else { data.boxed() };
    Response::builder().status(code).body(StreamBody::new(body)).unwrap()
}

fn status(code: u16, reason: &str) -> Value {
    let (message, kind) = (format!("test: {reason}"), "Status");
    json!({"kind": kind, "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
        "reason": reason, "code": code})
}

fn list(version: &str, names: &[String]) -> Value {
    // No object changes in these tests; they come and go.
    let item = |name: &String| json!({"metadata": {"namespace": "x", "name": name, "uid": name, "resourceVersion": "3"}});
    let items: Vec<_> = names.iter().map(item).collect();
    json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": version}, "items": items})
}

/// The response in which the server reports that resource version 5 is too old.
#[derive(Clone, Copy)]
enum Expired {
    /// In the status line.
    AtStart,
    /// In the first event.
    InStream,
    /// It is not.
    Never,
}

/// A server whose first list is `before` at version 5, and every later one `after` at version 9.
struct Server {
    before: Vec<String>,
    after: Vec<String>,
    expired: Expired,
    lists: AtomicUsize,
    watches: AtomicUsize,
}

impl Server {
    fn new(before: &[&str], after: &[&str], expired: Expired) -> Arc<Self> {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let (lists, watches) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Self { before: owned(before), after: owned(after), expired, lists, watches })
    }

    fn client(self: &Arc<Self>) -> Client {
        let server = Arc::clone(self);
        let service = tower::service_fn(move |request: Request<Body>| {
            let answer = server.answer(request.uri().query().unwrap_or_default());
            async move { Ok::<_, Infallible>(answer) }
        });
        Client::new(service, "x")
    }

    fn answer(&self, query: &str) -> ScriptedAnswer {
        if query.contains("sendInitialEvents=true") {
            return answer(422, status(422, "Invalid").to_string(), false);
        }
        if query.contains("watch=") {
            self.watches.fetch_add(1, Ordering::SeqCst);
            let old = query.contains("resourceVersion=5");
            return match self.expired {
                Expired::AtStart if old => answer(410, status(410, "Expired").to_string(), false),
                Expired::InStream if old => {
                    let event = json!({"type": "ERROR", "object": status(410, "Expired")});
                    answer(200, format!("{event}\n"), false)
                }
                _ => answer(200, String::new(), true),
            };
        }
        let first = self.lists.fetch_add(1, Ordering::SeqCst) == 0;
        let list = if first { list("5", &self.before) } else { list("9", &self.after) };
        answer(200, list.to_string(), false)
    }

    fn lists(&self) -> usize {
        self.lists.load(Ordering::SeqCst)
    }

    fn watcher(
        self: &Arc<Self>,
    ) -> impl Stream<Item = watcher::Result<watcher::Event<ConfigMap>>> + Send + use<> {
        watcher(Api::<ConfigMap>::all(self.client()), watcher::Config::default()).default_backoff()
    }

    fn informer(self: &Arc<Self>) -> SharedInformer<ConfigMap> {
        let informer = SharedInformer::new(KubeSource::of::<ConfigMap>(self.client()));
        informer.start().unwrap();
        informer
    }
}

/// The items that a stream yields for a long time, in words.
async fn words<T>(stream: impl Stream<Item = T>, word: impl Fn(T) -> String) -> Vec<String> {
    let mut stream = pin!(stream);
    let mut words = Vec::new();
    while let Ok(Some(item)) = timeout(LONG, stream.next()).await {
        words.push(word(item));
        if words.len() > 200 {
            break;
        }
    }
    words
}

fn kube_rs_word(event: watcher::Result<watcher::Event<ConfigMap>>) -> String {
    match event {
        Ok(watcher::Event::Apply(map) | watcher::Event::InitApply(map)) => {
            format!("apply {}", map.name_any())
        }
        Ok(watcher::Event::Delete(map)) => format!("delete {}", map.name_any()),
        Ok(watcher::Event::Init | watcher::Event::InitDone) => "init".to_owned(),
        Err(_) => "error".to_owned(),
    }
}

fn our_word<K>(event: Event<K>) -> String {
    match event {
        Event::Added { object, .. } => format!("add {}", object.name()),
        Event::Updated { new, .. } => format!("update {}", new.name()),
        Event::Deleted(gone) if gone.final_state_unknown => {
            format!("delete {}, found out later", gone.object.name())
        }
        Event::Deleted(gone) => format!("delete {}", gone.object.name()),
        Event::Synced => "synced".to_owned(),
    }
}

/// The server has compacted the version of the list before the watch begins, and responds with 410.
#[tokio::test(start_paused = true)]
async fn expired_at_the_start_of_a_watch() {
    let server = Server::new(&["a"], &["a", "b"], Expired::AtStart);
    let seen = words(server.watcher(), kube_rs_word).await;
    assert!(!seen.contains(&"apply b".to_owned()), "kube-rs has learnt to list again");
    assert_eq!(server.lists(), 1);
    assert!(seen.iter().filter(|word| *word == "error").count() > 10);

    let server = Server::new(&["a"], &["a", "b"], Expired::AtStart);
    let informer = server.informer();
    let seen = words(informer.events().unwrap(), our_word).await;
    assert!(seen.contains(&"add b".to_owned()), "{seen:?}");
    assert_eq!((informer.store().len(), server.lists()), (2, 2));
}

/// An object is deleted while no watch is open; the next list does not have it.
#[tokio::test(start_paused = true)]
async fn deleted_between_two_lists() {
    let server = Server::new(&["a", "b"], &["a"], Expired::InStream);
    let seen = words(server.watcher(), kube_rs_word).await;
    assert_eq!(server.lists(), 2);
    assert!(!seen.contains(&"delete b".to_owned()), "kube-rs has learnt to tell of it");

    let server = Server::new(&["a", "b"], &["a"], Expired::InStream);
    let seen = words(server.informer().events().unwrap(), our_word).await;
    assert_eq!(seen.last().map(String::as_str), Some("delete b, found out later"), "{seen:?}");
    assert_eq!(seen.iter().filter(|word| *word == "add a").count(), 1);
}

/// Two listen, one of them does not keep up.
#[tokio::test(start_paused = true)]
async fn a_slow_subscriber() {
    let names: Vec<_> = (0..100).map(|n| format!("o{n}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();

    let server = Server::new(&names, &names, Expired::Never);
    let (_, writer) = reflector::store_shared::<ConfigMap>(10);
    let _slow = writer.subscribe().unwrap();
    let fast = writer.subscribe().unwrap();
    let root = tokio::spawn(server.watcher().reflect_shared(writer).for_each(|_| std::future::ready(())));
    let heard = words(fast, |map| map.name_any()).await.len();
    assert!(heard < 100, "kube-rs has learnt to go on without the slow one");
    root.abort();

    let server = Server::new(&names, &names, Expired::Never);
    let informer = server.informer();
    let _slow = informer.events().unwrap();
    let heard: BTreeSet<_> = words(informer.events().unwrap(), our_word).await.into_iter().collect();
    assert_eq!(heard.len(), 100 + 1);
}

fn config_map(name: &str) -> ConfigMap {
    let (name, namespace) = (Some(name.to_owned()), Some("x".to_owned()));
    ConfigMap { metadata: ObjectMeta { name, namespace, ..ObjectMeta::default() }, ..ConfigMap::default() }
}

/// An object is created and deleted before the subscriber polls; then twenty others are created.
#[tokio::test(start_paused = true)]
async fn a_wake_up_that_gets_lost() {
    let (store, writer) = reflector::store_shared::<ConfigMap>(5);
    let subscriber = writer.subscribe().unwrap();
    let mut events = vec![watcher::Event::Init, watcher::Event::InitDone];
    events.extend([watcher::Event::Apply(config_map("gone")), watcher::Event::Delete(config_map("gone"))]);
    events.extend((0..20).map(|n| watcher::Event::Apply(config_map(&format!("o{n}")))));
    let mut root =
        Box::pin(stream::iter(events.into_iter().map(Ok::<_, watcher::Error>)).reflect_shared(writer));
    for _ in 0..4 {
        root.next().await.unwrap().unwrap();
    }
    let heard = Arc::new(Mutex::new(Vec::new()));
    let listener = tokio::spawn({
        let heard = Arc::clone(&heard);
        subscriber.for_each(move |map| {
            heard.lock().unwrap().push(map.name_any());
            std::future::ready(())
        })
    });
    tokio::task::yield_now().await;
    let finished = timeout(LONG, root.for_each(|_| std::future::ready(()))).await.is_ok();
    assert!(!finished, "kube-rs has learnt to wake its subscribers");
    assert!(heard.lock().unwrap().is_empty());
    assert!(store.len() < 20);
    listener.abort();

    let source = InMemory::new(1_000);
    let put = |name: &str| source.put(&json!({"metadata": {"namespace": "x", "name": name}})).unwrap();
    let informer = SharedInformer::<Value>::new(source.clone());
    informer.start().unwrap();
    let events = informer.events().unwrap();
    put("gone");
    let revision = source.delete(&"x/gone".parse().unwrap()).unwrap();
    informer.store().wait_for(revision).await.unwrap();
    let listener = tokio::spawn(words(events, our_word));
    tokio::task::yield_now().await;
    for n in 0..20 {
        put(&format!("o{n}"));
    }
    let heard = listener.await.unwrap();
    assert_eq!(heard.iter().filter(|word| word.starts_with("add o")).count(), 20, "{heard:?}");
    assert_eq!(informer.store().len(), 20);
}
