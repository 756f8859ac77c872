//! Limiters by key: the delay depends on how often this key has failed.
//!
//! [`ExponentialBackoff`] is client-go's `ItemExponentialFailureRateLimiter`, [`FastSlow`] its
//! `ItemFastSlowRateLimiter`. Counts are bounded ([`FailureCounts`]), unlike client-go's maps, which leak an entry for
//! each key that failed and was deleted. They say nothing about the load of all keys together; combine them with
//! [`Bucket`](super::Bucket) by [`MaxOf`](super::MaxOf), as the default limiter does.

use std::hash::Hash;
use std::time::Duration;

use super::{FailureCounts, RateLimiter};

/// Doubles a key's delay with each failure: `base · 2ⁿ`, at most `max`.
///
/// A key that keeps failing is retried ever more rarely, and does not delay other keys. Failures are counted for a bounded
/// number of keys ([`capacity`](Self::capacity)); the count of a key that succeeds is reset.
///
/// ```
/// use std::time::Duration;
/// use listwatch_workqueue::limiter::{ExponentialBackoff, RateLimiter};
///
/// let mut limiter = ExponentialBackoff::new(Duration::from_millis(5), Duration::from_secs(1));
/// let now = Duration::ZERO;
/// let delays: Vec<u128> = (0..4).map(|_| limiter.when(&"pod", now).as_millis()).collect();
/// assert_eq!(delays, [5, 10, 20, 40]);
/// assert_eq!(limiter.when(&"another", now).as_millis(), 5);
/// limiter.forget(&"pod");
/// assert_eq!(limiter.when(&"pod", now).as_millis(), 5);
/// ```
#[derive(Debug, Clone)]
#[doc(alias = "ItemExponentialFailureRateLimiter")]
pub struct ExponentialBackoff<K> {
    base: Duration,
    max: Duration,
    failures: FailureCounts<K>,
}

impl<K: Eq + Hash + Clone> ExponentialBackoff<K> {
    /// The first failure of a key waits `base`, each further one twice as long, none longer than `max`.
    pub fn new(base: Duration, max: Duration) -> Self {
        Self { base, max, failures: FailureCounts::default() }
    }

    /// Counts the failures of at most so many keys. Default: [`FailureCounts::DEFAULT_CAPACITY`].
    pub fn capacity(mut self, keys: usize) -> Self {
        self.failures = FailureCounts::new(keys);
        self
    }
}

impl<K: Eq + Hash + Clone + Send> RateLimiter<K> for ExponentialBackoff<K> {
    fn when(&mut self, key: &K, _now: Duration) -> Duration {
        let exponent = self.failures.increment(key);
        let factor = 1u32.checked_shl(exponent);
        factor.and_then(|factor| self.base.checked_mul(factor)).map_or(self.max, |delay| delay.min(self.max))
    }

    fn forget(&mut self, key: &K) {
        self.failures.forget(key);
    }

    fn retries(&self, key: &K) -> u32 {
        self.failures.get(key)
    }
}

/// A short delay for a key's first failures, a long one from then on: for work that fails by races, which the next try wins,
/// or for good, in which case trying often is of no use.
///
/// ```
/// use std::time::Duration;
/// use listwatch_workqueue::limiter::{FastSlow, RateLimiter};
///
/// let mut limiter = FastSlow::new(Duration::from_millis(1), Duration::from_secs(10), 2);
/// let delays: Vec<u128> = (0..4).map(|_| limiter.when(&"pod", Duration::ZERO).as_millis()).collect();
/// assert_eq!(delays, [1, 1, 10_000, 10_000]);
/// ```
#[derive(Debug, Clone)]
#[doc(alias = "ItemFastSlowRateLimiter")]
pub struct FastSlow<K> {
    fast: Duration,
    slow: Duration,
    fast_attempts: u32,
    failures: FailureCounts<K>,
}

impl<K: Eq + Hash + Clone> FastSlow<K> {
    /// `fast` for the first `fast_attempts` failures, then `slow`.
    pub fn new(fast: Duration, slow: Duration, fast_attempts: u32) -> Self {
        Self { fast, slow, fast_attempts, failures: FailureCounts::default() }
    }

    /// Counts the failures of at most so many keys. Default: [`FailureCounts::DEFAULT_CAPACITY`].
    pub fn capacity(mut self, keys: usize) -> Self {
        self.failures = FailureCounts::new(keys);
        self
    }
}

impl<K: Eq + Hash + Clone + Send> RateLimiter<K> for FastSlow<K> {
    fn when(&mut self, key: &K, _now: Duration) -> Duration {
        if self.failures.increment(key) < self.fast_attempts { self.fast } else { self.slow }
    }

    fn forget(&mut self, key: &K) {
        self.failures.forget(key);
    }

    fn retries(&self, key: &K) -> u32 {
        self.failures.get(key)
    }
}
