//! [`Workload`]: writers, watchers and listers on one collection, driven by one seed, with a record of all their
//! requests and events.
//!
//! Watchers have random selectors, start in every way there is, disconnect at random moments and resume. When the writers
//! are done, every watcher continues until it has received everything, and [`Record::check`] compares all records with the
//! log of the store.

mod actors;
mod names;
mod watcher;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use listwatch_storage::Engine;
use listwatch_wire::Revision;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::collection::TestCollection;
use crate::history::{Acknowledged, ListRecord, Truth, Violation, Watch, WatchFilter};
use crate::raw::{RawClient, RawError};

/// The size of a run: actors, writes and the seed.
///
/// The same seed produces the same operations per actor; how they interleave depends on the machine.
///
/// ```
/// use listwatch_testkit::{TestServer, Workload};
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = TestServer::start().await?;
/// let workload = Workload { writers: 2, writes: 20, watchers: 2, ..Workload::default() };
/// let record = workload.run(server.raw()?, server.raw()?, server.engine().as_ref()).await?;
/// assert_eq!(record.acknowledged.len(), 40);
/// assert!(record.check().is_empty(), "seed {}: {:?}", workload.seed, record.check());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// Everything random comes from here.
    pub seed: u64,
    /// Each writes its own keys, so that it knows which responses to expect.
    pub writers: usize,
    /// The number of writes that each writer makes.
    pub writes: usize,
    /// Keys per writer: few, so that objects come, change and go often.
    pub keys: usize,
    /// The number of watchers. Every second one requests deltas.
    pub watchers: usize,
    /// The number of listers, each of which lists again and again while there is writing.
    pub listers: usize,
    /// The time a watcher may wait for what it must still see at the end.
    ///
    /// Events that have not come then count as missing, so it must be longer than any fault that the proxy injects.
    pub patience: Duration,
}

impl Default for Workload {
    fn default() -> Self {
        Self {
            seed: 1,
            writers: 4,
            writes: 100,
            keys: 4,
            watchers: 8,
            listers: 2,
            patience: Duration::from_secs(20),
        }
    }
}

/// Everything that was recorded in a run, ready to be checked. It is plain data: a record can be made by hand to test
/// a validator, and kept to look at a violation again.
#[derive(Debug, Default)]
pub struct Record {
    /// The commits of the store.
    pub truth: Truth,
    /// The answers to writers.
    pub acknowledged: Vec<Acknowledged>,
    /// The events of each stream of each watcher.
    pub watches: Vec<Watch>,
    /// The answers to lists.
    pub lists: Vec<ListRecord>,
}

impl Record {
    /// Returns every promise that the server broke in this run.
    ///
    /// Pure: a record can be kept and checked again.
    #[must_use]
    pub fn check(&self) -> Vec<Violation> {
        let mut violations = self.truth.check_acknowledged(&self.acknowledged);
        violations.extend(self.watches.iter().flat_map(|watch| watch.check(&self.truth)));
        violations.extend(self.lists.iter().flat_map(|list| list.check(&self.truth)));
        violations
    }
}

/// The part shared by the actors of one run.
#[derive(Debug)]
struct WorkloadStage {
    /// The client for writes. It has no faults, since only a write that was answered can be checked.
    writes: RawClient,
    /// The client for lists and watches. Its way may have any fault.
    reads: RawClient,
    collection: TestCollection,
    workload: Workload,
    /// The newest revision that was acknowledged to any writer.
    acknowledged: AtomicU64,
    /// The truth, set once writing has ended: watchers then compute which events are still missing.
    end: watch::Sender<Option<Arc<Truth>>>,
}

impl WorkloadStage {
    /// Reads that begin now must be at least as new.
    fn newest_acknowledged(&self) -> Revision {
        Revision(self.acknowledged.load(Ordering::SeqCst))
    }

    /// Each actor has a random sequence of its own, so that a seed produces the same workload under any schedule.
    fn random(&self, actor: u64) -> StdRng {
        StdRng::seed_from_u64(self.workload.seed.wrapping_mul(1_000_003).wrapping_add(actor))
    }
}

impl Workload {
    /// The kind that is written: Secrets, because no controller of the server makes any.
    #[must_use]
    pub fn collection() -> TestCollection {
        TestCollection::core("secrets", "default")
    }

    /// Runs it: writes and reads may use different endpoints (a proxy, another server); the truth comes from the engine's
    /// own log.
    ///
    /// # Errors
    /// If a write is refused that must succeed, or the log cannot be read.
    pub async fn run(
        self,
        writes: RawClient,
        reads: RawClient,
        engine: &dyn Engine,
    ) -> Result<Record, RawError> {
        let begin = engine.current().await.map_err(lost)?;
        let stage = Arc::new(WorkloadStage {
            writes,
            reads,
            collection: Self::collection(),
            workload: self,
            acknowledged: AtomicU64::new(begin.0),
            end: watch::Sender::new(None),
        });
        let mut record = Record::default();
        let (mut writers, mut watchers, mut listers) = (JoinSet::new(), JoinSet::new(), JoinSet::new());
        (0..self.watchers).for_each(|n| drop(watchers.spawn(watcher::watcher(stage.clone(), n))));
        (0..self.listers).for_each(|n| drop(listers.spawn(actors::lister(stage.clone(), n))));
        (0..self.writers).for_each(|n| drop(writers.spawn(actors::writer(stage.clone(), n))));
        while let Some(acknowledged) = writers.join_next().await {
            record.acknowledged.extend(acknowledged.map_err(lost)??);
        }
        record.truth = stage.collection.truth(engine, begin).await?;
        stage.end.send_replace(Some(Arc::new(record.truth.clone())));
        while let Some(watches) = watchers.join_next().await {
            record.watches.extend(watches.map_err(lost)??);
        }
        while let Some(lists) = listers.join_next().await {
            record.lists.extend(lists.map_err(lost)??);
        }
        Ok(record)
    }
}

fn lost(error: impl std::fmt::Display) -> RawError {
    RawError::Malformed(format!("the workload cannot go on: {error}"))
}

/// A filter, and the query parameters that select by it.
type Filtered = (WatchFilter, String);
