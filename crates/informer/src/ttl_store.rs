//! [`TtlStore`]: a bounded map whose entries expire.
//!
//! For values that hold for a limited time: responses of slow services, names seen recently, failures to back off from.
//! It is plain data: the time is an argument, and reading changes nothing, so the owner chooses the lock. An expired
//! entry is invisible to every read, and is removed by the next write or [`purge`](TtlStore::purge).
//!
//! It is not the cache of an informer ([`store`](crate::store)), which is current and never expires.

use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

use crate::lru::Lru;

/// The bounds of a [`TtlStore`]: by age and by number. The second holds even if nothing expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TtlOptions {
    /// An entry older than this has expired; one exactly this old has not. `None` keeps entries until they are evicted.
    /// Default five minutes.
    pub ttl: Option<Duration>,
    /// The number of entries; one more pushes the oldest out. Default 10 000, so that keys chosen by others cannot fill
    /// the memory.
    pub capacity: usize,
}

impl Default for TtlOptions {
    fn default() -> Self {
        Self { ttl: Some(Duration::from_secs(300)), capacity: 10_000 }
    }
}

/// A bounded map whose entries expire.
///
/// ```
/// use std::time::Duration;
/// use listwatch::ttl_store::{TtlOptions, TtlStore};
/// use tokio::time::Instant;
///
/// let mut seen = TtlStore::new(TtlOptions { ttl: Some(Duration::from_secs(10)), ..TtlOptions::default() });
/// let now = Instant::now();
/// seen.insert("a", 1, now);
/// assert_eq!(seen.get("a", now + Duration::from_secs(10)), Some(&1));
/// assert_eq!(seen.get("a", now + Duration::from_secs(11)), None);
/// ```
#[derive(Clone)]
#[doc(alias = "ExpirationCache")]
pub struct TtlStore<K, V> {
    ttl: Option<Duration>,
    /// Touched by writes only, so that the oldest entry is always the first to expire.
    entries: Lru<K, (Instant, V)>,
}

impl<K, V> fmt::Debug for TtlStore<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TtlStore").field("ttl", &self.ttl).finish_non_exhaustive()
    }
}

impl<K: Clone + Eq + Hash, V> TtlStore<K, V> {
    /// An empty store. Memory is taken as entries come.
    #[must_use]
    pub fn new(options: TtlOptions) -> Self {
        Self { ttl: options.ttl, entries: Lru::new(options.capacity) }
    }

    /// Inserts a value with the age zero; returns the one it replaces, if that had not expired.
    pub fn insert(&mut self, key: K, value: V, now: Instant) -> Option<V> {
        self.purge(now);
        let previous = self.entries.remove(&key).map(|(_, value)| value);
        self.entries.insert(key, (now, value));
        previous
    }

    /// Takes a value out, unless it has expired.
    pub fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q, now: Instant) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let (since, value) = self.entries.remove(key)?;
        (!self.expired(since, now)).then_some(value)
    }

    /// The value, unless it has expired.
    #[must_use]
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q, now: Instant) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let (since, value) = self.entries.peek(key)?;
        (!self.expired(*since, now)).then_some(value)
    }

    /// The entries that have not expired, from the oldest to the latest.
    pub fn iter(&self, now: Instant) -> impl Iterator<Item = (&K, &V)> {
        let live = self.entries.iter().skip_while(move |(_, (since, _))| self.expired(*since, now));
        live.map(|(key, (_, value))| (key, value))
    }

    /// The keys of [`iter`](Self::iter).
    pub fn keys(&self, now: Instant) -> impl Iterator<Item = &K> {
        self.iter(now).map(|(key, _)| key)
    }

    /// Frees what has expired, and returns how many entries that were. Costs nothing when none has.
    pub fn purge(&mut self, now: Instant) -> usize {
        let before = self.entries.len();
        while self.entries.oldest().is_some_and(|(_, (since, _))| self.expired(*since, now)) {
            self.entries.pop_oldest();
        }
        before - self.entries.len()
    }

    /// The number of entries that are held, expired ones included.
    #[must_use]
    pub fn held(&self) -> usize {
        self.entries.len()
    }

    /// A clock that goes backwards makes an entry young again, never old.
    fn expired(&self, since: Instant, now: Instant) -> bool {
        self.ttl.is_some_and(|ttl| now.saturating_duration_since(since) > ttl)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn store(ttl: u64, capacity: usize) -> TtlStore<String, u32> {
        TtlStore::new(TtlOptions { ttl: Some(seconds(ttl)), capacity })
    }

    #[test]
    fn an_entry_expires_strictly_after_its_age() {
        let (mut store, start) = (store(10, 9), Instant::now());
        store.insert("a".into(), 1, start);
        assert_eq!(store.get("a", start + seconds(10)), Some(&1));
        assert_eq!(store.get("a", start + seconds(10) + Duration::from_nanos(1)), None);
        assert_eq!(store.remove("a", start + seconds(11)), None);
    }

    /// client-go's store hides expired objects from List and yet names them in ListKeys.
    #[test]
    fn keys_and_values_agree_about_what_has_expired() {
        let (mut store, start) = (store(10, 9), Instant::now());
        store.insert("old".into(), 1, start);
        store.insert("new".into(), 2, start + seconds(5));
        let later = start + seconds(12);
        assert_eq!(store.keys(later).collect::<Vec<_>>(), ["new"]);
        assert_eq!(store.iter(later).map(|(_, value)| *value).collect::<Vec<_>>(), [2]);
        assert_eq!((store.held(), store.purge(later), store.held()), (2, 1, 1));
    }

    #[test]
    fn an_update_begins_a_new_age_and_an_expired_value_is_not_what_it_replaced() {
        let (mut store, start) = (store(10, 9), Instant::now());
        assert_eq!(store.insert("a".into(), 1, start), None);
        assert_eq!(store.insert("a".into(), 2, start + seconds(8)), Some(1));
        assert_eq!(store.get("a", start + seconds(15)), Some(&2));
        assert_eq!(store.insert("a".into(), 3, start + seconds(30)), None);
        assert_eq!(store.get("a", start + seconds(30)), Some(&3));
    }

    #[test]
    fn the_bound_pushes_the_oldest_out_however_often_it_is_read() {
        let (mut store, start) = (store(10, 2), Instant::now());
        for (name, at) in [("a", 0), ("b", 1), ("c", 2)] {
            let _ = store.get("a", start);
            store.insert(name.into(), 0, start + seconds(at));
        }
        assert_eq!(store.keys(start + seconds(2)).collect::<Vec<_>>(), ["b", "c"]);
    }

    #[test]
    fn without_a_ttl_nothing_expires_and_a_clock_that_goes_back_expires_nothing() {
        let start = Instant::now() + seconds(1_000);
        let mut store = TtlStore::new(TtlOptions { ttl: None, capacity: 9 });
        store.insert("a", 1, start);
        assert_eq!(store.get("a", start + seconds(1_000_000)), Some(&1));
        let mut store = TtlStore::new(TtlOptions { ttl: Some(seconds(1)), capacity: 9 });
        store.insert("a", 1, start);
        assert_eq!(store.get("a", start - seconds(500)), Some(&1));
    }
}
