//! Saved caches that survive a restart. Saved caches that must be rejected are in `warm_refused.rs`.
#![cfg(test)]

mod support;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use listwatch::lister_watcher::InMemory;
use listwatch::warm::{Freshness, WarmOptions};
use listwatch::{HandlerOptions, ObjectKey, SharedInformer};
use serde_json::Value;
use support::informer::{Log, pod, settle};
use support::warm::{Directory, Problems, builder, lists, run};

/// The second run lists nothing, and its handler receives only the changes between the runs.
#[tokio::test]
async fn a_restart_costs_the_missed_changes() {
    let directory = Directory::new("restart");
    let (source, problems, log) = (InMemory::new(1000), Problems::default(), Log::default());
    for name in ["a", "b", "c"] {
        source.put(&pod(name)).unwrap();
    }
    let first = run(source.clone(), &directory.0, &problems, &log).await;
    assert_eq!(log.take(), ["add x/a 1 initial", "add x/b 2 initial", "add x/c 3 initial", "synced"]);
    first.drain().await;

    source.put(&pod("b")).unwrap();
    source.delete(&ObjectKey::namespaced("x", "c"));
    source.put(&pod("d")).unwrap();
    let second = run(source.clone(), &directory.0, &problems, &log).await;
    assert_eq!(lists(&second), 0, "nothing is listed");
    assert_eq!(log.take(), ["update x/b 2 -> 4", "delete x/c 5", "add x/d 6", "synced"]);
    let keys: Vec<_> = second.snapshot().iter().map(|object| object.key().to_string()).collect();
    assert_eq!(keys, ["x/a", "x/b", "x/d"]);
    assert_eq!(second.freshness(), Freshness::Current);
    assert!(problems.take().is_empty());
    second.stop().await;
}

/// A program that returned from `main` without a stop lost everything since the last interval.
#[test]
fn a_runtime_that_ends_saves_too() {
    let directory = Directory::new("runtime");
    let (source, problems, log) = (InMemory::new(1000), Problems::default(), Log::default());
    source.put(&pod("a")).unwrap();
    for expected in [1, 0] {
        // The clock stands still until every task waits: by then the server's identity is known, without which nothing is
        // saved.
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let listed =
            runtime.block_on(async { lists(&run(source.clone(), &directory.0, &problems, &log).await) });
        assert_eq!(listed, expected);
        drop(runtime);
    }
    assert_eq!(log.take(), ["add x/a 1 initial", "synced", "synced"]);
}

/// A handler without `since_last_run` receives everything: the saved objects, then the missed changes.
#[tokio::test]
async fn handlers_without_a_saved_position_receive_everything() {
    let directory = Directory::new("everything");
    let (source, problems) = (InMemory::new(1000), Problems::default());
    source.put(&pod("a")).unwrap();
    run(source.clone(), &directory.0, &problems, &Log::default()).await.drain().await;
    source.put(&pod("a")).unwrap();
    let informer = builder(source.clone(), &directory.0, &problems).build();
    let log = Log::default();
    informer.add_event_handler(log.handler()).unwrap();
    informer.start().unwrap();
    assert!(informer.wait_synced().await);
    settle().await;
    assert_eq!(log.take(), ["add x/a 1 initial", "update x/a 1 -> 2", "synced"]);
    informer.stop().await;
}

/// Events that a handler had not read when the program was stopped are delivered when it runs again, including deletions,
/// whose objects are no longer in the cache.
#[tokio::test]
async fn unread_events_survive_a_stop() {
    let directory = Directory::new("unread");
    let (source, problems, log) = (InMemory::new(1000), Problems::default(), Log::default());
    for name in ["a", "b", "c"] {
        source.put(&pod(name)).unwrap();
    }
    let informer = builder(source.clone(), &directory.0, &problems).build();
    let gate = Arc::new(tokio::sync::Semaphore::new(4));
    let (opening, told) = (Arc::clone(&gate), log.clone());
    let handler = move |event: listwatch::Event<Value>| {
        let (gate, told) = (Arc::clone(&opening), told.clone());
        async move {
            gate.acquire().await.unwrap().forget();
            told.push(&event);
        }
    };
    let options = HandlerOptions::named("log").since_last_run().stop_grace(Duration::from_millis(10));
    informer.add_async_event_handler(handler, options).unwrap();
    informer.start().unwrap();
    assert!(informer.wait_synced().await);
    while log.0.lock().unwrap().len() < 4 {
        settle().await;
    }
    log.take();
    let last = source.put(&pod("b")).unwrap();
    source.delete(&ObjectKey::namespaced("x", "c"));
    informer.store().wait_for(last.next()).await.unwrap();
    settle().await;
    informer.stop().await;
    assert!(log.take().is_empty(), "it was stuck");

    let second = run(source.clone(), &directory.0, &problems, &log).await;
    assert_eq!(log.take(), ["delete x/c 5 final state unknown", "add x/b 4 initial", "synced"]);
    assert_eq!(lists(&second), 0);
    second.stop().await;
}

/// The objects can be read before the server has been asked for a single one of them.
#[tokio::test]
async fn a_saved_cache_is_readable_before_it_is_current() {
    let directory = Directory::new("stale");
    let (source, problems) = (InMemory::new(1000).identity("one"), Problems::default());
    source.put(&pod("a")).unwrap();
    run(source.clone(), &directory.0, &problems, &Log::default()).await.stop().await;

    // The same server, which answers only the request for its identity.
    let informer =
        SharedInformer::<Value>::builder(Deaf).name("pods").warm(WarmOptions::new(&directory.0)).build();
    informer.start().unwrap();
    assert!(informer.wait_usable().await);
    assert_eq!((informer.freshness(), informer.has_synced()), (Freshness::Stale, false));
    assert!(informer.store().get_by("x", "a").is_some());
    informer.stop().await;
}

struct Deaf;

#[async_trait::async_trait]
impl listwatch::ListerWatcher for Deaf {
    async fn list(
        &self,
        _: &listwatch::lister_watcher::ListRequest,
    ) -> Result<listwatch::lister_watcher::SourcePage, listwatch::lister_watcher::SourceError> {
        std::future::pending().await
    }

    async fn watch(
        &self,
        _: &listwatch::lister_watcher::WatchRequest,
    ) -> Result<listwatch::lister_watcher::WatchStream, listwatch::lister_watcher::SourceError> {
        std::future::pending().await
    }

    async fn identity(&self) -> Result<Option<String>, listwatch::lister_watcher::SourceError> {
        Ok(Some("one".to_owned()))
    }
}

/// The saved revision has expired: one list, and handlers receive the difference.
#[tokio::test]
async fn an_expired_cache_is_listed_anew() {
    let directory = Directory::new("expired");
    let (source, problems, log) = (InMemory::new(3), Problems::default(), Log::default());
    for name in ["a", "b"] {
        source.put(&pod(name)).unwrap();
    }
    run(source.clone(), &directory.0, &problems, &log).await.drain().await;
    log.take();
    source.delete(&ObjectKey::namespaced("x", "b"));
    for _ in 0..5 {
        source.put(&pod("c")).unwrap();
    }
    let second = run(source.clone(), &directory.0, &problems, &log).await;
    assert_eq!(log.take(), ["delete x/b 2 final state unknown", "add x/c 8", "synced"]);
    assert_eq!(lists(&second), 1);
    second.stop().await;
}

/// Bookmarks move the revision on; the objects, which stay as they are, are not written again for that.
#[tokio::test(start_paused = true)]
async fn only_what_changed_is_written() {
    let directory = Directory::new("interval");
    let (source, problems, log) = (InMemory::new(1000), Problems::default(), Log::default());
    source.put(&pod("a")).unwrap();
    let informer = run(source.clone(), &directory.0, &problems, &log).await;
    tokio::time::sleep(Duration::from_secs(61)).await;
    let written = wait_for_files(&directory, 1).await;
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(wait_for_files(&directory, 1).await, written, "the same file");
    source.put(&pod("b")).unwrap();
    tokio::time::sleep(Duration::from_secs(61)).await;
    let mut now = written.clone();
    for _ in 0..1000 {
        std::thread::sleep(Duration::from_millis(1));
        settle().await;
        now = directory.files(".objects");
        if now.len() == 1 && now != written {
            break;
        }
    }
    assert_ne!(now, written, "another file");
    informer.stop().await;
}

/// Saves are written by a thread, which a paused clock does not wait for.
async fn wait_for_files(directory: &Directory, count: usize) -> Vec<PathBuf> {
    for _ in 0..1000 {
        let files = directory.files(".objects");
        if files.len() == count && !directory.files(".head").is_empty() {
            return files;
        }
        std::thread::sleep(Duration::from_millis(1));
        settle().await;
    }
    panic!("nothing was saved")
}
