//! [`DeltaFrame`]: writes one line of a delta watch.
//!
//! Offsets are computed against the stored bytes, but a client holds what it was sent: with `kind` and `apiVersion` in
//! front, perhaps, and the resourceVersion spliced in. [`Insertion`] translates between the two. Each operation names
//! its JSON pointer, so that the patch is a valid RFC 6902 document for people and other clients, and the byte range it
//! replaces, so that our client need not parse the object. Finding the differences is `compare`.

use std::fmt::Write;

use bytes::BytesMut;

use super::compare::{Edit, EditOp};
use crate::Revision;
use crate::event::EventType;

/// The difference between the stored form and the form that is sent: some bytes before it, and the resourceVersion inside it.
#[derive(Clone, Copy, Debug)]
pub struct Insertion {
    /// This much of the stored form is left out at its begin.
    pub skipped: usize,
    /// So many bytes are sent in its place.
    pub prefix: usize,
    /// The position in the stored form at which the resourceVersion is inserted.
    pub splice: usize,
    /// The number of bytes that this adds to the base.
    pub spliced: usize,
    /// The offset of the number in those bytes.
    pub number: usize,
}

impl Insertion {
    /// The position that a byte of the stored form has in what clients see.
    fn seen(&self, at: usize) -> usize {
        let shifted = (at + self.prefix).saturating_sub(self.skipped);
        if at >= self.splice { shifted + self.spliced } else { shifted }
    }

    fn number_at(&self) -> usize {
        (self.splice + self.prefix).saturating_sub(self.skipped) + self.number
    }
}

/// An event about one object that names it instead of repeating it.
/// A deletion and what a client reads of it:
///
/// ```
/// use bytes::BytesMut;
/// use listwatch_wire::Revision;
/// use listwatch_wire::delta::{DeltaEvent, DeltaFrame};
/// use listwatch_wire::event::EventType;
///
/// let frame = DeltaFrame { namespace: "default", name: "web", uid: "u1", base: Revision(7), revision: Revision(9) };
/// let mut line = BytesMut::new();
/// frame.deleted(&mut line);
/// assert_eq!(
///     &line[..],
///     br#"{"type":"DELETED","delta":{"namespace":"default","name":"web","uid":"u1","base":"7","resourceVersion":"9"}}
/// "#
/// );
/// let delta = br#"{"namespace":"default","name":"web","uid":"u1","base":"7","resourceVersion":"9"}"#;
/// let event = DeltaEvent::parse(EventType::Deleted, delta)?;
/// assert_eq!((event.name, event.base, event.revision), ("web", Revision(7), Revision(9)));
/// # Ok::<(), listwatch_wire::delta::DeltaError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct DeltaFrame<'a> {
    /// The namespace, as the inside of a JSON string; empty for none.
    pub namespace: &'a str,
    /// The name, likewise.
    pub name: &'a str,
    /// The uid, likewise.
    pub uid: &'a str,
    /// The version that the client holds.
    pub base: Revision,
    /// The version of the event.
    pub revision: Revision,
}

impl DeltaFrame<'_> {
    /// Writes the line of a change. `bytes` and `crc32` are those of the object as the client will hold it, by which it
    /// checks its result.
    pub fn modified(
        &self,
        edits: &[Edit<'_>],
        seen: &Insertion,
        (bytes, crc32): (usize, u32),
        out: &mut BytesMut,
    ) {
        self.head(EventType::Modified, out);
        let _ = write!(
            out,
            ",\"at\":{},\"bytes\":{bytes},\"crc32\":\"{crc32:08x}\",\"patch\":[",
            seen.number_at()
        );
        for (i, edit) in edits.iter().enumerate() {
            if i > 0 {
                out.extend_from_slice(b",");
            }
            operation(edit, Some(seen), out);
        }
        out.extend_from_slice(b"]}}\n");
    }

    /// Writes the line of a deletion, which carries no patch: the client holds the last state.
    pub fn deleted(&self, out: &mut BytesMut) {
        self.head(EventType::Deleted, out);
        out.extend_from_slice(b"}}\n");
    }

    /// Writes the beginning of a delta event up to the patch. Names need no escaping: they are DNS names and decimal numbers.
    fn head(&self, kind: EventType, out: &mut BytesMut) {
        let _ = write!(out, "{{\"type\":\"{kind}\",\"delta\":{{");
        if !self.namespace.is_empty() {
            let _ = write!(out, "\"namespace\":\"{}\",", self.namespace);
        }
        let Self { name, uid, base, revision, .. } = self;
        let _ = write!(
            out,
            "\"name\":\"{name}\",\"uid\":\"{uid}\",\"base\":\"{base}\",\"resourceVersion\":\"{revision}\""
        );
    }
}

/// Appends operations as an RFC 6902 document.
pub fn patch_document(edits: &[Edit<'_>], out: &mut BytesMut) {
    out.extend_from_slice(b"[");
    for (i, edit) in edits.iter().enumerate() {
        if i > 0 {
            out.extend_from_slice(b",");
        }
        operation(edit, None, out);
    }
    out.extend_from_slice(b"]");
}

/// Writes one operation. `at` is an addition to RFC 6902: the range in the client's bytes, so that it need not parse
/// the object to apply the patch.
fn operation(edit: &Edit<'_>, seen: Option<&Insertion>, out: &mut BytesMut) {
    let (op, value, member) = match edit.op {
        EditOp::AddMember(value) => ("add", Some(value), ",1"),
        EditOp::AddElement(value) => ("add", Some(value), ""),
        EditOp::Replace(value) => ("replace", Some(value), ""),
        EditOp::Remove => ("remove", None, ""),
    };
    let _ = write!(out, "{{\"op\":\"{op}\",\"path\":\"");
    out.extend_from_slice(&edit.path);
    out.extend_from_slice(b"\"");
    if let Some(value) = value {
        out.extend_from_slice(b",\"value\":");
        out.extend_from_slice(value);
    }
    if let Some(seen) = seen {
        let _ = write!(out, ",\"at\":[{},{}{member}]", seen.seen(edit.at.start), edit.at.len());
    }
    out.extend_from_slice(b"}");
}

/// Returns the length and the CRC-32 (ISO-HDLC, as in gzip and zlib) of bytes that come in parts.
#[must_use]
pub fn checksum(parts: &[&[u8]]) -> (usize, u32) {
    let mut hasher = crc32fast::Hasher::new();
    parts.iter().for_each(|part| hasher.update(part));
    (parts.iter().map(|part| part.len()).sum(), hasher.finalize())
}
