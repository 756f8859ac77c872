//! Reads: a key, a range of keys at one revision, and the versions of a key.
//!
//! Ranges are half-open intervals of keys in byte order, as in etcd. A prefix is such an interval, and so is the rest of a list
//! after its last key: pages need no other notion.

use std::sync::Arc;

use bytes::Bytes;
use listwatch_wire::Revision;

/// A key with its current value and the revision that wrote it.
///
/// Cloning shares key and value: both are reference counted, because one value goes to the cache, to the log and to
/// responses at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    /// The whole key, for example `/registry/configmaps/default/a`.
    pub key: Arc<str>,
    /// The value as it was written; opaque to the engine. In a [`Page`] and in a refused write it is empty if the stored
    /// one is damaged, so that the other values can still be used. [`Engine::health`](crate::Engine::health) then reports
    /// the damage.
    pub value: Bytes,
    /// The revision of the write that put this value.
    pub revision: Revision,
}

/// The keys that [`Engine::range`](crate::Engine::range) returns, from `start` up to `end`, and the revision at which they are read.
///
/// There is no separate form for a single namespace or a whole resource: both are prefixes of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first key, inclusive.
    pub start: Arc<str>,
    /// The end, exclusive; empty means no end.
    pub end: Arc<str>,
    /// At most so many; zero means all.
    pub limit: usize,
    /// The revision to read at; `None` reads the latest.
    pub at: Option<Revision>,
}

impl Range {
    /// All keys that start with `prefix`, at the latest revision.
    ///
    /// ```
    /// let range = listwatch_storage::Range::prefix("/registry/pods/");
    /// assert_eq!(&*range.end, "/registry/pods0");
    /// ```
    #[must_use]
    pub fn prefix(prefix: &str) -> Self {
        Self { start: prefix.into(), end: after_prefix(prefix).into(), limit: 0, at: None }
    }

    /// Returns true if no key can be in the range.
    ///
    /// Engines answer such a range without reading, but still check the revision that it names.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.end.is_empty() && self.end <= self.start
    }
}

/// The first string after all those that start with `prefix`, or nothing if there is none.
fn after_prefix(prefix: &str) -> String {
    let mut end = prefix.to_owned();
    while let Some(last) = end.pop() {
        // The surrogate gap has no characters: the one after U+D7FF is U+E000.
        let next = if last == '\u{D7FF}' {
            Some('\u{E000}')
        } else {
            char::from_u32(u32::from(last).saturating_add(1))
        };
        if let Some(next) = next {
            end.push(next);
            break;
        }
    }
    end
}

/// A page of a range: a snapshot of one revision. Later pages of the same list are read at that revision.
///
/// There is no continue token here. The server makes one of the last key and this revision, and the next page is a
/// range that starts after that key.
///
/// ```
/// use listwatch_storage::{Engine, Expect, MemoryEngine, Range, Write};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), listwatch_storage::Error> {
/// let engine = MemoryEngine::default();
/// for key in ["/pods/a/x", "/pods/a/y", "/pods/b/z"] {
///     let write = Write { key: key.into(), value: Some("{}".into()), expect: Expect::Any, origin: None };
///     engine.write(write).await?;
/// }
/// let first = engine.range(Range { limit: 2, ..Range::prefix("/pods/") }).await?;
/// assert_eq!((first.items.len(), first.count), (2, 3));
///
/// // The next page begins after the last key, at the revision of the first.
/// let after = format!("{}\0", first.items[1].key);
/// let next = Range { start: after.into(), at: Some(first.revision), ..Range::prefix("/pods/") };
/// assert_eq!(&*engine.range(next).await?.items[0].key, "/pods/b/z");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The revision the page shows.
    pub revision: Revision,
    /// The entries in key order.
    pub items: Vec<KeyValue>,
    /// The number of keys in the whole range at that revision.
    ///
    /// kube-apiserver sends what remains of it as `remainingItemCount`.
    pub count: u64,
}

/// One version of a key, for the history of an object.
///
/// Not a [`KeyValue`]: a deletion is a version too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyVersion {
    /// The revision of the write.
    pub revision: Revision,
    /// The value, or `None` if the write deleted the key.
    pub value: Option<Bytes>,
    /// The [origin](crate::Write::origin) of the write, if it is known.
    pub origin: Option<Arc<str>>,
}

/// The versions of a key that [`Engine::versions`](crate::Engine::versions) returns, bounded by number and by bytes.
///
/// Both bounds are there because versions differ in size by a factor of thousands: a number alone would let one page
/// of a large ConfigMap's history fill the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionRange {
    /// Only versions older than this; `None` begins with the newest.
    pub before: Option<Revision>,
    /// At most so many.
    pub limit: usize,
    /// No further version once there are so many bytes of values. One version is always returned.
    pub bytes: usize,
}

impl VersionRange {
    /// True if these are as many versions as requested.
    pub(crate) fn is_full(&self, versions: &[KeyVersion]) -> bool {
        let bytes: usize = versions.iter().filter_map(|version| version.value.as_ref()).map(Bytes::len).sum();
        versions.len() >= self.limit.max(1) || (!versions.is_empty() && bytes >= self.bytes)
    }

    /// True if a version is older than where the range begins.
    pub(crate) fn has(&self, revision: Revision) -> bool {
        self.before.is_none_or(|before| revision < before)
    }
}
