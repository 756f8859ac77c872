//! The memory engine: the same guarantees as the others, except durability.
//!
//! The state is a persistent ordered map, so that a reader takes a snapshot in constant time and never holds up a
//! writer. History is the [tail](crate::tail) of the log alone: the state at an older revision is the newest state with
//! the changes since then undone, which costs time in proportion to these changes.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use imbl::OrdMap;
use listwatch_wire::Revision;
use parking_lot::Mutex;

use crate::tail::{LogCursor, NoBacklog, Tail, TailBounds};
use crate::{
    Batch, Change, Changes, Engine, Error, KeyValue, KeyVersion, Page, Range, Transacted, VersionRange,
    Write, Written,
};

/// The bounds of a [`MemoryEngine`]. Whichever is reached first ends history: a watch from before it gets 410.
///
/// State is not bounded here: it is as large as the objects that are stored. The server's own limits on requests and
/// quota apply before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryOptions {
    /// The number of past changes that can be read. 100,000 are minutes of a busy cluster.
    pub history_changes: usize,
    /// The bytes that those may take. 64 MiB, about half of what 100,000 objects of a usual size would.
    pub history_bytes: usize,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        Self { history_changes: 100_000, history_bytes: 64 << 20 }
    }
}

type MemoryVersion = (Revision, Bytes);
/// A clone shares all nodes, so a snapshot is a pointer, and a write copies the path to one leaf.
type MemoryState = OrdMap<Arc<str>, MemoryVersion>;

/// A store that is lost with its process: for tests, and for servers whose state may be lost.
///
/// Writes of all callers are serialized by one mutex, which is held for a few map operations and never across an
/// await. A write is acknowledged at once, since there is nothing to wait for; "durable" here means visible to every
/// later read.
#[derive(Debug)]
pub struct MemoryEngine {
    /// Writers hold this over publishing as well, so that the log has the order of the revisions.
    latest: Mutex<(Revision, MemoryState)>,
    tail: Arc<Tail>,
}

impl Default for MemoryEngine {
    fn default() -> Self {
        Self::new(MemoryOptions::default())
    }
}

impl MemoryEngine {
    /// An empty store.
    #[must_use]
    pub fn new(options: MemoryOptions) -> Self {
        let bounds = TailBounds { changes: options.history_changes, bytes: options.history_bytes };
        Self { latest: Mutex::default(), tail: Arc::new(Tail::new(Revision::ZERO, bounds)) }
    }

    /// The state now. Constant time: maps are shared.
    fn snapshot(&self) -> Result<(Revision, MemoryState), Error> {
        if self.tail.is_closed() { Err(Error::Closed) } else { Ok(self.latest.lock().clone()) }
    }

    /// A snapshot, and what must be undone in it to show `at`.
    fn snapshot_at(&self, at: Option<Revision>) -> Result<(Revision, MemoryState, Undo), Error> {
        let (current, state) = self.snapshot()?;
        let asked = at.unwrap_or(current);
        if asked > current {
            return Err(Error::Future { asked, current });
        }
        if asked == current {
            // The log may already have moved past this snapshot; nothing needs to be undone in it.
            return Ok((current, state, Undo(HashMap::new())));
        }
        let batches = self.tail.since(asked).ok_or_else(|| self.compacted_at(asked))?;
        Ok((asked, state, Undo::of(&batches, asked, current)))
    }

    /// The error of a read before the beginning of history.
    fn compacted_at(&self, asked: Revision) -> Error {
        Error::Compacted { asked, oldest: self.tail.floor() }
    }

    /// Applies writes whose conditions hold, and publishes them as one batch.
    ///
    /// The caller holds the lock of `latest` until this returns, which is what keeps the log in the order of the
    /// revisions.
    fn commit(&self, latest: &mut (Revision, MemoryState), writes: Vec<Write>) -> Vec<Revision> {
        let changes: Vec<Change> = writes.into_iter().map(|write| Self::apply(latest, write)).collect();
        let revisions = changes.iter().map(|change| change.revision).collect();
        self.tail.publish(Batch { changes: changes.into(), upto: latest.0 });
        revisions
    }

    /// Every write gets a revision of its own, also within a transaction, as in the embedded engine and unlike etcd.
    fn apply((current, state): &mut (Revision, MemoryState), write: Write) -> Change {
        let revision = current.next();
        let previous = match &write.value {
            Some(value) => state.insert(Arc::clone(&write.key), (revision, value.clone())),
            None => state.remove(&write.key),
        };
        *current = revision;
        Change { revision, key: write.key, value: write.value, previous }
    }
}

/// The versions of a key that a part of the log has, oldest first, and before them the one that was current at its begin.
///
/// Costs as much as the whole tail, since it is not indexed by key. Histories are read by people, not by controllers.
fn versions_in(batches: &[Batch], key: &str) -> Vec<KeyVersion> {
    let of_key = |change: &&Change| &*change.key == key;
    let mut versions: Vec<KeyVersion> = Vec::new();
    for change in batches.iter().flat_map(|batch| batch.changes.iter()).filter(of_key) {
        if let (true, Some((revision, value))) = (versions.is_empty(), &change.previous) {
            versions.push(KeyVersion { revision: *revision, value: Some(value.clone()), origin: None });
        }
        versions.push(KeyVersion { revision: change.revision, value: change.value.clone(), origin: None });
    }
    versions
}

/// The values of keys at an older revision, where they differ from a newer state.
///
/// Built from the log alone, so it costs as much as there were changes since, not as much as there are keys.
struct Undo(HashMap<Arc<str>, Option<MemoryVersion>>);

impl Undo {
    /// The first change of a key after `at` has, as its previous value, what the key held at that time.
    fn of(batches: &[Batch], at: Revision, current: Revision) -> Self {
        let mut undo = HashMap::new();
        let since = |change: &&Change| change.revision > at && change.revision <= current;
        for change in batches.iter().flat_map(|batch| batch.changes.iter()).filter(since) {
            undo.entry(Arc::clone(&change.key)).or_insert_with(|| change.previous.clone());
        }
        Self(undo)
    }

    /// `state` with the changes of the range undone.
    fn apply(self, mut state: MemoryState, range: &Range) -> MemoryState {
        for (key, version) in self.0.into_iter().filter(|(key, _)| contains(range, key)) {
            match version {
                Some(version) => state.insert(key, version),
                None => state.remove(&key),
            };
        }
        state
    }
}

fn contains(range: &Range, key: &str) -> bool {
    key >= &*range.start && (range.end.is_empty() || key < &*range.end)
}

fn key_value(key: &Arc<str>, (revision, value): &MemoryVersion) -> KeyValue {
    KeyValue { key: Arc::clone(key), value: value.clone(), revision: *revision }
}

/// The rest of the range is walked to count it, a step per key without a copy.
fn page(state: &MemoryState, range: &Range, revision: Revision) -> Page {
    if range.is_empty() {
        return Page { revision, items: Vec::new(), count: 0 };
    }
    let end = if range.end.is_empty() { Bound::Unbounded } else { Bound::Excluded(Arc::clone(&range.end)) };
    let mut entries = state.range((Bound::Included(Arc::clone(&range.start)), end));
    let limit = if range.limit == 0 { usize::MAX } else { range.limit };
    let items: Vec<_> = entries.by_ref().take(limit).map(|(key, version)| key_value(key, version)).collect();
    let count = items.len().saturating_add(entries.count()) as u64;
    Page { revision, items, count }
}

#[async_trait]
impl Engine for MemoryEngine {
    async fn current(&self) -> Result<Revision, Error> {
        self.snapshot().map(|(current, _)| current)
    }

    async fn get(&self, key: &str, at: Option<Revision>) -> Result<Option<KeyValue>, Error> {
        let (_, state, undo) = self.snapshot_at(at)?;
        match undo.0.get_key_value(key) {
            Some((key, version)) => Ok(version.as_ref().map(|version| key_value(key, version))),
            None => Ok(state.get_key_value(key).map(|(key, version)| key_value(key, version))),
        }
    }

    async fn range(&self, range: Range) -> Result<Page, Error> {
        let (revision, state, undo) = self.snapshot_at(range.at)?;
        Ok(page(&undo.apply(state, &range), &range, revision))
    }

    async fn versions(&self, key: &str, range: VersionRange) -> Result<Vec<KeyVersion>, Error> {
        let (_, state) = self.snapshot()?;
        let mut known = versions_in(&self.tail.since(self.tail.floor()).unwrap_or_default(), key);
        if let (true, Some((revision, value))) = (known.is_empty(), state.get(key)) {
            known.push(KeyVersion { revision: *revision, value: Some(value.clone()), origin: None });
        }
        let mut versions = Vec::new();
        for version in known.into_iter().rev().filter(|version| range.has(version.revision)) {
            if range.is_full(&versions) {
                break;
            }
            versions.push(version);
        }
        Ok(versions)
    }

    async fn write(&self, write: Write) -> Result<Written, Error> {
        write.check()?;
        let mut latest = self.latest.lock();
        if self.tail.is_closed() {
            return Err(Error::Closed);
        }
        let current = latest.1.get_key_value(&write.key);
        if !write.applies(current.map(|(_, (revision, _))| *revision)) {
            return Ok(Written::Refused { current: current.map(|(key, version)| key_value(key, version)) });
        }
        let revisions = self.commit(&mut latest, vec![write]);
        Ok(Written::Done { revision: revisions.first().copied().unwrap_or_default() })
    }

    async fn transact(&self, writes: Vec<Write>) -> Result<Transacted, Error> {
        Write::check_all(&writes)?;
        let mut latest = self.latest.lock();
        if self.tail.is_closed() {
            return Err(Error::Closed);
        }
        let current = |write: &Write| latest.1.get_key_value(&write.key);
        if writes.iter().all(|write| write.applies(current(write).map(|(_, (revision, _))| *revision))) {
            return Ok(Transacted::Done { revisions: self.commit(&mut latest, writes) });
        }
        let found = writes.iter().map(|write| current(write).map(|(key, version)| key_value(key, version)));
        Ok(Transacted::Refused { current: found.collect() })
    }

    async fn changes(&self, after: Revision) -> Result<Box<dyn Changes>, Error> {
        let current = self.current().await?;
        if after > current {
            return Err(Error::Future { asked: after, current });
        }
        if after < self.tail.floor() {
            return Err(self.compacted_at(after));
        }
        Ok(Box::new(LogCursor::new(
            Arc::clone(&self.tail),
            Arc::new(NoBacklog(Arc::clone(&self.tail))),
            after,
        )))
    }

    async fn compact(&self, upto: Revision) -> Result<(), Error> {
        let current = self.current().await?;
        if upto > current {
            return Err(Error::Future { asked: upto, current });
        }
        self.tail.forget(upto);
        Ok(())
    }

    async fn compacted(&self) -> Result<Revision, Error> {
        Ok(self.tail.floor())
    }

    async fn close(&self) -> Result<(), Error> {
        self.tail.close();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Expect;

    #[tokio::test]
    async fn history_is_bounded_and_the_state_is_not() {
        let engine = MemoryEngine::new(MemoryOptions { history_changes: 10, history_bytes: usize::MAX });
        for n in 0..100 {
            let write = Write {
                key: format!("/{n}").into(),
                value: Some("v".into()),
                expect: Expect::Any,
                origin: None,
            };
            engine.write(write).await.unwrap();
        }
        assert_eq!(engine.compacted().await.unwrap(), Revision(90));
        assert_eq!(engine.range(Range::prefix("/")).await.unwrap().count, 100);
        assert_eq!(
            engine.range(Range { at: Some(Revision(90)), ..Range::prefix("/") }).await.unwrap().count,
            90
        );
        assert!(matches!(engine.get("/1", Some(Revision(89))).await, Err(Error::Compacted { .. })));
        assert!(matches!(engine.changes(Revision(89)).await, Err(Error::Compacted { .. })));
    }
}
