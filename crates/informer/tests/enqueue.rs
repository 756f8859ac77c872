//! From events to keys in a work queue.
#![cfg(test)]

mod support;

use std::time::Duration;

use listwatch::HandlerOptions;
use listwatch::processor::enqueue_keys;
use listwatch::workqueue::{Options, Priority, Queue};
use support::informer::{pod, settle, synced};
use tokio::time::{sleep, timeout};

/// A full queue lost keys, with only a line in the debug log.
#[tokio::test(start_paused = true)]
async fn a_full_queue_pushes_back_and_no_key_is_lost() {
    let names: Vec<_> = (0..100).map(|number| format!("{number:03}")).collect();
    let (source, informer) = synced(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let queue = Queue::new(Options::new().capacity(10));
    let handler = informer.add_event_handler(enqueue_keys(queue.clone())).unwrap();
    settle().await;
    assert_eq!(queue.len(), 10);
    assert!(handler.status().backlog >= 89 && !handler.has_synced(), "{:?}", handler.status());
    let mut keys = std::collections::BTreeSet::new();
    while keys.len() < 100 {
        let item = timeout(Duration::from_secs(5), queue.get()).await.expect("another key comes").unwrap();
        keys.insert(item.key().name().to_owned());
        item.finish();
    }
    assert_eq!(keys.into_iter().collect::<Vec<_>>(), names);
    // Also while it waits for room, it can be removed, and the queue can be shut down.
    for end in 0..2 {
        for number in 0..20 {
            source.put(&pod(&format!("more{end}{number}"))).unwrap();
        }
        settle().await;
        if end == 0 {
            continue;
        }
        handler.remove();
        timeout(Duration::from_millis(10), handler.finished()).await.expect("it is removed");
    }
}

/// Resyncs and initial objects were queued before live changes.
#[tokio::test(start_paused = true)]
async fn live_changes_go_before_initial_objects_and_resyncs() {
    let (source, informer) = synced(&["a", "b"]).await;
    let queue = Queue::new(Options::new());
    let options = HandlerOptions::default().resync(Duration::from_secs(10));
    informer.add_event_handler_with(enqueue_keys(queue.clone()), options).unwrap();
    settle().await;
    source.put(&pod("c")).unwrap();
    settle().await;
    let next = || queue.try_get().map(|item| (item.key().name().to_owned(), item.priority()));
    assert_eq!(next(), Some(("c".to_owned(), Priority::Normal)));
    assert_eq!(next(), Some(("a".to_owned(), Priority::Background)));
    assert_eq!(next(), Some(("b".to_owned(), Priority::Background)));
    sleep(Duration::from_secs(15)).await;
    assert_eq!(next(), Some(("a".to_owned(), Priority::Background)));
    let last = source.put(&pod("b")).unwrap();
    informer.store().wait_for(last).await.unwrap();
    settle().await;
    assert_eq!(next(), Some(("b".to_owned(), Priority::Normal)), "the change overtakes its own resync");
}
