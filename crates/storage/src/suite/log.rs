//! Log cases: changes are complete, in order, without repetition, and can be followed from any position in history.
//! A cursor must survive being slow and having its future dropped half-way, because a watch is cancelled at any await.
//! The last case is what consistent reads from a cache need: the log reaches the current revision even if nothing
//! changes.

use std::sync::Arc;
use std::time::Duration;

use super::{PATIENCE, read_upto, remove, set, shorthand};
use crate::{Engine, Error};

/// A change carries the value before it, by which watches with selectors decide what kind of event it is.
pub(super) async fn changes_come_in_order_with_previous_values(engine: &Arc<dyn Engine>) {
    let begin = engine.current().await.expect("a revision");
    let mut log = engine.changes(begin).await.expect("a log");
    let first = set(engine, "/a", "1").await;
    set(engine, "/b", "2").await;
    set(engine, "/a", "3").await;
    remove(engine, "/a").await;
    let last = set(engine, "/a", "4").await;
    let changes = read_upto(&mut log, last).await;
    let expected = ["/a=1(none)", "/b=2(none)", "/a=3(1)", "/a-(3)", "/a=4(none)"];
    assert_eq!(changes.iter().map(shorthand).collect::<Vec<_>>(), expected);
    assert!(changes.windows(2).all(|pair| pair[0].revision < pair[1].revision));
    assert_eq!(changes[2].previous.as_ref().map(|previous| previous.0), Some(first));
}

/// From every revision the rest follows, without the revision itself.
pub(super) async fn the_log_starts_anywhere(engine: &Arc<dyn Engine>) {
    let mut revisions = vec![engine.current().await.expect("a revision")];
    for n in 0..10 {
        revisions.push(set(engine, "/a", &n.to_string()).await);
    }
    for (skipped, after) in revisions.iter().take(10).enumerate() {
        let mut log = engine.changes(*after).await.expect("a log");
        let changes = read_upto(&mut log, revisions[10]).await;
        assert_eq!(
            changes.iter().map(|change| change.revision).collect::<Vec<_>>(),
            revisions[skipped + 1..]
        );
    }
}

/// At the end of the log a reader waits, and is woken by the next write.
pub(super) async fn an_empty_log_waits(engine: &Arc<dyn Engine>) {
    let current = set(engine, "/a", "1").await;
    let mut log = engine.changes(current).await.expect("a log");
    let waiting = tokio::spawn(async move {
        let changes = read_upto(&mut log, current.next()).await;
        changes.iter().map(shorthand).collect::<Vec<_>>()
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!waiting.is_finished());
    set(engine, "/a", "2").await;
    assert_eq!(
        tokio::time::timeout(PATIENCE, waiting).await.expect("in time").expect("changes"),
        ["/a=2(1)"]
    );
}

/// A reader may stop waiting at any time, as `select!` does.
pub(super) async fn dropping_the_future_loses_nothing(engine: &Arc<dyn Engine>) {
    let begin = engine.current().await.expect("a revision");
    let mut log = engine.changes(begin).await.expect("a log");
    let mut seen = Vec::new();
    let mut last = begin;
    for n in 0..20 {
        last = set(engine, "/a", &n.to_string()).await;
        // Polled once or twice, then dropped: wherever it was, nothing may be skipped.
        if let Ok(batch) = tokio::time::timeout(Duration::from_micros(n * 50), log.next()).await {
            seen.extend(batch.expect("a batch").changes.iter().cloned());
        }
    }
    if seen.last().is_none_or(|change| change.revision < last) {
        seen.extend(read_upto(&mut log, last).await);
    }
    let values: Vec<_> =
        seen.iter().map(|change| super::text(change.value.as_ref().expect("a value"))).collect();
    assert_eq!(values, (0..20).map(|n: u32| n.to_string()).collect::<Vec<_>>());
}

/// Each has its own position.
pub(super) async fn many_readers_see_the_same(engine: &Arc<dyn Engine>) {
    let begin = engine.current().await.expect("a revision");
    let mut logs = Vec::new();
    for _ in 0..20 {
        logs.push(engine.changes(begin).await.expect("a log"));
    }
    let mut last = begin;
    for n in 0..50 {
        last = set(engine, &format!("/{}", n % 7), &n.to_string()).await;
    }
    let first = read_upto(&mut logs[0], last).await;
    for log in &mut logs[1..] {
        assert_eq!(read_upto(log, last).await, first);
    }
}

/// It reads from memory, then from the engine, until history itself has ended.
pub(super) async fn a_slow_reader_misses_nothing(engine: &Arc<dyn Engine>) {
    let begin = engine.current().await.expect("a revision");
    let mut slow = engine.changes(begin).await.expect("a log");
    let first = set(engine, "/a", "0").await;
    read_upto(&mut slow, first).await;
    let mut last = first;
    for n in 1..500 {
        last = set(engine, &format!("/{}", n % 5), &n.to_string()).await;
    }
    let changes = read_upto(&mut slow, last).await;
    let values: Vec<_> =
        changes.iter().map(|change| super::text(change.value.as_ref().expect("a value"))).collect();
    assert_eq!(values, (1..500).map(|n: u32| n.to_string()).collect::<Vec<_>>());
}

/// A position that was not reached comes from another store, or from a backup that was restored.
pub(super) async fn future_positions_are_an_error(engine: &Arc<dyn Engine>) {
    let current = set(engine, "/a", "1").await;
    let log = engine.changes(super::Revision(current.0 + 1000)).await;
    assert!(matches!(log, Err(Error::Future { .. })), "{log:?}");
}

/// Consistent reads from a cache wait until the log reaches the revision of [`Engine::current`], even if nothing changes here.
pub(super) async fn the_log_reaches_the_current_revision(engine: &Arc<dyn Engine>) {
    let begin = engine.current().await.expect("a revision");
    let mut log = engine.changes(begin).await.expect("a log");
    set(engine, "/a", "1").await;
    remove(engine, "/a").await;
    let current = engine.current().await.expect("a revision");
    assert_eq!(read_upto(&mut log, current).await.len(), 2);
}
