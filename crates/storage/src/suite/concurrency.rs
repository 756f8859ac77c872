//! Concurrency cases: many writers and readers at once.
//! They check what the API server builds on: of concurrent creates one wins and the others see its value, an
//! acknowledged write is visible to every later read, a range is a snapshot, and the log has each write exactly once.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::{done, put, read_upto, set, text};
use crate::{Engine, Expect, Range, Written};

/// And all others see the winner's value.
pub(super) async fn one_of_many_creates_wins(engine: &Arc<dyn Engine>) {
    let mut tasks = JoinSet::new();
    for n in 0..20 {
        let engine = Arc::clone(engine);
        tasks.spawn(async move {
            engine.write(put("/a", n.to_string(), Expect::Absent)).await.expect("an answer")
        });
    }
    let outcomes = tasks.join_all().await;
    let winners: Vec<_> = outcomes.iter().filter(|outcome| matches!(outcome, Written::Done { .. })).collect();
    assert_eq!(winners.len(), 1);
    let current = engine.get("/a", None).await.expect("a read").expect("the key");
    assert_eq!(winners[0], &Written::Done { revision: current.revision });
    for outcome in &outcomes {
        if let Written::Refused { current: seen } = outcome {
            assert_eq!(seen.as_ref(), Some(&current));
        }
    }
}

/// Eight writers with retries count as far as one would.
pub(super) async fn increments_are_not_lost(engine: &Arc<dyn Engine>) {
    set(engine, "/n", "0").await;
    let mut tasks = JoinSet::new();
    for _ in 0..8 {
        let engine = Arc::clone(engine);
        tasks.spawn(async move {
            for _ in 0..10 {
                increment(&engine).await;
            }
        });
    }
    tasks.join_all().await;
    assert_eq!(super::value(engine, "/n", None).await.as_deref(), Some("80"));
}

/// Tries again with the value that the refusal returned, without another read.
async fn increment(engine: &Arc<dyn Engine>) {
    let mut current = engine.get("/n", None).await.expect("a read").expect("the key");
    loop {
        let next = text(&current.value).parse::<u32>().expect("a number") + 1;
        let write = put("/n", next.to_string(), Expect::At(current.revision));
        match engine.write(write).await.expect("an answer") {
            Written::Done { .. } => return,
            Written::Refused { current: seen } => current = seen.expect("the key"),
        }
    }
}

/// From any task, at once.
pub(super) async fn reads_see_acknowledged_writes(engine: &Arc<dyn Engine>) {
    let mut tasks = JoinSet::new();
    for writer in 0..4 {
        let engine = Arc::clone(engine);
        tasks.spawn(async move {
            for n in 0..25 {
                let key = format!("/{writer}");
                let revision = set(&engine, &key, &n.to_string()).await;
                assert!(engine.current().await.expect("a revision") >= revision);
                let found = engine.get(&key, None).await.expect("a read").expect("the key");
                assert_eq!((found.revision, text(&found.value)), (revision, n.to_string()));
                let page = engine.range(Range::prefix(&key)).await.expect("a range");
                assert!(page.revision >= revision);
                assert_eq!(page.items.first(), Some(&found));
            }
        });
    }
    tasks.join_all().await;
}

/// One writer sets two keys in turn to the same number: a reader that sees the second ahead of the first has not read a
/// snapshot.
pub(super) async fn ranges_are_snapshots(engine: &Arc<dyn Engine>) {
    set(engine, "/k/a", "0").await;
    set(engine, "/k/b", "0").await;
    let writer = {
        let engine = Arc::clone(engine);
        tokio::spawn(async move {
            for n in 1..100 {
                set(&engine, "/k/a", &n.to_string()).await;
                set(&engine, "/k/b", &n.to_string()).await;
            }
        })
    };
    while !writer.is_finished() {
        let page = engine.range(Range::prefix("/k/")).await.expect("a range");
        let number = |n: usize| text(&page.items[n].value).parse::<u32>().expect("a number");
        assert!(number(0) == number(1) || number(0) == number(1) + 1, "{} and {}", number(0), number(1));
        let newest = page.items.iter().map(|item| item.revision).max();
        assert!(newest <= Some(page.revision));
        tokio::task::yield_now().await;
    }
    writer.await.expect("the writer");
}

/// In the order of revisions, without gaps.
pub(super) async fn the_log_has_every_write_once(engine: &Arc<dyn Engine>) {
    let begin = engine.current().await.expect("a revision");
    let mut log = engine.changes(begin).await.expect("a log");
    let mut tasks = JoinSet::new();
    for writer in 0..8 {
        let engine = Arc::clone(engine);
        tasks.spawn(async move {
            let mut written = Vec::new();
            for n in 0..25 {
                let value = format!("{writer}-{n}");
                written.push((
                    done(&engine, put(&format!("/{}", n % 4), value.clone(), Expect::Any)).await,
                    value,
                ));
            }
            written
        });
    }
    let mut written: Vec<_> = tasks.join_all().await.into_iter().flatten().collect();
    written.sort();
    let last = written.last().expect("a write").0;
    let changes = read_upto(&mut log, last).await;
    let logged: Vec<_> = changes
        .iter()
        .map(|change| (change.revision, change.value.as_ref().map(text).unwrap_or_default()))
        .collect();
    assert_eq!(logged, written);
}
