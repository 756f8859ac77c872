//! [`RecentTrees`]: the parsed trees of recently written or read objects.
//!
//! An object that was just written is the most likely to be read next: its writer gets it back in protobuf, watchers get
//! it as an event, controllers and followers decide on it, and its status is written again. Others, such as the default
//! ServiceAccount of a namespace, are read for every write of something else. Keeping their trees saves all of them from
//! parsing the stored bytes.
//!
//! Objects are not looked up here: a reader has the bytes already and gets the tree of exactly these bytes; a writer states
//! the minimum revision, and the engine checks the revision at the commit.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use listwatch_wire::Revision;
use listwatch_wire::json::{EarlierEncoding, Spans, Value};
use parking_lot::Mutex;

use crate::cache::object::CachedObject;

/// The weight of an entry besides its bytes.
const ENTRY_BYTES: usize = 256;

/// The strategy that a tree was made by, known by its address.
pub(crate) trait TreeMaker: std::fmt::Debug + Send + Sync {}

impl<T: std::fmt::Debug + Send + Sync> TreeMaker for T {}

/// The trees of objects written or read lately, bounded by the bytes they are stored as.
///
/// Beside the collections and not part of them: a miss costs one parse, so it may be emptied at any time.
#[derive(Debug)]
pub(crate) struct RecentTrees {
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

/// A tree and the bytes that reading it would come from.
#[derive(Clone, Debug)]
pub(crate) struct WrittenTree {
    pub(crate) value: Value,
    /// The stored form.
    pub(crate) bytes: Bytes,
    /// The places of the containers of the tree in the bytes; empty if the bytes were parsed.
    pub(crate) spans: Arc<Spans>,
    /// The protobuf encoding, for the response and the event of a write: made on first use and shared.
    protobuf: Arc<OnceLock<(Revision, Bytes)>>,
}

impl WrittenTree {
    /// The tree of stored bytes.
    pub(crate) fn new(value: Value, bytes: Bytes, spans: Arc<Spans>) -> Self {
        Self { value, bytes, spans, protobuf: Arc::default() }
    }

    /// The bytes that an encoding of a tree with the same containers can copy from.
    pub(crate) fn encoding(&self) -> EarlierEncoding<'_> {
        EarlierEncoding { bytes: &self.bytes, spans: &self.spans }
    }
}

/// A tree of one version of an object.
#[derive(Debug)]
struct RecentTree {
    /// The revision that it was stored with; `None` before it is, and if it never was.
    revision: Option<Revision>,
    version: WrittenTree,
    /// The strategy whose form of the object the stored form is. Another version of the kind, or a definition that has changed,
    /// sees another tree. `None` if that is not known.
    maker: Option<Arc<dyn TreeMaker>>,
    /// The version that is about to be written. Apart, because the write may be refused, and until it is made the one before is
    /// the newest.
    next: Option<WrittenTree>,
    weight: usize,
}

impl RecentTree {
    /// The tree that reading these bytes yields. Bytes in the same place are the same bytes, because the entry keeps them
    /// there. A revision would not do: an object in another version, or in its last state, has that of the stored one.
    fn of(&self, bytes: &[u8]) -> Option<&WrittenTree> {
        let mut versions = std::iter::once(&self.version).chain(&self.next);
        versions.find(|version| std::ptr::eq(&*version.bytes, bytes))
    }
}

/// The bytes that an entry counts for.
fn weight(version: &WrittenTree) -> usize {
    version.bytes.len() + ENTRY_BYTES
}

impl RecentTrees {
    /// Keeps trees of objects that take up this many bytes in the store.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, generations: Mutex::default() }
    }

    /// The tree of an object at a revision or a later one, as this strategy sees it.
    ///
    /// A tree made by another one is not returned: it may have been defaulted or pruned otherwise.
    pub(crate) fn get<M: TreeMaker + ?Sized>(
        &self,
        key: &Arc<str>,
        since: Revision,
        maker: &Arc<M>,
    ) -> Option<(Revision, WrittenTree)> {
        let mut generations = self.generations.lock();
        let tree = &*generations.find(key)?;
        let revision = tree.revision.filter(|revision| *revision >= since)?;
        let same = tree
            .maker
            .as_ref()
            .is_some_and(|known| std::ptr::addr_eq(Arc::as_ptr(known), Arc::as_ptr(maker)));
        same.then(|| (revision, tree.version.clone()))
    }

    /// The tree of an object, if it is known.
    pub(crate) fn peek(&self, object: &CachedObject) -> Option<Value> {
        self.peek_bytes(object.key(), object.stored())
    }

    /// The tree of the stored bytes of an object, if it is known.
    pub(crate) fn peek_bytes(&self, key: &str, bytes: &[u8]) -> Option<Value> {
        let mut generations = self.generations.lock();
        generations.find(key)?.of(bytes).map(|version| version.value.clone())
    }

    /// The protobuf form of an object in the version that is stored, with this revision, made from its tree. `None` if the tree is
    /// not known.
    pub(crate) fn protobuf<E>(
        &self,
        object: &CachedObject,
        revision: Revision,
        make: impl FnOnce(Value) -> Result<Bytes, E>,
    ) -> Option<Result<Bytes, E>> {
        let version = self.generations.lock().find(object.key())?.of(object.stored())?.clone();
        let known = version.protobuf.get().filter(|(at, _)| *at == revision);
        Some(match known {
            Some((_, bytes)) => Ok(bytes.clone()),
            None => make(version.value).inspect(|bytes| {
                // If two threads encode it at the same time, the first result is kept.
                let _ = version.protobuf.set((revision, bytes.clone()));
            }),
        })
    }

    /// The tree of an object, kept if it had to be parsed: for objects that are read again and again. `None` if the bytes
    /// cannot be read.
    pub(crate) fn read(&self, object: &CachedObject) -> Option<Value> {
        if let Some(value) = self.peek(object) {
            return Some(value);
        }
        let value = Value::read(object.stored()).ok()?;
        let version = WrittenTree::new(value.clone(), object.stored().clone(), Arc::default());
        self.keep(object.key(), Some(object.revision()), None, version);
        Some(value)
    }

    /// Keeps the tree of an object that is about to be written, for readers that see the write before its writer does.
    pub(crate) fn offer(&self, key: &Arc<str>, version: WrittenTree) {
        let weight = weight(&version);
        if weight > self.limit / 2 {
            return;
        }
        let mut generations = self.generations.lock();
        let Some(tree) = generations.find(key).filter(|tree| tree.revision.is_some()) else {
            drop(generations);
            return self.keep(key, None, None, version);
        };
        let refused = tree.next.replace(version);
        let freed = refused.as_ref().map_or(0, self::weight);
        tree.weight = tree.weight + weight - freed;
        generations.young_bytes = generations.young_bytes + weight - freed;
        drop(generations);
        drop(refused);
    }

    /// Keeps the tree of an object that was written. Without a maker it is not used for writes.
    pub(crate) fn put(
        &self,
        key: &Arc<str>,
        revision: Revision,
        maker: Option<Arc<dyn TreeMaker>>,
        version: WrittenTree,
    ) {
        self.keep(key, Some(revision), maker, version);
    }

    /// An object of more than half of the limit is not kept, or it alone would push out everything else. An older version
    /// does not replace a newer one.
    fn keep(
        &self,
        key: &Arc<str>,
        revision: Option<Revision>,
        maker: Option<Arc<dyn TreeMaker>>,
        version: WrittenTree,
    ) {
        let weight = weight(&version);
        if weight > self.limit / 2 {
            return;
        }
        let mut generations = self.generations.lock();
        let known = generations.find(key).and_then(|tree| tree.revision);
        if revision.is_some() && known > revision {
            return;
        }
        let tree = RecentTree { revision, version, maker, next: None, weight };
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
    /// The entry of a key, moved to the young generation.
    fn find(&mut self, key: &str) -> Option<&mut RecentTree> {
        if !self.young.contains_key(key)
            && let Some((key, tree)) = self.old.remove_entry(key)
        {
            self.young_bytes += tree.weight;
            self.young.insert(key, tree);
        }
        self.young.get_mut(key)
    }

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

    /// Not zero-sized, so that each has a distinct address.
    fn rules() -> Arc<dyn TreeMaker> {
        Arc::new(1_u8)
    }

    fn object(revision: u64, value: &Bytes) -> CachedObject {
        CachedObject::new("/registry/configmaps/n/a".into(), 21, value.clone(), Revision(revision)).unwrap()
    }

    fn version(value: Value, length: usize) -> WrittenTree {
        WrittenTree::new(value, vec![0; length].into(), Arc::default())
    }

    #[test]
    fn a_tree_is_valid_for_its_rules_until_a_newer_version_exists() {
        let (recent, rules, key) = (RecentTrees::new(10_000), rules(), Arc::from("/registry/configmaps/n/a"));
        recent.put(&key, Revision(5), Some(Arc::clone(&rules)), version(json!({"a": 1}), 100));
        let get = |key: &Arc<str>, revision: u64, rules: &Arc<dyn TreeMaker>| {
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
        let (recent, rules, key) = (RecentTrees::new(10_000), rules(), Arc::from("/registry/configmaps/n/a"));
        recent.put(&key, Revision(1), Some(Arc::clone(&rules)), version(json!({}), 100));
        for n in 2..9 {
            recent.put(
                &Arc::from(format!("/registry/configmaps/n/{n}")),
                Revision(n),
                Some(Arc::clone(&rules)),
                version(json!({}), 744),
            );
        }
        recent.put(&key, Revision(9), Some(Arc::clone(&rules)), version(json!({"a": 1}), 100));
        assert_eq!(recent.get(&key, Revision(1), &rules).map(|(at, _)| at), Some(Revision(9)));
    }

    #[test]
    fn trees_in_use_stay_and_others_leave_before_the_bound() {
        let (recent, rules) = (RecentTrees::new(10_000), rules());
        let key = |n: u64| Arc::from(format!("/registry/configmaps/n/{n}"));
        for n in 0..100 {
            recent.put(&key(n), Revision(n), Some(Arc::clone(&rules)), version(json!({}), 744));
            assert!(recent.get(&key(0), Revision(0), &rules).is_some(), "used all the time, gone at {n}");
            let generations = recent.generations.lock();
            let bytes: usize =
                generations.young.values().chain(generations.old.values()).map(|t| t.weight).sum();
            assert!(bytes <= 11_000, "{bytes}");
        }
        assert!(recent.get(&key(1), Revision(1), &rules).is_none());
        recent.put(&key(1), Revision(1), Some(Arc::clone(&rules)), version(json!({}), 1 << 20));
        assert!(recent.get(&key(1), Revision(1), &rules).is_none(), "one large object pushes nothing out");
    }

    /// The last state of a deleted object has the revision of the stored one and other bytes.
    #[test]
    fn a_reader_gets_the_tree_of_its_bytes_and_no_other() {
        let recent = RecentTrees::new(10_000);
        let stored = Bytes::from_static(br#"{"metadata":{"name":"a"}}"#);
        let last = Bytes::from_static(br#"{"metadata":{"name":"a","x":1}}"#);
        let tree = WrittenTree::new(json!({"offered": 1}), stored.clone(), Arc::default());
        recent.offer(&"/registry/configmaps/n/a".into(), tree);
        assert_eq!(recent.peek(&object(7, &stored)), Some(json!({"offered": 1})));
        assert_eq!(recent.peek(&object(7, &last)), None);
        assert_eq!(recent.read(&object(7, &last)), Some(json!({"metadata": {"name": "a", "x": 1}})));
        assert!(recent.peek(&object(7, &last)).is_some(), "kept once it was parsed");
        assert_eq!(recent.peek(&object(7, &Bytes::copy_from_slice(&last))), None, "equal bytes elsewhere");
    }

    /// The response to a write and its event were encoded one after the other, from the same tree.
    #[test]
    fn the_protobuf_form_is_made_once_for_each_revision() {
        let (recent, key) = (RecentTrees::new(10_000), Arc::from("/registry/configmaps/n/a"));
        let stored = Bytes::from_static(br#"{"metadata":{"name":"a"}}"#);
        let tree = WrittenTree::new(json!({"offered": 1}), stored.clone(), Arc::default());
        recent.offer(&key, tree.clone());
        let form = |revision: u64, made: &'static str| {
            let make = |_| Ok::<_, ()>(Bytes::from_static(made.as_bytes()));
            recent.protobuf(&object(7, &stored), Revision(revision), make)
        };
        assert_eq!(form(7, "made for the event"), Some(Ok(Bytes::from_static(b"made for the event"))));
        recent.put(&key, Revision(7), Some(rules()), tree);
        assert_eq!(form(7, "made for the answer"), Some(Ok(Bytes::from_static(b"made for the event"))));
        assert_eq!(form(8, "its last state"), Some(Ok(Bytes::from_static(b"its last state"))));
    }

    /// A namespace that was marked a moment ago looked alive while another write of it was under way.
    #[test]
    fn the_tree_of_the_newest_version_stays_until_the_next_write() {
        let (recent, rules, key) = (RecentTrees::new(10_000), rules(), Arc::from("/registry/configmaps/n/a"));
        recent.put(&key, Revision(9), Some(Arc::clone(&rules)), version(json!({"marked": 1}), 100));
        let next = version(json!({"next": 1}), 200);
        for _ in 0..3 {
            recent.offer(&key, next.clone());
            assert_eq!(recent.peek_bytes(&key, &next.bytes), Some(json!({"next": 1})));
            assert_eq!(recent.get(&key, Revision(9), &rules).map(|(at, _)| at), Some(Revision(9)));
        }
        assert_eq!(recent.generations.lock().young_bytes, 300 + 2 * ENTRY_BYTES);
        recent.put(&key, Revision(10), Some(Arc::clone(&rules)), next);
        assert_eq!(recent.get(&key, Revision(9), &rules).map(|(at, _)| at), Some(Revision(10)));
        assert_eq!(recent.generations.lock().young_bytes, 200 + ENTRY_BYTES);
    }

    #[test]
    fn an_old_version_that_is_read_does_not_replace_a_newer_tree() {
        let (recent, rules, key) = (RecentTrees::new(10_000), rules(), Arc::from("/registry/configmaps/n/a"));
        recent.put(&key, Revision(9), Some(Arc::clone(&rules)), version(json!({"new": 1}), 100));
        let old = Bytes::from_static(br#"{"metadata":{"name":"a"}}"#);
        assert!(recent.read(&object(8, &old)).is_some());
        assert_eq!(recent.get(&key, Revision(9), &rules).map(|(at, _)| at), Some(Revision(9)));
    }
}
