//! Random operations against a plain model, with the store closed and opened again at random points.

#![cfg(test)]

use std::collections::BTreeMap;
use std::sync::Arc;

use listwatch_storage::{
    Change, EmbeddedEngine, EmbeddedOptions, Engine, Error, Expect, KeyValue, MemoryEngine, Range, Revision,
    Write, Written,
};
use proptest::prelude::*;

/// The operations of the model. Positions and keys are picked relative to what there is.
#[derive(Clone, Debug)]
enum Op {
    Put(u8, Condition),
    Delete(u8, Condition),
    Get(u8, u8),
    Range { from: u8, to: u8, limit: u8, at: u8 },
    Log(u8),
    Compact(u8),
    Reopen,
}

#[derive(Clone, Copy, Debug)]
enum Condition {
    Any,
    Absent,
    Current,
    Stale,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let condition = prop_oneof![
        Just(Condition::Any),
        Just(Condition::Absent),
        Just(Condition::Current),
        Just(Condition::Stale)
    ];
    let op = prop_oneof![
        8 => (0..8_u8, condition.clone()).prop_map(|(key, condition)| Op::Put(key, condition)),
        4 => (0..8_u8, condition).prop_map(|(key, condition)| Op::Delete(key, condition)),
        2 => (0..8_u8, any::<u8>()).prop_map(|(key, at)| Op::Get(key, at)),
        2 => (0..9_u8, 0..9_u8, 0..5_u8, any::<u8>()).prop_map(|(from, to, limit, at)| Op::Range { from, to, limit, at }),
        1 => any::<u8>().prop_map(Op::Log),
        1 => any::<u8>().prop_map(Op::Compact),
        1 => Just(Op::Reopen),
    ];
    proptest::collection::vec(op, 1..80)
}

type Version = (Revision, String);
type State = BTreeMap<String, Version>;

/// The state at every revision, and where history begins.
#[derive(Default)]
struct Model {
    states: Vec<State>,
    changes: Vec<(String, Option<String>)>,
    compacted: u64,
}

impl Model {
    fn new() -> Self {
        Self { states: vec![State::new()], ..Self::default() }
    }

    fn current(&self) -> u64 {
        self.changes.len() as u64
    }

    fn latest(&self) -> &State {
        self.states.last().unwrap()
    }

    /// A revision somewhere between the begin and a little after the end.
    fn pick(&self, at: u8) -> Revision {
        Revision(u64::from(at) * (self.current() + 2) / 256)
    }

    fn state(&self, at: Option<Revision>) -> Result<&State, &'static str> {
        match at {
            None => Ok(self.latest()),
            Some(at) if at.0 > self.current() => Err("future"),
            Some(at) if at.0 < self.compacted => Err("compacted"),
            Some(at) => Ok(&self.states[usize::try_from(at.0).unwrap()]),
        }
    }

    fn write(&mut self, write: &Write) -> Option<Revision> {
        let key = write.key.to_string();
        let current = self.latest().get(&key).map(|version| version.0);
        if !write.applies(current) {
            return None;
        }
        let revision = Revision(self.current() + 1);
        let value = write.value.as_ref().map(|value| String::from_utf8(value.to_vec()).unwrap());
        let mut state = self.latest().clone();
        match &value {
            Some(value) => state.insert(key.clone(), (revision, value.clone())),
            None => state.remove(&key),
        };
        self.states.push(state);
        self.changes.push((key, value));
        Some(revision)
    }
}

fn key(n: u8) -> String {
    format!("/k/{n}")
}

fn kind<T>(outcome: Result<T, Error>) -> Result<T, &'static str> {
    outcome.map_err(|error| match error {
        Error::Compacted { .. } => "compacted",
        Error::Future { .. } => "future",
        other => panic!("{other}"),
    })
}

fn version(found: &KeyValue) -> (String, Version) {
    (found.key.to_string(), (found.revision, String::from_utf8(found.value.to_vec()).unwrap()))
}

async fn step(engine: &dyn Engine, model: &mut Model, op: &Op) {
    match op {
        Op::Put(n, condition) => write(engine, model, *n, *condition, true).await,
        Op::Delete(n, condition) => write(engine, model, *n, *condition, false).await,
        Op::Get(n, at) => {
            let at = (*at < 250).then(|| model.pick(*at));
            let found = kind(engine.get(&key(*n), at).await).map(|found| found.as_ref().map(version));
            let expected = model.state(at).map(|state| {
                state.get_key_value(&key(*n)).map(|(key, version)| (key.clone(), version.clone()))
            });
            assert_eq!(found, expected, "get at {at:?}");
        }
        Op::Range { from, to, limit, at } => range(engine, model, *from, *to, usize::from(*limit), *at).await,
        Op::Log(after) => log(engine, model, model.pick(*after)).await,
        Op::Compact(upto) => {
            let upto = model.pick(*upto);
            let outcome = kind(engine.compact(upto).await);
            assert_eq!(outcome.is_ok(), upto.0 <= model.current());
            if outcome.is_ok() {
                model.compacted = model.compacted.max(upto.0);
            }
        }
        Op::Reopen => {}
    }
    assert_eq!(engine.current().await.unwrap().0, model.current());
    assert_eq!(engine.compacted().await.unwrap().0, model.compacted);
}

async fn write(engine: &dyn Engine, model: &mut Model, n: u8, condition: Condition, put: bool) {
    let current = model.latest().get(&key(n)).map_or(Revision(0), |version| version.0);
    let expect = match condition {
        Condition::Any => Expect::Any,
        Condition::Absent => Expect::Absent,
        Condition::Current => Expect::At(current),
        Condition::Stale => Expect::At(current.next()),
    };
    let value = put.then(|| format!("{n} at {}", model.current()).into());
    let write = Write { key: key(n).into(), value, expect, origin: None };
    let before = model.latest().get(&key(n)).cloned();
    let outcome = engine.write(write.clone()).await.unwrap();
    match (outcome, model.write(&write)) {
        (Written::Done { revision }, Some(expected)) => assert_eq!(revision, expected),
        (Written::Refused { current }, None) => {
            assert_eq!(current.as_ref().map(|found| version(found).1), before)
        }
        (outcome, expected) => panic!("{write:?}: {outcome:?} instead of {expected:?}"),
    }
}

async fn range(engine: &dyn Engine, model: &Model, from: u8, to: u8, limit: usize, at: u8) {
    let at = (at < 200).then(|| model.pick(at));
    let end = if to == 8 { String::new() } else { key(to) };
    let found =
        kind(engine.range(Range { start: key(from).into(), end: end.as_str().into(), limit, at }).await);
    let expected = model.state(at).map(|state| {
        let within = |name: &&String| **name >= key(from) && (end.is_empty() || **name < end);
        state.keys().filter(within).cloned().collect::<Vec<_>>()
    });
    match (found, expected) {
        (Ok(page), Ok(keys)) => {
            assert_eq!(page.count, keys.len() as u64);
            let shown = if limit == 0 { keys.len() } else { limit.min(keys.len()) };
            let state = model.state(at).unwrap();
            let expected: Vec<_> =
                keys.iter().take(shown).map(|key| (key.clone(), state[key].clone())).collect();
            assert_eq!(page.items.iter().map(version).collect::<Vec<_>>(), expected);
            assert_eq!(page.revision, at.unwrap_or(Revision(model.current())));
        }
        (found, expected) => assert_eq!(found.err(), expected.err(), "range at {at:?}"),
    }
}

async fn log(engine: &dyn Engine, model: &Model, after: Revision) {
    let outcome = kind(engine.changes(after).await);
    if let Err(error) = model.state(Some(after)) {
        assert_eq!(outcome.err(), Some(error), "log after {after}");
        return;
    }
    let mut log = outcome.unwrap();
    let mut upto = after;
    while upto.0 < model.current() {
        let batch = log.next().await.unwrap();
        for change in batch.changes.iter() {
            assert_eq!(change.revision, upto.next());
            check_change(model, change);
            upto = change.revision;
        }
        assert_eq!(batch.upto, upto);
    }
}

fn check_change(model: &Model, change: &Change) {
    let position = usize::try_from(change.revision.0).unwrap();
    let (key, value) = &model.changes[position - 1];
    assert_eq!(&*change.key, key);
    assert_eq!(change.value.as_ref().map(|value| String::from_utf8(value.to_vec()).unwrap()), *value);
    let previous =
        change.previous.as_ref().map(|(at, value)| (*at, String::from_utf8(value.to_vec()).unwrap()));
    assert_eq!(previous.as_ref(), model.states[position - 1].get(key), "previous of {}", change.revision);
}

fn block_on(future: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn memory(ops in ops()) {
        block_on(async {
            let (engine, mut model) = (MemoryEngine::default(), Model::new());
            for op in &ops {
                step(&engine, &mut model, op).await;
            }
        });
    }

    /// With bounds so small that the table of keys, the log on disk and the checkpointer are all at work.
    #[test]
    fn embedded(ops in ops(), tail in 0..20_usize, unindexed in 1..30_u64) {
        block_on(async {
            let directory = tempfile::tempdir().unwrap();
            let options = EmbeddedOptions { tail_changes: tail, unindexed_changes: unindexed, checkpoint_bytes: 40_000, ..Default::default() };
            let mut engine: Arc<dyn Engine> = Arc::new(EmbeddedEngine::open(directory.path(), options).await.unwrap());
            let mut model = Model::new();
            for op in &ops {
                if matches!(op, Op::Reopen) {
                    engine.close().await.unwrap();
                    engine = Arc::new(EmbeddedEngine::open(directory.path(), options).await.unwrap());
                }
                step(&*engine, &mut model, op).await;
            }
            log(&*engine, &model, Revision(model.compacted)).await;
            engine.close().await.unwrap();
            let report = listwatch_storage::embedded::offline::check(directory.path()).unwrap();
            assert_eq!((report.revision.0, report.keys), (model.current(), model.latest().len() as u64));
        });
    }
}
