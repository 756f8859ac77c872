//! [`Coalescing`]: the deltas of a key are kept together, and no more of them than needed. client-go calls it
//! DeltaFIFO.
//!
//! A key takes the place of its first unread change in the queue; later changes join it there. Keys are therefore
//! popped out of revision order, and the revision of the last delta popped is not one up to which all is complete: each batch
//! ends with a bookmark at the highest revision below which nothing is missing.
//!
//! Deltas about the whole collection ([`Delta::is_barrier`]) divide the queue into segments and are never passed by a
//! change of a key. Unlike DeltaFIFO, the queue has no access to the store: a replacement is compared with it when it is
//! applied.

use std::collections::VecDeque;
use std::collections::hash_map::HashMap;

use listwatch_wire::{ObjectKey, Revision};

use super::Delta;
use crate::object::Raw;

/// The deltas of the keys between two barriers.
#[derive(Debug)]
struct Segment<K> {
    /// The keys in the order in which they first changed, each with the revision of that change.
    order: VecDeque<(ObjectKey, Revision)>,
    /// At most three per key: the present state, and before it the deletion of its predecessor.
    by_key: HashMap<ObjectKey, Vec<Delta<K>>, foldhash::fast::RandomState>,
    /// The last revision that was queued.
    highest: Option<Revision>,
    /// Ends the segment.
    barrier: Option<Delta<K>>,
}

impl<K> Default for Segment<K> {
    fn default() -> Self {
        Self { order: VecDeque::new(), by_key: HashMap::default(), highest: None, barrier: None }
    }
}

/// A queue that keeps per key only what matters: an update replaces the update before it, a second deletion the
/// first. A deletion is never coalesced away by what follows, so a recreated object is seen as one. Keys come out in
/// the order in which they first changed.
///
/// ```
/// use listwatch::Object;
/// use listwatch::delta::{Coalescing, Delta};
/// use serde_json::json;
///
/// let pod = |name: &str, version: &str| {
///     Object::from_value(&json!({"metadata": {"namespace": "x", "name": name, "resourceVersion": version}}))
/// };
/// let mut queue: Coalescing = Coalescing::default();
/// for delta in [Delta::Added(pod("a", "1")?), Delta::Added(pod("b", "2")?), Delta::Updated(pod("a", "3")?)] {
///     queue.push(delta);
/// }
/// let popped: Vec<String> = queue.pop_batch(10).iter().map(ToString::to_string).collect();
/// assert_eq!(popped, ["added x/a 3", "added x/b 2", "bookmark 3"]);
/// # Ok::<(), listwatch::object::ObjectError>(())
/// ```
#[derive(Debug)]
#[doc(alias = "DeltaFIFO")]
pub struct Coalescing<K = Raw> {
    segments: VecDeque<Segment<K>>,
    weight: usize,
}

impl<K> Default for Coalescing<K> {
    fn default() -> Self {
        Self { segments: VecDeque::new(), weight: 0 }
    }
}

impl<K> Segment<K> {
    /// Returns by how much the segment became heavier.
    fn push(&mut self, key: ObjectKey, delta: Delta<K>) -> usize {
        let deltas = self.by_key.entry(key.clone()).or_default();
        self.highest = delta.revision().max(self.highest);
        if deltas.is_empty() {
            self.order.push_back((key, self.highest.unwrap_or_default()));
        }
        let ends = |delta: &Delta<K>| matches!(delta, Delta::Deleted(_) | Delta::Rejected { .. });
        let updates = |delta: &Delta<K>| matches!(delta, Delta::Updated(_));
        let redundant = deltas
            .last()
            .is_some_and(|last| (updates(last) && updates(&delta)) || (ends(last) && ends(&delta)));
        match (redundant, deltas.last(), delta) {
            (true, Some(_), delta) => {
                deltas.pop();
                deltas.push(delta);
                0
            }
            // A new object that changed is a new object in its latest state.
            (_, Some(Delta::Added(_)), Delta::Updated(object)) => {
                deltas.pop();
                deltas.push(Delta::Added(object));
                0
            }
            (_, _, delta) => {
                // Of a key that is created and deleted repeatedly, only the deltas since the last deletion are kept.
                let stale = deltas.len().saturating_sub(2);
                deltas.drain(..stale);
                deltas.push(delta);
                1_usize.saturating_sub(stale)
            }
        }
    }

    /// Everything up to this revision has been popped: all that was queued, or what came before the first key that is
    /// left. Keys that changed again are popped ahead of others, so the revision of what was popped is not the revision
    /// reached.
    fn complete_up_to(&self) -> Option<Revision> {
        match self.order.front() {
            None => self.highest,
            Some((_, first)) => first.0.checked_sub(1).map(Revision),
        }
    }

    fn pop(&mut self) -> Option<Vec<Delta<K>>> {
        let (key, _) = self.order.pop_front()?;
        self.by_key.remove(&key)
    }
}

impl<K> Coalescing<K> {
    /// Returns the last segment, or a new one if the last ends with a barrier: nothing joins a segment across it.
    fn open_segment(&mut self) -> &mut Segment<K> {
        if self.segments.back().is_none_or(|segment| segment.barrier.is_some()) {
            self.segments.push_back(Segment::default());
        }
        let last = self.segments.len() - 1;
        // Just made sure of; `entry`-like access that the borrow checker accepts.
        #[expect(clippy::indexing_slicing, reason = "the segment was pushed above if there was none")]
        &mut self.segments[last]
    }

    /// Adds a delta. It joins those of its key, or begins a new segment if it is a barrier. The capacity is not checked
    /// here but by [`DeltaQueue`](super::DeltaQueue).
    pub fn push(&mut self, delta: Delta<K>) {
        let segment = self.open_segment();
        let heavier = if let Delta::Bookmark(revision) = delta {
            segment.highest = Some(revision).max(segment.highest);
            0
        } else if let Some(key) = delta.key().cloned() {
            segment.push(key, delta)
        } else {
            let weight = delta.weight();
            segment.barrier = Some(delta);
            weight
        };
        self.weight += heavier;
    }

    /// Takes the deltas of about `max` objects, all deltas of a key together, and after them a bookmark with the revision up to
    /// where nothing is missing. A barrier comes alone.
    pub fn pop_batch(&mut self, max: usize) -> Vec<Delta<K>> {
        let mut batch = Vec::new();
        let Some(segment) = self.segments.front_mut() else { return batch };
        while batch.len() < max {
            let Some(deltas) = segment.pop() else { break };
            batch.extend(deltas);
        }
        batch.extend(segment.complete_up_to().filter(|_| segment.highest.is_some()).map(Delta::Bookmark));
        if segment.order.is_empty() {
            segment.highest = None;
            if batch.is_empty() {
                batch.extend(segment.barrier.take());
            }
            if segment.barrier.is_none() {
                self.segments.pop_front();
            }
        }
        let weight = |delta: &Delta<K>| if matches!(delta, Delta::Bookmark(_)) { 0 } else { delta.weight() };
        self.weight -= batch.iter().map(weight).sum::<usize>();
        batch
    }

    /// The number of objects that wait in it.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// True if nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }
}
