//! The delta queue: changes on their way from the reflector to the store.
//!
//! [`Delta`] is a change; [`InOrder`] and [`Coalescing`] are the two ways to queue them, as plain data structures;
//! [`DeltaQueue`] puts one of them between two tasks, bounded, so that a reflector that runs ahead waits instead of
//! filling memory. Deltas of one key are always applied in the order in which they were queued; in the in-order form
//! that holds across keys too.
//!
//! The queue has no access to the store: a replacement travels as one delta and is compared with the store when it is
//! applied, which makes it atomic and spares the queue every race with what is being applied.

mod coalescing;
mod in_order;
mod queue;

use std::fmt;

use listwatch_wire::{ObjectKey, Revision};

pub use coalescing::Coalescing;
pub use in_order::InOrder;
pub(crate) use queue::last_revision;
pub use queue::{Closed, DeltaBatch, DeltaQueue, Form, QueueOptions};

use crate::object::{Object, Raw};

/// A change to a collection, as the reflector received it.
///
/// Its effect is decided when it is applied: the store may have the object already, or may never have had it. So a
/// delta is the server's state; only the events derived from it say what has changed for a handler.
#[derive(Clone, Debug)]
pub enum Delta<K = Raw> {
    /// The server said that the object appeared. Whether it is new is decided by the store.
    Added(Object<K>),
    /// The server said that the object changed.
    Updated(Object<K>),
    /// The object was deleted; this was its last state.
    Deleted(Object<K>),
    /// The object may not be cached (its transformation failed); what the cache has of it is stale.
    Rejected {
        /// The object.
        key: ObjectKey,
        /// Its resource version.
        revision: Revision,
    },
    /// The whole content, from a list. Objects that are not in it were deleted, with their final state unknown.
    Replaced {
        /// Every object there is.
        objects: Vec<Object<K>>,
        /// The state it shows.
        revision: Revision,
        /// The server's history went back: an object of the same version may have other content.
        restarted: bool,
    },
    /// A resync: every object is delivered again to the handlers with a resync period.
    SyncAll,
    /// Everything that was missed since a saved state has been received.
    Current,
    /// The source was taken away: nothing of its namespace is cached any more.
    Removed,
    /// Nothing changed up to this resource version.
    Bookmark(Revision),
}

impl<K> Delta<K> {
    /// The key, for a change of one object.
    #[must_use]
    pub fn key(&self) -> Option<&ObjectKey> {
        match self {
            Self::Added(object) | Self::Updated(object) | Self::Deleted(object) => Some(object.key()),
            Self::Rejected { key, .. } => Some(key),
            Self::Replaced { .. } | Self::SyncAll | Self::Current | Self::Removed | Self::Bookmark(_) => None,
        }
    }

    /// True if it concerns all objects: it is popped alone, and nothing is coalesced across it.
    #[must_use]
    pub fn is_barrier(&self) -> bool {
        matches!(self, Self::Replaced { .. } | Self::SyncAll | Self::Current | Self::Removed)
    }

    /// The number of objects it carries, counted against [`QueueOptions::capacity`]. A replacement weighs as many as it
    /// lists.
    #[must_use]
    pub fn weight(&self) -> usize {
        match self {
            Self::Replaced { objects, .. } => objects.len().max(1),
            _ => 1,
        }
    }

    /// The resource version that the collection has reached after it; none for deltas that do not move it.
    #[must_use]
    pub fn revision(&self) -> Option<Revision> {
        match self {
            Self::Added(object) | Self::Updated(object) | Self::Deleted(object) => Some(object.revision()),
            Self::Rejected { revision, .. } | Self::Replaced { revision, .. } | Self::Bookmark(revision) => {
                Some(*revision)
            }
            Self::SyncAll | Self::Current | Self::Removed => None,
        }
    }
}

/// One line per delta, as the scripted tests print it.
impl<K> fmt::Display for Delta<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Added(object) => write!(f, "added {} {}", object.key(), object.revision()),
            Self::Updated(object) => write!(f, "updated {} {}", object.key(), object.revision()),
            Self::Deleted(object) => write!(f, "deleted {} {}", object.key(), object.revision()),
            Self::Rejected { key, revision } => write!(f, "rejected {key} {revision}"),
            Self::Replaced { objects, revision, restarted } => {
                let how = if *restarted { "restarted" } else { "replaced" };
                write!(f, "{how} at {revision}:")?;
                objects.iter().try_for_each(|object| write!(f, " {} {}", object.key(), object.revision()))
            }
            Self::SyncAll => f.write_str("sync all"),
            Self::Current => f.write_str("current"),
            Self::Removed => f.write_str("removed"),
            Self::Bookmark(revision) => write!(f, "bookmark {revision}"),
        }
    }
}
