//! The rate limiters, with the exact delays of client-go.

use std::time::Duration;

use crate::ms;
use listwatch_workqueue::limiter::{
    self, Bucket, ExponentialBackoff, FailureCounts, FastSlow, Jitter, MaxOf, MaxWait, RateLimiter,
};
use listwatch_workqueue::{Options, Queue};

const NOW: Duration = Duration::ZERO;

fn delays(limiter: &mut impl RateLimiter<&'static str>, calls: usize) -> Vec<Duration> {
    (0..calls).map(|_| limiter.when(&"a", NOW)).collect()
}

#[test]
fn exponential_doubles_per_key_until_forgotten() {
    let mut limiter = ExponentialBackoff::new(ms(1), Duration::from_secs(1000));
    assert_eq!(delays(&mut limiter, 4), [ms(1), ms(2), ms(4), ms(8)]);
    assert_eq!(limiter.when(&"b", NOW), ms(1));
    assert_eq!((limiter.retries(&"a"), limiter.retries(&"b")), (4, 1));
    limiter.forget(&"a");
    assert_eq!((limiter.retries(&"a"), limiter.when(&"a", NOW)), (0, ms(1)));
}

#[test]
fn exponential_reaches_the_default_cap_on_the_nineteenth_call() {
    let mut limiter = ExponentialBackoff::new(ms(5), Duration::from_secs(1000));
    let delays = delays(&mut limiter, 19);
    assert_eq!(delays[17], ms(655_360));
    assert_eq!(delays[18], Duration::from_secs(1000));
}

#[test]
fn exponential_does_not_overflow_after_a_thousand_failures() {
    let mut limiter = ExponentialBackoff::new(ms(1), Duration::from_secs(1000));
    assert_eq!(delays(&mut limiter, 1000)[999], Duration::from_secs(1000));
    let mut long = ExponentialBackoff::new(Duration::MAX, Duration::MAX);
    assert_eq!(delays(&mut long, 3)[2], Duration::MAX);
}

#[test]
fn fast_slow_changes_after_the_fast_attempts() {
    let mut limiter = FastSlow::new(ms(5), Duration::from_secs(10), 3);
    let slow = Duration::from_secs(10);
    assert_eq!(delays(&mut limiter, 5), [ms(5), ms(5), ms(5), slow, slow]);
    limiter.forget(&"a");
    assert_eq!(limiter.when(&"a", NOW), ms(5));
}

#[test]
fn a_bucket_lets_a_burst_through_and_then_paces() {
    let mut limiter = Bucket::new(10.0, 100);
    let delays = delays(&mut limiter, 1000);
    assert_eq!(delays[99], Duration::ZERO);
    assert_eq!(delays[100], ms(100));
    assert_eq!(delays[999], Duration::from_secs(90));
}

#[test]
fn a_bucket_fills_with_time_but_not_beyond_the_burst_nor_backwards() {
    let mut limiter = Bucket::new(10.0, 2);
    delays(&mut limiter, 3);
    let later = Duration::from_secs(60);
    let two: Vec<_> = (0..3).map(|_| limiter.when(&"a", later)).collect();
    assert_eq!(two, [Duration::ZERO, Duration::ZERO, ms(100)]);
    assert_eq!(limiter.when(&"a", NOW), ms(200), "a clock that steps back neither gives nor takes");
}

#[test]
fn a_bucket_without_a_rate_never_refills_and_never_panics() {
    let mut limiter = Bucket::new(0.0, 1);
    assert_eq!(delays(&mut limiter, 2), [Duration::ZERO, Duration::MAX]);
}

#[test]
fn max_of_takes_the_longest_and_all_of_them_count() {
    let mut limiter = MaxOf::new()
        .and(FastSlow::new(ms(5), Duration::from_secs(3), 3))
        .and(ExponentialBackoff::new(ms(1), Duration::from_secs(1)));
    let slow = Duration::from_secs(3);
    assert_eq!(delays(&mut limiter, 5), [ms(5), ms(5), ms(5), slow, slow]);
    assert_eq!(limiter.retries(&"a"), 5);
    limiter.forget(&"a");
    assert_eq!(limiter.retries(&"a"), 0);
}

#[test]
fn max_wait_clamps() {
    let mut limiter = MaxWait::new(Bucket::new(1.0, 1), ms(1500));
    assert_eq!(delays(&mut limiter, 4), [Duration::ZERO, ms(1000), ms(1500), ms(1500)]);
}

#[test]
fn jitter_only_lengthens_by_at_most_its_factor_and_repeats_with_its_seed() {
    let jittered = |seed| {
        let mut limiter = Jitter::new(FastSlow::new(ms(100), ms(100), 0), 0.5, seed);
        delays(&mut limiter, 200)
    };
    let first = jittered(1);
    assert!(first.iter().all(|delay| (ms(100)..=ms(150)).contains(delay)));
    assert!(first.iter().any(|delay| *delay < ms(110)) && first.iter().any(|delay| *delay > ms(140)));
    assert_eq!(first, jittered(1));
    assert_ne!(first, jittered(2));
}

#[test]
fn the_default_is_backoff_and_bucket() {
    let mut limiter = limiter::default_controller::<u32>();
    assert_eq!(limiter.when(&0, NOW), ms(5));
    for key in 1..100 {
        assert_eq!(limiter.when(&key, NOW), ms(5));
    }
    assert_eq!(limiter.when(&100, NOW), ms(100), "the burst is used up");
    let mut by_item = limiter::default_item_based::<u32>();
    assert_eq!(by_item.when(&1, NOW), ms(1));
}

/// client-go keeps the count of a key that failed and was never forgotten for ever.
#[test]
fn failed_keys_take_bounded_memory_and_the_recent_ones_are_kept() {
    let mut failures = FailureCounts::new(1000);
    for key in 0..100_000u32 {
        failures.increment(&key);
        failures.increment(&0);
    }
    assert!(failures.len() <= 1000, "{}", failures.len());
    assert_eq!(failures.get(&0), 100_001, "a key that goes on failing is remembered");
    assert_eq!(failures.get(&99_999), 1);
    assert_eq!(failures.get(&1), 0);
}

#[tokio::test(start_paused = true)]
async fn the_queue_delays_by_its_limiter_and_counts() {
    let queue: Queue<&str> = Queue::new(Options::new().limiter(limiter::default_item_based()));
    for retries in 1..=3 {
        queue.add_rate_limited("a").unwrap();
        assert_eq!(queue.retries(&"a"), retries);
    }
    assert!(queue.try_get().is_none());
    let start = tokio::time::Instant::now();
    let item = queue.get().await.unwrap();
    assert!(start.elapsed() <= ms(2), "the first delay was the earliest");
    assert_eq!(item.retries(), 3);
    item.finish();
    assert_eq!(queue.retries(&"a"), 0);
}

#[tokio::test(start_paused = true)]
async fn forgetting_does_not_end_the_processing() {
    let queue: Queue<&str> = Queue::new(Options::new());
    queue.add("a").unwrap();
    let item = queue.try_get().unwrap();
    queue.forget(&"a");
    queue.add("a").unwrap();
    assert!(queue.try_get().is_none(), "still in flight");
    drop(item);
}
