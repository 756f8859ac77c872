//! [`StoreWriter`]: the one who changes a store, and hears what each change did.

use std::fmt;
use std::sync::Arc;

use listwatch_wire::{ObjectKey, Revision};

use super::Shared;
use super::index::IndexError;
use super::state::{AllValues, Indexes, Places, Slot, State};
use crate::object::{Object, Raw};

/// Readers wait at most for this many insertions, some tens of microseconds.
const CHANGES_PER_LOCK: usize = 64;

/// Said through the revision channel when the writer is gone; no server ever gets there.
pub(super) const ENDED: Revision = Revision(u64::MAX);

/// A change to make.
#[derive(Clone, Debug)]
pub enum Write<K = Raw> {
    /// Add or replace the object under its key.
    Put(Object<K>),
    /// Remove what is under this key, if anything is.
    Remove(ObjectKey),
}

/// What a change did: the state of one key before and after.
#[derive(Clone, Debug)]
pub struct Change<K = Raw> {
    /// What was there.
    pub old: Option<Object<K>>,
    /// What is there now.
    pub new: Option<Object<K>>,
}

/// What replacing the collection, or one namespace of it, did.
#[derive(Debug)]
pub struct Replacement<K = Raw> {
    /// The objects that are gone, then every object that is there now, both in key order.
    pub changes: Vec<Change<K>>,
    /// Objects that an index could not place.
    pub problems: Vec<IndexError>,
}

/// The only writer of a store. Readers are told by [`Store::wait_for`](super::Store::wait_for).
pub struct StoreWriter<K = Raw> {
    shared: Arc<Shared<K>>,
}

impl<K> fmt::Debug for StoreWriter<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreWriter").finish_non_exhaustive()
    }
}

impl<K> Drop for StoreWriter<K> {
    fn drop(&mut self) {
        self.shared.revision.send_replace(ENDED);
    }
}

fn values_of<K>(indexes: &Indexes<K>, object: &Object<K>, problems: &mut Vec<IndexError>) -> AllValues {
    let mut all = AllValues::new();
    for index in indexes {
        let (values, problem) = index.values(object);
        problems.extend(problem);
        all.push(values);
    }
    all
}

enum Prepared<K> {
    Put(Slot<K>),
    Remove(ObjectKey),
}

impl<K> StoreWriter<K> {
    pub(super) fn new(shared: Arc<Shared<K>>) -> Self {
        Self { shared }
    }

    /// Makes the changes in order. Returns one [`Change`] per write, and the objects that an index could not place.
    pub fn write(&mut self, writes: Vec<Write<K>>) -> (Vec<Change<K>>, Vec<IndexError>) {
        let mut places = self.shared.writing.lock();
        let indexes = self.indexes();
        let mut problems = Vec::new();
        let prepare = |write| match write {
            Write::Put(object) => {
                let values = values_of(&indexes, &object, &mut problems);
                Prepared::Put(Slot { object, values })
            }
            Write::Remove(key) => Prepared::Remove(key),
        };
        let prepared: Vec<_> = writes.into_iter().map(prepare).collect();
        // The state must be the only one to have the indexes, or each change would copy them.
        drop(indexes);
        (self.apply(&mut places, prepared), problems)
    }

    fn indexes(&self) -> Indexes<K> {
        self.shared.state.lock().indexes.clone()
    }

    fn apply(&self, places: &mut Places, prepared: Vec<Prepared<K>>) -> Vec<Change<K>> {
        let mut changes = Vec::with_capacity(prepared.len());
        let mut prepared = prepared.into_iter().peekable();
        while prepared.peek().is_some() {
            let mut state = self.shared.state.lock();
            for change in prepared.by_ref().take(CHANGES_PER_LOCK) {
                changes.push(match change {
                    Prepared::Put(slot) => {
                        let new = Some(slot.object.clone());
                        Change { old: state.put(places, slot), new }
                    }
                    Prepared::Remove(key) => Change { old: state.remove(places, &key), new: None },
                });
            }
        }
        changes
    }

    /// Makes `objects` the whole content, or the whole content of one namespace, in one step: a reader sees the old
    /// content or the new, never a mixture and never nothing.
    pub fn replace(&mut self, namespace: Option<&str>, objects: Vec<Object<K>>) -> Replacement<K> {
        let mut places = self.shared.writing.lock();
        let mut next = self.shared.state.lock().clone();
        let indexes = next.indexes.clone();
        let mut problems = Vec::new();
        let slots: Vec<_> = objects
            .into_iter()
            .map(|object| Slot { values: values_of(&indexes, &object, &mut problems), object })
            .collect();
        drop(indexes);
        let changes = replace_in(&mut next, &mut places, namespace, slots);
        let previous = std::mem::replace(&mut *self.shared.state.lock(), next);
        drop(previous);
        Replacement { changes, problems }
    }

    /// Declares that everything up to `revision` is in the store.
    pub fn advance(&mut self, revision: Revision) {
        self.shared.state.lock().revision = revision;
        self.shared.revision.send_if_modified(|at| std::mem::replace(at, revision) != revision);
    }
}

fn replace_in<K>(
    state: &mut State<K>,
    places: &mut Places,
    namespace: Option<&str>,
    mut after: Vec<Slot<K>>,
) -> Vec<Change<K>> {
    // The last of several objects under one key wins; the sort is stable, so the last of equals is the last listed.
    after.sort_by(|a, b| a.object.key().cmp(b.object.key()));
    after.reverse();
    after.dedup_by(|earlier, kept| earlier.object.key() == kept.object.key());
    after.reverse();
    let kept = |key: &ObjectKey| after.binary_search_by(|slot| slot.object.key().cmp(key)).is_ok();
    let gone = |object: &&Object<K>| !kept(object.key());
    let gone: Vec<ObjectKey> = match namespace {
        None => state.iter().filter(gone).map(|object| object.key().clone()).collect(),
        Some(namespace) => {
            state.namespace(namespace).filter(gone).map(|object| object.key().clone()).collect()
        }
    };
    let mut changes = Vec::with_capacity(gone.len() + after.len());
    for key in gone {
        changes.push(Change { old: state.remove(places, &key), new: None });
    }
    for slot in after {
        // What the list brings again unchanged stays as it is, shared and perhaps decoded.
        let same = state.known(places, slot.object.key()).filter(|old| old.same_version(&slot.object));
        if let Some(old) = same.filter(|old| old.revision() != Revision::ZERO).cloned() {
            changes.push(Change { old: Some(old.clone()), new: Some(old) });
        } else {
            let new = Some(slot.object.clone());
            changes.push(Change { old: state.put(places, slot), new });
        }
    }
    changes
}
