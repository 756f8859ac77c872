//! Compaction cases: reads before the beginning of history fail with `Compacted`, and no live key is lost.
//! The dangerous part of an implementation is removing the deletion records of keys: a key must neither come back nor,
//! if it lives again, disappear.

use std::sync::Arc;

use super::{listing, read_upto, remove, set, shorthand, value};
use crate::{Engine, Error, Range};

/// With `Compacted`, which becomes 410 Gone.
pub(super) async fn older_reads_and_logs_fail(engine: &Arc<dyn Engine>) {
    let old = set(engine, "/a", "1").await;
    let compacted = set(engine, "/a", "2").await;
    set(engine, "/a", "3").await;
    engine.compact(compacted).await.expect("a compaction");
    assert_eq!(engine.compacted().await.expect("a revision"), compacted);
    let read = engine.get("/a", Some(old)).await;
    assert!(matches!(&read, Err(Error::Compacted { asked, .. }) if *asked == old), "{read:?}");
    let read = engine.range(Range { at: Some(old), ..Range::prefix("/") }).await;
    assert!(matches!(read, Err(Error::Compacted { .. })), "{read:?}");
    let outcome = match engine.changes(old).await {
        Ok(mut log) => log.next().await.map(drop),
        Err(error) => Err(error),
    };
    assert!(matches!(outcome, Err(Error::Compacted { .. })), "{outcome:?}");
}

/// Compaction at a revision keeps that revision readable.
pub(super) async fn the_state_at_the_begin_of_history_stays(engine: &Arc<dyn Engine>) {
    set(engine, "/k/a", "1").await;
    set(engine, "/k/b", "1").await;
    set(engine, "/k/c", "1").await;
    remove(engine, "/k/c").await;
    let compacted = set(engine, "/k/a", "2").await;
    set(engine, "/k/b", "2").await;
    remove(engine, "/k/a").await;
    engine.compact(compacted).await.expect("a compaction");
    assert_eq!(listing(engine, "/k/", Some(compacted)).await, ["/k/a=2", "/k/b=1"]);
    assert_eq!(listing(engine, "/k/", None).await, ["/k/b=2"]);
    assert_eq!(value(engine, "/k/c", Some(compacted)).await, None);
}

/// Also with the values before each change.
pub(super) async fn the_log_after_the_begin_of_history_stays_whole(engine: &Arc<dyn Engine>) {
    set(engine, "/a", "1").await;
    set(engine, "/b", "1").await;
    let compacted = set(engine, "/a", "2").await;
    set(engine, "/b", "2").await;
    let last = remove(engine, "/a").await;
    engine.compact(compacted).await.expect("a compaction");
    let mut log = engine.changes(compacted).await.expect("a log");
    let changes = read_upto(&mut log, last).await;
    assert_eq!(changes.iter().map(shorthand).collect::<Vec<_>>(), ["/b=2(1)", "/a-(2)"]);
}

/// Clearing away a deletion must not bring back what it deleted, nor disturb a key that was created again.
pub(super) async fn deleted_keys_stay_deleted(engine: &Arc<dyn Engine>) {
    for key in ["/k/a", "/k/b"] {
        set(engine, key, "1").await;
        remove(engine, key).await;
    }
    set(engine, "/k/b", "2").await;
    let last = set(engine, "/k/c", "1").await;
    engine.compact(last).await.expect("a compaction");
    assert_eq!(listing(engine, "/k/", None).await, ["/k/b=2", "/k/c=1"]);
    let next = set(engine, "/k/a", "3").await;
    assert_eq!(listing(engine, "/k/", Some(next)).await, ["/k/a=3", "/k/b=2", "/k/c=1"]);
    assert_eq!(listing(engine, "/k/", Some(last)).await, ["/k/b=2", "/k/c=1"]);
}

/// Compacted history stays compacted.
pub(super) async fn going_back_does_nothing(engine: &Arc<dyn Engine>) {
    let first = set(engine, "/a", "1").await;
    let second = set(engine, "/a", "2").await;
    engine.compact(second).await.expect("a compaction");
    engine.compact(first).await.expect("an earlier compaction");
    engine.compact(second).await.expect("the same compaction");
    assert_eq!(engine.compacted().await.expect("a revision"), second);
}

/// It would refuse reads that are yet to come.
pub(super) async fn the_future_cannot_be_compacted(engine: &Arc<dyn Engine>) {
    let current = set(engine, "/a", "1").await;
    let outcome = engine.compact(super::Revision(current.0 + 1000)).await;
    assert!(matches!(outcome, Err(Error::Future { .. })), "{outcome:?}");
    assert_eq!(value(engine, "/a", None).await.as_deref(), Some("1"));
}
