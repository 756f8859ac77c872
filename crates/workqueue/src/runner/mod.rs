//! The runner: worker tasks that call a reconcile function for each key of a queue.
//!
//! A fixed number of worker tasks take keys and call the function. A key is never processed by two workers at a time (the
//! queue ensures it), failures are retried with the queue's rate limiter, and panics and timeouts count as failures of
//! their key. One run is in [`mod@attempt`]. Work that needs no queue, because all of it is known from the start, is in
//! [`mod@parallel`].

mod attempt;
mod parallel;

use std::fmt;
use std::future::Future;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use self::attempt::{AttemptResult, Limits, attempt};
pub use self::parallel::{Parallel, Pieces};
use crate::reason::Reason;
use crate::{Drained, Item, Key, KeyState, Queue};

/// One run of the function: the key, and the number of earlier attempts. The object is not part of it: read its latest
/// state from the cache.
///
/// ```
/// use listwatch_workqueue::{Job, Options, Outcome, Queue, Runner};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let queue = Queue::<u32>::new(Options::new());
/// let running = Runner::new(|job: Job<u32>| async move {
///     // The third attempt succeeds; a real function would read the object of the key and try its work.
///     if job.retries < 2 { Err(format!("attempt {} failed", job.retries + 1)) } else { Ok(Outcome::Done) }
/// })
/// .start(&queue);
/// queue.add(7)?;
/// while queue.retries(&7) < 2 {
///     tokio::task::yield_now().await;
/// }
/// running.shut_down().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Job<K, R = ()> {
    /// The key to work on.
    pub key: K,
    /// The reason of the key's adds, merged, if the queue carries reasons.
    pub reason: R,
    /// The number of times this key has failed since its last success.
    pub retries: u32,
}

/// The outcome of a run that did not fail; controller-runtime's `Result`. Each variant also resets the failure count of
/// the key, except the rate-limited retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[doc(alias = "reconcile.Result")]
#[doc(alias = "requeue")]
pub enum Outcome {
    /// Nothing more to do until the key is added again.
    Done,
    /// Done for now; process the key again after this time.
    RequeueAfter(Duration),
    /// Not done yet: try again with the rate limiter's delay, as after an error but without the log entry.
    Retry,
}

/// Calls a function for each key of a queue.
///
/// The function gets a [`Job`] and returns an [`Outcome`] or an error, which is retried with the delay of the queue's
/// rate limiter. A panic or a timeout is an error of its key and of nothing else.
///
/// ```
/// use std::convert::Infallible;
///
/// use listwatch_workqueue::{Job, Options, Outcome, Queue, Runner};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let queue = Queue::<String>::new(Options::new());
/// let running = Runner::new(|job: Job<String>| async move {
///     println!("reconciling {}", job.key);
///     Ok::<_, Infallible>(Outcome::Done)
/// })
/// .workers(4)
/// .start(&queue);
///
/// queue.add("default/web".to_owned())?;
/// running.shut_down().await; // after the key has been processed
/// assert!(queue.is_empty());
/// # Ok(())
/// # }
/// ```
#[must_use = "a runner does nothing until it is started"]
#[derive(Debug, Clone)]
#[doc(alias = "processNextWorkItem")]
pub struct Runner<F> {
    handler: F,
    workers: NonZeroUsize,
    limits: Limits,
}

impl<F> Runner<F> {
    /// A runner with one worker, no timeout, and endless retries.
    pub fn new(handler: F) -> Self {
        let limits = Limits { timeout: None, retries_max: None };
        Self { handler, workers: NonZeroUsize::MIN, limits }
    }

    /// The number of keys that are worked on at once. Default 1: most functions are written without thinking of concurrency.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = NonZeroUsize::new(workers).unwrap_or(NonZeroUsize::MIN);
        self
    }

    /// A run that takes longer is dropped at its next await and counts as failed. Default: none.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.limits.timeout = Some(timeout);
        self
    }

    /// Drops a key (until it is added again) after so many failed retries. Default: never, because the rate limiter
    /// makes hopeless keys cheap, and dropping them makes repaired ones wait.
    pub fn retries_max(mut self, retries: u32) -> Self {
        self.limits.retries_max = Some(retries);
        self
    }

    /// Starts the workers on the current tokio runtime.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start<K, R, E, Fut>(self, queue: &Queue<K, R>) -> Running<K, R>
    where
        K: Key + fmt::Debug,
        R: Reason + Clone,
        E: fmt::Display + 'static,
        F: Fn(Job<K, R>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Outcome, E>> + Send + 'static,
    {
        let handler = Arc::new(self.handler);
        let mut tasks = JoinSet::new();
        for _ in 0..self.workers.get() {
            tasks.spawn(work(queue.clone(), Arc::clone(&handler), self.limits));
        }
        Running { queue: queue.clone(), tasks }
    }
}

/// The loop of one worker: takes a key, runs the function, and reports the result to the queue.
async fn work<K, R, E, F, Fut>(queue: Queue<K, R>, handler: Arc<F>, limits: Limits)
where
    K: Key + fmt::Debug,
    R: Reason + Clone,
    E: fmt::Display,
    F: Fn(Job<K, R>) -> Fut,
    Fut: Future<Output = Result<Outcome, E>>,
{
    while let Some(item) = queue.get().await {
        let item = item.at_least_once();
        let job = Job { key: item.key().clone(), reason: item.reason().clone(), retries: item.retries() };
        let retries = job.retries;
        let verdict = attempt(|| handler(job), limits.timeout).await;
        conclude(item, verdict, limits.gives_up(retries));
        // A function that never awaits anything must not keep the other tasks of its thread from running.
        tokio::task::coop::consume_budget().await;
    }
}

/// Translates the result of an attempt into a finish or a retry. A key that failed too often is finished; its failures
/// are counted from zero when it is added again.
fn conclude<K: Key + fmt::Debug, R: Reason>(item: Item<'_, K, R>, verdict: AttemptResult, give_up: bool) {
    match verdict {
        AttemptResult::Ended(Outcome::Done) => item.finish(),
        AttemptResult::Ended(Outcome::RequeueAfter(delay)) => item.retry_after(delay),
        AttemptResult::Ended(Outcome::Retry) if !give_up => item.retry(),
        AttemptResult::Failed(error) if !give_up => {
            tracing::warn!(key = ?item.key(), error, "reconciling failed, will retry");
            item.retry();
        }
        verdict => {
            tracing::error!(key = ?item.key(), ?verdict, "reconciling failed too often, giving up");
            item.finish();
        }
    }
}

/// A runner at work. Dropping it stops the workers at their next await; their keys stay in the queue.
///
/// For an orderly end use [`shut_down`](Self::shut_down), or [`shut_down_within`](Self::shut_down_within) where the
/// time is limited, as that of a pod is.
///
/// ```
/// use std::time::Duration;
///
/// use listwatch_workqueue::{Job, Options, Outcome, Queue, Runner};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let queue = Queue::<&str>::new(Options::new());
/// let running = Runner::new(|_: Job<&str>| async {
///     std::future::pending::<()>().await; // a request without a timeout
///     Ok::<_, std::io::Error>(Outcome::Done)
/// })
/// .start(&queue);
/// queue.add("stuck")?;
/// tokio::task::yield_now().await;
///
/// let unfinished = running.shut_down_within(Duration::from_millis(20)).await.unwrap_err();
/// assert_eq!(unfinished.keys, ["stuck"]);
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping it stops the workers"]
pub struct Running<K, R = ()> {
    queue: Queue<K, R>,
    tasks: JoinSet<()>,
}

/// The keys that were queued or in flight when the time for shutting down was over. They are lost with the process,
/// as every queue is: the next process lists everything again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} keys were not processed in time", keys.len())]
pub struct Unfinished<K> {
    /// They are lost with the process; the next one finds them again in its initial list.
    pub keys: Vec<K>,
}

impl<K: Key, R: Reason> Running<K, R> {
    /// Waits until the queue is shut down, by this or another handle, and everything in it has been processed.
    pub async fn wait(mut self) {
        while self.tasks.join_next().await.is_some() {}
    }

    /// Shuts the queue down and waits until everything in it has been processed, however long that takes.
    pub async fn shut_down(self) {
        let drained = self.queue.shut_down_with_drain().await;
        tracing::debug!(?drained, "work queue shut down");
        self.wait().await;
    }

    /// [`Self::shut_down`] with a limit, after which the workers are stopped where they are.
    ///
    /// # Errors
    /// With the keys that remained, if the time was too short.
    pub async fn shut_down_within(self, limit: Duration) -> Result<(), Unfinished<K>> {
        let drain = self.queue.shut_down_with_drain();
        match tokio::time::timeout(limit, drain).await {
            Ok(Drained::Complete) => {
                self.wait().await;
                Ok(())
            }
            Ok(Drained::Aborted) | Err(_) => Err(self.abandon().await),
        }
    }

    async fn abandon(mut self) -> Unfinished<K> {
        let views = self.queue.list().into_iter().filter(|view| view.state != KeyState::Delayed);
        let keys = views.map(|view| view.key).collect();
        self.tasks.shutdown().await;
        Unfinished { keys }
    }
}

impl<K, R> fmt::Debug for Running<K, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("queue", &self.queue).field("workers", &self.tasks.len()).finish()
    }
}
