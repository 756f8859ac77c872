//! The wire format of protobuf: tags, varints, lengths.
//!
//! It is written out here because the codec needs no generated structs: a reader over a slice and a few functions that
//! append. Groups (wire types 3 and 4) do not occur in Kubernetes and are refused. Lengths are checked against the
//! remaining bytes, so a hostile message can allocate nothing. Nested messages are written in place, with the length
//! inserted afterwards.

use super::ProtoError;

/// Reads from the front of a message.
///
/// Never copies: bytes and text are slices of the body.
pub(crate) struct WireReader<'a>(&'a [u8]);

impl<'a> WireReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next field number and wire type; `None` at the end.
    pub(crate) fn tag(&mut self) -> Result<Option<(u32, u8)>, ProtoError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let wire = (tag & 7) as u8;
        match u32::try_from(tag >> 3) {
            Ok(number) if number > 0 && matches!(wire, 0 | 1 | 2 | 5) => Ok(Some((number, wire))),
            _ => Err(ProtoError::IllegalTag(tag)),
        }
    }

    /// At most ten bytes; more are an error.
    pub(crate) fn varint(&mut self) -> Result<u64, ProtoError> {
        let mut value = 0;
        for (at, &byte) in self.0.iter().enumerate().take(10) {
            value |= u64::from(byte & 0x7f).checked_shl(at as u32 * 7).unwrap_or(0);
            if byte < 0x80 {
                self.0 = self.0.get(at + 1..).unwrap_or_default();
                return Ok(value);
            }
        }
        Err(if self.0.len() < 10 { ProtoError::Truncated } else { ProtoError::Overflow })
    }

    /// A length and so many bytes, which are borrowed.
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], ProtoError> {
        let length = usize::try_from(self.varint()?).map_err(|_| ProtoError::Truncated)?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(ProtoError::Truncated)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// The field is for the error.
    pub(crate) fn text(&mut self, field: &'static str) -> Result<&'a str, ProtoError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| ProtoError::InvalidUtf8(field))
    }

    /// Little-endian; doubles are written so.
    pub(crate) fn fixed64(&mut self) -> Result<u64, ProtoError> {
        let (bytes, rest) = self.0.split_first_chunk::<8>().ok_or(ProtoError::Truncated)?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*bytes))
    }

    /// Steps over a field that is not known.
    pub(crate) fn skip(&mut self, wire: u8) -> Result<(), ProtoError> {
        match wire {
            0 => self.varint().map(drop),
            1 => self.fixed64().map(drop),
            2 => self.bytes().map(drop),
            _ => {
                self.0 = self.0.get(4..).ok_or(ProtoError::Truncated)?;
                Ok(())
            }
        }
    }
}

/// Seven bits per byte, the lowest first.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(crate) fn put_tag(out: &mut Vec<u8>, number: u8, wire: u8) {
    put_varint(out, u64::from(number) << 3 | u64::from(wire));
}

/// Wire type 2: length first.
pub(crate) fn put_bytes(out: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    put_tag(out, number, 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

pub(crate) fn put_string(out: &mut Vec<u8>, number: u8, text: &str) {
    put_bytes(out, number, text.as_bytes());
}

/// Wire type 1: eight bytes, little endian.
pub(crate) fn put_double(out: &mut Vec<u8>, number: u8, value: f64) {
    put_tag(out, number, 1);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Negative numbers take ten bytes, as in Go: fields are not declared as zigzag.
pub(crate) fn put_number(out: &mut Vec<u8>, number: u8, value: i64) {
    put_tag(out, number, 0);
    put_varint(out, value.cast_unsigned());
}

/// Writes a nested message in place: most are short, so one byte is kept for the length and the rest moved when it needs more.
///
/// A message of more than 127 bytes is moved by a byte or two when its length is known; cheaper than measuring it
/// first.
pub(super) fn put_nested<E>(
    out: &mut Vec<u8>,
    number: u8,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    put_tag(out, number, 2);
    out.push(0);
    let start = out.len();
    write(out)?;
    let length = out.len() - start;
    match (u8::try_from(length), out.get_mut(start - 1)) {
        (Ok(length @ ..0x80), Some(slot)) => *slot = length,
        _ => insert_length(out, start, length),
    }
    Ok(())
}

/// Writes a length of several bytes in the place of the one that was kept for it.
fn insert_length(out: &mut Vec<u8>, start: usize, length: usize) {
    let (mut bytes, mut used, mut rest) = ([0; 10], 1, length);
    for byte in &mut bytes {
        *byte = rest as u8 & 0x7f;
        rest >>= 7;
        if rest == 0 {
            break;
        }
        *byte |= 0x80;
        used += 1;
    }
    out.splice(start - 1..start, bytes.into_iter().take(used));
}
