//! Application of a patch to bytes: one pass over the base, in the order of the operations.
//!
//! Operations must come in ascending order of their byte ranges; one that goes back or beyond the base is refused, so
//! no input can make the pass read outside of it or copy more than base and patch hold. The resourceVersion is replaced
//! on the way, at the offset that the event names. Commas are put right here because an operation names a value and not
//! its separators. The result is checked by the caller in `event`.

use std::ops::Range;

use listwatch_json::raw;

use super::event::DeltaError;
use crate::Revision;

/// An operation with the bytes of the base that it is about.
pub(super) struct PatchOperation<'a> {
    pub(super) path: &'a [u8],
    op: &'a [u8],
    value: &'a [u8],
    at: Range<usize>,
    is_member: bool,
}

/// The operations of a patch, in order.
pub(super) struct PatchOperations<'a> {
    patch: &'a [u8],
    at: usize,
}

impl<'a> PatchOperations<'a> {
    pub(super) fn new(patch: &'a [u8]) -> Self {
        Self { patch, at: 1 }
    }

    /// Reads the next operation. Unknown fields are skipped, so that a later server may add some.
    fn read(&mut self) -> Option<PatchOperation<'a>> {
        let mut operation = PatchOperation { path: b"", op: b"", value: b"", at: 0..0, is_member: false };
        let mut fields = raw::fields(self.patch, self.at)?;
        for field in &mut fields {
            let value = self.patch.get(field.value.clone())?;
            match self.patch.get(field.key)? {
                b"op" => operation.op = inside(value)?,
                b"path" => operation.path = inside(value)?,
                b"value" => operation.value = value,
                b"at" => (operation.at, operation.is_member) = place(value)?,
                _ => {}
            }
        }
        self.at = fields.is_complete().then(|| fields.position() + 1)?;
        match self.patch.get(self.at)? {
            b',' => self.at += 1,
            b']' => self.at = self.patch.len(),
            _ => return None,
        }
        Some(operation)
    }
}

impl<'a> Iterator for PatchOperations<'a> {
    type Item = Result<PatchOperation<'a>, DeltaError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.patch.len() || (self.at == 1 && self.patch.get(1) == Some(&b']')) {
            return None;
        }
        let read = self.read().ok_or(DeltaError::Malformed("a patch of another form"));
        if read.is_err() {
            self.at = self.patch.len();
        }
        Some(read)
    }
}

fn inside(value: &[u8]) -> Option<&[u8]> {
    value.strip_prefix(b"\"")?.strip_suffix(b"\"")
}

/// `[offset,length]`, and a third number where the name of a member is inserted too.
fn place(value: &[u8]) -> Option<(Range<usize>, bool)> {
    let inner = std::str::from_utf8(value.strip_prefix(b"[")?.strip_suffix(b"]")?).ok()?;
    let mut numbers = inner.split(',').map(|number| number.trim().parse::<usize>());
    let (offset, length) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    Some((offset..offset.checked_add(length)?, numbers.next().is_some()))
}

/// Makes the new version of an object from its base.
pub(super) fn apply(
    base: &[u8],
    (at, (from, to)): (usize, (Revision, Revision)),
    patch: &[u8],
    room: usize,
) -> Result<Vec<u8>, DeltaError> {
    let mut splice = Splice { base, out: Vec::with_capacity(room), read: 0 };
    let old = from.to_string();
    let mut version = Some(at..at.saturating_add(old.len()));
    if base.get(at..at.saturating_add(old.len())) != Some(old.as_bytes()) {
        return Err(DeltaError::OutOfPlace(at));
    }
    for operation in PatchOperations::new(patch) {
        let operation = operation?;
        if let Some(place) = version.take_if(|version| version.start <= operation.at.start) {
            splice.replace(&place, to.to_string().as_bytes())?;
        }
        splice.operate(&operation)?;
    }
    if let Some(place) = version {
        splice.replace(&place, to.to_string().as_bytes())?;
    }
    splice.copy_to(base.len())?;
    Ok(splice.out)
}

struct Splice<'a> {
    base: &'a [u8],
    out: Vec<u8>,
    /// The position up to which the base has been copied or passed.
    read: usize,
}

impl Splice<'_> {
    fn copy_to(&mut self, at: usize) -> Result<(), DeltaError> {
        let bytes = self.base.get(self.read..at).ok_or(DeltaError::OutOfPlace(at))?;
        self.out.extend_from_slice(bytes);
        self.read = at;
        Ok(())
    }

    fn pass(&mut self, to: usize) -> Result<(), DeltaError> {
        if to < self.read || to > self.base.len() {
            return Err(DeltaError::OutOfPlace(to));
        }
        self.read = to;
        Ok(())
    }

    fn replace(&mut self, at: &Range<usize>, value: &[u8]) -> Result<(), DeltaError> {
        self.copy_to(at.start)?;
        self.out.extend_from_slice(value);
        self.pass(at.end)
    }

    /// Carries out one operation on the bytes of the base. Operations are in the order of their places, so one pass is
    /// enough.
    fn operate(&mut self, operation: &PatchOperation<'_>) -> Result<(), DeltaError> {
        match operation.op {
            b"replace" if !operation.value.is_empty() => self.replace(&operation.at, operation.value),
            b"add" if !operation.value.is_empty() && operation.at.is_empty() => self.add(operation),
            b"remove" => {
                self.copy_to(operation.at.start)?;
                self.pass(operation.at.end)?;
                // The last member is gone: so is the comma before it.
                if matches!(self.base.get(self.read), Some(b'}' | b']')) && self.out.last() == Some(&b',') {
                    self.out.pop();
                }
                Ok(())
            }
            _ => Err(DeltaError::Malformed("an operation of another form")),
        }
    }

    /// Adds a member or element with the comma it needs, which depends on its neighbours.
    fn add(&mut self, operation: &PatchOperation<'_>) -> Result<(), DeltaError> {
        self.copy_to(operation.at.start)?;
        if !matches!(self.out.last(), Some(b'{' | b'[' | b',')) {
            self.out.push(b',');
        }
        if operation.is_member {
            self.out.push(b'"');
            push_last_step(&mut self.out, operation.path)?;
            self.out.extend_from_slice(b"\":");
        }
        self.out.extend_from_slice(operation.value);
        if !matches!(self.base.get(self.read), Some(b'}' | b']' | b',')) {
            self.out.push(b',');
        }
        Ok(())
    }
}

/// The name of a member is the last step of its pointer.
fn push_last_step(out: &mut Vec<u8>, path: &[u8]) -> Result<(), DeltaError> {
    let mut steps = path.rsplit(|byte| *byte == b'/');
    let mut rest = steps.next().unwrap_or_default();
    while let Some((byte, tail)) = rest.split_first() {
        rest = tail;
        if *byte != b'~' {
            out.push(*byte);
            continue;
        }
        let (escaped, tail) = rest.split_first().ok_or(DeltaError::Malformed("a pointer that ends in ~"))?;
        rest = tail;
        out.push(if *escaped == b'1' { b'/' } else { b'~' });
    }
    Ok(())
}
