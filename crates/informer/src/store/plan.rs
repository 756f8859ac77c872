//! [`WritePlan`]: a prepared change of the store.
//!
//! Finding the object's slot and calling the index functions happens here, without blocking readers. Applying the plan
//! under the readers' lock only moves pointers.

use listwatch_wire::ObjectKey;

use super::index::{AnyIndex, IndexError, Values};
use super::places::{AllValues, Places};
use super::state::{Indexes, StoreState};
use super::writer::{StoreChange, StoreWrite};
use crate::object::Object;

/// A value list that changed.
pub(super) struct Move {
    pub(super) index: usize,
    pub(super) old: Values,
    pub(super) new: Values,
}

pub(super) enum WritePlan<K> {
    /// Nearly always this, and nearly always without moves.
    Update {
        place: usize,
        object: Object<K>,
        moves: Vec<Move>,
    },
    Add {
        place: usize,
        object: Object<K>,
        values: AllValues,
    },
    Remove(Box<Removal>),
    /// The object to remove is not there.
    Nothing,
}

pub(super) struct Removal {
    place: usize,
    key: ObjectKey,
    values: AllValues,
}

impl<K> WritePlan<K> {
    pub(super) fn new(
        places: &mut Places,
        indexes: &Indexes<K>,
        write: StoreWrite<K>,
        problems: &mut Vec<IndexError>,
    ) -> Self {
        match write {
            StoreWrite::Put(object) => Self::put(places, indexes, object, problems),
            StoreWrite::Remove(key) => Self::remove(places, key),
        }
    }

    pub(super) fn remove(places: &mut Places, key: ObjectKey) -> Self {
        let Some((place, values)) = places.remove(&key) else { return Self::Nothing };
        Self::Remove(Box::new(Removal { place, key, values }))
    }

    /// Plans an insertion or an update. Index functions run here, before the lock of the store is taken, because they
    /// are the user's code and may be slow or panic.
    pub(super) fn put(
        places: &mut Places,
        indexes: &Indexes<K>,
        object: Object<K>,
        problems: &mut Vec<IndexError>,
    ) -> Self {
        let Some(place) = places.find_sharing_key(&object) else {
            let values: AllValues =
                indexes.iter().filter_map(|index| ask(&**index, &object, None, problems)).collect();
            let place = places.add(object.key().clone(), values.clone());
            return Self::Add { place, object, values };
        };
        let mut moves = Vec::new();
        for (at, (index, old)) in indexes.iter().zip(places.values(place)).enumerate() {
            if let Some(new) = ask(&**index, &object, Some(old), problems) {
                let old = std::mem::replace(old, new.clone());
                moves.push(Move { index: at, old, new });
            }
        }
        Self::Update { place, object, moves }
    }
}

/// The values of an object in an index; `None` if they have not changed or could not be computed, which is reported.
fn ask<K>(
    index: &dyn AnyIndex<K>,
    object: &Object<K>,
    old: Option<&Values>,
    problems: &mut Vec<IndexError>,
) -> Option<Values> {
    let (values, problem) = index.values(object, old);
    problems.extend(problem);
    values
}

impl<K> StoreState<K> {
    /// Looks at the objects that will be replaced, for the reason for which the writer
    /// [looks for places](super::writer) twice.
    pub(super) fn touch<'a>(&self, plans: impl Iterator<Item = &'a WritePlan<K>>)
    where
        K: 'a,
    {
        let replaced = plans.filter_map(|plan| match plan {
            WritePlan::Update { place, .. } => self.slots.get(*place),
            _ => None,
        });
        std::hint::black_box(replaced.map(|object| object.revision().0).fold(0, u64::wrapping_add));
    }

    /// Changes the state by a plan. Nothing can fail here, so readers never see half a change.
    pub(super) fn carry_out(&mut self, plan: WritePlan<K>) -> StoreChange<K> {
        match plan {
            WritePlan::Update { place, object, moves } => {
                let new = Some(object.clone());
                self.reindex(object.key(), moves);
                StoreChange { old: self.slots.set(place, Some(object)), new }
            }
            WritePlan::Add { place, object, values } => {
                self.add(place, object.clone(), &values);
                StoreChange { old: None, new: Some(object) }
            }
            WritePlan::Remove(removal) => {
                let Removal { place, key, values } = *removal;
                StoreChange { old: self.remove(place, &key, &values), new: None }
            }
            WritePlan::Nothing => StoreChange { old: None, new: None },
        }
    }
}
