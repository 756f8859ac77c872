//! The recent end of the log of changes, in memory, with one writer and many followers.
//!
//! An engine publishes each durable batch here. A [`LogCursor`] is a position in the log; it shares the batches with all
//! other cursors, waits without polling, and costs nothing while it is slow: when the tail has moved past it, it
//! continues with the engine's [`LogBacklog`]; if that is compacted, too, the cursor has lost its history.
//!
//! A tail is memory only. It decides nothing about durability: the engine publishes after its sync (embedded), after
//! its own map changed (memory), or as etcd's watch delivers. Three bounds meet here: number and bytes of changes
//! bound the tail, the engine's retention bounds the backlog. The watch cache has a structure of its own, `view.rs`
//! in the server, since it keeps decoded headers per collection and not changes of all keys.

mod cursor;

use std::collections::VecDeque;

use bytes::Bytes;
use listwatch_wire::Revision;
use parking_lot::RwLock;
use tokio::sync::watch;

use crate::{Batch, Change, Error};

pub(crate) use cursor::{LogBacklog, LogCursor, NoBacklog};

/// The memory of one change beside its bytes: its own fields, two counters and the slot in the queue.
const CHANGE_OVERHEAD: usize = size_of::<Change>() + 64;

/// The part of the log that stays in memory; the bound that is reached first counts.
///
/// Bytes alone would let a million tiny changes cost more in overhead than in content, a number alone would let large
/// objects take any amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TailBounds {
    pub(crate) changes: usize,
    pub(crate) bytes: usize,
}

/// The recent end of the log.
///
/// One task publishes; any number of cursors read. Batches are behind `Arc`s, so that the lock is held for a lookup
/// and never while a batch is used.
#[derive(Debug)]
pub(crate) struct Tail {
    bounds: TailBounds,
    recent: RwLock<RecentChanges>,
    /// The newest revision in the log. A separate channel, so that a waiting cursor takes no lock that the writer needs.
    reached: watch::Sender<Reached>,
}

/// Both in one channel, so that closing wakes the same waiters as a publication does.
#[derive(Clone, Copy, Debug)]
struct Reached {
    upto: Revision,
    closed: bool,
}

/// Whole batches enter and leave, because a transaction must not be cut by a bound.
#[derive(Debug)]
struct RecentChanges {
    /// All changes after this revision are in `batches`.
    floor: Revision,
    batches: VecDeque<Batch>,
    changes: usize,
    bytes: usize,
}

/// The contents of the tail after some position.
enum TailRead {
    Batch(Batch),
    /// The cursor is at the end of the log and waits.
    Nothing,
    /// The position is below `floor`: only the engine's history can say what comes next.
    Behind,
}

impl Tail {
    /// An empty tail of a log that so far reaches up to `upto`.
    pub(crate) fn new(upto: Revision, bounds: TailBounds) -> Self {
        let recent = RecentChanges { floor: upto, batches: VecDeque::new(), changes: 0, bytes: 0 };
        Self {
            bounds,
            recent: RwLock::new(recent),
            reached: watch::Sender::new(Reached { upto, closed: false }),
        }
    }

    /// The newest revision in the log.
    #[cfg_attr(not(feature = "etcd"), expect(dead_code, reason = "a local writer knows its revision"))]
    pub(crate) fn upto(&self) -> Revision {
        self.reached.borrow().upto
    }

    /// All changes after this revision are in memory.
    ///
    /// For the memory engine this is the begin of history, since it has no other.
    pub(crate) fn floor(&self) -> Revision {
        self.recent.read().floor
    }

    /// Returns true after [`Tail::close`].
    pub(crate) fn is_closed(&self) -> bool {
        self.reached.borrow().closed
    }

    /// Appends a batch and wakes all waiters. Revisions must not go back.
    pub(crate) fn publish(&self, batch: Batch) {
        let upto = batch.upto;
        self.append(batch);
        self.reach(upto);
    }

    /// Appends a batch, for cursors that look; those that wait are woken by [`Tail::reach`]. The cost is that of the batches it
    /// drops, on average one.
    pub(crate) fn append(&self, batch: Batch) {
        let mut recent = self.recent.write();
        recent.push(batch);
        recent.shrink(self.bounds);
    }

    /// Wakes all waiters: the log has been appended to up to `upto`. Without the lock, so that none of them wakes up only to wait
    /// for it.
    pub(crate) fn reach(&self, upto: Revision) {
        self.reached.send_modify(|reached| reached.upto = reached.upto.max(upto));
    }

    /// Drops batches before `upto`.
    ///
    /// A batch that spans `upto` stays whole; cursors before `upto` are refused by `floor` nevertheless.
    pub(crate) fn forget(&self, upto: Revision) {
        self.recent.write().forget(upto);
    }

    /// Drops everything and continues at `upto`, for a feed that lost its position.
    ///
    /// Cursors that are behind the new floor turn to their
    /// backlog, which has the changes or fails with [`Error::Compacted`].
    #[cfg_attr(not(feature = "etcd"), expect(dead_code, reason = "only a remote log can lose its place"))]
    pub(crate) fn restart(&self, upto: Revision) {
        *self.recent.write() = RecentChanges { floor: upto, batches: VecDeque::new(), changes: 0, bytes: 0 };
        self.reached.send_modify(|reached| reached.upto = upto);
    }

    /// Ends the log: all cursors fail with [`Error::Closed`].
    ///
    /// Changes that were published before and not yet read are not delivered: the state is durable, and followers
    /// start over at the next start.
    pub(crate) fn close(&self) {
        self.reached.send_modify(|reached| reached.closed = true);
    }

    /// The batches after `after`, oldest first, or `None` if the tail begins later. The first may begin at or before it.
    pub(crate) fn since(&self, after: Revision) -> Option<Vec<Batch>> {
        let recent = self.recent.read();
        (after >= recent.floor)
            .then(|| recent.batches.iter().skip(recent.first_after(after)).cloned().collect())
    }

    /// The value that the change at `revision` put, if it is in memory.
    ///
    /// Two binary searches, by batch and by revision. Only for logs in which a revision names one change, as that of
    /// the embedded engine: within an etcd transaction several share one.
    pub(crate) fn value_at(&self, revision: Revision) -> Option<Bytes> {
        let recent = self.recent.read();
        if revision <= recent.floor {
            return None;
        }
        let batch = recent.batches.get(recent.batches.partition_point(|batch| batch.upto < revision))?;
        let position = batch.changes.binary_search_by_key(&revision, |change| change.revision).ok()?;
        batch.changes.get(position)?.value.clone()
    }

    /// Waits until the log reaches `revision`.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] if the log ends before.
    pub(crate) async fn wait_for(&self, revision: Revision) -> Result<(), Error> {
        let mut reached = self.reached.subscribe();
        let found = reached.wait_for(|reached| reached.closed || reached.upto >= revision).await;
        if found.is_ok_and(|reached| !reached.closed) { Ok(()) } else { Err(Error::Closed) }
    }

    /// The batches after a revision, or that they are not in memory any more.
    fn find(&self, after: Revision) -> TailRead {
        let recent = self.recent.read();
        if after < recent.floor {
            return TailRead::Behind;
        }
        match recent.batches.get(recent.first_after(after)) {
            None => TailRead::Nothing,
            Some(batch) => TailRead::Batch(cut(batch, after)),
        }
    }
}

/// The part of a batch after `after`; shares the batch itself whenever all of it is.
///
/// A cursor that begins in the middle of a batch pays for one copy, once.
fn cut(batch: &Batch, after: Revision) -> Batch {
    match batch.changes.first() {
        Some(first) if first.revision <= after => {
            let changes = batch.changes.iter().filter(|change| change.revision > after).cloned().collect();
            Batch { changes, upto: batch.upto }
        }
        _ => batch.clone(),
    }
}

impl RecentChanges {
    /// The index of the first batch that reaches further than `after`.
    fn first_after(&self, after: Revision) -> usize {
        self.batches.partition_point(|batch| batch.upto <= after)
    }

    /// The empty batch extends the last one, so `upto` of a stored batch can be greater than that of the clone which
    /// a cursor already has; the cursor reads the difference as an empty batch.
    fn push(&mut self, batch: Batch) {
        match self.batches.back_mut() {
            // A log that only moves on, as etcd's does by the writes of others, must not pile up empty batches.
            Some(last) if batch.changes.is_empty() => last.upto = last.upto.max(batch.upto),
            _ => {
                self.changes += batch.changes.len();
                self.bytes += cost(&batch);
                self.batches.push_back(batch);
            }
        }
    }

    /// May leave nothing: a batch larger than the bounds is dropped at once, and every cursor reads it from the
    /// backlog.
    fn shrink(&mut self, bounds: TailBounds) {
        while self.changes > bounds.changes || self.bytes > bounds.bytes {
            if !self.pop() {
                break;
            }
        }
    }

    /// Drops batches that have become older than history.
    fn forget(&mut self, upto: Revision) {
        while self.batches.front().is_some_and(|batch| batch.upto <= upto) {
            self.pop();
        }
        self.floor = self.floor.max(upto);
    }

    /// Drops the oldest batch; the engine has it still.
    fn pop(&mut self) -> bool {
        let Some(batch) = self.batches.pop_front() else { return false };
        self.changes -= batch.changes.len();
        self.bytes -= cost(&batch);
        self.floor = self.floor.max(batch.upto);
        true
    }
}

/// The memory of a batch. Previous values are not counted: each is the value of an earlier change, or the reader's.
fn cost(batch: &Batch) -> usize {
    let one = |change: &Change| {
        CHANGE_OVERHEAD + change.key.len() + change.value.as_ref().map_or(0, |value| value.len())
    };
    CHANGE_OVERHEAD + batch.changes.iter().map(one).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Changes;

    fn change(revision: u64) -> Change {
        let value = Some(Bytes::from(revision.to_string()));
        Change { revision: Revision(revision), key: "/k".into(), value, previous: None }
    }

    fn batch(revisions: std::ops::RangeInclusive<u64>) -> Batch {
        let upto = Revision(*revisions.end());
        Batch { changes: revisions.map(change).collect(), upto }
    }

    fn tail(changes: usize) -> Arc<Tail> {
        Arc::new(Tail::new(Revision(0), TailBounds { changes, bytes: usize::MAX }))
    }

    fn cursor(tail: &Arc<Tail>, after: u64) -> LogCursor {
        LogCursor::new(Arc::clone(tail), Arc::new(NoBacklog(Arc::clone(tail))), Revision(after))
    }

    async fn revisions(cursor: &mut LogCursor) -> Vec<u64> {
        cursor.next().await.unwrap().changes.iter().map(|change| change.revision.0).collect()
    }

    #[tokio::test]
    async fn a_cursor_shares_whole_batches_and_cuts_the_one_it_starts_in() {
        let tail = tail(100);
        let published = batch(1..=3);
        tail.publish(published.clone());
        tail.publish(batch(4..=5));
        let first = cursor(&tail, 0).next().await.unwrap();
        assert!(Arc::ptr_eq(&first.changes, &published.changes));
        let mut late = cursor(&tail, 2);
        assert_eq!(revisions(&mut late).await, [3]);
        assert_eq!(revisions(&mut late).await, [4, 5]);
    }

    #[tokio::test]
    async fn changes_beyond_the_bounds_are_dropped_from_the_front() {
        let tail = tail(3);
        (1..=5).for_each(|revision| tail.publish(batch(revision..=revision)));
        assert_eq!(tail.floor(), Revision(2));
        assert_eq!((tail.value_at(Revision(2)), tail.value_at(Revision(3))), (None, Some("3".into())));
        let outcome = cursor(&tail, 1).next().await;
        assert!(matches!(outcome, Err(Error::Compacted { oldest: Revision(2), .. })), "{outcome:?}");
        assert_eq!(revisions(&mut cursor(&tail, 2)).await, [3]);
    }

    #[tokio::test]
    async fn bytes_are_bounded_too() {
        let tail = Tail::new(Revision(0), TailBounds { changes: usize::MAX, bytes: 10 * CHANGE_OVERHEAD });
        (1..=1000).for_each(|revision| tail.publish(batch(revision..=revision)));
        assert!(tail.since(tail.floor()).unwrap().len() < 10);
        assert_eq!(tail.upto(), Revision(1000));
    }

    /// Writes of other programs advance a log without changes; a million of them must not take more memory than one.
    #[tokio::test]
    async fn empty_batches_only_move_the_end() {
        let tail = tail(100);
        tail.publish(batch(1..=1));
        (2..=1000).for_each(|upto| tail.publish(Batch { changes: Arc::new([]), upto: Revision(upto) }));
        assert_eq!(tail.since(Revision(0)).unwrap().len(), 1);
        assert_eq!(
            cursor(&tail, 1).next().await.unwrap(),
            Batch { changes: Arc::new([]), upto: Revision(1000) }
        );
    }

    #[tokio::test]
    async fn closing_wakes_everyone() {
        let tail = tail(100);
        let mut waiting = cursor(&tail, 0);
        let waiting = tokio::spawn(async move { waiting.next().await.map(drop) });
        let reached = tokio::spawn({
            let tail = Arc::clone(&tail);
            async move { tail.wait_for(Revision(9)).await }
        });
        tokio::task::yield_now().await;
        tail.close();
        assert!(matches!(waiting.await.unwrap(), Err(Error::Closed)));
        assert!(matches!(reached.await.unwrap(), Err(Error::Closed)));
    }
}
