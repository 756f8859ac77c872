//! Writes that share one transaction: decided one after the other, visible to readers only once they are durable.
//!
//! A later write of a batch sees the earlier ones, as if each had been committed by itself. If the commit fails, all of them fail.
//!
//! Costs per write: a lookup in the index, at most one in the table of keys, and one append to the log. The value
//! that it replaces is needed for the log's followers; it comes from the tail if it is recent, else from the log by
//! its revision.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use listwatch_wire::Revision;
use rusqlite::{Connection, OptionalExtension, Result, Statement, params};

use super::checksum::{checksum, verify};
use super::index::{KeyHead, StoreIndex};
use super::schema::{revision, sql};
use super::shared::PublishedState;
use crate::{Change, Error, KeyValue, Transacted, Write, Written};

/// The statements of the write path, prepared once.
///
/// Preparing one costs more than running it. They belong to the writer's connection and are dropped with its thread.
pub(super) struct Statements<'c> {
    /// `IMMEDIATE` takes the write lock at once: a lock that is taken in the middle can fail there.
    pub(super) begin: Statement<'c>,
    pub(super) commit: Statement<'c>,
    append: Statement<'c>,
    head: Statement<'c>,
    value: Statement<'c>,
}

impl<'c> Statements<'c> {
    /// Statements are prepared once per connection; each costs a parse otherwise.
    pub(super) fn prepare(connection: &'c Connection) -> Result<Self> {
        Ok(Self {
            begin: connection.prepare("BEGIN IMMEDIATE")?,
            commit: connection.prepare("COMMIT")?,
            append: connection.prepare(
                "INSERT INTO log (revision, key, previous, value, checksum, origin) VALUES (?, ?, ?, ?, ?, ?)",
            )?,
            head: connection.prepare("SELECT revision, live FROM keys WHERE key = ?")?,
            value: connection.prepare("SELECT value, key, checksum, origin FROM log WHERE revision = ?")?,
        })
    }

    /// The newest version of a key, as the index has it.
    fn head(&mut self, key: &str) -> Result<Option<KeyHead>> {
        let head = |row: &rusqlite::Row<'_>| {
            let live = row.get(1)?;
            Ok(KeyHead { revision: revision(row.get(0)?), live, stored: live })
        };
        self.head.query_row([key], head).optional()
    }

    /// Reads the value that a write put, and verifies its checksum.
    fn value(&mut self, at: Revision) -> Result<Bytes> {
        self.value.query_row([sql(at)], |row| {
            let value = row.get_ref(0)?.as_blob()?;
            let origin = row.get_ref(3)?.as_str_or_null()?;
            verify(at, row.get_ref(1)?.as_str()?, Some(value), origin, row.get(2)?)?;
            Ok(Bytes::copy_from_slice(value))
        })
    }

    /// Adds a change to the log, with its checksum.
    fn append(&mut self, at: Revision, previous: Option<KeyHead>, write: &Write) -> Result<()> {
        let previous = previous.map_or(0, |head| sql(head.revision));
        let (key, value, origin) = (&*write.key, write.value.as_deref(), write.origin.as_deref());
        let checksum = checksum(at, key, value, origin);
        self.append.execute(params![sql(at), key, previous, value, checksum, origin]).map(drop)
    }
}

/// The changes of a transaction, for readers once it is durable.
///
/// Empty ones exist: all writes may have been refused. Those commit without a sync that matters and publish nothing.
#[derive(Debug, Default)]
pub(super) struct Staged {
    pub(super) changes: Vec<Change>,
    /// The heads after those changes, for the index.
    pub(super) heads: HashMap<Arc<str>, KeyHead, foldhash::fast::RandomState>,
    /// The bytes of all changes.
    pub(super) bytes: u64,
}

/// A transaction that is being put together: the changes so far, and all that its decisions read.
///
/// It holds the index for reading, which readers do as well; only the writer changes it, after the commit.
pub(super) struct Transaction<'a, 'c> {
    index: &'a StoreIndex,
    shared: &'a PublishedState,
    statements: &'a mut Statements<'c>,
    staged: Staged,
    /// The first statement that failed. Later writes are not tried, because all of them are rolled back.
    failed: Option<rusqlite::Error>,
}

impl<'a, 'c> Transaction<'a, 'c> {
    /// Begins one. If that fails, so does [`Self::finish`].
    pub(super) fn begin(
        index: &'a StoreIndex,
        shared: &'a PublishedState,
        statements: &'a mut Statements<'c>,
    ) -> Self {
        let failed = statements.begin.execute([]).err();
        Self { index, shared, statements, staged: Staged::default(), failed }
    }

    /// Decides a write. After a failure the response is a refusal, which the caller replaces by the error of the batch.
    pub(super) fn write(&mut self, write: Write) -> Written {
        self.attempt(|this| this.stage(write)).unwrap_or(Written::Refused { current: None })
    }

    /// Decides several writes of different keys together. A failure is answered as in [`Self::write`].
    pub(super) fn transact(&mut self, writes: Vec<Write>) -> Transacted {
        self.attempt(|this| this.stage_all(writes)).unwrap_or(Transacted::Refused { current: Vec::new() })
    }

    /// Returns the changes, which are to be committed, or the failure.
    pub(super) fn finish(self) -> Result<Staged> {
        self.failed.map_or(Ok(self.staged), Err)
    }

    fn attempt<T>(&mut self, stage: impl FnOnce(&mut Self) -> Result<T>) -> Option<T> {
        if self.failed.is_some() {
            return None;
        }
        stage(self).map_err(|error| self.failed = Some(error)).ok()
    }

    /// Decides a write on top of the index and of what was staged before it.
    ///
    /// Reads the current value in either case, as the previous value of a change or as the response of a refusal.
    fn stage(&mut self, write: Write) -> Result<Written> {
        let head = self.head(&write.key)?;
        let current = head.filter(|head| head.live).map(|head| head.revision);
        let applies = write.applies(current);
        let previous = match current {
            Some(at) => Some((at, self.value_or_damaged(at)?)),
            None => None,
        };
        if !applies {
            let current = previous.map(|(revision, value)| KeyValue { key: write.key, value, revision });
            return Ok(Written::Refused { current });
        }
        let at = self.staged.changes.last().map_or(self.index.upto, |change| change.revision).next();
        self.statements.append(at, head, &write)?;
        Ok(self.staged.note(at, head, write, previous))
    }

    /// All conditions are checked before the first write is staged, so nothing has to be taken back. Keys are
    /// different (`Write::check_all`), so the writes cannot change each other's conditions.
    fn stage_all(&mut self, writes: Vec<Write>) -> Result<Transacted> {
        let mut heads = Vec::with_capacity(writes.len());
        for write in &writes {
            heads.push(self.head(&write.key)?.filter(|head| head.live));
        }
        let applies =
            |(write, head): (&Write, &Option<KeyHead>)| write.applies(head.map(|head| head.revision));
        if !writes.iter().zip(&heads).all(applies) {
            return self.refused(writes, &heads);
        }
        let mut revisions = Vec::with_capacity(writes.len());
        for write in writes {
            if let Written::Done { revision } = self.stage(write)? {
                revisions.push(revision);
            }
        }
        Ok(Transacted::Done { revisions })
    }

    /// The refusal of several writes, with the present value of each.
    fn refused(&mut self, writes: Vec<Write>, heads: &[Option<KeyHead>]) -> Result<Transacted> {
        let mut current = Vec::with_capacity(writes.len());
        for (write, head) in writes.into_iter().zip(heads) {
            current.push(match head {
                Some(KeyHead { revision, .. }) => {
                    let value = self.value_or_damaged(*revision)?;
                    Some(KeyValue { key: write.key, value, revision: *revision })
                }
                None => None,
            });
        }
        Ok(Transacted::Refused { current })
    }

    /// Newest first: this batch, then the index in memory, then the table of keys.
    fn head(&mut self, key: &Arc<str>) -> Result<Option<KeyHead>> {
        let known = self.staged.heads.get(key).copied();
        match known.or_else(|| self.index.get(key).map(|(_, head)| head)) {
            Some(head) => Ok(Some(head)),
            None => self.statements.head(key),
        }
    }

    /// A value from this batch, from memory, or from the log. A damaged one is empty: it can be deleted and
    /// written again, and others in its batch have nothing to do with it.
    fn value_or_damaged(&mut self, at: Revision) -> Result<Bytes> {
        let value = if at > self.index.upto {
            self.staged.value(at)
        } else {
            self.shared.tail.value_at(at).map_or_else(|| self.statements.value(at), Ok)
        };
        match value {
            // It is the current value; only that is read here.
            Err(error) => match self.shared.failed_read(&error, |_| None) {
                Error::Corrupt(_) => Ok(Bytes::new()),
                _ => Err(error),
            },
            value => value,
        }
    }
}

impl Staged {
    /// Records a write that will be part of the commit, so that later writes of the same batch see it.
    fn note(
        &mut self,
        at: Revision,
        head: Option<KeyHead>,
        write: Write,
        previous: Option<(Revision, Bytes)>,
    ) -> Written {
        let stored = head.is_some_and(|head| head.stored);
        self.heads
            .insert(Arc::clone(&write.key), KeyHead { revision: at, live: write.value.is_some(), stored });
        let origin = write.origin.as_ref().map_or(0, |origin| origin.len());
        self.bytes += (write.key.len() + write.value.as_ref().map_or(0, Bytes::len) + origin) as u64;
        self.changes.push(Change { revision: at, key: write.key, value: write.value, previous });
        Written::Done { revision: at }
    }

    /// The value of a change of this batch.
    fn value(&self, at: Revision) -> Result<Bytes> {
        let change = self.changes.iter().rev().find(|change| change.revision == at);
        change.and_then(|change| change.value.clone()).ok_or(rusqlite::Error::QueryReturnedNoRows)
    }
}
