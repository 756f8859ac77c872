//! The numbers, as client-go defines them.

use std::time::Duration;

use crate::ms;
use listwatch_workqueue::{Options, Prometheus, Queue, Source};
use tokio::time::advance;

fn queue() -> Queue<&'static str> {
    Queue::new(Options::new().name("test"))
}

#[tokio::test(start_paused = true)]
async fn depth_counts_keys_that_wait_behind_their_own_run() {
    let queue = queue();
    queue.add("a").unwrap();
    queue.add("a").unwrap();
    let item = queue.try_get().unwrap();
    assert_eq!(queue.stats().depth, 0);
    queue.add("a").unwrap();
    assert_eq!((queue.stats().depth, queue.len()), (1, 0));
    drop(item);
    assert_eq!((queue.stats().depth, queue.len()), (1, 1));
    assert_eq!(queue.stats().adds, 2, "merged adds are not counted");
}

#[tokio::test(start_paused = true)]
async fn queue_and_work_durations_are_measured_from_first_add_and_hand_out() {
    let queue = queue();
    queue.add("a").unwrap();
    advance(ms(50)).await;
    queue.add("a").unwrap();
    let item = queue.try_get().unwrap();
    assert_eq!(queue.stats().queue_duration.sum(), ms(50));
    advance(ms(25)).await;
    queue.add("a").unwrap(); // starts a new clock
    advance(ms(10)).await;
    drop(item);
    assert_eq!(queue.stats().work_duration.sum(), ms(35));
    drop(queue.try_get());
    let stats = queue.stats();
    assert_eq!(stats.queue_duration.sum(), ms(60));
    assert_eq!((stats.queue_duration.count(), stats.work_duration.count()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn unfinished_and_longest_running_are_as_old_as_the_question() {
    let queue = queue();
    queue.add("a").unwrap();
    queue.add("b").unwrap();
    let first = queue.try_get().unwrap();
    advance(Duration::from_secs(3)).await;
    let second = queue.try_get().unwrap();
    advance(Duration::from_secs(2)).await;
    let stats = queue.stats();
    assert_eq!(
        (stats.unfinished_work, stats.longest_running),
        (Duration::from_secs(7), Duration::from_secs(5))
    );
    drop(first);
    assert_eq!(queue.stats().longest_running, Duration::from_secs(2));
    drop(second);
    let stats = queue.stats();
    assert_eq!((stats.unfinished_work, stats.longest_running), (Duration::ZERO, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn every_delayed_add_counts_as_a_retry_even_without_delay() {
    let queue = queue();
    queue.add_after("a", Duration::ZERO).unwrap();
    queue.add_after("b", ms(5)).unwrap();
    queue.add_rate_limited("c").unwrap();
    let stats = queue.stats();
    assert_eq!((stats.retries, stats.delayed, stats.depth), (3, 2, 1));
}

#[tokio::test(start_paused = true)]
async fn buckets_are_decades_with_inclusive_bounds() {
    let queue = queue();
    for wait in [Duration::ZERO, ms(1), ms(2), Duration::from_secs(10), Duration::from_secs(11)] {
        queue.add("a").unwrap();
        advance(wait).await;
        drop(queue.try_get());
    }
    let histogram = queue.stats().queue_duration;
    let at = |bound| histogram.cumulative().find(|(at, _)| *at == bound).map(|(_, count)| count);
    assert_eq!(at(Duration::from_nanos(10)), Some(1));
    assert_eq!(at(ms(1)), Some(2));
    assert_eq!(at(ms(10)), Some(3));
    assert_eq!(at(Duration::from_secs(10)), Some(4));
    assert_eq!(histogram.count(), 5);
}

#[tokio::test(start_paused = true)]
async fn the_text_has_the_names_labels_and_bounds_of_client_go() {
    let metrics = Prometheus::default();
    let queue: Queue<&str> = Queue::new(Options::new().name("a \"quoted\" name"));
    metrics.register(queue.clone());
    queue.add("a").unwrap();
    advance(ms(1500)).await;
    drop(queue.try_get());
    let text = metrics.render();
    for line in [
        "# TYPE workqueue_depth gauge",
        "workqueue_depth{name=\"a \\\"quoted\\\" name\"} 0",
        "workqueue_adds_total{name=\"a \\\"quoted\\\" name\"} 1",
        "workqueue_retries_total{name=\"a \\\"quoted\\\" name\"} 0",
        "workqueue_unfinished_work_seconds{name=\"a \\\"quoted\\\" name\"} 0",
        "workqueue_longest_running_processor_seconds{name=\"a \\\"quoted\\\" name\"} 0",
        "# TYPE workqueue_queue_duration_seconds histogram",
        "workqueue_queue_duration_seconds_bucket{name=\"a \\\"quoted\\\" name\",le=\"1e-08\"} 0",
        "workqueue_queue_duration_seconds_bucket{name=\"a \\\"quoted\\\" name\",le=\"1e-05\"} 0",
        "workqueue_queue_duration_seconds_bucket{name=\"a \\\"quoted\\\" name\",le=\"0.0001\"} 0",
        "workqueue_queue_duration_seconds_bucket{name=\"a \\\"quoted\\\" name\",le=\"10\"} 1",
        "workqueue_queue_duration_seconds_bucket{name=\"a \\\"quoted\\\" name\",le=\"+Inf\"} 1",
        "workqueue_queue_duration_seconds_sum{name=\"a \\\"quoted\\\" name\"} 1.5",
        "workqueue_work_duration_seconds_count{name=\"a \\\"quoted\\\" name\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "missing {line} in\n{text}");
    }
}

#[test]
fn a_queue_registered_again_replaces_its_namesake() {
    let metrics = Prometheus::default();
    metrics.register(queue());
    metrics.register(queue());
    assert_eq!(metrics.render().matches("workqueue_depth{").count(), 1);
}

/// Of keys that take next to no time only some are timed. All of them count, and one that takes long is seen as such.
#[test]
fn every_key_is_counted_however_quickly_they_follow_and_slow_ones_are_timed() {
    const QUICK: u64 = 20_000;
    const SLOW: u64 = 40;
    let queue: Queue<u64> = Queue::new(Options::new().name("test"));
    (0..QUICK + SLOW).for_each(|key| queue.add(key).unwrap());
    for _ in 0..QUICK {
        drop(queue.try_get().unwrap());
    }
    for _ in 0..SLOW {
        let _item = queue.try_get().unwrap();
        std::thread::sleep(ms(1));
    }
    let stats = queue.stats();
    assert_eq!((stats.adds, stats.unfinished_work), (QUICK + SLOW, Duration::ZERO));
    assert_eq!((stats.queue_duration.count(), stats.work_duration.count()), (QUICK + SLOW, QUICK + SLOW));
    let (_, up_to_a_millisecond) = stats.work_duration.cumulative().nth(5).unwrap();
    assert!(QUICK + SLOW - up_to_a_millisecond >= SLOW - 17, "{up_to_a_millisecond}");
    let item = queue.add(0).map(|()| queue.try_get());
    std::thread::sleep(ms(2));
    assert!(queue.stats().longest_running >= ms(2));
    drop(item);
}
