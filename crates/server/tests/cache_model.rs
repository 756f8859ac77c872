//! The cache against a naive model: with random writes, start revisions and memory bounds, each watcher receives
//! exactly the changes of its filter, in order and once, and every snapshot shows the state of one revision.

#![cfg(test)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use listwatch_server::CacheLimits;
use listwatch_server::cache::{Cache, ChangeKind, Cursor, FieldLookup, Filter, IndexedField, Lost, Portion};
use listwatch_storage::{Engine, Expect, MemoryEngine, MemoryOptions, Write, Written};
use listwatch_wire::Revision;
use proptest::prelude::*;

/// One write: to which object, and what it becomes (a label and a node); `None` deletes.
#[derive(Clone, Debug)]
struct Step {
    namespace: u8,
    name: u8,
    becomes: Option<(u8, u8)>,
}

/// A watcher that begins after some number of writes, looking back over some of them.
#[derive(Clone, Debug)]
struct Watcher {
    opened_at: usize,
    looks_back: usize,
    namespace: Option<u8>,
    label: Option<u8>,
    node: Option<u8>,
    portion: Portion,
}

fn step() -> impl Strategy<Value = Step> {
    (0..3u8, 0..4u8, proptest::option::weighted(0.8, (0..3u8, 0..3u8)))
        .prop_map(|(namespace, name, becomes)| Step { namespace, name, becomes })
}

fn watcher() -> impl Strategy<Value = Watcher> {
    let option = || proptest::option::of(0..3u8);
    // From a single event at a time to all that there is.
    let portion = (1..9usize, prop_oneof![Just(1usize), Just(500), Just(1 << 20)])
        .prop_map(|(events, bytes)| Portion { events, bytes });
    (0..60usize, 0..60usize, option(), option(), option(), portion).prop_map(
        |(opened_at, looks_back, namespace, label, node, portion)| Watcher {
            opened_at,
            looks_back,
            namespace,
            label,
            node,
            portion,
        },
    )
}

type State = BTreeMap<String, (u8, u8)>;

const SOME: Portion = Portion { events: 16, bytes: 1 << 20 };

/// What was written: revision, key, what it was, what it became.
type History = Vec<(Revision, String, Option<(u8, u8)>, Option<(u8, u8)>)>;

impl Watcher {
    fn filter(&self) -> Filter {
        let labels = self.label.map_or(String::new(), |l| format!("l=v{l}"));
        let fields = self.node.map_or(String::new(), |n| format!("spec.nodeName=n{n}"));
        let known = FieldLookup {
            label: "spec.nodeName".into(),
            path: "spec.nodeName".into(),
            fallback: None,
            absent: "".into(),
        };
        let namespace = self.namespace.map(|n| format!("ns{n}"));
        Filter::new(namespace.as_deref(), labels.parse().unwrap(), fields.parse().unwrap(), &[known])
    }

    fn wants(&self, path: &str, value: Option<(u8, u8)>) -> bool {
        let Some((label, node)) = value else { return false };
        self.namespace.is_none_or(|n| path.starts_with(&format!("ns{n}/")))
            && self.label.is_none_or(|l| l == label)
            && self.node.is_none_or(|n| n == node)
    }

    fn expected(&self, history: &History, after: Revision) -> Vec<(ChangeKind, String, u64)> {
        let later = history.iter().filter(|(revision, ..)| *revision > after);
        later
            .filter_map(|(revision, path, before, now)| {
                let change = match (self.wants(path, *before), self.wants(path, *now)) {
                    (false, true) => ChangeKind::Added,
                    (true, true) => ChangeKind::Modified,
                    (true, false) => ChangeKind::Deleted,
                    (false, false) => return None,
                };
                Some((change, path.clone(), revision.0))
            })
            .collect()
    }
}

fn value(path: &str, (label, node): (u8, u8)) -> Bytes {
    let (namespace, name) = path.split_once('/').unwrap();
    format!(
        r#"{{"kind":"Thing","apiVersion":"v1","metadata":{{"name":"{name}","labels":{{"l":"v{label}"}},"namespace":"{namespace}"}},"spec":{{"nodeName":"n{node}"}}}}"#
    )
    .into()
}

async fn write(engine: &MemoryEngine, state: &mut State, history: &mut History, step: &Step) {
    let path = format!("ns{}/o{}", step.namespace, step.name);
    let key: Arc<str> = format!("/registry/things/{path}").into();
    let write =
        Write { key, value: step.becomes.map(|b| value(&path, b)), expect: Expect::Any, origin: None };
    if let Written::Done { revision } = engine.write(write).await.unwrap() {
        let before = match step.becomes {
            Some(now) => state.insert(path.clone(), now),
            None => state.remove(&path),
        };
        history.push((revision, path, before, step.becomes));
    }
}

async fn drain(cursor: &mut Cursor, upto: Revision, portion: Portion) -> Vec<(ChangeKind, String, u64)> {
    let mut seen = Vec::new();
    while cursor.settle().is_none_or(|position| position < upto) {
        let events =
            tokio::time::timeout(Duration::from_secs(10), cursor.next(portion)).await.unwrap().unwrap();
        assert!(events.len() <= portion.events && (portion.bytes > 1 || events.len() <= 1));
        for filtered in events {
            let object = filtered.event.subject(filtered.change).unwrap();
            seen.push((filtered.change, object.path().to_owned(), filtered.event.revision.0));
        }
    }
    seen
}

async fn run(steps: &[Step], watchers: &[Watcher], log_bytes: usize) {
    let engine = Arc::new(MemoryEngine::default());
    let limits = CacheLimits { log_bytes, ..CacheLimits::default() };
    let cache = Arc::new(Cache::new(Arc::clone(&engine) as Arc<dyn Engine>, limits));
    let indexed = [IndexedField { label: "spec.nodeName".into(), path: "spec.nodeName".into() }];
    let collection = cache.collection("things", &indexed);
    let feeder = cache.start().await.unwrap();
    let (mut state, mut history) = (State::new(), History::new());
    let mut open = Vec::new();
    for (i, step) in steps.iter().enumerate() {
        for watcher in watchers.iter().filter(|w| w.opened_at == i) {
            let after = history
                .iter()
                .rev()
                .nth(watcher.looks_back)
                .map_or(Revision::ZERO, |(revision, ..)| *revision);
            open.push((watcher, after, cache.watch(&collection, watcher.filter(), after)));
        }
        write(&engine, &mut state, &mut history, step).await;
        // Some writes are seen at once, others pile up into a batch.
        if i % 3 == 0 {
            assert!(cache.sync(Duration::from_secs(10)).await.unwrap());
            let (snapshot, revision) = cache.read(&collection);
            assert_eq!(
                Some(revision),
                history.last().map(|(revision, ..)| *revision).or(Some(Revision::ZERO))
            );
            let shown: Vec<String> = snapshot
                .range(&collection.walk(&Filter::default(), None))
                .map(|o| o.path().to_owned())
                .collect();
            assert_eq!(shown, state.keys().cloned().collect::<Vec<_>>());
        }
    }
    assert!(cache.sync(Duration::from_secs(10)).await.unwrap());
    let upto = history.last().map_or(Revision::ZERO, |(revision, ..)| *revision);
    for (watcher, after, mut cursor) in open {
        let seen = drain(&mut cursor, upto, watcher.portion).await;
        assert_eq!(seen, watcher.expected(&history, after), "{watcher:?} after {after}");
    }
    for watcher in watchers {
        let (snapshot, _) = cache.read(&collection);
        let filter = watcher.filter();
        let walk = collection.walk(&filter, None);
        let shown: Vec<String> =
            snapshot.range(&walk).filter(|o| filter.matches(o)).map(|o| o.path().to_owned()).collect();
        let wanted: Vec<String> = state
            .iter()
            .filter(|(path, v)| watcher.wants(path, Some(**v)))
            .map(|(path, _)| path.clone())
            .collect();
        assert_eq!(shown, wanted, "{watcher:?}");
    }
    assert_eq!(collection.log_state().views, 0, "views are gone with their watchers");
    feeder.abort();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn watchers_and_snapshots_agree_with_the_model(
        steps in proptest::collection::vec(step(), 1..60),
        watchers in proptest::collection::vec(watcher(), 1..8),
        // From "nothing fits" over "a few events" to "all of it".
        log_bytes in prop_oneof![Just(0usize), Just(3000), Just(1 << 20)],
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(&steps, &watchers, log_bytes));
    }
}

#[tokio::test]
async fn a_watcher_from_before_history_gets_expired() {
    let engine =
        Arc::new(MemoryEngine::new(MemoryOptions { history_changes: 5, ..MemoryOptions::default() }));
    let limits = CacheLimits { log_bytes: 0, ..CacheLimits::default() };
    let cache = Arc::new(Cache::new(Arc::clone(&engine) as Arc<dyn Engine>, limits));
    let collection = cache.collection("things", &[]);
    let feeder = cache.start().await.unwrap();
    let (mut state, mut history) = (State::new(), History::new());
    for name in 0..40 {
        write(&engine, &mut state, &mut history, &Step { namespace: 0, name, becomes: Some((0, 0)) }).await;
        assert!(cache.sync(Duration::from_secs(10)).await.unwrap());
    }
    let mut cursor = cache.watch(&collection, Filter::default(), Revision(1));
    assert!(matches!(cursor.next(SOME).await, Err(Lost::Expired { asked: Revision(1), .. })));
    feeder.abort();
}

/// A burst longer than the engine's history makes the cache load the state again. It then stopped for a moment: reads
/// waited, and an expired token was still served.
#[tokio::test(start_paused = true)]
async fn a_cache_that_lost_its_place_goes_on_at_once() {
    let engine =
        Arc::new(MemoryEngine::new(MemoryOptions { history_changes: 4, ..MemoryOptions::default() }));
    let cache = Arc::new(Cache::new(Arc::clone(&engine) as Arc<dyn Engine>, CacheLimits::default()));
    let collection = cache.collection("things", &[]);
    let feeder = cache.start().await.unwrap();
    let (mut state, mut history) = (State::new(), History::new());
    let begin = tokio::time::Instant::now();
    for name in 0..40 {
        write(&engine, &mut state, &mut history, &Step { namespace: 0, name, becomes: Some((0, 0)) }).await;
    }
    assert!(cache.sync(Duration::from_secs(10)).await.unwrap());
    write(&engine, &mut state, &mut history, &Step { namespace: 1, name: 0, becomes: Some((0, 0)) }).await;
    assert!(cache.sync(Duration::from_secs(10)).await.unwrap());
    assert_eq!((cache.read(&collection).0.len(), begin.elapsed()), (41, Duration::ZERO));
    feeder.abort();
}

#[tokio::test]
async fn objects_from_before_the_start_are_loaded() {
    let engine = Arc::new(MemoryEngine::default());
    let (mut state, mut history) = (State::new(), History::new());
    for name in 0..200 {
        write(&engine, &mut state, &mut history, &Step { namespace: name % 3, name, becomes: Some((0, 0)) })
            .await;
    }
    let cache = Arc::new(Cache::new(Arc::clone(&engine) as Arc<dyn Engine>, CacheLimits::default()));
    let feeder = cache.start().await.unwrap();
    let collection = cache.collection("things", &[]);
    let (snapshot, revision) = cache.read(&collection);
    assert_eq!((snapshot.len(), revision), (200, Revision(200)));
    // History from before the start is the engine's, and watchers get it from there.
    let mut cursor = cache.watch(&collection, Filter::default(), Revision(150));
    assert_eq!(drain(&mut cursor, Revision(200), SOME).await.len(), 50);
    feeder.abort();
}
