//! [`Spans`]: the byte ranges of the larger containers of an encoded object.
//!
//! The next version of an object shares most containers with this one. The encoder copies their bytes instead of
//! writing them again, so an encoding costs the changed parts and one copy.

/// Below this many bytes a container is written as quickly as it is found.
const WORTH_IT: usize = 128;

/// The positions of the larger containers of a tree in its bytes. They are valid only together with that tree, kept
/// alive, and those bytes: while the tree holds a container, no other one has its address.
///
/// Three words per container that is large enough, a few kilobytes for a usual object.
#[derive(Clone, Debug, Default)]
pub struct Spans {
    /// In the order in which they end, so that the contents of a container directly precede it.
    spans: Vec<ContainerSpan>,
    /// The position of a container in that order, by its address. Large objects have thousands, each of which is looked
    /// for.
    places: Vec<(usize, usize)>,
}

/// The bytes of a container in an encoding. The address identifies the container for as long as the tree is kept.
#[derive(Clone, Copy, Debug)]
struct ContainerSpan {
    address: usize,
    start: usize,
    end: usize,
    /// The containers inside each other, this one included.
    height: usize,
}

impl Spans {
    /// Notes that the container at an address was written from `start` to the end of `out`.
    pub(super) fn note(&mut self, address: usize, height: usize, start: usize, out: &[u8]) {
        if out.len() - start >= WORTH_IT {
            self.spans.push(ContainerSpan { address, start, end: out.len(), height });
        }
    }

    /// Ends the recording; containers can be found from now on.
    pub(super) fn finish(mut self) -> Self {
        self.places = self.spans.iter().enumerate().map(|(place, span)| (span.address, place)).collect();
        self.places.sort_unstable();
        self
    }

    fn find(&self, address: usize) -> Option<usize> {
        let at = self.places.binary_search_by_key(&address, |(address, _)| *address).ok()?;
        self.places.get(at).map(|(_, place)| *place)
    }

    /// Notes an old span and what is inside it, which now begins at `start`.
    ///
    /// Spans end in order, so those inside of a container are the ones before it that begin after it does.
    fn adopt(&mut self, old: &[ContainerSpan], outer: ContainerSpan, start: usize) {
        let inside = old.iter().rev().take_while(|span| span.start >= outer.start).count();
        let moved = |at: usize| at - outer.start + start;
        let spans = old.iter().skip(old.len() - inside);
        self.spans.extend(spans.map(|span| ContainerSpan {
            start: moved(span.start),
            end: moved(span.end),
            ..*span
        }));
    }
}

/// The bytes of a tree with which others may share containers.
///
/// The tree itself is not needed to copy, but must be kept alive by the holder of these bytes: an address that is
/// used again by another container would name the wrong bytes.
#[derive(Clone, Copy, Debug)]
pub struct EarlierEncoding<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// The positions of its containers in them.
    pub spans: &'a Spans,
}

impl EarlierEncoding<'_> {
    /// Copies the container at an address if it is written there already; its height if it was.
    pub(super) fn copy(&self, address: usize, out: &mut Vec<u8>, spans: &mut Spans) -> Option<usize> {
        let upto = self.spans.find(address).and_then(|place| self.spans.spans.get(..=place))?;
        let span = upto.last()?;
        let bytes = self.bytes.get(span.start..span.end)?;
        spans.adopt(upto, *span, out.len());
        out.extend_from_slice(bytes);
        Some(span.height)
    }
}
