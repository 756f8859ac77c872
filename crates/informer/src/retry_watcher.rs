//! [`RetryWatcher`]: a plain watch that survives everything but the end of history.
//!
//! For those who know where they stand and want events, not a cache. It begins after a resource version, opens the
//! watch again whenever it breaks, and ends honestly when it cannot go on: when history no longer reaches back to its
//! place, or the server says that it may not watch. It never lists; one that may is a
//! [`reflector`](crate::reflector).

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{Stream, StreamExt, stream};
use listwatch_wire::Revision;
use tokio::time::{Instant, sleep};

use crate::lister_watcher::{ListerWatcher, SourceError, WatchEvent, WatchRequest, WatchStream};
use crate::reflector::{Backoff, BackoffOptions};

/// A watch that lived this long was no failure, however it ended.
const HEALTHY: Duration = Duration::from_secs(1);

/// A stream of events from a resource version on. Bookmarks move its place and are not passed on.
///
/// It yields an error as its last item, if it ends by itself.
pub struct RetryWatcher(BoxStream<'static, Result<WatchEvent, SourceError>>);

impl fmt::Debug for RetryWatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RetryWatcher")
    }
}

struct State {
    source: Arc<dyn ListerWatcher>,
    at: Revision,
    backoff: Backoff,
    open: Option<(WatchStream, Instant)>,
    ready: std::collections::VecDeque<WatchEvent>,
    ended: bool,
}

/// What to do about a failure.
enum Verdict {
    Retry(Option<Duration>),
    End,
}

fn judge(error: &SourceError) -> Verdict {
    // 401 and 403 do not heal by asking again; 410 at any point means that events are missing for good.
    let hopeless =
        error.status().is_some_and(|status| matches!(status.code, 401 | 403)) || error.is_expired();
    if hopeless { Verdict::End } else { Verdict::Retry(error.retry_after()) }
}

impl State {
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
                let stream = self.source.watch(&request).await?;
                let open = none.insert((stream, Instant::now()));
                (&mut open.0, open.1)
            }
        };
        match stream.next().await {
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
        match judge(&error) {
            Verdict::End => {
                self.ended = true;
                Some(error)
            }
            Verdict::Retry(asked) => {
                if lived.is_some_and(|lived| lived >= HEALTHY) {
                    self.backoff.reset();
                }
                tracing::debug!(%error, at = %self.at, "watch broke; will be resumed");
                sleep(self.backoff.delay().max(asked.unwrap_or_default())).await;
                None
            }
        }
    }
}

impl RetryWatcher {
    /// Watches from after `revision`, which must be one that a list or an object had.
    #[must_use]
    pub fn new(source: Arc<dyn ListerWatcher>, revision: Revision) -> Self {
        Self::with_backoff(source, revision, BackoffOptions::default())
    }

    /// The same with other delays between attempts.
    #[must_use]
    pub fn with_backoff(source: Arc<dyn ListerWatcher>, revision: Revision, backoff: BackoffOptions) -> Self {
        use std::hash::{BuildHasher, RandomState};
        let backoff = Backoff::new(backoff, RandomState::new().hash_one(0_u8));
        let ready = std::collections::VecDeque::new();
        let state = State { source, at: revision, backoff, open: None, ready, ended: false };
        let events = stream::unfold(state, |mut state| async move {
            let event = state.next().await?;
            Some((event, state))
        });
        Self(events.boxed())
    }
}

impl Stream for RetryWatcher {
    type Item = Result<WatchEvent, SourceError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(cx)
    }
}
