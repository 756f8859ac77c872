//! [`enqueue_keys`]: the handler between an informer and a work queue.
//!
//! Keys are queued instead of events: a worker reads the object from the cache when its turn comes, and ten changes of
//! one object are one piece of work (client-go's workqueue pattern, `MetaNamespaceKeyFunc`). Initial objects and
//! resyncs have background priority, so that a restart does not delay live changes; controller-runtime does the same
//! with its priority queue.
//!
//! A full queue makes the handler wait through `poll_ready`, which stops its backlog and no other.
//! [`Controller`](crate::Controller) does this for several kinds.

use std::task::{Context, Poll, ready};

use futures::future::BoxFuture;
use listwatch_wire::ObjectKey;
use listwatch_workqueue::{AddError, Priority, Queue};

use super::event::Event;
use super::handler::EventHandler;

/// A handler that queues the key of every object that is added, updated or deleted, between an informer and the workers
/// of a controller. The queue holds a key once, and workers read the object from the cache, so the kind of event does
/// not matter.
///
/// ```
/// use listwatch::processor::enqueue_keys;
/// use listwatch::workqueue::{Options, Queue};
/// use listwatch::{SharedInformer, lister_watcher::InMemory};
/// use serde_json::{Value, json};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pods = InMemory::new(10);
/// pods.put(&json!({"metadata": {"namespace": "x", "name": "y"}}))?;
/// let informer = SharedInformer::<Value>::new(pods);
/// let queue = Queue::new(Options::new().name("pods"));
/// informer.add_event_handler(enqueue_keys(queue.clone()))?;
/// informer.start()?;
///
/// let item = queue.get().await.ok_or("shut down")?;
/// let pod = informer.store().get(item.key()).ok_or("deleted meanwhile")?;
/// assert_eq!(pod.name(), "y");
/// item.finish();
/// # Ok(())
/// # }
/// ```
///
/// Initial objects and resyncs are added with [`Priority::Background`], live changes with [`Priority::Normal`]. A queue
/// that is full makes the handler wait for room, so no key is lost; in that time its backlog is folded by key.
#[doc(alias = "EnqueueRequestForObject")]
pub fn enqueue_keys<K: 'static>(queue: Queue<ObjectKey>) -> impl EventHandler<K> {
    EnqueueKeys { queue, waiting: None }
}

/// The priority of the work that an event leads to: what was there before, or did not change, is not urgent.
pub(crate) fn priority_of<K>(event: &Event<K>) -> Priority {
    let background = matches!(event, Event::Added { is_initial: true, .. }) || event.is_resync();
    if background { Priority::Background } else { Priority::Normal }
}

struct EnqueueKeys {
    queue: Queue<ObjectKey>,
    /// A key for which there is no room yet.
    waiting: Option<BoxFuture<'static, ()>>,
}

impl EnqueueKeys {
    /// Waits until the bounded queue has room. The handler takes no further event in that time, which is the
    /// back-pressure.
    fn wait_for_room(&mut self, key: ObjectKey, priority: Priority) {
        let queue = self.queue.clone();
        self.waiting = Some(Box::pin(async move {
            if queue.add_wait_with(key, (), priority).await.is_err() {
                tracing::debug!("the work queue was shut down while a key waited for room");
            }
        }));
    }
}

impl<K: 'static> EventHandler<K> for EnqueueKeys {
    fn on_event(&mut self, event: &Event<K>) {
        let Some(key) = event.key() else { return };
        let priority = priority_of(event);
        match self.queue.add_with(key.clone(), (), priority) {
            Ok(()) => {}
            Err(AddError::Full(key)) => self.wait_for_room(key, priority),
            Err(error) => tracing::debug!(%error, "the work queue takes no more"),
        }
    }

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(waiting) = &mut self.waiting {
            ready!(waiting.as_mut().poll(cx));
            self.waiting = None;
        }
        Poll::Ready(())
    }
}
