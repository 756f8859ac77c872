//! The files beside the store inside a backup: certificates, signing keys, tokens.
//!
//! They are rows of a table that only backups have. A restore writes them back, private, and never over a file with
//! another content.

use std::fs;
use std::io::Write;
use std::path::{Component, Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, params};

use super::failure::{file, reading, writing};
use super::files::{companions, database_in, private, sync};
use super::schema::{ConnectionRole, connect};
use crate::Error;

/// Files are keys and certificates; larger files do not belong to the store.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// A bound on a directory that is not what it should be.
const MAX_FILES: usize = 1000;
/// Directories below the data directory that are looked into.
const MAX_DEPTH: usize = 3;

const TABLE: &str = "CREATE TABLE files (path TEXT PRIMARY KEY, content BLOB NOT NULL) WITHOUT ROWID";

/// Adds the files of a directory to a backup of its store.
///
/// # Errors
///
/// [`Error::Unavailable`] for a file that is too large or one too many, as well as for files that cannot be read.
pub(super) fn attach(directory: &Path, backup: &Path) -> Result<(), Error> {
    let mut found = Vec::new();
    collect(directory, directory, 0, &mut found)?;
    let mut connection = connect(backup, ConnectionRole::Helper)?;
    insert(&mut connection, &found).map_err(|error| writing(&error))
}

/// All files in one transaction.
fn insert(connection: &mut Connection, files: &[(String, Vec<u8>)]) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    transaction.execute_batch(TABLE)?;
    for (path, content) in files {
        transaction.execute("INSERT INTO files VALUES (?, ?)", params![path, content])?;
    }
    transaction.commit()
}

/// Collects the files beside the store, recursively. Depth, number and size are bounded, because a data directory may
/// hold anything; what is not a key file is an error rather than a silent part of the backup.
fn collect(
    root: &Path,
    directory: &Path,
    depth: usize,
    found: &mut Vec<(String, Vec<u8>)>,
) -> Result<(), Error> {
    let entries = fs::read_dir(directory).map_err(|error| file("read", directory, &error))?;
    for entry in entries {
        let path = entry.map_err(|error| file("read", directory, &error))?.path();
        let metadata = fs::symlink_metadata(&path).map_err(|error| file("look at", &path, &error))?;
        if metadata.is_dir() && depth < MAX_DEPTH {
            collect(root, &path, depth + 1, found)?;
        } else if metadata.is_file() && !is_of_the_store(root, &path) {
            if metadata.len() > MAX_FILE_BYTES || found.len() >= MAX_FILES {
                return Err(Error::Unavailable(format!(
                    "{} is no key file: move it out of the data directory, or back up without keys",
                    path.display()
                )));
            }
            let content = fs::read(&path).map_err(|error| file("read", &path, &error))?;
            let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
            found.push((name, content));
        }
    }
    Ok(())
}

/// The database, its companions, its lock and its reserve share a stem.
fn is_of_the_store(root: &Path, path: &Path) -> bool {
    let database = database_in(root);
    companions(&database).iter().any(|companion| companion == path)
        || path.with_extension("") == database.with_extension("")
}

/// Writes the files of a backup into a directory, and takes them out of the store that is made of it.
///
/// Before the store itself is moved to its place, so that a restore which fails here has left no store.
///
/// # Errors
///
/// [`Error::Corrupt`] for a path that leads out of the directory, [`Error::Unavailable`] for a file that exists with
/// another content.
pub(super) fn extract(staged: &Path, directory: &Path) -> Result<(), Error> {
    let connection = connect(staged, ConnectionRole::Helper)?;
    for (name, content) in files(&connection).map_err(|error| reading(&error))? {
        write(&inside(directory, &name)?, &content)?;
    }
    connection.execute_batch("DROP TABLE IF EXISTS files").map_err(|error| writing(&error))?;
    super::checkpoint::finish(&connection).map_err(|error| writing(&error))
}

/// Backups of older versions have no such table, and no files.
fn files(connection: &Connection) -> rusqlite::Result<Vec<(String, Vec<u8>)>> {
    let has = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'files'";
    if connection.query_row(has, [], |_| Ok(())).optional()?.is_none() {
        return Ok(Vec::new());
    }
    let mut statement = connection.prepare("SELECT path, content FROM files")?;
    statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

/// Refuses names that lead out of the directory: a backup may come from anywhere.
fn inside(directory: &Path, name: &str) -> Result<PathBuf, Error> {
    let relative = Path::new(name);
    if relative.components().all(|part| matches!(part, Component::Normal(_))) && !name.is_empty() {
        return Ok(directory.join(relative));
    }
    Err(Error::Corrupt(format!("the backup has a file with the path {name:?}")))
}

/// A file with the same content is fine: a restore that was interrupted can be repeated.
fn write(path: &Path, content: &[u8]) -> Result<(), Error> {
    if fs::read(path).is_ok_and(|there| there != content) {
        return Err(Error::Unavailable(format!(
            "{} exists with another content: move it away first",
            path.display()
        )));
    }
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(|error| file("create", parent, &error))?;
    }
    private(path)?.write_all(content).map_err(|error| file("write", path, &error))?;
    sync(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_path_of_a_backup_leads_out_of_the_directory() {
        for name in ["../x", "/etc/x", "a/../../x", ""] {
            assert!(inside(Path::new("/data"), name).is_err(), "{name:?}");
        }
        assert!(inside(Path::new("/data"), "pki/ca.key").is_ok());
    }
}
