//! The data directory: private to its owner, and locked so that one process uses it at a time.
//!
//! Objects include Secrets, so directory and files are created with modes 0700 and 0600, and looser modes of existing
//! files are tightened. The lock is an advisory file lock, which the kernel releases when the process dies: no stale
//! lock file can keep a server from starting. New files are made durable by syncing the directory, without which a
//! crash can lose the name of a file whose content was synced.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::failure::file;
use crate::Error;

/// The files of a store, beside those that SQLite adds.
const DATABASE: &str = "store.db";
const LOCK: &str = "store.lock";

/// A data directory that this process has for itself until the value is dropped.
///
/// Held by an open engine, and by the offline commands that change or check a store. A backup does without: it only
/// reads.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    _lock: File,
}

impl Directory {
    /// Takes the directory, making it if needed.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if another process has it, or the directory cannot be made.
    pub(super) fn take(path: &Path) -> Result<Self, Error> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(|error| file("create", path, &error))?;
        let lock_path = path.join(LOCK);
        let lock = private(&lock_path)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), _lock: lock }),
            Err(TryLockError::WouldBlock) => {
                Err(Error::Unavailable(format!("another process is using {}", path.display())))
            }
            Err(TryLockError::Error(error)) => Err(file("lock", &lock_path, &error)),
        }
    }

    /// The database's path, where a private file now is.
    ///
    /// Created here and not by SQLite, since that would use the umask's mode.
    pub(super) fn database(&self) -> Result<PathBuf, Error> {
        let path = database_in(&self.path);
        private(&path)?;
        self.sync()?;
        Ok(path)
    }

    /// The bytes of the database and of its write-ahead log.
    pub(super) fn database_bytes(&self) -> u64 {
        let database = database_in(&self.path);
        let [log, _] = companions(&database);
        [database, log].iter().filter_map(|file| fs::metadata(file).ok()).map(|found| found.len()).sum()
    }

    /// Makes it durable which files there are.
    pub(super) fn sync(&self) -> Result<(), Error> {
        sync(&self.path)
    }
}

/// The path of the database of a directory.
pub(super) fn database_in(directory: &Path) -> PathBuf {
    directory.join(DATABASE)
}

/// The lock file of the directory of a database.
pub(super) fn lock_beside(database: &Path) -> PathBuf {
    database.with_file_name(LOCK)
}

/// The files SQLite keeps beside a database.
pub(super) fn companions(database: &Path) -> [PathBuf; 2] {
    ["-wal", "-shm"].map(|suffix| {
        let mut name = database.as_os_str().to_owned();
        name.push(suffix);
        name.into()
    })
}

/// Opens or creates a file that only its owner can read. SQLite creates its other files with the mode of the database.
pub(super) fn private(path: &Path) -> Result<File, Error> {
    let mut options = OpenOptions::new();
    let opened = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
    let opened = opened.map_err(|error| file("open", path, &error))?;
    let mode = opened.metadata().map_err(|error| file("look at", path, &error))?.permissions().mode();
    if mode & 0o077 != 0 {
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))
            .map_err(|error| file("protect", path, &error))?;
    }
    Ok(opened)
}

/// Makes what was written to a file or a directory durable.
///
/// A directory is synced for the names in it, a file for its content.
pub(super) fn sync(path: &Path) -> Result<(), Error> {
    File::open(path).and_then(|opened| opened.sync_all()).map_err(|error| file("sync", path, &error))
}
