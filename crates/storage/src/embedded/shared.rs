//! [`PublishedState`]: the state that the writer publishes after each commit, for all readers.
//!
//! Only durable changes get here: the writer updates index and tail after the sync, so no reader sees a write that a
//! crash could undo. Locks are held for lookups only, never across IO. Health moves between ready and full by itself;
//! [`StoreDamage`] to a value lasts until its key is written.

use std::sync::Arc;

use listwatch_wire::Revision;
use parking_lot::{Mutex, RwLock};

use super::checksum::DamagedValue;
use super::damage::StoreDamage;
use super::failure::{damaged_value, reading};
use super::index::{KeyHead, StoreIndex};
use crate::tail::Tail;
use crate::usage::SyncCounter;
use crate::{Change, Error, Health};

/// The index of keys, the newest changes, the health and the commit times of an open store.
#[derive(Debug)]
pub(super) struct PublishedState {
    /// Only the writer's thread takes it for writing, so it may hold a read lock during a transaction without
    /// blocking itself.
    pub(super) index: RwLock<StoreIndex>,
    pub(super) tail: Arc<Tail>,
    /// The health apart from damage.
    pub(super) condition: RwLock<Health>,
    pub(super) damage: Mutex<StoreDamage>,
    pub(super) syncs: SyncCounter,
}

impl PublishedState {
    /// The health, of which the disk's comes before that of what is on it.
    pub(super) fn health(&self) -> Health {
        match &*self.condition.read() {
            Health::Ready => self.damage.lock().health(),
            trouble => trouble.clone(),
        }
    }

    /// Turns a failed read into an error, and notes the damage if that is why it failed. `head` finds the newest change of a
    /// key: a damaged value that is no longer current is history, which fails the reads that need it and nothing else.
    pub(super) fn failed_read(
        &self,
        error: &rusqlite::Error,
        head: impl FnOnce(&str) -> Option<KeyHead>,
    ) -> Error {
        let failure = reading(error);
        if let Error::Corrupt(reason) = &failure {
            tracing::error!(reason, "the store is damaged");
            match damaged_value(error) {
                None => self.damage.lock().found(reason.clone()),
                Some(value) => self.found_value(value, head(&value.key)),
            }
        }
        failure
    }

    /// Records a damaged value, unless the key has been written again since it was read.
    fn found_value(&self, value: &DamagedValue, head: Option<KeyHead>) {
        // The writer publishes the index before it takes this lock, so a value that it has just replaced is not
        // recorded.
        let mut damage = self.damage.lock();
        let recent = self.index.read_recursive().get(&value.key).map(|(_, head)| head);
        if recent.or(head).is_none_or(|head| head.revision == value.revision) {
            damage.found_value(value.clone());
        }
    }

    /// Clears the damage to keys that have just been written.
    pub(super) fn mended<'a>(&self, written: impl Iterator<Item = &'a Change>) {
        let mut damage = self.damage.lock();
        if !damage.is_settled() {
            written.for_each(|change| damage.written(&change.key, change.revision));
        }
    }

    /// The newest durable revision. The tail reaches it a moment later, when the batch is announced.
    pub(super) fn upto(&self) -> Revision {
        self.index.read().upto
    }

    /// Fails once the store is closed.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`].
    pub(super) fn open(&self) -> Result<(), Error> {
        if self.tail.is_closed() { Err(Error::Closed) } else { Ok(()) }
    }
}
