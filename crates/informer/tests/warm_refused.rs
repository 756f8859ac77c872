//! Saved caches that must be rejected: of another server, collection, form or namespace, or damaged.
#![cfg(test)]

mod support;

use std::sync::Arc;
use std::time::Duration;

use listwatch::lister_watcher::{InMemory, ListRequest, SourceError, SourcePage, WatchRequest, WatchStream};
use listwatch::warm::{Freshness, WarmError, WarmOptions};
use listwatch::{ListerWatcher, Sources};
use listwatch_wire::status::Status;
use serde_json::json;
use support::informer::{Log, pod, settle};
use support::warm::{Directory, Problems, builder, lists, run};
use tokio::time::timeout;

/// The response of a server that is asked for its identity.
#[derive(Clone, Copy)]
enum IdentityAnswer {
    Named,
    Refused,
    /// No response, ever.
    Silent,
}

/// A collection with a scope, of a server that may not return its identity.
#[derive(Clone)]
struct Scoped {
    pods: InMemory,
    scope: &'static str,
    identity: IdentityAnswer,
}

impl Scoped {
    fn new(name: &str, scope: &'static str, identity: IdentityAnswer) -> Self {
        let pods = InMemory::new(1000).identity("one");
        pods.put(&pod(name)).unwrap();
        Self { pods, scope, identity }
    }
}

#[async_trait::async_trait]
impl ListerWatcher for Scoped {
    fn scope(&self) -> String {
        self.scope.to_owned()
    }

    async fn identity(&self) -> Result<Option<String>, SourceError> {
        match self.identity {
            IdentityAnswer::Named => ListerWatcher::identity(&self.pods).await,
            IdentityAnswer::Refused => Err(Status::forbidden("", "namespaces", "kube-system", "no").into()),
            IdentityAnswer::Silent => std::future::pending().await,
        }
    }

    async fn list(&self, request: &ListRequest) -> Result<SourcePage, SourceError> {
        self.pods.list(request).await
    }

    async fn watch(&self, request: &WatchRequest) -> Result<WatchStream, SourceError> {
        self.pods.watch(request).await
    }
}

/// One collection per namespace, of one server.
fn namespaces(names: &[&str]) -> Sources {
    let make = |namespace: &str| -> Arc<dyn ListerWatcher> {
        let pods = InMemory::new(1000).identity("one");
        pods.put(&json!({"metadata": {"namespace": namespace, "name": "a", "uid": namespace}})).unwrap();
        Arc::new(pods)
    };
    Sources::namespaces(names.iter().copied(), make)
}

/// The objects of another server are never shown, however alike the servers are.
#[tokio::test]
async fn the_cache_of_another_server_is_refused() {
    let directory = Directory::new("other");
    let problems = Problems::default();
    let (one, other) = (InMemory::new(1000).identity("one"), InMemory::new(1000).identity("other"));
    one.put(&pod("theirs")).unwrap();
    other.put(&pod("ours")).unwrap();
    run(one.clone(), &directory.0, &problems, &Log::default()).await.stop().await;
    let log = Log::default();
    let informer = run(other.clone(), &directory.0, &problems, &log).await;
    assert_eq!(log.take(), ["add x/ours 1 initial", "synced"]);
    assert_eq!(
        problems.take(),
        [WarmError::OtherServer { saved: "one".to_owned(), found: "other".to_owned() }]
    );
    informer.stop().await;
}

/// Every byte of the files counts: whichever is changed, the cache is refused or the same, and never another.
#[tokio::test]
async fn a_damaged_cache_is_refused() {
    let directory = Directory::new("damaged");
    let (source, problems) = (InMemory::new(1000), Problems::default());
    for name in ["a", "b"] {
        source.put(&pod(name)).unwrap();
    }
    run(source.clone(), &directory.0, &problems, &Log::default()).await.stop().await;
    let files = [directory.files(".head"), directory.files(".objects")].concat();
    assert_eq!(files.len(), 2, "{files:?}");
    let mut number = 0;
    for damaged in &files {
        let len = std::fs::read(damaged).unwrap().len();
        for at in (0..len).step_by(7) {
            number += 1;
            let copy = Directory::new(&format!("damaged-{number}"));
            std::fs::create_dir_all(&copy.0).unwrap();
            for file in &files {
                let mut bytes = std::fs::read(file).unwrap();
                if file == damaged {
                    bytes[at] ^= 0x10;
                }
                // Every tenth is cut off as well.
                let len = if file == damaged && number % 10 == 0 { bytes.len() / 2 } else { bytes.len() };
                std::fs::write(copy.0.join(file.file_name().unwrap()), &bytes[..len]).unwrap();
            }
            let informer = builder(source.clone(), &copy.0, &problems).build();
            informer.start().unwrap();
            assert!(informer.wait_synced().await);
            assert_eq!(problems.take().len(), 1, "byte {at} of {}", damaged.display());
            assert_eq!((lists(&informer), informer.store().len()), (1, 2));
            informer.stop().await;
        }
    }
}

/// Another transformation makes other objects of the same collection.
#[tokio::test]
async fn the_cache_of_another_form_is_refused() {
    let directory = Directory::new("form");
    let (source, problems) = (InMemory::new(1000), Problems::default());
    source.put(&pod("a")).unwrap();
    run(source.clone(), &directory.0, &problems, &Log::default()).await.stop().await;
    let changed = WarmOptions::new(&directory.0).version("2");
    let informer = builder(source.clone(), &directory.0, &problems).warm(changed).build();
    informer.start().unwrap();
    assert!(informer.wait_synced().await);
    assert!(matches!(problems.take().as_slice(), [WarmError::OtherScope { .. }]));
    assert_eq!(lists(&informer), 1);
    informer.stop().await;
}

/// A selector makes another collection of the same resource: what it did not select would seem deleted, or be missed.
#[tokio::test]
async fn the_cache_of_another_selector_is_refused() {
    let directory = Directory::new("selector");
    let (problems, log) = (Problems::default(), Log::default());
    let red = Scoped::new("red", "/api/v1/pods?labelSelector=red", IdentityAnswer::Named);
    let blue = Scoped::new("blue", "/api/v1/pods?labelSelector=blue", IdentityAnswer::Named);
    run(red.clone(), &directory.0, &problems, &Log::default()).await.drain().await;
    let informer = run(blue.clone(), &directory.0, &problems, &log).await;
    let refused = WarmError::OtherScope { saved: red.scope.to_owned(), wanted: blue.scope.to_owned() };
    assert_eq!(problems.take(), [refused]);
    assert_eq!(log.take(), ["add x/blue 1 initial", "synced"]);
    assert_eq!((lists(&informer), informer.store().len()), (1, 1));
    informer.stop().await;
}

/// The objects of a namespace that is no longer cached are removed from the store, and delivered as deleted.
#[tokio::test]
async fn a_namespace_that_is_no_longer_cached_is_not_restored() {
    let directory = Directory::new("namespaces");
    let (problems, log) = (Problems::default(), Log::default());
    run(namespaces(&["blue", "green"]), &directory.0, &problems, &log).await.drain().await;
    assert_eq!(log.take().len(), 3);
    let informer = run(namespaces(&["green"]), &directory.0, &problems, &log).await;
    assert_eq!(log.take(), ["delete blue/a 1 final state unknown", "synced"]);
    assert_eq!((lists(&informer), informer.store().len()), (0, 1), "the other namespace is whole");
    informer.stop().await;
    // One that comes again has no saved position, and is listed. The handler has received the removal of the other one: it
    // was delivered at every restart, because the objects were not saved again without it.
    let informer = run(namespaces(&["green", "red"]), &directory.0, &problems, &log).await;
    assert_eq!(log.take(), ["add red/a 1 initial", "synced"]);
    assert_eq!((lists(&informer), informer.store().len()), (1, 2));
    assert!(problems.take().is_empty());
    informer.stop().await;
}

/// All namespaces at once have one position, which is not that of any of them.
#[tokio::test]
async fn the_cache_of_all_namespaces_is_not_that_of_one() {
    let directory = Directory::new("all");
    let (problems, log) = (Problems::default(), Log::default());
    let all = Scoped::new("a", "", IdentityAnswer::Named);
    run(all, &directory.0, &problems, &Log::default()).await.drain().await;
    let informer = run(namespaces(&["x"]), &directory.0, &problems, &log).await;
    assert_eq!((lists(&informer), informer.store().len()), (1, 1));
    assert_eq!(informer.snapshot().iter().map(|object| object.uid().into_owned()).collect::<Vec<_>>(), ["x"]);
    informer.stop().await;
}

/// A server that may not be asked for its identity could be any: nothing saved is used, and nothing is saved.
#[tokio::test]
async fn a_server_without_an_identity_is_not_trusted() {
    let directory = Directory::new("unknown");
    let (problems, log) = (Problems::default(), Log::default());
    let named = Scoped::new("theirs", "", IdentityAnswer::Named);
    run(named, &directory.0, &problems, &Log::default()).await.drain().await;
    let saved = std::fs::read(&directory.files(".head")[0]).unwrap();
    let informer = run(Scoped::new("ours", "", IdentityAnswer::Refused), &directory.0, &problems, &log).await;
    assert!(matches!(problems.take().as_slice(), [WarmError::UnknownServer(_)]));
    assert_eq!(log.take(), ["add x/ours 1 initial", "synced"]);
    informer.drain().await;
    assert_eq!(std::fs::read(&directory.files(".head")[0]).unwrap(), saved, "as it was");
}

/// Objects are shown before the server has said which one it is only if the program asks for that.
#[tokio::test]
async fn an_unverified_cache_is_shown_on_request_only() {
    let directory = Directory::new("unverified");
    let problems = Problems::default();
    run(Scoped::new("a", "", IdentityAnswer::Named), &directory.0, &problems, &Log::default())
        .await
        .drain()
        .await;
    for (unverified, freshness) in [(false, Freshness::Empty), (true, Freshness::Stale)] {
        let options = WarmOptions::new(&directory.0).unverified(unverified);
        let silent = Scoped::new("a", "", IdentityAnswer::Silent);
        let informer = builder(silent, &directory.0, &problems).warm(options).build();
        informer.start().unwrap();
        let usable = timeout(Duration::from_millis(300), informer.wait_usable()).await;
        assert_eq!((usable.is_ok(), informer.freshness()), (unverified, freshness));
        assert_eq!(informer.store().len(), usize::from(unverified));
        informer.stop().await;
    }
}

/// Objects that were shown unverified and turn out to be of another server are removed, and handlers receive deletions.
#[tokio::test]
async fn an_unverified_cache_of_another_server_is_replaced() {
    let directory = Directory::new("replaced");
    let (problems, log) = (Problems::default(), Log::default());
    let other = InMemory::new(1000).identity("other");
    other.put(&pod("ours")).unwrap();
    run(Scoped::new("theirs", "", IdentityAnswer::Named), &directory.0, &problems, &Log::default())
        .await
        .drain()
        .await;
    let options = WarmOptions::new(&directory.0).unverified(true);
    let informer = builder(other, &directory.0, &problems).warm(options).build();
    informer.add_event_handler(log.handler()).unwrap();
    informer.start().unwrap();
    assert!(informer.wait_synced().await);
    settle().await;
    assert_eq!(
        log.take(),
        ["add x/theirs 1 initial", "delete x/theirs 1 final state unknown", "add x/ours 1", "synced"]
    );
    assert!(matches!(problems.take().as_slice(), [WarmError::OtherServer { .. }]));
    informer.stop().await;
}
