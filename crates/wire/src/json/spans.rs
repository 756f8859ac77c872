//! [`Spans`]: where in its bytes the larger containers of an object are.
//!
//! The next version of an object shares most containers with this one. Knowing where they were written, its encoding
//! copies their bytes instead of writing them again: the cost of an encoding is that of what changed, and of one copy.

use std::ops::Range;

use super::{List, Map};

/// Below this many bytes a container is written as quickly as it is found.
const WORTH_IT: usize = 128;

/// Where the larger containers of a tree are in its bytes. Means something only together with that tree, kept alive, and
/// those bytes.
#[derive(Clone, Debug, Default)]
pub struct Spans(Vec<Span>);

#[derive(Clone, Copy, Debug)]
struct Span {
    container: usize,
    start: u32,
    end: u32,
}

/// A container by its address. While a tree holds it, no other container can have it.
pub(super) trait Addressed {
    fn address(&self) -> usize;
}

impl Addressed for List {
    fn address(&self) -> usize {
        self.as_ptr_address()
    }
}

impl Addressed for Map {
    fn address(&self) -> usize {
        self.as_ptr_address()
    }
}

impl Spans {
    /// Notes that a container was written from `start` to the end of `out`.
    pub(super) fn note(&mut self, container: &impl Addressed, start: usize, out: &[u8]) {
        if out.len() - start >= WORTH_IT {
            let position = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
            let (start, end) = (position(start), position(out.len()));
            self.0.push(Span { container: container.address(), start, end });
        }
    }

    /// Where a container is.
    fn find(&self, container: &impl Addressed) -> Option<Range<usize>> {
        let address = container.address();
        let span = self.0.iter().find(|span| span.container == address)?;
        Some(span.start as usize..span.end as usize)
    }

    /// Notes what was inside a range of the old bytes, which now begins at `start`.
    fn adopt(&mut self, old: &Self, range: &Range<usize>, start: usize) {
        let inside = |span: &&Span| span.start as usize >= range.start && span.end as usize <= range.end;
        let moved = |at: u32| u32::try_from(at as usize - range.start + start).unwrap_or(u32::MAX);
        let spans = old.0.iter().filter(inside);
        self.0.extend(spans.map(|span| Span { start: moved(span.start), end: moved(span.end), ..*span }));
    }
}

/// The bytes of a tree with which others may share containers.
#[derive(Clone, Copy, Debug)]
pub struct Written<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// Where its containers are in them.
    pub spans: &'a Spans,
}

impl Written<'_> {
    /// Copies a container that is written there already; whether it was.
    pub(super) fn copy(&self, container: &impl Addressed, out: &mut Vec<u8>, spans: &mut Spans) -> bool {
        let Some(range) = self.spans.find(container) else { return false };
        let Some(bytes) = self.bytes.get(range.clone()) else { return false };
        spans.adopt(self.spans, &range, out.len());
        out.extend_from_slice(bytes);
        true
    }
}
