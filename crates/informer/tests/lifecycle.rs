//! Starting and stopping informers, and the release of their resources.
#![cfg(test)]

mod support;

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use listwatch::lister_watcher::{InMemory, Scripted, ScriptedAnswer};
use listwatch::processor::RunOn;
use listwatch::{Event, HandlerOptions, InformerError, InformerOptions, Revision};
use listwatch_wire::status::Status;
use serde_json::Value;
use support::informer::{Informer, Log, events, page, pod, settle, started, synced};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

#[tokio::test(start_paused = true)]
async fn stopping_is_immediate_whatever_it_waits_for() {
    // Waiting for a response, for the end of a backoff, and for events.
    let silent = Scripted::default();
    let refusing = Scripted::lists_only();
    refusing.on_list(ScriptedAnswer::Error(Status::too_many_requests("no", 3600).into()));
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
async fn a_stop_before_the_start_sends_no_request() {
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
    let store = informer.store().clone();
    drop(informer);
    let ended = timeout(Duration::from_secs(1), store.wait_for(Revision(99))).await;
    ended.expect("the writer ends").unwrap_err();
}

/// A handler or stream whose informer was a temporary ended with it.
#[tokio::test(start_paused = true)]
async fn a_registration_or_a_stream_keeps_its_informer_alive() {
    let source = InMemory::new(10);
    let (informer, _) = started(source.clone()).await;
    let mut stream = informer.events().unwrap();
    let log = Log::default();
    let registration = informer.add_event_handler(log.handler()).unwrap();
    drop(informer);
    settle().await;
    source.put(&pod("a")).unwrap();
    settle().await;
    assert_eq!(log.take(), ["synced", "add x/a 1"]);
    drop(registration);
    source.put(&pod("b")).unwrap();
    let heard: Vec<_> = stream.by_ref().take(3).map(|event| event.to_string()).collect().await;
    assert_eq!(heard, ["synced", "add x/a 1", "add x/b 2"]);
}

/// The task of its handler, and all that the handler owns, was never dropped.
#[tokio::test(start_paused = true)]
async fn dropping_an_informer_that_was_never_started_ends_its_handlers() {
    let informer = Informer::new(InMemory::new(10));
    let owned = Arc::new(());
    let captured = Arc::clone(&owned);
    informer.add_event_handler(move |_: &Event<Value>| drop(Arc::clone(&captured))).unwrap();
    drop(informer);
    settle().await;
    assert_eq!(Arc::strong_count(&owned), 1);
}

#[tokio::test(start_paused = true)]
async fn draining_delivers_everything_received() {
    let (source, informer) = synced(&[]).await;
    let log = Log::default();
    let inner = log.clone();
    let slow = move |event: Event<Value>| {
        let log = inner.clone();
        async move {
            sleep(Duration::from_secs(1)).await;
            log.push(&event);
        }
    };
    informer.add_async_event_handler(slow, HandlerOptions::default()).unwrap();
    let mut last = source.revision();
    for number in 0..20 {
        last = source.put(&pod(&format!("{number}"))).unwrap();
    }
    informer.store().wait_for(last).await.unwrap();
    informer.drain().await;
    assert_eq!(log.take().len(), 21);
}

/// A drain that cannot end, because a handler is stuck or pauses after a panic, was not cut short by a stop.
#[tokio::test(start_paused = true)]
async fn stop_wins_over_drain_and_cuts_panic_pauses() {
    let (source, informer) = synced(&["a"]).await;
    let hour = Duration::from_secs(3600);
    let panics = informer
        .add_event_handler_with(
            |_: &Event<Value>| panic!("always"),
            HandlerOptions::named("panics").panic_pause(hour),
        )
        .unwrap();
    source.put(&pod("b")).unwrap();
    settle().await;
    timeout(Duration::from_secs(10), informer.drain()).await.expect_err("the pause is an hour");
    timeout(Duration::from_millis(10), informer.stop()).await.expect("the pause is cut");
    assert_eq!(panics.status().panics, 1);
    timeout(Duration::from_millis(10), informer.drain()).await.expect("it has ended already");
}

/// An asynchronous handler that never returns kept a stop waiting for ever.
#[tokio::test(start_paused = true)]
async fn a_stuck_async_handler_has_its_grace_and_is_then_dropped() {
    for grace in [Duration::ZERO, Duration::from_secs(20)] {
        let (_, informer) = synced(&["a"]).await;
        let owned = Arc::new(());
        let captured = Arc::clone(&owned);
        let stuck = move |_: Event<Value>| {
            let captured = Arc::clone(&captured);
            async move {
                std::future::pending::<()>().await;
                drop(captured);
            }
        };
        informer.add_async_event_handler(stuck, HandlerOptions::default().stop_grace(grace)).unwrap();
        settle().await;
        let began = tokio::time::Instant::now();
        informer.stop().await;
        assert!(
            (grace..grace + Duration::from_millis(50)).contains(&began.elapsed()),
            "{:?}",
            began.elapsed()
        );
        assert_eq!(Arc::strong_count(&owned), 1, "the call was dropped with what it owned");
    }
}

/// A synchronous handler that blocks its thread cannot be ended; it is left behind.
#[tokio::test]
async fn a_blocked_thread_is_waited_for_no_longer_than_its_grace() {
    let (_, informer) = synced(&["a"]).await;
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let blocks = move |_: &Event<Value>| {
        let _ = blocked.recv();
    };
    let options = HandlerOptions::default().run_on(RunOn::Thread).stop_grace(Duration::from_millis(20));
    let handler = informer.add_event_handler_with(blocks, options).unwrap();
    timeout(Duration::from_secs(5), informer.stop()).await.expect("it does not wait for the thread");
    drop(release);
    handler.finished().await;
}

/// A handler that stops its own informer waited for itself.
#[tokio::test(start_paused = true)]
async fn a_handler_may_stop_or_drain_its_own_informer() {
    for drain in [false, true] {
        let (_, informer) = synced(&["a"]).await;
        let (own, log) = (informer.clone(), Log::default());
        let inner = log.clone();
        let stops = move |event: Event<Value>| {
            let (own, log) = (own.clone(), inner.clone());
            async move {
                if drain {
                    own.drain().await
                } else {
                    own.stop().await
                }
                log.push(&event);
            }
        };
        let handler = informer.add_async_event_handler(stops, HandlerOptions::default()).unwrap();
        timeout(Duration::from_millis(10), handler.finished()).await.expect("it ends");
        assert_eq!(log.take().len(), if drain { 2 } else { 1 }, "draining tells the rest");
        assert!(informer.is_stopped());
    }
}

/// Waiters are woken instead of polling every tenth of a second.
#[tokio::test(start_paused = true)]
async fn waiting_for_the_cache_takes_as_long_as_the_cache_and_no_longer() {
    let source = InMemory::new(10);
    source.put(&pod("a")).unwrap();
    let (informer, _) = started(source).await;
    let began = tokio::time::Instant::now();
    assert!(informer.wait_synced().await);
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_who_start_it_at_the_same_time_one_does() {
    for _ in 0..50 {
        let informer = Informer::new(InMemory::new(10));
        let starts: Vec<_> = (0..8)
            .map(|_| {
                let informer = informer.clone();
                tokio::spawn(async move { informer.start().is_ok() })
            })
            .collect();
        let mut started = 0;
        for start in starts {
            started += usize::from(start.await.unwrap());
        }
        assert_eq!(started, 1);
        assert!(informer.wait_synced().await);
        informer.stop().await;
    }
}

/// It started and ended at once without an error.
#[tokio::test(start_paused = true)]
async fn an_empty_set_of_namespaces_is_refused() {
    let informer = Informer::new(listwatch::Sources::per_namespace([]));
    assert!(matches!(informer.start(), Err(InformerError::NoSources)));
    assert!(!informer.is_stopped() && !informer.has_synced());
}

/// A hundred informers asked for a hundred lists at once.
#[tokio::test(start_paused = true)]
async fn initial_lists_take_turns_and_a_stuck_one_does_not_hold_up_the_others() {
    let mut options = InformerOptions::default();
    options.reflector.initial_lists = Some(Arc::new(Semaphore::new(1)));
    let (stuck, waits) = (Arc::new(Scripted::lists_only()), Arc::new(Scripted::lists_only()));
    let start = |source: &Arc<Scripted>| {
        let informer = Informer::builder(Arc::clone(source)).options(options.clone()).build();
        informer.start().unwrap();
        informer
    };
    let informers = (start(&stuck), start(&waits));
    settle().await;
    assert_eq!((stuck.requests().len(), waits.requests().len()), (1, 0));
    assert_eq!(informers.1.status().phase, "queued");
    sleep(Duration::from_secs(301)).await;
    assert_eq!(waits.requests().len(), 1, "the first has timed out");
    timeout(Duration::from_millis(10), informers.1.stop()).await.expect("at once");
}
