//! [`StoreWriter`]: the only writer of a store. Each write returns the state of the key before and after.
//!
//! There is one writer per store by construction (it cannot be cloned), so a change is planned without the readers'
//! lock: index values are computed and places found first, and the lock is held for at most 64 insertions. A
//! replacement is built on a copy of the persistent state and published in one step, so no reader sees a half-applied
//! relist.
//!
//! Handlers are notified by the caller; see `informer::applier`. Readers that wait for a resourceVersion use
//! [`Store::wait_for`](super::Store::wait_for).

use std::fmt;
use std::sync::Arc;
use std::vec;

use listwatch_wire::{ObjectKey, Revision};
use smallvec::SmallVec;

use super::StoreShared;
use super::index::IndexError;
use super::places::Places;
use super::plan::WritePlan;
use super::state::{Indexes, StoreState};
use crate::object::{Object, Raw};

/// Readers wait at most for this many insertions, some tens of microseconds.
const CHANGES_PER_LOCK: usize = 64;

/// Sent through the revision channel when the writer has ended; no server reaches this revision.
pub(super) const ENDED: Revision = Revision(u64::MAX);

/// A change to make to one key.
#[derive(Clone, Debug)]
pub enum StoreWrite<K = Raw> {
    /// Add or replace the object under its key.
    Put(Object<K>),
    /// Remove what is under this key, if anything is.
    Remove(ObjectKey),
}

/// The effect of a change: the state of one key before and after.
#[derive(Clone, Debug)]
pub struct StoreChange<K = Raw> {
    /// The state before.
    pub old: Option<Object<K>>,
    /// The state after.
    pub new: Option<Object<K>>,
}

/// The effect of replacing the collection, or one namespace of it.
#[derive(Debug)]
pub struct Replacement<K = Raw> {
    /// The removed objects, then every present object, both in key order.
    pub changes: Vec<StoreChange<K>>,
    /// Objects that an index could not place.
    pub problems: Vec<IndexError>,
}

/// The changes made under one lock, each with what came with it.
type Chunk<K, T> = SmallVec<[(StoreChange<K>, T); CHANGES_PER_LOCK]>;

/// The only writer of a store.
///
/// That there is one is the invariant that readers rely on: a state is prepared beside the one that they see and
/// published in one step. A type without `Clone` enforces it. Readers wait for a revision with
/// [`Store::wait_for`](super::Store::wait_for); dropping the writer ends their wait.
pub struct StoreWriter<K = Raw> {
    shared: Arc<StoreShared<K>>,
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

impl<K> StoreWriter<K> {
    pub(super) fn new(shared: Arc<StoreShared<K>>) -> Self {
        Self { shared }
    }

    /// Makes the changes in order. Returns one [`StoreChange`] per write, and the objects that an index could not place.
    pub fn write(&mut self, writes: Vec<StoreWrite<K>>) -> (Vec<StoreChange<K>>, Vec<IndexError>) {
        let mut changes = Vec::with_capacity(writes.len());
        let writes = writes.into_iter().map(|write| (write, ())).collect();
        let problems = self.write_each(writes, |change, ()| changes.push(change));
        (changes, problems)
    }

    /// Makes the changes in order and calls back for each, with what came with it.
    pub(crate) fn write_each<T>(
        &mut self,
        writes: Vec<(StoreWrite<K>, T)>,
        mut tell: impl FnMut(StoreChange<K>, T),
    ) -> Vec<IndexError> {
        let mut places = self.shared.writing.lock();
        touch(&places, &writes);
        let indexes = self.indexes();
        let mut problems = Vec::new();
        let mut plan = |(write, with)| (WritePlan::new(&mut places, &indexes, write, &mut problems), with);
        let plans: Vec<_> = writes.into_iter().map(&mut plan).collect();
        // The state must be the only one to have the indexes, or each change would copy them.
        drop(indexes);
        let mut plans = plans.into_iter();
        while plans.len() > 0 {
            let changes = self.carry_out(&mut plans);
            changes.into_iter().for_each(|(change, with)| tell(change, with));
        }
        problems
    }

    /// Carries out as many as may be under one lock.
    fn carry_out<T>(&self, plans: &mut vec::IntoIter<(WritePlan<K>, T)>) -> Chunk<K, T> {
        let mut state = self.shared.state.lock();
        state.touch(plans.as_slice().iter().take(CHANGES_PER_LOCK).map(|(plan, _)| plan));
        plans.by_ref().take(CHANGES_PER_LOCK).map(|(plan, with)| (state.carry_out(plan), with)).collect()
    }

    fn indexes(&self) -> Indexes<K> {
        self.shared.state.lock().indexes.clone()
    }

    /// Makes `objects` the whole content, or the whole content of one namespace, in one step: a reader sees the old
    /// content or the new, never a mixture and never nothing.
    pub fn replace(&mut self, namespace: Option<&str>, objects: Vec<Object<K>>) -> Replacement<K> {
        self.replace_unless(namespace, objects, Object::same_version)
    }

    /// [`replace`](Self::replace) that keeps the stored object wherever the new one is the `same`.
    pub(crate) fn replace_unless(
        &mut self,
        namespace: Option<&str>,
        objects: Vec<Object<K>>,
        same: fn(&Object<K>, &Object<K>) -> bool,
    ) -> Replacement<K> {
        let mut places = self.shared.writing.lock();
        let mut next = self.shared.state.lock().clone();
        let mut problems = Vec::new();
        let changes = replace_in(&mut next, &mut places, namespace, objects, same, &mut problems);
        let previous = std::mem::replace(&mut *self.shared.state.lock(), next);
        drop(previous);
        Replacement { changes, problems }
    }

    /// Declares that everything up to `revision` is in the store, and wakes the readers that wait for it. Call it
    /// after the writes, never before.
    pub fn advance(&mut self, revision: Revision) {
        self.shared.state.lock().revision = revision;
        self.shared.revision.send_if_modified(|at| std::mem::replace(at, revision) != revision);
    }
}

/// Looks everything up once without changing it: nearly all the time of an update is waiting for memory, and
/// lookups that do nothing else wait for it together instead of one after the other.
fn touch<K, T>(places: &Places, writes: &[(StoreWrite<K>, T)]) {
    let puts = writes.iter().filter_map(|(write, _)| match write {
        StoreWrite::Put(object) => Some(object),
        StoreWrite::Remove(_) => None,
    });
    std::hint::black_box(puts.filter_map(|object| places.find(object)).fold(0, usize::wrapping_add));
}

/// Sorted by key, each key once. The last of several objects under one key wins; the sort is stable, so the last of
/// equals is the last listed.
fn sorted<K>(places: &mut Places, mut objects: Vec<Object<K>>) -> Vec<Object<K>> {
    for object in &objects {
        places.find_sharing_key(object);
    }
    objects.sort_by(|a, b| a.key().cmp(b.key()));
    objects.reverse();
    objects.dedup_by(|earlier, kept| earlier.key() == kept.key());
    objects.reverse();
    objects
}

/// Replaces the content of a state, or that of one namespace. The writer passes a copy and swaps it in, so that readers
/// see the whole replacement at once.
fn replace_in<K>(
    state: &mut StoreState<K>,
    places: &mut Places,
    namespace: Option<&str>,
    objects: Vec<Object<K>>,
    same: fn(&Object<K>, &Object<K>) -> bool,
    problems: &mut Vec<IndexError>,
) -> Vec<StoreChange<K>> {
    let after = sorted(places, objects);
    let kept = |key: &ObjectKey| after.binary_search_by(|object| object.key().cmp(key)).is_ok();
    let gone = |object: &&Object<K>| !kept(object.key());
    let gone: Vec<ObjectKey> = match namespace {
        None => state.iter().filter(gone).map(|object| object.key().clone()).collect(),
        Some(namespace) => {
            state.namespace(namespace).filter(gone).map(|object| object.key().clone()).collect()
        }
    };
    let mut changes = Vec::with_capacity(gone.len() + after.len());
    for key in gone {
        changes.push(state.carry_out(WritePlan::remove(places, key)));
    }
    places.reserve(after.len().saturating_sub(state.len()));
    for object in after {
        changes.push(replace_one(state, places, object, same, problems));
    }
    changes
}

/// Replaces one object, unless it is unchanged in the list: then the old one stays, which keeps snapshots shared and
/// decoded values.
fn replace_one<K>(
    state: &mut StoreState<K>,
    places: &mut Places,
    object: Object<K>,
    same: fn(&Object<K>, &Object<K>) -> bool,
    problems: &mut Vec<IndexError>,
) -> StoreChange<K> {
    // An object that is unchanged in the list stays as it is, shared and perhaps decoded.
    let known = places.find_sharing_key(&object).and_then(|place| state.slots.get(place));
    let kept = known.filter(|old| same(old, &object) && old.revision() != Revision::ZERO);
    if let Some(old) = kept.cloned() {
        return StoreChange { old: Some(old.clone()), new: Some(old) };
    }
    let indexes = state.indexes.clone();
    let plan = WritePlan::put(places, &indexes, object, problems);
    drop(indexes);
    state.carry_out(plan)
}
