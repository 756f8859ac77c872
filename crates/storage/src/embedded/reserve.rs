//! [`Reserve`]: disk space held back, so that a full disk can be emptied again.
//!
//! Deletions and compaction write to the disk, too: without a reserve a full disk would refuse the very writes
//! that free space. The file is allocated and not merely sized, since a sparse file holds nothing back. The writer
//! releases it when the disk is full, takes deletions and a few essential writes on that space, and holds it again
//! before all writes are accepted.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate, fstatvfs};

/// The space that is left to the write-ahead log and the database file when the reserve is taken: enough for a
/// [probe](super::probe) in the one and then in the other.
const HEADROOM: u64 = 3 << 19;

/// A file of zeros that is given up when the disk is full.
///
/// Used by the writer's thread alone. A file that a crash left behind is taken over, since allocating it again costs
/// nothing.
#[derive(Debug)]
pub(super) struct Reserve {
    path: PathBuf,
    /// `EmbeddedOptions::reserve_bytes`.
    bytes: u64,
    held: bool,
}

impl Reserve {
    /// A reserve beside a database; it is not there yet.
    pub(super) fn beside(database: &Path, bytes: u64) -> Self {
        Self { path: database.with_extension("reserve"), bytes, held: false }
    }

    /// Returns true if the space is held.
    pub(super) fn is_held(&self) -> bool {
        self.held
    }

    /// Takes the space, if the disk has it and some more: a reserve that fills the disk would stop the next write.
    pub(super) fn hold(&mut self) -> bool {
        self.held = self.held || self.allocate().is_ok_and(|left| left >= HEADROOM);
        if !self.held {
            // Half a reserve only makes the disk fuller.
            self.release();
        }
        self.held
    }

    /// Returns the bytes that the disk has left beside the reserve.
    fn allocate(&self) -> io::Result<u64> {
        let file: File =
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&self.path)?;
        fallocate(&file, FallocateFlags::empty(), 0, self.bytes.max(1))?;
        let disk = fstatvfs(&file)?;
        Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
    }

    /// Frees the disk space.
    ///
    /// Errors are ignored: if the file cannot be removed, the next write reports a better error.
    pub(super) fn release(&mut self) {
        self.held = false;
        let _ = fs::remove_file(&self.path);
    }
}
