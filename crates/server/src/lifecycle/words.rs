//! [`StoredWord`]: a word that is searched for in the bytes of every change.
//!
//! Controllers see each change of every kind and have to do with few of them. A search for a word distinguishes most of
//! them without a parse; preparing the search takes as long as the search itself, so it is prepared once.

use std::sync::OnceLock;

use listwatch_kinds::tree::Tree;
use listwatch_wire::json::{Value, raw};
use memchr::memmem::Finder;

pub(super) static DELETION_TIMESTAMP: StoredWord = StoredWord::new("\"deletionTimestamp\"");
pub(super) static FAILED: StoredWord = StoredWord::new("\"Failed\"");
pub(super) static FOREGROUND_DELETION: StoredWord = StoredWord::new("\"foregroundDeletion\"");
pub(super) static ORPHAN: StoredWord = StoredWord::new("\"orphan\"");
pub(super) static OWNER_REFERENCES: StoredWord = StoredWord::new("\"ownerReferences\"");
pub(super) static PERSISTENT_VOLUME_CLAIM: StoredWord = StoredWord::new("\"persistentVolumeClaim\"");
pub(super) static SUCCEEDED: StoredWord = StoredWord::new("\"Succeeded\"");

/// A key or value as stored objects have it, with its quotes.
pub(super) struct StoredWord {
    text: &'static str,
    finder: OnceLock<Finder<'static>>,
}

impl StoredWord {
    const fn new(text: &'static str) -> Self {
        Self { text, finder: OnceLock::new() }
    }

    /// Returns true if the bytes of an object contain the word as a key or value.
    pub(super) fn is_in(&self, value: &[u8]) -> bool {
        self.finder.get_or_init(|| Finder::new(self.text)).find(value).is_some()
    }
}

/// A stored object that has changed, with its tree if that is known. A look at a field of the tree costs a tenth of the
/// search for a word.
#[derive(Clone, Copy)]
pub(super) struct ChangedObject<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) tree: Option<&'a Value>,
}

impl ChangedObject<'_> {
    /// Returns true if its deletion has begun.
    pub(super) fn is_being_deleted(self) -> bool {
        match self.tree {
            Some(tree) => tree.at("metadata").has("deletionTimestamp"),
            None => {
                DELETION_TIMESTAMP.is_in(self.bytes)
                    && raw::lookup(self.bytes, &["metadata", "deletionTimestamp"]).is_some()
            }
        }
    }
}
