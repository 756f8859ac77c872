//! Handlers: isolation, backlog, replay, removal, panics, filters, streams.
#![cfg(test)]

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use listwatch::lister_watcher::{InMemory, Scripted, WatchEvent};
use listwatch::processor::{FilteringHandler, HandlerFuncs, RunOn};
use listwatch::{Event, HandlerOptions, Registration, Revision};
use serde_json::{Value, json};
use support::informer::{Informer, Log, events, page, pod, settle, synced};
use support::object;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};

/// One handler never returns from its first call; the cache and the other handler do not notice.
#[tokio::test(start_paused = true)]
async fn a_stuck_handler_delays_only_itself() {
    let (source, informer) = synced(&[]).await;
    let gate = Arc::new(Semaphore::new(0));
    let (stuck_log, quick_log) = (Log::default(), Log::default());
    let (inner_gate, inner_log) = (Arc::clone(&gate), stuck_log.clone());
    let stuck = informer
        .add_async_event_handler(
            move |event: Event<Value>| {
                let (gate, log) = (Arc::clone(&inner_gate), inner_log.clone());
                async move {
                    let _ = gate.acquire().await;
                    log.push(&event);
                }
            },
            HandlerOptions::named("stuck").max_backlog(10),
        )
        .unwrap();
    informer.add_event_handler(quick_log.handler()).unwrap();
    settle().await;
    let mut last = source.revision();
    for _ in 0..100 {
        last = source.put(&pod("a")).unwrap();
        informer.store().wait_for(last).await.unwrap();
    }
    settle().await;
    assert_eq!(quick_log.take().len(), 101, "synced, and every single change");
    // Bounded by the number of keys, not of changes: one key is delivered once, and folded changes are counted.
    let status = stuck.status();
    assert!(status.backlog <= 10 && status.folds > 0, "{status:?}");
    gate.add_permits(Semaphore::MAX_PERMITS);
    settle().await;
    let told = stuck_log.take();
    assert_eq!(told.first().map(String::as_str), Some("synced"));
    assert!(told.len() < 20, "{told:?}");
    let chain_is_whole = told[1..].windows(2).all(|pair| {
        let reached = pair[0].rsplit(' ').next().unwrap();
        pair[1].contains(&format!(" {reached} -> "))
    });
    assert!(chain_is_whole, "each update starts where the one before ended: {told:?}");
    assert!(told.last().unwrap().ends_with(&format!("-> {last}")), "{told:?}");
}

/// Objects that were created and deleted in between are not reported. An object that was replaced under its name is
/// reported as deleted and added.
#[tokio::test(start_paused = true)]
async fn a_slow_handler_receives_a_consistent_folded_history() {
    let (source, informer) = synced(&["kept", "recreated", "deleted"]).await;
    let mut stream = informer.events_with(HandlerOptions::default().max_backlog(1)).unwrap();
    for _ in 0..4 {
        stream.next().await.unwrap();
    }
    source.put(&pod("kept")).unwrap();
    source.put(&pod("transient")).unwrap();
    source.delete(&"x/transient".parse().unwrap()).unwrap();
    source.delete(&"x/recreated".parse().unwrap()).unwrap();
    source.put(&json!({"metadata": {"namespace": "x", "name": "recreated", "uid": "another"}})).unwrap();
    source.put(&pod("kept")).unwrap();
    let last = source.delete(&"x/deleted".parse().unwrap()).unwrap();
    informer.store().wait_for(last).await.unwrap();
    informer.drain().await;
    let told: Vec<_> = stream.map(|event| event.to_string()).collect().await;
    assert_eq!(
        told,
        ["update x/kept 1 -> 9", "delete x/recreated 7", "add x/recreated 8", "delete x/deleted 10"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_panicking_handler_attempts_every_event_after_a_pause_and_still_syncs() {
    let (source, informer) = synced(&["a", "b", "c"]).await;
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let started = Instant::now();
    let handler = informer
        .add_event_handler(move |event: &Event<Value>| {
            if event.object().is_some() {
                counted.fetch_add(1, Ordering::Relaxed);
                panic!("on purpose");
            }
        })
        .unwrap();
    let quick = Log::default();
    informer.add_event_handler(quick.handler()).unwrap();
    settle().await;
    assert_eq!(quick.take().len(), 4, "the other is done before the first pause is over");
    assert!(handler.wait_synced().await);
    assert_eq!(started.elapsed().as_secs(), 3, "a second per panic");
    source.put(&pod("a")).unwrap();
    sleep(Duration::from_secs(2)).await;
    assert_eq!((calls.load(Ordering::Relaxed), handler.status().panics), (4, 4));
}

/// Adds a handler that logs an event only after it has taken a permit of the returned semaphore.
fn gated(informer: &Informer, permits: usize) -> (Registration<Value>, Log, Arc<Semaphore>) {
    let (log, gate) = (Log::default(), Arc::new(Semaphore::new(permits)));
    let (inner, inner_gate) = (log.clone(), Arc::clone(&gate));
    let handler = move |event: Event<Value>| {
        let (log, gate) = (inner.clone(), Arc::clone(&inner_gate));
        async move {
            gate.acquire().await.unwrap().forget();
            log.push(&event);
        }
    };
    let registration = informer.add_async_event_handler(handler, HandlerOptions::default()).unwrap();
    (registration, log, gate)
}

/// The replay is delivered before anything newer, and the handler has synced only when the last call of it has returned.
#[tokio::test(start_paused = true)]
async fn a_late_handler_receives_the_stored_objects_and_then_syncs() {
    let (source, informer) = synced(&["a", "b"]).await;
    let (late, log, gate) = gated(&informer, 0);
    let last = source.put(&pod("a")).unwrap();
    informer.store().wait_for(last).await.unwrap();
    gate.add_permits(1);
    settle().await;
    assert!(informer.has_synced() && !late.has_synced());
    assert_eq!(log.take(), ["add x/a 1 initial"]);
    gate.add_permits(10);
    assert!(late.wait_synced().await);
    settle().await;
    assert_eq!(log.take(), ["add x/b 2 initial", "synced", "update x/a 1 -> 3"]);
}

#[tokio::test(start_paused = true)]
async fn joining_a_large_cache_costs_the_informer_nothing() {
    let source = InMemory::new(10);
    for number in 0..20_000 {
        source.put(&pod(&format!("{number:05}"))).unwrap();
    }
    let informer = Informer::new(source.clone());
    informer.start().unwrap();
    informer.wait_synced().await;
    // A handler that never gets on joins; the very next change is applied all the same.
    let stuck = informer
        .add_async_event_handler(|_: Event<Value>| std::future::pending::<()>(), HandlerOptions::default())
        .unwrap();
    let last = source.put(&pod("new")).unwrap();
    timeout(Duration::from_millis(10), informer.store().wait_for(last)).await.unwrap().unwrap();
    assert!(!stuck.has_synced());
    // A handler that is stuck for good cannot be waited for.
    let _ = timeout(Duration::from_millis(10), informer.stop()).await;
}

#[tokio::test(start_paused = true)]
async fn removal_discards_and_draining_delivers() {
    for drain in [false, true] {
        let (source, informer) = synced(&[]).await;
        let (handler, log, gate) = gated(&informer, 1);
        let mut last = source.revision();
        for number in 0..1000 {
            last = source.put(&pod(&format!("{number}"))).unwrap();
        }
        informer.store().wait_for(last).await.unwrap();
        settle().await;
        if drain {
            handler.drain()
        } else {
            handler.remove()
        }
        // A second call has no effect, and no later event is delivered.
        handler.drain();
        source.put(&pod("after")).unwrap();
        settle().await;
        gate.add_permits(Semaphore::MAX_PERMITS - 10);
        handler.finished().await;
        // Synced, the call in progress, and the rest only if drained.
        assert_eq!(log.take().len(), if drain { 1001 } else { 2 });
        assert_eq!(informer.status().handlers.len(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_may_remove_itself() {
    let (_, informer) = synced(&["a", "b", "c"]).await;
    let own: Arc<Mutex<Option<listwatch::Registration<Value>>>> = Arc::default();
    let calls = Arc::new(AtomicUsize::new(0));
    let (mine, counted) = (Arc::clone(&own), Arc::clone(&calls));
    let handler = informer
        .add_event_handler(move |_: &Event<Value>| {
            counted.fetch_add(1, Ordering::Relaxed);
            mine.lock().unwrap().as_ref().unwrap().remove();
        })
        .unwrap();
    *own.lock().unwrap() = Some(handler.clone());
    handler.finished().await;
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    assert!(!handler.wait_synced().await);
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_a_handler_that_is_polled() {
    let (source, informer) = synced(&["a"]).await;
    let mut stream = informer.events().unwrap();
    source.put(&pod("b")).unwrap();
    let mut told = Vec::new();
    for _ in 0..3 {
        told.push(stream.next().await.unwrap().to_string());
    }
    assert_eq!(told, ["add x/a 1 initial", "synced", "add x/b 2"]);
    drop(stream);
    assert_eq!(informer.status().handlers.len(), 0);
}

/// An object that is created and deleted before the first poll of the stream causes no event, and nothing hangs.
#[tokio::test(start_paused = true)]
async fn no_wake_up_is_lost_when_a_backlog_runs_empty() {
    let (source, informer) = synced(&[]).await;
    let mut stream = informer.events_with(HandlerOptions::default().max_backlog(1)).unwrap();
    assert_eq!(stream.next().await.unwrap().to_string(), "synced");
    for _ in 0..20 {
        source.put(&pod("a")).unwrap();
        source.delete(&"x/a".parse().unwrap()).unwrap();
    }
    settle().await;
    let last = source.put(&pod("b")).unwrap();
    let told = timeout(Duration::from_secs(1), stream.next()).await.expect("the stream wakes up").unwrap();
    assert_eq!(told.to_string(), format!("add x/b {last}"));
    assert_eq!(informer.store().len(), 1);
}

/// Real threads and real time: handlers are added and removed during ten thousand changes and while the informer stops.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handlers_may_come_and_go_at_any_time() {
    let (source, informer) = synced(&[]).await;
    let writer = tokio::task::spawn_blocking(move || {
        for number in 0..10_000 {
            source.put(&pod(&format!("{}", number % 50))).unwrap();
        }
    });
    let comers: Vec<_> = (0..100)
        .map(|_| {
            let informer = informer.clone();
            tokio::spawn(async move {
                for round in 0..10 {
                    let Ok(handler) = informer.add_event_handler(|_: &Event<Value>| {}) else { return };
                    if round % 2 == 0 {
                        handler.wait_synced().await;
                    }
                    if round % 3 == 0 {
                        handler.drain()
                    } else {
                        handler.remove()
                    }
                    handler.finished().await;
                }
            })
        })
        .collect();
    writer.await.unwrap();
    informer.stop().await;
    for comer in comers {
        comer.await.unwrap();
    }
    assert!(informer.status().handlers.is_empty());
}

/// A handler that blocks its thread has one of its own: on a runtime with a single thread, nothing else waits for it.
#[tokio::test(flavor = "current_thread")]
async fn a_blocking_handler_gets_its_own_thread() {
    let (source, informer) = synced(&["a"]).await;
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let handler = informer
        .add_event_handler_with(
            move |_: &Event<Value>| {
                let _ = blocked.recv();
            },
            HandlerOptions::named("blocking").run_on(RunOn::Thread),
        )
        .unwrap();
    let last = source.put(&pod("b")).unwrap();
    informer.store().wait_for(last).await.unwrap();
    assert_eq!(handler.status().delivered, 0);
    drop(release);
    assert!(handler.wait_synced().await);
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

/// While a handler received its initial objects, or a batch of changes, its backlog was reported as 0.
#[tokio::test(start_paused = true)]
async fn a_backlog_counts_events_in_delivery() {
    let names: Vec<_> = (0..100).map(|number| format!("{number:03}")).collect();
    let (source, informer) = synced(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let gate = Arc::new(Semaphore::new(0));
    let inner = Arc::clone(&gate);
    let gated = move |_: Event<Value>| {
        let gate = Arc::clone(&inner);
        async move { gate.acquire().await.unwrap().forget() }
    };
    let handler = informer.add_async_event_handler(gated, HandlerOptions::default()).unwrap();
    let mut stream = informer.events_with(HandlerOptions::named("stream")).unwrap();
    settle().await;
    assert_eq!(handler.status().backlog, 100);
    gate.add_permits(40);
    settle().await;
    assert_eq!(handler.status().backlog, 60);
    let last = (0..10).map(|_| source.put(&pod("000")).unwrap()).max().unwrap();
    informer.store().wait_for(last).await.unwrap();
    assert_eq!(handler.status().backlog, 70);
    gate.add_permits(61);
    settle().await;
    assert_eq!(handler.status().backlog, 10, "all initial objects and synced are told");
    gate.add_permits(7);
    settle().await;
    assert_eq!(handler.status().backlog, 3);
    for read in 0..30 {
        let unread =
            informer.status().handlers.into_iter().find(|handler| handler.name == "stream").unwrap().backlog;
        assert_eq!(unread, 110 - read);
        stream.next().await.unwrap();
    }
}

/// Letting a handler in costs the same for ten objects or a hundred thousand: nothing is copied under the lock that
/// changes need. Compared with walking the objects once, so that the speed of the machine does not matter.
#[tokio::test]
async fn a_handler_that_joins_does_not_hold_up_the_informer() {
    let source = InMemory::new(10);
    for number in 0..50_000_u64 {
        source.put_encoded(object(&format!("x/{number}"), number + 1));
    }
    let informer = Informer::new(source.clone());
    informer.start().unwrap();
    informer.wait_synced().await;
    let best = |measure: &dyn Fn()| {
        let times = (0..5).map(|_| {
            let began = std::time::Instant::now();
            measure();
            began.elapsed()
        });
        times.min().unwrap()
    };
    let walk = best(&|| assert_eq!(informer.snapshot().iter().cloned().collect::<Vec<_>>().len(), 50_000));
    let join = best(&|| drop(informer.events().unwrap()));
    assert!(join * 20 < walk, "joining took {join:?}, walking all objects {walk:?}");
}
