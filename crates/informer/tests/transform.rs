//! Transformations: how often they run, and the effect of a failure.
#![cfg(test)]

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use listwatch::Revision;
use listwatch::lister_watcher::{Scripted, ScriptedAnswer, WatchEvent};
use serde_json::{Value, json};
use support::informer::{Informer, Log, events, expired, page, settle};
use support::object;

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

/// A transformation may leave nothing of the metadata; where the store stands is the server's word, event by event,
/// deletions and bookmarks included.
#[tokio::test(start_paused = true)]
async fn the_store_stands_where_the_server_said_whatever_a_transformation_leaves() {
    let source = Scripted::lists_only();
    source.on_list(page(10, &[("x/a", 1), ("x/b", 2)]));
    let steps = [
        (WatchEvent::Modified(object("x/a", 11)), 11),
        (WatchEvent::Deleted(object("x/b", 12)), 12),
        (WatchEvent::Bookmark { revision: Revision(15), initial_events_end: false }, 15),
        (expired(), 15),
    ];
    for (event, _) in &steps {
        source.on_watch(ScriptedAnswer::Events { events: vec![event.clone()], stay_open: false });
    }
    source.on_list(page(20, &[("x/a", 11)]));
    let strip = |object: listwatch::Object<Value>| object.with_value(&json!({})).map_err(|e| e.to_string());
    let informer = Informer::builder(source).transform(strip).build();
    informer.start().unwrap();
    informer.store().wait_for(Revision(10)).await.unwrap();
    for (_, revision) in steps {
        informer.store().wait_for(Revision(revision)).await.unwrap();
        assert_eq!(informer.snapshot().revision(), Revision(revision));
    }
    informer.store().wait_for(Revision(20)).await.unwrap();
    let kept = informer.store().get_by("x", "a").unwrap();
    assert_eq!((kept.revision(), informer.store().len()), (Revision(11), 1));
}
