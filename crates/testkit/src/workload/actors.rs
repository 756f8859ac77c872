//! The actors of a workload: writers, watchers and listers.
//!
//! Each writer has keys of its own, so that it knows which operation is valid next and a refusal is a fault of the
//! server. Watchers disconnect at random and resume from the last position they may rely on: an event or a bookmark,
//! but no initial event, whose revision is that of the object. Failed reads are repeated after a pause; only responses
//! are checked. Names, selectors and operations are drawn in `names`.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::{Method, StatusCode};
use listwatch_wire::{ObjectKey, Revision};
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::{Filtered, WorkloadStage, names};
use crate::collection::items;
use crate::held::DeltaBases;
use crate::history::{Acknowledged, ListRecord, Seen, Start, Truth, Watch};
use crate::raw::{RawError, RawWatch};

/// The pause between lists, and after a failed request.
const PAUSE: Duration = Duration::from_millis(20);

/// Creates, changes and deletes its own keys at random.
///
/// Any refusal ends the run with an error: no other writer touches these keys.
pub(super) async fn writer(stage: Arc<WorkloadStage>, number: usize) -> Result<Vec<Acknowledged>, RawError> {
    let mut random = stage.random(number as u64);
    let mut exists = vec![false; stage.workload.keys];
    let mut acknowledged = Vec::new();
    for write in 0..stage.workload.writes {
        let slot = random.random_range(0..exists.len().max(1));
        let Some(there) = exists.get_mut(slot) else { break };
        // With the seed in the name, several runs can follow each other on one server.
        let name = format!("s{}-w{number}-{slot}", stage.workload.seed);
        let (method, path, body) = names::operation(&mut random, &stage.collection, &name, *there, write);
        let answer = stage.writes.done(method.clone(), &path, body.as_ref()).await?;
        *there = method != Method::DELETE;
        let object = if method == Method::DELETE { None } else { Seen::from_object(answer) };
        if let Some(object) = &object {
            stage.acknowledged.fetch_max(object.revision.0, Ordering::SeqCst);
        }
        acknowledged
            .push(Acknowledged { key: ObjectKey::namespaced(stage.collection.namespace(), &name), object });
    }
    Ok(acknowledged)
}

/// Lists with random selectors for as long as there is writing. A failed list is repeated: only responses are checked.
pub(super) async fn lister(stage: Arc<WorkloadStage>, number: usize) -> Result<Vec<ListRecord>, RawError> {
    let mut random = stage.random(1_000 + number as u64);
    let mut lists = Vec::new();
    while stage.end.borrow().is_none() {
        let (filter, query) = names::filter(&mut random, &stage.collection);
        let not_older_than = stage.newest_acknowledged();
        let name = format!("list {number}.{}", lists.len());
        let path = format!("{}?{query}", stage.collection.path());
        if let Ok(answer) = stage.reads.done(Method::GET, &path, None).await {
            let (revision, items) = (list_revision(&answer)?, items(&answer));
            lists.push(ListRecord { name, filter, not_older_than, revision, items });
        }
        // Lists shall be judged among the writes, not crowd them out.
        tokio::time::sleep(PAUSE).await;
    }
    Ok(lists)
}

/// The revision of a list, at which its items are compared.
fn list_revision(list: &Value) -> Result<Revision, RawError> {
    let text = list.pointer("/metadata/resourceVersion").and_then(Value::as_str);
    text.and_then(|text| text.parse().ok())
        .ok_or_else(|| RawError::Malformed("a list without resourceVersion".into()))
}

/// Watches with one random selector, hangs up at random, resumes where it was, and stays to the end.
///
/// Returns one record per stream, in order; each but the last ends where the watcher hung up or was cut.
pub(super) async fn watcher(stage: Arc<WorkloadStage>, number: usize) -> Result<Vec<Watch>, RawError> {
    let mut random = stage.random(2_000 + number as u64);
    let filtered = names::filter(&mut random, &stage.collection);
    let mut watches = Vec::<Watch>::new();
    // A list does not have the bytes that deltas are about.
    let mut held = (number % 2 == 1).then(DeltaBases::default);
    let mut start = match &held {
        Some(_) => Start::Initial(stage.newest_acknowledged()),
        None => first_start(&stage, &mut random, &filtered).await?,
    };
    let mut deadline = None;
    loop {
        let name = format!("watch {number}.{}", watches.len());
        let mut watch = Watch::new(name, filtered.0.clone(), start);
        let hang_up_after = random.random_range(1..40);
        let outcome = match open(&stage, &path(&stage, &filtered.1, start), start, &mut held).await {
            Ok(mut stream) => {
                let outcome = follow(&stage, &mut stream, &mut watch, hang_up_after, &mut deadline).await;
                let (deltas, now_held) = stream.into_deltas();
                watch.deltas = deltas;
                held = held.map(|_| now_held);
                outcome
            }
            Err(error) => Err(error),
        };
        if let Some(position) = watch.position() {
            start = Start::After(position);
        }
        let ended = matches!(outcome, Ok(ActorEnd::Complete));
        if let Err(RawError::Delta(why)) = &outcome {
            watch.misfit = Some(why.clone());
        }
        watches.push(watch);
        if ended {
            return Ok(watches);
        }
        match outcome {
            Err(RawError::Refused(StatusCode::GONE, _)) => {
                // History ended before we came back: start over, as every client must.
                start = Start::Initial(Revision::ZERO);
            }
            Err(error @ RawError::Malformed(_)) => return Err(error),
            // Whole objects from here, as the specification has it.
            Err(RawError::Delta(_)) => held = None,
            Err(_) => tokio::time::sleep(PAUSE).await,
            Ok(_) => {}
        }
    }
}

/// Opens a stream, of deltas if the watcher holds what they are about.
async fn open(
    stage: &WorkloadStage,
    path: &str,
    start: Start,
    held: &mut Option<DeltaBases>,
) -> Result<RawWatch, RawError> {
    let Some(held) = held else { return stage.reads.watch(path).await };
    if matches!(start, Start::Initial(_)) {
        held.clear();
    }
    stage.reads.watch_deltas(path, held.clone()).await
}

/// The way in which a watcher's stream came to its end.
enum ActorEnd {
    /// All expected events have arrived, or the wait for them has timed out.
    Complete,
    /// The stream ended, or we hung up.
    HungUp,
}

/// Reads until it is time to hang up or, once writing has ended, until everything due has come.
///
/// The deadline is for all streams of a watcher together, and starts when writing has ended.
async fn follow(
    stage: &WorkloadStage,
    stream: &mut RawWatch,
    watch: &mut Watch,
    hang_up_after: usize,
    deadline: &mut Option<Instant>,
) -> Result<ActorEnd, RawError> {
    let mut end = stage.end.subscribe();
    loop {
        let goal = end.borrow_and_update().clone();
        let Some(truth) = goal else {
            if watch.frames.len() >= hang_up_after {
                return Ok(ActorEnd::HungUp);
            }
            tokio::select! {
                frame = stream.next() => match frame? {
                    Some(frame) => watch.frames.push(frame),
                    None => return Ok(ActorEnd::HungUp),
                },
                _ = end.changed() => {}
            }
            continue;
        };
        let deadline = *deadline.get_or_insert_with(|| Instant::now() + stage.workload.patience);
        if has_all(watch, &truth) {
            watch.complete_until = Some(truth.last());
            return Ok(ActorEnd::Complete);
        }
        match timeout_at(deadline, stream.next()).await {
            Ok(frame) => match frame? {
                Some(frame) => watch.frames.push(frame),
                None => return Ok(ActorEnd::HungUp),
            },
            Err(_) => {
                watch.complete_until = Some(truth.last());
                return Ok(ActorEnd::Complete);
            }
        }
    }
}

/// True if the watch has delivered every event of the truth.
fn has_all(watch: &Watch, truth: &Truth) -> bool {
    let begin = match watch.start {
        Start::After(revision) => Some(revision),
        Start::Initial(_) => None,
    };
    watch
        .position()
        .max(begin)
        .is_some_and(|position| truth.first_due(&watch.filter, position, truth.last()).is_none())
}

/// Half of the watchers list first; where that fails, initial events do as well.
async fn first_start(
    stage: &WorkloadStage,
    random: &mut StdRng,
    filtered: &Filtered,
) -> Result<Start, RawError> {
    let initial = Start::Initial(stage.newest_acknowledged());
    if random.random_bool(0.5) {
        return Ok(initial);
    }
    match stage.reads.done(Method::GET, &format!("{}?{}", stage.collection.path(), filtered.1), None).await {
        // Version 0 means "whatever there is" to a server, not "before the first write".
        Ok(list) => {
            list_revision(&list).map(|at| if at == Revision::ZERO { initial } else { Start::After(at) })
        }
        Err(_) => Ok(initial),
    }
}

/// The path of a watch, with bookmarks.
fn path(stage: &WorkloadStage, query: &str, start: Start) -> String {
    let common = format!("{}?watch=true&allowWatchBookmarks=true&{query}", stage.collection.path());
    match start {
        Start::After(revision) => format!("{common}&resourceVersion={revision}"),
        Start::Initial(_) => format!("{common}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"),
    }
}
