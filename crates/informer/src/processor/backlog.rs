//! [`Backlog`]: the events that one handler has not read yet.
//!
//! In order: the snapshots of the objects present when it joined, then changes that were folded because it fell behind,
//! then shared batches. Publishing takes one short lock and never waits; only the handler itself waits here.
//!
//! In client-go each listener has a buffer that grows without bound (`processorListener`); here it is bounded by
//! folding, which `coalesce` does. The task that reads is `runner`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use super::coalesce::Folded;
use super::event::Event;
use crate::store::Snapshot;
use crate::sync::Mutex;

/// The number of folded keys that are delivered at a time: few enough that later changes still fold with the rest.
const FOLDED_AT_ONCE: usize = 64;

/// Objects that were there before, delivered as initial additions.
pub(crate) struct Replay<K> {
    pub(crate) snapshot: Snapshot<K>,
    /// Only this namespace of the snapshot.
    pub(crate) namespace: Option<Arc<str>>,
    /// The number of objects in it.
    pub(crate) count: usize,
}

/// The next action of a handler.
pub(crate) enum HandlerWork<K> {
    Replay(Replay<K>),
    Events(Arc<Vec<Event<K>>>),
    /// All initial objects have been delivered.
    Synced,
}

impl<K> HandlerWork<K> {
    /// The number of events it is.
    fn len(&self) -> usize {
        match self {
            Self::Replay(replay) => replay.count,
            Self::Events(events) => events.len(),
            Self::Synced => 1,
        }
    }
}

/// The events that a handler has not received, or not completely.
pub(crate) struct Unread<K> {
    /// It has yet to receive the state it starts from.
    pub(crate) replaying: bool,
    batches: Vec<Arc<Vec<Event<K>>>>,
}

impl<K> Unread<K> {
    pub(crate) fn len(&self) -> usize {
        self.batches.iter().map(|batch| batch.len()).sum()
    }

    pub(crate) fn events(&self) -> impl Iterator<Item = &Event<K>> {
        self.batches.iter().flat_map(|batch| batch.iter())
    }
}

/// The work that the reader took last.
enum InHand<K> {
    Nothing,
    Replay,
    Events(Arc<Vec<Event<K>>>),
}

impl<K> HandlerWork<K> {
    /// The part of the work to keep while the handler has it.
    fn in_hand(&self) -> InHand<K> {
        match self {
            Self::Replay(_) => InHand::Replay,
            Self::Events(events) => InHand::Events(Arc::clone(events)),
            Self::Synced => InHand::Nothing,
        }
    }
}

/// The fate of the unread part when a handler is removed, in ascending precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RemovalEnd {
    Drain,
    Discard,
}

/// Everything that publisher and reader share. Held for a few instructions at a time, never over a call of a handler.
struct BacklogState<K> {
    replays: VecDeque<Replay<K>>,
    folded: Folded<K>,
    batches: VecDeque<Arc<Vec<Event<K>>>>,
    /// Events in `batches`.
    queued: usize,
    in_hand: InHand<K>,
    /// The number of batches until the initial state is complete; `None` if that is unknown.
    initial_complete: Option<usize>,
    /// The batches before that were folded: what is folded comes first.
    folded_initial: bool,
    /// True if `Synced` was delivered.
    synced_told: bool,
    end: Option<RemovalEnd>,
    waker: Option<Waker>,
    folds: u64,
}

/// The events that wait for one handler.
///
/// Bounded: beyond `max` events, those that wait are folded to one per key, so that a blocked handler holds at most one
/// state per object. Publishing never waits for a handler, and never fails.
pub(crate) struct Backlog<K> {
    state: Mutex<BacklogState<K>>,
    max: usize,
    /// Keeps what is in hand, because [`unread`](Self::unread) may be read.
    remembers: bool,
    /// Events that were taken by the handler's task and not yet delivered. Written by the one reader only.
    handed: AtomicUsize,
}

impl<K> Backlog<K> {
    /// An empty backlog that folds beyond `max` events, at least one. `remembers` keeps what is in hand, for
    /// [`Self::unread`].
    pub(crate) fn new(max: usize, remembers: bool) -> Self {
        let state = BacklogState {
            replays: VecDeque::new(),
            folded: Folded::default(),
            batches: VecDeque::new(),
            queued: 0,
            in_hand: InHand::Nothing,
            initial_complete: None,
            folded_initial: false,
            synced_told: false,
            end: None,
            waker: None,
            folds: 0,
        };
        Self { state: Mutex::new(state), max: max.max(1), remembers, handed: AtomicUsize::new(0) }
    }

    /// Changes the state and wakes the reader, after the lock is released. Does nothing once the backlog is closed.
    fn change(&self, change: impl FnOnce(&mut BacklogState<K>)) {
        let mut state = self.state.lock();
        if state.end.is_some() {
            return;
        }
        change(&mut state);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Adds objects that were there before the handler.
    pub(crate) fn replay(&self, replay: Replay<K>) {
        self.change(|state| state.replays.push_back(replay));
    }

    /// Marks the end of the initial state behind the batches that wait now. client-go calls it HasSynced of a handler.
    pub(crate) fn initial_complete(&self) {
        self.change(|state| state.initial_complete = Some(state.batches.len()));
    }

    /// Adds a batch, which is shared by all handlers. Folds if too many events wait.
    pub(crate) fn publish(&self, batch: &Arc<Vec<Event<K>>>) {
        let max = self.max;
        self.change(|state| {
            state.batches.push_back(Arc::clone(batch));
            state.queued += batch.len();
            if state.queued > max {
                state.fold();
            }
        });
    }

    /// Accepts nothing more; what is unread is read to the end or dropped. Dropping wins over reading to the end.
    pub(crate) fn close(&self, end: RemovalEnd) {
        let mut state = self.state.lock();
        state.end = state.end.max(Some(end));
        if end == RemovalEnd::Discard {
            state.discard();
        }
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    /// The number of events that have not been delivered: those that wait, and the rest of what the reader has in hand.
    /// Folded ones count once per key.
    pub(crate) fn len(&self) -> usize {
        let state = self.state.lock();
        let initial: usize = state.replays.iter().map(|replay| replay.count).sum();
        initial + state.folded.len() + state.queued + self.handed.load(Ordering::Relaxed)
    }

    /// The reader has delivered so many of the events that it has in hand.
    pub(crate) fn delivered(&self, events: usize) {
        let left = self.handed.load(Ordering::Relaxed).saturating_sub(events);
        self.handed.store(left, Ordering::Relaxed);
    }

    /// The number of times this handler fell behind so far that its backlog was folded.
    pub(crate) fn folds(&self) -> u64 {
        self.state.lock().folds
    }

    /// The events that it has not received. Those it has in hand count, though it may have received some of them.
    pub(crate) fn unread(&self) -> Unread<K> {
        let state = self.state.lock();
        let replaying = !state.replays.is_empty() || matches!(state.in_hand, InHand::Replay);
        let mut batches = Vec::with_capacity(state.batches.len() + 2);
        if let InHand::Events(events) = &state.in_hand {
            batches.push(Arc::clone(events));
        }
        batches.push(Arc::new(state.folded.events()));
        batches.extend(state.batches.iter().cloned());
        Unread { replaying, batches }
    }

    /// The next work; `Ready(None)` when closed and read to the end. One reader only: it keeps one waker.
    pub(crate) fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<HandlerWork<K>>> {
        let mut state = self.state.lock();
        if let Some(work) = state.next() {
            self.handed.store(work.len(), Ordering::Relaxed);
            if self.remembers {
                state.in_hand = work.in_hand();
            }
            return Poll::Ready(Some(work));
        }
        self.handed.store(0, Ordering::Relaxed);
        state.in_hand = InHand::Nothing;
        if state.end.is_some() {
            return Poll::Ready(None);
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl<K> BacklogState<K> {
    /// The next work, in the order of [`HandlerWork`].
    fn next(&mut self) -> Option<HandlerWork<K>> {
        if let Some(replay) = self.replays.pop_front() {
            return Some(HandlerWork::Replay(replay));
        }
        let folded = self.folded_initial && !self.folded.is_empty();
        if self.initial_complete == Some(0) && !self.synced_told && !folded {
            self.synced_told = true;
            return Some(HandlerWork::Synced);
        }
        if !self.folded.is_empty() {
            return Some(HandlerWork::Events(self.folded.take(FOLDED_AT_ONCE).into()));
        }
        let batch = self.batches.pop_front()?;
        self.initial_complete = self.initial_complete.map(|left| left.saturating_sub(1));
        self.queued -= batch.len();
        Some(HandlerWork::Events(batch))
    }

    /// Drops everything unread.
    fn discard(&mut self) {
        self.replays.clear();
        self.batches.clear();
        self.folded = Folded::default();
        self.queued = 0;
        // Not everything was delivered, and it never will be.
        self.synced_told = true;
    }

    /// Reduces the batches to one change per key. What was initial among them is delivered before `Synced` all the
    /// same.
    fn fold(&mut self) {
        self.folds += 1;
        self.folded_initial |= self.initial_complete.is_some_and(|left| left > 0);
        self.initial_complete = self.initial_complete.map(|_| 0);
        for batch in self.batches.drain(..) {
            for event in batch.iter() {
                self.folded.fold(event.clone());
            }
        }
        self.queued = 0;
    }
}

#[cfg(all(test, feature = "shuttle"))]
mod tests {
    use std::future::poll_fn;

    use shuttle::future::block_on;
    use shuttle::thread;

    use super::*;
    use crate::object::{Object, Raw};

    fn update(revision: u64) -> Arc<Vec<Event<Raw>>> {
        let object = |revision: u64| {
            let json = format!(r#"{{"metadata":{{"name":"a","resourceVersion":"{revision}"}}}}"#);
            Object::from_json(json.as_bytes(), crate::object::Keep::default()).unwrap()
        };
        Arc::new(vec![Event::Updated { old: object(revision - 1), new: object(revision) }])
    }

    /// A publisher that never waits, and a reader that may be anywhere: no wake-up is lost, no change is missed.
    #[test]
    fn the_last_state_is_delivered_in_every_interleaving() {
        shuttle::check_random(
            || {
                let backlog = Arc::new(Backlog::<Raw>::new(2, false));
                let publisher = {
                    let backlog = Arc::clone(&backlog);
                    thread::spawn(move || {
                        (1..=6).for_each(|revision| backlog.publish(&update(revision)));
                        backlog.close(RemovalEnd::Drain);
                    })
                };
                let mut told = 0;
                while let Some(work) = block_on(poll_fn(|cx| backlog.poll_next(cx))) {
                    let events = match work {
                        HandlerWork::Events(events) => events.to_vec(),
                        HandlerWork::Replay(_) | HandlerWork::Synced => continue,
                    };
                    for event in events {
                        let Event::Updated { old, new } = event else { panic!("an update") };
                        assert_eq!(old.revision().0, told);
                        told = new.revision().0;
                    }
                }
                assert_eq!(told, 6);
                publisher.join().unwrap();
            },
            1000,
        );
    }
}
