//! The traits that users implement: [`EventHandler`], [`AsyncEventHandler`], and how a handler is run ([`HandlerOptions`]).
//!
//! A closure over `&Event<K>` is a handler. [`HandlerFuncs`] is client-go's `ResourceEventHandlerFuncs`;
//! [`FilteringHandler`] limits a handler to some of the objects.

use std::fmt;
use std::future::Future;
use std::task::{Context, Poll};
use std::time::Duration;

use super::event::{Deleted, Event};
use crate::object::Object;

/// Receives every change of the cache, in order, one at a time: client-go's `ResourceEventHandler`.
///
/// It runs in its own task: a slow or panicking handler delays no other. If it blocks its thread for long (synchronous
/// IO, heavy computing), register it with [`RunOn::Thread`].
///
/// A closure is a handler, which suffices for most. A type can keep state between events:
///
/// ```
/// use std::sync::mpsc;
///
/// use listwatch::lister_watcher::InMemory;
/// use listwatch::{Event, EventHandler, SharedInformer};
/// use serde_json::{Value, json};
///
/// /// Counts the objects, and sends the number once the initial state is complete.
/// struct Count(usize, mpsc::Sender<usize>);
///
/// impl EventHandler<Value> for Count {
///     fn on_event(&mut self, event: &Event<Value>) {
///         match event {
///             Event::Added { .. } => self.0 += 1,
///             Event::Deleted(_) => self.0 -= 1,
///             Event::Synced => drop(self.1.send(self.0)),
///             _ => {}
///         }
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let nodes = InMemory::new(100);
/// nodes.put(&json!({"metadata": {"name": "node-1"}}))?;
/// let informer = SharedInformer::<Value>::new(nodes);
/// let (count, counted) = mpsc::channel();
/// let handler = informer.add_event_handler(Count(0, count))?;
/// informer.start()?;
/// handler.wait_synced().await;
/// assert_eq!(counted.try_recv()?, 1);
/// # Ok(())
/// # }
/// ```
#[doc(alias = "ResourceEventHandler")]
pub trait EventHandler<K>: Send + 'static {
    /// Called for each event. A panic is caught and counted; the next event follows after
    /// [`HandlerOptions::panic_pause`].
    fn on_event(&mut self, event: &Event<K>);

    /// Called before each event: a handler in front of a bounded queue returns `Pending` while there is no room, and is
    /// called again when the waker of `cx` is woken. Until then its events wait in its backlog.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let _ = cx;
        Poll::Ready(())
    }
}

impl<K, F: FnMut(&Event<K>) + Send + 'static> EventHandler<K> for F {
    fn on_event(&mut self, event: &Event<K>) {
        self(event);
    }
}

/// An [`EventHandler`] that awaits. The next event is not delivered before the future is done.
///
/// A closure that returns a future is one. Its time is the handler's own: other handlers and the cache do not wait for it.
///
/// ```
/// use std::time::Duration;
///
/// use listwatch::lister_watcher::InMemory;
/// use listwatch::{Event, HandlerOptions, SharedInformer};
/// use serde_json::{Value, json};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let nodes = InMemory::new(100);
/// nodes.put(&json!({"metadata": {"name": "node-1"}}))?;
/// let informer = SharedInformer::<Value>::new(nodes);
/// let handler = informer.add_async_event_handler(
///     |event: Event<Value>| async move {
///         tokio::time::sleep(Duration::from_millis(1)).await; // a request to another service
///         println!("reported {event}");
///     },
///     HandlerOptions::named("reporter"),
/// )?;
/// informer.start()?;
/// assert!(handler.wait_synced().await);
/// # Ok(())
/// # }
/// ```
pub trait AsyncEventHandler<K>: Send + 'static {
    /// Called for each event.
    fn on_event(&mut self, event: Event<K>) -> impl Future<Output = ()> + Send;
}

impl<K, F, Fut> AsyncEventHandler<K> for F
where
    K: 'static,
    F: FnMut(Event<K>) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send,
{
    fn on_event(&mut self, event: Event<K>) -> impl Future<Output = ()> + Send {
        self(event)
    }
}

/// The place where a synchronous handler runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunOn {
    /// In a task of the runtime: right for handlers that only look and enqueue.
    #[default]
    Task,
    /// On a separate thread, for handlers that block.
    Thread,
}

/// Options of a handler.
///
/// ```
/// use std::time::Duration;
/// use listwatch::HandlerOptions;
/// use listwatch::processor::RunOn;
///
/// // May block for long, receives every object again each hour, and may lag by a burst of ten thousand events.
/// let options = HandlerOptions::named("exporter")
///     .run_on(RunOn::Thread)
///     .resync(Duration::from_secs(3600))
///     .max_backlog(10_000);
/// assert_eq!(options.name.as_deref(), Some("exporter"));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HandlerOptions {
    /// For metrics, logs and the debug page. Default: `handler-N`.
    pub name: Option<String>,
    /// The most events that may wait unread before they are folded by key. Default 4096: a burst of that size is
    /// delivered event by event, and costs a few dozen bytes per event.
    pub max_backlog: usize,
    /// Deliver every object again once per this time, evenly spread over it. Default `None`: the period of the
    /// informer. Zero: never, for any period of the informer.
    pub resync: Option<Duration>,
    /// The time to wait after a panic, so that one that panics always does not spin. Default 1 s.
    pub panic_pause: Duration,
    /// The place to run it, if it is synchronous.
    pub run_on: RunOn,
    /// The time that a call may take after the handler was removed or the informer stopped. Then an asynchronous call
    /// is dropped at its next await, and a synchronous one is no longer waited for. Default 5 s: long enough to finish
    /// a request, and a sixth of a Pod's default grace period.
    pub stop_grace: Duration,
    /// Deliver only changes since the last run, if the informer has a [warm cache](crate::warm) with the position of a
    /// handler of this name. Default false. An object that was created or changed is delivered as added or updated, one
    /// that no longer exists as deleted; events that it may have received before the program ended are delivered again.
    /// The handler must have a name and be added before the informer starts, or it receives everything, like any other.
    /// If the program was killed, one deletion may be missed: that of an object which the handler received only after
    /// the last save, if the server's history no longer covers the time.
    pub since_last_run: bool,
}

impl Default for HandlerOptions {
    fn default() -> Self {
        Self {
            name: None,
            max_backlog: 4096,
            resync: None,
            panic_pause: Duration::from_secs(1),
            run_on: RunOn::Task,
            stop_grace: Duration::from_secs(5),
            since_last_run: false,
        }
    }
}

impl HandlerOptions {
    /// Default options under this name.
    #[must_use]
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..Self::default() }
    }

    /// Sets [`max_backlog`](Self::max_backlog).
    #[must_use]
    pub fn max_backlog(mut self, events: usize) -> Self {
        self.max_backlog = events;
        self
    }

    /// Sets [`resync`](Self::resync).
    #[must_use]
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }

    /// Turns resync off for this handler, for any period of the informer.
    #[must_use]
    pub fn without_resync(self) -> Self {
        self.resync(Duration::ZERO)
    }

    /// Sets [`panic_pause`](Self::panic_pause).
    #[must_use]
    pub fn panic_pause(mut self, pause: Duration) -> Self {
        self.panic_pause = pause;
        self
    }

    /// Sets [`stop_grace`](Self::stop_grace).
    #[must_use]
    pub fn stop_grace(mut self, grace: Duration) -> Self {
        self.stop_grace = grace;
        self
    }

    /// Sets [`since_last_run`](Self::since_last_run).
    #[must_use]
    pub fn since_last_run(mut self) -> Self {
        self.since_last_run = true;
        self
    }

    /// Sets [`run_on`](Self::run_on).
    #[must_use]
    pub fn run_on(mut self, run_on: RunOn) -> Self {
        self.run_on = run_on;
        self
    }
}

type OnAdd<K> = Box<dyn FnMut(&Object<K>, bool) + Send>;
type OnUpdate<K> = Box<dyn FnMut(&Object<K>, &Object<K>) + Send>;
type OnDelete<K> = Box<dyn FnMut(&Deleted<K>) + Send>;

/// A handler made of optional functions, client-go's `ResourceEventHandlerFuncs`.
///
/// ```
/// use listwatch::processor::HandlerFuncs;
/// use serde_json::Value;
///
/// let handler = HandlerFuncs::<Value>::new()
///     .on_add(|object, is_initial| println!("{} is there (initially: {is_initial})", object.key()))
///     .on_delete(|deleted| println!("{} is gone", deleted.object.key()));
/// ```
#[doc(alias = "ResourceEventHandlerFuncs")]
pub struct HandlerFuncs<K> {
    add: Option<OnAdd<K>>,
    update: Option<OnUpdate<K>>,
    delete: Option<OnDelete<K>>,
}

impl<K> Default for HandlerFuncs<K> {
    fn default() -> Self {
        Self { add: None, update: None, delete: None }
    }
}

impl<K> fmt::Debug for HandlerFuncs<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerFuncs").finish_non_exhaustive()
    }
}

impl<K> HandlerFuncs<K> {
    /// A handler that does nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Called with the object and whether it is part of the initial state.
    #[must_use]
    pub fn on_add(mut self, f: impl FnMut(&Object<K>, bool) + Send + 'static) -> Self {
        self.add = Some(Box::new(f));
        self
    }

    /// Called with the old and the new state.
    #[must_use]
    pub fn on_update(mut self, f: impl FnMut(&Object<K>, &Object<K>) + Send + 'static) -> Self {
        self.update = Some(Box::new(f));
        self
    }

    /// Called with the last known state, and whether it is really the last ([`Deleted::final_state_unknown`]).
    #[must_use]
    pub fn on_delete(mut self, f: impl FnMut(&Deleted<K>) + Send + 'static) -> Self {
        self.delete = Some(Box::new(f));
        self
    }
}

impl<K: 'static> EventHandler<K> for HandlerFuncs<K> {
    fn on_event(&mut self, event: &Event<K>) {
        match event {
            Event::Added { object, is_initial } => {
                if let Some(add) = &mut self.add {
                    add(object, *is_initial);
                }
            }
            Event::Updated { old, new } => {
                if let Some(update) = &mut self.update {
                    update(old, new);
                }
            }
            Event::Deleted(deleted) => {
                if let Some(delete) = &mut self.delete {
                    delete(deleted);
                }
            }
            Event::Synced => {}
        }
    }
}

/// Shows a handler only the objects that pass a filter: one that begins to pass is delivered as added, one that ceases
/// to pass as deleted. Where the server can select, a selector of the source is cheaper: then the other objects are not
/// even sent.
///
/// ```
/// use listwatch::processor::FilteringHandler;
/// use listwatch::{Event, Object, SharedInformer, lister_watcher::InMemory};
/// use serde_json::Value;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let informer = SharedInformer::<Value>::new(InMemory::new(10));
/// let ready = |pod: &Object<Value>| pod.text(&["status", "phase"]).as_deref() == Some("Running");
/// informer.add_event_handler(FilteringHandler::new(ready, |event: &Event<Value>| println!("{event}")))?;
/// # Ok(())
/// # }
/// ```
#[doc(alias = "FilteringResourceEventHandler")]
pub struct FilteringHandler<F, H> {
    filter: F,
    handler: H,
}

impl<F, H> FilteringHandler<F, H> {
    /// Puts `filter` before `handler`.
    pub fn new(filter: F, handler: H) -> Self {
        Self { filter, handler }
    }
}

impl<F, H: fmt::Debug> fmt::Debug for FilteringHandler<F, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilteringHandler").field("handler", &self.handler).finish_non_exhaustive()
    }
}

impl<K, F, H> EventHandler<K> for FilteringHandler<F, H>
where
    K: 'static,
    F: FnMut(&Object<K>) -> bool + Send + 'static,
    H: EventHandler<K>,
{
    fn on_event(&mut self, event: &Event<K>) {
        match event {
            Event::Updated { old, new } => match ((self.filter)(old), (self.filter)(new)) {
                (true, true) => self.handler.on_event(event),
                (false, true) => {
                    self.handler.on_event(&Event::Added { object: new.clone(), is_initial: false });
                }
                (true, false) => {
                    let gone = Deleted { object: old.clone(), final_state_unknown: false };
                    self.handler.on_event(&Event::Deleted(gone));
                }
                (false, false) => {}
            },
            Event::Added { object, .. } | Event::Deleted(Deleted { object, .. }) => {
                if (self.filter)(object) {
                    self.handler.on_event(event);
                }
            }
            Event::Synced => self.handler.on_event(event),
        }
    }

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.handler.poll_ready(cx)
    }
}
