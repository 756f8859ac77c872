//! The [`Engine`] trait: what every store can do, in the terms of etcd.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use listwatch_wire::Revision;

use crate::Error;

/// A key with its current value and the revision that wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    /// The whole key, for example `/registry/configmaps/default/a`.
    pub key: Arc<str>,
    /// The value as it was written; the engine never looks inside.
    pub value: Bytes,
    /// The revision of the write that put this value.
    pub revision: Revision,
}

/// What must be true of a key for a write to take place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Nothing: put in any case, delete if there.
    Any,
    /// The key must not exist.
    Absent,
    /// The key must exist and have been last written at this revision.
    At(Revision),
}

/// One conditional write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The key written.
    pub key: Arc<str>,
    /// The new value, or `None` to delete.
    pub value: Option<Bytes>,
    /// The condition under which the write takes place.
    pub expect: Expect,
}

/// What a write did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// It is durable at this revision.
    Done {
        /// The revision of this write.
        revision: Revision,
    },
    /// The condition did not hold (or a delete found nothing); nothing changed.
    Refused {
        /// What the key holds instead, so that the caller can retry without another read.
        current: Option<KeyValue>,
    },
}

/// Which keys a [`Engine::range`] returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first key, inclusive.
    pub start: Arc<str>,
    /// The end, exclusive.
    pub end: Arc<str>,
    /// At most so many; zero means all.
    pub limit: usize,
    /// The revision to read at; `None` reads the latest.
    pub at: Option<Revision>,
}

/// A page of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The revision the page shows.
    pub revision: Revision,
    /// The entries in key order.
    pub items: Vec<KeyValue>,
    /// How many keys the whole range has at that revision.
    pub count: u64,
}

/// One committed change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The revision of the write.
    pub revision: Revision,
    /// The key written.
    pub key: Arc<str>,
    /// The new value, or `None` if it was deleted.
    pub value: Option<Bytes>,
    /// What the key held before, if it existed.
    pub previous: Option<(Revision, Bytes)>,
}

/// Changes in revision order, and how far they reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The changes, each revision greater than the one before; empty when only `upto` moved.
    pub changes: Vec<Change>,
    /// Every change up to and including this revision has now been delivered.
    pub upto: Revision,
}

/// The ordered log of changes from a revision on.
#[async_trait]
pub trait Changes: Send + Debug {
    /// Waits for the next changes. Dropping the future loses nothing: the next call goes on where this one was.
    ///
    /// # Errors
    /// [`Error::Compacted`] if the log no longer has the position; any other error is passing, and the caller may
    /// open the log again at the last `upto` it saw.
    async fn next(&mut self) -> Result<Batch, Error>;
}

/// A revisioned, ordered, watchable key-value store.
#[async_trait]
pub trait Engine: Send + Sync + Debug + 'static {
    /// The revision of the newest durable write, linearizable: every write acknowledged before the call is in it.
    async fn current(&self) -> Result<Revision, Error>;

    /// One key at the latest or an older revision.
    async fn get(&self, key: &str, at: Option<Revision>) -> Result<Option<KeyValue>, Error>;

    /// Keys in order.
    async fn range(&self, range: Range) -> Result<Page, Error>;

    /// Writes if the condition holds; returns when the outcome is durable.
    async fn write(&self, write: Write) -> Result<Written, Error>;

    /// The log of changes after `after`, including those of the future. Only durable changes are in it.
    async fn changes(&self, after: Revision) -> Result<Box<dyn Changes>, Error>;

    /// Forgets history up to and including `upto`: older reads and logs then fail with [`Error::Compacted`].
    async fn compact(&self, upto: Revision) -> Result<(), Error>;

    /// The newest revision whose history is forgotten; reads at it or before it fail.
    async fn compacted(&self) -> Result<Revision, Error>;
}
