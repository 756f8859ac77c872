//! Recovery at start: reads the state at the last commit and checks that it is consistent.
//!
//! SQLite restores a prefix of the committed transactions by itself. Recovery then replays only the changes that are
//! newer than the table of keys (at most `unindexed_changes`), so a start takes the same time at any size of the
//! store, and reads no values. A gap in the log or a bound beyond its end cannot come from a crash; it is reported as
//! [`Error::Corrupt`] instead of being repaired by guesswork. The schema is in `schema`, the copy in memory in `index`.

use std::collections::VecDeque;

use listwatch_wire::Revision;
use rusqlite::{Connection, OptionalExtension};

use super::failure::reading;
use super::index::{KeyHead, StoreIndex};
use super::retention::RetentionMark;
use super::schema::{revision, sql};
use crate::Error;

/// The state of a store at its last commit.
///
/// Passed to the writer, which keeps the index published and the rest for upkeep.
#[derive(Debug)]
pub(super) struct Recovered {
    pub(super) index: StoreIndex,
    pub(super) swept: Revision,
    pub(super) indexed: Revision,
    pub(super) marks: VecDeque<RetentionMark>,
    /// The bytes written since the last mark.
    pub(super) unmarked: u64,
}

/// Reads the state, and the changes that are newer than the table of keys: never all keys, never a value.
///
/// # Errors
///
/// [`Error::Corrupt`] if bounds or revisions contradict each other, [`Error::Unavailable`] if the file cannot be
/// read.
pub(super) fn recover(connection: &Connection) -> Result<Recovered, Error> {
    let mut recovered = read_state(connection).map_err(|error| reading(&error))?;
    check_bounds(&recovered)?;
    replay(connection, &mut recovered)?;
    recovered.marks = read_marks(connection).map_err(|error| reading(&error))?;
    let marked = recovered.marks.back().map_or(Revision::ZERO, |mark| mark.revision);
    recovered.unmarked = bytes_after(connection, marked).map_err(|error| reading(&error))?;
    Ok(recovered)
}

/// The state that the last process left behind: the newest revision, the beginning of history, and how far the index reaches.
fn read_state(connection: &Connection) -> rusqlite::Result<Recovered> {
    let newest: Option<i64> = connection.query_row("SELECT max(revision) FROM log", [], |row| row.get(0))?;
    connection.query_row("SELECT compacted, swept, indexed, epoch FROM state", [], |row| {
        let index = StoreIndex::new(revision(newest.unwrap_or(0)), revision(row.get(0)?), row.get(3)?);
        let (swept, indexed) = (revision(row.get(1)?), revision(row.get(2)?));
        Ok(Recovered { index, swept, indexed, marks: VecDeque::new(), unmarked: 0 })
    })
}

/// A crash keeps a prefix of the transactions, each whole; in every such prefix these hold.
fn check_bounds(recovered: &Recovered) -> Result<(), Error> {
    let StoreIndex { upto, compacted, .. } = recovered.index;
    let (swept, indexed) = (recovered.swept, recovered.indexed);
    if compacted > upto || swept > compacted || indexed > upto {
        return Err(Error::Corrupt(format!(
            "the log ends at {upto}, before what is said of it (compacted {compacted}, swept {swept}, indexed {indexed}): \
             restore a backup"
        )));
    }
    Ok(())
}

/// Rebuilds the index from the changes that the table of keys does not have yet. A missing revision after the last
/// swept one means a damaged file, and the store is not opened.
fn replay(connection: &Connection, recovered: &mut Recovered) -> Result<(), Error> {
    let gapless_after = recovered.swept.max(recovered.indexed);
    let mut expected = gapless_after.next();
    let query = "SELECT revision, key, typeof(value) != 'null' FROM log WHERE revision > ? ORDER BY revision";
    let mut statement = connection.prepare(query).map_err(|error| reading(&error))?;
    let mut rows = statement.query([sql(recovered.indexed)]).map_err(|error| reading(&error))?;
    while let Some(row) = rows.next().map_err(|error| reading(&error))? {
        let (at, key, live) = read_change(row).map_err(|error| reading(&error))?;
        if at > gapless_after && at != expected {
            return Err(Error::Corrupt(format!("the log has no change {expected}: restore a backup")));
        }
        expected = at.next();
        let stored = match recovered.index.get(&key) {
            Some((_, head)) => head.stored,
            None => is_stored(connection, &key).map_err(|error| reading(&error))?,
        };
        recovered.index.insert(key, KeyHead { revision: at, live, stored });
    }
    Ok(())
}

fn read_change(row: &rusqlite::Row<'_>) -> rusqlite::Result<(Revision, std::sync::Arc<str>, bool)> {
    Ok((revision(row.get(0)?), row.get(1)?, row.get(2)?))
}

fn is_stored(connection: &Connection, key: &str) -> rusqlite::Result<bool> {
    let mut statement = connection.prepare_cached("SELECT live FROM keys WHERE key = ?")?;
    Ok(statement.query_row([key], |row| row.get(0)).optional()?.unwrap_or(false))
}

/// Times and sizes at some revisions, by which retention decides.
fn read_marks(connection: &Connection) -> rusqlite::Result<VecDeque<RetentionMark>> {
    let mut statement = connection.prepare("SELECT revision, uptime, bytes FROM marks ORDER BY revision")?;
    let mark = |row: &rusqlite::Row<'_>| {
        let number = |column| row.get::<_, i64>(column).map(|number| u64::try_from(number).unwrap_or(0));
        Ok(RetentionMark { revision: Revision(number(0)?), uptime_ms: number(1)?, bytes: number(2)? })
    };
    statement.query_map([], mark)?.collect()
}

/// `length` looks at the head of a row only, not at the pages of its value.
fn bytes_after(connection: &Connection, after: Revision) -> rusqlite::Result<u64> {
    let query =
        "SELECT coalesce(sum(length(key) + coalesce(length(value), 0)), 0) FROM log WHERE revision > ?";
    let sum: i64 = connection.query_row(query, [sql(after)], |row| row.get(0))?;
    Ok(u64::try_from(sum).unwrap_or(0))
}
