//! Maintenance of a store that no server uses: check, back up, restore, compact. The command line is a thin layer over this.
//!
//! All of these block: they belong on a thread of their own. A backup works while a server uses the store; the others
//! need exclusive access.

mod inspect;

use std::fs;
use std::path::Path;

use listwatch_wire::Revision;
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};

use self::inspect::inspect;
use super::attachments;
use super::checksum::checksum;
use super::failure::{file, reading, writing};
use super::files::{Directory, companions, database_in, private, sync};
use super::recover::recover;
use super::schema::{ConnectionRole, connect, prepare, sql};
use crate::Error;

/// The files beside the store: certificates, signing keys, tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// They come along.
    Included,
    /// They do not: after a restore the server makes new ones, and old kubeconfigs and tokens fail.
    LeftOut,
}

/// The contents of a store in figures, as the commands of `listwatch db` print them.
///
/// Counted by reading the whole log, so making it takes as long as a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The newest revision.
    pub revision: Revision,
    /// The oldest readable revision.
    pub compacted: Revision,
    /// The number of keys.
    pub keys: u64,
    /// The number of changes in the log, including the newest of every key.
    pub changes: u64,
    /// The size of the main file.
    pub bytes: u64,
}

/// Checks everything in the store of a directory that no process uses: SQLite's own structures, and whether log, chains
/// and keys agree.
///
/// Reads every value once, to verify its checksum. Nothing is repaired: the administrator decides whether to restore a
/// backup.
///
/// # Errors
/// [`Error::Corrupt`] with what is wrong, [`Error::Unavailable`] if the store cannot be read or is in use.
pub fn check(directory: &Path) -> Result<Report, Error> {
    must_exist(directory)?;
    let directory = Directory::take(directory)?;
    let mut connection = connect(&directory.database()?, ConnectionRole::Writer)?;
    prepare(&mut connection)?;
    inspect(&connection)
}

/// Copies the store of a directory to a new file, while a server may be writing to it. The copy is consistent, has no
/// unused pages, and is durable when this returns.
///
/// With [`Keys::Included`], the other files of the directory come along: the CA, signing keys and tokens without which old
/// kubeconfigs do not work after a restore. Such a backup is as secret as the directory.
///
/// The server continues to write during the copy. The copy is checked like a store before this returns, and removed if
/// it fails.
///
/// ```
/// use listwatch_storage::embedded::offline::{Keys, backup, check, restore};
/// use listwatch_storage::{EmbeddedEngine, EmbeddedOptions, Engine, Expect, Write};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let folder = tempfile::tempdir()?;
/// let (data, copy, again) =
///     (folder.path().join("data"), folder.path().join("backup"), folder.path().join("again"));
/// let engine = EmbeddedEngine::open(&data, EmbeddedOptions::default()).await?;
/// let write = Write { key: "/a".into(), value: Some("1".into()), expect: Expect::Any, origin: None };
/// engine.write(write).await?;
/// let saved = backup(&data, &copy, Keys::LeftOut)?;
/// engine.close().await?;
///
/// restore(&copy, &again, None)?;
/// assert!(check(&again)?.revision > saved.revision, "no revision is used twice");
/// let engine = EmbeddedEngine::open(&again, EmbeddedOptions::default()).await?;
/// assert!(engine.get("/a", None).await?.is_some());
/// # engine.close().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::Unavailable`] if there is no store, the file exists, or a disk fails.
pub fn backup(directory: &Path, into: &Path, keys: Keys) -> Result<Report, Error> {
    must_exist(directory)?;
    if into.exists() {
        return Err(Error::Unavailable(format!("{} exists already", into.display())));
    }
    private(into)?;
    let copied = copy(directory, into, keys);
    if copied.is_err() {
        let _ = fs::remove_file(into);
    }
    copied
}

/// Restores a backup into a directory, after checking the backup. The directory must have none. Files in the backup are
/// written beside it.
///
/// The revision of the new store is far beyond that of the backup, and its history is empty: revisions that clients saw
/// after the backup was made must never name another state, so that every watch from before the restore ends with 410 and
/// its client lists again.
///
/// With a revision, the store is restored as of that revision: a backup contains the history, so that a mistake from before the
/// backup can be undone.
///
/// ```
/// use listwatch_storage::embedded::offline::{Keys, backup, restore};
/// use listwatch_storage::{EmbeddedEngine, EmbeddedOptions, Engine, Expect, Write, Written};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let (data, copy, again) = (folder.path().join("data"), folder.path().join("backup"), folder.path().join("again"));
/// let engine = EmbeddedEngine::open(&data, EmbeddedOptions::default()).await?;
/// let write = |value| Write { key: "/a".into(), value, expect: Expect::Any, origin: None };
/// let Written::Done { revision: good } = engine.write(write(Some("1".into()))).await? else { unreachable!() };
/// engine.write(write(None)).await?; // the mistake
/// backup(&data, &copy, Keys::LeftOut)?;
/// engine.close().await?;
///
/// restore(&copy, &again, Some(good))?;
/// let engine = EmbeddedEngine::open(&again, EmbeddedOptions::default()).await?;
/// assert!(engine.get("/a", None).await?.is_some());
/// # engine.close().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::Corrupt`] if the backup is damaged, [`Error::Invalid`] if its history does not reach back to the revision,
/// [`Error::Unavailable`] if the directory has a store or cannot be used.
pub fn restore(from: &Path, directory: &Path, at: Option<Revision>) -> Result<Report, Error> {
    must_have(at, &check_backup(from)?)?;
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
    let report = start_after_restore(&staged, at)?;
    attachments::extract(&staged, directory)?;
    sync(&staged)?;
    for companion in companions(&target) {
        let _ = fs::remove_file(companion);
    }
    fs::rename(&staged, &target).map_err(|error| file("move to", &target, &error))?;
    sync(directory)?;
    Ok(report)
}

/// Drops all history of the store in a directory and frees the disk space.
///
/// A running server does not need it: it removes expired history and reuses the space inside of the file. This makes
/// the file smaller.
///
/// # Errors
/// As [`check`]; [`Error::ReadOnly`] if the disk has no room for a second copy of the remaining data.
pub fn compact(directory: &Path) -> Result<Report, Error> {
    must_exist(directory)?;
    let directory = Directory::take(directory)?;
    let mut connection = connect(&directory.database()?, ConnectionRole::Writer)?;
    prepare(&mut connection)?;
    inspect(&connection)?;
    super::upkeep::forget_all(&mut connection).map_err(|error| writing(&error))?;
    connection.execute_batch("VACUUM").map_err(|error| writing(&error))?;
    super::checkpoint::finish(&connection).map_err(|error| writing(&error))?;
    inspect(&connection)
}

/// Refuses a revision that the backup does not hold.
fn must_have(at: Option<Revision>, backup: &Report) -> Result<(), Error> {
    match at {
        Some(at) if at < backup.compacted || at > backup.revision => Err(Error::Invalid(format!(
            "the backup has history from revision {} to {}, not of {at}",
            backup.compacted, backup.revision
        ))),
        _ => Ok(()),
    }
}

/// Advances a restored store beyond every revision that clients may have seen, by writing a dedicated key.
fn start_after_restore(database: &Path, at: Option<Revision>) -> Result<Report, Error> {
    let mut connection = connect(database, ConnectionRole::Writer)?;
    prepare(&mut connection)?;
    let newest = recover(&connection)?.index.upto;
    if let Some(at) = at {
        rewind(&mut connection, at).map_err(|error| writing(&error))?;
    }
    super::upkeep::forget_all(&mut connection).map_err(|error| writing(&error))?;
    move_revision(&mut connection, newest).map_err(|error| writing(&error))?;
    super::checkpoint::finish(&connection).map_err(|error| writing(&error))?;
    inspect(&connection)
}

/// Reverts every change after a revision. The log has the newest change of every key up to there: sweeping removes only what
/// was replaced before history begins.
fn rewind(connection: &mut Connection, to: Revision) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    transaction.execute("DELETE FROM log WHERE revision > ?", [sql(to)])?;
    transaction.execute("DELETE FROM keys", [])?;
    transaction.execute(
        "INSERT INTO keys SELECT key, max(revision), typeof(value) != 'null' FROM log GROUP BY key",
        [],
    )?;
    transaction.execute("UPDATE state SET indexed = ?, epoch = epoch + 1", [sql(to)])?;
    transaction.execute("DELETE FROM marks WHERE revision > ?", [sql(to)])?;
    transaction.commit()
}

/// Writes a marker at a revision far beyond the newest one. Watches and informers then see that history restarted,
/// instead of taking new changes for ones they have seen.
fn move_revision(connection: &mut Connection, newest: Revision) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    let at = Revision(newest.0 + RESTORE_LEAP);
    let value: &[u8] = b"{}";
    let previous: Option<i64> = transaction
        .query_row("SELECT revision FROM keys WHERE key = ?", [RESTORED], |row| row.get(0))
        .optional()?;
    transaction.execute(
        "INSERT INTO log (revision, key, previous, value, checksum) VALUES (?, ?, ?, ?, ?)",
        params![sql(at), RESTORED, previous.unwrap_or(0), value, checksum(at, RESTORED, Some(value), None)],
    )?;
    transaction.execute("INSERT OR REPLACE INTO keys VALUES (?, ?, 1)", params![RESTORED, sql(at)])?;
    transaction.execute("DELETE FROM log WHERE revision = ?", [previous.unwrap_or(0)])?;
    transaction
        .execute("UPDATE state SET compacted = ?1, swept = ?1, indexed = ?1, epoch = epoch + 1", [sql(at)])?;
    transaction.execute("DELETE FROM marks", [])?;
    transaction.commit()
}

/// A mistyped directory must not become an empty store.
fn must_exist(directory: &Path) -> Result<(), Error> {
    let path = database_in(directory);
    if path.is_file() {
        Ok(())
    } else {
        Err(Error::Unavailable(format!("there is no store at {}", path.display())))
    }
}

/// Writes a consistent copy by `VACUUM INTO`, also of a store in use, and checks it. The file and its directory are
/// synced: a backup that a power loss can take away is none.
fn copy(directory: &Path, into: &Path, keys: Keys) -> Result<Report, Error> {
    let connection = connect(&database_in(directory), ConnectionRole::Helper)?;
    let name = into.to_str().ok_or_else(|| Error::Invalid("the file name is not UTF-8".to_owned()))?;
    connection.execute("VACUUM INTO ?", [name]).map_err(|error| writing(&error))?;
    if keys == Keys::Included {
        attachments::attach(directory, into)?;
    }
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

/// Distance between the revision of a backup and that of the store restored from it. More writes than that do not happen
/// between a backup and the loss of the store; etcd recommends the same number.
const RESTORE_LEAP: u64 = 1_000_000_000;

/// The key whose change carries the new revision. It is outside of the prefixes of resources.
const RESTORED: &str = "/listwatch/restored";
