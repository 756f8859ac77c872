//! The state of the store in one read transaction, at the newest or an older revision.
//!
//! A key's changes form a chain through the log, each naming the one before. Reading at an older revision follows it from
//! the newest change back, so the cost is the number of changes of these keys since then.

use std::iter::Peekable;
use std::sync::Arc;

use bytes::Bytes;
use listwatch_wire::Revision;
use rusqlite::{Connection, OptionalExtension, Result as Sql, params};

use super::checksum::verify;
use super::index::KeyHead;
use super::schema::{revision, sql};
use super::shared::PublishedState;
use crate::{Batch, Change, Error, KeyValue, KeyVersion, Page, Range, VersionRange};

/// The bytes of the log that are read from disk at a time: enough to be fast, few enough to hold for every lagging
/// cursor.
const BACKLOG_BYTES: usize = 256 << 10;

/// One read transaction.
///
/// Only valid together with an index of the same epoch, which [`Readers`](super::reader::Readers) ensures.
pub(super) struct ReadTransaction<'c> {
    pub(super) connection: &'c Connection,
    /// For values of recent changes, which need no read from disk, and to note damage.
    pub(super) shared: &'c PublishedState,
    /// The revision to show.
    pub(super) revision: Revision,
    /// The newest revision in the index that belongs to the transaction.
    pub(super) upto: Revision,
}

/// Keys that changed since the index was read, which count before what is on disk.
type RecentKeys = Vec<(Arc<str>, KeyHead)>;

impl ReadTransaction<'_> {
    /// One key, of which the index has `recent`.
    pub(super) fn get(&self, key: &Arc<str>, recent: Option<KeyHead>) -> Result<Option<KeyValue>, Error> {
        self.find(key, recent).map_err(|error| self.failed(&error))
    }

    /// Names the key of a damaged value, where it can be found.
    fn failed(&self, error: &rusqlite::Error) -> Error {
        self.shared.failed_read(error, |key| self.head(key, None).ok().flatten())
    }

    /// The newest change of a key, of which the index has `recent`.
    fn head(&self, key: &str, recent: Option<KeyHead>) -> Sql<Option<KeyHead>> {
        if recent.is_some() {
            return Ok(recent);
        }
        let mut statement =
            self.connection.prepare_cached("SELECT revision, live FROM keys WHERE key = ?")?;
        statement.query_row([key], |row| stored_head(row, 0)).optional()
    }

    /// The versions of a key, newest first, back to the one that was current where history begins, at `oldest`.
    pub(super) fn versions(
        &self,
        key: &Arc<str>,
        recent: Option<KeyHead>,
        range: VersionRange,
        oldest: Revision,
    ) -> Result<Vec<KeyVersion>, Error> {
        self.chain(key, recent, range, oldest).map_err(|error| self.failed(&error))
    }

    /// Follows the chain of a key's changes from the newest to older ones. Each change names the one before, so the
    /// cost is that of the versions read, not of the log.
    fn chain(
        &self,
        key: &Arc<str>,
        recent: Option<KeyHead>,
        range: VersionRange,
        oldest: Revision,
    ) -> Sql<Vec<KeyVersion>> {
        let mut versions = Vec::new();
        let mut next = match range.before {
            // Where a page ended, its last version names the one before: the newer ones are not read again.
            Some(before) => self.link(key, before)?,
            None => None,
        };
        if next.is_none() {
            next = self.head(key, recent)?.map(|head| head.revision);
        }
        let query = "SELECT previous, value, checksum, origin FROM log WHERE revision = ?";
        let mut statement = self.connection.prepare_cached(query)?;
        while let Some(at) = next.filter(|at| *at > Revision::ZERO && !range.is_full(&versions)) {
            let read = statement.query_row([sql(at)], |row| {
                Ok((revision(row.get(0)?), verified(row, at, key, [1, 2, 3])?, row.get(3)?))
            });
            let Some((previous, value, origin)) = read.optional()? else { break };
            if range.has(at) && (at > oldest || value.is_some()) {
                versions.push(KeyVersion { revision: at, value, origin });
            }
            next = (at > oldest).then_some(previous);
        }
        Ok(versions)
    }

    /// The change of a key before the one at a revision; nothing if that was not one of this key.
    ///
    /// Used to continue a page of versions. A caller may pass any revision: one of another key finds nothing.
    fn link(&self, key: &str, at: Revision) -> Sql<Option<Revision>> {
        let query = "SELECT previous FROM log WHERE revision = ? AND key = ?";
        let mut statement = self.connection.prepare_cached(query)?;
        statement.query_row(params![sql(at), key], |row| row.get(0).map(revision)).optional()
    }

    /// One key at the revision of the transaction.
    fn find(&self, key: &Arc<str>, recent: Option<KeyHead>) -> Sql<Option<KeyValue>> {
        let head = self.head(key, recent)?;
        let Some(at) = head.map(|head| self.resolve(head)).transpose()?.flatten() else { return Ok(None) };
        self.load(Arc::clone(key), at).map(Some)
    }

    /// A page, where the index has `recent` of the range.
    pub(super) fn page(&self, range: &Range, recent: RecentKeys) -> Result<Page, Error> {
        if range.is_empty() {
            return Ok(Page { revision: self.revision, items: Vec::new(), count: 0 });
        }
        self.collect(range, recent).map_err(|error| self.failed(&error))
    }

    /// Reads a page from the table of keys merged with the recent keys of the index. At the newest revision the rest is
    /// only counted; at an older one each key must be resolved, since it may have been created later.
    fn collect(&self, range: &Range, recent: RecentKeys) -> Sql<Page> {
        let limit = if range.limit == 0 { usize::MAX } else { range.limit };
        let mut found = Vec::new();
        let mut more = 0;
        let mut rest = recent.clone();
        let mut merge = Merge { recent: recent.into_iter().peekable() };
        let mut statement = self.connection.prepare_cached(
            "SELECT key, revision, live FROM keys WHERE key >= ?1 AND (key < ?2 OR ?2 = '') ORDER BY key",
        )?;
        let mut rows = statement.query(params![&*range.start, &*range.end])?;
        let mut stored = next_stored(&mut rows)?;
        while let Some((key, head)) = merge.next(&mut stored, || next_stored(&mut rows))? {
            let Some(at) = self.resolve(head)? else { continue };
            if found.len() < limit {
                found.push((key, at));
            } else if self.revision == self.upto {
                rest.retain(|(recent, _)| *recent >= key);
                more = self.count(&key, &range.end, &rest)?;
                break;
            } else {
                more += 1;
            }
        }
        let count = found.len() as u64 + more;
        let items = found.into_iter().map(|(key, at)| self.load_or_damaged(key, at)).collect::<Sql<_>>()?;
        Ok(Page { revision: self.revision, items, count })
    }

    /// The number of live keys from `start` to `end` at the newest revision: the count of the table, corrected by the index.
    fn count(&self, start: &str, end: &str, recent: &[(Arc<str>, KeyHead)]) -> Sql<u64> {
        let query = "SELECT count(*) FROM keys WHERE key >= ?1 AND (key < ?2 OR ?2 = '') AND live";
        let stored: i64 = self.connection.prepare_cached(query)?.query_row([start, end], |row| row.get(0))?;
        let put_right: i64 =
            recent.iter().map(|(_, head)| i64::from(head.live) - i64::from(head.stored)).sum();
        Ok(u64::try_from(stored + put_right).unwrap_or(0))
    }

    /// The change that a key shows at this revision, if that put a value.
    ///
    /// Costs a row per change of the key since the wanted revision, without reading values.
    fn resolve(&self, head: KeyHead) -> Sql<Option<Revision>> {
        if head.revision <= self.revision {
            return Ok(head.live.then_some(head.revision));
        }
        let mut statement = self
            .connection
            .prepare_cached("SELECT previous, typeof(value) != 'null' FROM log WHERE revision = ?")?;
        let mut at = head.revision;
        loop {
            let link =
                statement.query_row([sql(at)], |row| Ok((revision(row.get(0)?), row.get::<_, bool>(1)?)));
            // A deletion before the begin of history is cleared away although a later change still names it.
            let Some((previous, live)) = link.optional()? else { return Ok(None) };
            if at <= self.revision {
                return Ok(live.then_some(at));
            }
            if previous == Revision::ZERO {
                return Ok(None);
            }
            at = previous;
        }
    }

    /// Reads the tail first: objects that are listed are often those that were just written.
    fn load(&self, key: Arc<str>, at: Revision) -> Sql<KeyValue> {
        let value = match self.shared.tail.value_at(at) {
            Some(value) => value,
            None => {
                let query = "SELECT value, checksum, origin FROM log WHERE revision = ?";
                let mut statement = self.connection.prepare_cached(query)?;
                let value = statement.query_row([sql(at)], |row| verified(row, at, &key, [0, 1, 2]))?;
                value.ok_or(rusqlite::Error::QueryReturnedNoRows)?
            }
        };
        Ok(KeyValue { key, value, revision: at })
    }

    /// One value that is damaged does not keep the others from being read.
    fn load_or_damaged(&self, key: Arc<str>, at: Revision) -> Sql<KeyValue> {
        match self.load(Arc::clone(&key), at) {
            Err(error) => match self.failed(&error) {
                Error::Corrupt(_) => Ok(KeyValue { key, value: Bytes::new(), revision: at }),
                _ => Err(error),
            },
            loaded => loaded,
        }
    }

    /// Some changes after this revision.
    pub(super) fn changes(&self) -> Result<Batch, Error> {
        self.read_changes().map_err(|error| self.failed(&error))
    }

    /// Reads changes with their previous values, up to a bound in bytes, so that a cursor far behind does not hold the
    /// whole log in memory.
    fn read_changes(&self) -> Sql<Batch> {
        let query = "SELECT l.revision, l.key, l.value, l.checksum, l.origin, p.revision, p.value, p.checksum, p.origin
                     FROM log l LEFT JOIN log p ON p.revision = l.previous
                     WHERE l.revision > ? AND l.revision <= ? ORDER BY l.revision";
        let mut statement = self.connection.prepare_cached(query)?;
        let mut rows = statement.query([sql(self.revision), sql(self.upto)])?;
        let (mut changes, mut bytes) = (Vec::new(), 0);
        while let Some(row) = rows.next()? {
            let change = read_change(row)?;
            bytes += change.key.len() + change.value.as_ref().map_or(0, Bytes::len);
            let upto = change.revision;
            changes.push(change);
            if bytes >= BACKLOG_BYTES {
                return Ok(Batch { changes: changes.into(), upto });
            }
        }
        Ok(Batch { changes: changes.into(), upto: self.upto })
    }
}

/// Reads a change with the value before it from one row, and verifies both.
fn read_change(row: &rusqlite::Row<'_>) -> Sql<Change> {
    // A deletion has no value: then the key did not exist before this change, though the chain continues.
    let (at, key) = (revision(row.get(0)?), row.get::<_, Arc<str>>(1)?);
    let value = verified(row, at, &key, [2, 3, 4])?;
    let previous = match row.get::<_, Option<i64>>(5)?.map(revision) {
        Some(at) => verified(row, at, &key, [6, 7, 8])?.map(|value| (at, value)),
        None => None,
    };
    Ok(Change { revision: at, key, value, previous })
}

/// Reads a value and holds it against its checksum, from the columns of value, checksum and origin.
fn verified(
    row: &rusqlite::Row<'_>,
    at: Revision,
    key: &str,
    [value, checksum, origin]: [usize; 3],
) -> Sql<Option<Bytes>> {
    let value = row.get_ref(value)?.as_blob_or_null()?;
    verify(at, key, value, row.get_ref(origin)?.as_str_or_null()?, row.get(checksum)?)?;
    Ok(value.map(Bytes::copy_from_slice))
}

/// The newest version of a key, as the file has it.
fn stored_head(row: &rusqlite::Row<'_>, column: usize) -> Sql<KeyHead> {
    let live = row.get(column + 1)?;
    Ok(KeyHead { revision: revision(row.get(column)?), live, stored: live })
}

type KeyEntry = Option<(Arc<str>, KeyHead)>;

/// The next row of a range.
fn next_stored(rows: &mut rusqlite::Rows<'_>) -> Sql<KeyEntry> {
    rows.next()?.map(|row| Ok((row.get(0)?, stored_head(row, 1)?))).transpose()
}

/// Two ordered streams made one; where both have a key, the recent head counts.
///
/// Neither side is read further than needed: a page with a limit stops in the middle of both.
struct Merge {
    recent: Peekable<std::vec::IntoIter<(Arc<str>, KeyHead)>>,
}

impl Merge {
    /// Returns the smaller key of both streams. `stored` is the lookahead of the table, which the caller keeps because
    /// rows borrow from their statement.
    fn next(&mut self, stored: &mut KeyEntry, mut advance: impl FnMut() -> Sql<KeyEntry>) -> Sql<KeyEntry> {
        let order = match (self.recent.peek(), stored.as_ref()) {
            (Some((recent, _)), Some((stored, _))) => recent.cmp(stored),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, _) => std::cmp::Ordering::Greater,
        };
        if order.is_eq() {
            *stored = advance()?;
        }
        if order.is_le() {
            return Ok(self.recent.next());
        }
        let next = stored.take();
        if next.is_some() {
            *stored = advance()?;
        }
        Ok(next)
    }
}
