//! From events to work: [`enqueue_keys`].

use listwatch_wire::ObjectKey;
use listwatch_workqueue::Queue;

use super::event::Event;
use super::handler::EventHandler;

/// A handler that queues the key of every object that appears, changes or goes: what stands between an informer and
/// the workers of a controller. The queue holds a key once, so workers read the object from the cache and need not
/// know what happened to it.
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
pub fn enqueue_keys<K: 'static>(queue: Queue<ObjectKey>) -> impl EventHandler<K> {
    move |event: &Event<K>| {
        let refused = event.key().and_then(|key| queue.add(key.clone()).err());
        if let Some(error) = refused {
            tracing::debug!(%error, "the work queue takes no more");
        }
    }
}
