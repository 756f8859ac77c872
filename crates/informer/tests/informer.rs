//! The informer as a whole, over scripted and in-memory sources: what handlers hear and what the store holds.
//!
//! Time is paused: a test that waits a minute takes none.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use listwatch::delta::{Form, QueueOptions};
use listwatch::lister_watcher::{Answer, InMemory, Page, Scripted, WatchEvent};
use listwatch::processor::{FilteringHandler, HandlerFuncs};
use listwatch::{Event, HandlerOptions, InformerError, Problem, Revision, SharedInformer};
use listwatch_wire::status::Status;
use serde_json::{Value, json};
use support::{object, object_with};
use tokio::time::{advance, sleep, timeout};

type Informer = SharedInformer<Value>;

/// What a handler heard, one line per event.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn handler(&self) -> impl FnMut(&Event<Value>) + Send + 'static {
        let log = self.clone();
        move |event: &Event<Value>| log.0.lock().unwrap().push(event.to_string())
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Lets every task run until it waits for something; with paused time, a moment passes.
async fn settle() {
    sleep(Duration::from_millis(1)).await;
}

fn page(revision: u64, objects: &[(&str, u64)]) -> Answer {
    let objects = objects.iter().map(|(key, revision)| object(key, *revision)).collect();
    Answer::Page(Page { objects, revision: Revision(revision), ..Page::default() })
}

fn events(events: Vec<WatchEvent>) -> Answer {
    Answer::Events { events, stay_open: true }
}

fn expired() -> WatchEvent {
    WatchEvent::Error(Box::new(Status::expired("too old")))
}

fn pod(name: &str) -> Value {
    json!({"metadata": {"namespace": "x", "name": name, "uid": name}})
}

async fn started(source: impl Into<listwatch::Sources>) -> (Informer, Log) {
    let informer = Informer::new(source);
    let log = Log::default();
    informer.add_event_handler(log.handler()).unwrap();
    informer.start().unwrap();
    (informer, log)
}

#[tokio::test(start_paused = true)]
async fn handlers_hear_the_initial_state_then_changes() {
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

/// A relist finds what a lost watch missed: deletions first, their final state unknown, then the rest in order; the
/// store is already final when the first of them is told.
#[tokio::test(start_paused = true)]
async fn a_relist_tells_deletions_first_and_the_store_is_final_before() {
    for form in [Form::InOrder, Form::Coalescing] {
        let source = Scripted::lists_only();
        source.on_list(page(10, &[("x/a", 1), ("x/b", 2), ("x/c", 3)]));
        source.on_watch(events(vec![expired()]));
        source.on_list(page(20, &[("x/b", 2), ("x/c", 15), ("x/d", 16)]));
        let informer = Informer::builder(source).queue(QueueOptions::default().form(form)).build();
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

/// An unchanged object is no news, whatever the resync settings of anybody.
#[tokio::test(start_paused = true)]
async fn a_relist_of_unchanged_objects_tells_nobody() {
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
        Answer::Page(Page { objects, revision: Revision(revision), ..Page::default() })
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
async fn a_deletion_of_an_unknown_object_is_not_told() {
    let source = Scripted::lists_only();
    source.on_list(page(10, &[]));
    source.on_watch(events(vec![WatchEvent::Deleted(object("x/never-seen", 11))]));
    let (informer, log) = started(source).await;
    informer.store().wait_for(Revision(11)).await.unwrap();
    settle().await;
    assert_eq!(log.take(), ["synced"]);
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

#[tokio::test(start_paused = true)]
async fn each_object_is_transformed_exactly_once() {
    for streams in [true, false] {
        let source = if streams { Scripted::default() } else { Scripted::lists_only() };
        source.on_list(page(10, &[("x/a", 1), ("x/b", 2)]));
        if streams {
            let end = WatchEvent::Bookmark { revision: Revision(10), initial_events_end: true };
            source.on_watch(events(vec![
                WatchEvent::Added(object("x/a", 1)),
                WatchEvent::Added(object("x/b", 2)),
                end,
                WatchEvent::Modified(object("x/a", 11)),
            ]));
        } else {
            source.on_watch(events(vec![WatchEvent::Modified(object("x/a", 11))]));
        }
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let informer = Informer::builder(source)
            .transform(move |object| {
                counted.fetch_add(1, Ordering::Relaxed);
                // Nothing of the metadata is left; key and revision are still the server's.
                object.with_value(&json!({"data": "small"})).map_err(|error| error.to_string())
            })
            .build();
        informer.start().unwrap();
        informer.store().wait_for(Revision(11)).await.unwrap();
        assert_eq!(calls.load(Ordering::Relaxed), 3, "streams: {streams}");
        let object = informer.store().get_by("x", "a").unwrap();
        assert_eq!((object.revision(), object.json()), (Revision(11), &br#"{"data":"small"}"#[..]));
        assert_eq!(informer.snapshot().revision(), Revision(11));
    }
}

/// However the object arrives, a transformation that fails for it keeps it, and only it, out of the cache; and it is
/// reported.
#[tokio::test(start_paused = true)]
async fn a_failing_transformation_concerns_only_its_object() {
    let source = Scripted::lists_only();
    source.on_list(page(10, &[("x/bad", 1), ("x/good", 2), ("x/later-bad", 3)]));
    source.on_watch(events(vec![
        WatchEvent::Added(object("x/bad-too", 11)),
        WatchEvent::Modified(object("x/later-bad", 12)),
        WatchEvent::Modified(object("x/good", 13)),
    ]));
    let problems = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&problems);
    let informer = Informer::builder(source)
        .transform(|object| match (object.name(), object.revision()) {
            ("bad", _) => Err("no".to_owned()),
            ("bad-too", _) => panic!("no"),
            ("later-bad", Revision(12)) => Err("no more".to_owned()),
            _ => Ok(object),
        })
        .on_problem(move |problem, _| heard.lock().unwrap().push(problem.to_string()))
        .build();
    let log = Log::default();
    informer.add_event_handler(log.handler()).unwrap();
    informer.start().unwrap();
    informer.store().wait_for(Revision(13)).await.unwrap();
    settle().await;
    let told = log.take();
    assert_eq!(told[3..], ["delete x/later-bad 3 final state unknown", "update x/good 2 -> 13"], "{told:?}");
    let problems = problems.lock().unwrap();
    assert_eq!(problems.len(), 3, "{problems:?}");
    assert!(problems.iter().all(|problem| problem.starts_with("transformation of ")));
}

#[tokio::test(start_paused = true)]
async fn the_problem_hook_hears_failures_within_a_stream() {
    let source = Scripted::lists_only();
    for revision in [10, 20, 30] {
        source.on_list(page(revision, &[]));
        source.on_watch(events(vec![expired()]));
    }
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let informer = Informer::builder(source)
        .on_problem(move |problem, _| {
            assert!(matches!(problem, Problem::Watch(error) if error.is_expired()));
            counted.fetch_add(1, Ordering::Relaxed);
        })
        .build();
    informer.start().unwrap();
    informer.store().wait_for(Revision(30)).await.unwrap();
    settle().await;
    assert_eq!(count.load(Ordering::Relaxed), 3);
    assert_eq!(informer.status().problems, [("expired", 3)]);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_expires_between_pages_is_begun_anew() {
    let source = Scripted::lists_only();
    source.on_list(page(10, &[]));
    source.on_watch(events(vec![expired()]));
    let mut first = Page { objects: vec![object("x/a", 1)], revision: Revision(20), ..Page::default() };
    first.continue_token = Some("next".to_owned());
    source.on_list(Answer::Page(first));
    source.on_list(Answer::Error(Status::expired("the token is too old").into()));
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

#[tokio::test(start_paused = true)]
async fn stopping_is_immediate_whatever_it_waits_for() {
    // Waiting for an answer, for the end of a backoff, and for events.
    let silent = Scripted::default();
    let refusing = Scripted::lists_only();
    refusing.on_list(Answer::Error(Status::too_many_requests("no", 3600).into()));
    let open = Scripted::lists_only();
    open.on_list(page(10, &[]));
    open.on_watch(events(Vec::new()));
    for source in [silent, refusing, open] {
        let (informer, _) = started(source).await;
        settle().await;
        timeout(Duration::from_millis(10), informer.stop()).await.expect("it stops at once");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_asked_after_a_stop_before_the_start() {
    let source = Arc::new(Scripted::default());
    let informer = Informer::new(Arc::clone(&source));
    informer.stop().await;
    assert!(matches!(informer.start(), Err(InformerError::AlreadyStarted)));
    assert!(matches!(informer.add_event_handler(|_: &Event<Value>| {}), Err(InformerError::Stopped)));
    settle().await;
    assert!(source.requests().is_empty());
}

#[tokio::test(start_paused = true)]
async fn it_runs_once_and_its_store_outlives_it() {
    let source = InMemory::new(10);
    source.put(&pod("a")).unwrap();
    let (informer, _) = started(source).await;
    assert!(matches!(informer.start(), Err(InformerError::AlreadyStarted)));
    informer.wait_synced().await;
    informer.stop().await;
    assert!(informer.events().is_err());
    assert_eq!(informer.store().len(), 1);
    assert!(informer.store().wait_for(Revision(99)).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn dropping_the_last_handle_stops_it() {
    let (informer, _) = started(InMemory::new(10)).await;
    informer.wait_synced().await;
    let mut stream = informer.events().unwrap();
    drop(informer);
    let ended = async { while stream.next().await.is_some() {} };
    timeout(Duration::from_secs(1), ended).await.expect("the stream ends");
}

#[tokio::test(start_paused = true)]
async fn filters_turn_updates_into_additions_and_deletions() {
    let source = Scripted::lists_only();
    source.on_list(page(10, &[("x/a", 1), ("x/b", 2)]));
    source.on_watch(events(vec![
        WatchEvent::Modified(object("x/a", 12)),
        WatchEvent::Modified(object("x/a", 14)),
        WatchEvent::Modified(object("x/a", 15)),
        WatchEvent::Modified(object("x/a", 17)),
        WatchEvent::Deleted(object("x/a", 18)),
    ]));
    let informer = Informer::new(source);
    let log = Log::default();
    let even = |object: &listwatch::Object<Value>| object.revision().0.is_multiple_of(2);
    informer.add_event_handler(FilteringHandler::new(even, log.handler())).unwrap();
    informer.start().unwrap();
    informer.store().wait_for(Revision(18)).await.unwrap();
    settle().await;
    assert_eq!(
        log.take(),
        [
            "add x/b 2 initial",
            "synced",
            "add x/a 12",
            "update x/a 12 -> 14",
            "delete x/a 14",
            "delete x/a 18"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn functions_under_their_go_names_make_a_handler() {
    let source = InMemory::new(10);
    source.put(&pod("a")).unwrap();
    let informer = Informer::new(source.clone());
    let log = Log::default();
    let (adds, deletes) = (log.clone(), log.clone());
    let handler = HandlerFuncs::new()
        .on_add(move |object, initial| adds.0.lock().unwrap().push(format!("+{} {initial}", object.key())))
        .on_delete(move |deleted| deletes.0.lock().unwrap().push(format!("-{}", deleted.object.key())));
    informer.add_event_handler(handler).unwrap();
    informer.start().unwrap();
    informer.wait_synced().await;
    source.put(&pod("a")).unwrap();
    let last = source.delete(&"x/a".parse().unwrap()).unwrap();
    informer.store().wait_for(last).await.unwrap();
    settle().await;
    assert_eq!(log.take(), ["+x/a true", "-x/a"]);
}

#[tokio::test(start_paused = true)]
async fn several_namespaces_make_one_cache_and_fail_apart() {
    let (one, two) = (Arc::new(InMemory::new(10)), Arc::new(Scripted::lists_only()));
    one.put(&json!({"metadata": {"namespace": "one", "name": "a"}})).unwrap();
    two.on_list(Answer::Error(Status::internal("not yet").into()));
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
    // The store stands where the slowest source stands.
    assert_eq!(informer.store().revision(), Revision(1));
    advance(Duration::from_secs(1)).await;
    informer.stop().await;
}

/// What an index cannot place is reported, not swallowed; the object is cached all the same.
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

/// A watch that breaks every second does not keep a handler from its resyncs.
#[tokio::test(start_paused = true)]
async fn resyncs_go_on_while_the_watch_flaps() {
    let source = Scripted::lists_only();
    source.on_list(page(10, &[("x/a", 1)]));
    for _ in 0..100 {
        source.on_watch(Answer::Error(listwatch::lister_watcher::SourceError::Refused("flap".to_owned())));
    }
    let informer = Informer::new(source);
    let log = Log::default();
    let options = HandlerOptions::default().resync(Duration::from_secs(10));
    informer.add_event_handler_with(log.handler(), options).unwrap();
    informer.start().unwrap();
    informer.wait_synced().await;
    sleep(Duration::from_secs(61)).await;
    let resyncs = log.take().iter().filter(|line| *line == "resync x/a 1").count();
    assert_eq!(resyncs, 6);
}

#[tokio::test(start_paused = true)]
async fn metrics_and_the_debug_page_tell_lists_watches_problems_and_lag() {
    let source = Scripted::lists_only();
    source.on_list(page(10, &[("x/a", 1)]));
    source.on_watch(events(vec![WatchEvent::Modified(object("x/a", 11)), expired()]));
    source.on_list(page(20, &[("x/a", 11)]));
    let informer = Informer::builder(source).name("pods").build();
    informer.add_event_handler_with(|_: &Event<Value>| {}, HandlerOptions::named("queue")).unwrap();
    informer.start().unwrap();
    informer.store().wait_for(Revision(20)).await.unwrap();
    settle().await;
    let mut prometheus = listwatch::metrics::Prometheus::default();
    listwatch::metrics::collect(&[informer.status()], &mut prometheus);
    for line in [
        "# TYPE listwatch_informer_lists_total counter",
        "listwatch_informer_lists_total{informer=\"pods\"} 2",
        "listwatch_informer_watches_total{informer=\"pods\"} 2",
        "listwatch_informer_objects{informer=\"pods\"} 1",
        "listwatch_informer_revision{informer=\"pods\"} 20",
        "listwatch_informer_problems_total{informer=\"pods\",reason=\"expired\"} 1",
        "listwatch_handler_events_total{informer=\"pods\",handler=\"queue\"} 3",
        "listwatch_handler_backlog{informer=\"pods\",handler=\"queue\"} 0",
    ] {
        assert!(prometheus.text().lines().any(|l| l == line), "{line} is not in\n{}", prometheus.text());
    }
    let page = listwatch::debug::page(&[informer.status()]);
    assert!(page.starts_with("pods: opening, synced, 1 objects at revision 20\n"), "{page}");
    assert!(page.contains("too old; start over in"), "{page}");
    assert!(page.contains("handler queue: synced, 3 told, 0 unread, at revision 11, 0 panics"), "{page}");
}

/// However long a reader takes over its list, the writer goes on; and the reader sees one moment all the while.
#[test]
fn a_reader_in_the_middle_of_a_list_does_not_hold_up_the_writer() {
    let (store, mut writer) = listwatch::Store::<Value>::new();
    writer.replace(None, (0..1000).map(|n| object(&format!("x/{n:04}"), 1)).collect());
    let snapshot = store.snapshot();
    let mut list = snapshot.iter();
    let mut seen: Vec<_> = list.by_ref().take(500).map(|o| o.revision().0).collect();
    for round in 2..12 {
        writer.write(
            (0..1000).map(|n| listwatch::store::Write::Put(object(&format!("x/{n:04}"), round))).collect(),
        );
    }
    seen.extend(list.map(|o| o.revision().0));
    assert_eq!(seen, vec![1; 1000]);
    assert!(store.snapshot().iter().all(|o| o.revision().0 == 11));
}
