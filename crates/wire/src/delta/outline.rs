//! [`Outline`]: the byte ranges of the larger containers of an object, so that a comparison can skip them.
//!
//! A comparison returns the path of a difference, and so walks over everything before it. Most of that is in
//! containers that did not change. Reading an object for its outline costs as much as one comparison without; the
//! outline of the next version is then [derived](Outline::after) from the changes, so that a series of comparisons
//! reads only the changes. It is an optimization only: without one the result is the same.

use std::ops::Range;

use listwatch_json::raw;

/// A smaller container is read as quickly as it is looked up.
const LEAST_BYTES: usize = 128;

/// The larger containers of an object, in the order in which they begin.
///
/// Valid for the bytes that it was made for, and no others. Eight bytes per container, about a thirtieth of an object.
///
/// ```
/// use listwatch_wire::delta::Outline;
///
/// let object = format!(r#"{{"data":{{"k":"{}"}},"z":1}}"#, "x".repeat(200));
/// assert_eq!(Outline::of(object.as_bytes()).lookup(object.as_bytes(), &["z"]), Some(&b"1"[..]));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outline {
    extents: Box<[Extent]>,
}

/// The first byte of a container and the one after its last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    start: u32,
    end: u32,
}

/// A byte range of the old version, and the range that replaces it in the new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChangedBytes {
    pub(super) old: Range<usize>,
    pub(super) new: Range<usize>,
}

impl Outline {
    /// Reads an object. One that is not longer than a few containers would be, or is no JSON, has an empty outline.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let mut extents = Vec::new();
        if bytes.len() >= 2 * LEAST_BYTES && u32::try_from(bytes.len()).is_ok() {
            collect(bytes, 0..bytes.len(), &mut extents);
        }
        Self { extents: extents.into() }
    }

    /// The memory that it takes up.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.extents)
    }

    /// The bytes of the value at a path of object keys, as [`raw::lookup`] finds them.
    #[must_use]
    pub fn lookup<'a>(&self, bytes: &'a [u8], path: &[&str]) -> Option<&'a [u8]> {
        let mut start = 0;
        for step in path {
            let mut fields = raw::fields(bytes, start)?;
            start = loop {
                let (key, value) = fields.next_key()?;
                if bytes.get(key)? == step.as_bytes() {
                    break value;
                }
                fields.pass(self.skip(bytes, value)?);
            };
        }
        bytes.get(start..self.skip(bytes, start)?)
    }

    /// The position after the value that begins at `at`.
    pub(super) fn skip(&self, bytes: &[u8], at: usize) -> Option<usize> {
        self.end_of(at).or_else(|| raw::skip_value(bytes, at))
    }

    /// The position after the container that begins at `at`, if that is one of the larger ones.
    pub(super) fn end_of(&self, at: usize) -> Option<usize> {
        let start = u32::try_from(at).ok()?;
        let place = self.extents.binary_search_by_key(&start, |extent| extent.start).ok()?;
        self.extents.get(place).map(|extent| extent.end as usize)
    }

    /// The outline of the new version: containers around changes grow or shrink, those behind them move, and
    /// what was changed is read. `changed` is in order and does not overlap.
    pub(super) fn after(&self, changed: &[ChangedBytes], new: &[u8]) -> Self {
        let mut extents = Vec::with_capacity(self.extents.len() + changed.len());
        let mut rest = &*self.extents;
        let mut moves = Moves::default();
        for change in changed {
            let before = rest.partition_point(|extent| (extent.start as usize) < change.old.start);
            let (outside, others) = rest.split_at(before);
            extents.extend(outside.iter().filter_map(|extent| moves.moved(*extent, changed)));
            let inside = others.partition_point(|extent| (extent.start as usize) < change.old.end);
            rest = others.get(inside..).unwrap_or_default();
            collect(new, change.new.clone(), &mut extents);
            moves.pass(change);
        }
        extents.extend(rest.iter().filter_map(|extent| moves.moved(*extent, changed)));
        Self { extents: extents.into() }
    }
}

/// The distance by which bytes have moved, at the place that a walk over changes has reached.
#[derive(Clone, Copy, Debug, Default)]
struct Moves {
    passed: usize,
    by: isize,
}

impl Moves {
    fn pass(&mut self, change: &ChangedBytes) {
        self.passed += 1;
        self.by += change.new.len().cast_signed() - change.old.len().cast_signed();
    }

    /// The new place of a container that begins before the next change. Changes inside of it move its end.
    fn moved(self, extent: Extent, changed: &[ChangedBytes]) -> Option<Extent> {
        let mut at_end = self;
        let ahead = changed.iter().skip(self.passed);
        ahead
            .take_while(|change| change.old.end <= extent.end as usize)
            .for_each(|change| at_end.pass(change));
        let place = |at: u32, moves: Self| u32::try_from((at as usize).checked_add_signed(moves.by)?).ok();
        Some(Extent { start: place(extent.start, self)?, end: place(extent.end, at_end)? })
    }
}

/// Appends the larger containers of a part of an object that begins and ends outside of strings.
fn collect(bytes: &[u8], part: Range<usize>, extents: &mut Vec<Extent>) {
    if part.len() < LEAST_BYTES {
        return;
    }
    // The places in `extents` of the containers that are open.
    let mut open = Vec::new();
    let mut at = part.start;
    while let Some(byte) = bytes.get(at).filter(|_| at < part.end) {
        let start = at;
        match byte {
            b'"' => match raw::skip_value(bytes, at) {
                Some(end) => at = end,
                None => break,
            },
            _ => at += 1,
        }
        match byte {
            b'{' | b'[' => {
                open.push(extents.len());
                extents.push(Extent { start: u32::try_from(start).unwrap_or(u32::MAX), end: 0 });
            }
            b'}' | b']' => {
                let Some(place) = open.pop() else { break };
                close(extents, place, at);
            }
            _ => {}
        }
    }
    // What did not end is not a container.
    extents.truncate(open.first().copied().unwrap_or(extents.len()));
}

/// Ends a container. If it is too small it is dropped; containers inside of it were smaller and dropped before, so it
/// is the last.
fn close(extents: &mut Vec<Extent>, place: usize, end: usize) {
    let Some(extent) = extents.get_mut(place) else { return };
    if end - (extent.start as usize) < LEAST_BYTES {
        extents.truncate(place);
    } else {
        extent.end = u32::try_from(end).unwrap_or(u32::MAX);
    }
}
