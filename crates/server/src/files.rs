//! Reading configuration files and writing private ones, with errors that name the file.
//!
//! Private files (CA key, administrator's token) are written with mode 0600 under another name, synced and renamed,
//! so that neither a crash nor a reader ever sees a part of a key. Files are read once at the start, except for
//! serving certificates, which `listen/tls.rs` reads again.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::Error;

/// Reads a text file.
///
/// # Errors
/// [`Error::File`] with the path.
pub(crate) fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|source| Error::File { path: path.to_owned(), source })
}

/// Writes a file that only its owner may read. The file is written under another name and renamed, so that a reader
/// never sees a part of it.
///
/// # Errors
/// [`Error::File`] with the path.
pub(crate) fn write_private(path: &Path, content: &str) -> Result<(), Error> {
    let failed = |source| Error::File { path: path.to_owned(), source };
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    let mut draft = PathBuf::from(path);
    draft.as_mut_os_string().push(".new");
    let mut options = fs::OpenOptions::new();
    let mut file =
        options.write(true).create(true).truncate(true).mode(0o600).open(&draft).map_err(failed)?;
    file.write_all(content.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
    fs::rename(&draft, path).map_err(failed)
}
