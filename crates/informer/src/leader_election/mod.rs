//! Leader election on a Lease: of several copies of a program, one works.
//!
//! [`LeaderElection::run`] acquires the lease, runs a future while it holds it, and returns why it ended. Compared with
//! client-go's:
//!
//! - The work has ended before the lease is released or expires: it is cancelled when leadership is lost or the program
//!   stops, and aborted if it still runs when another candidate may take over.
//! - [`ElectionEvent::Started`] and [`ElectionEvent::Stopped`] come in pairs, and only for a candidate that was the
//!   leader.
//! - Each term has a [fencing token](Leadership::fencing_token) that grows with every term. No election can prevent a
//!   process that was suspended in the middle of a request from finishing it later; a storage that rejects older tokens
//!   can.
//!
//! Reading order: [`ElectionOptions`] for the times, [`ElectionMachine`] for the rules, [`LeaseLock`] for where the record is
//! kept, this file for the tasks and requests around them. Not here: coordinated election by LeaseCandidates.

mod lock;
mod machine;
mod monitor;
mod options;
#[cfg(test)]
mod tests;

use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

pub use lock::{InMemoryLease, KubeLease, LeaseLock, LeaseRecord, LockError, Observed};
pub use machine::{ElectionAction, ElectionMachine, Now, Term};
pub use monitor::{ElectionMonitor, ElectionStatus};
pub use options::{ElectionOptions, OptionsError};

/// The number of times a release is tried when the record changes concurrently.
const RELEASE_TRIES: usize = 3;

/// The events of an election, for logs and metrics. They come from the task of the election and must be handled without
/// blocking.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ElectionEvent<'a> {
    /// The record names another leader than before; it may be us.
    Leader(&'a str),
    /// We lead: the work begins.
    Started {
        /// The number of this term.
        fencing_token: u32,
    },
    /// We do not lead any more: the work has ended.
    Stopped {
        /// The number of this term.
        fencing_token: u32,
    },
    /// The record could not be read or written. It is tried again.
    Problem(&'a LockError),
}

/// Called for every change of leadership, and for problems.
type ElectionHook = dyn Fn(&ElectionEvent<'_>) + Send + Sync;

/// The result of [`LeaderElection::run`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElectionOutcome<T> {
    /// Stopped before it ever led.
    NeverLed,
    /// The work is done, by itself or after a requested stop.
    Finished(T),
    /// Leadership was lost; what the work returned, if it ended before it was aborted.
    Lost(Option<T>),
    /// The work did not end in the [grace](ElectionOptions::stop_grace) it had.
    Aborted,
    /// The work panicked, with this message.
    Panicked(String),
}

/// The term in which the work runs: its fencing token, and the signal to end.
///
/// Pass it to all code that writes outside Kubernetes. A process that was paused can be past its lease unnoticed, and
/// only the storage that receives a write can refuse it, by the [fencing token](Self::fencing_token).
#[derive(Clone, Debug)]
pub struct Leadership {
    fencing_token: u32,
    over: CancellationToken,
    valid_until: watch::Receiver<Instant>,
}

impl Leadership {
    /// The number of this term; every later term, of whichever candidate, has a greater one. Send it along with writes
    /// to a storage that can refuse smaller ones than it has seen.
    #[must_use]
    pub fn fencing_token(&self) -> u32 {
        self.fencing_token
    }

    /// True if no other candidate can lead at this moment, by our clock.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        Instant::now() < *self.valid_until.borrow()
    }

    /// Waits until the work has to end.
    pub async fn over(&self) {
        self.over.cancelled().await;
    }

    /// Cancelled when the work has to end.
    #[must_use]
    pub fn token(&self) -> CancellationToken {
        self.over.clone()
    }
}

/// A candidate.
///
/// ```
/// use std::sync::Arc;
/// use listwatch::leader_election::{ElectionOptions, InMemoryLease, LeaderElection, ElectionOutcome};
/// use tokio_util::sync::CancellationToken;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // Against a cluster: KubeLease::new(client, "kube-system", "my-controller").
/// let lock = Arc::new(InMemoryLease::default());
/// let election = LeaderElection::new(lock, ElectionOptions::new("me"))?;
/// let stop = CancellationToken::new();
/// let outcome = election
///     .run(&stop, |leadership| async move {
///         assert!(leadership.is_valid());
///         "worked"
///     })
///     .await;
/// assert_eq!(outcome, ElectionOutcome::Finished("worked"));
/// # Ok(())
/// # }
/// ```
#[doc(alias = "LeaderElector")]
pub struct LeaderElection<L> {
    lock: L,
    options: ElectionOptions,
    hook: Option<Arc<ElectionHook>>,
    monitor: ElectionMonitor,
}

impl<L> fmt::Debug for LeaderElection<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderElection").field("options", &self.options).finish_non_exhaustive()
    }
}

impl<L: LeaseLock> LeaderElection<L> {
    /// A candidate for this lock.
    ///
    /// # Errors
    /// [`OptionsError`] if the times do not fit together.
    pub fn new(lock: L, options: ElectionOptions) -> Result<Self, OptionsError> {
        options.validate()?;
        Ok(Self { lock, options, hook: None, monitor: ElectionMonitor::default() })
    }

    /// Returns a handle to the state of the candidate, which can be read from anywhere and at any time.
    #[must_use]
    pub fn monitor(&self) -> ElectionMonitor {
        self.monitor.clone()
    }

    /// Sets a hook that is called with every [`ElectionEvent`]. It must not block: the next renewal waits for it.
    #[must_use]
    pub fn on_event(mut self, hook: impl Fn(&ElectionEvent<'_>) + Send + Sync + 'static) -> Self {
        self.hook = Some(Arc::new(hook));
        self
    }

    /// Waits until it acquires the lease or `stop` is cancelled; then runs `work` in a separate task for one term.
    ///
    /// Call it again to take part again, or end the program, which is safer if work may be half done after a lost term.
    /// Dropping the future aborts the work and lets the lease expire.
    pub async fn run<W, F, T>(&self, stop: &CancellationToken, work: W) -> ElectionOutcome<T>
    where
        W: FnOnce(Leadership) -> F,
        F: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        let seed = RandomState::new().hash_one(&self.options.identity);
        let mut machine = ElectionMachine::new(self.options.clone(), Instant::now(), seed);
        let outcome = match self.acquire(&mut machine, stop).await {
            Some(term) => self.lead(&mut machine, term, stop, work).await,
            None => ElectionOutcome::NeverLed,
        };
        if self.options.release {
            // The lease expires by itself if it cannot be released soon.
            let _ = timeout(self.options.retry_period, self.release(&mut machine)).await;
        }
        outcome
    }

    /// Waits and writes until this candidate leads; `None` if it is stopped before.
    async fn acquire(&self, machine: &mut ElectionMachine, stop: &CancellationToken) -> Option<Term> {
        loop {
            match machine.step(Now::read()) {
                ElectionAction::Wait(until) => {
                    let _ = stop.run_until_cancelled(sleep_until(until)).await;
                }
                ElectionAction::Read => {
                    stop.run_until_cancelled(self.perform(machine, ElectionAction::Read)).await;
                }
                // Not cancelled: a lease acquired by an aborted request would make all candidates wait until it
                // expires.
                write => self.perform(machine, write).await,
            }
            if stop.is_cancelled() {
                return None;
            }
            if let Some(term) = machine.term() {
                return Some(term);
            }
        }
    }

    /// Runs the work while the lease is renewed. Cancels it as soon as the lease may be held by another.
    async fn lead<W, F, T>(
        &self,
        machine: &mut ElectionMachine,
        term: Term,
        stop: &CancellationToken,
        work: W,
    ) -> ElectionOutcome<T>
    where
        W: FnOnce(Leadership) -> F,
        F: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        let fencing_token = term.fencing_token;
        let (valid, valid_until) = watch::channel(term.valid_until);
        let over = stop.child_token();
        // One task in a set, because a set aborts its tasks when it is dropped.
        let mut tasks = JoinSet::new();
        let _leading = self.monitor.lead(fencing_token);
        self.notify(&ElectionEvent::Started { fencing_token });
        tasks.spawn(work(Leadership { fencing_token, over: over.clone(), valid_until }));
        let outcome = match self.keep(machine, &mut tasks, &valid, stop).await {
            LostReason::Ended(result) => ended(result),
            LostReason::Lost(term) => {
                over.cancel();
                let result = timeout_at(term.valid_until, tasks.join_next()).await;
                ElectionOutcome::Lost(result.ok().flatten().and_then(Result::ok))
            }
            LostReason::OutOfGrace => ElectionOutcome::Aborted,
        };
        tasks.shutdown().await;
        self.notify(&ElectionEvent::Stopped { fencing_token });
        outcome
    }

    /// Renews until the work ends or the term does.
    async fn keep<T: 'static>(
        &self,
        machine: &mut ElectionMachine,
        tasks: &mut JoinSet<T>,
        valid: &watch::Sender<Instant>,
        stop: &CancellationToken,
    ) -> LostReason<T> {
        let mut grace: Option<Instant> = None;
        loop {
            if grace.is_some_and(|grace| Instant::now() >= grace) {
                return LostReason::OutOfGrace;
            }
            let step = self.renew(machine, grace);
            tokio::select! {
                biased;
                Some(result) = tasks.join_next() => return LostReason::Ended(result),
                () = stop.cancelled(), if grace.is_none() => {
                    grace = Some(Instant::now() + self.options.stop_grace);
                }
                lost = step => if let Some(term) = lost {
                    return LostReason::Lost(term);
                },
            }
            if let Some(term) = machine.term() {
                valid.send_replace(term.valid_until);
            }
        }
    }

    /// Takes one step of a leader: waits, or renews the lease. Returns the term if it is lost. Waits no longer than to
    /// the end of the grace.
    async fn renew(&self, machine: &mut ElectionMachine, grace: Option<Instant>) -> Option<Term> {
        match machine.step(Now::read()) {
            ElectionAction::Lost(term) => return Some(term),
            ElectionAction::Wait(until) => {
                sleep_until(grace.map_or(until, |grace| until.min(grace))).await;
            }
            request => self.perform(machine, request).await,
        }
        None
    }

    /// Performs an action of the machine.
    async fn perform(&self, machine: &mut ElectionMachine, action: ElectionAction) {
        let before = machine.leader().map(str::to_owned);
        let patience = machine.patience(Instant::now());
        let late = |_| LockError::TimedOut(patience);
        match action {
            ElectionAction::Read => {
                let result = timeout(patience, self.lock.read()).await.map_err(late).flatten();
                self.problem(result.as_ref().err());
                machine.on_read(Now::read(), &result);
            }
            ElectionAction::Write(record, over) => {
                let write = self.lock.write(&record, over.as_ref());
                let result = timeout(patience, write).await.map_err(late).flatten();
                self.problem(result.as_ref().err());
                machine.on_write(Now::read(), &result);
            }
            ElectionAction::Wait(_) | ElectionAction::Lost(_) => {}
        }
        if let Some(leader) = machine.leader().filter(|leader| Some(*leader) != before.as_deref()) {
            self.notify(&ElectionEvent::Leader(leader));
        }
    }

    /// Releases the lease, so that the next leader need not wait for its end.
    async fn release(&self, machine: &mut ElectionMachine) {
        for _ in 0..RELEASE_TRIES {
            let Some((record, version)) = machine.release(Now::read()) else { return };
            match self.lock.write(&record, Some(&version)).await {
                Err(LockError::Conflict) => match self.lock.read().await {
                    Ok(Some(observed)) => machine.note(observed, Instant::now()),
                    _ => return,
                },
                result => return self.problem(result.err().as_ref()),
            }
        }
    }

    /// Reports an error of the lock.
    fn problem(&self, error: Option<&LockError>) {
        // Losing a race is how elections are decided, not a problem.
        if let Some(error) = error.filter(|error| !matches!(error, LockError::Conflict)) {
            tracing::debug!(%error, identity = self.options.identity, "lease not read or written");
            self.notify(&ElectionEvent::Problem(error));
        }
    }

    /// Calls the hook of the user, if there is one.
    fn notify(&self, event: &ElectionEvent<'_>) {
        self.monitor.record(event);
        if let Some(hook) = &self.hook {
            hook(event);
        }
    }
}

/// The reason that a leader no longer renews.
enum LostReason<T> {
    Ended(Result<T, JoinError>),
    Lost(Term),
    OutOfGrace,
}

/// The result of the work. A panic of it is an outcome and ends nothing else.
fn ended<T>(result: Result<T, JoinError>) -> ElectionOutcome<T> {
    let panic = match result {
        Ok(value) => return ElectionOutcome::Finished(value),
        Err(error) => error,
    };
    let Ok(panic) = panic.try_into_panic() else { return ElectionOutcome::Aborted };
    ElectionOutcome::Panicked(crate::panics::message(&*panic))
}
