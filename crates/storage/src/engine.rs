//! The [`Engine`] trait: a revisioned, ordered, watchable key-value store, in the terms of etcd.
//!
//! One counter orders all writes. A write is conditional on the revision of its key; a refused write returns the present value, so that a
//! caller can retry without reading again. Reads can name an older revision, as far back as history reaches. The log of changes is read as
//! [`Changes`], which never misses and never repeats a change.
//!
//! Values are opaque bytes. The types of its methods are in `write.rs`, `read.rs` and `changes.rs`. `suite/` has the tests that
//! every engine must pass. Next: `memory.rs`, the simplest engine.

use std::fmt::Debug;

use async_trait::async_trait;
use listwatch_wire::Revision;

use crate::{
    Changes, Error, KeyValue, KeyVersion, Page, Range, Transacted, Usage, VersionRange, Write, Written,
};

/// The state of a store, for readiness checks.
///
/// `/readyz` reports it. A store that is read-only or damaged still serves lists and watches, so the server stays up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Health {
    /// Reads and writes work.
    #[default]
    Ready,
    /// Reads work, writes fail with [`Error::ReadOnly`]; the text is the reason. The store tries by itself to recover.
    ReadOnly(String),
    /// A part of the stored data cannot be read; the text names it. Everything else works. Needs a person.
    Damaged(String),
    /// Neither works at the moment; the text is the reason. The store tries by itself to recover.
    Unavailable(String),
}

/// A revisioned, ordered, watchable key-value store.
///
/// # History
/// Every engine keeps the changes after some revision, [`Engine::compacted`], which is zero at first and moves on by
/// [`Engine::compact`] or by the engine's own retention. The state *at* that revision and the log *after* it can be
/// read; anything before fails with [`Error::Compacted`], anything after the newest write with [`Error::Future`].
///
/// # Order
///
/// Revisions grow with every write and are shared by all keys; they need not be consecutive, since others may write
/// to the same etcd. A read that begins after a write was acknowledged sees it. The log has changes in the order of
/// their revisions, and nothing that a crash could undo.
///
/// Reads at an older revision, and the end of history:
///
/// ```
/// use listwatch_storage::{Engine, Error, Expect, MemoryEngine, Revision, Write};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Error> {
/// let engine = MemoryEngine::default();
/// for value in ["1", "2", "3"] {
///     let write = Write { key: "/a".into(), value: Some(value.into()), expect: Expect::Any, origin: None };
///     engine.write(write).await?;
/// }
/// let last = engine.current().await?;
/// let before = Revision(last.0 - 1);
/// let found = engine.get("/a", Some(before)).await?;
/// assert_eq!(found.map(|found| found.value), Some("2".into()));
///
/// // A watcher or a page that asks for a compacted revision must begin again; the server answers 410.
/// engine.compact(last).await?;
/// assert!(matches!(engine.get("/a", Some(before)).await, Err(Error::Compacted { oldest, .. }) if oldest == last));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Each method may fail with [`Error::Unavailable`] while the store cannot be reached, [`Error::Corrupt`] if it finds
/// damage and [`Error::Closed`] after [`Engine::close`]. Reads that name a revision fail with [`Error::Compacted`] or
/// [`Error::Future`], writes with [`Error::Invalid`] or [`Error::ReadOnly`].
#[async_trait]
pub trait Engine: Send + Sync + Debug + 'static {
    /// The revision of the newest durable write, linearizable: every write acknowledged before the call is in it.
    ///
    /// A consistent list asks for it before it waits for the cache; on etcd it is one round trip, elsewhere a lookup
    /// in memory.
    async fn current(&self) -> Result<Revision, Error>;

    /// One key at the latest or an older revision.
    ///
    /// Unlike a page, it fails if the value is damaged: its caller requested that value alone.
    ///
    /// # Errors
    ///
    /// [`Error::Compacted`] or [`Error::Future`] for a revision out of history, [`Error::Corrupt`] for a damaged
    /// value.
    async fn get(&self, key: &str, at: Option<Revision>) -> Result<Option<KeyValue>, Error>;

    /// Keys in order.
    ///
    /// Costs as much as the range has keys: those beyond the limit are counted, though not read. At an older revision, also as
    /// much as those keys have changed since.
    ///
    /// # Errors
    ///
    /// [`Error::Compacted`] or [`Error::Future`] for a revision out of history.
    async fn range(&self, range: Range) -> Result<Page, Error>;

    /// Returns true if the value of a key is stored in another form than it would be if it were written now, such as with a rotated
    /// encryption key: then it should be written although it does not change.
    ///
    /// Plain engines always return false; the server's encryption at rest overrides it, so that an update without a
    /// change re-encrypts an object after a key rotation.
    async fn is_outdated(&self, _key: &str) -> Result<bool, Error> {
        Ok(false)
    }

    /// The versions of a key that history has, newest first: those after the begin of history, and the one that was current
    /// then. An engine may end at the creation of the present object rather than continue with earlier objects of the same
    /// key.
    ///
    /// This default goes back one read at a time and stops at a deletion, for engines whose history cannot be
    /// followed by key.
    ///
    /// ```
    /// use listwatch_storage::{Engine, Expect, MemoryEngine, VersionRange, Write};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), listwatch_storage::Error> {
    /// let engine = MemoryEngine::default();
    /// for value in [Some("1".into()), Some("2".into()), None] {
    ///     engine.write(Write { key: "/a".into(), value, expect: Expect::Any, origin: None }).await?;
    /// }
    /// let versions = engine.versions("/a", VersionRange { before: None, limit: 10, bytes: 1 << 20 }).await?;
    /// let values: Vec<_> = versions.into_iter().map(|version| version.value).collect();
    /// assert_eq!(values, [None, Some("2".into()), Some("1".into())], "the deletion is a version, too");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Compacted`] if `range` begins before history does and nothing was found.
    async fn versions(&self, key: &str, range: VersionRange) -> Result<Vec<KeyVersion>, Error> {
        let mut versions = Vec::new();
        let mut at = range.before.map(|before| Revision(before.0.saturating_sub(1)));
        while !range.is_full(&versions) {
            let found = match self.get(key, at).await {
                Ok(Some(found)) => found,
                Ok(None) => break,
                Err(Error::Compacted { .. }) if !versions.is_empty() || at.is_some() => break,
                Err(error) => return Err(error),
            };
            at = Some(Revision(found.revision.0.saturating_sub(1)));
            versions.push(KeyVersion { revision: found.revision, value: Some(found.value), origin: None });
        }
        Ok(versions)
    }

    /// Writes if the condition holds; returns when the outcome is durable.
    ///
    /// The future may be dropped: the write then takes place or not, as if the response had been lost.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a key or value that no store takes, [`Error::ReadOnly`] if it certainly did not take
    /// place, [`Error::Unavailable`] if that is unknown.
    async fn write(&self, write: Write) -> Result<Written, Error>;

    /// Writes several different keys if all conditions hold, or none; returns when the outcome is durable. Their changes
    /// are in one [`Batch`](crate::Batch) of the log.
    ///
    /// # Errors
    ///
    /// As [`Engine::write`], and [`Error::Invalid`] for a key that comes twice.
    async fn transact(&self, writes: Vec<Write>) -> Result<Transacted, Error>;

    /// The log of changes after `after`, including those of the future. Only durable changes are in it.
    ///
    /// # Errors
    ///
    /// [`Error::Compacted`] if `after` is before the begin of history, [`Error::Future`] if it is after the newest
    /// write.
    async fn changes(&self, after: Revision) -> Result<Box<dyn Changes>, Error>;

    /// Compacts history before `upto`: reads at an older revision and logs after an older revision then fail with
    /// [`Error::Compacted`]. Compacting to where history already begins, or before, does nothing.
    ///
    /// Space is freed later and in small steps; only what can be read changes at once.
    ///
    /// # Errors
    ///
    /// [`Error::Future`] if `upto` has not been written yet.
    async fn compact(&self, upto: Revision) -> Result<(), Error>;

    /// The begin of history: the oldest revision that can be read, and after which the log can be read.
    ///
    /// Moves by itself where the engine has a retention, so it may be out of date when the caller gets it.
    async fn compacted(&self) -> Result<Revision, Error>;

    /// Returns the last known state of the store without asking it: cheap enough for every readiness probe.
    fn health(&self) -> Health {
        Health::Ready
    }

    /// Figures for metrics, without IO: cheap enough for every scrape.
    ///
    /// The default has no figures, which shows as absent metrics and not as zeros.
    fn usage(&self) -> Usage {
        Usage::default()
    }

    /// Finishes accepted writes, stops background tasks and closes files and connections. Later calls, and every open
    /// log, fail with [`Error::Closed`].
    async fn close(&self) -> Result<(), Error> {
        Ok(())
    }
}
