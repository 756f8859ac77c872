//! Application of a patch to bytes: one pass over the base, in the order of the operations.
//!
//! Operations must come in ascending order of their byte ranges; one that goes back or beyond the base is refused, so
//! no input can make the pass read outside of it or copy more than base and patch hold. The resourceVersion is replaced
//! on the way, at the offset that the event names. Commas are put right here because an operation names a value and not
//! its separators. The result is checked by the caller in `event`.

use std::ops::Range;

use listwatch_json::raw;

use super::event::DeltaError;

/// An operation with the bytes of the base that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PatchOperation<'a> {
    pub(super) path: &'a [u8],
    op: &'a [u8],
    value: &'a [u8],
    at: Range<usize>,
    is_member: bool,
}

/// The operations of a patch, in order, and the number of its bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DeltaPatch<'a> {
    pub(super) operations: Vec<PatchOperation<'a>>,
    pub(super) bytes: usize,
}

impl<'a> DeltaPatch<'a> {
    /// Reads the patch that begins at `at`: once, both to find its end and to apply it.
    pub(super) fn read(json: &'a [u8], at: usize) -> Option<Self> {
        let mut operations = Vec::new();
        let mut next = raw::skip_space(json, (json.get(at) == Some(&b'[')).then_some(at + 1)?);
        while json.get(next)? != &b']' {
            let (operation, end) = read_operation(json, next)?;
            operations.push(operation);
            let end = raw::skip_space(json, end);
            next = match json.get(end)? {
                b',' => raw::skip_space(json, end + 1),
                b']' => end,
                _ => return None,
            };
        }
        Some(Self { operations, bytes: next + 1 - at })
    }
}

/// Reads one operation, and returns it with the position after it. Unknown fields are skipped, so that a later server may add
/// some.
fn read_operation(json: &[u8], at: usize) -> Option<(PatchOperation<'_>, usize)> {
    let mut operation = PatchOperation { path: b"", op: b"", value: b"", at: 0..0, is_member: false };
    let mut fields = raw::fields(json, at)?;
    for field in &mut fields {
        let value = json.get(field.value.clone())?;
        match json.get(field.key)? {
            b"op" => operation.op = inside(value)?,
            b"path" => operation.path = inside(value)?,
            b"value" => operation.value = value,
            b"at" => (operation.at, operation.is_member) = place(value)?,
            _ => {}
        }
    }
    fields.is_complete().then(|| (operation, fields.position() + 1))
}

fn inside(value: &[u8]) -> Option<&[u8]> {
    value.strip_prefix(b"\"")?.strip_suffix(b"\"")
}

/// `[offset,length]`, and a third number where the name of a member is inserted too.
fn place(value: &[u8]) -> Option<(Range<usize>, bool)> {
    let inner = std::str::from_utf8(value.strip_prefix(b"[")?.strip_suffix(b"]")?).ok()?;
    let (offset, rest) = inner.split_once(',')?;
    let (length, is_member) = rest.split_once(',').map_or((rest, false), |(length, _)| (length, true));
    let (offset, length): (usize, usize) = (offset.trim().parse().ok()?, length.trim().parse().ok()?);
    Some((offset..offset.checked_add(length)?, is_member))
}

/// Makes the new version of an object from its base. `versions` are the resourceVersions of both, the first of which is at
/// the offset `at`.
pub(super) fn apply(
    base: &[u8],
    (at, versions): (usize, (&str, &str)),
    patch: &DeltaPatch<'_>,
    room: usize,
) -> Result<Vec<u8>, DeltaError> {
    let (old, new) = (versions.0.as_bytes(), versions.1.as_bytes());
    let mut splice = Splice { base, out: Vec::with_capacity(room), read: 0 };
    let mut version = Some(at..at.saturating_add(old.len()));
    if base.get(at..at.saturating_add(old.len())) != Some(old) {
        return Err(DeltaError::OutOfPlace(at));
    }
    for operation in &patch.operations {
        if let Some(place) = version.take_if(|version| version.start <= operation.at.start) {
            splice.replace(&place, new)?;
        }
        splice.operate(operation)?;
    }
    if let Some(place) = version {
        splice.replace(&place, new)?;
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

    /// Moves on in the base without copying. Places come in order, so that going back means that the delta is
    /// damaged.
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
                // The last member was removed, so the comma before it is removed, too.
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
