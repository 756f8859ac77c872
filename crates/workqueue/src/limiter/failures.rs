//! [`FailureCounts`]: failures by key, in bounded memory.
//!
//! A controller that finds its object deleted has no reason to forget the failures of its key, so an unbounded map
//! grows with every object that ever failed. Forgetting too early only shortens a delay, which makes two generations of
//! a plain map good enough; an LRU would cost a list per key. Used by the limiters of `backoff`.

use std::collections::HashMap;
use std::hash::Hash;

use foldhash::fast::RandomState;

/// A failure count per key. Keeps at least the last [`FailureCounts::capacity`] / 2 keys that failed, and never more than the
/// capacity.
///
/// A controller never calls `forget` for a key whose object was deleted after a failure; without a bound such counts
/// leak. Two generations make the bound cheap: when the young one is full it becomes the old one, whose keys are
/// dropped. A dropped key merely starts again with the shortest delay.
///
/// ```
/// use listwatch_workqueue::limiter::FailureCounts;
///
/// let mut failures = FailureCounts::new(1_000);
/// assert_eq!((failures.increment(&"a"), failures.increment(&"a")), (0, 1));
/// assert_eq!(failures.get(&"a"), 2);
/// failures.forget(&"a");
/// assert_eq!(failures.get(&"a"), 0);
///
/// // However many keys fail, the memory is bounded.
/// let mut few = FailureCounts::new(10);
/// for key in 0..1_000 {
///     few.increment(&key);
/// }
/// assert!(few.len() <= 10);
/// ```
#[derive(Debug, Clone)]
pub struct FailureCounts<K> {
    young: HashMap<K, u32, RandomState>,
    old: HashMap<K, u32, RandomState>,
    capacity: usize,
}

impl<K: Eq + Hash + Clone> FailureCounts<K> {
    /// As many as a large cluster has objects of one kind that all fail at once.
    pub const DEFAULT_CAPACITY: usize = 200_000;

    /// Counts for at most `capacity` keys.
    pub fn new(capacity: usize) -> Self {
        Self { young: HashMap::default(), old: HashMap::default(), capacity: capacity.max(2) }
    }

    /// The most keys it keeps.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The number of keys it has.
    pub fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    /// True if no key has failed.
    pub fn is_empty(&self) -> bool {
        self.young.is_empty() && self.old.is_empty()
    }

    /// Counts one more failure and returns how many there were *before*: the exponent of the delay.
    pub fn increment(&mut self, key: &K) -> u32 {
        if let Some(count) = self.young.get_mut(key) {
            *count = count.saturating_add(1);
            return *count - 1;
        }
        let before = self.old.remove(key).unwrap_or(0);
        if self.young.len() >= self.capacity / 2 {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key.clone(), before.saturating_add(1));
        before
    }

    /// The number of times the key has failed.
    pub fn get(&self, key: &K) -> u32 {
        self.young.get(key).or_else(|| self.old.get(key)).copied().unwrap_or(0)
    }

    /// Drops the key's count.
    pub fn forget(&mut self, key: &K) {
        if !self.is_empty() && self.young.remove(key).is_none() {
            self.old.remove(key);
        }
    }
}

impl<K: Eq + Hash + Clone> Default for FailureCounts<K> {
    fn default() -> Self {
        Self::new(Self::DEFAULT_CAPACITY)
    }
}
