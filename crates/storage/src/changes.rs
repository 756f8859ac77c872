//! The log of changes: [`Changes`] returns [`Batch`]es of [`Change`]s to a follower.
//!
//! A follower starts after a revision and receives every later change, in order and once. The log begins where history
//! begins and has no end. Its part in memory is in `tail.rs`.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use listwatch_wire::Revision;

use crate::Error;

/// One committed change of one key, with the value before it: a watch with a selector needs both to decide whether an
/// object began or ceased to match.
///
/// The value before is what makes this more than etcd's plain event: without it, a watcher would have to keep every
/// object that it has sent. The etcd engine requests it with `prev_kv`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The revision of the write.
    pub revision: Revision,
    /// The key written.
    pub key: Arc<str>,
    /// The new value, or `None` if it was deleted.
    pub value: Option<Bytes>,
    /// The revision and value before the change, if the key existed.
    pub previous: Option<(Revision, Bytes)>,
}

/// Changes in revision order, and how far they reach.
///
/// A batch is shared by all readers of the log: cloning it copies two words.
///
/// A transaction is never split between two batches, so a follower that applies whole batches never shows half of
/// one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The changes in the order of their revisions, which only those of one transaction may share; empty when only
    /// `upto` moved.
    pub changes: Arc<[Change]>,
    /// Every change up to and including this revision has now been delivered.
    ///
    /// May be greater than the revision of the last change: in an etcd that is shared, others write too. A follower
    /// that waits for a revision compares with this, not with the changes.
    pub upto: Revision,
}

/// The ordered log of changes from a revision on.
///
/// A reader that is slow costs its engine nothing: it holds a position, not a queue. It falls behind the log's
/// memory, then reads from the engine's history, and fails only when history itself has moved past it.
///
/// ```
/// use listwatch_storage::{Engine, Expect, MemoryEngine, Revision, Write};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), listwatch_storage::Error> {
/// let engine = MemoryEngine::default();
/// for value in ["1", "2"] {
///     let write = Write { key: "/a".into(), value: Some(value.into()), expect: Expect::Any, origin: None };
///     engine.write(write).await?;
/// }
/// // From the beginning, though the writes are in the past. Each change carries the value before it.
/// let mut log = engine.changes(Revision::ZERO).await?;
/// let mut seen = Vec::new();
/// while seen.len() < 2 {
///     let batch = log.next().await?;
///     seen.extend(batch.changes.iter().map(|change| change.previous.is_some()));
/// }
/// assert_eq!(seen, [false, true]);
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait Changes: Send + Debug {
    /// Waits for the next changes. Dropping the future loses nothing: the next call continues where this one was.
    ///
    /// # Errors
    /// [`Error::Compacted`] if the log no longer has the position; any other error is temporary, and the caller may
    /// open the log again at the last `upto` it received.
    async fn next(&mut self) -> Result<Batch, Error>;
}
