//! [`SharedStream`]: one connection for the watches of many sources, where the server offers it (`docs/many-kinds.md`).
//!
//! To its source a subscription is a watch like any other: the same lines in the same form, which the same code
//! decodes. So nothing above a [`KubeSource`](super::KubeSource) depends on the kind of watch. If a subscription fails
//! to start, its source opens an ordinary watch instead; a later failure is handled as a broken watch.
//!
//! A task ([`connection`]) runs the connection until the last subscription ends.

mod connect;
mod connection;
mod frames;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use listwatch_wire::Revision;
use listwatch_wire::stream::Subscription;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::lister_watcher::SourceError;
use crate::sync::Mutex;
use connection::ConnectionTask;

/// The time after which a server without streams is tried again: it may have been upgraded.
const ASK_AGAIN: Duration = Duration::from_secs(600);

/// One connection for many watches. Handles share it.
#[derive(Clone)]
pub(crate) struct SharedStream(Arc<StreamHandle>);

struct StreamHandle {
    client: kube::Client,
    state: Mutex<HandleState>,
}

#[derive(Default)]
struct HandleState {
    /// To the task of the connection.
    requests: Option<mpsc::UnboundedSender<ConnectionRequest>>,
    not_offered_until: Option<Instant>,
}

/// A request of a source to the connection. Each has one at a time, so that there are no more than twice as many as sources.
enum ConnectionRequest {
    Subscribe(Box<NewSubscription>),
    Unsubscribe(String),
    Bookmark(Revision),
}

/// A watch that is to begin, with the two ends of its channel: the connection may have to pass it on to the next one.
struct NewSubscription {
    asked: Subscription,
    begun: oneshot::Sender<SubscriptionOutcome>,
    /// To the source.
    lines: mpsc::Sender<Result<Bytes, SourceError>>,
    /// From the source.
    reader: mpsc::Receiver<Result<Bytes, SourceError>>,
}

/// The beginning of a subscription, or the reason why there is none.
enum SubscriptionOutcome {
    Begun(Box<SubscriptionReader>),
    /// An ordinary watch is to be opened instead.
    Ordinary,
    /// The server refuses the watch, and would refuse it in any form.
    Refused(SourceError),
}

/// A subscription as its source reads it. Dropping it ends the subscription.
pub(super) struct SubscriptionReader {
    id: String,
    lines: mpsc::Receiver<Result<Bytes, SourceError>>,
    requests: mpsc::UnboundedSender<ConnectionRequest>,
    /// The form of its events.
    pub(super) content_type: String,
}

impl SubscriptionReader {
    /// The next lines of the watch; none at its end.
    pub(super) async fn next(&mut self) -> Option<Result<Bytes, SourceError>> {
        self.lines.recv().await
    }
}

impl Drop for SubscriptionReader {
    fn drop(&mut self) {
        // If the task has ended, the subscription has, too.
        let _ = self.requests.send(ConnectionRequest::Unsubscribe(std::mem::take(&mut self.id)));
    }
}

impl fmt::Debug for SharedStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedStream")
    }
}

impl SharedStream {
    pub(crate) fn new(client: kube::Client) -> Self {
        Self(Arc::new(StreamHandle { client, state: Mutex::new(HandleState::default()) }))
    }

    /// Begins a subscription; its identifier is given here. None if an ordinary watch is to be opened instead.
    pub(super) async fn subscribe(
        &self,
        asked: Subscription,
    ) -> Result<Option<SubscriptionReader>, SourceError> {
        // The task may end at the same moment; then a new one is started.
        for _ in 0..2 {
            let Some(requests) = self.requests() else { return Ok(None) };
            let (begun, outcome) = oneshot::channel();
            let (lines, reader) = mpsc::channel(connection::WAITING_BATCHES);
            let new = NewSubscription { asked: asked.clone(), begun, lines, reader };
            if requests.send(ConnectionRequest::Subscribe(Box::new(new))).is_err() {
                continue;
            }
            match outcome.await {
                Ok(SubscriptionOutcome::Begun(reader)) => return Ok(Some(*reader)),
                Ok(SubscriptionOutcome::Ordinary) => return Ok(None),
                Ok(SubscriptionOutcome::Refused(error)) => return Err(error),
                Err(_) => {}
            }
        }
        Ok(None)
    }

    /// Requests a bookmark at a revision, so that idle collections advance to it.
    pub(crate) fn bookmark(&self, revision: Revision) {
        if let Some(requests) = &self.0.state.lock().requests {
            let _ = requests.send(ConnectionRequest::Bookmark(revision));
        }
    }

    /// The sender to the task, which is started if needed; `None` if the server does not offer streams.
    fn requests(&self) -> Option<mpsc::UnboundedSender<ConnectionRequest>> {
        let mut state = self.0.state.lock();
        if state.not_offered_until.is_some_and(|until| Instant::now() < until) {
            return None;
        }
        if let Some(requests) = state.requests.as_ref().filter(|requests| !requests.is_closed()) {
            return Some(requests.clone());
        }
        let (requests, asked) = mpsc::unbounded_channel();
        state.requests = Some(requests.clone());
        let connection = ConnectionTask::new(self.0.client.clone(), requests.downgrade(), asked);
        let handle = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            if !connection.run().await
                && let Some(handle) = handle.upgrade()
            {
                let mut state = handle.state.lock();
                state.not_offered_until = Some(Instant::now() + ASK_AGAIN);
                state.requests = None;
            }
        });
        Some(requests)
    }
}
