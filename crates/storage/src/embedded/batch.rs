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

/// The changes of a transaction that is not committed yet.
///
/// Empty batches exist: all writes may have been refused. Those commit without a sync that matters and publish
/// nothing.
#[derive(Debug, Default)]
pub(super) struct Staged {
    pub(super) changes: Vec<Change>,
    /// The heads after those changes, for the index.
    pub(super) heads: HashMap<Arc<str>, KeyHead, foldhash::fast::RandomState>,
    /// The bytes of all changes.
    pub(super) bytes: u64,
}

impl Staged {
    /// Decides a write on top of the index and of what was staged before it.
    ///
    /// Reads the current value in either case, as the previous value of a change or as the answer of a refusal.
    pub(super) fn stage(
        &mut self,
        write: Write,
        index: &StoreIndex,
        shared: &PublishedState,
        statements: &mut Statements<'_>,
    ) -> Result<Written> {
        let head = self.head(&write.key, index, statements)?;
        let current = head.filter(|head| head.live).map(|head| head.revision);
        let applies = write.applies(current);
        let previous = match current {
            Some(at) => Some((at, self.value_or_damaged(at, index, shared, statements)?)),
            None => None,
        };
        if !applies {
            let current = previous.map(|(revision, value)| KeyValue { key: write.key, value, revision });
            return Ok(Written::Refused { current });
        }
        let at = self.changes.last().map_or(index.upto, |change| change.revision).next();
        statements.append(at, head, &write)?;
        Ok(self.note(at, head, write, previous))
    }

    /// Decides several writes of different keys together.
    ///
    /// All conditions are checked before the first write is staged, so nothing has to be taken back. Keys are
    /// different (`Write::check_all`), so the writes cannot change each other's conditions.
    pub(super) fn stage_all(
        &mut self,
        writes: Vec<Write>,
        index: &StoreIndex,
        shared: &PublishedState,
        statements: &mut Statements<'_>,
    ) -> Result<Transacted> {
        let mut heads = Vec::with_capacity(writes.len());
        for write in &writes {
            heads.push(self.head(&write.key, index, statements)?.filter(|head| head.live));
        }
        let applies =
            |(write, head): (&Write, &Option<KeyHead>)| write.applies(head.map(|head| head.revision));
        if !writes.iter().zip(&heads).all(applies) {
            let mut current = Vec::with_capacity(writes.len());
            for (write, head) in writes.into_iter().zip(heads) {
                current.push(match head {
                    Some(KeyHead { revision, .. }) => {
                        let value = self.value_or_damaged(revision, index, shared, statements)?;
                        Some(KeyValue { key: write.key, value, revision })
                    }
                    None => None,
                });
            }
            return Ok(Transacted::Refused { current });
        }
        let mut revisions = Vec::with_capacity(writes.len());
        for write in writes {
            if let Written::Done { revision } = self.stage(write, index, shared, statements)? {
                revisions.push(revision);
            }
        }
        Ok(Transacted::Done { revisions })
    }

    /// Newest first: this batch, then the index in memory, then the table of keys.
    fn head(
        &self,
        key: &Arc<str>,
        index: &StoreIndex,
        statements: &mut Statements<'_>,
    ) -> Result<Option<KeyHead>> {
        match self.heads.get(key).copied().or_else(|| index.get(key).map(|(_, head)| head)) {
            Some(head) => Ok(Some(head)),
            None => statements.head(key),
        }
    }

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

    /// A value from this batch, from memory, or from the log. A damaged one is empty: it can be deleted and
    /// written again, and others in its batch have nothing to do with it.
    fn value_or_damaged(
        &self,
        at: Revision,
        index: &StoreIndex,
        shared: &PublishedState,
        statements: &mut Statements<'_>,
    ) -> Result<Bytes> {
        let value = if at > index.upto {
            self.staged(at)
        } else {
            shared.tail.value_at(at).map_or_else(|| statements.value(at), Ok)
        };
        match value {
            // It is the current value; only that is read here.
            Err(error) => match shared.failed_read(&error, |_| None) {
                Error::Corrupt(_) => Ok(Bytes::new()),
                _ => Err(error),
            },
            value => value,
        }
    }

    /// The value of a change of this batch.
    fn staged(&self, at: Revision) -> Result<Bytes> {
        let change = self.changes.iter().rev().find(|change| change.revision == at);
        change.and_then(|change| change.value.clone()).ok_or(rusqlite::Error::QueryReturnedNoRows)
    }
}
