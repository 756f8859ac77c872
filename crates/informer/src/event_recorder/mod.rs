//! An event recorder: writes Kubernetes Events about an object, which `kubectl describe` shows.
//!
//! [`EventRecorder::record`] never waits and never fails: events are a convenience, and a program that is late or in trouble
//! drops them and counts what it dropped. Repetitions become one event with a count, writes about one object are
//! limited, and every queue has a bound.
//!
//! [`Occurrence`] is the input, [`Correlator`] decides which occurrences are written, [`EventSink`] writes them; this
//! file is the task between them. Not here: reading events (they are objects like others), and the older `v1` events.

mod correlator;
mod event;
mod sink;
#[cfg(test)]
mod tests;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

pub use correlator::{CorrelateResult, Correlator, CorrelatorOptions};
pub use event::{EventRecord, ObjectReference, Occurrence, Reporter, Series, Severity};
pub use sink::{EventSink, KubeSink, SinkError};

use crate::reflector::{Backoff, BackoffOptions};

/// The period in which the correlator's due series are written.
const TICK: Duration = Duration::from_secs(60);

/// The bounds of an [`EventRecorder`]. Events are a convenience: they may be lost, and must not slow down or outlive
/// the work that they report.
#[derive(Clone, Copy, Debug)]
pub struct RecorderOptions {
    /// The most occurrences that may wait to be looked at; further ones are dropped. Default 1000.
    pub queue: usize,
    /// The number of times one event is tried before it is dropped. Default 12.
    pub tries: u32,
    /// The time to wait between tries. Default one second, growing to ten.
    pub backoff: BackoffOptions,
    /// The time that [`EventRecorder::shut_down`] may take to write the remaining events. Default five seconds.
    pub flush: Duration,
    /// The rules by which occurrences become events, series or nothing.
    pub correlator: CorrelatorOptions,
}

impl Default for RecorderOptions {
    fn default() -> Self {
        let (initial, max) = (Duration::from_secs(1), Duration::from_secs(10));
        Self {
            queue: 1000,
            tries: 12,
            backoff: BackoffOptions { initial, max, ..BackoffOptions::default() },
            flush: Duration::from_secs(5),
            correlator: CorrelatorOptions::default(),
        }
    }
}

/// Counters of all occurrences so far. `written` and `failed` count writes, the others occurrences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecorderStats {
    /// Events created, and series brought up to date.
    pub written: u64,
    /// Occurrences that are, or will be, in the count of a series.
    pub counted: u64,
    /// Occurrences dropped because there was too much about their object.
    pub limited: u64,
    /// Occurrences dropped because the queue was full, or the recorder had shut down.
    pub dropped: u64,
    /// Occurrences that no API server would accept, for example without a reason.
    pub invalid: u64,
    /// Writes given up after [`tries`](RecorderOptions::tries) attempts, or because the server refused the event for
    /// good.
    pub failed: u64,
}

/// Figures of the recorder, for metrics.
#[derive(Debug, Default)]
struct RecorderCounters {
    written: AtomicU64,
    counted: AtomicU64,
    limited: AtomicU64,
    dropped: AtomicU64,
    invalid: AtomicU64,
    failed: AtomicU64,
}

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Records events. Handles are cheap to clone; when the last one is dropped, the remaining events are written.
///
/// ```no_run
/// use k8s_openapi::api::core::v1::Pod;
/// use listwatch::event_recorder::{EventRecorder, KubeSink, ObjectReference, Occurrence, Reporter};
///
/// # async fn example(client: kube::Client, pod: Pod) {
/// let reporter = Reporter { controller: "example.com/cleaner".into(), instance: "cleaner-1".into() };
/// let recorder = EventRecorder::start(KubeSink::new(client), reporter, Default::default());
/// let pod = ObjectReference::of(&pod);
/// recorder.record(Occurrence::warning(pod, "TooOld", "Deleting", "older than a week"));
/// recorder.shut_down().await;
/// # }
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "EventBroadcaster")]
pub struct EventRecorder {
    queue: mpsc::Sender<Occurrence>,
    counters: Arc<RecorderCounters>,
    stop: Arc<watch::Sender<bool>>,
}

impl EventRecorder {
    /// Starts a task of the current runtime that writes to the sink.
    ///
    /// # Panics
    /// Outside a Tokio runtime.
    pub fn start(sink: impl EventSink, reporter: Reporter, options: RecorderOptions) -> Self {
        let (queue, occurrences) = mpsc::channel(options.queue.max(1));
        let counters = Arc::new(RecorderCounters::default());
        let (stop, stopped) = watch::channel(false);
        let seed = RandomState::new().hash_one(&reporter);
        let writer = RecorderTask {
            sink,
            options,
            correlator: Correlator::new(reporter, options.correlator),
            backoff: Backoff::new(options.backoff, seed),
            counters: Arc::clone(&counters),
        };
        tokio::spawn(writer.run(occurrences, stopped));
        Self { queue, counters, stop: Arc::new(stop) }
    }

    /// Records an occurrence. Returns at once, and never fails: what cannot be queued is dropped and counted in
    /// [`RecorderStats`].
    pub fn record(&self, occurrence: Occurrence) {
        if !occurrence.is_valid() {
            tracing::debug!(?occurrence, "event without name, reason or action");
            add(&self.counters.invalid);
        } else if self.queue.try_send(occurrence).is_err() {
            add(&self.counters.dropped);
        }
    }

    /// Counters of all occurrences so far.
    #[must_use]
    pub fn stats(&self) -> RecorderStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        RecorderStats {
            written: read(&self.counters.written),
            counted: read(&self.counters.counted),
            limited: read(&self.counters.limited),
            dropped: read(&self.counters.dropped),
            invalid: read(&self.counters.invalid),
            failed: read(&self.counters.failed),
        }
    }

    /// Writes the remaining events, counts of series included, within [`RecorderOptions::flush`].
    pub async fn shut_down(&self) {
        self.stop.send_replace(true);
        self.queue.closed().await;
    }
}

/// The task: one occurrence after the other, so that the events of an object keep their order.
struct RecorderTask<S> {
    sink: S,
    options: RecorderOptions,
    correlator: Correlator,
    backoff: Backoff,
    counters: Arc<RecorderCounters>,
}

impl<S: EventSink> RecorderTask<S> {
    /// Writes queued events until it is stopped, then the remaining ones within the flush time.
    async fn run(mut self, mut queue: mpsc::Receiver<Occurrence>, mut stop: watch::Receiver<bool>) {
        {
            // Cut short wherever it is: the occurrence in hand is lost, the queue and the counts are not.
            let mut told = stop.clone();
            tokio::select! {
                biased;
                // An error means that all handles were dropped; then the queue ends as well.
                Ok(_) = told.wait_for(|stop| *stop) => {}
                () = self.work(&mut queue) => {}
            }
        }
        stop.mark_unchanged();
        let flush = self.options.flush;
        let _ = timeout(flush, self.finish(&mut queue)).await;
        // Only now: `shut_down` waits for the queue to close.
        while queue.try_recv().is_ok() {
            add(&self.counters.dropped);
        }
    }

    /// Takes occurrences and, at each tick, writes counts that have grown.
    async fn work(&mut self, queue: &mut mpsc::Receiver<Occurrence>) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                occurrence = queue.recv() => match occurrence {
                    Some(occurrence) => self.handle(occurrence).await,
                    None => return,
                },
                _ = ticks.tick() => {
                    let due = self.correlator.tick(Instant::now());
                    self.extend_all(due).await;
                }
            }
        }
    }

    /// Writes what is still queued.
    async fn finish(&mut self, queue: &mut mpsc::Receiver<Occurrence>) {
        while let Ok(occurrence) = queue.try_recv() {
            self.handle(occurrence).await;
        }
        let due = self.correlator.flush(Instant::now());
        self.extend_all(due).await;
    }

    /// Creates an Event, counts it in one that exists, or drops it by the rate limit.
    async fn handle(&mut self, occurrence: Occurrence) {
        match self.correlator.observe(occurrence, Instant::now(), Timestamp::now()) {
            CorrelateResult::Create(event) => {
                if !self.write(&event, false).await {
                    self.correlator.forget(&event.occurrence);
                }
            }
            CorrelateResult::Extend(event) => {
                add(&self.counters.counted);
                self.write(&event, true).await;
            }
            CorrelateResult::Counted => add(&self.counters.counted),
            CorrelateResult::Limited => add(&self.counters.limited),
        }
    }

    /// Writes the counts of Events that occurred again.
    async fn extend_all(&mut self, due: Vec<EventRecord>) {
        for event in due {
            self.write(&event, true).await;
        }
    }

    /// Tries until it is written, refused, or has been tried often enough.
    async fn write(&mut self, event: &EventRecord, mut extend: bool) -> bool {
        self.backoff.reset();
        for _ in 0..self.options.tries.max(1) {
            let result = if extend { self.sink.extend(event).await } else { self.sink.create(event).await };
            match result {
                Ok(()) => {
                    add(&self.counters.written);
                    return true;
                }
                Err(SinkError::Gone) if extend => extend = false,
                Err(SinkError::Failed(error)) => {
                    tracing::debug!(error, event = event.name, "event not written; will be tried again");
                    sleep(self.backoff.delay()).await;
                }
                Err(error) => {
                    tracing::debug!(%error, event = event.name, "event not written");
                    break;
                }
            }
        }
        add(&self.counters.failed);
        false
    }
}
