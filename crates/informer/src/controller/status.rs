//! [`ControllerMonitor`]: the counters of a controller, for metrics, health checks and tests.
//!
//! The monitor also owns the list of started informers, because [`ControllerMonitor::idle`] counts events that have not
//! become keys yet. The list is emptied when the controller ends, which removes its handlers; informers that
//! others share go on.
//!
//! Counters are relaxed atomics: each is exact, but a status read during a reconcile may have counted one of them and
//! not the other. [`debug`](crate::debug) prints the informers of a status.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use listwatch_wire::ObjectKey;
use listwatch_workqueue::{Queue, Source, Stats};

use super::watched::AnyBegun;
use crate::informer::InformerStatus;
use crate::sync::Mutex;

/// The status of a controller: counters since it began, and the present state of its queue.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ControllerStatus {
    /// Its name.
    pub name: String,
    /// True if it reconciles: its caches have synced, and it is the leader if there is an election.
    pub active: bool,
    /// Reconciles that ended, however.
    pub reconciles: u64,
    /// Of these, the ones that returned an error, panicked or timed out.
    pub errors: u64,
    /// Objects that were found deleted when their turn came.
    pub missing: u64,
    /// Time spent in reconciles.
    pub busy: Duration,
    /// Its work queue.
    pub queue: Stats,
    /// Its informers, the one of the reconciled kind first.
    pub informers: Vec<InformerStatus>,
}

/// Written by workers, read by metrics and the debug page.
#[derive(Default)]
pub(super) struct ControllerCounters {
    pub(super) active: AtomicBool,
    pub(super) reconciles: AtomicU64,
    pub(super) errors: AtomicU64,
    pub(super) missing: AtomicU64,
    pub(super) busy_nanos: AtomicU64,
}

struct StatusInner {
    name: String,
    queue: Queue<ObjectKey>,
    counters: ControllerCounters,
    sources: Mutex<Vec<Arc<dyn AnyBegun>>>,
}

/// A handle to the status of a [`Controller`](super::Controller). Cheap to clone, valid after the controller has
/// ended.
#[derive(Clone)]
pub struct ControllerMonitor(Arc<StatusInner>);

impl fmt::Debug for ControllerMonitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ControllerMonitor").field(&self.0.name).finish()
    }
}

impl ControllerMonitor {
    pub(super) fn new(name: String, queue: Queue<ObjectKey>) -> Self {
        Self(Arc::new(StatusInner {
            name,
            queue,
            counters: ControllerCounters::default(),
            sources: Mutex::default(),
        }))
    }

    pub(super) fn counters(&self) -> &ControllerCounters {
        &self.0.counters
    }

    /// Adds an informer to what the status is about.
    pub(super) fn watches(&self, source: Arc<dyn AnyBegun>) {
        self.0.sources.lock().push(source);
    }

    pub(super) fn sources(&self) -> Vec<Arc<dyn AnyBegun>> {
        self.0.sources.lock().clone()
    }

    /// Drops the handles of the informers, which others may use.
    pub(super) fn release(&self) {
        std::mem::take(&mut *self.0.sources.lock()).iter().for_each(|source| source.end());
    }

    /// Counts a call of the reconcile function.
    pub(super) fn reconciled(&self, took: Duration, failed: bool) {
        let counters = &self.0.counters;
        counters.reconciles.fetch_add(1, Ordering::Relaxed);
        counters.errors.fetch_add(u64::from(failed), Ordering::Relaxed);
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        counters.busy_nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Returns the present figures. Takes no lock that a reconcile holds.
    #[must_use]
    pub fn status(&self) -> ControllerStatus {
        let ControllerCounters { active, reconciles, errors, missing, busy_nanos } = &self.0.counters;
        ControllerStatus {
            name: self.0.name.clone(),
            active: active.load(Ordering::Relaxed),
            reconciles: reconciles.load(Ordering::Relaxed),
            errors: errors.load(Ordering::Relaxed),
            missing: missing.load(Ordering::Relaxed),
            busy: Duration::from_nanos(busy_nanos.load(Ordering::Relaxed)),
            queue: self.0.queue.stats(),
            informers: self.sources().iter().map(|source| source.status()).collect(),
        }
    }

    /// The work queue, for [`Prometheus`](crate::workqueue::Prometheus) and for adding keys by hand.
    #[must_use]
    pub fn queue(&self) -> &Queue<ObjectKey> {
        &self.0.queue
    }

    /// Waits until every event has become a key and every key that is due has been reconciled. For tests: with a paused
    /// clock and an in-memory source it is exact. With a server it only covers events that have been received, so first
    /// wait for the resource version of the last write:
    ///
    /// ```
    /// use listwatch::SharedInformer;
    /// use listwatch::controller::{Controller, Outcome, Reconcile};
    /// use listwatch::lister_watcher::InMemory;
    /// use serde_json::{Value, json};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let source = InMemory::new(100);
    /// let informer = SharedInformer::<Value>::new(source.clone());
    /// let controller = Controller::new(informer.clone())
    ///     .start(|_: Reconcile<Value>| async { Ok::<_, std::io::Error>(Outcome::Done) })?;
    ///
    /// let revision = source.put(&json!({"metadata": {"name": "a"}}))?; // from a server: the text in its metadata, parsed
    /// informer.store().wait_for(revision).await?;
    /// controller.monitor().idle().await;
    /// assert_eq!(controller.monitor().status().reconciles, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn idle(&self) {
        let mut quiet = 0;
        while quiet < 3 {
            // With a paused clock, time passes only when every task waits for something.
            tokio::time::sleep(Duration::from_millis(1)).await;
            quiet = if self.is_busy() { 0 } else { quiet + 1 };
        }
    }

    /// True if some event or key has not been worked off.
    fn is_busy(&self) -> bool {
        let queue = &self.0.queue;
        let unread = self.sources().iter().any(|source| source.backlog() > 0 && !source.is_stopped());
        unread || !queue.is_empty() || queue.in_flight() > 0
    }
}
