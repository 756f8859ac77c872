//! The requests of a [`Reflector`](super::Reflector): opening a list or a watch, and reading what has arrived.
//!
//! Dropping a [`ReflectorConnection`] cancels its request, so replacing it is all that ending one takes. Panics of a source
//! become errors of the request and follow the same rules as any other failure.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use listwatch_wire::Revision;

use super::problem::Problem;
use super::step::{Input, Listing};
use super::transform::{Transform, transformed};
use crate::lister_watcher::{
    HeldObjects, ListRequest, ListVersion, ListerWatcher, SourceError, WatchEvent, WatchRequest, WatchStream,
};
use crate::pager::Pager;
use crate::panics::{contained, message};

/// The work in progress: a request or stream, and beside a stream perhaps a probe.
pub(super) struct ReflectorRequests<K> {
    pub(super) connection: ReflectorConnection<K>,
    pub(super) probe: Option<BoxFuture<'static, Input<K>>>,
}

/// The request or stream in progress.
pub(super) enum ReflectorConnection<K> {
    None,
    Listing(BoxFuture<'static, Input<K>>),
    Opening(BoxFuture<'static, Result<WatchStream, SourceError>>),
    Open(WatchStream),
    /// The stream has ended, but what came before has yet to be dealt with.
    Ending(Input<K>),
}

/// Events that are ready are taken together, up to about this many: the cost per batch (locks, wake-ups, clocks) is
/// then shared by them. No event waits for a batch to fill.
const EVENTS_AT_ONCE: usize = 128;

/// The events that are ready, at least one unless the stream ends; and its end, if it is there already.
pub(super) fn poll_events<K>(
    stream: &mut WatchStream,
    cx: &mut Context<'_>,
) -> Poll<(Vec<WatchEvent>, Option<Input<K>>)> {
    let mut events = Vec::new();
    loop {
        let poll = catch_unwind(AssertUnwindSafe(|| stream.poll_next_unpin(cx)));
        let end = match poll
            .unwrap_or_else(|panic| Poll::Ready(Some(Err(SourceError::Panicked(message(&*panic))))))
        {
            Poll::Ready(Some(Ok(more))) => {
                if events.is_empty() {
                    events = more
                } else {
                    events.extend(more)
                }
                if events.len() < EVENTS_AT_ONCE {
                    continue;
                }
                None
            }
            Poll::Ready(Some(Err(error))) => Some(Input::Broken(error)),
            Poll::Ready(None) => Some(Input::Closed),
            Poll::Pending if events.is_empty() => return Poll::Pending,
            Poll::Pending => None,
        };
        return Poll::Ready((events, end));
    }
}

/// Reads the revision of the latest state, and as little else as a server lets one.
pub(super) fn probe<K: Send + 'static>(source: Arc<dyn ListerWatcher>) -> BoxFuture<'static, Input<K>> {
    let request = ListRequest::first(ListVersion::MostRecent, Some(1));
    let read = async move { contained(source.list(&request)).await };
    let listed = read.map(|listed| listed.unwrap_or_else(|panic| Err(SourceError::Panicked(panic))));
    listed.map(|page| Input::Probed(page.map(|page| page.revision))).boxed()
}

/// Opens a watch, with the cache at hand for sources that receive patches.
pub(super) fn open(
    source: Arc<dyn ListerWatcher>,
    request: WatchRequest,
    held: Option<HeldObjects>,
) -> BoxFuture<'static, Result<WatchStream, SourceError>> {
    let opening = async move {
        match held {
            Some(held) => contained(source.watch_holding(&request, &held)).await,
            None => contained(source.watch(&request)).await,
        }
    };
    opening.map(|opened| opened.unwrap_or_else(|panic| Err(SourceError::Panicked(panic)))).boxed()
}

/// Collects the pages. An object that is unusable or not transformable is reported and left out; the rest counts.
pub(super) async fn list_all<K>(
    mut pager: Pager,
    transform: Option<&Transform<K>>,
    report: impl Fn(Problem),
) -> Result<Listing<K>, SourceError> {
    let mut listing = Listing { objects: Vec::new(), revision: Revision::ZERO, pages: 0 };
    while let Some(page) = pager.next().await {
        let page = page?;
        tracing::debug!(page = listing.pages, objects = page.objects.len(), "page received");
        if listing.pages == 0 {
            // The state that the list shows is that of its first page; later pages are read at the same.
            listing.revision = page.revision;
        }
        listing.pages += 1;
        for reason in page.unusable {
            report(Problem::Unusable(reason));
        }
        for object in page.objects {
            match transformed(object, transform) {
                Ok(object) => listing.objects.push(object),
                Err((object, reason)) => {
                    report(Problem::Transform { key: object.key().clone(), reason });
                }
            }
        }
    }
    Ok(listing)
}
