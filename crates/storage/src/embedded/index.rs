//! The position of each key's newest change, for the keys changed since the table of keys was last brought up to date.
//!
//! The writer alone changes this, after a commit, so all that a reader finds here is durable. The index and the tables
//! belong together: `epoch` counts the changes of the latter, and a reader whose transaction shows another epoch than the
//! index it looked at has to look again.
//!
//! Its size is bounded by `EmbeddedOptions::unindexed_changes` and what comes while a pass of upkeep is under way. It
//! is an ordered map because a list needs the recent keys of a range.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use listwatch_wire::Revision;

use crate::Error;

/// The newest change of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyHead {
    /// Its revision.
    pub(super) revision: Revision,
    /// True if the last change put a value.
    pub(super) live: bool,
    /// True if the table of keys has the key as live, which may be out of date. Lets a count be corrected without
    /// looking there.
    pub(super) stored: bool,
}

/// The state of the store that is not in its tables.
#[derive(Debug, Default)]
pub(super) struct StoreIndex {
    /// The newest durable revision.
    pub(super) upto: Revision,
    /// The oldest readable revision.
    pub(super) compacted: Revision,
    /// The state of the tables that this belongs to.
    pub(super) epoch: i64,
    recent: BTreeMap<Arc<str>, KeyHead>,
}

impl StoreIndex {
    /// An index of a store all of whose keys are in the tables.
    pub(super) fn new(upto: Revision, compacted: Revision, epoch: i64) -> Self {
        Self { upto, compacted, epoch, recent: BTreeMap::new() }
    }

    /// The revision that a read at `at` shows.
    ///
    /// # Errors
    ///
    /// [`Error::Future`] or [`Error::Compacted`], which the server answers with "too large resource version" and with 410.
    pub(super) fn readable(&self, at: Option<Revision>) -> Result<Revision, Error> {
        match at {
            None => Ok(self.upto),
            Some(asked) if asked > self.upto => Err(Error::Future { asked, current: self.upto }),
            Some(asked) if asked < self.compacted => Err(Error::Compacted { asked, oldest: self.compacted }),
            Some(asked) => Ok(asked),
        }
    }

    /// The newest change of a key, if it is recent.
    pub(super) fn get(&self, key: &str) -> Option<(&Arc<str>, KeyHead)> {
        self.recent.get_key_value(key).map(|(key, head)| (key, *head))
    }

    /// Notes a change.
    pub(super) fn insert(&mut self, key: Arc<str>, head: KeyHead) {
        self.recent.insert(key, head);
    }

    /// The recent heads from `start` up to `end`, which is none if empty.
    ///
    /// Copies the heads, so that the lock is released before the disk is read.
    pub(super) fn between(&self, start: &str, end: &str) -> Vec<(Arc<str>, KeyHead)> {
        if !end.is_empty() && end <= start {
            return Vec::new();
        }
        let end = if end.is_empty() { Bound::Unbounded } else { Bound::Excluded(end) };
        let heads = self.recent.range::<str, _>((Bound::Included(start), end));
        heads.map(|(key, head)| (Arc::clone(key), *head)).collect()
    }

    /// At most `limit` heads whose keys come after `after`.
    ///
    /// For a pass of upkeep: the key where the last step ended is the whole state of an iteration between commits.
    pub(super) fn after(&self, after: &str, limit: usize) -> Vec<(Arc<str>, KeyHead)> {
        let heads = self.recent.range::<str, _>((Bound::Excluded(after), Bound::Unbounded));
        heads.take(limit).map(|(key, head)| (Arc::clone(key), *head)).collect()
    }

    /// Removes a head that the table of keys now has.
    pub(super) fn stored(&mut self, key: &str) {
        self.recent.remove(key);
    }

    /// Follows the sweeping of a deletion at `revision`, after which the table of keys no longer has the key.
    ///
    /// A newer head stays and is marked as absent from the table, so that counts stay correct.
    pub(super) fn swept(&mut self, key: &str, revision: Revision) {
        match self.recent.get_mut(key) {
            Some(head) if head.revision > revision => head.stored = false,
            Some(_) => drop(self.recent.remove(key)),
            None => {}
        }
    }
}
