//! The [`Engine`] trait: a revisioned, ordered, watchable key-value store, in the terms of etcd.
//!
//! One counter orders all writes. A write is conditional on the revision of its key, so that a caller can retry with the value it is given
//! instead of reading again. Reads can name an older revision, as far back as history reaches. The log of changes is read as
//! [`Changes`], which never misses and never repeats a change.
//!
//! Values are opaque bytes: nothing here knows Kubernetes. `suite/` has the tests that every engine must pass. Next: `memory.rs`, the
//! simplest one.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use listwatch_wire::Revision;

use crate::{Error, Usage};

/// A key with its current value and the revision that wrote it.
///
/// Cloning shares key and value: both are reference counted, because one value goes to the cache, to the log and to
/// responses at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    /// The whole key, for example `/registry/configmaps/default/a`.
    pub key: Arc<str>,
    /// The value as it was written; the engine never looks inside. In a [`Page`] and in what a write was refused for it is
    /// empty if the stored one is damaged: the others are of use all the same. [`Engine::health`] then tells of it.
    pub value: Bytes,
    /// The revision of the write that put this value.
    pub revision: Revision,
}

/// The condition on a key under which a write takes place.
///
/// Revisions are compared for equality only. That is enough, because a revision is never used twice, and it is what
/// an etcd transaction on `mod_revision` offers, so every engine decides alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Nothing: put in any case, delete if there.
    Any,
    /// The key must not exist.
    Absent,
    /// The key must exist and have been last written at this revision.
    At(Revision),
}

impl Expect {
    /// Returns true if the condition holds for a key last written at `current`, or absent.
    ///
    /// A key that was deleted counts as absent, whatever its revisions were before.
    #[must_use]
    pub fn holds(self, current: Option<Revision>) -> bool {
        match self {
            Self::Any => true,
            Self::Absent => current.is_none(),
            Self::At(revision) => current == Some(revision),
        }
    }
}

/// One conditional write: the store's form of optimistic concurrency. An update of an object is an [`Expect::At`] with
/// the revision that was read.
///
/// kube-apiserver's `GuaranteedUpdate` is built on the same primitive. The loop that reads, changes and retries is
/// not here but in the server's pipeline, since only that knows which conflicts may be retried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The key written: a slash and at least one more character.
    pub key: Arc<str>,
    /// The new value, or `None` to delete.
    pub value: Option<Bytes>,
    /// The condition under which the write takes place.
    pub expect: Expect,
    /// Where the change comes from, in words of the caller: who made it, and when. The embedded engine keeps it with the
    /// version; the others forget it.
    pub origin: Option<Arc<str>>,
}

impl Write {
    /// Refuses what no engine takes: keys are paths.
    ///
    /// Called by each engine before anything else, so that a bad key fails alike everywhere. The etcd engine needs
    /// the leading slash: the key that is a slash alone is its marker.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a key that is no path.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.key.len() > 1 && self.key.starts_with('/') {
            return Ok(());
        }
        Err(Error::Invalid(format!("the key {:?} is no path that starts with a slash", self.key)))
    }

    /// Refuses transactions that write a key twice: engines disagree about what that means.
    ///
    /// etcd refuses such a transaction, a log of one change per revision would keep both writes.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for the first key that is no path or comes a second time.
    pub(crate) fn check_all(writes: &[Self]) -> Result<(), Error> {
        let mut keys = std::collections::HashSet::new();
        for write in writes {
            write.check()?;
            if !keys.insert(&write.key) {
                return Err(Error::Invalid(format!("the key {:?} is written twice", write.key)));
            }
        }
        Ok(())
    }

    /// Returns true if the write takes place on a key last written at `current`, or absent. Deleting nothing is no write.
    #[must_use]
    pub fn applies(&self, current: Option<Revision>) -> bool {
        self.expect.holds(current) && (self.value.is_some() || current.is_some())
    }
}

/// The result of a write. A refusal is no error: it is what a caller retries on, with the value that came back.
///
/// Callers that lose a race get the winner's value with the refusal: a conflict costs one round trip, not two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// It is durable at this revision.
    Done {
        /// The revision of this write.
        revision: Revision,
    },
    /// The condition did not hold (or a delete found nothing); nothing changed.
    Refused {
        /// The value that the key holds instead, so that the caller can retry without another read.
        current: Option<KeyValue>,
    },
}

/// The outcome of several writes that take place together or not at all.
///
/// Used where two objects must never disagree, such as a Service and the claims on its addresses. Transactions are
/// small: etcd takes 128 operations by default, and a larger one fails there with [`Error::Invalid`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transacted {
    /// All are durable; the revision of each, in the order of the writes. An engine may give all of them the same one.
    Done {
        /// The revisions.
        revisions: Vec<Revision>,
    },
    /// At least one condition did not hold; nothing changed.
    Refused {
        /// The values that the keys hold, in the order of the writes.
        current: Vec<Option<KeyValue>>,
    },
}

/// The keys that [`Engine::range`] returns, from `start` up to `end`, and the revision at which they are read.
///
/// There is no separate form for a single namespace or a whole resource: both are prefixes of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first key, inclusive.
    pub start: Arc<str>,
    /// The end, exclusive; empty means no end.
    pub end: Arc<str>,
    /// At most so many; zero means all.
    pub limit: usize,
    /// The revision to read at; `None` reads the latest.
    pub at: Option<Revision>,
}

impl Range {
    /// All keys that start with `prefix`, at the latest revision.
    ///
    /// ```
    /// let range = listwatch_storage::Range::prefix("/registry/pods/");
    /// assert_eq!(&*range.end, "/registry/pods0");
    /// ```
    #[must_use]
    pub fn prefix(prefix: &str) -> Self {
        Self { start: prefix.into(), end: after_prefix(prefix).into(), limit: 0, at: None }
    }

    /// Returns true if no key can be in the range.
    ///
    /// Engines answer such a range without reading, but still check the revision that it names.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.end.is_empty() && self.end <= self.start
    }
}

/// The first string after all those that start with `prefix`, or nothing if there is none.
fn after_prefix(prefix: &str) -> String {
    let mut end = prefix.to_owned();
    while let Some(last) = end.pop() {
        // The surrogate gap has no characters: the one after U+D7FF is U+E000.
        let next = if last == '\u{D7FF}' {
            Some('\u{E000}')
        } else {
            char::from_u32(u32::from(last).saturating_add(1))
        };
        if let Some(next) = next {
            end.push(next);
            break;
        }
    }
    end
}

/// A page of a range: a snapshot of one revision. Later pages of the same list are read at that revision.
///
/// There is no continue token here. The server makes one of the last key and this revision, and the next page is a
/// range that starts after that key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The revision the page shows.
    pub revision: Revision,
    /// The entries in key order.
    pub items: Vec<KeyValue>,
    /// The number of keys in the whole range at that revision.
    ///
    /// kube-apiserver sends what remains of it as `remainingItemCount`.
    pub count: u64,
}

/// One version of a key, for the history of an object.
///
/// Not a [`KeyValue`]: a deletion is a version too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyVersion {
    /// The revision of the write.
    pub revision: Revision,
    /// The value, or `None` if the write deleted the key.
    pub value: Option<Bytes>,
    /// The [origin](Write::origin) of the write, if it is known.
    pub origin: Option<Arc<str>>,
}

/// The versions of a key that [`Engine::versions`] returns, bounded by number and by bytes.
///
/// Both bounds are there because versions differ in size by a factor of thousands: a number alone would let one page
/// of a large ConfigMap's history fill the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionRange {
    /// Only versions older than this; `None` begins with the newest.
    pub before: Option<Revision>,
    /// At most so many.
    pub limit: usize,
    /// No further version once there are so many bytes of values. One version is always returned.
    pub bytes: usize,
}

impl VersionRange {
    /// True if these versions are as many as were asked for.
    pub(crate) fn is_full(&self, versions: &[KeyVersion]) -> bool {
        let bytes: usize = versions.iter().filter_map(|version| version.value.as_ref()).map(Bytes::len).sum();
        versions.len() >= self.limit.max(1) || (!versions.is_empty() && bytes >= self.bytes)
    }

    /// True if a version is older than where the range begins.
    pub(crate) fn has(&self, revision: Revision) -> bool {
        self.before.is_none_or(|before| revision < before)
    }
}

/// One committed change of one key, with the value before it: a watch with a selector needs both to tell whether an
/// object began or ceased to match.
///
/// The value before is what makes this more than etcd's plain event: without it, a watcher would have to keep every
/// object that it has sent. The etcd engine asks for it with `prev_kv`.
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
/// A batch is shared by everyone who reads the log: cloning it copies two words.
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
#[async_trait]
pub trait Changes: Send + Debug {
    /// Waits for the next changes. Dropping the future loses nothing: the next call goes on where this one was.
    ///
    /// # Errors
    /// [`Error::Compacted`] if the log no longer has the position; any other error is passing, and the caller may
    /// open the log again at the last `upto` it saw.
    async fn next(&mut self) -> Result<Batch, Error>;
}

/// The state of a store, for readiness checks.
///
/// `/readyz` reports it. A store that is read-only or damaged still serves lists and watches, so the server stays up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Health {
    /// Reads and writes work.
    #[default]
    Ready,
    /// Reads work, writes fail with [`Error::ReadOnly`]; the text says why. The store tries by itself to recover.
    ReadOnly(String),
    /// A part of the stored data cannot be read; the text names it. Everything else works. Needs a person.
    Damaged(String),
    /// Neither works at the moment; the text says why. The store tries by itself to recover.
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
/// # Errors
///
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
    /// Unlike a page, it fails if the value is damaged: its caller asked for that value alone.
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

    /// Returns true if the value of a key is stored in another form than it would be if it were written now, such as under a key that
    /// encrypts no longer: then it is worth writing although it does not change.
    ///
    /// Engines that store values as they come never say so; the server's encryption at rest does, and rotating a key
    /// is then an update of each object without a change.
    async fn is_outdated(&self, _key: &str) -> Result<bool, Error> {
        Ok(false)
    }

    /// The versions of a key that history has, newest first: those after the begin of history, and the one that was current
    /// then. An engine may end at the creation of the present object rather than go on with objects that had the key before.
    ///
    /// This default goes back one read at a time and stops at a deletion, for engines whose history cannot be
    /// followed by key.
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
    /// The future may be dropped: the write then takes place or not, as if the answer had been lost.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a key or value that no store takes, [`Error::ReadOnly`] if it certainly did not take
    /// place, [`Error::Unavailable`] if that is unknown.
    async fn write(&self, write: Write) -> Result<Written, Error>;

    /// Writes several different keys if all conditions hold, or none; returns when the outcome is durable. Their changes
    /// are in one [`Batch`] of the log.
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

    /// Forgets what was before `upto`: reads at an older revision and logs after an older revision then fail with
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

    /// Figures for metrics, without asking the store: cheap enough for every scrape.
    ///
    /// The default knows nothing, which shows as absent metrics and not as zeros.
    fn usage(&self) -> Usage {
        Usage::default()
    }

    /// Finishes what was accepted, stops what runs in the background and lets go of files and connections. Everything
    /// afterwards, and every open log, fails with [`Error::Closed`].
    async fn close(&self) -> Result<(), Error> {
        Ok(())
    }
}
