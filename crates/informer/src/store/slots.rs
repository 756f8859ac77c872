//! [`Slots`]: a persistent vector. Cloning it costs a reference count; a change after that copies one path.
//!
//! Compared with a general one, a change copies less. Copying a node means touching the reference count of everything
//! in it, and in a leaf those are objects scattered over all of memory: a leaf of 16 costs the writer a quarter of what
//! one of 64 does whenever a reader holds a snapshot, which is always.

use std::sync::Arc;

/// Children per node.
const WIDTH: usize = 16;
const BITS: usize = WIDTH.trailing_zeros() as usize;

/// A node of a wide tree. Writers copy the nodes on the way to a slot if a snapshot shares them.
enum SlotNode<T> {
    Branch([Option<Arc<SlotNode<T>>>; WIDTH]),
    Leaf([Option<T>; WIDTH]),
}

impl<T: Clone> Clone for SlotNode<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Branch(children) => Self::Branch(children.clone()),
            Self::Leaf(values) => Self::Leaf(values.clone()),
        }
    }
}

impl<T> SlotNode<T> {
    /// A node without anything in it; level zero are the leaves.
    fn empty(level: usize) -> Self {
        if level == 0 { Self::Leaf(Default::default()) } else { Self::Branch(Default::default()) }
    }
}

/// The child of a node of this level that leads to the place.
fn step(place: usize, level: usize) -> usize {
    (place >> (BITS * level)) % WIDTH
}

/// Values at places. A place is empty until something is put there, and after that was taken out.
pub(super) struct Slots<T> {
    root: Arc<SlotNode<T>>,
    /// Levels above the leaves.
    height: usize,
}

impl<T> Clone for Slots<T> {
    fn clone(&self) -> Self {
        Self { root: Arc::clone(&self.root), height: self.height }
    }
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { root: Arc::new(SlotNode::empty(0)), height: 0 }
    }
}

impl<T> Slots<T> {
    /// True if the tree is high enough for a place.
    fn holds(&self, place: usize) -> bool {
        place >> (BITS * (self.height + 1)) == 0
    }

    fn leaf(&self, place: usize) -> Option<&[Option<T>; WIDTH]> {
        if !self.holds(place) {
            return None;
        }
        let (mut node, mut level) = (&*self.root, self.height);
        loop {
            match node {
                SlotNode::Leaf(values) => return Some(values),
                SlotNode::Branch(children) => node = children.get(step(place, level))?.as_deref()?,
            }
            level = level.saturating_sub(1);
        }
    }

    pub(super) fn get(&self, place: usize) -> Option<&T> {
        self.leaf(place)?.get(step(place, 0))?.as_ref()
    }

    /// Reads of places that are often neighbours.
    pub(super) fn reader(&self) -> LeafReader<'_, T> {
        LeafReader { slots: self, number: usize::MAX, leaf: None }
    }
}

impl<T: Clone> Slots<T> {
    /// Sets or clears the value of a place, and returns the previous one.
    pub(super) fn set(&mut self, place: usize, value: Option<T>) -> Option<T> {
        while !self.holds(place) {
            self.grow();
        }
        let (mut node, mut level) = (Arc::make_mut(&mut self.root), self.height);
        loop {
            match node {
                SlotNode::Leaf(values) => {
                    return std::mem::replace(values.get_mut(step(place, 0))?, value);
                }
                SlotNode::Branch(children) => {
                    level = level.saturating_sub(1);
                    let child = children.get_mut(step(place, level + 1))?;
                    node = Arc::make_mut(child.get_or_insert_with(|| Arc::new(SlotNode::empty(level))));
                }
            }
        }
    }

    /// One level more above the root.
    fn grow(&mut self) {
        let mut children: [Option<Arc<SlotNode<T>>>; WIDTH] = Default::default();
        if let Some(first) = children.first_mut() {
            *first = Some(Arc::clone(&self.root));
        }
        self.root = Arc::new(SlotNode::Branch(children));
        self.height += 1;
    }
}

/// Keeps the leaf it read last: objects that are neighbours in a list were usually added together and are in the same
/// leaf.
pub(super) struct LeafReader<'a, T> {
    slots: &'a Slots<T>,
    number: usize,
    leaf: Option<&'a [Option<T>; WIDTH]>,
}

impl<'a, T> LeafReader<'a, T> {
    pub(super) fn get(&mut self, place: usize) -> Option<&'a T> {
        if place / WIDTH != self.number {
            self.number = place / WIDTH;
            self.leaf = self.slots.leaf(place);
        }
        self.leaf?.get(step(place, 0))?.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a map; a clone taken on the way keeps showing what it showed.
        #[test]
        fn slots_are_a_map_and_clones_do_not_change(
            steps in prop::collection::vec((0..9_000_usize, prop::option::of(any::<u16>())), 1..200),
            cut in 0..200_usize,
        ) {
            let (mut slots, mut model) = (Slots::default(), HashMap::new());
            let mut before = (slots.clone(), model.clone());
            for (at, (place, value)) in steps.into_iter().enumerate() {
                if at == cut {
                    before = (slots.clone(), model.clone());
                }
                let old = slots.set(place, value);
                let known = match value {
                    Some(value) => model.insert(place, value),
                    None => model.remove(&place),
                };
                prop_assert_eq!(old, known);
            }
            for (slots, model) in [(slots, model), before] {
                let mut reader = slots.reader();
                let looked_at = model.keys().flat_map(|place| [*place, place + 1]).chain([0, 70_000]);
                for place in looked_at {
                    prop_assert_eq!(slots.get(place), model.get(&place));
                    prop_assert_eq!(reader.get(place), model.get(&place));
                }
            }
        }
    }
}
