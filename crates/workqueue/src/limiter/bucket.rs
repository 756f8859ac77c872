//! [`Bucket`]: a token bucket over all keys together, client-go's `BucketRateLimiter`.
//!
//! It protects the API server when many keys fail at once, each with a short delay of its own. Time is passed in, so
//! the sequence of delays can be tested without a clock. It keeps no state per key: `forget` does nothing and `retries` is
//! zero.

use std::time::Duration;

use super::RateLimiter;

/// A token bucket: so many retries per second, with bursts. Each call takes a token, if need be one that does not exist
/// yet, and returns the time until it will. Under a lasting overload the delays therefore grow without bound: cap them with
/// [`MaxWait`](super::MaxWait) if a late retry is worse than too many.
///
/// ```
/// use std::time::Duration;
/// use listwatch_workqueue::limiter::{Bucket, RateLimiter};
///
/// // Two at once, then ten per second, whichever keys they are.
/// let mut limiter = Bucket::new(10.0, 2);
/// let delays: Vec<u128> =
///     ["a", "b", "c", "d"].iter().map(|key| limiter.when(key, Duration::ZERO).as_millis()).collect();
/// assert_eq!(delays, [0, 0, 100, 200]);
/// ```
#[derive(Debug, Clone)]
#[doc(alias = "BucketRateLimiter")]
pub struct Bucket {
    per_second: f64,
    burst: f64,
    /// May be negative: tokens promised but not there yet.
    tokens: f64,
    last: Duration,
}

impl Bucket {
    /// A full bucket. A rate that is not positive lets the burst through and then nothing for a very long time.
    pub fn new(per_second: f64, burst: u32) -> Self {
        let burst = f64::from(burst);
        Self { per_second, burst, tokens: burst, last: Duration::ZERO }
    }

    fn refill(&mut self, now: Duration) {
        // A clock that steps back adds nothing and takes nothing.
        let elapsed = now.saturating_sub(self.last);
        self.last = self.last.max(now);
        self.tokens = (self.tokens + elapsed.as_secs_f64() * self.per_second).min(self.burst);
    }
}

impl<K> RateLimiter<K> for Bucket {
    fn when(&mut self, _key: &K, now: Duration) -> Duration {
        self.refill(now);
        self.tokens -= 1.0;
        if self.tokens >= 0.0 {
            return Duration::ZERO;
        }
        Duration::try_from_secs_f64(-self.tokens / self.per_second).unwrap_or(Duration::MAX)
    }

    fn forget(&mut self, _key: &K) {}

    fn retries(&self, _key: &K) -> u32 {
        0
    }
}
