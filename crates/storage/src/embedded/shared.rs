//! [`PublishedState`]: the state that the writer publishes after each commit, and everyone else reads.
//!
//! Only durable changes get here: the writer updates index and tail after the sync, so no reader sees a write that a
//! crash could undo. Locks are held for lookups only, never across IO. Health moves between ready and full by itself;
//! damage is final until the process ends.

use std::sync::Arc;

use parking_lot::RwLock;

use super::index::StoreIndex;
use crate::tail::Tail;
use crate::usage::SyncCounter;
use crate::{Error, Health};

/// The index of keys, the newest changes, the health and the commit times of an open store.
#[derive(Debug)]
pub(super) struct PublishedState {
    /// Only the writer's thread takes it for writing, so it may hold a read lock during a transaction without
    /// blocking itself.
    pub(super) index: RwLock<StoreIndex>,
    pub(super) tail: Arc<Tail>,
    /// Written by the writer and by readers that find damage.
    pub(super) health: RwLock<Health>,
    pub(super) syncs: SyncCounter,
}

impl PublishedState {
    /// Notes damage to the files. It stays until a person has looked: the store does not become whole by itself.
    pub(super) fn damaged(&self, reason: &str) {
        tracing::error!(reason, "the store is damaged");
        *self.health.write() = Health::Damaged(reason.to_owned());
    }

    /// Notes that the disk takes writes again, which does not mend damage.
    pub(super) fn recovered(&self) {
        let mut health = self.health.write();
        if !matches!(*health, Health::Damaged(_)) {
            *health = Health::Ready;
        }
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
