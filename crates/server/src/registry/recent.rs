//! [`RecentWrites`]: the trees of objects written lately.
//!
//! An object that was just written is the most likely to be written next: a controller changes the status of the same
//! objects again and again. Their trees are at hand after a write, and keeping a few saves the next one from parsing
//! the stored bytes. This is not where objects are read from: a tree counts only for the revision it was written at,
//! which may be a moment ahead of the cache, and the engine has the last word.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use listwatch_wire::Revision;
use listwatch_wire::json::{Spans, Value};
use parking_lot::Mutex;

use crate::registry::strategy::Strategy;

/// The weight of an entry besides its bytes.
const ENTRY_BYTES: usize = 256;

/// The trees of objects written lately, bounded by the bytes they are stored as.
///
/// Beside the cache and not part of it: a miss costs one parse, so it may be emptied at any time.
#[derive(Debug)]
pub(crate) struct RecentWrites {
    /// Bytes of stored objects whose trees are kept.
    limit: usize,
    /// Held for one lookup or insertion. Trees are dropped after it is released.
    generations: Mutex<Generations>,
}

/// Two generations approximate an order by age: when the young one reaches half of the limit it becomes the old one,
/// which is dropped. A tree that is used again moves to the young one.
#[derive(Debug, Default)]
struct Generations {
    young: Trees,
    old: Trees,
    young_bytes: usize,
}

/// By storage key.
type Trees = HashMap<Arc<str>, RecentTree, foldhash::fast::RandomState>;

/// A tree and the bytes that it was written as. It counts only for the revision of that write.
#[derive(Clone, Debug)]
pub(crate) struct WrittenTree {
    pub(crate) value: Value,
    /// The stored form, and where the containers of the tree are in it.
    pub(crate) bytes: Bytes,
    pub(crate) spans: Arc<Spans>,
}

/// A tree and the revision that it was stored with. Another revision in the store makes it useless.
#[derive(Debug)]
struct RecentTree {
    revision: Revision,
    version: WrittenTree,
    /// The rules that made it: another version of the kind, or a definition that has changed, sees another tree.
    rules: Arc<dyn Strategy>,
    weight: usize,
}

impl RecentWrites {
    /// Keeps trees of objects that take up this many bytes in the store.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, generations: Mutex::default() }
    }

    /// The tree of an object at a revision or a later one, as these rules see it.
    ///
    /// A tree made by other rules is not returned: it may have been defaulted or pruned otherwise.
    pub(crate) fn get(
        &self,
        key: &Arc<str>,
        since: Revision,
        rules: &Arc<dyn Strategy>,
    ) -> Option<(Revision, WrittenTree)> {
        let mut generations = self.generations.lock();
        if !generations.young.contains_key(key)
            && let Some(tree) = generations.old.remove(key)
        {
            generations.young_bytes += tree.weight;
            generations.young.insert(Arc::clone(key), tree);
        }
        let tree = generations.young.get(key)?;
        let fits = tree.revision >= since && Arc::ptr_eq(&tree.rules, rules);
        fits.then(|| (tree.revision, tree.version.clone()))
    }

    /// Keeps the tree of an object that was written.
    ///
    /// An object of more than half of the limit is not kept, or it alone would push out everything else.
    pub(crate) fn put(
        &self,
        key: &Arc<str>,
        revision: Revision,
        rules: &Arc<dyn Strategy>,
        version: WrittenTree,
    ) {
        let weight = version.bytes.len() + ENTRY_BYTES;
        if weight > self.limit / 2 {
            return;
        }
        let tree = RecentTree { revision, version, rules: Arc::clone(rules), weight };
        let mut generations = self.generations.lock();
        let dropped = generations.insert(Arc::clone(key), tree, self.limit / 2);
        drop(generations);
        drop(dropped);
    }

    /// Drops every tree, for objects that are not expected to be written again soon.
    pub(crate) fn clear(&self) {
        let dropped = std::mem::take(&mut *self.generations.lock());
        drop(dropped);
    }
}

impl Generations {
    /// Returns what is to be dropped.
    fn insert(
        &mut self,
        key: Arc<str>,
        tree: RecentTree,
        limit: usize,
    ) -> (Option<RecentTree>, Option<RecentTree>, Trees) {
        self.young_bytes += tree.weight;
        let stale = self.old.remove(&key);
        let replaced = self.young.insert(key, tree);
        self.young_bytes -= replaced.as_ref().map_or(0, |tree| tree.weight);
        let mut aged = Trees::default();
        if self.young_bytes > limit {
            self.young_bytes = 0;
            aged = std::mem::replace(&mut self.old, std::mem::take(&mut self.young));
        }
        (stale, replaced, aged)
    }
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;
    use crate::registry::strategy::Builtin;

    fn rules() -> Arc<dyn Strategy> {
        Arc::new(Builtin::new(listwatch_kinds::by_kind("", "v1", "ConfigMap").unwrap()))
    }

    fn version(value: Value, length: usize) -> WrittenTree {
        WrittenTree { value, bytes: vec![0; length].into(), spans: Arc::default() }
    }

    #[test]
    fn a_tree_counts_for_its_rules_and_until_something_newer_is_known() {
        let (recent, rules, key) =
            (RecentWrites::new(10_000), rules(), Arc::from("/registry/configmaps/n/a"));
        recent.put(&key, Revision(5), &rules, version(json!({"a": 1}), 100));
        let get = |key: &Arc<str>, revision: u64, rules: &Arc<dyn Strategy>| {
            recent.get(key, Revision(revision), rules).map(|(at, version)| (at, version.value))
        };
        assert_eq!(get(&key, 5, &rules), Some((Revision(5), json!({"a": 1}))));
        assert_eq!(get(&key, 4, &rules), Some((Revision(5), json!({"a": 1}))));
        assert_eq!(get(&key, 6, &rules), None);
        assert_eq!(get(&key, 5, &super::tests::rules()), None);
        assert_eq!(get(&"/registry/configmaps/n/b".into(), 5, &rules), None);
        recent.clear();
        assert_eq!(get(&key, 5, &rules), None);
    }

    #[test]
    fn a_newer_tree_is_not_pushed_out_by_an_older_one() {
        // A tree grew old between the read and the write of its object: the next read brought it back in front of the new one.
        let (recent, rules, key) =
            (RecentWrites::new(10_000), rules(), Arc::from("/registry/configmaps/n/a"));
        recent.put(&key, Revision(1), &rules, version(json!({}), 100));
        for n in 2..9 {
            recent.put(
                &Arc::from(format!("/registry/configmaps/n/{n}")),
                Revision(n),
                &rules,
                version(json!({}), 744),
            );
        }
        recent.put(&key, Revision(9), &rules, version(json!({"a": 1}), 100));
        assert_eq!(recent.get(&key, Revision(1), &rules).map(|(at, _)| at), Some(Revision(9)));
    }

    #[test]
    fn trees_in_use_stay_and_others_leave_before_the_bound() {
        let (recent, rules) = (RecentWrites::new(10_000), rules());
        let key = |n: u64| Arc::from(format!("/registry/configmaps/n/{n}"));
        for n in 0..100 {
            recent.put(&key(n), Revision(n), &rules, version(json!({}), 744));
            assert!(recent.get(&key(0), Revision(0), &rules).is_some(), "used all the time, gone at {n}");
            let generations = recent.generations.lock();
            let bytes: usize =
                generations.young.values().chain(generations.old.values()).map(|t| t.weight).sum();
            assert!(bytes <= 11_000, "{bytes}");
        }
        assert!(recent.get(&key(1), Revision(1), &rules).is_none());
        recent.put(&key(1), Revision(1), &rules, version(json!({}), 1 << 20));
        assert!(recent.get(&key(1), Revision(1), &rules).is_none(), "one large object pushes nothing out");
    }
}
