//! Without a cache: the retry watcher, conditions, and the pager.
#![cfg(test)]

mod support;

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use listwatch::lister_watcher::{
    InMemory, ListRequest, ListVersion, Scripted, ScriptedAnswer, SourceError, SourcePage, WatchEvent,
};
use listwatch::pager::{OnExpired, Pager, PagerOptions};
use listwatch::until::{UntilError, until, wait_for};
use listwatch::{ListerWatcher, RetryWatcher, Revision, SharedInformer};
use listwatch_wire::status::{Status, StatusReason};
use serde_json::{Value, json};
use support::object;
use tokio::time::{Instant, timeout};

fn events(events: Vec<WatchEvent>, stay_open: bool) -> ScriptedAnswer {
    ScriptedAnswer::Events { events, stay_open }
}

fn modified(revision: u64) -> WatchEvent {
    WatchEvent::Modified(object("x/a", revision))
}

async fn read(watcher: &mut RetryWatcher) -> Option<String> {
    let item =
        timeout(Duration::from_secs(600), watcher.next()).await.expect("something within ten minutes")?;
    Some(match item {
        Ok(event) => match event {
            WatchEvent::Modified(object) => format!("modified {}", object.revision()),
            other => format!("{other:?}"),
        },
        Err(error) => format!("error: {error}"),
    })
}

#[tokio::test(start_paused = true)]
async fn a_retry_watcher_resumes_where_it_broke() {
    let source = Arc::new(Scripted::default());
    let bookmark = WatchEvent::Bookmark { revision: Revision(20), initial_events_end: false };
    source.on_watch(events(vec![modified(11), modified(12)], false));
    source.on_watch(ScriptedAnswer::Error(SourceError::Refused("later".to_owned())));
    source.on_watch(events(
        vec![modified(13), bookmark, WatchEvent::Error(Box::new(Status::internal("oops")))],
        true,
    ));
    source.on_watch(ScriptedAnswer::Error(Status::failure(504, StatusReason::Timeout, "slow").into()));
    source.on_watch(events(vec![modified(21)], true));
    let mut watcher = RetryWatcher::new(Arc::clone(&source) as Arc<dyn ListerWatcher>, Revision(10)).unwrap();
    for expected in [11, 12, 13, 21] {
        assert_eq!(read(&mut watcher).await, Some(format!("modified {expected}")));
    }
    let expected = ["watch rv=10", "watch rv=12", "watch rv=12", "watch rv=20", "watch rv=20"];
    assert_eq!(source.requests(), expected);
}

/// A 410, at the start or later, ends the watcher with an error.
#[tokio::test(start_paused = true)]
async fn a_retry_watcher_ends_with_expired_when_history_is_compacted() {
    let expired = || Status::expired("too old");
    let answers = [
        ScriptedAnswer::Error(expired().into()),
        events(vec![WatchEvent::Error(Box::new(expired()))], true),
        ScriptedAnswer::Error(Status::forbidden("", "pods", "", "no").into()),
        ScriptedAnswer::Error(Status::unauthorized().into()),
    ];
    for answer in answers {
        let source = Arc::new(Scripted::default());
        source.on_watch(answer);
        let mut watcher =
            RetryWatcher::new(Arc::clone(&source) as Arc<dyn ListerWatcher>, Revision(10)).unwrap();
        assert!(read(&mut watcher).await.unwrap().starts_with("error: "));
        assert_eq!(read(&mut watcher).await, None);
        assert_eq!(source.requests().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_watcher_is_paced_by_a_backoff_and_by_the_server() {
    let source = Arc::new(Scripted::default());
    for _ in 0..5 {
        source.on_watch(ScriptedAnswer::Error(SourceError::Refused("nobody".to_owned())));
    }
    source.on_watch(ScriptedAnswer::Error(Status::too_many_requests("no", 300).into()));
    source.on_watch(events(vec![modified(11)], true));
    let started = Instant::now();
    let mut watcher = RetryWatcher::new(Arc::clone(&source) as Arc<dyn ListerWatcher>, Revision(10)).unwrap();
    assert_eq!(read(&mut watcher).await.as_deref(), Some("modified 11"));
    // 0.8 + 1.6 + 3.2 + 6.4 + 12.8, each up to twice as long, and the five minutes that were asked for.
    let waited = started.elapsed().as_secs_f64();
    assert!((324.8..=349.6).contains(&waited), "{waited}");
}

/// A peer that disappeared was waited for without limit; revision 0 was taken for a place in the history.
#[tokio::test(start_paused = true)]
async fn a_retry_watcher_gives_up_silent_streams_and_does_not_begin_at_zero() {
    let source = Arc::new(Scripted::default());
    assert!(RetryWatcher::new(Arc::clone(&source) as Arc<dyn ListerWatcher>, Revision::ZERO).is_err());
    source.on_watch(ScriptedAnswer::Silence);
    source.on_watch(events(vec![modified(11)], true));
    source.on_watch(events(vec![modified(12)], true));
    let mut watcher = RetryWatcher::new(Arc::clone(&source) as Arc<dyn ListerWatcher>, Revision(10)).unwrap();
    let started = Instant::now();
    assert_eq!(read(&mut watcher).await.as_deref(), Some("modified 11"), "not opened within 30 s");
    assert_eq!(read(&mut watcher).await.as_deref(), Some("modified 12"), "silent for 90 s");
    assert!((120.0..125.0).contains(&started.elapsed().as_secs_f64()), "{:?}", started.elapsed());
    assert_eq!(source.requests(), ["watch rv=10", "watch rv=10", "watch rv=11"]);
}

#[tokio::test(start_paused = true)]
async fn conditions_are_met_in_order_and_the_meeting_event_counts_for_the_next() {
    let at_least = |revision: u64| -> listwatch::until::Condition<'static> {
        Box::new(
            move |event| matches!(event, WatchEvent::Modified(object) if object.revision().0 >= revision),
        )
    };
    let stream = || stream::iter((1..=5).map(|revision| Ok(modified(revision))));
    let met = until(stream(), vec![at_least(2), at_least(1), at_least(4)]).await.unwrap();
    assert!(matches!(met, Some(WatchEvent::Modified(object)) if object.revision().0 == 4));
    assert!(matches!(until(stream(), vec![at_least(9)]).await, Err(UntilError::Ended)));
    assert!(until(stream(), Vec::new()).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn waiting_on_a_cache_sees_what_was_there_before_and_absence_only_once_synced() {
    let source = InMemory::new(10);
    let informer = SharedInformer::<Value>::new(source.clone());
    let key = "x/a".parse().unwrap();
    informer.start().unwrap();
    assert_eq!(wait_for(&informer, &key, |object| object.is_none()).await.unwrap(), None);
    let last = source.put(&json!({"metadata": {"namespace": "x", "name": "a"}})).unwrap();
    let found = wait_for(&informer, &key, |object| object.is_some()).await.unwrap();
    assert_eq!(found.unwrap().revision(), last);
    let never = wait_for(&informer, &key, |_| false);
    let (ended, ()) = tokio::join!(never, informer.stop());
    assert!(matches!(ended, Err(UntilError::Ended)));
}

/// A state that did not last was missed: by the time the waiter read the cache, the object was deleted.
#[tokio::test(start_paused = true)]
async fn waiting_on_a_cache_sees_states_that_do_not_last() {
    let source = InMemory::new(10);
    let informer = SharedInformer::<Value>::new(source.clone());
    informer.start().unwrap();
    informer.wait_synced().await;
    let key = "x/a".parse().unwrap();
    let done = |object: Option<&listwatch::Object<Value>>| {
        object.is_some_and(|object| object.text(&["status"]).as_deref() == Some("done"))
    };
    let changes = async {
        for status in ["begun", "done"] {
            source.put(&json!({"metadata": {"namespace": "x", "name": "a"}, "status": status})).unwrap();
        }
        source.delete(&key).unwrap();
    };
    let (met, ()) = tokio::join!(wait_for(&informer, &key, done), changes);
    assert_eq!(met.unwrap().unwrap().revision(), Revision(2));
    assert!(informer.store().is_empty());
    assert!(informer.status().handlers.is_empty());
}

/// Each call delivered every object of the cache to the waiter.
#[tokio::test(start_paused = true)]
async fn waiting_for_one_object_ignores_the_others() {
    let source = InMemory::new(1000);
    let put = |name: &str| source.put(&json!({"metadata": {"namespace": "x", "name": name}})).unwrap();
    (0..500).map(|number| put(&format!("{number}"))).for_each(|_| ());
    let informer = SharedInformer::<Value>::new(source.clone());
    informer.start().unwrap();
    informer.wait_synced().await;
    let key = "x/a".parse().unwrap();
    let mut asked = 0;
    let present = |object: Option<&listwatch::Object<Value>>| {
        asked += 1;
        object.is_some()
    };
    let changes = async {
        (0..500).map(|number| put(&format!("{number}"))).for_each(|_| ());
        put("a");
    };
    let (met, ()) = tokio::join!(wait_for(&informer, &key, present), changes);
    assert_eq!(met.unwrap().unwrap().revision(), Revision(1001));
    assert_eq!(asked, 2, "once for its absence, once for the object");
}

/// The version of one object, without waiting for the rest of the collection to get there.
#[tokio::test(start_paused = true)]
async fn own_writes_are_waited_for_object_by_object() {
    let source = InMemory::new(10);
    let informer = SharedInformer::<Value>::new(source.clone());
    informer.start().unwrap();
    let put = || source.put(&json!({"metadata": {"namespace": "x", "name": "a"}})).unwrap();
    let key = "x/a".parse().unwrap();
    let last = put();
    assert_eq!(informer.wait_for(&key, last).await.unwrap().unwrap().revision(), last);
    let gone = source.delete(&key).unwrap();
    assert_eq!(informer.wait_for(&key, gone).await.unwrap(), None);
    let (ended, ()) = tokio::join!(informer.wait_for(&key, Revision(99)), informer.stop());
    assert!(ended.is_err());
}

fn page(names: &[&str], token: Option<&str>) -> ScriptedAnswer {
    let objects = names.iter().map(|name| object(&format!("x/{name}"), 5)).collect();
    let continue_token = token.map(str::to_owned);
    ScriptedAnswer::Page(SourcePage { objects, revision: Revision(9), continue_token, unusable: Vec::new() })
}

/// A continued list carries no version of its own; a real server refuses one.
#[tokio::test(start_paused = true)]
async fn pages_follow_each_other_and_are_fetched_ahead_within_the_bound() {
    let source = Arc::new(Scripted::default());
    for (names, token) in [(["a"], Some("1")), (["b"], Some("2")), (["c"], Some("3")), (["d"], None)] {
        source.on_list(page(&names, token));
    }
    let first = ListRequest::first(ListVersion::Any, Some(1));
    let options = PagerOptions::default().prefetch(2);
    let mut pager = Pager::new(Arc::clone(&source) as Arc<dyn ListerWatcher>, first, options);
    assert_eq!(pager.next().await.unwrap().unwrap().objects[0].name(), "a");
    assert_eq!(source.requests().len(), 2, "the page that was wanted and one ahead, no more");
    let rest: Vec<_> = pager.map(|page| page.unwrap().objects[0].name().to_owned()).collect().await;
    assert_eq!(rest, ["b", "c", "d"]);
}

#[tokio::test(start_paused = true)]
async fn an_expired_list_goes_on_with_the_servers_replacement_token_or_fails() {
    let mut expired = Status::expired("the token is too old");
    expired.metadata.continue_token = "replacement".to_owned();
    for (on_expired, pages) in [(OnExpired::Continue, 2), (OnExpired::Fail, 1)] {
        let source = Arc::new(Scripted::default());
        source.on_list(page(&["a"], Some("1")));
        source.on_list(ScriptedAnswer::Error(expired.clone().into()));
        source.on_list(page(&["b"], None));
        let first = ListRequest::first(ListVersion::MostRecent, Some(1));
        let options = PagerOptions::default().on_expired(on_expired);
        let pager = Pager::new(Arc::clone(&source) as Arc<dyn ListerWatcher>, first, options);
        let all: Vec<_> = pager.collect().await;
        assert_eq!(all.iter().filter(|page| page.is_ok()).count(), pages);
        assert_eq!(all.iter().any(Result::is_err), on_expired == OnExpired::Fail);
        let continued = source.requests().iter().any(|request| request.ends_with("continue=replacement"));
        assert_eq!(continued, on_expired == OnExpired::Continue);
    }
}

/// A server that named a next page each time was asked without end: 6,000 requests a second.
#[tokio::test(start_paused = true)]
async fn a_list_that_never_ends_is_given_up_after_what_has_come() {
    for (tokens, most, pages) in [(["1", "1", "1"], 100, 2), (["1", "2", "3"], 2, 2)] {
        let source = Arc::new(Scripted::default());
        tokens.iter().for_each(|token| source.on_list(page(&["a"], Some(token))));
        let first = ListRequest::first(ListVersion::MostRecent, Some(1));
        let options = PagerOptions::default().max_pages(most);
        let pager = Pager::new(Arc::clone(&source) as Arc<dyn ListerWatcher>, first, options);
        let all: Vec<_> = pager.collect().await;
        assert_eq!(all.iter().filter(|page| page.is_ok()).count(), pages, "{tokens:?}");
        assert!(matches!(all.last(), Some(Err(SourceError::Malformed(_)))), "{:?}", all.last());
    }
}
