//! [`EventStream`]: the events of an informer for code that polls instead of being called.
//!
//! It has the same guarantees as a handler: initial objects, [`Event::Synced`], then changes in order, with the backlog
//! folded by key if it is not polled for long. The initial objects are taken from the snapshot in pages of 256, so a
//! stream over a large cache holds no copy of it. kube-rs calls the equivalent a reflector's `subscribe`.
//!
//! For events without a cache use [`RetryWatcher`](crate::RetryWatcher).

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use futures::Stream;
use listwatch_wire::ObjectKey;

use super::backlog::{HandlerWork, RemovalEnd, Replay};
use super::event::Event;
use super::registry::Listener;
use crate::informer::StopGuard;
use crate::object::Raw;

/// The number of objects of the initial state that are taken from their snapshot at a time.
const REPLAY_AT_ONCE: usize = 256;

/// The events of an informer as a stream: first the initial objects, then [`Event::Synced`], then every change.
///
/// A stream that is not polled costs others nothing; its backlog is folded by key like that of a slow handler.
/// Dropping it removes it. It keeps the informer alive, and ends when the informer is stopped.
///
/// ```
/// use futures::StreamExt;
/// use listwatch::lister_watcher::InMemory;
/// use listwatch::{Event, SharedInformer};
/// use serde_json::{Value, json};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let source = InMemory::new(10);
/// source.put(&json!({"metadata": {"namespace": "default", "name": "web"}}))?;
/// let informer = SharedInformer::<Value>::new(source);
/// let mut events = informer.events()?;
/// informer.start()?;
/// assert!(matches!(events.next().await, Some(Event::Added { .. })));
/// assert!(matches!(events.next().await, Some(Event::Synced)));
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping it removes the handler"]
pub struct EventStream<K = Raw> {
    listener: Arc<Listener<K>>,
    current: Current<K>,
    _informer: Arc<StopGuard<K>>,
}

enum Current<K> {
    None,
    Replay(Replay<K>, Option<ObjectKey>, std::vec::IntoIter<Event<K>>),
    Events(Arc<Vec<Event<K>>>, usize),
}

impl<K> fmt::Debug for EventStream<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStream").field("name", &self.listener.name).finish_non_exhaustive()
    }
}

impl<K> Drop for EventStream<K> {
    fn drop(&mut self) {
        self.listener.close(RemovalEnd::Discard);
        self.listener.set_finished();
    }
}

impl<K> EventStream<K> {
    pub(crate) fn new(listener: Arc<Listener<K>>, informer: Arc<StopGuard<K>>) -> Self {
        Self { listener, current: Current::None, _informer: informer }
    }

    /// The next event of the work at hand.
    fn next_at_hand(&mut self) -> Option<Event<K>> {
        let event = match &mut self.current {
            Current::None => None,
            Current::Events(events, read) => {
                let event = events.get(*read).cloned();
                *read += 1;
                event
            }
            Current::Replay(replay, last, events) => events.next().or_else(|| {
                *events = next_page(replay, last);
                events.next()
            }),
        };
        if event.is_none() {
            self.current = Current::None;
        }
        event
    }
}

/// Reads the next objects of the initial state from its snapshot. A page at a time, so that a slow reader of a large
/// cache holds few events.
fn next_page<K>(replay: &Replay<K>, last: &mut Option<ObjectKey>) -> std::vec::IntoIter<Event<K>> {
    let page = match (&replay.namespace, last.as_ref()) {
        (Some(namespace), None) => {
            let start = ObjectKey::namespaced(namespace, "");
            replay.snapshot.page(Some(&start), REPLAY_AT_ONCE)
        }
        (_, after) => replay.snapshot.page(after, REPLAY_AT_ONCE),
    };
    let inside = |key: &ObjectKey| replay.namespace.as_ref().is_none_or(|ns| key.namespace() == &**ns);
    let events: Vec<_> = page
        .into_iter()
        .take_while(|object| inside(object.key()))
        .map(|object| Event::Added { object, is_initial: true })
        .collect();
    *last = events.last().and_then(Event::key).cloned().or(last.take());
    events.into_iter()
}

impl<K> Stream for EventStream<K> {
    type Item = Event<K>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event<K>>> {
        loop {
            if let Some(event) = self.next_at_hand() {
                self.listener.counters.delivered.fetch_add(1, Ordering::Relaxed);
                self.listener.backlog.delivered(1);
                self.listener.saw(&event);
                return Poll::Ready(Some(event));
            }
            self.current = match std::task::ready!(self.listener.backlog.poll_next(cx)) {
                None => {
                    self.listener.set_finished();
                    return Poll::Ready(None);
                }
                Some(HandlerWork::Synced) => {
                    self.listener.set_synced();
                    return Poll::Ready(Some(Event::Synced));
                }
                Some(HandlerWork::Replay(replay)) => Current::Replay(replay, None, Vec::new().into_iter()),
                Some(HandlerWork::Events(events)) => Current::Events(events, 0),
            };
        }
    }
}
