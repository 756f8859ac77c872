//! Shutting down. client-go's drain is wrong in three ways (it returns with keys queued, it returns before a key that was
//! added again has run, and of two callers one hangs); each has its test here.

use crate::{ms, take_all};
use listwatch_workqueue::{AddError, Drained, Options, Queue};

fn queue() -> Queue<&'static str> {
    Queue::new(Options::new())
}

#[tokio::test]
async fn a_shut_down_queue_refuses_adds_and_hands_out_the_rest() {
    let queue = queue();
    queue.add("a").unwrap();
    queue.shut_down();
    assert_eq!(queue.add("b"), Err(AddError::ShutDown("b")));
    assert_eq!(queue.add_after("b", ms(1)), Err(AddError::ShutDown("b")));
    assert_eq!(queue.add_rate_limited("b"), Err(AddError::ShutDown("b")));
    assert_eq!(queue.get().await.map(|item| *item.key()), Some("a"));
    assert!(queue.get().await.is_none());
    assert!(queue.get_blocking().is_none());
    assert!(queue.is_shut_down());
}

#[tokio::test]
async fn every_sleeping_consumer_sees_the_shut_down() {
    let queue = queue();
    let consumers: Vec<_> = (0..5)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.get().await.is_none() })
        })
        .collect();
    tokio::task::yield_now().await;
    queue.shut_down();
    for consumer in consumers {
        assert!(consumer.await.unwrap());
    }
}

#[tokio::test]
async fn a_drain_waits_for_queued_keys_even_if_none_is_in_flight() {
    let queue = queue();
    queue.add("a").unwrap();
    queue.add("b").unwrap();
    let drain = tokio::spawn({
        let queue = queue.clone();
        async move { queue.shut_down_with_drain().await }
    });
    tokio::task::yield_now().await;
    assert!(!drain.is_finished());
    assert_eq!(take_all(&queue), ["a", "b"]);
    assert_eq!(drain.await.unwrap(), Drained::Complete);
}

#[tokio::test]
async fn a_drain_waits_for_the_second_run_of_a_key_that_was_added_again() {
    let queue = queue();
    queue.add("a").unwrap();
    let item = queue.try_get().unwrap();
    queue.add("a").unwrap();
    let drain = tokio::spawn({
        let queue = queue.clone();
        async move { queue.shut_down_with_drain().await }
    });
    tokio::task::yield_now().await;
    drop(item);
    tokio::task::yield_now().await;
    assert!(!drain.is_finished(), "the second run is still to come");
    assert_eq!(take_all(&queue), ["a"]);
    assert_eq!(drain.await.unwrap(), Drained::Complete);
}

#[tokio::test]
async fn a_consumer_waits_for_a_key_that_will_become_ready_again_during_the_drain() {
    let queue = queue();
    queue.add("a").unwrap();
    let item = queue.try_get().unwrap();
    queue.add("a").unwrap();
    queue.shut_down();
    let other = tokio::spawn({
        let queue = queue.clone();
        async move { queue.get().await.map(|item| *item.key()) }
    });
    tokio::task::yield_now().await;
    drop(item);
    assert_eq!(other.await.unwrap(), Some("a"));
}

#[tokio::test]
async fn any_number_of_callers_may_wait_for_the_drain() {
    let queue = queue();
    queue.add("a").unwrap();
    let item = queue.try_get().unwrap();
    let drains: Vec<_> = (0..3)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.shut_down_with_drain().await })
        })
        .collect();
    tokio::task::yield_now().await;
    drop(item);
    for drain in drains {
        assert_eq!(drain.await.unwrap(), Drained::Complete);
    }
}

#[tokio::test]
async fn a_drain_rejects_new_keys_from_its_start() {
    let queue = queue();
    let drain = queue.shut_down_with_drain();
    assert_eq!(queue.add("a"), Err(AddError::ShutDown("a")));
    assert_eq!(drain.await, Drained::Complete);
}

#[tokio::test]
async fn a_plain_shut_down_releases_those_who_wait_for_the_drain() {
    let queue = queue();
    queue.add("a").unwrap();
    let _item = queue.try_get().unwrap();
    let drain = tokio::spawn({
        let queue = queue.clone();
        async move { queue.shut_down_with_drain().await }
    });
    tokio::task::yield_now().await;
    queue.shut_down();
    assert_eq!(drain.await.unwrap(), Drained::Aborted);
}

#[tokio::test]
async fn shutting_down_drops_delayed_keys_and_returns_their_number() {
    let queue = queue();
    queue.add_after("a", ms(10)).unwrap();
    queue.add_after("b", ms(20)).unwrap();
    queue.add("b").unwrap();
    assert_eq!(queue.shut_down(), 2);
    assert_eq!(take_all(&queue), ["b"]);
    assert!(queue.get().await.is_none());
    assert_eq!(queue.known(), 0);
}

#[tokio::test]
async fn shutting_down_resumes_a_paused_queue() {
    let queue = queue();
    queue.pause();
    queue.add("a").unwrap();
    queue.shut_down();
    queue.pause();
    assert_eq!(queue.get().await.map(|item| *item.key()), Some("a"));
}

/// client-go's delaying queue keeps a goroutine (and, through it, the queue) alive after the shut-down.
#[tokio::test(start_paused = true)]
async fn nothing_outlives_the_queue() {
    let token = std::sync::Arc::new(());
    let queue: Queue<std::sync::Arc<()>> = Queue::new(Options::new());
    queue.add_after(token.clone(), ms(1000)).unwrap();
    assert!(tokio::time::timeout(ms(1), queue.get()).await.is_err());
    drop(queue);
    assert_eq!(std::sync::Arc::strong_count(&token), 1);
}
