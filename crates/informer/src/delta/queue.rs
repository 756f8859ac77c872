//! [`DeltaQueue`]: a bounded delta queue between the tasks that reflect and the one that applies.
//!
//! Each source has a queue of its own, and they are popped in turns: a barrier or a burst of one namespace holds up no
//! other. Order is kept within a source only, which is all that the server guarantees between two watches. A full queue
//! makes [`DeltaQueue::push`] wait, so a reflector stops reading its connection instead of filling memory.
//!
//! An informer with one source and the in-order form does not use the queue at all: its reflector applies deltas in its
//! own task (`informer::run`).

use std::fmt;
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

use listwatch_wire::Revision;

use super::{Coalescing, Delta, InOrder};
use crate::object::Raw;
use crate::sync::Mutex;

/// The form in which deltas are queued. The choice is between seeing every intermediate state and a bound on memory
/// that does not depend on the rate of changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// All of them, in order across keys.
    #[default]
    InOrder,
    /// Per key, without those that a later one makes needless.
    Coalescing,
}

/// The bounds of a delta queue. It is full when the consumer is slower than the server; the reflectors then stop
/// reading, and TCP passes the pressure on.
///
/// ```
/// use listwatch::delta::Form;
/// use listwatch::{InformerOptions, SharedInformer, lister_watcher::InMemory};
/// use serde_json::Value;
///
/// // Leases change every few seconds, and only the latest state is of interest: it replaces a change that still waits.
/// let mut options = InformerOptions::default();
/// options.queue = options.queue.form(Form::Coalescing).capacity(1000);
/// let leases = SharedInformer::<Value>::builder(InMemory::new(10)).options(options).build();
/// assert_eq!(leases.status().queued, 0);
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct QueueOptions {
    /// The form in which deltas are queued.
    pub form: Form,
    /// The most objects that may wait before the reflectors wait, too. Default 4096: a few megabytes of typical
    /// objects, and enough that neither side waits for the other between two network reads. One push may exceed it,
    /// since a replacement is not divisible.
    pub capacity: usize,
    /// The number of deltas that are popped at a time. Default 1000.
    pub batch: usize,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self { form: Form::InOrder, capacity: 4096, batch: 1000 }
    }
}

impl QueueOptions {
    /// Sets [`form`](Self::form).
    #[must_use]
    pub fn form(mut self, form: Form) -> Self {
        self.form = form;
        self
    }

    /// Sets [`capacity`](Self::capacity).
    #[must_use]
    pub fn capacity(mut self, objects: usize) -> Self {
        self.capacity = objects.max(1);
        self
    }
}

/// The queue was closed: what is pushed would never be popped. A reflector ends when it gets this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the delta queue is closed")]
pub struct Closed;

/// A batch: some deltas of one source.
#[derive(Debug)]
#[doc(alias = "Deltas")]
pub struct DeltaBatch<K = Raw> {
    /// The source they are of: its position among the informer's [`Sources`](crate::lister_watcher::Sources).
    pub source: usize,
    /// The deltas, in order.
    pub deltas: Vec<Delta<K>>,
    /// The store is complete up to this revision once they have been applied; none if they do not move it.
    pub revision: Option<Revision>,
}

/// The resource version of a source after these deltas, which are in order.
pub(crate) fn last_revision<'a, K: 'a>(
    deltas: impl IntoIterator<Item = &'a Delta<K>, IntoIter: DoubleEndedIterator>,
) -> Option<Revision> {
    deltas.into_iter().rev().find_map(Delta::revision)
}

/// The queue of a source, in the form that was chosen.
enum Queued<K> {
    InOrder(InOrder<K>),
    Coalescing(Coalescing<K>),
}

impl<K> Queued<K> {
    fn new(form: Form) -> Self {
        match form {
            Form::InOrder => Self::InOrder(InOrder::default()),
            Form::Coalescing => Self::Coalescing(Coalescing::default()),
        }
    }

    fn push(&mut self, delta: Delta<K>) {
        match self {
            Self::InOrder(queue) => queue.push(delta),
            Self::Coalescing(queue) => queue.push(delta),
        }
    }

    fn pop_batch(&mut self, max: usize) -> Vec<Delta<K>> {
        match self {
            Self::InOrder(queue) => queue.pop_batch(max),
            Self::Coalescing(queue) => queue.pop_batch(max),
        }
    }

    /// The resource version of the source once these deltas have been applied.
    fn revision(&self, deltas: &[Delta<K>]) -> Option<Revision> {
        match self {
            Self::InOrder(_) => last_revision(deltas),
            Self::Coalescing(_) => {
                last_revision(deltas.last().into_iter().filter(|delta| delta.key().is_none()))
            }
        }
    }

    /// The objects that wait, by which the queue is bounded.
    fn weight(&self) -> usize {
        match self {
            Self::InOrder(queue) => queue.weight(),
            Self::Coalescing(queue) => queue.weight(),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::InOrder(queue) => queue.is_empty(),
            Self::Coalescing(queue) => queue.is_empty(),
        }
    }
}

/// Everything under the lock of the queue.
struct DeltaState<K> {
    /// One queue per source, so that a barrier of one source holds up no other.
    sources: Vec<Queued<K>>,
    /// The source to look at first next time, so that no source starves another.
    turn: usize,
    closed: bool,
    /// Sources that were taken away and whose position has not been given to another.
    retired: Vec<usize>,
    popper: Option<Waker>,
    pushers: Vec<Waker>,
}

/// A bounded delta queue for one consumer and any number of sources.
///
/// The order of deltas is kept within a source; sources take turns, so that one with a large initial list does not
/// hold up the others.
///
/// ```
/// use listwatch::delta::{Delta, DeltaQueue, QueueOptions};
/// use listwatch::{Object, Revision};
/// use serde_json::{Value, json};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let queue = DeltaQueue::<Value>::new(1, QueueOptions::default());
/// let object = Object::from_value(&json!({"metadata": {"name": "a", "resourceVersion": "5"}}))?;
/// let replaced = Delta::Replaced { objects: vec![object], revision: Revision(5), restarted: false };
/// queue.push(0, vec![replaced]).await?;
/// queue.close();
///
/// let batch = queue.pop_batch().await.ok_or("empty")?;
/// assert_eq!((batch.source, batch.deltas.len()), (0, 1));
/// assert!(queue.pop_batch().await.is_none());
/// # Ok(())
/// # }
/// ```
pub struct DeltaQueue<K = Raw> {
    state: Mutex<DeltaState<K>>,
    options: QueueOptions,
}

impl<K> fmt::Debug for DeltaQueue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeltaQueue").field("len", &self.len()).field("options", &self.options).finish()
    }
}

impl<K> DeltaQueue<K> {
    /// An empty queue for this many sources.
    #[must_use]
    pub fn new(sources: usize, options: QueueOptions) -> Self {
        let sources = (0..sources).map(|_| Queued::new(options.form)).collect();
        let state = DeltaState {
            sources,
            turn: 0,
            closed: false,
            retired: Vec::new(),
            popper: None,
            pushers: Vec::new(),
        };
        Self { state: Mutex::new(state), options }
    }

    /// The form in which deltas are queued.
    #[must_use]
    pub fn form(&self) -> Form {
        self.options.form
    }

    /// Opens a queue for a source at this position.
    pub(crate) fn ensure_source(&self, position: usize) {
        let mut state = self.state.lock();
        while state.sources.len() <= position {
            state.sources.push(Queued::new(self.options.form));
        }
        state.retired.retain(|retired| *retired != position);
    }

    /// Takes the source at this position away: what is queued of it is dropped, nothing more is taken, and
    /// [`Delta::Removed`] is the last that is popped of it.
    pub(crate) fn retire_source(&self, position: usize) {
        let mut state = self.state.lock();
        let Some(queue) = state.sources.get_mut(position) else { return };
        *queue = Queued::new(self.options.form);
        queue.push(Delta::Removed);
        state.retired.push(position);
        let wakers = std::mem::take(&mut state.pushers).into_iter().chain(state.popper.take());
        let wakers: Vec<_> = wakers.collect();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Returns the number of objects that wait, of all sources. It may exceed the capacity by one push per source.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state.lock().sources.iter().map(Queued::weight).sum()
    }

    /// True if nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.state.lock().sources.iter().all(Queued::is_empty)
    }

    /// Queues deltas of a source, in order, once there is room.
    ///
    /// # Errors
    /// [`Closed`] when they would never be popped.
    pub async fn push(&self, source: usize, deltas: Vec<Delta<K>>) -> Result<(), Closed> {
        let mut deltas = Some(deltas);
        poll_fn(|cx| self.poll_push(cx, source, &mut deltas)).await
    }

    /// Queues all deltas once there is room for the first: a replacement is not divisible, so the capacity is a
    /// threshold and no hard bound.
    fn poll_push(
        &self,
        cx: &mut Context<'_>,
        source: usize,
        deltas: &mut Option<Vec<Delta<K>>>,
    ) -> Poll<Result<(), Closed>> {
        let mut state = self.state.lock();
        let capacity = self.options.capacity;
        let closed = state.closed || state.retired.contains(&source);
        let Some(queue) = state.sources.get_mut(source).filter(|_| !closed) else {
            return Poll::Ready(Err(Closed));
        };
        if queue.weight() >= capacity {
            state.pushers.push(cx.waker().clone());
            return Poll::Pending;
        }
        deltas.take().into_iter().flatten().for_each(|delta| queue.push(delta));
        let popper = state.popper.take();
        drop(state);
        popper.into_iter().for_each(Waker::wake);
        Poll::Ready(Ok(()))
    }

    /// Waits for deltas and takes a batch; `None` once the queue is closed and empty.
    pub async fn pop_batch(&self) -> Option<DeltaBatch<K>> {
        poll_fn(|cx| self.poll_pop(cx)).await
    }

    /// Takes a batch of the next source that has one, in turns. All pushers are woken, since the freed room may be of
    /// any source.
    fn poll_pop(&self, cx: &mut Context<'_>) -> Poll<Option<DeltaBatch<K>>> {
        let mut state = self.state.lock();
        let count = state.sources.len();
        let (turn, batch) = (state.turn, self.options.batch);
        for source in (0..count).map(|step| (turn + step) % count.max(1)) {
            let Some(queue) = state.sources.get_mut(source) else { continue };
            let deltas = queue.pop_batch(batch);
            if !deltas.is_empty() {
                let revision = queue.revision(&deltas);
                state.turn = source + 1;
                let pushers = std::mem::take(&mut state.pushers);
                drop(state);
                pushers.into_iter().for_each(Waker::wake);
                return Poll::Ready(Some(DeltaBatch { source, deltas, revision }));
            }
        }
        if state.closed {
            return Poll::Ready(None);
        }
        state.popper = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Refuses further deltas; what is queued can still be popped. All waiters are woken.
    pub fn close(&self) {
        let (popper, pushers) = {
            let mut state = self.state.lock();
            state.closed = true;
            (state.popper.take(), std::mem::take(&mut state.pushers))
        };
        popper.into_iter().chain(pushers).for_each(Waker::wake);
    }
}
