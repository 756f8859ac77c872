//! [`Reason`]: a value that is added with a key and merged when the key is added again.
//!
//! A level-triggered controller needs no reason, and the default `()` takes no memory. It is for the cases where a
//! consumer can save work if it knows what changed, or log why it runs. Reasons that pile up while a key waits
//! must be bounded by their `merge`: a set of fixed values is, a `Vec` is not.

use std::collections::{BTreeSet, HashSet};
use std::hash::{BuildHasher, Hash};

/// Something that is added together with a key and coalesces when the key is added again before it is handed out.
///
/// `()` (the default) carries nothing and costs nothing. Sets and vectors collect, an `Option` keeps the newest.
///
/// ```
/// use std::collections::BTreeSet;
/// use listwatch_workqueue::{Options, Priority, Queue};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let queue: Queue<&str, BTreeSet<&str>> = Queue::new(Options::new());
/// queue.add_with("default/web", BTreeSet::from(["spec changed"]), Priority::Normal)?;
/// queue.add_with("default/web", BTreeSet::from(["pod died"]), Priority::Normal)?;
/// let item = queue.try_get().ok_or("two adds, one item")?;
/// assert_eq!(item.reason().len(), 2);
/// # Ok(())
/// # }
/// ```
pub trait Reason: Default + Send + 'static {
    /// Folds a newer reason for the same key into this one.
    fn merge(&mut self, newer: Self);
}

impl Reason for () {
    fn merge(&mut self, (): Self) {}
}

impl<T: Send + 'static> Reason for Option<T> {
    fn merge(&mut self, newer: Self) {
        if newer.is_some() {
            *self = newer;
        }
    }
}

impl<T: Send + 'static> Reason for Vec<T> {
    fn merge(&mut self, newer: Self) {
        self.extend(newer);
    }
}

impl<T: Ord + Send + 'static> Reason for BTreeSet<T> {
    fn merge(&mut self, newer: Self) {
        self.extend(newer);
    }
}

impl<T, S> Reason for HashSet<T, S>
where
    T: Eq + Hash + Send + 'static,
    S: BuildHasher + Default + Send + 'static,
{
    fn merge(&mut self, newer: Self) {
        self.extend(newer);
    }
}
