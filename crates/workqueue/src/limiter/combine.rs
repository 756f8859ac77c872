//! Limiters made of limiters: the longest of several, a cap, jitter.
//!
//! [`MaxOf`] and [`MaxWait`] are client-go's `MaxOfRateLimiter` and `WithMaxWaitRateLimiter`; [`Jitter`] is an
//! addition, for keys that fail together because a common dependency is down. Order matters: a cap outside of jitter
//! bounds the result, inside it does not. Every limiter of a `MaxOf` is called each time, so that all keep their counts.

use std::fmt;
use std::hash::BuildHasher;
use std::time::Duration;

use foldhash::quality::FixedState;

use super::RateLimiter;

/// The longest of the delays of several limiters. All of them count each failure.
///
/// ```
/// use std::time::Duration;
/// use listwatch_workqueue::limiter::{Bucket, ExponentialBackoff, MaxOf, RateLimiter};
///
/// // Each key by its own failures, and all of them together not more than ten per second.
/// let by_key = ExponentialBackoff::new(Duration::from_millis(5), Duration::from_secs(1000));
/// let mut limiter = MaxOf::new().and(by_key).and(Bucket::new(10.0, 1));
/// assert_eq!(limiter.when(&"a", Duration::ZERO).as_millis(), 5);
/// assert_eq!(limiter.when(&"b", Duration::ZERO).as_millis(), 100);
/// ```
#[doc(alias = "MaxOfRateLimiter")]
pub struct MaxOf<K> {
    limiters: Vec<Box<dyn RateLimiter<K>>>,
}

impl<K> MaxOf<K> {
    /// A combination without limiters, which delays nothing. Add some with [`and`](Self::and).
    pub fn new() -> Self {
        Self { limiters: Vec::new() }
    }

    /// Adds a limiter. The order of limiters makes no difference.
    pub fn and(mut self, limiter: impl RateLimiter<K> + 'static) -> Self {
        self.limiters.push(Box::new(limiter));
        self
    }
}

impl<K> Default for MaxOf<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K> fmt::Debug for MaxOf<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MaxOf({} limiters)", self.limiters.len())
    }
}

impl<K> RateLimiter<K> for MaxOf<K> {
    fn when(&mut self, key: &K, now: Duration) -> Duration {
        // Every limiter is called, even if an earlier one returned a longer delay, because each keeps its own count.
        self.limiters.iter_mut().map(|limiter| limiter.when(key, now)).max().unwrap_or_default()
    }

    fn forget(&mut self, key: &K) {
        self.limiters.iter_mut().for_each(|limiter| limiter.forget(key));
    }

    fn retries(&self, key: &K) -> u32 {
        self.limiters.iter().map(|limiter| limiter.retries(key)).max().unwrap_or_default()
    }
}

/// The delay of another limiter, but never more than `max`.
///
/// ```
/// use std::time::Duration;
/// use listwatch_workqueue::limiter::{Bucket, MaxWait, RateLimiter};
///
/// let mut limiter = MaxWait::new(Bucket::new(0.1, 1), Duration::from_secs(3));
/// assert_eq!(limiter.when(&"a", Duration::ZERO).as_secs(), 0);
/// assert_eq!(limiter.when(&"b", Duration::ZERO).as_secs(), 3);
/// ```
#[derive(Debug, Clone)]
#[doc(alias = "WithMaxWaitRateLimiter")]
pub struct MaxWait<L> {
    inner: L,
    max: Duration,
}

impl<L> MaxWait<L> {
    /// Limits the delays of `inner` to `max`. Failures are still counted by it.
    pub fn new(inner: L, max: Duration) -> Self {
        Self { inner, max }
    }
}

impl<K, L: RateLimiter<K>> RateLimiter<K> for MaxWait<L> {
    fn when(&mut self, key: &K, now: Duration) -> Duration {
        self.inner.when(key, now).min(self.max)
    }

    fn forget(&mut self, key: &K) {
        self.inner.forget(key);
    }

    fn retries(&self, key: &K) -> u32 {
        self.inner.retries(key)
    }
}

/// Lengthens the delay of another limiter by a random part, so that keys that failed together do not come back together. The
/// parts are a sequence that the seed decides: the same calls in the same order get the same delays.
///
/// ```
/// use std::time::Duration;
/// use listwatch_workqueue::limiter::{ExponentialBackoff, Jitter, RateLimiter};
///
/// let backoff = ExponentialBackoff::new(Duration::from_secs(1), Duration::from_secs(60));
/// let mut limiter = Jitter::new(backoff, 0.5, 7);
/// let delay = limiter.when(&"a", Duration::ZERO);
/// assert!(delay >= Duration::from_secs(1) && delay <= Duration::from_millis(1500));
/// ```
#[derive(Debug, Clone)]
pub struct Jitter<L> {
    inner: L,
    factor: f64,
    random: FixedState,
    draws: u64,
}

impl<L> Jitter<L> {
    /// Delays become up to `1 + factor` times as long. Equal seeds produce equal sequences.
    pub fn new(inner: L, factor: f64, seed: u64) -> Self {
        Self { inner, factor: factor.max(0.0), random: FixedState::with_seed(seed), draws: 0 }
    }

    /// Uniform in 0..1. A good hash of a counter is random enough to spread retries, and reproducible.
    fn draw(&mut self) -> f64 {
        self.draws += 1;
        (self.random.hash_one(self.draws) >> 11) as f64 / (1u64 << 53) as f64
    }
}

impl<K, L: RateLimiter<K>> RateLimiter<K> for Jitter<L> {
    fn when(&mut self, key: &K, now: Duration) -> Duration {
        let delay = self.inner.when(key, now);
        let extra = delay.as_secs_f64() * self.factor * self.draw();
        delay.saturating_add(Duration::try_from_secs_f64(extra).unwrap_or(Duration::MAX))
    }

    fn forget(&mut self, key: &K) {
        self.inner.forget(key);
    }

    fn retries(&self, key: &K) -> u32 {
        self.inner.retries(key)
    }
}
