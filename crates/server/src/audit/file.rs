//! [`AuditFile`]: the file of the audit log, and its rotation.
//!
//! It is rotated here when it has reached its size, so that an audit log never fills the disk that the store is on;
//! kube-apiserver keeps all rotated files by default. Other programs may rotate it as well: it is opened again
//! when it was renamed, so that logrotate works without a signal. [`super::log`] is the writer.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::options::AuditRotation;

/// The file under its present name.
#[derive(Debug)]
pub(super) struct AuditFile {
    path: PathBuf,
    rotation: AuditRotation,
    writer: BufWriter<File>,
    /// The file system and the file in it.
    identity: (u64, u64),
    /// Bytes in the file.
    size: u64,
}

impl AuditFile {
    /// Opens the file to append to it. Only its owner may read it.
    pub(super) fn open(path: &Path, rotation: AuditRotation) -> std::io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        let metadata = file.metadata()?;
        Ok(Self {
            path: path.to_owned(),
            rotation,
            writer: BufWriter::new(file),
            identity: (metadata.dev(), metadata.ino()),
            size: metadata.len(),
        })
    }

    /// Begins a new file if the old one was moved away, as programs do that rotate logs.
    pub(super) fn follow(&mut self) {
        let now = std::fs::metadata(&self.path);
        match now {
            Ok(now) if (now.dev(), now.ino()) == self.identity => self.size = now.len(),
            _ => self.begin(),
        }
    }

    /// Appends one event. It is in the file after [`AuditFile::flush`].
    pub(super) fn write_line(&mut self, line: &[u8]) -> std::io::Result<()> {
        let length = line.len() as u64;
        if self.size > 0 && self.size + length > self.rotation.max_bytes {
            self.rotate();
        }
        self.size += length;
        self.writer.write_all(line)
    }

    /// Called after each batch, so that a crash loses little.
    pub(super) fn flush(&mut self) -> std::io::Result<()> {
        self.writer.flush()
    }

    /// Moves the file away under the present time, begins a new one and removes the oldest beyond the number that is
    /// kept. If it cannot be moved, it grows by another full size before that is tried again.
    fn rotate(&mut self) {
        let moved =
            self.flush().and_then(|()| std::fs::rename(&self.path, self.name_at(jiff::Timestamp::now())));
        match moved {
            Ok(()) => self.begin(),
            Err(error) => {
                tracing::warn!(%error, "the audit log cannot be rotated");
                self.size = 0;
            }
        }
        if let Err(error) = self.remove_oldest() {
            tracing::warn!(%error, "old audit logs cannot be removed");
        }
    }

    /// Opens the file again, after it was renamed or rotated.
    fn begin(&mut self) {
        match Self::open(&self.path, self.rotation) {
            Ok(file) => *self = file,
            Err(error) => {
                tracing::warn!(%error, "the audit log cannot be opened again, the old file is used")
            }
        }
    }

    /// The name of a rotated file: `audit-2026-03-01T12-00-00.000000.log`, as kube-apiserver has it with milliseconds.
    fn name_at(&self, now: jiff::Timestamp) -> PathBuf {
        let (stem, extension) = self.name_parts();
        self.path.with_file_name(format!("{stem}-{}{extension}", now.strftime("%Y-%m-%dT%H-%M-%S.%6f")))
    }

    /// The file name before its extension, and the extension with its dot.
    fn name_parts(&self) -> (String, String) {
        let text = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
        let extension = self.path.extension().map(|extension| format!(".{}", extension.to_string_lossy()));
        (text(self.path.file_stem()), extension.unwrap_or_default())
    }

    /// Removes the oldest rotated files beyond the configured number.
    fn remove_oldest(&self) -> std::io::Result<()> {
        let mut rotated = self.rotated()?;
        rotated.sort();
        let beyond = rotated.len().saturating_sub(self.rotation.max_backups);
        rotated.iter().take(beyond).try_for_each(std::fs::remove_file)
    }

    /// The rotated files beside it: those whose name has a time where [`AuditFile::name_at`] puts it.
    fn rotated(&self) -> std::io::Result<Vec<PathBuf>> {
        let (stem, extension) = self.name_parts();
        let is_rotated = |name: &str| {
            let time = name.strip_prefix(&stem).and_then(|rest| rest.strip_prefix('-'));
            let time = time.and_then(|rest| rest.strip_suffix(&extension));
            time.is_some_and(|time| jiff::civil::DateTime::strptime("%Y-%m-%dT%H-%M-%S.%f", time).is_ok())
        };
        let directory =
            self.path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
        let mut rotated = Vec::new();
        for entry in std::fs::read_dir(directory)? {
            let entry = entry?;
            if is_rotated(&entry.file_name().to_string_lossy()) {
                rotated.push(entry.path());
            }
        }
        Ok(rotated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: &Path) -> String {
        std::fs::read_to_string(path).unwrap()
    }

    #[test]
    fn a_file_that_is_moved_away_or_truncated_is_begun_anew() {
        let directory = tempfile::tempdir().unwrap();
        let (path, moved) = (directory.path().join("audit.log"), directory.path().join("audit.log.1"));
        let mut file = AuditFile::open(&path, AuditRotation::default()).unwrap();
        let mut write = |text: &str| {
            file.follow();
            file.write_line(text.as_bytes()).unwrap();
            file.flush().unwrap();
        };
        write("one\n");
        std::fs::rename(&path, &moved).unwrap();
        write("two\n");
        assert_eq!((text(&moved).as_str(), text(&path).as_str()), ("one\n", "two\n"));
        File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
        write("three\n");
        assert_eq!(text(&path), "three\n");
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
    }

    /// The audit log grew until the disk was full, and with it the store's.
    #[test]
    fn the_log_never_takes_more_than_its_files() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        std::fs::write(directory.path().join("audit-of-mine.log"), "kept").unwrap();
        let rotation = AuditRotation { max_bytes: 100, max_backups: 3 };
        for round in 0..2 {
            let mut file = AuditFile::open(&path, rotation).unwrap();
            for n in 0..40 {
                file.write_line(format!("{:>19}\n", round * 40 + n).as_bytes()).unwrap();
            }
            file.flush().unwrap();
        }
        let mut names: Vec<_> =
            std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.sort();
        assert_eq!(names.len(), 5, "three, the present one, and somebody's own: {names:?}");
        assert!(names.iter().all(|name| std::fs::metadata(name).unwrap().len() <= 100));
        let kept: String = names.iter().map(|name| text(name)).filter(|text| text != "kept").collect();
        let last: Vec<u64> = kept.lines().map(|line| line.trim().parse().unwrap()).collect();
        assert_eq!(last, (60..80).collect::<Vec<_>>());
    }

    #[test]
    fn a_line_longer_than_a_file_is_written_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit");
        let mut file = AuditFile::open(&path, AuditRotation { max_bytes: 3, max_backups: 1 }).unwrap();
        for line in ["first\n", "second\n"] {
            file.write_line(line.as_bytes()).unwrap();
        }
        file.flush().unwrap();
        assert_eq!(text(&path), "second\n");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2);
    }
}
