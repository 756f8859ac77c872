//! [`InOrder`]: every delta, in the order of arrival. client-go calls it RealFIFO.
//!
//! The order across keys is the server's revision order, so the store passes through states that the server had, and
//! the revision of the last delta popped is the position of the source. The price is memory: a hundred updates of one
//! object are a hundred entries; [`Coalescing`](super::Coalescing) keeps one. The bound on entries is
//! [`QueueOptions::capacity`](super::QueueOptions::capacity), kept by `queue`.

use std::collections::VecDeque;

use super::Delta;
use crate::object::Raw;

/// A queue that keeps every delta, in the order of arrival across all keys.
///
/// ```
/// use listwatch::Revision;
/// use listwatch::delta::{Delta, InOrder};
///
/// let mut queue: InOrder = InOrder::default();
/// queue.push(Delta::Bookmark(Revision(1)));
/// queue.push(Delta::SyncAll); // a barrier, which is popped alone
/// queue.push(Delta::Bookmark(Revision(2)));
/// let batches: Vec<usize> = std::iter::repeat_with(|| queue.pop_batch(10).len()).take(4).collect();
/// assert_eq!(batches, [1, 1, 1, 0]);
/// ```
#[derive(Debug)]
#[doc(alias = "RealFIFO")]
pub struct InOrder<K = Raw> {
    deltas: VecDeque<Delta<K>>,
    weight: usize,
}

impl<K> Default for InOrder<K> {
    fn default() -> Self {
        Self { deltas: VecDeque::new(), weight: 0 }
    }
}

impl<K> InOrder<K> {
    /// Appends a delta. The capacity is not checked here but by [`DeltaQueue`](super::DeltaQueue).
    pub fn push(&mut self, delta: Delta<K>) {
        self.weight += delta.weight();
        self.deltas.push_back(delta);
    }

    /// Takes up to `max` deltas. A barrier comes alone: the batch before it ends there.
    pub fn pop_batch(&mut self, max: usize) -> Vec<Delta<K>> {
        if self.deltas.front().is_some_and(Delta::is_barrier) {
            return self.take(1);
        }
        let ordinary = self.deltas.iter().take(max).take_while(|delta| !delta.is_barrier()).count();
        self.take(ordinary)
    }

    fn take(&mut self, count: usize) -> Vec<Delta<K>> {
        let taken: Vec<_> = self.deltas.drain(..count).collect();
        self.weight -= taken.iter().map(Delta::weight).sum::<usize>();
        taken
    }

    /// The number of objects that wait in it.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// True if nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.deltas.is_empty()
    }
}
