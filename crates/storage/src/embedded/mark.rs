//! [`RevisionMark`]: the newest revision that was seen, beside the database.
//!
//! SQLite takes a write-ahead log that was deleted or cut off for one that has nothing more: what it held is lost without
//! an error, and its revisions are given a second time. So the newest revision is noted in the lock file about once a
//! second, and compared at the next start. It is written after the commit and not synced, so after a crash it may be
//! behind the store, and is never ahead of it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use listwatch_wire::Revision;

use super::files;
use crate::Error;

/// The length of the longest revision, so that a shorter one leaves nothing of it behind.
const DIGITS: usize = 20;

/// The note in the lock file of a store.
#[derive(Debug)]
pub(super) struct RevisionMark {
    file: File,
    noted: Revision,
}

impl RevisionMark {
    /// Reads the note of a directory; zero if there is none.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the file cannot be opened.
    pub(super) fn beside(database: &Path) -> Result<Self, Error> {
        let file = files::private(&files::lock_beside(database))?;
        let mut text = [0; DIGITS];
        let read = file.read_at(&mut text, 0).unwrap_or(0);
        let text = text.get(..read).and_then(|text| std::str::from_utf8(text).ok()).unwrap_or_default();
        Ok(Self { noted: Revision(text.trim().parse().unwrap_or(0)), file })
    }

    /// Returns the revision that a store had before, if it has lost changes since.
    pub(super) fn lost(&self, newest: Revision) -> Option<Revision> {
        (self.noted > newest).then_some(self.noted)
    }

    /// Notes the newest revision, if it is another one.
    ///
    /// # Errors
    ///
    /// The disk is full or broken, which is no reason to stop: writes find out by themselves.
    pub(super) fn note(&mut self, newest: Revision) -> io::Result<()> {
        if self.noted != newest {
            self.file.write_all_at(format!("{:DIGITS$}", newest.0).as_bytes(), 0)?;
            self.noted = newest;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EmbeddedEngine, EmbeddedOptions, Engine, Expect, Write, Written};

    #[test]
    fn the_newest_revision_is_read_back() {
        let directory = tempfile::tempdir().unwrap();
        let database = files::database_in(directory.path());
        let mark = || RevisionMark::beside(&database).unwrap();
        assert_eq!(mark().noted, Revision(0));
        for revision in [Revision(u64::MAX), Revision(7), Revision(0)] {
            mark().note(revision).unwrap();
            assert_eq!(mark().noted, revision);
        }
        std::fs::write(files::lock_beside(&database), "what is this?").unwrap();
        assert_eq!(mark().noted, Revision(0));
    }

    /// SQLite opens a database without its write-ahead log as if nothing was missing.
    #[tokio::test]
    async fn a_lost_log_is_noticed_at_the_next_start() {
        let directory = tempfile::tempdir().unwrap();
        let database = files::database_in(directory.path());
        let lost = |newest| RevisionMark::beside(&database).unwrap().lost(newest);
        let engine = EmbeddedEngine::open(directory.path(), EmbeddedOptions::default()).await.unwrap();
        let begin = engine.current().await.unwrap();
        let write = Write { key: "/a".into(), value: Some("1".into()), expect: Expect::Absent, origin: None };
        let Written::Done { revision } = engine.write(write).await.unwrap() else { panic!("written") };
        engine.close().await.unwrap();
        assert_eq!((lost(revision), lost(begin)), (None, Some(revision)));
    }
}
