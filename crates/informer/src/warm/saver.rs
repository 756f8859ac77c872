//! [`Saver`]: writes captures to the files of one informer, one at a time.
//!
//! Objects and head are separate files. Objects are written only if they changed since the last save; the head, which
//! names them by generation, is written last and replaced atomically, so a crash at any point leaves the previous save
//! complete. Older generations are deleted after that.
//!
//! Nothing is saved before the identity of the server is known, since such a cache could not be used. All methods
//! block; they are called from `spawn_blocking` or while the runtime ends.

use std::sync::Arc;

use super::capture::Capture;
use super::file::{FileHead, Files, ObjectBlock, SavedMark};
use super::{WarmError, WarmOptions};
use crate::sync::Mutex;

/// The file of objects that was written last.
#[derive(Clone, Default)]
struct WrittenFile {
    generation: u64,
    blocks: Vec<ObjectBlock>,
    /// The count of changes that it holds; none before the first save of this process.
    changes: Option<u64>,
}

/// The server that the objects are of.
#[derive(Clone, Default)]
enum SavedServer {
    /// Its identity is not known yet. Without it a cache could not be used, and is not saved.
    #[default]
    Unknown,
    /// Its identity is known, or sources of its kind have none.
    Known(Option<String>),
}

/// The saved cache of one informer.
pub(crate) struct Saver {
    pub(crate) options: WarmOptions,
    pub(super) files: Files,
    server: Mutex<SavedServer>,
    /// Held while a save is written, so that saves do not overtake each other.
    written: Mutex<WrittenFile>,
}

impl Saver {
    pub(crate) fn new(options: WarmOptions, name: &str) -> Arc<Self> {
        let files = Files::new(&options.directory, name);
        Arc::new(Self { options, files, server: Mutex::default(), written: Mutex::default() })
    }

    /// The saved objects are in this file, and are what the informer holds when it has counted `changes`.
    pub(super) fn restored(&self, generation: u64, blocks: Vec<ObjectBlock>, changes: u64) {
        *self.written.lock() = WrittenFile { generation, blocks, changes: Some(changes) };
    }

    pub(super) fn identified(&self, server: Option<String>) {
        *self.server.lock() = SavedServer::Known(server);
    }

    /// Compares the server with the one that a cache was saved for.
    pub(crate) fn compare(&self, saved: &Option<String>) -> Result<(), WarmError> {
        let found = self.server();
        if *saved == found {
            return Ok(());
        }
        let (saved, found) = (saved.clone().unwrap_or_default(), found.unwrap_or_default());
        Err(WarmError::OtherServer { saved, found })
    }

    /// The identity of the server, if it has one and has said so.
    fn server(&self) -> Option<String> {
        match &*self.server.lock() {
            SavedServer::Known(server) => server.clone(),
            SavedServer::Unknown => None,
        }
    }

    /// Writes a capture, once the server is known. Blocks; call it on a thread that may.
    pub(crate) fn save<K>(&self, capture: &Capture<K>) -> Result<(), WarmError> {
        if matches!(*self.server.lock(), SavedServer::Unknown) {
            return Ok(());
        }
        let mut written = self.written.lock();
        let same = written.changes == Some(capture.changes);
        if !same {
            let generation = written.generation.wrapping_add(1);
            let blocks = self.files.write_objects(generation, &capture.snapshot)?;
            *written = WrittenFile { generation, blocks, changes: Some(capture.changes) };
        }
        let (marks, records) = marks(capture);
        let head = FileHead {
            identities: crate::object::saved::identity_check(),
            version: self.options.version.clone(),
            server: self.server(),
            positions: capture.positions.clone(),
            marks,
            generation: written.generation,
            blocks: written.blocks.clone(),
        };
        self.files.write_head(&head, &records)?;
        if !same {
            self.files.remove_others(written.generation);
        }
        Ok(())
    }
}

/// The marks as they are saved, and the records of deleted objects that belong to them.
fn marks<K>(capture: &Capture<K>) -> (Vec<SavedMark>, Vec<u8>) {
    let mut records = Vec::new();
    let marks = capture.marks.iter().map(|mark| {
        let name = mark.name.clone();
        let Some(unread) = &mark.unread else {
            return SavedMark { name, everything: true, changed: Vec::new(), deleted: 0 };
        };
        unread.deleted.iter().for_each(|object| object.write_record(&mut records));
        let changed = unread.changed.iter().map(ToString::to_string).collect();
        SavedMark { name, everything: false, changed, deleted: unread.deleted.len() }
    });
    (marks.collect(), records)
}
