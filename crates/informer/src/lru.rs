//! [`Lru`]: a bounded map that evicts the least recently used entry.
//!
//! The bounded map of the TTL store, the mutation cache and the event correlator. It has no clock and no lock; its
//! users add them where needed.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// A bounded map in the order in which entries were last touched.
#[derive(Clone, Debug)]
pub(crate) struct Lru<K, V> {
    capacity: usize,
    entries: HashMap<K, (u64, V), foldhash::fast::RandomState>,
    /// Touches in order; a tree because any entry may be touched again, and the oldest must be found at once.
    order: BTreeMap<u64, K>,
    touches: u64,
}

impl<K: Clone + Eq + Hash, V> Lru<K, V> {
    /// At most `capacity` entries, at least one.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity: capacity.max(1), entries: HashMap::default(), order: BTreeMap::new(), touches: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Inserts an entry as the latest. Returns the one it replaces or evicts: the previous value, or the oldest entry.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<(K, V)> {
        let replaced = self.remove(&key).map(|value| (key.clone(), value));
        let evicted = if self.len() >= self.capacity { self.pop_oldest() } else { None };
        self.touches += 1;
        self.order.insert(self.touches, key.clone());
        self.entries.insert(key, (self.touches, value));
        replaced.or(evicted)
    }

    /// Returns an entry without marking it as used.
    pub(crate) fn peek<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.entries.get(key).map(|(_, value)| value)
    }

    /// Returns an entry and marks it as used.
    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let (touched, value) = self.entries.get_mut(key)?;
        self.touches += 1;
        if let Some(key) = self.order.remove(touched) {
            self.order.insert(self.touches, key);
        }
        *touched = self.touches;
        Some(value)
    }

    /// Removes an entry of any age.
    pub(crate) fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let (touched, value) = self.entries.remove(key)?;
        self.order.remove(&touched);
        Some(value)
    }

    pub(crate) fn oldest(&self) -> Option<(&K, &V)> {
        let key = self.order.values().next()?;
        self.peek(key).map(|value| (key, value))
    }

    pub(crate) fn pop_oldest(&mut self) -> Option<(K, V)> {
        let (_, key) = self.order.pop_first()?;
        self.entries.remove(&key).map(|(_, value)| (key, value))
    }

    /// From the oldest to the latest.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.order.values().filter_map(|key| self.peek(key).map(|value| (key, value)))
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.entries.values_mut().map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::Lru;

    #[test]
    fn the_longest_untouched_goes_first() {
        let mut lru = Lru::new(2);
        assert_eq!(lru.insert("a", 1), None);
        assert_eq!(lru.insert("b", 2), None);
        assert_eq!(lru.get_mut(&"a"), Some(&mut 1));
        assert_eq!(lru.insert("c", 3), Some(("b", 2)));
        assert_eq!(lru.iter().map(|(key, _)| *key).collect::<Vec<_>>(), ["a", "c"]);
    }

    #[test]
    fn a_replacement_evicts_nothing_and_becomes_the_latest() {
        let mut lru = Lru::new(2);
        lru.insert("a", 1);
        lru.insert("b", 2);
        assert_eq!(lru.insert("a", 3), Some(("a", 1)));
        assert_eq!(lru.oldest(), Some((&"b", &2)));
        assert_eq!((lru.len(), lru.remove("b"), lru.pop_oldest()), (2, Some(2), Some(("a", 3))));
        assert_eq!((lru.len(), lru.oldest()), (0, None));
    }
}
