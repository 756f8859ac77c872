//! Comparison of two containers member by member: which members and elements stayed, changed, were added or removed.
//!
//! Stored objects are canonical, so equal values are equal bytes and nothing is decoded. Bounds keep the worst case
//! small: 64 levels, `MAX_EDITS` operations, and a longest common subsequence only for up to 64 elements, since its
//! table grows with the product. Beyond a bound the container is replaced as a whole, which is correct and merely
//! longer. `metadata` is never replaced as a whole: the client finds the resourceVersion in it by offset.

use std::ops::Range;

use listwatch_json::raw::{self, RawField};

use super::compare::{Edit, EditOp, MAX_EDITS, push_index, push_key, shorten};

/// Containers this deep inside a changed one are replaced rather than entered: recursion must end before the stack does.
const MAX_DEPTH: usize = 64;

/// The place of a comparison of members.
#[derive(Clone, Copy)]
pub(super) struct ComparedPlace<'p> {
    pub(super) path: &'p [u8],
    pub(super) depth: usize,
    /// It must not be replaced as a whole.
    pub(super) fixed: bool,
}

impl ComparedPlace<'_> {
    /// The path of a member.
    fn member(&self, key: &[u8]) -> Vec<u8> {
        let mut path = self.path.to_vec();
        push_key(&mut path, key);
        path
    }
}

/// Compares values member by member.
pub(super) struct MemberComparison<'a, 'b, 'e> {
    pub(super) a: &'b [u8],
    pub(super) b: &'a [u8],
    pub(super) edits: &'e mut Vec<Edit<'a>>,
}

impl<'a> MemberComparison<'a, '_, '_> {
    /// Compares two values that differ. Returns `None` if there is no use in a delta: too many operations, or a place
    /// that must not be replaced as a whole.
    pub(super) fn value(
        &mut self,
        place: ComparedPlace<'_>,
        old: Range<usize>,
        new: Range<usize>,
    ) -> Option<()> {
        let (before, after) = (self.a.get(old.clone())?, self.b.get(new.clone())?);
        if before == after {
            return Some(());
        }
        let from = self.edits.len();
        let entered = match (before.first()?, after.first()?) {
            _ if place.depth > MAX_DEPTH => false,
            (b'{', b'{') => self.object(place, &old, &new)?,
            (b'[', b'[') => self.array(place, &old, &new)?,
            _ => false,
        };
        if self.edits.len() > MAX_EDITS {
            return None;
        }
        if entered {
            if !place.fixed && self.edits.len() >= from + 2 {
                shorten(self.edits, from, place.path.to_vec(), after, old);
            }
            return Some(());
        }
        if place.fixed {
            return None;
        }
        self.edits.truncate(from);
        self.edits.push(Edit { path: place.path.to_vec(), op: EditOp::Replace(after), at: old });
        Some(())
    }

    /// False if members changed their order, which no operation can say.
    fn object(&mut self, place: ComparedPlace<'_>, old: &Range<usize>, new: &Range<usize>) -> Option<bool> {
        let before: Vec<RawField> = raw::fields(self.a, old.start)?.collect();
        let after: Vec<RawField> = raw::fields(self.b, new.start)?.collect();
        let key = |bytes, field: &RawField| -> Option<&[u8]> { <[u8]>::get(bytes, field.key.clone()) };
        let (mut i, mut j, mut end) = (0, 0, old.start + 1);
        loop {
            let (x, y) = (before.get(i), after.get(j));
            let (old_key, new_key) = (x.and_then(|x| key(self.a, x)), y.and_then(|y| key(self.b, y)));
            match (x, y) {
                (None, None) => return Some(true),
                (Some(x), Some(y)) if old_key == new_key => {
                    let path = place.member(old_key?);
                    let inner =
                        ComparedPlace { path: &path, depth: place.depth + 1, fixed: is_metadata(&path) };
                    self.value(inner, x.value.clone(), y.value.clone())?;
                    (i, j, end) = (i + 1, j + 1, x.value.end);
                }
                (Some(x), _) if !after.iter().skip(j).any(|y| key(self.b, y) == old_key) => {
                    end = self.remove(place.member(old_key?), x.key.start - 1..x.value.end);
                    i += 1;
                }
                (_, Some(y)) if !before.iter().skip(i).any(|x| key(self.a, x) == new_key) => {
                    let op = EditOp::AddMember(self.b.get(y.value.clone())?);
                    self.edits.push(Edit { path: place.member(new_key?), op, at: end..end });
                    j += 1;
                }
                _ => return Some(false),
            }
            if self.edits.len() > MAX_EDITS {
                return None;
            }
        }
    }

    /// Compares arrays by the elements that stayed, so that an insertion at the front is one operation and not one per
    /// element.
    fn array(&mut self, place: ComparedPlace<'_>, old: &Range<usize>, new: &Range<usize>) -> Option<bool> {
        let (before, after) = (elements(self.a, old.start)?, elements(self.b, new.start)?);
        let same = |x: usize, y: usize| {
            let (x, y) = (before.get(x).cloned(), after.get(y).cloned());
            x.and_then(|x| self.a.get(x)) == y.and_then(|y| self.b.get(y))
        };
        let mut kept = kept(before.len(), after.len(), same);
        kept.push((before.len(), after.len()));
        let mut at = ArrayPosition { old: 0, new: 0, index: 0, end: old.start + 1 };
        for (x, y) in kept {
            let (gone, come) = (before.get(at.old..x)?, after.get(at.new..y)?);
            self.stretch(place, &mut at, gone, come)?;
            at = ArrayPosition { old: x + 1, new: y + 1, index: at.index + 1, end: at.end };
            if let Some(element) = before.get(x) {
                at.end = element.end;
            }
        }
        Some(true)
    }

    /// The elements between two that stayed: they are paired one by one, and the rest of either side is removed or
    /// added.
    fn stretch(
        &mut self,
        place: ComparedPlace<'_>,
        at: &mut ArrayPosition,
        before: &[Range<usize>],
        after: &[Range<usize>],
    ) -> Option<()> {
        for n in 0..before.len().max(after.len()) {
            let mut path = place.path.to_vec();
            push_index(&mut path, at.index);
            match (before.get(n).cloned(), after.get(n).cloned()) {
                (Some(x), Some(y)) => {
                    at.end = x.end;
                    let inner = ComparedPlace { path: &path, depth: place.depth + 1, fixed: false };
                    self.value(inner, x, y)?;
                    at.index += 1;
                }
                // After a removal the next element has the same index.
                (Some(x), None) => at.end = self.remove(path, x),
                (None, Some(y)) => {
                    let op = EditOp::AddElement(self.b.get(y)?);
                    self.edits.push(Edit { path, op, at: at.end..at.end });
                    at.index += 1;
                }
                (None, None) => return None,
            }
            if self.edits.len() > MAX_EDITS {
                return None;
            }
        }
        Some(())
    }

    /// Removes a member or element with the comma after it. Returns the position at which the base continues.
    fn remove(&mut self, path: Vec<u8>, mut at: Range<usize>) -> usize {
        if self.a.get(at.end) == Some(&b',') {
            at.end += 1;
        }
        let end = at.end;
        self.edits.push(Edit { path, op: EditOp::Remove, at });
        end
    }
}

/// The place in an array that a comparison has reached.
struct ArrayPosition {
    old: usize,
    new: usize,
    /// The index in the array as it is patched so far.
    index: usize,
    /// The position at which the base continues.
    end: usize,
}

/// Arrays whose middle parts have more elements are compared at their ends only: the table grows with the product.
const MAX_ALIGNED: usize = 64;

/// The elements that stay, as pairs of places in order: those at both ends, and between them the longest common subsequence.
fn kept(before: usize, after: usize, same: impl Fn(usize, usize) -> bool) -> Vec<(usize, usize)> {
    let shorter = before.min(after);
    let head = (0..shorter).take_while(|n| same(*n, *n)).count();
    let tail = (1..=shorter - head).take_while(|n| same(before - n, after - n)).count();
    let mut kept: Vec<(usize, usize)> = (0..head).map(|n| (n, n)).collect();
    let (rows, columns) = (before - head - tail, after - head - tail);
    if rows <= MAX_ALIGNED && columns <= MAX_ALIGNED {
        kept.extend(
            aligned(rows, columns, |x, y| same(head + x, head + y)).iter().map(|(x, y)| (head + x, head + y)),
        );
    }
    kept.extend((1..=tail).rev().map(|n| (before - n, after - n)));
    kept
}

/// The longest common subsequence.
fn aligned(rows: usize, columns: usize, same: impl Fn(usize, usize) -> bool) -> Vec<(usize, usize)> {
    // Lengths for the rest after each pair of places, a row and a column more than there are elements.
    let width = columns + 1;
    let mut lengths = vec![0_u8; (rows + 1) * width];
    let length = |lengths: &[u8], x: usize, y: usize| lengths.get(x * width + y).copied().unwrap_or(0);
    for x in (0..rows).rev() {
        for y in (0..columns).rev() {
            let longest = match same(x, y) {
                true => length(&lengths, x + 1, y + 1) + 1,
                false => length(&lengths, x + 1, y).max(length(&lengths, x, y + 1)),
            };
            if let Some(slot) = lengths.get_mut(x * width + y) {
                *slot = longest;
            }
        }
    }
    let (mut x, mut y, mut found) = (0, 0, Vec::new());
    while x < rows && y < columns {
        if same(x, y) {
            found.push((x, y));
            (x, y) = (x + 1, y + 1);
        } else if length(&lengths, x + 1, y) >= length(&lengths, x, y + 1) {
            x += 1;
        } else {
            y += 1;
        }
    }
    found
}

fn is_metadata(path: &[u8]) -> bool {
    path == b"/metadata"
}

/// The elements of the array that begins at `at`.
fn elements(bytes: &[u8], at: usize) -> Option<Vec<Range<usize>>> {
    let (mut elements, mut at) = (Vec::new(), at + 1);
    if bytes.get(at)? == &b']' {
        return Some(elements);
    }
    loop {
        let end = raw::skip_value(bytes, at).filter(|end| *end > at)?;
        elements.push(at..end);
        match bytes.get(end)? {
            b',' => at = end + 1,
            b']' => return Some(elements),
            _ => return None,
        }
    }
}
