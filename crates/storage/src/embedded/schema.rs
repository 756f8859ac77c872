//! The database: its tables, its settings, and how they are checked when it is opened.
//!
//! `log` holds every change and every value exactly once, in the order of revisions, and is authoritative. `keys` has
//! for every key the position of its newest change in the log, up to revision `state.indexed`; newer changes are found
//! by reading the log from there on. So a write appends to one table only, and the table of keys is brought up to date
//! in bulk.
//!
//! Revisions are the rowids of `log`, so an append goes to the end of one B-tree. Changes of a key are linked by
//! `previous` from new to old. `epoch` lets a reader notice that tables and index do not belong together (see
//! `reader`).

use std::path::Path;

use listwatch_wire::Revision;
use rusqlite::{Connection, OpenFlags};

use super::failure::reading;
use crate::Error;

/// `lwst`: identifies the files of this engine.
const APPLICATION: i32 = 0x6c77_7374;

/// The version of the layout below.
const FORMAT: i32 = 3;

/// The layouts before, and the columns of the log that they lack. A store of one of them is brought up to date when it is
/// opened for writing.
const OLDER_FORMATS: [(i32, &[&str]); 2] = [(1, &["checksum INTEGER", "origin TEXT"]), (2, &["origin TEXT"])];

/// Objects of one to two KiB waste less of a page of this size than of SQLite's usual 4 KiB.
const PAGE: u32 = 8192;

/// The longest wait of a connection for another one that holds a lock, which takes moments only.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

const TABLES: &str = "
CREATE TABLE log (
    revision INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    previous INTEGER NOT NULL, -- the revision of the change of this key before, be it a deletion; 0 if none
    value BLOB,                -- NULL if deleted
    checksum INTEGER,          -- of revision, key, value and origin; NULL in rows that format 1 wrote
    origin TEXT                -- who made the change and when; NULL if the writer did not say, and in older rows
);
CREATE TABLE keys (
    key TEXT PRIMARY KEY,
    revision INTEGER NOT NULL, -- the newest change of the key, up to state.indexed at least
    live INTEGER NOT NULL      -- whether that change put a value
) WITHOUT ROWID;
CREATE TABLE marks (
    revision INTEGER PRIMARY KEY,
    uptime INTEGER NOT NULL,   -- how many milliseconds the store had been open in all when it was at this revision
    bytes INTEGER NOT NULL     -- how many bytes had been written in all
);
CREATE TABLE state (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    compacted INTEGER NOT NULL, -- where readable history begins
    swept INTEGER NOT NULL,     -- up to where the log has been cleared of what is before `compacted`
    indexed INTEGER NOT NULL,   -- up to where `keys` is complete
    epoch INTEGER NOT NULL      -- changes whenever anything but the end of the log does
);
INSERT INTO state VALUES (1, 0, 0, 0, 0);
";

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionRole {
    /// The only one that writes. May create the tables.
    Writer,
    /// Reads; refuses to write.
    Reader,
    /// Works on files as a whole: moves the write-ahead log to its place, copies.
    Helper,
}

/// Opens a connection. The file must exist.
///
/// # Errors
///
/// [`Error::Corrupt`] for a file that is not a database, [`Error::Unavailable`] for one that cannot be opened.
pub(super) fn connect(path: &Path, role: ConnectionRole) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(|error| reading(&error))?;
    configure(&connection, role).map_err(|error| reading(&error))?;
    Ok(connection)
}

/// Sets the pragmas of a connection. `synchronous = FULL` is what makes an acknowledged write durable; everything else
/// is about cost.
fn configure(connection: &Connection, role: ConnectionRole) -> rusqlite::Result<()> {
    connection.busy_timeout(PATIENCE)?;
    // The writer rereads few pages: keys in bulk, and the end of the log.
    let cache_kib = if role == ConnectionRole::Writer { 4096 } else { 1024 };
    connection.execute_batch(&format!("PRAGMA cache_size = -{cache_kib}; PRAGMA temp_store = MEMORY;"))?;
    if role == ConnectionRole::Writer {
        connection.execute_batch(&format!("PRAGMA page_size = {PAGE};"))?;
        connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    }
    if role == ConnectionRole::Reader {
        connection.execute_batch("PRAGMA query_only = 1;")?;
    }
    // The checkpointer does what SQLite otherwise does at the end of some unlucky commit. `fullfsync` matters on macOS
    // alone, where a plain fsync leaves the data in the drive's cache.
    connection
        .execute_batch("PRAGMA synchronous = FULL; PRAGMA fullfsync = 1; PRAGMA checkpoint_fullfsync = 1;")?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "journal_size_limit", 64 << 20)
}

/// Creates the tables of a new database, or checks that an existing one is ours.
///
/// The application id is checked before anything is written: a path that names another program's database must not
/// lose it.
///
/// # Errors
///
/// [`Error::Corrupt`] for a foreign file and for a format that is newer than this program.
pub(super) fn prepare(connection: &mut Connection) -> Result<(), Error> {
    let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    let application = number("application_id").map_err(|error| reading(&error))?;
    let format = number("user_version").map_err(|error| reading(&error))?;
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(|error| reading(&error))?;
    match (application, format, tables) {
        (0, 0, 0) => create(connection).map_err(|error| super::failure::writing(&error)),
        (APPLICATION, FORMAT, _) => Ok(()),
        (APPLICATION, other, _) => match OLDER_FORMATS.iter().find(|(older, _)| *older == other) {
            Some((_, missing)) => {
                upgrade(connection, missing).map_err(|error| super::failure::writing(&error))
            }
            None => Err(Error::Corrupt(format!(
                "the store has format {other}, this program knows format {FORMAT}: use the program that wrote it"
            ))),
        },
        _ => Err(Error::Corrupt("the file is a database of another program".to_owned())),
    }
}

/// All in one transaction: a crash leaves either an empty file, which is taken for new, or everything.
fn create(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    transaction.execute_batch(TABLES)?;
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", FORMAT)?;
    transaction.commit()
}

/// Adds columns to the log. No row is written for it: in those that are there, the columns are NULL.
fn upgrade(connection: &mut Connection, columns: &[&str]) -> rusqlite::Result<()> {
    if connection.is_readonly("main")? {
        return Ok(());
    }
    let transaction = connection.transaction()?;
    for column in columns {
        transaction.execute_batch(&format!("ALTER TABLE log ADD COLUMN {column}"))?;
    }
    transaction.pragma_update(None, "user_version", FORMAT)?;
    transaction.commit()
}

/// Returns true if the log has a column, which a backup of an older format may lack.
pub(super) fn has_column(connection: &Connection, name: &str) -> rusqlite::Result<bool> {
    let query = "SELECT count(*) FROM pragma_table_info('log') WHERE name = ?";
    connection.query_row(query, [name], |row| row.get(0))
}

/// SQLite's integers have a sign; revisions never come near it.
pub(super) fn sql(revision: Revision) -> i64 {
    i64::try_from(revision.0).unwrap_or(i64::MAX)
}

/// A revision as read from the database.
pub(super) fn revision(number: i64) -> Revision {
    Revision(u64::try_from(number).unwrap_or(0))
}
