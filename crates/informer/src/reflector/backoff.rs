//! [`Backoff`]: growing delays with jitter from a seed.
//!
//! The defaults are those of client-go's reflector: 800 ms, doubled up to 30 s, each lengthened by up to its own
//! length. It holds no clock and decides nothing about health: [`Machine`](super::Machine) resets it after a watch has
//! stayed open for `ReflectorOptions::healthy_after`, and not on the first success, or a server that accepts and drops
//! watches would be called in a hot loop. Delays of a work queue are `listwatch_workqueue`'s.

use std::time::Duration;

/// The first delay, the growth, the bound and the jitter of a [`Backoff`].
#[derive(Clone, Copy, Debug)]
#[doc(alias = "wait.Backoff")]
pub struct BackoffOptions {
    /// The first delay. Default 800 ms.
    pub initial: Duration,
    /// No delay is longer, jitter apart. Default 30 s.
    pub max: Duration,
    /// The factor between two delays. Default 2.
    pub factor: u32,
    /// Each delay is lengthened by up to this share of it, at random, so that clients that failed together do not
    /// come back together. Default 1.
    pub jitter: f64,
}

impl Default for BackoffOptions {
    fn default() -> Self {
        Self { initial: Duration::from_millis(800), max: Duration::from_secs(30), factor: 2, jitter: 1.0 }
    }
}

/// A sequence of growing delays. It starts over only by a reset.
///
/// ```
/// use listwatch::reflector::{Backoff, BackoffOptions};
///
/// let mut backoff = Backoff::new(BackoffOptions::default(), 1);
/// let (first, second) = (backoff.delay(), backoff.delay());
/// assert!(first < second);
/// backoff.reset();
/// assert!(backoff.delay() < second);
///
/// // Equal seeds produce equal delays, so that tests are repeatable.
/// let delay = |seed| Backoff::new(BackoffOptions::default(), seed).delay();
/// assert_eq!(delay(7), delay(7));
/// ```
#[derive(Clone, Debug)]
pub struct Backoff {
    options: BackoffOptions,
    next: Duration,
    random: Random,
}

impl Backoff {
    /// Starts at the smallest delay. Equal seeds produce equal delays.
    #[must_use]
    pub fn new(options: BackoffOptions, seed: u64) -> Self {
        Self { options, next: options.initial, random: Random(seed) }
    }

    /// Returns the next delay, and moves on to the one after.
    pub fn delay(&mut self) -> Duration {
        let delay = self.next;
        self.next = delay.saturating_mul(self.options.factor).min(self.options.max);
        delay + delay.mul_f64(self.options.jitter.max(0.0) * self.random.unit())
    }

    /// All is well: the next delay is the smallest.
    pub fn reset(&mut self) {
        self.next = self.options.initial;
    }

    /// A random duration between `min` and twice that.
    pub fn spread(&mut self, min: Duration) -> Duration {
        min + min.mul_f64(self.random.unit())
    }
}

/// SplitMix64: enough to spread clients in time, and the same on every machine.
#[derive(Clone, Debug)]
struct Random(u64);

impl Random {
    /// Returns the next number in [0, 1): SplitMix64, which needs eight bytes of state and no dependency.
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}
