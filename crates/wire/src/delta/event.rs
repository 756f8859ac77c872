//! [`DeltaEvent`]: an event of a delta watch as a client reads it, and the checks before it is applied.
//!
//! The client must end up with exactly the bytes that the server has, or report that it cannot. The base version is
//! compared first, the operations must stay inside the base, and length and CRC-32 of the result are verified. A failed
//! check is not a data loss: the client opens the next watch without deltas and gets the object as a whole.
//!
//! The format is described in `docs/delta-watch.md`; the server's side is `frame`, the splicing itself `splice`.

use listwatch_json::raw;

use super::splice::{self, DeltaPatch};
use crate::Revision;
use crate::event::EventType;

/// The reason that a delta cannot be used. The object is then read as a whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeltaError {
    /// The line is not a delta.
    #[error("malformed delta: {0}")]
    Malformed(&'static str),
    /// The client does not hold the object.
    #[error("delta of an object that is not held")]
    NoBase,
    /// The client holds another version of the object, or another object of the name.
    #[error("delta against version {base}, but {held} is held")]
    WrongBase {
        /// The version that the delta is about.
        base: Revision,
        /// The version that is there.
        held: Revision,
    },
    /// An operation names bytes that the base does not have, or not in order.
    #[error("operation at byte {0} does not fit the base")]
    OutOfPlace(usize),
    /// The result is not what the server has.
    #[error("the patched object has checksum {got:08x} and {bytes} bytes, which is not what the server has")]
    WrongResult {
        /// The checksum of the result.
        got: u32,
        /// Its length.
        bytes: usize,
    },
}

/// A change or the end of an object that the client holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeltaEvent<'a> {
    /// MODIFIED or DELETED.
    pub event_type: EventType,
    /// The namespace; empty for none.
    pub namespace: &'a str,
    /// The name.
    pub name: &'a str,
    /// The uid, as the inside of a JSON string.
    pub uid: &'a [u8],
    /// The version that the client holds.
    pub base: Revision,
    /// The version of the event.
    pub revision: Revision,
    /// Both versions as they are written.
    versions: (&'a str, &'a str),
    at: usize,
    bytes: usize,
    crc32: u32,
    patch: Option<DeltaPatch<'a>>,
}

impl<'a> DeltaEvent<'a> {
    /// Reads the value of `delta` in a line of a watch.
    ///
    /// # Errors
    /// [`DeltaError::Malformed`].
    pub fn parse(event_type: EventType, delta: &'a [u8]) -> Result<Self, DeltaError> {
        let mut event = Self {
            event_type,
            namespace: "",
            name: "",
            uid: b"",
            base: Revision::ZERO,
            revision: Revision::ZERO,
            versions: ("", ""),
            at: 0,
            bytes: 0,
            crc32: 0,
            patch: None,
        };
        let mut fields = raw::fields(delta, 0).ok_or(DeltaError::Malformed("no object"))?;
        while let Some((key, at)) = fields.next_key() {
            let key = delta.get(key).unwrap_or_default();
            let end = event.read(key, delta, at).ok_or(DeltaError::Malformed("a field of another type"))?;
            fields.pass(end);
        }
        let complete = fields.is_complete() && !event.name.is_empty() && event.revision > Revision::ZERO;
        let usable = match event_type {
            EventType::Modified => event.patch.is_some(),
            kind => kind == EventType::Deleted,
        };
        if complete && usable { Ok(event) } else { Err(DeltaError::Malformed("a field is missing")) }
    }

    /// Takes the field whose value begins at `at`, and returns the position after it.
    fn read(&mut self, key: &[u8], delta: &'a [u8], at: usize) -> Option<usize> {
        if key == b"patch" {
            let patch = DeltaPatch::read(delta, at)?;
            let end = at + patch.bytes;
            self.patch = Some(patch);
            return Some(end);
        }
        let end = raw::skip_value(delta, at)?;
        self.set(key, delta.get(at..end)?)?;
        Some(end)
    }

    /// Takes a field that is not a container. Unknown fields are ignored; a known one that cannot be read is an error.
    fn set(&mut self, key: &[u8], value: &'a [u8]) -> Option<()> {
        match key {
            b"namespace" => self.namespace = raw::scalar(value)?,
            b"name" => self.name = raw::scalar(value)?,
            b"uid" => self.uid = value.strip_prefix(b"\"")?.strip_suffix(b"\"")?,
            b"base" => (self.versions.0, self.base) = version(value)?,
            b"resourceVersion" => (self.versions.1, self.revision) = version(value)?,
            b"at" => self.at = raw::scalar(value)?.parse().ok()?,
            b"bytes" => self.bytes = raw::scalar(value)?.parse().ok()?,
            b"crc32" => self.crc32 = u32::from_str_radix(raw::scalar(value)?, 16).ok()?,
            _ => {}
        }
        Some(())
    }

    /// Returns the object that the patch makes of the bytes of its base.
    ///
    /// # Errors
    /// [`DeltaError`] if it is not exactly what the server has.
    pub fn apply(&self, base: &[u8]) -> Result<Vec<u8>, DeltaError> {
        let patch = self.patch.as_ref().ok_or(DeltaError::Malformed("no patch"))?;
        // A length that no object has would be a way to make a client run out of memory.
        if self.bytes > base.len() + patch.bytes + VERSION_DIGITS {
            return Err(DeltaError::Malformed("more bytes than base and patch have"));
        }
        let result = splice::apply(base, (self.at, self.versions), patch, self.bytes)?;
        let got = crc32fast::hash(&result);
        if result.len() != self.bytes || got != self.crc32 {
            return Err(DeltaError::WrongResult { got, bytes: result.len() });
        }
        Ok(result)
    }

    /// Returns the pointers to what the patch changes, each as the inside of a JSON string.
    pub fn paths(&self) -> impl Iterator<Item = &'a [u8]> {
        self.patch.iter().flat_map(|patch| &patch.operations).map(|operation| operation.path)
    }
}

/// A resourceVersion, as text and as a number.
fn version(value: &[u8]) -> Option<(&str, Revision)> {
    let text = raw::scalar(value)?;
    Some((text, text.parse().ok()?))
}

/// A resourceVersion has at most so many digits.
const VERSION_DIGITS: usize = 20;
