//! [`Truth`]: the changes that the store committed, against which every observed history is compared.
//!
//! From it follows what each watch must see: a change that makes an object match a selector is ADDED, one that ends the
//! match is DELETED with the previous content, for any change in the store. Acknowledged writes must be in it as
//! they were acknowledged; deletions are counted, because the response to one carries no revision. It is filled by
//! [`TestCollection::truth`](crate::TestCollection::truth).

use std::collections::BTreeMap;
use std::ops::Bound;

use listwatch_wire::event::EventType;
use listwatch_wire::{ObjectKey, Revision};
use serde_json::Value;

use super::{Acknowledged, Violation, WatchFilter};

/// One committed change: what a key held before and holds after it.
#[derive(Clone, Debug, PartialEq)]
pub struct TruthChange {
    /// The object that changed.
    pub key: ObjectKey,
    /// Its content before, if it existed.
    pub before: Option<Value>,
    /// Its content after, unless it was deleted.
    pub after: Option<Value>,
}

impl TruthChange {
    /// The event and content that a watch with this filter must see for the change; `None` if it must not see it at all.
    ///
    /// The same decision as the server's view of a filter makes, written down independently: the two share no code.
    #[must_use]
    pub fn seen_through(&self, filter: &WatchFilter) -> Option<(EventType, &Value)> {
        let matching = |content: &Option<Value>| {
            content.as_ref().is_some_and(|content| filter.matches(&self.key, content))
        };
        match (matching(&self.before), matching(&self.after)) {
            (false, true) => Some((EventType::Added, self.after.as_ref()?)),
            (true, true) => Some((EventType::Modified, self.after.as_ref()?)),
            (true, false) => Some((EventType::Deleted, self.before.as_ref()?)),
            (false, false) => None,
        }
    }
}

/// Every change of one collection, in the order the store committed them.
///
/// Keeps every content that was ever committed, so a run is bounded by its number of writes and not by its time.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    changes: BTreeMap<Revision, TruthChange>,
    /// Content by key after the last change: what the next change of that key finds.
    now: BTreeMap<ObjectKey, Value>,
}

impl Truth {
    /// Adds the next change. Contents leave out `kind`, `apiVersion` and the resourceVersion, as in [`super::Seen`].
    pub fn push(&mut self, revision: Revision, key: ObjectKey, after: Option<Value>) {
        let before = match &after {
            Some(content) => self.now.insert(key.clone(), content.clone()),
            None => self.now.remove(&key),
        };
        self.changes.insert(revision, TruthChange { key, before, after });
    }

    /// The change at a revision, if this collection has one there.
    #[must_use]
    pub fn at(&self, revision: Revision) -> Option<&TruthChange> {
        self.changes.get(&revision)
    }

    /// The newest revision of the collection.
    #[must_use]
    pub fn last(&self) -> Revision {
        self.changes.last_key_value().map_or(Revision::ZERO, |(revision, _)| *revision)
    }

    /// The number of changes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// True if nothing was ever written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The first change after `after` and up to `upto` (inclusive) that a watch with this filter must deliver.
    pub(crate) fn first_due(
        &self,
        filter: &WatchFilter,
        after: Revision,
        upto: Revision,
    ) -> Option<(Revision, &TruthChange)> {
        if upto <= after {
            return None;
        }
        self.changes
            .range((Bound::Excluded(after), Bound::Included(upto)))
            .find(|(_, change)| change.seen_through(filter).is_some())
            .map(|(revision, change)| (*revision, change))
    }

    /// The matching objects as of a revision: content and the revision of the last write of each.
    ///
    /// Replays the log from its begin: linear in the changes, for each list that is checked.
    #[must_use]
    pub fn state(&self, filter: &WatchFilter, revision: Revision) -> BTreeMap<ObjectKey, (Revision, &Value)> {
        let mut state = BTreeMap::new();
        for (at, change) in self.changes.range(..=revision) {
            match &change.after {
                Some(content) => drop(state.insert(change.key.clone(), (*at, content))),
                None => drop(state.remove(&change.key)),
            }
        }
        state.retain(|key, (_, content)| filter.matches(key, content));
        state
    }

    /// Checks that every acknowledged write is in the log as it was acknowledged, and that no key has fewer deletions than
    /// were acknowledged.
    ///
    /// A write that was not answered may be in the log or not, and is not checked.
    #[must_use]
    pub fn check_acknowledged(&self, acknowledged: &[Acknowledged]) -> Vec<Violation> {
        let mut violations: Vec<_> = acknowledged.iter().filter_map(|write| self.lost(write)).collect();
        let mut deletions = BTreeMap::<&ObjectKey, i64>::new();
        for write in acknowledged.iter().filter(|write| write.object.is_none()) {
            *deletions.entry(&write.key).or_default() += 1;
        }
        for change in self.changes.values().filter(|change| change.after.is_none()) {
            deletions.entry(&change.key).and_modify(|count| *count -= 1);
        }
        let missing = deletions.into_iter().filter(|(_, count)| *count > 0);
        violations.extend(missing.map(|(key, count)| {
            Violation::Durable(format!("{count} acknowledged deletions of {key} are not in the log"))
        }));
        violations
    }

    /// Returns a violation if an acknowledged write is not in the log as it was acknowledged.
    fn lost(&self, write: &Acknowledged) -> Option<Violation> {
        let object = write.object.as_ref()?;
        let committed = self.at(object.revision).filter(|change| change.key == object.key);
        let same = committed.is_some_and(|change| change.after.as_ref() == Some(&object.content));
        (!same).then(|| {
            Violation::Durable(format!(
                "{} acknowledged at {} is not in the log",
                object.key, object.revision
            ))
        })
    }
}
