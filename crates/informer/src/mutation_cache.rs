//! [`MutationCache`]: a cache overlaid with the program's own writes until the watch has delivered them.
//!
//! A controller that has just written an object may still read the old version from its cache and act twice.
//! [`Store::wait_for`] avoids that by waiting. This avoids it without waiting: pass it the objects that the server
//! returned and read through it; each read returns the newer of the two versions.
//!
//! A [`Store`] has the resource version up to which it is complete. An own write that is not newer is in the store,
//! or has been overwritten or deleted since: either way the store is right, and the write is dropped. So a late call
//! with a stale write cannot bring a deleted object back.
//!
//! Only objects that the server has returned belong in it, not expected states.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use listwatch_wire::{ObjectKey, Revision};
use tokio::time::Instant;

use crate::lru::Lru;
use crate::object::{Object, Raw};
use crate::processor::Event;
use crate::store::Store;
use crate::sync::Mutex;

/// The bounds of a [`MutationCache`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MutationOptions {
    /// The number of own writes that are kept; beyond it the least recently used is evicted. Default 100: a write is kept only
    /// until its watch event arrives, and few controllers have more in flight.
    pub capacity: usize,
    /// The time an own write is shown if the watch does not catch up: after that, the watch is assumed to be broken,
    /// and reads return the cache again. Default five minutes.
    pub ttl: Duration,
    /// True if an object that the store does not have yet is shown. Default true; false suits readers that must
    /// agree with the indexes of the store.
    pub show_created: bool,
}

impl Default for MutationOptions {
    fn default() -> Self {
        Self { capacity: 100, ttl: Duration::from_secs(300), show_created: true }
    }
}

/// Knowledge that is ahead of the store.
enum MutationState<K> {
    /// This version, or a newer one.
    Written(Object<K>),
    /// The object with this uid was deleted by this program: every version of it in the store is hidden.
    Deleted(Object<K>),
    /// A deletion that the watch delivered, up to where.
    Gone(Object<K>),
}

struct MutationEntry<K> {
    known: MutationState<K>,
    since: Instant,
}

/// Counters of a [`MutationCache`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MutationStats {
    /// Own writes and deletions that are kept.
    pub held: usize,
    /// Reads that were ahead of the store.
    pub shown: u64,
    /// Own writes that came later than the watch's event for them.
    pub refused: u64,
}

/// Own writes on top of a [`Store`].
///
/// ```
/// use listwatch::mutation_cache::MutationCache;
/// use listwatch::{Object, Store};
/// use serde_json::{Value, json};
/// use tokio::time::Instant;
///
/// let (store, _writer) = Store::<Value>::new();
/// let cache = MutationCache::new(store, Default::default());
/// let written = Object::from_value(&json!({"metadata": {"name": "a", "resourceVersion": "7"}}))?;
/// assert!(cache.written(written, Instant::now()));
/// assert!(cache.get(&"a".parse()?, Instant::now()).is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MutationCache<K = Raw> {
    store: Store<K>,
    options: MutationOptions,
    entries: Mutex<Lru<ObjectKey, MutationEntry<K>>>,
    shown: AtomicU64,
    refused: AtomicU64,
}

impl<K> std::fmt::Debug for MutationCache<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MutationCache").field("store", &self.store).finish_non_exhaustive()
    }
}

impl<K> MutationCache<K> {
    /// Shows own writes on top of this store. The store is the informer's and is not changed.
    #[must_use]
    pub fn new(store: Store<K>, options: MutationOptions) -> Self {
        let entries = Mutex::new(Lru::new(options.capacity));
        Self { store, options, entries, shown: AtomicU64::new(0), refused: AtomicU64::new(0) }
    }

    /// Returns its counters.
    #[must_use]
    pub fn stats(&self) -> MutationStats {
        MutationStats {
            held: self.entries.lock().len(),
            shown: self.shown.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }

    /// Records a write that the server has confirmed: `object` is its response. The response to a deletion that only
    /// marks the object (it has finalizers, or is a Pod) belongs here, too.
    ///
    /// Returns false if a newer version, or the deletion of the object, is known already.
    pub fn written(&self, object: Object<K>, now: Instant) -> bool {
        let news = self.remember(object, now);
        if !news {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        news
    }

    /// Keeps an object unless the store, or the kept write, is newer. Returns true if it was kept.
    fn remember(&self, object: Object<K>, now: Instant) -> bool {
        if self.store_has(object.key(), object.revision()) {
            return false;
        }
        let mut entries = self.entries.lock();
        let known = live(&entries, object.key(), now, self.options.ttl);
        if known.is_some_and(|known| outdates(known, &object)) {
            return false;
        }
        let key = object.key().clone();
        entries.insert(key, MutationEntry { known: MutationState::Written(object), since: now });
        true
    }

    /// Records a deletion that the server has confirmed. `object` is the last known state.
    pub fn deleted(&self, object: Object<K>, now: Instant) {
        let key = object.key().clone();
        self.entries.lock().insert(key, MutationEntry { known: MutationState::Deleted(object), since: now });
    }

    /// Optional: receives the events of an informer. Over a store with several sources, a deletion in one of them is
    /// known here before the store as a whole has got that far.
    pub fn observe(&self, event: &Event<K>, now: Instant) {
        let Some(object) = event.object() else { return };
        let mut entries = self.entries.lock();
        match event {
            Event::Deleted(_) => {
                let newer = matches!(entries.peek(object.key()),
                    Some(MutationEntry { known: MutationState::Written(own), .. })
                        if own.revision() > object.revision() && !own.same_identity(object));
                if !newer {
                    let known = MutationState::Gone(object.clone());
                    entries.insert(object.key().clone(), MutationEntry { known, since: now });
                }
            }
            _ => {
                let caught_up = entries.peek(object.key()).is_some_and(|entry| match &entry.known {
                    MutationState::Written(own) => own.revision() <= object.revision(),
                    MutationState::Deleted(own) | MutationState::Gone(own) => !own.same_identity(object),
                });
                if caught_up {
                    entries.remove(object.key());
                }
            }
        }
    }

    /// The newest that is known of an object.
    pub fn get(&self, key: &ObjectKey, now: Instant) -> Option<Object<K>> {
        // Under the lock: a write is removed only after the store has caught up with it, so every reader that finds it
        // removed must read the store after that. The revision is read first: a later read of the store can only be
        // newer.
        let mut entries = self.entries.lock();
        let complete = self.store.revision();
        let stored = self.store.get(key);
        let Some(known) = live(&entries, key, now, self.options.ttl) else {
            entries.remove(key);
            return stored;
        };
        match known {
            MutationState::Written(own) if own.revision() > complete && newer(own, stored.as_ref()) => {
                self.shown.fetch_add(1, Ordering::Relaxed);
                (stored.is_some() || self.options.show_created).then(|| own.clone())
            }
            MutationState::Deleted(own) | MutationState::Gone(own)
                if stored.as_ref().is_some_and(|stored| stored.same_identity(own)) =>
            {
                self.shown.fetch_add(1, Ordering::Relaxed);
                None
            }
            // Kept although the store shows no trace of it: it is what refuses a late call of `written`.
            MutationState::Deleted(_) | MutationState::Gone(_) => stored,
            MutationState::Written(_) => {
                entries.remove(key);
                stored
            }
        }
    }

    /// Some objects that were read from the store (by an index, a selector), each in its newest known version, without
    /// those that are known to be deleted.
    pub fn refresh<'a>(
        &'a self,
        objects: impl IntoIterator<Item = &'a Object<K>> + 'a,
        now: Instant,
    ) -> impl Iterator<Item = Object<K>> + 'a
    where
        K: 'a,
    {
        objects.into_iter().filter_map(move |object| self.get(object.key(), now))
    }

    fn store_has(&self, key: &ObjectKey, revision: Revision) -> bool {
        let has = |stored: Object<K>| stored.revision() >= revision;
        self.store.revision() >= revision || self.store.get(key).is_some_and(has)
    }
}

/// Returns the kept write or deletion of a key, unless it is older than the TTL.
fn live<'a, K>(
    entries: &'a Lru<ObjectKey, MutationEntry<K>>,
    key: &ObjectKey,
    now: Instant,
    ttl: Duration,
) -> Option<&'a MutationState<K>> {
    let entry = entries.peek(key)?;
    (now.saturating_duration_since(entry.since) <= ttl).then_some(&entry.known)
}

fn newer<K>(own: &Object<K>, stored: Option<&Object<K>>) -> bool {
    stored.is_none_or(|stored| own.revision() > stored.revision())
}

/// True if `object` is older than the known state.
fn outdates<K>(known: &MutationState<K>, object: &Object<K>) -> bool {
    match known {
        MutationState::Written(own) => own.revision() >= object.revision(),
        MutationState::Deleted(own) => own.same_identity(object),
        MutationState::Gone(own) => own.same_identity(object) || own.revision() >= object.revision(),
    }
}

#[cfg(test)]
mod tests;
