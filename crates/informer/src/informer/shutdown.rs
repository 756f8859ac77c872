//! Ending an informer: [`stop`](SharedInformer::stop) without, [`drain`](SharedInformer::drain) with delivery of queued
//! events.
//!
//! Both stop receiving first. They differ in the events that handlers have not received: stopping drops them, draining
//! delivers them. If both are called, stopping wins. A handler may call either; the call does not wait for that
//! handler, because it could never return.

use std::sync::Arc;
use std::time::Duration;

use super::SharedInformer;
use crate::processor::backlog::RemovalEnd;
use crate::processor::current;
use crate::processor::registry::Listener;

/// The time that [`SharedInformer::stop`] waits beyond a handler's grace for it to report its end.
const STOP_SLACK: Duration = Duration::from_millis(100);

impl<K: Send + Sync + 'static> SharedInformer<K> {
    /// Stops the informer at once, also while it drains: the watch is closed and unread events are dropped. Waits for
    /// the calls in progress, each for at most its [`stop_grace`](crate::HandlerOptions::stop_grace). The store stays
    /// readable.
    ///
    /// A handler may call it; then it does not wait for that handler.
    pub async fn stop(&self) {
        self.end(RemovalEnd::Discard);
        self.ended().await;
        let waits = self.handlers().into_iter().map(|listener| async move {
            // The runner drops an asynchronous call after the grace; the slack lets it report that.
            let patience = listener.options.stop_grace + STOP_SLACK;
            if tokio::time::timeout(patience, listener.wait_finished()).await.is_err() {
                tracing::warn!(handler = %listener.name, "event handler is still running, it is not waited for");
            }
        });
        futures::future::join_all(waits).await;
    }

    /// Stops the informer after its handlers have received all events: no more events are received from the server, and
    /// it waits until every queued event is delivered, however long that takes. [`stop`](Self::stop) aborts the wait.
    pub async fn drain(&self) {
        self.end(RemovalEnd::Drain);
        self.stopped().await;
        // Handlers have received more since the informer's own last save.
        if let Some(saving) = self.core.save() {
            let _ = saving.await;
        }
    }

    /// Waits until it has ended, handlers included, without stopping it. Streams end when they are polled to their end.
    pub async fn stopped(&self) {
        self.ended().await;
        for listener in self.handlers() {
            listener.wait_finished().await;
        }
    }

    /// Asks for an end. A stricter request overrides a milder one, never the other way round.
    fn end(&self, how: RemovalEnd) {
        {
            let mut ending = self.core.ending.lock();
            *ending = (*ending).max(Some(how));
        }
        self.core.stop.cancel();
        self.core.end_unstarted(how);
        if how == RemovalEnd::Discard {
            self.core.discard();
        }
    }

    /// Waits until nothing is received or applied any more.
    async fn ended(&self) {
        let mut stopped = self.core.stopped.subscribe();
        let _ = stopped.wait_for(|stopped| *stopped).await;
    }

    /// The handlers to wait for: all that are called, except the one that this is called from.
    fn handlers(&self) -> Vec<Arc<Listener<K>>> {
        let processor = self.core.processor.lock();
        let waits = |listener: &&Arc<Listener<K>>| !listener.polled && !current::is(listener);
        processor.listeners().filter(waits).cloned().collect()
    }
}
