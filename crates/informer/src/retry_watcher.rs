//! [`RetryWatcher`]: a watch without a cache that reconnects until its resourceVersion expires.
//!
//! For programs that keep a resourceVersion themselves and want events, not a cache. It starts after a resourceVersion,
//! reopens the watch whenever it breaks, and ends with an error when it cannot continue: the resourceVersion has
//! expired, or the server denies the watch. It never lists; a [`reflector`](crate::reflector) does.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{Stream, StreamExt, stream};
use listwatch_wire::Revision;
use tokio::time::{Instant, sleep, timeout};

use crate::lister_watcher::{ListerWatcher, SourceError, WatchEvent, WatchRequest, WatchStream};
use crate::reflector::{Backoff, BackoffOptions};

/// A watch that lived this long was not a failure, however it ended.
const HEALTHY: Duration = Duration::from_secs(1);

/// The delays and deadlines of a [`RetryWatcher`]. They are those of the reflector where both have one.
#[must_use = "a watch is read by polling it"]
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RetryWatcherOptions {
    /// The delays between attempts.
    pub backoff: BackoffOptions,
    /// The time the server may take to accept the watch. Default 30 s.
    pub open_timeout: Duration,
    /// A watch without an event for this long is reopened. Default 90 s: Kubernetes API servers send a bookmark every
    /// 60 to 75 s, so a longer silence means that the peer or the connection is dead.
    pub idle: Duration,
    /// The longest wait that a server may ask for. Default 5 min: more than that is a mistake, and the watch would be
    /// dead for as long.
    pub retry_after_max: Duration,
}

impl Default for RetryWatcherOptions {
    fn default() -> Self {
        Self {
            backoff: BackoffOptions::default(),
            open_timeout: Duration::from_secs(30),
            idle: Duration::from_secs(90),
            retry_after_max: Duration::from_secs(5 * 60),
        }
    }
}

/// The resource version is no place to begin: zero means "any state", which is not a position in a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a watch cannot resume from resource version 0; list first and begin after the list")]
pub struct NoStart;

/// A stream of events from a resource version on. Bookmarks move its place and are not passed on.
///
/// It yields an error as its last item, if it ends by itself.
///
/// ```
/// use std::sync::Arc;
///
/// use futures::StreamExt;
/// use listwatch::RetryWatcher;
/// use listwatch::lister_watcher::{InMemory, WatchEvent};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pods = InMemory::new(100);
/// let before = pods.put(&json!({"metadata": {"name": "a"}}))?;
/// pods.put(&json!({"metadata": {"name": "b"}}))?;
///
/// // Everything after the first write, however often the connection breaks in between.
/// let mut events = RetryWatcher::new(Arc::new(pods), before)?;
/// let Some(Ok(WatchEvent::Added(object))) = events.next().await else { unreachable!() };
/// assert_eq!(object.name(), "b");
/// # Ok(())
/// # }
/// ```
pub struct RetryWatcher(BoxStream<'static, Result<WatchEvent, SourceError>>);

impl fmt::Debug for RetryWatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RetryWatcher")
    }
}

struct RetryState {
    source: Arc<dyn ListerWatcher>,
    at: Revision,
    backoff: Backoff,
    options: RetryWatcherOptions,
    open: Option<(WatchStream, Instant)>,
    ready: std::collections::VecDeque<WatchEvent>,
    ended: bool,
}

/// The reaction to a failure.
enum RetryDecision {
    Retry(Option<Duration>),
    End,
}

/// The reaction to an error: refusals and expiry end the watch, all others are retried.
fn decide(error: &SourceError) -> RetryDecision {
    // 401 and 403 do not heal by asking again; 410 at any point means that events are missing for good.
    let hopeless =
        error.status().is_some_and(|status| matches!(status.code, 401 | 403)) || error.is_expired();
    if hopeless { RetryDecision::End } else { RetryDecision::Retry(error.retry_after()) }
}

impl RetryState {
    /// Returns the next event, reconnecting on the way. Ends with the error that no new attempt can cure.
    async fn next(&mut self) -> Option<Result<WatchEvent, SourceError>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                match self.take(event) {
                    Some(Ok(event)) => return Some(Ok(event)),
                    Some(Err(error)) => {
                        if let Some(error) = self.failed(error).await {
                            return Some(Err(error));
                        }
                    }
                    None => {}
                }
                continue;
            }
            if self.ended {
                return None;
            }
            if let Err(error) = self.read().await
                && let Some(error) = self.failed(error).await
            {
                return Some(Err(error));
            }
        }
    }

    /// The event to pass on, if it is one.
    fn take(&mut self, event: WatchEvent) -> Option<Result<WatchEvent, SourceError>> {
        match event {
            WatchEvent::Bookmark { revision, .. } => {
                self.at = self.at.max(revision);
                None
            }
            WatchEvent::Error(status) => Some(Err(SourceError::Status(status))),
            WatchEvent::Added(ref object)
            | WatchEvent::Modified(ref object)
            | WatchEvent::Deleted(ref object) => {
                self.at = self.at.max(object.revision());
                Some(Ok(event))
            }
            WatchEvent::Rejected { .. } | WatchEvent::Unusable(_) => Some(Ok(event)),
        }
    }

    /// Fills `ready`, opening the watch if it must.
    async fn read(&mut self) -> Result<(), SourceError> {
        let (stream, opened) = match &mut self.open {
            Some(open) => (&mut open.0, open.1),
            none => {
                let request = WatchRequest { revision: Some(self.at), initial_events: false, timeout: None };
                let stream = within(self.options.open_timeout, self.source.watch(&request)).await??;
                let open = none.insert((stream, Instant::now()));
                (&mut open.0, open.1)
            }
        };
        match within(self.options.idle, stream.next()).await? {
            Some(events) => {
                let events = events?;
                self.ready.extend(events);
                Ok(())
            }
            None if opened.elapsed() >= HEALTHY => {
                self.open = None;
                self.backoff.reset();
                Ok(())
            }
            None => Err(SourceError::Transport("the watch was closed at once".to_owned())),
        }
    }

    /// Waits before the next attempt, or returns the error if there will be none.
    async fn failed(&mut self, error: SourceError) -> Option<SourceError> {
        let lived = self.open.take().map(|(_, opened)| opened.elapsed());
        self.ready.clear();
        match decide(&error) {
            RetryDecision::End => {
                self.ended = true;
                Some(error)
            }
            RetryDecision::Retry(asked) => {
                if lived.is_some_and(|lived| lived >= HEALTHY) {
                    self.backoff.reset();
                }
                tracing::debug!(%error, at = %self.at, "watch broke; will be resumed");
                let asked = asked.unwrap_or_default().min(self.options.retry_after_max);
                sleep(self.backoff.delay().max(asked)).await;
                None
            }
        }
    }
}

async fn within<T>(limit: Duration, wait: impl Future<Output = T>) -> Result<T, SourceError> {
    timeout(limit, wait).await.map_err(|_| SourceError::TimedOut(limit))
}

impl RetryWatcher {
    /// Watches from after `revision`, which must be one that a list or an object had.
    ///
    /// # Errors
    /// [`NoStart`] for revision 0.
    pub fn new(source: Arc<dyn ListerWatcher>, revision: Revision) -> Result<Self, NoStart> {
        Self::with_options(source, revision, RetryWatcherOptions::default())
    }

    /// Watches from after `revision`, with other delays and deadlines than the default.
    ///
    /// # Errors
    /// [`NoStart`] for revision 0.
    pub fn with_options(
        source: Arc<dyn ListerWatcher>,
        revision: Revision,
        options: RetryWatcherOptions,
    ) -> Result<Self, NoStart> {
        use std::hash::{BuildHasher, RandomState};
        if revision == Revision::ZERO {
            return Err(NoStart);
        }
        let backoff = Backoff::new(options.backoff, RandomState::new().hash_one(0_u8));
        let ready = std::collections::VecDeque::new();
        let state = RetryState { source, at: revision, backoff, options, open: None, ready, ended: false };
        let events = stream::unfold(state, |mut state| async move {
            let event = state.next().await?;
            Some((event, state))
        });
        Ok(Self(events.boxed()))
    }
}

impl Stream for RetryWatcher {
    type Item = Result<WatchEvent, SourceError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(cx)
    }
}
