//! The watchers of a workload: they hang up at random and resume from the last position they may rely on.
//!
//! That is an event or a bookmark, but no initial event, whose revision is that of the object. Every second watcher
//! requests deltas. Failed requests are repeated after a pause; only responses are checked. It is not a client library:
//! `RetryWatcher` of `listwatch` is one. The records are checked in `history`.

use std::sync::Arc;

use http::{Method, StatusCode};
use listwatch_wire::Revision;
use rand::RngExt;
use rand::rngs::StdRng;
use tokio::time::{Instant, timeout_at};

use super::actors::{PAUSE, list_revision};
use super::{Filtered, WorkloadStage, names};
use crate::held::DeltaBases;
use crate::history::{Start, Truth, Watch};
use crate::raw::{RawError, RawWatch};

/// Watches with one random selector, hangs up at random, resumes where it was, and stays to the end.
///
/// Returns one record per stream, in order; each but the last ends where the watcher hung up or was cut.
pub(super) async fn watcher(stage: Arc<WorkloadStage>, number: usize) -> Result<Vec<Watch>, RawError> {
    let mut watcher = Watcher::new(stage, number).await?;
    let mut watches = Vec::new();
    loop {
        let name = format!("watch {number}.{}", watches.len());
        let mut watch = Watch::new(name, watcher.filtered.0.clone(), watcher.start);
        let outcome = watcher.stream(&mut watch).await;
        if let Some(position) = watch.position() {
            watcher.start = Start::After(position);
        }
        if let Err(RawError::Delta(why)) = &outcome {
            watch.misfit = Some(why.clone());
        }
        watches.push(watch);
        match outcome {
            Ok(ActorEnd::Complete) => return Ok(watches),
            Ok(ActorEnd::HungUp) => {}
            Err(error) => watcher.recover(error).await?,
        }
    }
}

/// A watcher between two of its streams.
struct Watcher {
    stage: Arc<WorkloadStage>,
    random: StdRng,
    filtered: Filtered,
    /// The objects that deltas are applied to; none if it requests whole objects.
    held: Option<DeltaBases>,
    /// The position at which the next stream begins.
    start: Start,
    /// The end of the wait for the last events, set when writing has ended. It is for all streams together.
    deadline: Option<Instant>,
}

impl Watcher {
    async fn new(stage: Arc<WorkloadStage>, number: usize) -> Result<Self, RawError> {
        let mut random = stage.random(2_000 + number as u64);
        let filtered = names::filter(&mut random, &stage.collection);
        // A list does not have the bytes that deltas are about.
        let held = (number % 2 == 1).then(DeltaBases::default);
        let start = match &held {
            Some(_) => Start::Initial(stage.newest_acknowledged()),
            None => first_start(&stage, &mut random, &filtered).await?,
        };
        Ok(Self { stage, random, filtered, held, start, deadline: None })
    }

    /// Opens a stream and records it until its end.
    async fn stream(&mut self, watch: &mut Watch) -> Result<ActorEnd, RawError> {
        let hang_up_after = self.random.random_range(1..40);
        let mut stream = self.open().await?;
        let outcome = self.follow(&mut stream, watch, hang_up_after).await;
        let (deltas, held) = stream.into_deltas();
        watch.deltas = deltas;
        self.held = self.held.take().map(|_| held);
        outcome
    }

    /// Opens a stream, of deltas if it holds the objects that they are applied to.
    async fn open(&mut self) -> Result<RawWatch, RawError> {
        let path = path(&self.stage, &self.filtered.1, self.start);
        let Some(held) = &mut self.held else { return self.stage.reads.watch(&path).await };
        if matches!(self.start, Start::Initial(_)) {
            held.clear();
        }
        self.stage.reads.watch_deltas(&path, held.clone()).await
    }

    /// Prepares the next stream after an error, which is returned if there is no use in one.
    async fn recover(&mut self, error: RawError) -> Result<(), RawError> {
        match error {
            // History ended before it came back: it starts over, as every client must.
            RawError::Refused(StatusCode::GONE, _) => self.start = Start::Initial(Revision::ZERO),
            RawError::Malformed(_) => return Err(error),
            // Whole objects from here, as the specification has it.
            RawError::Delta(_) => self.held = None,
            _ => tokio::time::sleep(PAUSE).await,
        }
        Ok(())
    }

    /// Reads until it is time to hang up or, once writing has ended, until everything due has come.
    async fn follow(
        &mut self,
        stream: &mut RawWatch,
        watch: &mut Watch,
        hang_up_after: usize,
    ) -> Result<ActorEnd, RawError> {
        let mut end = self.stage.end.subscribe();
        loop {
            let goal = end.borrow_and_update().clone();
            if let Some(truth) = goal {
                return self.finish(stream, watch, &truth).await;
            }
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
        }
    }

    /// Reads until everything due has come, or the time for it is over: then the record is checked for what is missing.
    async fn finish(
        &mut self,
        stream: &mut RawWatch,
        watch: &mut Watch,
        truth: &Truth,
    ) -> Result<ActorEnd, RawError> {
        let patience = self.stage.workload.patience;
        let deadline = *self.deadline.get_or_insert_with(|| Instant::now() + patience);
        while !has_all(watch, truth) {
            let Ok(frame) = timeout_at(deadline, stream.next()).await else { break };
            match frame? {
                Some(frame) => watch.frames.push(frame),
                None => return Ok(ActorEnd::HungUp),
            }
        }
        watch.complete_until = Some(truth.last());
        Ok(ActorEnd::Complete)
    }
}

/// The way in which a watcher's stream came to its end.
enum ActorEnd {
    /// All expected events have arrived, or the wait for them has timed out.
    Complete,
    /// The stream ended, or we hung up.
    HungUp,
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
        // Version 0 means "any state" to a server, not "before the first write".
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
