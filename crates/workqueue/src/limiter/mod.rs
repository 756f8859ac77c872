//! Rate limiters: the delay before a failed key is retried.
//!
//! All of them are pure: they take the time as an argument and return a delay. [`ExponentialBackoff`], [`FastSlow`] and
//! [`Bucket`] decide; [`MaxOf`], [`MaxWait`] and [`Jitter`] combine. Counting failures per key takes memory per key, which
//! is bounded ([`FailureCounts`]).
//!
//! ```
//! use std::time::Duration;
//! use listwatch_workqueue::limiter::{self, RateLimiter};
//!
//! let mut limiter = limiter::default_controller::<&str>();
//! let now = Duration::ZERO;
//! assert_eq!(limiter.when(&"default/web", now), Duration::from_millis(5));
//! assert_eq!(limiter.when(&"default/web", now), Duration::from_millis(10));
//! assert_eq!(limiter.retries(&"default/web"), 2);
//! limiter.forget(&"default/web");
//! assert_eq!(limiter.when(&"default/web", now), Duration::from_millis(5));
//! ```

mod backoff;
mod bucket;
mod combine;
mod failures;

pub use backoff::{ExponentialBackoff, FastSlow};
pub use bucket::Bucket;
pub use combine::{Jitter, MaxOf, MaxWait};
pub use failures::FailureCounts;

use std::hash::Hash;
use std::time::Duration;

/// Decides how long a failed key waits before it is tried again.
///
/// Called under a lock separate from the queue's, so it may be slow but must not use the queue. Compose limiters rather
/// than write one: [`MaxOf`], [`MaxWait`] and [`Jitter`] wrap any other.
///
/// ```
/// use std::time::Duration;
/// use listwatch_workqueue::limiter::{ExponentialBackoff, MaxWait, RateLimiter};
///
/// let backoff = ExponentialBackoff::new(Duration::from_millis(5), Duration::from_secs(60));
/// let mut limiter = MaxWait::new(backoff, Duration::from_millis(15));
/// let now = Duration::ZERO;
/// let delays: Vec<_> = (0..3).map(|_| limiter.when(&"key", now).as_millis()).collect();
/// assert_eq!(delays, [5, 10, 15]);
/// limiter.forget(&"key");
/// assert_eq!(limiter.when(&"key", now).as_millis(), 5);
/// ```
#[doc(alias = "TypedRateLimiter")]
pub trait RateLimiter<K>: Send {
    /// Counts a failure of `key` at `now` (time since any fixed moment) and returns the time it must wait.
    fn when(&mut self, key: &K, now: Duration) -> Duration;

    /// Forgets the failures of a key: it has succeeded, or they no longer matter.
    fn forget(&mut self, key: &K);

    /// The number of times the key has failed since it was last forgotten; 0 for limiters without a count per key.
    fn retries(&self, key: &K) -> u32;
}

impl<K, L: RateLimiter<K> + ?Sized> RateLimiter<K> for Box<L> {
    fn when(&mut self, key: &K, now: Duration) -> Duration {
        (**self).when(key, now)
    }

    fn forget(&mut self, key: &K) {
        (**self).forget(key);
    }

    fn retries(&self, key: &K) -> u32 {
        (**self).retries(key)
    }
}

/// The default of client-go's controllers: 5 ms doubling to 1000 s per key, and 10 retries per second in bursts
/// of up to 100 over all keys.
pub fn default_controller<K: Eq + Hash + Clone + Send + 'static>() -> MaxOf<K> {
    MaxOf::new()
        .and(ExponentialBackoff::new(Duration::from_millis(5), Duration::from_secs(1000)))
        .and(Bucket::new(10.0, 100))
}

/// The default of client-go where only the key counts: 1 ms doubling to 1000 s.
pub fn default_item_based<K: Eq + Hash + Clone + Send + 'static>() -> ExponentialBackoff<K> {
    ExponentialBackoff::new(Duration::from_millis(1), Duration::from_secs(1000))
}
