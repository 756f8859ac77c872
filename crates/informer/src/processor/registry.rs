//! [`Processor`]: the handlers of an informer. [`Registration`]: a user's handle on one of them.
//!
//! client-go calls them `sharedProcessor` and `processorListener`. The difference is that a listener holds a position
//! in shared batches and not a channel: publishing costs one reference count per handler, for any number of
//! events, and never waits.
//!
//! The lock of the processor orders changes of the store and joins of handlers (see `informer::applier`). Backlogs and
//! folding are `backlog` and `coalesce`; calling handlers is `runner`.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use listwatch_wire::{ObjectKey, Revision};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::backlog::{Backlog, RemovalEnd, Replay};
use super::current;
use super::event::Event;
use super::handler::HandlerOptions;
use super::resync::Resync;
use crate::informer::StopGuard;
use crate::object::{Object, Raw};
use crate::store::{Snapshot, Store};

/// The informer's side of one handler: its backlog, options and counters.
#[doc(alias = "processorListener")]
pub(crate) struct Listener<K> {
    pub(crate) name: String,
    pub(crate) options: HandlerOptions,
    pub(crate) backlog: Backlog<K>,
    pub(crate) counters: HandlerCounters,
    /// Read by a stream, which may never be polled again, so that no one can wait for it to finish.
    pub(crate) polled: bool,
    /// The whole initial state has been delivered.
    synced: watch::Sender<bool>,
    /// The last call has returned; there will be no other.
    finished: watch::Sender<bool>,
    /// The only object it receives events of; none for all.
    only: Option<ObjectKey>,
    /// Wakes a handler that waits when it is removed without draining.
    discarded: CancellationToken,
}

/// Written by the handler's own task, read for the status.
#[derive(Default)]
pub(crate) struct HandlerCounters {
    pub(crate) delivered: AtomicU64,
    pub(crate) panics: AtomicU64,
    pub(crate) busy_nanos: AtomicU64,
    pub(crate) revision: AtomicU64,
    pub(crate) discard: AtomicBool,
}

impl<K> Listener<K> {
    /// A listener that has received nothing yet.
    fn new(name: String, options: HandlerOptions, polled: bool, only: Option<ObjectKey>) -> Self {
        let backlog = Backlog::new(options.max_backlog, options.since_last_run);
        let (synced, finished) = (watch::Sender::new(false), watch::Sender::new(false));
        let discarded = CancellationToken::new();
        Self {
            name,
            options,
            backlog,
            counters: HandlerCounters::default(),
            polled,
            synced,
            finished,
            only,
            discarded,
        }
    }

    /// The name of its mark in a saved cache; none unless [`HandlerOptions::since_last_run`] is set.
    pub(crate) fn mark_name(&self) -> Option<&str> {
        self.options.name.as_deref().filter(|_| self.options.since_last_run && self.only.is_none())
    }

    /// Listeners about one object get a batch of their own, without what is about others.
    fn publish(&self, batch: &Arc<Vec<Event<K>>>) {
        let Some(only) = &self.only else { return self.backlog.publish(batch) };
        let events: Vec<_> = batch.iter().filter(|event| event.key() == Some(only)).cloned().collect();
        if !events.is_empty() {
            self.backlog.publish(&events.into());
        }
    }

    /// Delivers what was there before.
    pub(crate) fn replay(&self, replay: Replay<K>) {
        let Some(only) = &self.only else { return self.backlog.replay(replay) };
        let inside = replay.namespace.as_deref().is_none_or(|namespace| namespace == only.namespace());
        if let Some(object) = replay.snapshot.get(only).filter(|_| inside) {
            let event = Event::Added { object: object.clone(), is_initial: true };
            self.backlog.publish(&vec![event].into());
        }
    }

    /// Ends the listener: at once, or after what is in its backlog.
    pub(crate) fn close(&self, end: RemovalEnd) {
        if end == RemovalEnd::Discard {
            self.counters.discard.store(true, Ordering::Release);
            self.discarded.cancel();
        }
        self.backlog.close(end);
    }

    /// The handler has returned from everything initial.
    pub(crate) fn set_synced(&self) {
        self.synced.send_replace(true);
    }

    /// The handler will not be called again.
    pub(crate) fn set_finished(&self) {
        self.finished.send_replace(true);
    }

    /// Removed without draining: nothing more is delivered.
    pub(crate) fn is_discarded(&self) -> bool {
        self.counters.discard.load(Ordering::Acquire)
    }

    /// Waits for [`is_discarded`](Self::is_discarded).
    pub(crate) async fn discarded(&self) {
        self.discarded.cancelled().await;
    }

    pub(crate) fn is_finished(&self) -> bool {
        *self.finished.borrow()
    }

    /// Notes the position of the handler, which its lag is measured from.
    pub(crate) fn saw(&self, event: &Event<K>) {
        if let Some(revision) = event.revision() {
            self.counters.revision.store(revision.0, Ordering::Relaxed);
        }
    }

    /// Waits for the last call to return.
    pub(crate) async fn wait_finished(&self) {
        // `self` owns the sender, so the channel cannot close while this waits.
        let _ = self.finished.subscribe().wait_for(|finished| *finished).await;
    }

    /// A reading of the counters; they are not read at one instant.
    fn status(&self) -> HandlerStatus {
        let c = &self.counters;
        HandlerStatus {
            name: self.name.clone(),
            synced: *self.synced.borrow(),
            backlog: self.backlog.len(),
            folds: self.backlog.folds(),
            delivered: c.delivered.load(Ordering::Relaxed),
            panics: c.panics.load(Ordering::Relaxed),
            busy: Duration::from_nanos(c.busy_nanos.load(Ordering::Relaxed)),
            revision: Revision(c.revision.load(Ordering::Relaxed)),
        }
    }
}

/// The status of a handler: for dashboards, tests and the debug page.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HandlerStatus {
    /// Its name.
    pub name: String,
    /// True if it has received the whole initial state.
    pub synced: bool,
    /// Events it has yet to read.
    pub backlog: usize,
    /// The number of times it fell behind so far that its backlog was folded by key.
    pub folds: u64,
    /// Events that were delivered to it.
    pub delivered: u64,
    /// Calls that panicked.
    pub panics: u64,
    /// Time spent inside it.
    pub busy: Duration,
    /// The resource version of the last event it received.
    pub revision: Revision,
}

/// A handler that was added to an informer. It keeps the informer alive; dropping it does not remove the handler.
///
/// ```
/// use listwatch::{Event, SharedInformer, lister_watcher::InMemory};
/// use serde_json::{Value, json};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pods = InMemory::new(10);
/// pods.put(&json!({"metadata": {"name": "a"}}))?;
/// let informer = SharedInformer::<Value>::new(pods);
/// let handler = informer.add_event_handler(|_: &Event<Value>| {})?;
/// informer.start()?;
/// assert!(handler.wait_synced().await);
/// assert_eq!((handler.status().backlog, handler.status().panics), (0, 0));
///
/// // It received the events so far, and gets no others.
/// handler.drain();
/// handler.finished().await;
/// # Ok(())
/// # }
/// ```
#[doc(alias = "ResourceEventHandlerRegistration")]
pub struct Registration<K = Raw> {
    listener: Arc<Listener<K>>,
    informer: Arc<StopGuard<K>>,
}

impl<K> Clone for Registration<K> {
    fn clone(&self) -> Self {
        Self { listener: Arc::clone(&self.listener), informer: Arc::clone(&self.informer) }
    }
}

impl<K> fmt::Debug for Registration<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.status().fmt(f)
    }
}

impl<K> Registration<K> {
    pub(crate) fn new(listener: Arc<Listener<K>>, informer: Arc<StopGuard<K>>) -> Self {
        Self { listener, informer }
    }

    /// Returns the figures of this handler: backlog, events delivered, panics, time spent inside it.
    #[must_use]
    pub fn status(&self) -> HandlerStatus {
        self.listener.status()
    }

    /// True if it has received the whole initial state, the last call included. client-go calls it `HasSynced`.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        *self.listener.synced.borrow()
    }

    /// Waits for [`has_synced`](Self::has_synced). Returns false if the handler ended before.
    pub async fn wait_synced(&self) -> bool {
        let mut synced = self.listener.synced.subscribe();
        tokio::select! {
            biased;
            _ = synced.wait_for(|synced| *synced) => true,
            () = self.listener.wait_finished() => self.has_synced(),
        }
    }

    /// Removes the handler now: the call in progress ends, unread events are dropped. May be called from the handler
    /// itself, and twice.
    #[doc(alias = "RemoveEventHandler")]
    pub fn remove(&self) {
        self.listener.close(RemovalEnd::Discard);
    }

    /// Removes the handler once it has received what has happened so far.
    pub fn drain(&self) {
        self.listener.close(RemovalEnd::Drain);
    }

    /// Waits until the last call has returned. Within the handler itself it returns at once.
    pub async fn finished(&self) {
        if !current::is(&self.listener) {
            self.listener.wait_finished().await;
        }
    }
}

/// All handlers of an informer. The informer loop keeps it locked from changing the store to publishing the change,
/// which makes "snapshot, then every later change" exact for a handler that joins.
#[doc(alias = "sharedProcessor")]
pub(crate) struct Processor<K> {
    members: Vec<RegistryMember<K>>,
    pub(crate) next_id: u64,
    pub(crate) closed: bool,
}

impl<K> Default for Processor<K> {
    fn default() -> Self {
        Self { members: Vec::new(), next_id: 1, closed: false }
    }
}

/// A listener and its resync, if it has a resync period.
struct RegistryMember<K> {
    listener: Arc<Listener<K>>,
    resync: Option<Resync>,
}

impl<K> Processor<K> {
    /// Adds a listener of all objects.
    pub(crate) fn join(&mut self, options: HandlerOptions, polled: bool) -> Arc<Listener<K>> {
        self.join_about(None, options, polled)
    }

    /// Adds a listener that receives events of one object only.
    pub(crate) fn join_about(
        &mut self,
        only: Option<ObjectKey>,
        options: HandlerOptions,
        polled: bool,
    ) -> Arc<Listener<K>> {
        let name = options.name.clone().unwrap_or_else(|| format!("handler-{}", self.next_id));
        self.next_id += 1;
        self.members.retain(|member| !member.listener.is_finished());
        let listener = Arc::new(Listener::new(name, options, polled, only));
        self.members.push(RegistryMember { listener: Arc::clone(&listener), resync: None });
        listener
    }

    /// In the order in which they were added.
    pub(crate) fn listeners(&self) -> impl Iterator<Item = &Arc<Listener<K>>> {
        self.members.iter().map(|member| &member.listener)
    }

    /// Shares one batch among all listeners without waiting for any.
    pub(crate) fn publish(&self, events: Vec<Event<K>>) {
        if events.is_empty() || self.members.is_empty() {
            return;
        }
        let batch = Arc::new(events);
        for listener in self.listeners() {
            listener.publish(&batch);
        }
    }

    /// Ends all listeners; those that come later end at once.
    pub(crate) fn close(&mut self, end: RemovalEnd) {
        self.closed = true;
        for listener in self.listeners() {
            listener.close(end);
        }
    }

    pub(crate) fn has_handlers(&self) -> bool {
        self.listeners().any(|listener| !listener.is_finished())
    }

    /// For listeners of all objects. Those about one are short-lived and would crowd the list.
    pub(crate) fn statuses(&self) -> Vec<HandlerStatus> {
        let shown = |listener: &&Arc<Listener<K>>| !listener.is_finished() && listener.only.is_none();
        self.listeners().filter(shown).map(|listener| listener.status()).collect()
    }

    /// Delivers the objects that are due to every handler with a resync period, and returns the time at which the next
    /// are due. Reads the store as it is now, under the same lock as every change, so that nothing old is delivered
    /// after something new.
    pub(crate) fn resync(&mut self, store: &Store<K>, now: Duration) -> Option<Duration> {
        self.members.retain(|member| !member.listener.is_finished());
        let mut next: Option<Duration> = None;
        for RegistryMember { listener, resync } in &mut self.members {
            let Some(period) = listener.options.resync else { continue };
            let resync = resync.get_or_insert_with(|| Resync::new(period));
            let events = resync.step(&store.snapshot(), now);
            if !events.is_empty() {
                listener.backlog.publish(&events.into());
            }
            let due = resync.due(now);
            next = Some(next.map_or(due, |next| next.min(due)));
        }
        next
    }

    /// Delivers every object again to every handler with a resync period, now.
    pub(crate) fn resync_all(&self, snapshot: &Snapshot<K>) {
        let again = |object: &Object<K>| Event::Updated { old: object.clone(), new: object.clone() };
        let events = Arc::new(snapshot.iter().map(again).collect());
        let wanting = self.listeners().filter(|listener| listener.options.resync.is_some());
        wanting.for_each(|listener| listener.backlog.publish(&events));
    }
}
