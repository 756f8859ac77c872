//! Delayed keys. All on a paused clock.

use std::time::Duration;

use crate::{ms, take_all};
use listwatch_workqueue::{Options, Priority, Queue};
use tokio::time::{Instant, advance};

fn queue() -> Queue<&'static str> {
    Queue::new(Options::new())
}

#[tokio::test(start_paused = true)]
async fn a_delayed_key_comes_neither_early_nor_late() {
    let queue = queue();
    let start = Instant::now();
    queue.add_after("a", ms(50)).unwrap();
    assert!(queue.try_get().is_none());
    assert_eq!(*queue.get().await.unwrap().key(), "a");
    let waited = start.elapsed();
    assert!((ms(50)..=ms(51)).contains(&waited), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn keys_come_in_the_order_they_fall_due() {
    let queue: Queue<u64> = Queue::new(Options::new());
    for delay in [700, 3, 65, 64, 5000, 1, 300_000, 63] {
        queue.add_after(delay, ms(delay)).unwrap();
    }
    let mut order = Vec::new();
    for _ in 0..8 {
        order.push(*queue.get().await.unwrap().key());
    }
    assert_eq!(order, [1, 3, 63, 64, 65, 700, 5000, 300_000]);
}

#[tokio::test(start_paused = true)]
async fn of_several_delays_the_earliest_wins() {
    let queue = queue();
    for delay in [50, 20, 80] {
        queue.add_after("a", ms(delay)).unwrap();
    }
    advance(ms(21)).await;
    assert_eq!(take_all(&queue), ["a"]);
    advance(ms(100)).await;
    assert!(take_all(&queue).is_empty(), "the later ones are gone");
}

#[tokio::test(start_paused = true)]
async fn an_earlier_delay_shortens_a_sleep_that_has_begun() {
    let queue = queue();
    queue.add_after("late", ms(10_000)).unwrap();
    let start = Instant::now();
    let consumer = tokio::spawn({
        let queue = queue.clone();
        async move { queue.get().await.map(|item| *item.key()) }
    });
    tokio::task::yield_now().await;
    queue.add_after("soon", ms(10)).unwrap();
    assert_eq!(consumer.await.unwrap(), Some("soon"));
    assert!(start.elapsed() < ms(20));
}

#[tokio::test(start_paused = true)]
async fn no_or_negative_delay_means_now() {
    let queue = queue();
    queue.add_after("a", Duration::ZERO).unwrap();
    assert_eq!(take_all(&queue), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_delayed_key_may_also_be_queued_and_then_runs_twice() {
    let queue = queue();
    queue.add_after("a", ms(10)).unwrap();
    queue.add("a").unwrap();
    assert_eq!(take_all(&queue), ["a"]);
    advance(ms(11)).await;
    assert_eq!(take_all(&queue), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_falls_due_while_queued_or_in_flight_merges() {
    let queue = queue();
    queue.add_after("queued", ms(10)).unwrap();
    queue.add_after("flight", ms(10)).unwrap();
    queue.add("flight").unwrap();
    let item = queue.try_get().unwrap();
    queue.add("queued").unwrap();
    advance(ms(11)).await;
    assert_eq!(queue.len(), 1);
    drop(item);
    assert_eq!(take_all(&queue), ["queued", "flight"]);
}

#[tokio::test(start_paused = true)]
async fn a_delay_can_be_cancelled() {
    let queue = queue();
    queue.add_after("a", ms(10)).unwrap();
    assert!(queue.cancel(&"a"));
    assert!(!queue.cancel(&"a"));
    assert_eq!(queue.known(), 0);
    advance(ms(100)).await;
    assert!(take_all(&queue).is_empty());
}

#[tokio::test(start_paused = true)]
async fn cancelling_leaves_a_queued_occurrence_alone() {
    let queue = queue();
    queue.add("a").unwrap();
    assert!(!queue.cancel(&"a"), "queued is not delayed");
    queue.add_after("a", ms(10)).unwrap();
    assert!(queue.cancel(&"a"));
    assert_eq!(take_all(&queue), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn far_futures_are_accepted_and_do_not_disturb_near_ones() {
    let queue = queue();
    queue.add_after("never", Duration::MAX).unwrap();
    queue.add_after("in a hundred days", Duration::from_secs(8_640_000)).unwrap();
    queue.add_after("soon", ms(10)).unwrap();
    assert_eq!(*queue.get().await.unwrap().key(), "soon");
    assert_eq!(*queue.get().await.unwrap().key(), "in a hundred days");
    assert_eq!(queue.known(), 1);
    assert!(queue.cancel(&"never"));
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_ahead_delivers_everything_that_fell_due() {
    let queue: Queue<u64> = Queue::new(Options::new());
    for key in 0..10_000 {
        queue.add_after(key, ms(1 + key * 7 % 5000)).unwrap();
    }
    advance(Duration::from_secs(86_400)).await;
    let keys = take_all(&queue);
    assert_eq!(keys.len(), 10_000);
    assert!(keys.is_sorted_by_key(|key| key * 7 % 5000), "in the order of their times");
}

#[tokio::test(start_paused = true)]
async fn if_the_consumer_that_watches_the_clock_goes_away_another_takes_over() {
    let queue = queue();
    queue.add_after("a", ms(50)).unwrap();
    let get = |queue: &Queue<&'static str>| {
        let queue = queue.clone();
        tokio::spawn(async move { queue.get().await.map(|item| *item.key()) })
    };
    let watcher = get(&queue);
    tokio::task::yield_now().await;
    let other = get(&queue);
    tokio::task::yield_now().await;
    watcher.abort();
    assert_eq!(other.await.unwrap(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn if_the_consumer_that_watches_the_clock_gets_other_work_another_takes_over() {
    let queue = queue();
    queue.add_after("delayed", ms(50)).unwrap();
    let stuck = tokio::spawn({
        let queue = queue.clone();
        async move {
            let _item = queue.get().await.unwrap();
            std::future::pending::<()>().await;
        }
    });
    tokio::task::yield_now().await;
    queue.add("work").unwrap();
    tokio::task::yield_now().await;
    tokio::task::yield_now().await;
    assert_eq!(queue.in_flight(), 1);
    assert_eq!(*queue.get().await.unwrap().key(), "delayed");
    stuck.abort();
}

#[tokio::test(start_paused = true)]
async fn when_many_fall_due_at_once_all_sleeping_consumers_get_their_share() {
    let queue: Queue<u32> = Queue::new(Options::new());
    let consumers: Vec<_> = (0..4)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move {
                let item = queue.get().await.unwrap();
                tokio::time::sleep(ms(1000)).await;
                *item.key()
            })
        })
        .collect();
    tokio::task::yield_now().await;
    let start = Instant::now();
    (0..4).for_each(|key| queue.add_after(key, ms(10)).unwrap());
    for consumer in consumers {
        consumer.await.unwrap();
    }
    assert!(start.elapsed() < ms(1100), "they worked at the same time");
}

#[tokio::test(start_paused = true)]
async fn the_more_urgent_priority_of_several_delays_counts() {
    let queue = queue();
    queue.add_after_with("a", (), Priority::Background, ms(10)).unwrap();
    queue.add_after_with("a", (), Priority::Urgent, ms(20)).unwrap();
    advance(ms(11)).await;
    assert_eq!(queue.try_get().unwrap().priority(), Priority::Urgent);
}

/// Cancelled and replaced timers stay in the wheel until they are met; they must neither pile up nor come back.
#[tokio::test(start_paused = true)]
async fn cancelling_and_replacing_for_ever_neither_piles_up_nor_fires() {
    let queue: Queue<u64> = Queue::new(Options::new());
    for round in 0..20_000 {
        queue.add_after(round % 3, ms(100_000 - round)).unwrap();
        queue.add_after(3, ms(100_000 - round)).unwrap();
        assert!(queue.cancel(&(round % 3)));
    }
    queue.add_after(1, ms(90_000)).unwrap();
    advance(ms(79_000)).await;
    assert!(take_all(&queue).is_empty());
    advance(ms(3_000)).await;
    assert_eq!(take_all(&queue), [3]);
    advance(ms(20_000)).await;
    assert_eq!(take_all(&queue), [1]);
    assert_eq!(queue.known(), 0);
}

/// Keys that were added before another key was due were queued behind it while they were in the producers' inbox.
#[tokio::test(start_paused = true)]
async fn a_key_that_falls_due_goes_behind_what_was_added_before() {
    let queue = queue();
    queue.add_after("due", ms(10)).unwrap();
    queue.add("first").unwrap();
    assert_eq!(queue.len(), 1); // out of the inbox, so that the next hand-out need not look there
    queue.add("second").unwrap();
    advance(ms(11)).await;
    queue.add("third").unwrap();
    assert_eq!(take_all(&queue), ["first", "second", "third", "due"]);
}

/// The timer of a cancelled key stayed behind, and when its time came the consumer looked again and again, for ever.
#[tokio::test(start_paused = true)]
async fn a_consumer_sleeps_through_the_time_of_a_cancelled_key() {
    let queue = queue();
    queue.add_after("a", ms(10)).unwrap();
    assert!(queue.cancel(&"a"));
    assert!(tokio::time::timeout(ms(100), queue.get()).await.is_err());
    queue.add_after("b", ms(10)).unwrap();
    queue.add_after("c", ms(5)).unwrap();
    assert!(queue.cancel(&"c"));
    assert_eq!(queue.get().await.map(|item| *item.key()), Some("b"));
}

/// Very many resyncs that fall due together are moved in portions; what is more urgent must not wait for them.
#[tokio::test(start_paused = true)]
async fn a_million_background_keys_that_fall_due_are_not_before_a_live_one() {
    let queue: Queue<u64> = Queue::new(Options::new());
    for key in 0..1_000_000 {
        queue.add_after_with(key, (), Priority::Background, ms(10)).unwrap();
    }
    queue.add_after(1_000_000, ms(11)).unwrap();
    advance(ms(12)).await;
    assert_eq!(queue.try_get().map(|item| *item.key()), Some(1_000_000));
    assert_eq!(queue.try_get().map(|item| *item.key()), Some(0));
    assert_eq!(queue.len(), 999_999, "looking at the length moves all that are due");
}

/// Keys that fall due wait while the line is long. Producers that keep it long must not shut them out.
#[tokio::test(start_paused = true)]
async fn keys_that_fall_due_get_in_however_long_the_line_is_kept() {
    const DUE: u64 = 1000;
    let queue: Queue<u64> = Queue::new(Options::new());
    (0..DUE).for_each(|key| queue.add_after(key, ms(10 + key % 7)).unwrap());
    (DUE..2 * DUE).for_each(|key| queue.add(key).unwrap());
    advance(ms(20)).await;
    let mut due = Vec::new();
    for key in 2 * DUE..6 * DUE {
        due.extend(queue.try_get().map(|item| *item.key()).filter(|key| *key < DUE));
        queue.add(key).unwrap();
    }
    assert_eq!(due.len() as u64, DUE);
    assert!(due.is_sorted_by_key(|key| key % 7), "the earlier time goes first");
}
