//! The whole informer over scripted and in-memory sources: the events of handlers and the content of the store.
//!
//! Time is paused: a test that waits a minute takes none. Relists are in `relist.rs`, handlers in `handlers.rs`.
#![cfg(test)]

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use listwatch::delta::{Form, QueueOptions};
use listwatch::lister_watcher::{InMemory, Scripted, ScriptedAnswer, WatchEvent};
use listwatch::{InformerOptions, Revision};
use listwatch_wire::status::Status;
use serde_json::{Value, json};
use support::informer::{Informer, events, expired, page, pod, settle, started};
use support::object;
use tokio::time::{advance, sleep, timeout};

#[tokio::test(start_paused = true)]
async fn handlers_receive_the_initial_state_then_changes() {
    let source = InMemory::new(100);
    source.put(&pod("a")).unwrap();
    let (informer, log) = started(source.clone()).await;
    assert!(informer.wait_synced().await);
    settle().await;
    assert_eq!(log.take(), ["add x/a 1 initial", "synced"]);
    source.put(&pod("a")).unwrap();
    source.put(&pod("b")).unwrap();
    source.delete(&"x/a".parse().unwrap()).unwrap();
    informer.store().wait_for(Revision(4)).await.unwrap();
    settle().await;
    assert_eq!(log.take(), ["update x/a 1 -> 2", "add x/b 3", "delete x/a 4"]);
    informer.stop().await;
    assert!(informer.is_stopped());
}

/// The store decides what is new, not the server's word for it.
#[tokio::test(start_paused = true)]
async fn added_of_a_known_object_is_an_update_and_modified_of_an_unknown_one_an_addition() {
    let source = Scripted::lists_only();
    source.on_list(page(10, &[("x/a", 1)]));
    source.on_watch(events(vec![
        WatchEvent::Added(object("x/a", 11)),
        WatchEvent::Modified(object("x/b", 12)),
    ]));
    let (informer, log) = started(source).await;
    informer.store().wait_for(Revision(12)).await.unwrap();
    settle().await;
    assert_eq!(log.take()[2..], ["update x/a 1 -> 11", "add x/b 12"]);
}

/// The coalescing form hands out a key that changed twice before one that changed in between. The store announced the
/// revision of the one in between for good, and a wait for the last one never ended.
#[tokio::test(start_paused = true)]
async fn both_forms_announce_the_revision_of_what_the_store_holds() {
    for form in [Form::InOrder, Form::Coalescing] {
        let source = Scripted::lists_only();
        source.on_list(page(10, &[]));
        let change = |key: &str, revision| WatchEvent::Modified(object(key, revision));
        source.on_watch(events(vec![change("x/a", 11), change("x/b", 12), change("x/a", 13)]));
        let mut options = InformerOptions::default();
        options.queue = QueueOptions::default().form(form);
        let informer = Informer::builder(source).options(options).build();
        informer.start().unwrap();
        let waited = timeout(Duration::from_secs(5), informer.store().wait_for(Revision(13))).await;
        assert!(waited.is_ok(), "{form:?} stands at {}", informer.store().revision());
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_of_an_unknown_object_is_not_delivered() {
    let source = Scripted::lists_only();
    source.on_list(page(10, &[]));
    source.on_watch(events(vec![WatchEvent::Deleted(object("x/never-seen", 11))]));
    let (informer, log) = started(source).await;
    informer.store().wait_for(Revision(11)).await.unwrap();
    settle().await;
    assert_eq!(log.take(), ["synced"]);
}

#[tokio::test(start_paused = true)]
async fn several_namespaces_make_one_cache_and_fail_apart() {
    let (one, two) = (Arc::new(InMemory::new(10)), Arc::new(Scripted::lists_only()));
    one.put(&json!({"metadata": {"namespace": "one", "name": "a"}})).unwrap();
    two.on_list(ScriptedAnswer::Error(Status::internal("not yet").into()));
    two.on_list(page(50, &[("two/b", 7)]));
    two.on_watch(events(vec![expired()]));
    two.on_list(page(60, &[("two/c", 55)]));
    let sources = listwatch::Sources::per_namespace([
        ("one".to_owned(), Arc::clone(&one) as Arc<dyn listwatch::ListerWatcher>),
        ("two".to_owned(), two as Arc<dyn listwatch::ListerWatcher>),
    ]);
    let (informer, log) = started(sources).await;
    settle().await;
    assert_eq!(log.take(), ["add one/a 1 initial"]);
    assert!(!informer.has_synced());
    informer.wait_synced().await;
    sleep(Duration::from_secs(5)).await;
    // The relist of one namespace leaves the other alone.
    assert_eq!(
        log.take(),
        ["add two/b 7 initial", "synced", "delete two/b 7 final state unknown", "add two/c 55"]
    );
    assert_eq!(informer.store().len(), 2);
    // The position of the store is that of the slowest source.
    assert_eq!(informer.store().revision(), Revision(1));
    advance(Duration::from_secs(1)).await;
    informer.stop().await;
}

/// An object that an index cannot place is reported, not dropped: it is cached all the same.
#[tokio::test(start_paused = true)]
async fn an_object_that_an_index_cannot_place_is_reported() {
    let source = InMemory::new(10);
    source.put(&pod("a")).unwrap();
    let problems = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&problems);
    let informer = Informer::builder(source.clone())
        .on_problem(move |problem, _| heard.lock().unwrap().push(problem.to_string()))
        .build();
    let index = informer.store().add_index("node", |pod: &listwatch::Object<Value>| {
        let node = pod.text(&["spec", "nodeName"]);
        let node = node.ok_or_else(|| listwatch::store::IndexError::cannot_place(pod, "not scheduled"))?;
        Ok([node.into_owned()].into_iter().collect())
    });
    let index = index.unwrap();
    informer.start().unwrap();
    informer.wait_synced().await;
    let placed = json!({"metadata": {"namespace": "x", "name": "b"}, "spec": {"nodeName": "n1"}});
    informer.store().wait_for(source.put(&placed).unwrap()).await.unwrap();
    assert_eq!(*problems.lock().unwrap(), ["index \"node\" cannot place x/a: not scheduled"]);
    let snapshot = informer.snapshot();
    assert_eq!((snapshot.len(), snapshot.by_index(&index, "n1").unwrap().count()), (2, 1));
}

/// A slow reader of a list does not block the writer, and sees one state all the while.
#[test]
fn a_reader_in_the_middle_of_a_list_does_not_hold_up_the_writer() {
    let (store, mut writer) = listwatch::Store::<Value>::new();
    writer.replace(None, (0..1000).map(|n| object(&format!("x/{n:04}"), 1)).collect());
    let snapshot = store.snapshot();
    let mut list = snapshot.iter();
    let mut seen: Vec<_> = list.by_ref().take(500).map(|o| o.revision().0).collect();
    for round in 2..12 {
        writer.write(
            (0..1000)
                .map(|n| listwatch::store::StoreWrite::Put(object(&format!("x/{n:04}"), round)))
                .collect(),
        );
    }
    seen.extend(list.map(|o| o.revision().0));
    assert_eq!(seen, vec![1; 1000]);
    assert!(store.snapshot().iter().all(|o| o.revision().0 == 11));
}
