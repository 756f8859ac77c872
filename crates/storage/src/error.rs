//! [`Error`]: failures of a store, one enum for all engines, sorted by what the caller can do: read at another
//! revision, retry, or give up.
//!
//! The API server maps them to statuses: `Compacted` to 410 `Expired`, `Future` to "too large resource version",
//! `ReadOnly` and `Unavailable` to statuses that clients retry. A condition that does not hold is not an error but
//! [`Written::Refused`](crate::Written::Refused), since it is the ordinary outcome of optimistic concurrency.

use listwatch_wire::Revision;

/// The errors of a store. The documentation of each variant has the remedy.
///
/// Cloning is cheap enough to return one failure to every write of a batch.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The requested revision is no longer in history: read at a newer one.
    #[error("revision {asked} has been compacted, the oldest readable one is {oldest}")]
    Compacted {
        /// The revision that was asked for.
        asked: Revision,
        /// The oldest revision that can still be read.
        oldest: Revision,
    },
    /// The requested revision has not been written yet: wait, or read at the current one.
    #[error("revision {asked} is in the future, the current one is {current}")]
    Future {
        /// The revision that was asked for.
        asked: Revision,
        /// The newest revision.
        current: Revision,
    },
    /// The request can never succeed as it is, for example an empty key or a value the store cannot take: change it.
    #[error("invalid storage request: {0}")]
    Invalid(String),
    /// The store refuses writes, for example because the disk is full; reads continue. Try again when there is space.
    #[error("storage is read-only: {0}")]
    ReadOnly(String),
    /// The store cannot be reached in time. The write may or may not have happened: read before trying again.
    ///
    /// Reads may simply be repeated. The server's pipeline answers a write with a status of the same meaning.
    #[error("storage is unavailable: {0}")]
    Unavailable(String),
    /// The store's files or answers are damaged: needs a person.
    #[error("storage is corrupt: {0}")]
    Corrupt(String),
    /// The store is shutting down: nothing was written.
    #[error("storage is closed")]
    Closed,
}
