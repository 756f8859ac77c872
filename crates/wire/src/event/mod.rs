//! The watch stream: one JSON object and one newline per event.
//!
//! The server frames bytes it already has; see [`frame`]. The client cuts the stream into events with a [`Decoder`]
//! and leaves the objects as bytes.

pub(crate) mod decoder;
pub(crate) mod lines;

pub use decoder::{DecodeError, Decoder, DecoderOptions, WireEvent};

use std::fmt;

/// The type of a watch event. With a selector it is relative to the watcher: an object that begins to match is ADDED.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// It came to be, or came to match the selector.
    Added,
    /// It changed.
    Modified,
    /// It went, or ceased to match the selector.
    Deleted,
    /// Nothing: the stream has reached the version in the object.
    Bookmark,
    /// The object is a status, and the stream ends.
    Error,
}

impl EventType {
    /// The text in the field `type` of an event.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
            Self::Bookmark => "BOOKMARK",
            Self::Error => "ERROR",
        }
    }

    /// The bytes before the object.
    #[must_use]
    pub const fn prefix(self) -> &'static [u8] {
        match self {
            Self::Added => br#"{"type":"ADDED","object":"#,
            Self::Modified => br#"{"type":"MODIFIED","object":"#,
            Self::Deleted => br#"{"type":"DELETED","object":"#,
            Self::Bookmark => br#"{"type":"BOOKMARK","object":"#,
            Self::Error => br#"{"type":"ERROR","object":"#,
        }
    }

    fn parse(text: &[u8]) -> Option<Self> {
        [Self::Added, Self::Modified, Self::Deleted, Self::Bookmark, Self::Error]
            .into_iter()
            .find(|t| t.as_str().as_bytes() == text)
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The bytes after the object.
pub const SUFFIX: &[u8] = b"}\n";

/// Appends an event around an object's bytes, which are copied and not looked at.
///
/// ```
/// use listwatch_wire::event::{EventType, frame};
///
/// let mut out = Vec::new();
/// frame(EventType::Added, b"{}", &mut out);
/// assert_eq!(out, b"{\"type\":\"ADDED\",\"object\":{}}\n");
/// ```
pub fn frame(event_type: EventType, object: &[u8], out: &mut Vec<u8>) {
    let prefix = event_type.prefix();
    out.reserve(prefix.len() + object.len() + SUFFIX.len());
    out.extend_from_slice(prefix);
    out.extend_from_slice(object);
    out.extend_from_slice(SUFFIX);
}
