//! [`Reflector`]: the [`Machine`] with a source, a clock and a queue.
//!
//! The driver performs the actions of the machine and feeds results back as [`Input`]; it contains no rule about
//! listing or watching. Events that are ready are taken together, up to 128, to share the cost of locks and wake-ups;
//! no batch is waited for. Dropping a request cancels it, so a new action ends the one before.
//!
//! The requests themselves are in [`requests`](super::requests), transformations of objects in
//! [`transform`](super::transform). Panics of both are contained there; a panic of the driver itself restarts it at the pace
//! of the backoff. client-go's counterpart is `Reflector.ListAndWatch`.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use listwatch_wire::Revision;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::machine::Machine;
use super::options::ReflectorOptions;
use super::problem::ProblemResponse;
use super::requests::{ReflectorConnection, ReflectorRequests, list_all, open, poll_events, probe};
use super::step::{Action, Input, Output};
use super::transform::{Transform, typed};
use crate::delta::{Delta, DeltaQueue};
use crate::lister_watcher::{HeldObjects, ListRequest, ListerWatcher, SourceError, WatchEvent};
use crate::monitor::SourceMonitor;
use crate::object::Raw;
use crate::pager::{Pager, PagerOptions};
use crate::panics::contained;

/// A source that always has more lets handlers run after this many events: a quarter of the events that a handler may
/// have unread by default.
const EVENTS_PER_TURN: usize = 1024;

/// A list that takes longer is worth a line in the log.
const SLOW_LIST: Duration = Duration::from_secs(10);

/// Takes deltas in the place of a queue.
pub(crate) type Apply<K> = dyn FnMut(Vec<Delta<K>>) + Send + Sync;

/// Lists and watches one source and feeds a delta queue, until it is stopped.
///
/// Most programs use a [`SharedInformer`](crate::SharedInformer), which contains one. Alone it is for programs that keep
/// the state themselves, such as a database that mirrors a cluster:
///
/// ```
/// use std::sync::Arc;
/// use listwatch::delta::{Delta, DeltaQueue, QueueOptions};
/// use listwatch::lister_watcher::InMemory;
/// use listwatch::reflector::{Reflector, ReflectorOptions};
/// use listwatch::{CancellationToken, Raw};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let source = InMemory::new(100);
/// source.put(&json!({"metadata": {"name": "a"}}))?;
/// let queue = Arc::new(DeltaQueue::<Raw>::new(1, QueueOptions::default()));
/// let reflector = Reflector::new(Arc::new(source), Arc::clone(&queue), 0, ReflectorOptions::default());
/// let stop = CancellationToken::new();
/// let running = tokio::spawn(reflector.run(stop.clone()));
///
/// let first = queue.pop_batch().await.ok_or("closed")?;
/// assert!(matches!(first.deltas.first(), Some(Delta::Replaced { objects, .. }) if objects.len() == 1));
/// stop.cancel();
/// running.await?;
/// # Ok(())
/// # }
/// ```
#[doc(alias = "ListAndWatch")]
pub struct Reflector<K = Raw> {
    source: Arc<dyn ListerWatcher>,
    queue: Arc<DeltaQueue<K>>,
    /// The source of the queue that it feeds.
    position: usize,
    machine: Machine<K>,
    transform: Option<Arc<Transform<K>>>,
    monitor: SourceMonitor,
    /// Instead of the queue.
    apply: Option<Box<Apply<K>>>,
    /// Events applied since other tasks were last let in.
    turn: usize,
    /// The cache that it feeds, for sources that patch what is in it.
    held: Option<HeldObjects>,
    /// Limits how many initial states are obtained at a time.
    initial_lists: Option<Arc<Semaphore>>,
    /// A place among them, until the first attempt has ended.
    place: Option<OwnedSemaphorePermit>,
}

impl<K> fmt::Debug for Reflector<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reflector").field("machine", &self.machine).finish_non_exhaustive()
    }
}

impl<K: Send + Sync + 'static> Reflector<K> {
    /// Feeds the `position`th source of the queue. Starts with [`run`](Self::run).
    pub fn new(
        source: Arc<dyn ListerWatcher>,
        queue: Arc<DeltaQueue<K>>,
        position: usize,
        options: ReflectorOptions,
    ) -> Self {
        let initial_lists = options.initial_lists.clone();
        let machine = Machine::new(options, source.streams_initial_events());
        Self {
            source,
            queue,
            position,
            machine,
            transform: None,
            monitor: SourceMonitor::default(),
            apply: None,
            turn: 0,
            held: None,
            initial_lists,
            place: None,
        }
    }

    /// Runs every object through `transform` before it is queued.
    #[must_use]
    pub fn transform(mut self, transform: Option<Arc<Transform<K>>>) -> Self {
        self.transform = transform;
        self
    }

    /// Begins at a saved state instead of obtaining one.
    pub(crate) fn resume(mut self, revision: Option<Revision>) -> Self {
        if let Some(revision) = revision {
            self.machine = self.machine.resume(revision);
        }
        self
    }

    pub(crate) fn monitor(mut self, monitor: SourceMonitor) -> Self {
        self.monitor = monitor;
        self
    }

    /// Lets the source read the cached objects, for watches that send patches. Not together with a
    /// transformation.
    pub(crate) fn held(mut self, held: Option<HeldObjects>) -> Self {
        self.held = held;
        self
    }

    /// Applies the deltas in its own task instead of queueing them. The queue only signals when to end.
    pub(crate) fn apply(mut self, apply: Box<Apply<K>>) -> Self {
        self.apply = Some(apply);
        self
    }

    /// Lists and watches until `stop` is cancelled or the queue is closed. Both end it at once, also during a request.
    pub async fn run(mut self, stop: CancellationToken) {
        stop.run_until_cancelled(self.supervise()).await;
        self.monitor.phase("stopped");
    }

    /// Restarts the reflector after a panic, at the pace of its backoff, until the queue is closed.
    async fn supervise(&mut self) {
        if let Some(places) = self.initial_lists.take() {
            self.monitor.phase("queued");
            self.place = places.acquire_owned().await.ok();
        }
        let started = Instant::now();
        let mut input = Input::Start;
        while let Err(panic) = contained(self.forever(started, input)).await {
            input = Input::Panicked(panic);
        }
    }

    /// Feeds the machine with what happens, and carries out what it returns. Events are preferred to the timer, so that
    /// a deadline that passed while events waited does not end a live watch.
    async fn forever(&mut self, started: Instant, mut input: Input<K>) {
        let mut requests = ReflectorRequests { connection: ReflectorConnection::None, probe: None };
        let mut timer: Pin<Box<Sleep>> = Box::pin(sleep_until(started));
        loop {
            let now = Instant::now();
            if matches!(input, Input::Events(_)) {
                self.monitor.received(now);
            }
            let out = self.machine.step(input, now - started);
            self.monitor.stepped(&self.machine);
            if self.place.is_some() && self.machine.has_tried() {
                self.place = None;
            }
            if !self.perform(out, &mut requests).await {
                return;
            }
            let deadline = self.machine.deadline().map(|at| started + at);
            if let Some(deadline) = deadline.filter(|deadline| *deadline != timer.deadline()) {
                timer.as_mut().reset(deadline);
            }
            input = tokio::select! {
                biased;
                input = poll_fn(|cx| self.poll_requests(cx, &mut requests)) => input,
                () = timer.as_mut(), if deadline.is_some() => Input::Tick,
            };
        }
    }

    /// False when the queue is closed.
    async fn perform(&mut self, out: Output<K>, requests: &mut ReflectorRequests<K>) -> bool {
        for (problem, response) in &out.problems {
            self.monitor.problem(problem, *response);
        }
        for action in out.actions {
            match action {
                Action::Probe => requests.probe = Some(probe(Arc::clone(&self.source))),
                action => *requests = ReflectorRequests { connection: self.act(action), probe: None },
            }
        }
        out.deltas.is_empty() || self.deliver(out.deltas).await
    }

    /// Passes deltas on: to the queue, or directly to the applier where there is one source. Yields after a number of
    /// events, because applying directly never waits.
    async fn deliver(&mut self, deltas: Vec<Delta<K>>) -> bool {
        let Some(apply) = &mut self.apply else {
            return self.queue.push(self.position, deltas).await.is_ok();
        };
        self.turn += deltas.len();
        apply(deltas);
        if self.turn >= EVENTS_PER_TURN {
            self.turn = 0;
            tokio::task::yield_now().await;
        }
        true
    }

    /// Starts the request of an action. The one before is dropped, which closes its connection.
    fn act(&self, action: Action) -> ReflectorConnection<K> {
        match action {
            Action::HangUp | Action::Probe => ReflectorConnection::None,
            Action::List(request) => {
                self.monitor.listing();
                ReflectorConnection::Listing(self.list(request))
            }
            Action::Watch(request) => {
                self.monitor.watching(&request);
                ReflectorConnection::Opening(open(Arc::clone(&self.source), request, self.held.clone()))
            }
        }
    }

    /// Reads all pages of a list. Panics of the source or of the transform become errors of the list, which is tried
    /// again.
    fn list(&self, request: ListRequest) -> BoxFuture<'static, Input<K>> {
        let span = tracing::info_span!("list", informer = %self.monitor.name(), version = %request.version);
        let pager = Pager::new(Arc::clone(&self.source), request, PagerOptions::default());
        let (transform, monitor) = (self.transform.clone(), self.monitor.clone());
        async move {
            let started = Instant::now();
            let report = |problem| monitor.problem(&problem, ProblemResponse::Continues);
            let listed = contained(list_all(pager, transform.as_deref(), report)).await;
            let took = started.elapsed();
            match listed.unwrap_or_else(|panic| Err(SourceError::Panicked(panic))) {
                Ok(listing) => {
                    monitor.listed(listing.objects.len());
                    let (pages, objects) = (listing.pages, listing.objects.len());
                    if took > SLOW_LIST {
                        tracing::warn!(?took, pages, objects, "slow list");
                    }
                    Input::Listed(listing)
                }
                Err(error) => Input::ListFailed(error),
            }
        }
        .instrument(span)
        .boxed()
    }

    /// Polls the probe first: it is one small request, and its response decides about the stream.
    fn poll_requests(&self, cx: &mut Context<'_>, requests: &mut ReflectorRequests<K>) -> Poll<Input<K>> {
        if let Some(probe) = &mut requests.probe
            && let Poll::Ready(input) = probe.poll_unpin(cx)
        {
            requests.probe = None;
            return Poll::Ready(input);
        }
        self.poll_connection(cx, &mut requests.connection)
    }

    /// Polls the request in progress. A stream that ends with events at hand delivers them first and its end in the
    /// next turn.
    fn poll_connection(
        &self,
        cx: &mut Context<'_>,
        connection: &mut ReflectorConnection<K>,
    ) -> Poll<Input<K>> {
        let (input, next) = match connection {
            ReflectorConnection::None => return Poll::Pending,
            ReflectorConnection::Listing(list) => {
                (std::task::ready!(list.poll_unpin(cx)), ReflectorConnection::None)
            }
            ReflectorConnection::Opening(opening) => match std::task::ready!(opening.poll_unpin(cx)) {
                Ok(stream) => (Input::Opened, ReflectorConnection::Open(stream)),
                Err(error) => (Input::OpenFailed(error), ReflectorConnection::None),
            },
            ReflectorConnection::Open(stream) => {
                let (events, end) = std::task::ready!(poll_events(stream, cx));
                if let Some(end) = end {
                    *connection = ReflectorConnection::Ending(end);
                }
                return Poll::Ready(Input::Events(self.transformed(events)));
            }
            ReflectorConnection::Ending(_) => {
                match std::mem::replace(connection, ReflectorConnection::None) {
                    ReflectorConnection::Ending(end) => (end, ReflectorConnection::None),
                    _ => return Poll::Pending,
                }
            }
        };
        *connection = next;
        Poll::Ready(input)
    }

    fn transformed(&self, events: Vec<WatchEvent>) -> Vec<WatchEvent<K>> {
        let transform = self.transform.as_deref();
        events.into_iter().map(|event| typed(event, transform)).collect()
    }
}
