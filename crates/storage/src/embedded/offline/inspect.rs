//! The check of a whole store: SQLite's pages, the references between log and keys, checksums, and gaps in the log.
//!
//! Reads everything once and changes nothing. [`super`] opens the store, or the backup, that is checked.

use listwatch_wire::Revision;
use rusqlite::Connection;

use super::Report;
use crate::Error;
use crate::embedded::checksum::verify;
use crate::embedded::failure::reading;
use crate::embedded::recover::recover;
use crate::embedded::schema::{has_column, revision, sql};

/// Damaged changes that a check names; it counts the others.
const MAX_LISTED: usize = 20;

/// Queries that find something only in a damaged store, with what that means.
const MUST_BE_EMPTY: [(&str, &str); 5] = [
    (
        "SELECT k.key FROM keys k JOIN log l ON l.revision = k.revision
         WHERE k.live != (l.value IS NOT NULL) OR l.key != k.key",
        "a key that says something else than its change",
    ),
    (
        "SELECT key FROM keys k WHERE revision <= (SELECT indexed FROM state) AND live AND NOT EXISTS
         (SELECT 1 FROM log l WHERE l.revision = k.revision AND l.key = k.key AND l.value IS NOT NULL)
         AND NOT EXISTS (SELECT 1 FROM log l WHERE l.revision > (SELECT indexed FROM state) AND l.key = k.key)",
        "a key without its value",
    ),
    (
        "SELECT l.key FROM log l LEFT JOIN log p ON p.revision = l.previous WHERE l.previous > 0
         AND l.revision > (SELECT compacted FROM state)
         AND (p.key IS NOT l.key) AND (p.key IS NOT NULL OR l.previous >= (SELECT compacted FROM state))",
        "a change whose predecessor is missing or of another key",
    ),
    ("SELECT key FROM log WHERE previous >= revision", "a change before its predecessor"),
    (
        "SELECT l.key FROM log l LEFT JOIN keys k ON k.key = l.key WHERE l.revision <= (SELECT indexed FROM state)
         AND l.value IS NOT NULL AND (k.revision IS NULL OR k.revision < l.revision)",
        "a value that its key does not know",
    ),
];

/// Checks everything that must hold: SQLite's own pages, the references between log and keys, the checksum of each
/// value, and that no revision is missing.
pub(super) fn inspect(connection: &Connection) -> Result<Report, Error> {
    let verdict: String = connection
        .query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
        .map_err(|error| reading(&error))?;
    if verdict != "ok" {
        return Err(Error::Corrupt(verdict));
    }
    let recovered = recover(connection)?;
    for (query, meaning) in MUST_BE_EMPTY {
        let mut statement = connection.prepare(query).map_err(|error| reading(&error))?;
        let mut rows = statement.query([]).map_err(|error| reading(&error))?;
        if let Some(row) = rows.next().map_err(|error| reading(&error))? {
            let key: String = row.get(0).map_err(|error| reading(&error))?;
            return Err(Error::Corrupt(format!("{meaning}: {key}")));
        }
    }
    verify_values(connection)?;
    gapless(connection, recovered.index.compacted, recovered.index.upto)?;
    report(connection, recovered.index.upto, recovered.index.compacted).map_err(|error| reading(&error))
}

/// Reads every value and verifies its checksum. Lists the damaged keys, so that the extent of the loss is visible.
fn verify_values(connection: &Connection) -> Result<(), Error> {
    let has = |column| has_column(connection, column).map_err(|error| reading(&error));
    if !has("checksum")? {
        return Ok(());
    }
    // A backup of an older format is checked as it is.
    let origin = if has("origin")? { "origin" } else { "NULL" };
    let query =
        format!("SELECT revision, key, value, checksum, {origin} FROM log WHERE checksum IS NOT NULL");
    let mut statement = connection.prepare(&query).map_err(|error| reading(&error))?;
    let mut rows = statement.query([]).map_err(|error| reading(&error))?;
    let (mut damaged, mut count) = (Vec::new(), 0_u64);
    while let Some(row) = rows.next().map_err(|error| reading(&error))? {
        let found = verify_row(row);
        if let Err(error) = found {
            count += 1;
            if damaged.len() < MAX_LISTED {
                damaged.push(reading(&error).to_string());
            }
        }
    }
    if count == 0 {
        return Ok(());
    }
    Err(Error::Corrupt(format!("{count} damaged changes: {}", damaged.join("; "))))
}

/// Compares the checksum of a change with its bytes.
fn verify_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<()> {
    let (key, value) = (row.get_ref(1)?.as_str()?, row.get_ref(2)?.as_blob_or_null()?);
    let origin = row.get_ref(4)?.as_str_or_null()?;
    verify(revision(row.get(0)?), key, value, origin, row.get(3)?)
}

/// Checks that every revision after the compacted one has a change: the log is the history, and a gap is a lost write.
fn gapless(connection: &Connection, compacted: Revision, upto: Revision) -> Result<(), Error> {
    let query = "SELECT count(*) FROM log WHERE revision > ?";
    let found: i64 =
        connection.query_row(query, [sql(compacted)], |row| row.get(0)).map_err(|error| reading(&error))?;
    let expected = upto.0 - compacted.0;
    if u64::try_from(found) == Ok(expected) {
        return Ok(());
    }
    Err(Error::Corrupt(format!(
        "the log has {found} changes after {compacted} where it must have {expected}"
    )))
}

/// Counts keys, changes and bytes. Keys are counted by their newest change, since the table of keys may be behind the
/// log.
fn report(connection: &Connection, revision: Revision, compacted: Revision) -> rusqlite::Result<Report> {
    let number = |query: &str| {
        connection
            .query_row(query, [], |row| row.get::<_, i64>(0))
            .map(|number| u64::try_from(number).unwrap_or(0))
    };
    // The log rather than the table of keys, which may be behind: a key's newest change is one that no other names.
    let keys =
        "SELECT count(*) FROM log l WHERE value IS NOT NULL AND revision = (SELECT max(m.revision) FROM
                (SELECT revision FROM keys WHERE key = l.key UNION ALL
                 SELECT revision FROM recent WHERE key = l.key) m)";
    let recent = "CREATE TEMP TABLE IF NOT EXISTS recent AS SELECT key, max(revision) AS revision FROM log
                  WHERE revision > (SELECT indexed FROM state) GROUP BY key;
                  CREATE INDEX IF NOT EXISTS temp.recent_key ON recent (key);";
    connection.execute_batch(recent)?;
    let keys = number(keys)?;
    connection.execute_batch("DROP TABLE temp.recent")?;
    Ok(Report {
        revision,
        compacted,
        keys,
        changes: number("SELECT count(*) FROM log")?,
        bytes: number("PRAGMA page_count")? * number("PRAGMA page_size")?,
    })
}
