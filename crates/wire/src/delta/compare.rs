//! [`compare()`]: computes the operations that turn one encoded version of an object into another.
//!
//! Both are canonical, so equal values are equal bytes. The walk goes through the old version once, from one difference
//! to the next: equal stretches are compared as bytes, and parsed only to know the path; with an [`Outline`], the larger
//! containers among them are skipped. A difference of two scalars is found in place. Where members or elements were added
//! or removed, the innermost container around them is compared member by member.

use std::ops::Range;

use listwatch_json::raw;

use super::members::{ComparedPlace, MemberComparison};
use super::outline::{ChangedBytes, Outline};

/// More operations than this say that another object is meant: the whole one is sent.
pub(super) const MAX_EDITS: usize = 200;
/// The bytes of an encoded operation beside its path and value.
const EDIT_BYTES: usize = 52;

/// One operation of a patch, with the bytes of the base that it replaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit<'a> {
    /// The JSON pointer, as the inside of a JSON string.
    pub path: Vec<u8>,
    /// The operation.
    pub op: EditOp<'a>,
    /// The bytes of the base that it is about; empty for an addition.
    pub at: Range<usize>,
}

/// The operation of an [`Edit`], with the encoded new value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EditOp<'a> {
    /// A new member of an object.
    AddMember(&'a [u8]),
    /// A new element of an array.
    AddElement(&'a [u8]),
    /// Another value in the same place.
    Replace(&'a [u8]),
    /// Nothing in this place any more.
    Remove,
}

impl EditOp<'_> {
    /// The bytes that an operation carries.
    fn bytes(&self) -> usize {
        match self {
            Self::AddMember(value) | Self::AddElement(value) | Self::Replace(value) => value.len(),
            Self::Remove => 0,
        }
    }
}

impl Edit<'_> {
    /// An estimate of the encoded size, by which a patch is given up for the whole object.
    fn cost(&self) -> usize {
        EDIT_BYTES + self.path.len() + self.op.bytes()
    }
}

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compared<'a> {
    /// These operations, in the order of the bytes they are about.
    Edits(Vec<Edit<'a>>),
    /// A patch would be larger than was allowed, or the two cannot be compared.
    Whole,
}

/// Compares two canonical encodings, for a patch of about `max_bytes` at most.
///
/// ```
/// use listwatch_wire::delta::{Compared, EditOp, compare};
///
/// let (before, after) = (br#"{"metadata":{"name":"a"},"spec":{"n":1}}"#, br#"{"metadata":{"name":"a"},"spec":{"n":2}}"#);
/// let Compared::Edits(edits) = compare(before, after, 1000) else { unreachable!() };
/// assert_eq!((&*edits[0].path, &edits[0].op, &edits[0].at), (&b"/spec/n"[..], &EditOp::Replace(b"2"), &(37..38)));
/// ```
#[must_use]
pub fn compare<'a>(before: &[u8], after: &'a [u8], max_bytes: usize) -> Compared<'a> {
    let outline = Outline::default();
    let mut walk = Comparison::new(before, &outline, after);
    match walk.run(max_bytes) {
        Some(()) => Compared::Edits(walk.edits),
        None => Compared::Whole,
    }
}

/// Compares as [`compare()`] does, with the outline of the old version. Returns that of the new one as well, for the next
/// comparison; `None` if there is no patch.
#[must_use]
pub fn compare_outlined<'a>(
    (before, outline): (&[u8], &Outline),
    after: &'a [u8],
    max_bytes: usize,
) -> Option<(Vec<Edit<'a>>, Outline)> {
    let mut walk = Comparison::new(before, outline, after);
    walk.run(max_bytes)?;
    Some((walk.edits, outline.after(&walk.changed, after)))
}

/// A container that the walk is inside of.
struct OpenContainer {
    /// Its begin in the old and in the new version.
    start: usize,
    other: usize,
    /// The number of operations before it.
    edits: usize,
    is_object: bool,
    /// In an object: the next string is a key.
    expects_key: bool,
    key: Range<usize>,
    index: usize,
}

/// The kinds of tokens that a comparison can begin at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TokenKind {
    Key,
    /// A string or literal.
    Scalar,
    /// A container that is equal as a whole.
    Container,
    Open,
    Close,
    Separator,
}

#[derive(Clone, Copy, Debug)]
struct ComparedToken {
    kind: TokenKind,
    start: usize,
    end: usize,
}

/// Reads two versions side by side. Equal stretches are skipped by bytes, without parsing.
struct Comparison<'a, 'b> {
    a: &'b [u8],
    outline: &'b Outline,
    b: &'a [u8],
    /// The position up to which the old version has been read.
    at: usize,
    /// The offset from a place in the old version to the same place in the new one.
    shift: isize,
    frames: Vec<OpenContainer>,
    edits: Vec<Edit<'a>>,
    /// The stretches that were not found equal, in order.
    changed: Vec<ChangedBytes>,
}

impl<'a, 'b> Comparison<'a, 'b> {
    fn new(a: &'b [u8], outline: &'b Outline, b: &'a [u8]) -> Self {
        let (frames, edits, changed) = Default::default();
        Self { a, outline, b, at: 0, shift: 0, frames, edits, changed }
    }

    /// Walks both versions, skipping what is equal, until they end or the operations cost more than they save.
    fn run(&mut self, max_bytes: usize) -> Option<()> {
        let (mut cost, mut counted) = (0, 0);
        loop {
            let other = self.other(self.at)?;
            let equal = common_prefix(self.a.get(self.at..)?, self.b.get(other..)?);
            let target = self.at + equal;
            if target == self.a.len() && other + equal == self.b.len() {
                return self.settle();
            }
            self.step(target)?;
            cost += self.edits.get(counted..).unwrap_or_default().iter().map(Edit::cost).sum::<usize>();
            counted = self.edits.len();
            // A collapse makes this an overestimate, by at most what the walk would have been stopped at anyway.
            if self.edits.len() > MAX_EDITS || cost > max_bytes.saturating_mul(2) {
                return None;
            }
        }
    }

    /// The same place in the new version.
    fn other(&self, at: usize) -> Option<usize> {
        at.checked_add_signed(self.shift)
    }

    /// Deals with the difference at `target`.
    fn step(&mut self, target: usize) -> Option<()> {
        loop {
            let token = self.token(target)?;
            let reaches = token.end > target || (token.kind == TokenKind::Scalar && token.end == target);
            if !reaches {
                self.consume(token)?;
                continue;
            }
            let other = self.other(token.start)?;
            if token.kind == TokenKind::Scalar && token.end == target {
                // A literal that is longer in the new version, or one that is equal and followed by something else.
                let end = raw::skip_value(self.b, other)?;
                if self.b.get(other..end)? == self.a.get(token.start..token.end)? {
                    self.consume(token)?;
                    continue;
                }
            }
            return match token.kind {
                TokenKind::Scalar | TokenKind::Open => self.replace(token, other),
                TokenKind::Key | TokenKind::Container | TokenKind::Close | TokenKind::Separator => {
                    self.members()
                }
            };
        }
    }

    /// Another value in the same place.
    fn replace(&mut self, token: ComparedToken, other: usize) -> Option<()> {
        if self.frames.is_empty() {
            return None;
        }
        if !begins_value(*self.b.get(other)?) {
            // The new version has no further element.
            return self.members();
        }
        let (end, other_end) = (self.outline.skip(self.a, token.start)?, raw::skip_value(self.b, other)?);
        let edit = Edit {
            path: self.path(),
            op: EditOp::Replace(self.b.get(other..other_end)?),
            at: token.start..end,
        };
        self.edits.push(edit);
        self.go_on(ChangedBytes { old: token.start..end, new: other..other_end })
    }

    /// Continues after a changed range. It may enclose earlier ones.
    fn go_on(&mut self, changed: ChangedBytes) -> Option<()> {
        let (at, other) = (changed.old.end, changed.new.end);
        self.at = at;
        self.shift = isize::try_from(other).ok()? - isize::try_from(at).ok()?;
        while self.changed.pop_if(|inner| inner.old.start >= changed.old.start).is_some() {}
        self.changed.push(changed);
        Some(())
    }

    /// Compares the container that the walk is inside of, member by member, from its begin.
    fn members(&mut self) -> Option<()> {
        let mut frame = self.frames.pop()?;
        // A different element may be a new one: comparing the whole array finds those that stayed.
        if let Some(array) = self.frames.pop_if(|outer| !outer.is_object) {
            frame = array;
        }
        let (end, other_end) =
            (self.outline.skip(self.a, frame.start)?, raw::skip_value(self.b, frame.other)?);
        self.edits.truncate(frame.edits);
        let path = self.path();
        let mut members = MemberComparison { a: self.a, b: self.b, edits: &mut self.edits };
        let place = ComparedPlace { path: &path, depth: 0, fixed: self.frames.len() < 2 };
        members.value(place, frame.start..end, frame.other..other_end)?;
        self.go_on(ChangedBytes { old: frame.start..end, new: frame.other..other_end })
    }

    /// The next token of the walk, on its way to a difference. A container that ends before the difference is one
    /// token.
    fn token(&self, target: usize) -> Option<ComparedToken> {
        let start = self.at;
        let top = self.frames.last();
        let (kind, end) = match self.a.get(start)? {
            b'"' => {
                let is_key = top.is_some_and(|top| top.is_object && top.expects_key);
                (if is_key { TokenKind::Key } else { TokenKind::Scalar }, raw::skip_value(self.a, start)?)
            }
            b'{' | b'[' => match self.outline.end_of(start).filter(|end| *end <= target) {
                Some(end) => (TokenKind::Container, end),
                None => (TokenKind::Open, start + 1),
            },
            b'}' | b']' => (TokenKind::Close, start + 1),
            b',' | b':' => (TokenKind::Separator, start + 1),
            _ => (TokenKind::Scalar, raw::skip_value(self.a, start).filter(|end| *end > start)?),
        };
        Some(ComparedToken { kind, start, end })
    }

    /// Takes a token that is equal in both versions, and keeps the stack of open containers, from which paths are made.
    fn consume(&mut self, token: ComparedToken) -> Option<()> {
        let byte = *self.a.get(token.start)?;
        match token.kind {
            TokenKind::Open => self.frames.push(OpenContainer {
                start: token.start,
                other: self.other(token.start)?,
                edits: self.edits.len(),
                is_object: byte == b'{',
                expects_key: byte == b'{',
                key: 0..0,
                index: 0,
            }),
            TokenKind::Close => {
                let frame = self.frames.pop()?;
                self.collapse(&frame, token.end)?;
            }
            TokenKind::Key => {
                let top = self.frames.last_mut()?;
                top.key = token.start + 1..token.end - 1;
                top.expects_key = false;
            }
            TokenKind::Separator if byte == b',' => {
                let top = self.frames.last_mut()?;
                top.expects_key = top.is_object;
                top.index += 1;
            }
            TokenKind::Separator | TokenKind::Scalar | TokenKind::Container => {}
        }
        self.at = token.end;
        Some(())
    }

    /// Replaces a container as a whole if that is shorter than the operations inside it. Not the object itself and its
    /// metadata, which have a resourceVersion that the stored form has not.
    fn collapse(&mut self, frame: &OpenContainer, end: usize) -> Option<()> {
        if self.edits.len() < frame.edits + 2 || self.frames.len() < 2 {
            return Some(());
        }
        let (path, new) = (self.path(), self.b.get(frame.other..self.other(end)?)?);
        shorten(&mut self.edits, frame.edits, path, new, frame.start..end);
        Some(())
    }

    /// The rest is equal: the containers that are still open are looked at as if they had ended.
    fn settle(&mut self) -> Option<()> {
        while let Some(frame) = self.frames.pop() {
            if self.edits.len() >= frame.edits + 2 && self.frames.len() >= 2 {
                let end = self.outline.skip(self.a, frame.start)?;
                self.collapse(&frame, end)?;
            }
        }
        Some(())
    }

    /// The JSON pointer of the current position.
    fn path(&self) -> Vec<u8> {
        let mut path = Vec::with_capacity(64);
        for frame in &self.frames {
            match frame.is_object {
                true => push_key(&mut path, self.a.get(frame.key.clone()).unwrap_or_default()),
                false => push_index(&mut path, frame.index),
            }
        }
        path
    }
}

/// Puts one operation in the place of several if it is shorter.
pub(super) fn shorten<'a>(
    edits: &mut Vec<Edit<'a>>,
    from: usize,
    path: Vec<u8>,
    new: &'a [u8],
    at: Range<usize>,
) {
    let inside: usize = edits.get(from..).unwrap_or_default().iter().map(Edit::cost).sum();
    let whole = Edit { path, op: EditOp::Replace(new), at };
    if whole.cost() < inside {
        edits.truncate(from);
        edits.push(whole);
    }
}

/// True unless the byte separates or ends.
fn begins_value(byte: u8) -> bool {
    !matches!(byte, b',' | b':' | b'}' | b']')
}

/// Returns the number of equal bytes at the begin.
fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    /// Bytes that are compared at a time: one cache line.
    const STRIDE: usize = 64;
    let equal_strides =
        a.chunks_exact(STRIDE).zip(b.chunks_exact(STRIDE)).take_while(|(a, b)| a == b).count();
    let from = equal_strides * STRIDE;
    let rest = a.iter().skip(from).zip(b.iter().skip(from));
    from + rest.take_while(|(a, b)| a == b).count()
}

/// A step of a pointer. The key stays as it is encoded: a pointer is the inside of a JSON string as well.
pub(super) fn push_key(path: &mut Vec<u8>, key: &[u8]) {
    path.push(b'/');
    for byte in key {
        match byte {
            b'~' => path.extend_from_slice(b"~0"),
            b'/' => path.extend_from_slice(b"~1"),
            byte => path.push(*byte),
        }
    }
}

pub(super) fn push_index(path: &mut Vec<u8>, index: usize) {
    path.push(b'/');
    path.extend_from_slice(index.to_string().as_bytes());
}
