//! The rules of the plain queue: order, deduplication, one at a time, hand-over, pausing, bounds, inspection.

use std::collections::{BTreeSet, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use crate::take_all;
use listwatch_workqueue::{AddError, KeyState, Options, Priority, Queue, Reason, limiter};

fn queue() -> Queue<&'static str> {
    Queue::new(Options::new())
}

#[test]
fn keys_come_out_in_the_order_they_were_added() {
    let queue = queue();
    crate::add_all(&queue, ["b", "a", "c"]);
    assert_eq!(take_all(&queue), ["b", "a", "c"]);
}

#[test]
fn a_waiting_key_is_queued_once_and_keeps_its_place() {
    let queue = queue();
    crate::add_all(&queue, ["a", "b", "a", "a"]);
    assert_eq!(queue.len(), 2);
    assert_eq!(take_all(&queue), ["a", "b"]);
}

#[test]
fn a_key_in_flight_is_never_handed_out_again() {
    let queue = queue();
    queue.add("a").unwrap();
    let item = queue.try_get().unwrap();
    queue.add("a").unwrap();
    assert!(queue.try_get().is_none());
    drop(item);
    assert_eq!(take_all(&queue), ["a"]);
}

#[test]
fn many_adds_while_in_flight_make_one_more_run_behind_what_was_queued_before() {
    let queue = queue();
    queue.add("a").unwrap();
    let item = queue.try_get().unwrap();
    crate::add_all(&queue, ["b", "a", "c", "a", "a"]);
    drop(item);
    let order = take_all(&queue);
    assert_eq!(order[0], "b");
    assert_eq!(order.iter().filter(|key| **key == "a").count(), 1);
    assert_eq!(order.len(), 3);
}

#[test]
fn an_item_becomes_the_next_one_and_is_over_after_the_last() {
    let queue = queue();
    crate::add_all(&queue, ["a", "b"]);
    let mut item = queue.get_blocking().unwrap();
    assert!(item.next_blocking());
    assert_eq!((*item.key(), queue.in_flight()), ("b", 1), "the first one is done");

    queue.add("b").unwrap();
    assert!(item.next_blocking(), "added while in hand, so once more");
    assert_eq!((*item.key(), queue.in_flight(), queue.len()), ("b", 1, 0));

    queue.shut_down();
    assert!(!item.next_blocking() && !item.next_blocking());
    assert_eq!((queue.in_flight(), queue.known()), (0, 0));
    drop(item);
    assert_eq!(queue.in_flight(), 0, "not done a second time");
}

#[test]
fn an_item_that_must_not_be_lost_is_retried_before_the_next() {
    let queue = queue();
    crate::add_all(&queue, ["a", "b"]);
    let mut item = queue.get_blocking().unwrap().at_least_once();
    assert!(item.next_blocking());
    assert_eq!((*item.key(), item.retries(), queue.retries(&"a")), ("b", 0, 1));
}

#[test]
fn a_key_without_work_is_forgotten() {
    let queue = queue();
    queue.add("a").unwrap();
    assert_eq!(queue.known(), 1);
    take_all(&queue);
    assert_eq!(queue.known(), 0);
}

#[test]
fn more_keys_than_any_internal_batch_go_through() {
    let queue: Queue<u32> = Queue::new(Options::new());
    (0..20_000).for_each(|key| queue.add(key).unwrap());
    (0..20_000).for_each(|key| queue.add(key).unwrap());
    assert_eq!(queue.len(), 20_000);
    assert_eq!(take_all(&queue), (0..20_000).collect::<Vec<_>>());
    assert_eq!(queue.known(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_panic_while_holding_an_item_releases_and_retries_the_key() {
    let queue = queue();
    queue.add("a").unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _item = queue.try_get().unwrap();
        panic!("the worker has a bug");
    }));
    assert!(panicked.is_err());
    assert_eq!((queue.in_flight(), queue.retries(&"a")), (0, 1));
    assert_eq!(*queue.get().await.unwrap().key(), "a");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_task_with_an_at_least_once_item_loses_nothing() {
    let queue = queue();
    queue.add("a").unwrap();
    let task = tokio::spawn({
        let queue = queue.clone();
        async move {
            let _item = queue.get().await.unwrap().at_least_once();
            std::future::pending::<()>().await;
        }
    });
    tokio::task::yield_now().await;
    tokio::task::yield_now().await;
    assert_eq!(queue.in_flight(), 1);
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    assert_eq!(*queue.get().await.unwrap().key(), "a");
}

#[tokio::test]
async fn an_owned_item_moves_to_another_task_and_is_done_there() {
    let queue = queue();
    queue.add("a").unwrap();
    let item = queue.get_owned().await.unwrap();
    assert_eq!(queue.in_flight(), 1);
    tokio::spawn(async move { drop(item) }).await.unwrap();
    assert_eq!((queue.in_flight(), queue.known()), (0, 0));
}

#[tokio::test]
async fn a_dropped_get_loses_neither_a_key_nor_a_wake() {
    let queue = queue();
    let mut first = Box::pin(queue.get());
    let second = tokio::spawn({
        let queue = queue.clone();
        async move { queue.get().await.map(|item| *item.key()) }
    });
    assert!(poll_once(&mut first).await.is_none());
    tokio::task::yield_now().await;
    queue.add("a").unwrap();
    drop(first);
    assert_eq!(second.await.unwrap(), Some("a"));
}

/// Polls once.
async fn poll_once<F: std::future::Future + Unpin>(future: &mut F) -> Option<F::Output> {
    std::future::poll_fn(|cx| match std::pin::Pin::new(&mut *future).poll(cx) {
        std::task::Poll::Ready(output) => std::task::Poll::Ready(Some(output)),
        std::task::Poll::Pending => std::task::Poll::Ready(None),
    })
    .await
}

#[test]
fn threads_and_tasks_serve_the_same_queue_and_each_key_is_processed_alone() {
    let queue: Queue<u32> = Queue::new(Options::new());
    let running: Arc<Mutex<HashSet<u32>>> = Arc::default();
    let work = |key: u32, running: &Mutex<HashSet<u32>>| {
        assert!(running.lock().unwrap().insert(key), "key {key} is processed twice at once");
        std::thread::yield_now();
        running.lock().unwrap().remove(&key);
    };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let (blocking, seen) = (queue.clone(), Arc::clone(&running));
            scope.spawn(move || {
                while let Some(item) = blocking.get_blocking() {
                    work(*item.key(), &seen);
                }
            });
            let (queue, running) = (queue.clone(), Arc::clone(&running));
            runtime.spawn(async move {
                while let Some(item) = queue.get().await {
                    work(*item.key(), &running);
                }
            });
        }
        for add in 0..20_000u32 {
            queue.add(add % 7).unwrap();
        }
        assert_eq!(runtime.block_on(queue.shut_down_with_drain()), listwatch_workqueue::Drained::Complete);
    });
    assert_eq!(queue.known(), 0);
}

/// The time it sleeps if none has fallen due is tested next to the source.
#[tokio::test(start_paused = true)]
async fn a_blocking_consumer_gets_delayed_keys_that_have_fallen_due() {
    let queue = queue();
    queue.add_after("a", crate::ms(2)).unwrap();
    tokio::time::advance(crate::ms(3)).await;
    assert_eq!(queue.get_blocking().map(|item| *item.key()), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn a_paused_queue_accepts_and_holds_back() {
    let queue = queue();
    queue.pause();
    queue.add("a").unwrap();
    assert!(queue.try_get().is_none());
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move { queue.get().await.map(|item| *item.key()) }
    });
    tokio::task::yield_now().await;
    queue.add("b").unwrap();
    assert_eq!(queue.len(), 2);
    queue.resume();
    assert_eq!(waiting.await.unwrap(), Some("a"));
}

/// A consumer of a paused queue looked for new keys again and again, holding the lock, as long as some were ready and others
/// had just been added.
#[tokio::test(start_paused = true)]
async fn a_consumer_of_a_paused_queue_sleeps_whatever_has_been_added() {
    let queue = queue();
    queue.add("a").unwrap();
    assert_eq!(queue.len(), 1);
    queue.pause();
    queue.add("b").unwrap();
    assert!(poll_once(&mut Box::pin(queue.get())).await.is_none());
}

#[test]
fn a_full_queue_rejects_new_keys_and_gives_them_back() {
    let queue: Queue<&str> = Queue::new(Options::new().capacity(2));
    queue.add("a").unwrap();
    queue.add("b").unwrap();
    assert_eq!(queue.add("c"), Err(AddError::Full("c")));
    assert_eq!(queue.add("a"), Ok(()), "a known key needs no room");
    assert_eq!(queue.add_after("c", crate::ms(1)), Err(AddError::Full("c")), "delayed keys count");
    drop(queue.try_get());
    assert_eq!(queue.add("c"), Ok(()));
}

#[test]
fn a_retry_is_never_refused_for_lack_of_room() {
    let queue: Queue<&str> = Queue::new(Options::new().capacity(1).limiter(limiter::MaxOf::new()));
    queue.add("a").unwrap();
    queue.try_get().unwrap().retry();
    assert_eq!(take_all(&queue), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn producers_wait_for_room_in_turn_and_a_dropped_one_passes_its_place_on() {
    let queue: Queue<u32> = Queue::new(Options::new().capacity(1));
    queue.add(0).unwrap();
    let mut given_up = Box::pin(queue.add_wait(1));
    assert!(poll_once(&mut given_up).await.is_none());
    let second = tokio::spawn({
        let queue = queue.clone();
        async move { queue.add_wait(2).await }
    });
    tokio::task::yield_now().await;
    assert_eq!(take_all(&queue), [0]); // wakes the first, which goes away instead
    drop(given_up);
    assert_eq!(second.await.unwrap(), Ok(()));
    assert_eq!(take_all(&queue), [2]);
}

#[tokio::test(start_paused = true)]
async fn shutting_down_releases_every_producer_that_waits_for_room() {
    let queue: Queue<u32> = Queue::new(Options::new().capacity(1));
    queue.add(0).unwrap();
    let waiting = |key| {
        let queue = queue.clone();
        tokio::spawn(async move { queue.add_wait(key).await })
    };
    let (one, two) = (waiting(1), waiting(2));
    tokio::task::yield_now().await;
    queue.shut_down();
    assert_eq!(one.await.unwrap(), Err(AddError::ShutDown(1)));
    assert_eq!(two.await.unwrap(), Err(AddError::ShutDown(2)));
}

#[test]
fn reasons_merge_until_the_key_is_handed_out() {
    let queue: Queue<&str, BTreeSet<&str>> = Queue::new(Options::new());
    let add = |reason| queue.add_with("a", BTreeSet::from([reason]), Priority::Normal).unwrap();
    add("spec");
    add("status");
    let item = queue.try_get().unwrap();
    assert_eq!(*item.reason(), BTreeSet::from(["spec", "status"]));
    add("later");
    drop(item);
    assert_eq!(*queue.try_get().unwrap().reason(), BTreeSet::from(["later"]));
}

#[test]
fn a_retry_keeps_its_reason_and_merges_new_ones() {
    let queue: Queue<&str, BTreeSet<&str>> = Queue::new(Options::new().limiter(limiter::MaxOf::new()));
    queue.add_with("a", BTreeSet::from(["first"]), Priority::Normal).unwrap();
    let item = queue.try_get().unwrap();
    queue.add_with("a", BTreeSet::from(["second"]), Priority::Normal).unwrap();
    item.retry();
    assert_eq!(*queue.try_get().unwrap().reason(), BTreeSet::from(["first", "second"]));
}

#[tokio::test(start_paused = true)]
async fn peek_and_list_show_where_each_key_stands_and_change_nothing() {
    let queue = queue();
    crate::add_all(&queue, ["again", "flight", "ready"]);
    let _again = queue.try_get().unwrap();
    let _flight = queue.try_get().unwrap();
    queue.add("again").unwrap();
    queue.add_after("delayed", crate::ms(10)).unwrap();
    assert_eq!(queue.peek(), Some("ready"));
    let mut listed: Vec<_> =
        queue.list().into_iter().map(|view| (view.key, view.state, view.due_in)).collect();
    listed.sort_by_key(|(key, ..)| *key);
    let expected = [
        ("again", KeyState::Processing { again: true }, None),
        ("delayed", KeyState::Delayed, Some(crate::ms(10))),
        ("flight", KeyState::Processing { again: false }, None),
        ("ready", KeyState::Ready, None),
    ];
    assert_eq!(listed, expected);
    assert_eq!(take_all(&queue), ["ready"]);
}

/// Coalesces by blowing up.
#[derive(Default)]
struct Fuse;

impl Reason for Fuse {
    fn merge(&mut self, _newer: Self) {
        panic!("blown");
    }
}

/// Adds wait in the inbox until a consumer takes them. A panic in that consumer once lost all later adds.
#[test]
fn a_panic_while_adds_are_moved_loses_none_of_the_others() {
    let queue: Queue<u32, Fuse> = Queue::new(Options::new());
    [1, 2, 2, 3].into_iter().for_each(|key| queue.add(key).unwrap());
    queue.add_after(4, crate::ms(1000)).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| queue.len())).is_err());
    assert_eq!((queue.len(), queue.known()), (3, 4));
    let order: Vec<_> = std::iter::from_fn(|| queue.try_get().map(|item| *item.key())).collect();
    assert_eq!(order, [1, 2, 3]);
}
