//! Waiting for a condition: [`until`] over any stream of events, [`wait_for`] over a cache; [`conditions`] has the
//! usual conditions.
//!
//! These are `Until` and `UntilWithSync` of client-go's `tools/watch`, and what `kubectl wait` does. [`wait_for`] looks
//! at the cached object first, so that a condition that already holds does not wait for another event. There is no
//! timeout here: wrap the future in `tokio::time::timeout`.

pub mod conditions;

use futures::{Stream, StreamExt};
use listwatch_wire::ObjectKey;

use crate::informer::{Followed, InformerError, SharedInformer};
use crate::lister_watcher::{SourceError, WatchEvent};
use crate::object::Object;
use crate::processor::Event;

/// A condition on the events of a watch. It is called with each event in order and may keep state.
pub type Condition<'a> = Box<dyn FnMut(&WatchEvent) -> bool + Send + 'a>;

/// The reason for which a condition was not met. A timeout is not among them: wrap the future in
/// `tokio::time::timeout`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UntilError {
    /// The events ended before.
    #[error("the watch ended before the condition was met")]
    Ended,
    /// The watch failed for good.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The informer cannot be listened to.
    #[error(transparent)]
    Informer(#[from] InformerError),
}

/// Reads events until the conditions have been met, one after the other; the event that meets one is also tried on
/// the next. Returns the event that met the last.
///
/// # Errors
/// When the stream ends or fails before.
pub async fn until(
    events: impl Stream<Item = Result<WatchEvent, SourceError>>,
    conditions: Vec<Condition<'_>>,
) -> Result<Option<WatchEvent>, UntilError> {
    let mut events = std::pin::pin!(events);
    let mut last: Option<WatchEvent> = None;
    for mut condition in conditions {
        if last.as_ref().is_some_and(&mut condition) {
            continue;
        }
        loop {
            let event = events.next().await.ok_or(UntilError::Ended)??;
            let met = condition(&event);
            last = Some(event);
            if met {
                break;
            }
        }
    }
    Ok(last)
}

/// Waits until the object under `key`, or its absence, meets a condition, and returns it. Looks at the cache as it is
/// first, then at every later state of that object, also one that did not last. (Of a waiter that is not polled while
/// its object changes more often than [`HandlerOptions::max_backlog`](crate::HandlerOptions::max_backlog), the states in
/// between are folded.) Other objects cost it nothing.
///
/// ```
/// use listwatch::until::wait_for;
/// use listwatch::{SharedInformer, lister_watcher::InMemory};
/// use serde_json::{Value, json};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pods = InMemory::new(10);
/// let informer = SharedInformer::<Value>::new(pods.clone());
/// informer.start()?;
/// pods.put(&json!({"metadata": {"namespace": "x", "name": "y"}, "status": {"phase": "Running"}}))?;
/// let running = |pod: Option<&listwatch::Object<Value>>| {
///     pod.and_then(|pod| pod.text(&["status", "phase"])).as_deref() == Some("Running")
/// };
/// let pod = wait_for(&informer, &"x/y".parse()?, running).await?;
/// assert!(pod.is_some());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`UntilError::Ended`] when the informer stops before.
#[doc(alias = "UntilWithSync")]
pub async fn wait_for<K: Send + Sync + 'static>(
    informer: &SharedInformer<K>,
    key: &ObjectKey,
    mut condition: impl FnMut(Option<&Object<K>>) -> bool,
) -> Result<Option<Object<K>>, UntilError> {
    let Followed { mut now, mut synced, mut changes } = informer.follow(key)?;
    let mut news = true;
    loop {
        // Before the initial state is complete, absence means nothing.
        if news && (now.is_some() || synced) && condition(now.as_ref()) {
            return Ok(now);
        }
        news = match changes.next().await.ok_or(UntilError::Ended)? {
            Event::Added { object, .. } | Event::Updated { new: object, .. } => {
                now = Some(object);
                true
            }
            Event::Deleted(_) => now.take().is_some(),
            Event::Synced => !std::mem::replace(&mut synced, true) && now.is_none(),
        };
    }
}
