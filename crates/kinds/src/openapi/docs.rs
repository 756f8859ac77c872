//! The descriptions of types and fields, compressed until a document is written.
//!
//! They are 0.7 MB of prose that only `kubectl explain` reads, so they stay gzipped in the program and
//! are unpacked for one document at a time. Lines are numbered in the order of the schema table, which the generator
//! writes together with them; a text that is missing leaves a document valid.

use std::io::Read;

/// One line per struct and field, in the order of the table.
pub(super) const COMPRESSED: &[u8] = include_bytes!("../schema/docs.txt.gz");

/// The texts, unpacked; dropped when the document is written.
pub(super) struct Docs {
    text: String,
    /// The offset at which each line starts.
    lines: Vec<u32>,
}

impl Docs {
    /// Unpacks the texts. Done when a document is made and not kept, since documents are made rarely.
    pub(super) fn unpack() -> Self {
        let mut text = String::new();
        // The bytes are part of the program; a test unpacks them. Without texts the documents are still right.
        let _ = flate2::read::GzDecoder::new(COMPRESSED).read_to_string(&mut text);
        let starts = text.bytes().zip(1u32..).filter(|(byte, _)| *byte == b'\n').map(|(_, next)| next);
        let lines = std::iter::once(0).chain(starts).collect();
        Self { text, lines }
    }

    /// The number of texts, empty ones included.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.text.lines().count()
    }

    /// The text of a line, with its line breaks back.
    pub(super) fn get(&self, line: u32) -> Option<String> {
        let start = *self.lines.get(line as usize)? as usize;
        let text = self.text.get(start..)?.lines().next().filter(|line| !line.is_empty())?;
        Some(unescape(text))
    }
}

/// Resolves the two escapes of the text file: a line break and a backslash.
pub(super) fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            (_, true) => out.push(if chars.next() == Some('n') { '\n' } else { '\\' }),
            (c, false) => out.push(c),
        }
    }
    out
}
