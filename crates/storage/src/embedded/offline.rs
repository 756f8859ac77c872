//! What a person does with a store: check, back up, restore, compact. The command line is a thin layer over this.
//!
//! All of these block: they belong on a thread of their own. Backing up works while a server has the store; the others
//! need it for themselves.

use std::fs;
use std::path::Path;

use listwatch_wire::Revision;
use rusqlite::{Connection, OpenFlags};

use super::failure::{file, reading, writing};
use super::files::{Directory, companions, database_in, private, sync};
use super::recover::recover;
use super::schema::{Role, connect, prepare};
use crate::Error;

/// What a store holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The newest revision.
    pub revision: Revision,
    /// Where readable history begins.
    pub compacted: Revision,
    /// How many keys there are.
    pub keys: u64,
    /// How many changes the log has, including the newest of every key.
    pub changes: u64,
    /// How large the main file is.
    pub bytes: u64,
}

/// Looks at everything in the store of a directory that no process uses: SQLite's own structures, and whether log, chains
/// and keys agree.
///
/// # Errors
/// [`Error::Corrupt`] with what is wrong, [`Error::Unavailable`] if the store cannot be read or is in use.
pub fn check(directory: &Path) -> Result<Report, Error> {
    must_exist(directory)?;
    let directory = Directory::take(directory)?;
    let mut connection = connect(&directory.database()?, Role::Writer)?;
    prepare(&mut connection)?;
    inspect(&connection)
}

/// Copies the store of a directory to a new file, while a server may be writing to it. The copy shows one moment; it holds
/// no more than it must and is durable when this returns.
///
/// # Errors
/// [`Error::Unavailable`] if there is no store, the file exists, or a disk does not do its part.
pub fn backup(directory: &Path, into: &Path) -> Result<Report, Error> {
    must_exist(directory)?;
    if into.exists() {
        return Err(Error::Unavailable(format!("{} exists already", into.display())));
    }
    private(into)?;
    let copied = copy(&database_in(directory), into);
    if copied.is_err() {
        let _ = fs::remove_file(into);
    }
    copied
}

/// Makes the store of a directory what a backup says, after checking the backup. The directory must have none.
///
/// # Errors
/// [`Error::Corrupt`] if the backup is damaged, [`Error::Unavailable`] if the directory has a store or cannot be used.
pub fn restore(from: &Path, directory: &Path) -> Result<Report, Error> {
    let report = check_backup(from)?;
    let target = database_in(directory);
    if target.exists() {
        return Err(Error::Unavailable(format!(
            "{} has a store already: move it away first",
            directory.display()
        )));
    }
    let _taken = Directory::take(directory)?;
    // Under another name first, so that a crash leaves no half of a store where the server would look for one.
    let staged = target.with_extension("restoring");
    let _ = fs::remove_file(&staged);
    private(&staged)?;
    fs::copy(from, &staged).map_err(|error| file("copy to", &staged, &error))?;
    private(&staged)?;
    sync(&staged)?;
    for companion in companions(&target) {
        let _ = fs::remove_file(companion);
    }
    fs::rename(&staged, &target).map_err(|error| file("move to", &target, &error))?;
    sync(directory)?;
    Ok(report)
}

/// Drops all history of the store of a directory and gives the space back to the disk.
///
/// # Errors
/// As [`check`]; [`Error::ReadOnly`] if the disk has no room for a second copy of what remains.
pub fn compact(directory: &Path) -> Result<Report, Error> {
    must_exist(directory)?;
    let directory = Directory::take(directory)?;
    let mut connection = connect(&directory.database()?, Role::Writer)?;
    prepare(&mut connection)?;
    inspect(&connection)?;
    super::upkeep::forget_all(&mut connection).map_err(|error| writing(&error))?;
    connection.execute_batch("VACUUM").map_err(|error| writing(&error))?;
    super::checkpoint::finish(&connection).map_err(|error| writing(&error))?;
    inspect(&connection)
}

fn must_exist(directory: &Path) -> Result<(), Error> {
    let path = database_in(directory);
    if path.is_file() {
        Ok(())
    } else {
        Err(Error::Unavailable(format!("there is no store at {}", path.display())))
    }
}

fn copy(from: &Path, into: &Path) -> Result<Report, Error> {
    let connection = connect(from, Role::Helper)?;
    let name = into.to_str().ok_or_else(|| Error::Invalid("the file name is not UTF-8".to_owned()))?;
    connection.execute("VACUUM INTO ?", [name]).map_err(|error| writing(&error))?;
    private(into)?;
    sync(into)?;
    if let Some(parent) = into.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        sync(parent)?;
    }
    check_backup(into)
}

/// Checks a file without changing it or leaving anything beside it.
fn check_backup(path: &Path) -> Result<Report, Error> {
    let connection =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX);
    let mut connection = connection.map_err(|error| reading(&error))?;
    let empty = fs::metadata(path).map_err(|error| file("look at", path, &error))?.len() == 0;
    if empty {
        return Err(Error::Corrupt(format!("{} is empty", path.display())));
    }
    prepare(&mut connection)?;
    inspect(&connection)
}

/// Queries that find something only in a damaged store, with what that means.
const MUST_BE_EMPTY: [(&str, &str); 4] = [
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

fn inspect(connection: &Connection) -> Result<Report, Error> {
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
    gapless(connection, recovered.index.compacted, recovered.index.upto)?;
    report(connection, recovered.index.upto, recovered.index.compacted).map_err(|error| reading(&error))
}

fn gapless(connection: &Connection, compacted: Revision, upto: Revision) -> Result<(), Error> {
    let query = "SELECT count(*) FROM log WHERE revision > ?";
    let found: i64 = connection
        .query_row(query, [super::schema::sql(compacted)], |row| row.get(0))
        .map_err(|error| reading(&error))?;
    let expected = upto.0 - compacted.0;
    if u64::try_from(found) == Ok(expected) {
        return Ok(());
    }
    Err(Error::Corrupt(format!(
        "the log has {found} changes after {compacted} where it must have {expected}"
    )))
}

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
