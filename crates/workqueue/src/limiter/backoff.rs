//! Limiters that look at how often a key has failed.

use std::hash::Hash;
use std::time::Duration;

use super::{FailureCounts, RateLimiter};

/// Doubles a key's delay with each failure: `base · 2ⁿ`, at most `max`.
#[derive(Debug, Clone)]
pub struct ExponentialBackoff<K> {
    base: Duration,
    max: Duration,
    failures: FailureCounts<K>,
}

impl<K: Eq + Hash + Clone> ExponentialBackoff<K> {
    /// From `base` to `max`.
    pub fn new(base: Duration, max: Duration) -> Self {
        Self { base, max, failures: FailureCounts::default() }
    }

    /// Remembers at most so many failed keys. Default: [`FailureCounts::DEFAULT_CAPACITY`].
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

/// A short delay for a key's first failures, a long one from then on.
#[derive(Debug, Clone)]
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

    /// Remembers at most so many failed keys. Default: [`FailureCounts::DEFAULT_CAPACITY`].
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
