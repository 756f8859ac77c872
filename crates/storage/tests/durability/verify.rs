//! The properties that a store must have after a crash.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use listwatch_storage::{Change, EmbeddedEngine, Engine, Range, Revision, embedded::offline};

use crate::worker::{options, seed};

/// One line of the worker: an acknowledged write, or a change read from the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) answer: bool,
    pub(crate) revision: Revision,
    pub(crate) key: String,
    /// Zero for a deletion.
    pub(crate) seed: u64,
}

/// The notes of a worker. A last line without an end was cut by the kill.
pub(crate) fn notes(text: &str) -> Vec<Note> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(parse).collect()
}

fn parse(line: &str) -> Note {
    let parts: Vec<&str> = line.split(' ').collect();
    let [what, revision, key, seed] = parts[..] else { panic!("bad note {line:?}") };
    Note {
        answer: what == "ack",
        revision: revision.parse().unwrap(),
        key: key.to_owned(),
        seed: seed.parse().unwrap(),
    }
}

/// The amounts that a verification looked at.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) acknowledged: usize,
    pub(crate) seen: usize,
    pub(crate) changes: usize,
}

/// Opens the store and compares it with the notes: everything noted is there, everything there is whole, the log has no
/// gap, and what it adds up to is what the store holds.
pub(crate) async fn verify(directory: &Path, notes: &[Note]) -> Counts {
    let engine: Arc<dyn Engine> = Arc::new(EmbeddedEngine::open(directory, options()).await.unwrap());
    let compacted = engine.compacted().await.unwrap();
    let changes = read_log(&engine, compacted).await;
    check_state(&engine, compacted, &changes).await;
    let current = engine.current().await.unwrap();
    let logged: BTreeMap<Revision, &Change> =
        changes.iter().map(|change| (change.revision, change)).collect();
    for note in notes {
        assert!(note.revision <= current, "lost: {note:?}, the store ends at {current}");
        if note.revision > compacted {
            let change = logged[&note.revision];
            let found =
                (&*change.key, change.value.as_ref().map_or(0, |value| seed(value).unwrap_or(u64::MAX)));
            assert_eq!(found, (note.key.as_str(), note.seed), "changed: {note:?}");
        }
    }
    engine.close().await.unwrap();
    offline::check(directory).unwrap();
    let acknowledged = notes.iter().filter(|note| note.answer).count();
    Counts { acknowledged, seen: notes.len() - acknowledged, changes: changes.len() }
}

async fn read_log(engine: &Arc<dyn Engine>, after: Revision) -> Vec<Change> {
    let mut log = engine.changes(after).await.unwrap();
    let current = engine.current().await.unwrap();
    let mut changes: Vec<Change> = Vec::new();
    let mut upto = after;
    while upto < current {
        let batch = log.next().await.unwrap();
        for change in batch.changes.iter() {
            assert_eq!(change.revision, upto.next(), "a gap in the log");
            assert!(change.value.as_ref().is_none_or(|value| seed(value).is_some()), "torn: {change:?}");
            upto = change.revision;
        }
        changes.extend(batch.changes.iter().cloned());
        assert_eq!(batch.upto, upto);
    }
    changes
}

async fn check_state(engine: &Arc<dyn Engine>, compacted: Revision, changes: &[Change]) {
    let state = |page: listwatch_storage::Page| -> BTreeMap<Arc<str>, (Revision, bytes::Bytes)> {
        page.items.into_iter().map(|item| (item.key, (item.revision, item.value))).collect()
    };
    let mut expected =
        state(engine.range(Range { at: Some(compacted), ..Range::prefix("/") }).await.unwrap());
    for change in changes {
        let before = match &change.value {
            Some(value) => expected.insert(Arc::clone(&change.key), (change.revision, value.clone())),
            None => expected.remove(&change.key),
        };
        assert_eq!(change.previous, before, "previous value of {}", change.revision);
    }
    let page = engine.range(Range::prefix("/")).await.unwrap();
    assert_eq!(page.count, expected.len() as u64);
    assert_eq!(state(page), expected);
}
