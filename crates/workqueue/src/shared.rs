//! The concurrent shell around the state machine: two locks and the rules for waking.
//!
//! **Two locks.** Producers put keys into the *inbox*, a plain vector under its own lock; the next holder of the *state*
//! lock moves them into the state machine. So a producer does not touch the index and does not contend with consumers,
//! which pay for the inbox once per batch; and the state stays in the consumers' caches. Callers do not notice: every call
//! that reads the state empties the inbox first ([`SharedQueue::state`]); only the hand-out may skip that while the next
//! key could not change by it. Bounded and fair queues and adds of other than normal priority bypass the inbox, because
//! they need a result or a place at once. Lock order: state, then inbox.
//!
//! **Waking.** Consumers that find nothing register a waker under the inbox lock, after seeing the inbox empty under
//! that same lock, so a producer either is seen or sees them. The invariant kept everywhere: *if a key can be handed
//! out, then no consumer sleeps or at least one has been woken and will look*. A consumer that was woken and finds more
//! than one key wakes the next ([`SharedQueue::release`], `waking.rs`); one that was woken and is dropped without
//! looking passes the wake-up on ([`WakeTicket`]'s drop). No notification is sent while all consumers are awake.
//!
//! **Timers.** There is no thread: one of the sleeping consumers (the owner of [`Inbox::timer`]) also waits for the time at
//! which the next delayed key falls due. While no consumer sleeps, each hand-out looks at the clock itself.

use std::task::Waker;

use foldhash::fast::RandomState;

use crate::clock::Clock;
use crate::core::slab::Slot;
use crate::core::{Add, QueueCore, TakenKey};
use crate::inbox::{Inbox, InboxBatch, Timing};
use crate::limiter::RateLimiter;
use crate::pace::Pace;
use crate::reason::Reason;
use crate::sync::{AtomicBool, AtomicUsize, Mutex, MutexGuard, Ordering, lock};
use crate::ticket::WakeTicket;
use crate::waiters::Waiters;
use crate::{AddError, Key};

/// When the inbox is this long, the next consumer empties it even if it has enough to do: a batch should fit the cache.
/// (This bound and the next are small in unit tests, so that their threads meet them.)
const INBOX_SOFT_MAX: usize = if cfg!(test) { 2 } else { 256 };
/// The producer that makes the inbox this long empties it itself: duplicates are recognised only in the state machine, and
/// the consumers may all be at work, or none may be there.
const INBOX_HARD_MAX: usize = if cfg!(test) { 3 } else { 4096 };

/// The part of a queue that producers and consumers share.
///
/// Two locks: one for the state, and one for an inbox that producers fill without waiting for consumers.
pub(crate) struct SharedQueue<K, R> {
    pub(crate) name: String,
    pub(crate) hasher: RandomState,
    pub(crate) clock: Clock,
    /// True if durations are measured.
    pub(crate) metered: bool,
    /// True if every add goes to the state machine at once.
    direct: bool,
    pub(crate) limiter: Mutex<Box<dyn RateLimiter<K>>>,
    pub(crate) inbox: Padded<Mutex<Inbox<K, R>>>,
    state: Padded<Mutex<QueueState<K, R>>>,
    /// The number of consumers that sleep: `inbox.sleepers.len()`, readable without the inbox lock. Grows only under
    /// the state lock, so that a holder of that lock misses no sleeper.
    pub(crate) sleepers: AtomicUsize,
    /// The next hand-out must empty the inbox: it has reached its soft limit, or has delayed keys. Written so rarely that
    /// reading it costs consumers nothing.
    inbox_matters: AtomicBool,
}

/// Keeps the two locks on cache lines of their own; producers and consumers would otherwise slow each other down.
#[repr(align(128))]
pub(crate) struct Padded<T>(pub(crate) T);

/// The part that the state lock protects.
pub(crate) struct QueueState<K, R> {
    pub(crate) core: QueueCore<K, R>,
    /// Waiting for everything to be done.
    pub(crate) idle: Waiters,
    /// Waiting for room in a bounded queue.
    pub(crate) room: Waiters,
    /// Counts plain shutdowns, which end waits for a drain.
    pub(crate) drains_aborted: u64,
    pace: Pace,
    /// True if producers were notified that only some keys are timed.
    sparse: bool,
    /// Swapped with the inbox's vector, so that neither is ever reallocated for long.
    spare: InboxBatch<K, R>,
}

impl<K, R> QueueState<K, R> {
    #[inline]
    pub(crate) fn has_waiters(&self) -> bool {
        !self.idle.is_empty() || !self.room.is_empty()
    }
}

/// The result of a look by a consumer.
pub(crate) enum NextKey<K, R> {
    Taken(TakenKey<K, R>),
    /// Shut down and nothing left.
    Closed,
    /// The ticket is registered; the owner of the timer must look again at that time.
    Wait {
        timer: Option<u64>,
    },
}

impl<K: Key, R: Reason> SharedQueue<K, R> {
    pub(crate) fn new(
        name: String,
        core: QueueCore<K, R>,
        direct: bool,
        limiter: Box<dyn RateLimiter<K>>,
    ) -> Self {
        let metered = !name.is_empty();
        Self {
            metered,
            name,
            hasher: RandomState::default(),
            clock: Clock::new(),
            direct,
            limiter: Mutex::new(limiter),
            inbox: Padded(Mutex::new(Inbox::new(if metered { Timing::Each } else { Timing::None }))),
            state: Padded(Mutex::new(QueueState {
                core,
                idle: Waiters::default(),
                room: Waiters::default(),
                drains_aborted: 0,
                pace: Pace::default(),
                sparse: false,
                spare: InboxBatch::default(),
            })),
            sleepers: AtomicUsize::new(0),
            inbox_matters: AtomicBool::new(false),
        }
    }

    /// Adds a key by way of the inbox if that cannot be noticed.
    #[inline]
    pub(crate) fn add(&self, add: Add<K, R>) -> Result<(), AddError<K>> {
        if self.direct || add.priority != crate::Priority::Normal {
            return self.add_directly(add);
        }
        let mut inbox = lock(&self.inbox.0);
        if inbox.alert {
            return self.add_alert(inbox, add);
        }
        let length = self.push(&mut inbox, add);
        drop(inbox);
        if length >= INBOX_SOFT_MAX {
            self.relieve_inbox(length);
        }
        Ok(())
    }

    /// The rest of [`Self::add`] when more is to be done than to append.
    #[cold]
    fn add_alert(&self, mut inbox: MutexGuard<'_, Inbox<K, R>>, add: Add<K, R>) -> Result<(), AddError<K>> {
        if inbox.closed {
            return Err(AddError::ShutDown(add.key));
        }
        let length = self.push(&mut inbox, add);
        let waker = if inbox.paused { None } else { self.pop_sleeper(&mut inbox) };
        drop(inbox);
        if let Some(waker) = waker {
            waker.wake();
        }
        if length >= INBOX_SOFT_MAX {
            self.relieve_inbox(length);
        }
        Ok(())
    }

    /// Adds to the inbox; now and then with the time, from which latencies are measured.
    #[inline]
    fn push(&self, inbox: &mut Inbox<K, R>, add: Add<K, R>) -> usize {
        let timed = inbox.times_next();
        if timed {
            inbox.adds.push_time(self.clock.now());
        }
        inbox.adds.push(add, timed)
    }

    /// Adds under the lock of the state, where the result must be exact.
    pub(crate) fn add_directly(&self, add: Add<K, R>) -> Result<(), AddError<K>> {
        let mut state = self.state();
        let result = self.add_to(&mut state, add);
        self.release(state);
        result
    }

    /// Adds a key to the state machine at once. End with [`Self::release`].
    pub(crate) fn add_to(&self, state: &mut QueueState<K, R>, mut add: Add<K, R>) -> Result<(), AddError<K>> {
        if self.metered {
            add.at = state.pace.add(|| self.clock.now());
        }
        state.core.add(add)
    }

    /// Adds a delayed key by way of the inbox, unless a parked consumer may have to wake earlier for it.
    pub(crate) fn add_delayed(&self, add: Add<K, R>, due: u64) -> Result<(), AddError<K>> {
        let mut inbox = lock(&self.inbox.0);
        if self.direct || !inbox.sleepers.is_empty() {
            drop(inbox);
            let mut state = self.state();
            let result = state.core.add_after(add, due);
            self.release(state);
            return result;
        }
        if inbox.closed {
            return Err(AddError::ShutDown(add.key));
        }
        let length = inbox.adds.push_delayed(add, due);
        if length == 1 {
            self.inbox_matters.store(true, Ordering::Relaxed);
        }
        drop(inbox);
        if length >= INBOX_HARD_MAX {
            drop(self.state());
        }
        Ok(())
    }

    /// Keeps the inbox from growing while consumers are busy: the producer delivers it itself.
    #[cold]
    fn relieve_inbox(&self, length: usize) {
        if length >= INBOX_HARD_MAX {
            drop(self.state());
        } else if length == INBOX_SOFT_MAX {
            self.inbox_matters.store(true, Ordering::Relaxed);
        }
    }

    /// Locks the state, with every add that came before in it. End with [`Self::release`] after any change.
    pub(crate) fn state(&self) -> MutexGuard<'_, QueueState<K, R>> {
        let mut state = lock(&self.state.0);
        state.pace.begin();
        self.empty_inbox(&mut state);
        state
    }

    /// Delivers what producers have left. Their lock is held for a swap only.
    fn empty_inbox(&self, state: &mut QueueState<K, R>) {
        let QueueState { core, spare, .. } = state;
        // Not empty only if a panic in a key's own code interrupted the last delivery.
        spare.deliver(core);
        let mut inbox = lock(&self.inbox.0);
        std::mem::swap(&mut inbox.adds, spare);
        if self.inbox_matters.load(Ordering::Relaxed) {
            self.inbox_matters.store(false, Ordering::Relaxed);
        }
        drop(inbox);
        spare.deliver(core);
    }

    /// Hands out a key, or registers `ticket` to be woken when there may be one.
    #[inline]
    pub(crate) fn next(&self, ticket: &mut WakeTicket<'_, K, R>, waker: &Waker) -> NextKey<K, R> {
        let mut state = lock(&self.state.0);
        state.pace.begin();
        loop {
            if let Some(taken) = self.take(&mut state) {
                ticket.unregister_waiter(&state);
                self.release(state);
                return NextKey::Taken(taken);
            }
            if state.core.is_closed() && state.core.depth() == 0 {
                self.release(state);
                return NextKey::Closed;
            }
            let mut inbox = lock(&self.inbox.0);
            if inbox.adds.is_empty() {
                // The next key comes after a rest, however quickly the others did.
                state.pace.time_each();
                let timer = self.register_waiter(&mut inbox, ticket, waker, state.core.next_due());
                drop(inbox);
                self.release(state);
                return NextKey::Wait { timer };
            }
            drop(inbox);
            self.empty_inbox(&mut state);
        }
    }

    /// Hands out a key if one is there, after taking one back.
    #[inline]
    pub(crate) fn try_next(&self, done: Option<Slot>) -> Option<TakenKey<K, R>> {
        let mut state = lock(&self.state.0);
        // One visit, and so one look at the clock, for both: the one key ends when the next begins.
        state.pace.begin();
        self.finish(&mut state, done);
        let taken = self.take(&mut state);
        self.release(state);
        taken
    }

    /// The next key, after the inbox and the due delays.
    #[inline]
    fn take(&self, state: &mut QueueState<K, R>) -> Option<TakenKey<K, R>> {
        if self.inbox_matters.load(Ordering::Relaxed) {
            self.empty_inbox(state);
        }
        if state.core.delayed_len() > 0 {
            self.advance(state);
        }
        if !state.core.next_is_settled() {
            self.empty_inbox(state);
        }
        let QueueState { core, pace, .. } = state;
        let taken = core.take(|timed| pace.take(timed, || self.clock.now()));
        if self.metered && pace.is_sparse() != state.sparse {
            self.change_timing(state);
        }
        taken
    }

    /// Sets which keys producers time from now on.
    #[cold]
    fn change_timing(&self, state: &mut QueueState<K, R>) {
        state.sparse = state.pace.is_sparse();
        let timing = if state.sparse { Timing::Some } else { Timing::Each };
        lock(&self.inbox.0).set_timing(timing);
    }

    /// Times every key for a while if timing is enabled, because metrics that were just read will be read again.
    pub(crate) fn time_each(&self, state: &mut QueueState<K, R>) {
        state.pace.time_each();
        if state.sparse {
            self.change_timing(state);
        }
    }

    /// Makes keys ready whose time has come.
    fn advance(&self, state: &mut QueueState<K, R>) {
        // What was due when someone last looked at the clock still is.
        let due = state.core.next_due().is_some_and(|due| due <= state.pace.seen());
        if !due {
            state.pace.now(|| self.clock.now());
        }
        let seen = state.pace.seen();
        if state.core.must_advance(seen) {
            // What was added before a key falls due goes before it.
            self.empty_inbox(state);
            state.core.advance(seen);
        }
    }

    pub(crate) fn done(&self, slot: Slot) {
        let mut state = lock(&self.state.0);
        state.pace.begin();
        self.finish(&mut state, Some(slot));
        self.release(state);
    }

    /// Takes back a key that was handed out, if there is one.
    #[inline]
    fn finish(&self, state: &mut QueueState<K, R>, done: Option<Slot>) {
        let QueueState { core, pace, .. } = state;
        if let Some(slot) = done {
            core.done(slot, |timed| pace.done(timed, || self.clock.now()));
        }
    }

    /// Closes the queue; the delayed keys that go are counted.
    pub(crate) fn close(&self, state: &mut QueueState<K, R>) -> usize {
        // Under the state lock: an add is either in the state machine before it closes, or refused.
        let mut inbox = lock(&self.inbox.0);
        inbox.closed = true;
        inbox.paused = false;
        inbox.update_alert();
        drop(inbox);
        self.empty_inbox(state);
        state.core.close()
    }

    /// Consumers get nothing while paused; producers continue.
    pub(crate) fn set_paused(&self, paused: bool) {
        let mut state = self.state();
        state.core.set_paused(paused);
        let mut inbox = lock(&self.inbox.0);
        inbox.paused = state.core.is_paused();
        inbox.update_alert();
        drop(inbox);
        self.release(state);
    }
}
