//! [`Reflector`]: the [`Machine`] with a source, a clock and a queue.
//!
//! The driver performs the actions of the machine and feeds results back as [`Input`]; it contains no rule about
//! listing or watching. Events that are ready are taken together, up to 128, to share the cost of locks and wake-ups;
//! no batch is waited for. Dropping a request cancels it, so a new action ends the one before.
//!
//! Transforms run here, once per object received, and panics of sources and transforms are contained: a panic of the
//! driver itself restarts it at the pace of the backoff. client-go's counterpart is `Reflector.ListAndWatch`.

use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use listwatch_wire::Revision;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::machine::Machine;
use super::options::ReflectorOptions;
use super::problem::{Problem, Response};
use super::step::{Action, Input, Listing, Output};
use crate::delta::{Delta, DeltaQueue};
use crate::lister_watcher::{
    HeldObjects, ListRequest, ListVersion, ListerWatcher, SourceError, WatchEvent, WatchRequest, WatchStream,
};
use crate::monitor::SourceMonitor;
use crate::object::{Object, Raw};
use crate::pager::{Pager, PagerOptions};
use crate::panics::{contained, message};

/// Events that are ready are taken together, up to about this many: what has to be done per batch (locks, wake-ups,
/// clocks) is then shared by them. Nobody waits for a batch to fill.
const EVENTS_AT_ONCE: usize = 128;

/// A source that always has more lets handlers run after this many events: a quarter of the events that a handler may
/// have unread by default.
const EVENTS_PER_TURN: usize = 1024;

/// A list that takes longer is worth a line in the log.
const SLOW_LIST: Duration = Duration::from_secs(10);

/// Changes an object before it is cached; the error says why it cannot be. Runs exactly once per object received.
#[doc(alias = "TransformFunc")]
pub type Transform<K> = dyn Fn(Object<K>) -> Result<Object<K>, String> + Send + Sync;

/// Takes deltas in the place of a queue.
pub(crate) type Apply<K> = dyn FnMut(Vec<Delta<K>>) + Send + Sync;

/// Lists and watches one source and feeds a delta queue, until it is stopped.
///
/// Most users want a [`SharedInformer`](crate::SharedInformer), which contains one.
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

/// The work in progress: a request or stream, and beside a stream perhaps a probe.
struct ReflectorRequests<K> {
    connection: ReflectorConnection<K>,
    probe: Option<BoxFuture<'static, Input<K>>>,
}

/// The request or stream in progress.
enum ReflectorConnection<K> {
    None,
    Listing(BoxFuture<'static, Input<K>>),
    Opening(BoxFuture<'static, Result<WatchStream, SourceError>>),
    Open(WatchStream),
    /// The stream has ended, but what came before has yet to be dealt with.
    Ending(Input<K>),
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

    /// Gives the source access to the cached objects, for watches that send patches. Not together with a
    /// transformation.
    pub(crate) fn held(mut self, held: Option<HeldObjects>) -> Self {
        self.held = held;
        self
    }

    /// Hands the deltas over in its own task instead of queueing them. The queue only says when to end.
    pub(crate) fn apply(mut self, apply: Box<Apply<K>>) -> Self {
        self.apply = Some(apply);
        self
    }

    /// Lists and watches until `stop` is cancelled or the queue is closed. Both end it at once, whatever it waits
    /// for.
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
                self.monitor.heard(now);
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
            let report = |problem| monitor.problem(&problem, Response::Continues);
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

/// The events that are ready, at least one unless the stream ends; and its end, if it is there already.
fn poll_events<K>(
    stream: &mut WatchStream,
    cx: &mut Context<'_>,
) -> Poll<(Vec<WatchEvent>, Option<Input<K>>)> {
    let mut events = Vec::new();
    loop {
        let poll = catch_unwind(AssertUnwindSafe(|| stream.poll_next_unpin(cx)));
        let end = match poll
            .unwrap_or_else(|panic| Poll::Ready(Some(Err(SourceError::Panicked(message(&*panic))))))
        {
            Poll::Ready(Some(Ok(more))) => {
                if events.is_empty() {
                    events = more
                } else {
                    events.extend(more)
                }
                if events.len() < EVENTS_AT_ONCE {
                    continue;
                }
                None
            }
            Poll::Ready(Some(Err(error))) => Some(Input::Broken(error)),
            Poll::Ready(None) => Some(Input::Closed),
            Poll::Pending if events.is_empty() => return Poll::Pending,
            Poll::Pending => None,
        };
        return Poll::Ready((events, end));
    }
}

/// Reads the revision of the latest state, and as little else as a server lets one.
fn probe<K: Send + 'static>(source: Arc<dyn ListerWatcher>) -> BoxFuture<'static, Input<K>> {
    let request = ListRequest::first(ListVersion::MostRecent, Some(1));
    let read = async move { contained(source.list(&request)).await };
    let listed = read.map(|listed| listed.unwrap_or_else(|panic| Err(SourceError::Panicked(panic))));
    listed.map(|page| Input::Probed(page.map(|page| page.revision))).boxed()
}

fn open(
    source: Arc<dyn ListerWatcher>,
    request: WatchRequest,
    held: Option<HeldObjects>,
) -> BoxFuture<'static, Result<WatchStream, SourceError>> {
    let opening = async move {
        match held {
            Some(held) => contained(source.watch_holding(&request, &held)).await,
            None => contained(source.watch(&request)).await,
        }
    };
    opening.map(|opened| opened.unwrap_or_else(|panic| Err(SourceError::Panicked(panic)))).boxed()
}

/// The event of the type the informer is about, its object transformed.
fn typed<K>(event: WatchEvent, transform: Option<&Transform<K>>) -> WatchEvent<K> {
    let change = |object: Object, make: fn(Object<K>) -> WatchEvent<K>| match transformed(object, transform) {
        Ok(object) => make(object),
        Err((object, reason)) => {
            let (key, revision) = (object.key().clone(), object.revision());
            WatchEvent::Rejected { key, revision, reason }
        }
    };
    match event {
        WatchEvent::Added(object) => change(object, WatchEvent::Added),
        WatchEvent::Modified(object) => change(object, WatchEvent::Modified),
        WatchEvent::Deleted(object) => match transformed(object, transform) {
            // A deletion is one, whatever the transformation thinks of the object's last state.
            Ok(object) | Err((object, _)) => WatchEvent::Deleted(object),
        },
        WatchEvent::Bookmark { revision, initial_events_end } => {
            WatchEvent::Bookmark { revision, initial_events_end }
        }
        WatchEvent::Error(status) => WatchEvent::Error(status),
        WatchEvent::Rejected { key, revision, reason } => WatchEvent::Rejected { key, revision, reason },
        WatchEvent::Unusable(reason) => WatchEvent::Unusable(reason),
    }
}

fn transformed<K>(
    object: Object,
    transform: Option<&Transform<K>>,
) -> Result<Object<K>, (Object<K>, String)> {
    let object = object.cast::<K>();
    let Some(transform) = transform else { return Ok(object) };
    match catch_unwind(AssertUnwindSafe(|| transform(object.clone()))) {
        Ok(Ok(changed)) => Ok(changed),
        Ok(Err(reason)) => Err((object, reason)),
        Err(_) => Err((object, "the transformation panicked".to_owned())),
    }
}

/// Collects the pages. An object that is unusable or not transformable is reported and left out; the rest counts.
async fn list_all<K>(
    mut pager: Pager,
    transform: Option<&Transform<K>>,
    report: impl Fn(Problem),
) -> Result<Listing<K>, SourceError> {
    let mut listing = Listing { objects: Vec::new(), revision: Revision::ZERO, pages: 0 };
    while let Some(page) = pager.next().await {
        let page = page?;
        tracing::debug!(page = listing.pages, objects = page.objects.len(), "page received");
        if listing.pages == 0 {
            // The state that the list shows is that of its first page; later pages are read at the same.
            listing.revision = page.revision;
        }
        listing.pages += 1;
        for reason in page.unusable {
            report(Problem::Unusable(reason));
        }
        for object in page.objects {
            match transformed(object, transform) {
                Ok(object) => listing.objects.push(object),
                Err((object, reason)) => {
                    report(Problem::Transform { key: object.key().clone(), reason });
                }
            }
        }
    }
    Ok(listing)
}
