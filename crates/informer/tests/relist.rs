//! The consequences of a list that follows a lost watch.
#![cfg(test)]

mod support;

use std::sync::Arc;
use std::time::Duration;

use listwatch::delta::{Form, QueueOptions};
use listwatch::lister_watcher::{Scripted, ScriptedAnswer, SourcePage, WatchEvent};
use listwatch::{Event, HandlerOptions, InformerOptions, Revision};
use listwatch_wire::status::Status;
use serde_json::{Value, json};
use support::informer::{Informer, Log, events, expired, page, settle, started};
use support::{object, object_with};
use tokio::time::sleep;

/// A relist finds what a lost watch missed: deletions first, their final state unknown, then the rest in order; the
/// store is already final when the first of them is delivered.
#[tokio::test(start_paused = true)]
async fn a_relist_delivers_deletions_first_after_the_store_is_final() {
    for form in [Form::InOrder, Form::Coalescing] {
        let source = Scripted::lists_only();
        source.on_list(page(10, &[("x/a", 1), ("x/b", 2), ("x/c", 3)]));
        source.on_watch(events(vec![expired()]));
        source.on_list(page(20, &[("x/b", 2), ("x/c", 15), ("x/d", 16)]));
        let mut options = InformerOptions::default();
        options.queue = QueueOptions::default().form(form);
        let informer = Informer::builder(source).options(options).build();
        let log = Log::default();
        let (store, inner) = (informer.store().clone(), log.clone());
        informer
            .add_event_handler(move |event: &Event<Value>| {
                let line = format!("{event}; store at {} with {}", store.revision(), store.len());
                inner.0.lock().unwrap().push(line);
            })
            .unwrap();
        informer.start().unwrap();
        informer.wait_synced().await;
        informer.store().wait_for(Revision(20)).await.unwrap();
        settle().await;
        let told = log.take();
        assert_eq!(
            told.iter().skip(4).map(String::as_str).collect::<Vec<_>>(),
            [
                "delete x/a 1 final state unknown; store at 20 with 3",
                "update x/c 3 -> 15; store at 20 with 3",
                "add x/d 16; store at 20 with 3",
            ],
            "{form:?}: {told:#?}"
        );
    }
}

/// A backup was restored, and the object was written again: the same uid and the same version, but other content. The
/// cache kept what had been lost.
#[tokio::test(start_paused = true)]
async fn content_that_a_restored_history_has_replaced_is_not_kept() {
    let version = |text: &str, revision: u64| {
        let metadata =
            json!({"namespace": "x", "name": "a", "uid": "u", "resourceVersion": revision.to_string()});
        listwatch::Object::from_value(&json!({"metadata": metadata, "data": {"text": text}})).unwrap()
    };
    let list = |objects, revision| {
        ScriptedAnswer::Page(SourcePage { objects, revision: Revision(revision), ..SourcePage::default() })
    };
    let source = Scripted::lists_only();
    source.on_list(list(vec![version("lost", 20)], 50));
    source.on_watch(events(vec![WatchEvent::Bookmark { revision: Revision(30), initial_events_end: false }]));
    source.on_list(list(vec![version("restored", 20)], 30));
    source.on_watch(events(Vec::new()));
    let (informer, log) = started(source).await;
    sleep(Duration::from_secs(10)).await;
    let text = informer.store().get_by("x", "a").unwrap().get().unwrap()["data"]["text"].clone();
    assert_eq!(text, "restored");
    assert_eq!(log.take(), ["add x/a 20 initial", "synced", "update x/a 20 -> 20"]);
    assert_eq!(informer.store().revision(), Revision(30));
}

/// An unchanged object is not delivered, under any resync settings of the handlers.
#[tokio::test(start_paused = true)]
async fn a_relist_of_unchanged_objects_delivers_no_events() {
    for resync in [None, Some(Duration::from_secs(3600))] {
        let source = Scripted::lists_only();
        source.on_list(page(10, &[("x/a", 1)]));
        source.on_watch(events(vec![expired()]));
        source.on_list(page(20, &[("x/a", 1)]));
        let informer = Informer::new(source);
        let (with, without) = (Log::default(), Log::default());
        informer.add_event_handler(without.handler()).unwrap();
        let mut options = HandlerOptions::default();
        options.resync = resync;
        informer.add_event_handler_with(with.handler(), options).unwrap();
        informer.start().unwrap();
        informer.store().wait_for(Revision(20)).await.unwrap();
        settle().await;
        assert_eq!(without.take(), ["add x/a 1 initial", "synced"]);
        assert_eq!(with.take(), ["add x/a 1 initial", "synced"]);
    }
}

#[tokio::test(start_paused = true)]
async fn deleted_and_created_again_over_a_relist_is_a_deletion_and_an_addition() {
    let source = Scripted::lists_only();
    let list = |revision, uid: &str| {
        let objects = vec![object_with("x/a", revision, uid)];
        ScriptedAnswer::Page(SourcePage { objects, revision: Revision(revision), ..SourcePage::default() })
    };
    source.on_list(list(10, "first"));
    source.on_watch(events(vec![expired()]));
    source.on_list(list(20, "second"));
    let (informer, log) = started(source).await;
    informer.store().wait_for(Revision(20)).await.unwrap();
    settle().await;
    let told = log.take();
    assert_eq!(told[2..], ["delete x/a 10 final state unknown", "add x/a 20"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_expires_between_pages_is_begun_anew() {
    let source = Scripted::lists_only();
    source.on_list(page(10, &[]));
    source.on_watch(events(vec![expired()]));
    let mut first =
        SourcePage { objects: vec![object("x/a", 1)], revision: Revision(20), ..SourcePage::default() };
    first.continue_token = Some("next".to_owned());
    source.on_list(ScriptedAnswer::Page(first));
    source.on_list(ScriptedAnswer::Error(Status::expired("the token is too old").into()));
    source.on_list(page(30, &[("x/a", 1), ("x/b", 25)]));
    let source = Arc::new(source);
    let informer = Informer::new(Arc::clone(&source));
    informer.start().unwrap();
    informer.store().wait_for(Revision(30)).await.unwrap();
    settle().await;
    assert_eq!(
        source.requests(),
        [
            "list rv=0 limit=500",
            "watch rv=10",
            "list rv=10",
            "list rv=10 continue=next",
            // From the start and in pages: not everything at once, and not the rest of another state.
            "list rv=\"\" limit=500",
            "watch rv=30",
        ]
    );
}
