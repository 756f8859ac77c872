//! [`FieldSet`]: a set of field paths, `fieldpath.Set` of structured-merge-diff.
//!
//! The set is kept in the wire form (`FieldsV1`), a tree whose keys are path elements, so that reading and writing
//! `managedFields` costs no conversion and unchanged entries share their memory with the stored object. A node that is
//! empty, or has the entry `.`, is a member itself. The grammar of the elements is in `element`.

use std::fmt;

use listwatch_json::{Map, Text, Value};

use super::element;
use super::node::{SELF, is_member};

/// Path elements to the sets below them; `.` marks the element itself.
type Trie = Map;

/// A set of field paths, in the shape of `FieldsV1`.
///
/// The wire format is a tree keyed by path elements, which is also the shape that set operations need; so the parsed
/// JSON is the set, and reading or writing one costs nothing beyond the JSON itself. Operations take time in the size
/// of the smaller side: a write that changes three fields touches three paths of each manager, however many they own.
///
/// ```
/// use listwatch_merge::apply::FieldSet;
/// use listwatch_json::json;
///
/// let mut set = FieldSet::from_json(json!({"f:data": {".": {}, "f:a": {}, "f:b": {}}})).unwrap();
/// set.subtract(&FieldSet::from_json(json!({"f:data": {"f:a": {}}})).unwrap());
/// assert_eq!(set.paths(), [".data", ".data.b"]);
/// assert_eq!(set.to_json(), json!({"f:data": {".": {}, "f:b": {}}}));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[doc(alias = "FieldsV1")]
pub struct FieldSet(Trie);

impl FieldSet {
    /// The empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    pub(super) fn from_trie(trie: Trie) -> Self {
        Self(trie)
    }

    pub(super) fn trie(&self) -> &Trie {
        &self.0
    }

    /// The set of some paths of plain field names.
    ///
    /// ```
    /// use listwatch_merge::apply::FieldSet;
    /// assert_eq!(FieldSet::of_fields(&[&["status"], &["metadata", "labels"]]).paths(), [".status", ".metadata.labels"]);
    /// ```
    #[must_use]
    pub fn of_fields(paths: &[&[&str]]) -> Self {
        let mut set = Self::new();
        for path in paths {
            let leaf = Value::Object(Map::new());
            let nested = path
                .iter()
                .rev()
                .fold(leaf, |below, name| Value::Object(Map::from_iter([(element::field(name), below)])));
            if let Value::Object(trie) = nested {
                union(&mut set.0, &trie);
            }
        }
        set
    }

    /// Takes a set from its JSON; `None` if it is none.
    ///
    /// For sets that a client sent. The grammar is checked, not the meaning: an unknown field in a set does no harm.
    #[must_use]
    pub fn from_json(value: Value) -> Option<Self> {
        match value {
            Value::Object(trie) if is_valid(&trie) => Some(Self(trie)),
            _ => None,
        }
    }

    /// Takes a set from JSON that was one before.
    ///
    /// Skips the check, which would cost as much as the set has paths on every write.
    pub(super) fn from_stored(value: Value) -> Option<Self> {
        if let Value::Object(trie) = value { Some(Self(trie)) } else { None }
    }

    /// The JSON of the set.
    ///
    /// Shares the tree; nothing is copied.
    #[must_use]
    pub fn to_json(&self) -> Value {
        Value::Object(self.0.clone())
    }

    /// Returns true if there is no path in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds all paths of another set. A path that is a leaf in one and has children in the other is then a member with
    /// children.
    ///
    /// Costs as much as `other` has paths. A set that has them all stays shared with its copies.
    pub fn union(&mut self, other: &Self) {
        if !self.contains(other) {
            union(&mut self.0, &other.0);
        }
    }

    /// Takes out all paths of another set; paths below them stay.
    ///
    /// Costs as much as `other` has paths, not as much as this set has: the usual `other` is what one write changed. A
    /// set that has none of them stays shared with its copies.
    pub fn subtract(&mut self, other: &Self) {
        if overlaps(&self.0, &other.0) {
            subtract(&mut self.0, &other.0);
        }
    }

    /// Returns true if all paths of another set are in this one.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        contains(&self.0, &other.0)
    }

    /// Returns true if the set shares its tree with this JSON.
    pub(super) fn is_same(&self, json: Option<&Value>) -> bool {
        json.and_then(Value::as_object).is_some_and(|trie| self.0.is_same(trie))
    }

    /// Takes out all paths of another set and everything below them.
    pub(crate) fn subtract_recursive(&mut self, other: &Self) {
        subtract_recursive(&mut self.0, &other.0);
    }

    /// The paths that are members of both sets. Common parents that are members of neither are not in it.
    #[must_use]
    pub(crate) fn intersection(&self, other: &Self) -> Self {
        Self(intersection(&self.0, &other.0))
    }

    /// All paths as error texts show them, those of one level before those below.
    ///
    /// Allocates a string per path: for conflicts and for people.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        self.first_paths(usize::MAX)
    }

    /// The first of these paths, up to about as many bytes.
    pub(super) fn first_paths(&self, bytes: usize) -> Vec<String> {
        let mut out = FirstPaths { paths: Vec::new(), left: bytes };
        out.collect(&self.0, "");
        out.paths
    }

    /// The number of paths.
    pub(super) fn len(&self) -> usize {
        count(&self.0)
    }
}

impl fmt::Display for FieldSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.paths().join("\n"))
    }
}

/// True if all keys are path elements. A set that a client made up could else not be merged.
fn is_valid(trie: &Trie) -> bool {
    trie.iter().all(|(key, node)| match node {
        Value::Object(node) if key == SELF => node.is_empty(),
        Value::Object(node) => element::is_valid(key) && is_valid(node),
        _ => false,
    })
}

/// The mark of an element that is in the set itself.
fn own() -> Value {
    Value::Object(Map::new())
}

/// In place; nothing is copied of what `a` has already.
fn union(a: &mut Trie, b: &Trie) {
    for (key, from) in b {
        match (a.get_mut(key), from) {
            (Some(Value::Object(into)), Value::Object(from)) => union_node(into, from),
            _ => {
                a.insert(key.clone(), from.clone());
            }
        }
    }
}

/// Unites two nodes. An empty node is a leaf, which is a member without the marker `.`; a node with children needs the
/// marker to be one.
fn union_node(a: &mut Trie, b: &Trie) {
    match (a.is_empty(), b.is_empty()) {
        (true, true) => {}
        (false, true) => {
            a.insert(SELF, own());
        }
        (true, false) => {
            *a = b.clone();
            a.insert(SELF, own());
        }
        (false, false) => union(a, b),
    }
}

/// Returns true if all members of `b` are members of `a`. Not of one that is written in the longer form: it is to be rewritten.
fn contains(a: &Trie, b: &Trie) -> bool {
    below(b).all(|(key, what)| {
        a.get(key).and_then(Value::as_object).is_some_and(|node| {
            !is_lone_mark(node) && (is_member(node) || !is_member(what)) && contains(node, what)
        })
    })
}

/// Returns true if a member of `b` is one of `a`, or if there is one on the way to it that is written in the longer form.
fn overlaps(a: &Trie, b: &Trie) -> bool {
    below(b).any(|(key, what)| {
        a.get(key).and_then(Value::as_object).is_some_and(|node| {
            is_lone_mark(node) || (is_member(node) && is_member(what)) || overlaps(node, what)
        })
    })
}

/// A leaf as clients may write it: `{".":{}}`, which is the same as `{}`.
fn is_lone_mark(node: &Trie) -> bool {
    node.len() == 1 && node.contains_key(SELF)
}

/// Removes the members of `b`, and what has become empty.
fn subtract(a: &mut Trie, b: &Trie) {
    for (key, what) in b {
        if key == SELF {
            continue;
        }
        let (Some(Value::Object(from)), Value::Object(what)) = (a.get_mut(key), what) else { continue };
        if !subtract_node(from, what) {
            a.remove(key);
        }
    }
}

/// Returns true if anything is left.
///
/// A node that loses its membership keeps its children, and a node without either is removed by the caller.
fn subtract_node(a: &mut Trie, b: &Trie) -> bool {
    let member = is_member(a) && !is_member(b);
    if a.is_empty() {
        return member;
    }
    a.remove(SELF);
    subtract(a, b);
    if member && !a.is_empty() {
        a.insert(SELF, own());
    }
    member || !a.is_empty()
}

/// Removes the members of `b` from `a` together with everything below them, unlike `subtract`, which removes single
/// paths.
fn subtract_recursive(a: &mut Trie, b: &Trie) {
    for (key, what) in b {
        let (Some(Value::Object(from)), Value::Object(what)) = (a.get_mut(key), what) else { continue };
        if key == SELF {
            continue;
        }
        let member = is_member(from);
        let mut emptied = is_member(what);
        if !emptied && !from.is_empty() {
            subtract_recursive(from, what);
            // A member without children becomes a leaf; a node that is not a member and has no children is removed.
            if member && from.len() == 1 {
                from.clear();
            }
            emptied = !member && from.is_empty();
        }
        if emptied {
            a.remove(key);
        }
    }
}

/// The paths that are members of both sets. Walks the smaller one.
fn intersection(a: &Trie, b: &Trie) -> Trie {
    let (small, large) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    let mut out = Map::new();
    for (key, one) in small.iter().filter(|(key, _)| *key != SELF) {
        let (Value::Object(one), Some(Value::Object(other))) = (one, large.get(key)) else { continue };
        let mut below = intersection(one, other);
        let member = is_member(one) && is_member(other);
        if member && !below.is_empty() {
            below.insert(SELF, own());
        }
        if member || !below.is_empty() {
            out.insert(key.clone(), Value::Object(below));
        }
    }
    out
}

/// The number of members.
fn count(trie: &Trie) -> usize {
    below(trie).map(|(_, node)| usize::from(is_member(node)) + count(node)).sum()
}

/// The elements, without the mark of the set itself.
fn below(trie: &Trie) -> impl Iterator<Item = (&Text, &Trie)> {
    trie.iter().filter(|(key, _)| *key != SELF).filter_map(|(key, node)| Some((key, node.as_object()?)))
}

/// Paths up to a bound: each repeats those above it, so that all of them may be far longer than the set.
struct FirstPaths {
    paths: Vec<String>,
    left: usize,
}

impl FirstPaths {
    /// Collects paths until the room is used up: the members of this level, then what is below them.
    fn collect(&mut self, trie: &Trie, prefix: &str) {
        for (key, _) in below(trie).filter(|(_, node)| is_member(node)) {
            if self.left == 0 {
                return;
            }
            let path = format!("{prefix}{}", element::show(key));
            self.left = self.left.saturating_sub(path.len());
            self.paths.push(path);
        }
        for (key, node) in below(trie).filter(|(_, node)| !node.is_empty()) {
            if self.left == 0 {
                return;
            }
            self.collect(node, &format!("{prefix}{}", element::show(key)));
        }
    }
}
