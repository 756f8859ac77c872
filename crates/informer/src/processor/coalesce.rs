//! [`Folded`]: several changes of a key, delivered as one event.
//!
//! The event that a handler needs for a key depends on three facts only: the object it received last, whether that
//! object was deleted, and the current object. Only these are kept. An object that was created and deleted while the
//! handler was busy is not delivered at all; one that was deleted and created again is delivered as a deletion and an
//! addition, because its identity changed.

use std::collections::VecDeque;
use std::collections::hash_map::{Entry, HashMap};

use listwatch_wire::ObjectKey;

use super::event::{Deleted, Event};
use crate::object::Object;

/// The unread changes of one key.
struct PendingChange<K> {
    /// The state that was delivered last, if there was one.
    delivered: Option<Object<K>>,
    /// The deletion of that object, if it was deleted.
    gone: Option<Deleted<K>>,
    /// The present state, and whether it belongs to the initial state.
    now: Option<(Object<K>, bool)>,
}

impl<K> PendingChange<K> {
    /// Starts with the first event that the handler has not received. Its old state is the one that was delivered last.
    fn new(event: Event<K>) -> Option<Self> {
        Some(match event {
            Event::Added { object, is_initial } => {
                Self { delivered: None, gone: None, now: Some((object, is_initial)) }
            }
            Event::Updated { old, new } => Self { delivered: Some(old), gone: None, now: Some((new, false)) },
            Event::Deleted(deleted) => {
                Self { delivered: Some(deleted.object.clone()), gone: Some(deleted), now: None }
            }
            Event::Synced => return None,
        })
    }

    /// Adds a later event of the same object.
    fn fold(&mut self, event: Event<K>) {
        match event {
            Event::Added { object, is_initial } => self.now = Some((object, is_initial)),
            Event::Updated { new, .. } => {
                let initial =
                    self.delivered.is_none() && self.now.as_ref().is_some_and(|(_, initial)| *initial);
                self.now = Some((new, initial));
            }
            Event::Deleted(deleted) => {
                self.now = None;
                // The first deletion is that of the object that was delivered; objects that were created and deleted
                // after it were not.
                if self.delivered.is_some() && self.gone.is_none() {
                    self.gone = Some(deleted);
                }
            }
            Event::Synced => {}
        }
    }

    /// The latest of it, as one event.
    fn latest(&self) -> Option<Event<K>> {
        let now =
            self.now.as_ref().map(|(object, _)| Event::Added { object: object.clone(), is_initial: false });
        now.or_else(|| self.gone.clone().map(Event::Deleted))
    }

    fn is_nothing(&self) -> bool {
        self.delivered.is_none() && self.now.is_none()
    }

    /// Writes the events that lead from the state delivered last to the present one: an update, or a deletion and an
    /// addition if the object was replaced in between.
    fn emit(self, out: &mut Vec<Event<K>>) {
        match (self.delivered, self.gone, self.now) {
            (Some(old), None, Some((new, _))) => out.push(Event::Updated { old, new }),
            (_, gone, now) => {
                out.extend(gone.map(Event::Deleted));
                out.extend(now.map(|(object, is_initial)| Event::Added { object, is_initial }));
            }
        }
    }
}

/// Changes folded by key, delivered in the order in which the keys first changed.
pub(crate) struct Folded<K> {
    pending: HashMap<ObjectKey, PendingChange<K>, foldhash::fast::RandomState>,
    /// May name keys that have nothing to emit any more; they are skipped, and swept out before they add up.
    order: VecDeque<ObjectKey>,
}

impl<K> Default for Folded<K> {
    fn default() -> Self {
        Self { pending: HashMap::default(), order: VecDeque::new() }
    }
}

impl<K> Folded<K> {
    pub(crate) fn len(&self) -> usize {
        self.pending.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// The latest state of each key, as events.
    pub(crate) fn events(&self) -> Vec<Event<K>> {
        self.pending.values().filter_map(PendingChange::latest).collect()
    }

    /// Folds an event into what is pending of its object. An object that was added and deleted before it was delivered
    /// is dropped.
    pub(crate) fn fold(&mut self, event: Event<K>) {
        let Some(key) = event.key().cloned() else { return };
        match self.pending.entry(key) {
            Entry::Occupied(mut known) => {
                known.get_mut().fold(event);
                if known.get().is_nothing() {
                    known.remove();
                }
            }
            Entry::Vacant(free) => {
                let Some(pending) = PendingChange::new(event) else { return };
                self.order.push_back(free.key().clone());
                free.insert(pending);
            }
        }
        if self.order.len() > 2 * self.pending.len() + 64 {
            self.sweep();
        }
    }

    fn sweep(&mut self) {
        let mut seen = std::collections::HashSet::<ObjectKey, foldhash::fast::RandomState>::default();
        let pending = &self.pending;
        self.order.retain(|key| pending.contains_key(key) && seen.insert(key.clone()));
    }

    /// Takes out what there is to emit about the next `keys` keys.
    pub(crate) fn take(&mut self, keys: usize) -> Vec<Event<K>> {
        let mut out = Vec::new();
        let mut told = 0;
        while told < keys {
            let Some(key) = self.order.pop_front() else { break };
            let Some(pending) = self.pending.remove(&key) else { continue };
            pending.emit(&mut out);
            told += 1;
        }
        out
    }
}
