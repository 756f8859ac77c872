//! Resyncs: periodic delivery of every object.
#![cfg(test)]

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use listwatch::lister_watcher::{InMemory, Scripted, ScriptedAnswer};
use listwatch::{Event, HandlerOptions, InformerOptions};
use serde_json::Value;
use support::informer::{Informer, Log, page, pod, settle, synced};
use tokio::time::{Instant, sleep};

/// Every object once per period, spread over it; a handler without a period receives none of it.
#[tokio::test(start_paused = true)]
async fn resyncs_follow_their_periods_and_are_spread_out() {
    let names: Vec<String> = (0..100).map(|number| format!("{number:03}")).collect();
    let (_, informer) = synced(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let never = Log::default();
    informer.add_event_handler(never.handler()).unwrap();
    let mut counts = Vec::new();
    for seconds in [2, 3] {
        let calls: Arc<Mutex<Vec<Duration>>> = Arc::default();
        let (inner, started) = (Arc::clone(&calls), Instant::now());
        let handler = move |event: &Event<Value>| {
            if event.is_resync() {
                inner.lock().unwrap().push(started.elapsed());
            }
        };
        let options = HandlerOptions::default().resync(Duration::from_secs(seconds));
        informer.add_event_handler_with(handler, options).unwrap();
        counts.push(calls);
    }
    sleep(Duration::from_millis(6500)).await;
    assert_eq!(never.take().len(), 101);
    for (calls, (passes, period)) in counts.iter().zip([(3, 2.0), (2, 3.0)]) {
        let calls = calls.lock().unwrap();
        let whole = calls.iter().filter(|at| at.as_secs_f64() <= passes as f64 * period + 0.1).count();
        assert!((passes * 100..=passes * 100 + 10).contains(&whole), "{whole} in {passes} passes");
        let worst =
            calls.chunk_by(|a, b| b.saturating_sub(*a) < Duration::from_millis(5)).map(<[_]>::len).max();
        assert!(worst <= Some(10), "no burst: at most {worst:?} at once");
    }
}

/// A resync never delivers an older state than the one delivered before.
#[tokio::test(start_paused = true)]
async fn a_resync_never_overtakes_a_change() {
    let (source, informer) = synced(&["a", "b"]).await;
    let newest: Arc<Mutex<std::collections::HashMap<String, u64>>> = Arc::default();
    let inner = Arc::clone(&newest);
    let handler = move |event: &Event<Value>| {
        if let Some(object) = event.object() {
            let mut newest = inner.lock().unwrap();
            let before = newest.insert(object.key().to_string(), object.revision().0);
            assert!(before.unwrap_or(0) <= object.revision().0);
        }
    };
    let options = HandlerOptions::default().resync(Duration::from_secs(1));
    let handler = informer.add_event_handler_with(handler, options).unwrap();
    for _ in 0..200 {
        source.put(&pod("a")).unwrap();
        sleep(Duration::from_millis(17)).await;
    }
    assert_eq!(handler.status().panics, 0);
    assert!(handler.status().delivered > 200);
}

/// The pass of a handler that was added before the start began with an empty store: all objects came at its end, at once.
/// So did those that came in the middle of a pass.
#[tokio::test(start_paused = true)]
async fn a_first_resync_and_a_grown_one_are_spread_out_too() {
    let source = InMemory::new(100_000);
    let add = |number: usize| source.put(&pod(&format!("{number:05}"))).unwrap();
    (0..1000).map(add).for_each(|_| ());
    let informer = Informer::new(source.clone());
    let log = Log::default();
    let options = HandlerOptions::default().resync(Duration::from_secs(100));
    informer.add_event_handler_with(log.handler(), options).unwrap();
    informer.start().unwrap();
    informer.wait_synced().await;
    settle().await;
    let mut told = Vec::new();
    for second in 0..220 {
        if second == 130 {
            (1000..5000).map(add).for_each(|_| ());
        }
        sleep(Duration::from_secs(1)).await;
        told.push(log.take().iter().filter(|line| line.starts_with("resync")).count());
    }
    assert!(told.iter().max() <= Some(&120), "{told:?}");
    assert!(told[..95].iter().max() <= Some(&12), "{told:?}");
    assert_eq!(told[..105].iter().sum::<usize>() / 1000, 1, "{told:?}");
    assert!(told[105..205].iter().sum::<usize>() >= 4900, "{told:?}");
}

/// A period of zero was raised to a second, and a handler could not do without the informer's.
#[tokio::test(start_paused = true)]
async fn a_resync_of_zero_is_none() {
    let source = InMemory::new(10);
    source.put(&pod("a")).unwrap();
    for (informers, handlers, resyncs) in [(0, None, 0), (10, None, 6), (10, Some(0), 0), (0, Some(10), 6)] {
        let mut options = InformerOptions::default();
        options.resync = Some(Duration::from_secs(informers));
        let informer = Informer::builder(source.clone()).options(options).build();
        let (log, mut options) = (Log::default(), HandlerOptions::default());
        options.resync = handlers.map(Duration::from_secs);
        informer.add_event_handler_with(log.handler(), options).unwrap();
        informer.start().unwrap();
        sleep(Duration::from_secs(65)).await;
        let told = log.take().iter().filter(|line| line.starts_with("resync")).count();
        assert_eq!(told, resyncs, "{informers} {handlers:?}");
    }
}

/// A watch that breaks every second does not keep a handler from its resyncs.
#[tokio::test(start_paused = true)]
async fn resyncs_go_on_while_the_watch_flaps() {
    let source = Scripted::lists_only();
    source.on_list(page(10, &[("x/a", 1)]));
    for _ in 0..100 {
        source.on_watch(ScriptedAnswer::Error(listwatch::lister_watcher::SourceError::Refused(
            "flap".to_owned(),
        )));
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
