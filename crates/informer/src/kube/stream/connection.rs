//! [`ConnectionTask`]: the task of a shared connection, which sends subscriptions to the server and events to their sources.
//!
//! It owns the connection. Handles send it messages, and dropping the last handle ends it. It does not decode objects:
//! an event is a line of bytes for the decoder of its source. Opening the connection and changing subscriptions are
//! requests (`connect`); the frames of the response are `frames`.
//!
//! Every wait is bounded: a source that does not read is disconnected so that it does not block the others, and if the
//! server does not answer, the sources fall back to ordinary watches.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::future::{BoxFuture, pending};
use hashbrown::HashMap;
use listwatch_wire::Revision;
use listwatch_wire::event::SUFFIX;
use listwatch_wire::status::Status;
use listwatch_wire::stream::{ClientMessage, StreamFrame, SubscriptionStart};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};

use super::connect::{NoStream, change, discover, open};
use super::frames::Frames;
use super::{ConnectionRequest, NewSubscription, SubscriptionOutcome, SubscriptionReader};
use crate::lister_watcher::SourceError;

/// Batches of events that a source may have unread. More hold up the connection for a while.
pub(super) const WAITING_BATCHES: usize = 64;
/// A source that has not read for this long is disconnected and opens an ordinary watch, so that it does not block the others. A
/// handler that waits for another informer would otherwise wait for ever.
const SLOW_SOURCE: Duration = Duration::from_secs(2);
/// A connection without any frame for this long after a request is closed.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);
/// A connection without subscriptions is kept for so long: a watch that has ended is mostly followed by the next.
const LINGER: Duration = Duration::from_secs(5);

/// The channel to the one that waits for the beginning of a subscription, and the lines that it will read.
type Beginning = (oneshot::Sender<SubscriptionOutcome>, mpsc::Receiver<Result<Bytes, SourceError>>);

/// A subscription of the connection.
struct OpenSubscription {
    lines: mpsc::Sender<Result<Bytes, SourceError>>,
    /// Until it has begun.
    beginning: Option<Beginning>,
}

/// The task of a connection.
pub(super) struct ConnectionTask {
    client: kube::Client,
    /// Strong references are held by handles; the task ends with the last of them.
    requests: mpsc::WeakUnboundedSender<ConnectionRequest>,
    asked: mpsc::UnboundedReceiver<ConnectionRequest>,
    subscriptions: HashMap<String, OpenSubscription, foldhash::fast::RandomState>,
    /// The changes that have yet to be sent to the server.
    message: ClientMessage,
    next_id: u64,
    /// The most subscriptions at a time.
    most: usize,
    /// The time of the last frame or request.
    heard: Instant,
}

impl ConnectionTask {
    pub(super) fn new(
        client: kube::Client,
        requests: mpsc::WeakUnboundedSender<ConnectionRequest>,
        asked: mpsc::UnboundedReceiver<ConnectionRequest>,
    ) -> Self {
        Self {
            client,
            requests,
            asked,
            subscriptions: HashMap::default(),
            message: ClientMessage::default(),
            next_id: 0,
            most: usize::MAX,
            heard: Instant::now(),
        }
    }

    /// Runs the connection until it ends. Returns false if the server offers no streams.
    pub(super) async fn run(mut self) -> bool {
        let opened = self.open().await;
        // A task that is about to end takes no more requests.
        let error = match opened {
            Ok((id, mut frames)) => self.carry(&id, &mut frames).await.err(),
            Err(why) => {
                self.asked.close();
                self.take_all();
                for (_, entry) in self.subscriptions.drain() {
                    entry.answer(SubscriptionOutcome::Ordinary);
                }
                return !matches!(why, NoStream::NotOffered);
            }
        };
        self.asked.close();
        self.take_all();
        for (_, entry) in self.subscriptions.drain() {
            entry.end(error.clone());
        }
        true
    }

    /// Opens the stream with the subscriptions requested so far, which saves a second request in most programs, because
    /// informers start together.
    async fn open(&mut self) -> Result<(String, Frames), NoStream> {
        discover(&self.client).await?;
        self.take_all();
        let first = std::mem::take(&mut self.message);
        let (head, frames) = open(&self.client, &first).await?;
        self.most = head.watches;
        self.heard = Instant::now();
        Ok((head.id, frames))
    }

    /// Passes on frames and requests until the stream ends or is no longer needed.
    async fn carry(&mut self, id: &str, frames: &mut Frames) -> Result<(), SourceError> {
        let mut changing: Option<BoxFuture<'static, Result<(), SourceError>>> = None;
        loop {
            if changing.is_none() && self.message != ClientMessage::default() {
                let message = std::mem::take(&mut self.message);
                changing = Some(Box::pin(change(self.client.clone(), id.to_owned(), message)));
            }
            let deadline = self.deadline();
            tokio::select! {
                frame = frames.next() => match frame {
                    Some(frame) => self.receive(frame?, frames).await?,
                    None => return Ok(()),
                },
                request = self.asked.recv() => match request {
                    Some(request) => {
                        self.take(request);
                        self.take_all();
                    }
                    None => return Ok(()),
                },
                changed = change_outcome(&mut changing) => {
                    changing = None;
                    changed?;
                }
                () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                    if self.subscriptions.is_empty() {
                        return Ok(());
                    }
                    return Err(SourceError::TimedOut(ANSWER_WITHIN));
                }
            }
        }
    }

    /// When the connection is given up, unless something happens before.
    fn deadline(&self) -> Option<Instant> {
        if self.subscriptions.is_empty() {
            return Some(self.heard + LINGER);
        }
        let waits = self.subscriptions.values().any(|entry| entry.beginning.is_some());
        waits.then(|| self.heard + ANSWER_WITHIN)
    }

    /// Takes all pending requests, so that they are sent in one message.
    fn take_all(&mut self) {
        while let Ok(request) = self.asked.try_recv() {
            self.take(request);
        }
    }

    /// Notes a request in the next message. Of several bookmarks the newest counts.
    fn take(&mut self, request: ConnectionRequest) {
        match request {
            ConnectionRequest::Subscribe(new) => self.subscribe(*new),
            ConnectionRequest::Unsubscribe(id) => self.unsubscribe(id),
            ConnectionRequest::Bookmark(revision) => {
                let earlier = self.message.bookmark.take().and_then(|at| at.parse::<Revision>().ok());
                let at = earlier.map_or(revision, |earlier| earlier.max(revision));
                self.message.bookmark = Some(at.to_string());
            }
        }
    }

    /// Adds a subscription with a new identifier. Beyond the server's limit its source opens an ordinary watch at once.
    fn subscribe(&mut self, new: NewSubscription) {
        let NewSubscription { mut asked, begun, lines, reader } = new;
        let entry = OpenSubscription { lines, beginning: Some((begun, reader)) };
        if self.subscriptions.len() >= self.most {
            return entry.answer(SubscriptionOutcome::Ordinary);
        }
        self.next_id += 1;
        asked.id = self.next_id.to_string();
        self.subscriptions.insert(asked.id.clone(), entry);
        self.message.subscribe.push(asked);
        self.heard = Instant::now();
    }

    /// Removes a subscription, and informs the server unless the server ended it.
    fn unsubscribe(&mut self, id: String) {
        // What has ended by itself needs no end.
        if self.subscriptions.remove(&id).is_some() {
            self.message.unsubscribe.push(id);
            self.heard = Instant::now();
        }
    }

    /// Takes a frame and all that have come with it. Events that follow each other in one subscription are passed on together.
    async fn receive(&mut self, first: StreamFrame, frames: &mut Frames) -> Result<(), SourceError> {
        self.heard = Instant::now();
        let mut batch = LineBatch::default();
        let mut next = Some(first);
        while let Some(frame) = next {
            if !batch.takes(&frame) {
                self.deliver(std::mem::take(&mut batch)).await;
            }
            match frame {
                StreamFrame::Event { subscription, event } => batch.push(subscription, &event),
                StreamFrame::Started { subscription, start } => self.started(&subscription, start),
                StreamFrame::Ended { subscription } => drop(self.subscriptions.remove(&subscription)),
                StreamFrame::Failed { subscription, status } => self.failed(&subscription, *status)?,
                StreamFrame::Bookmark(revision) => self.bookmark(revision).await,
                StreamFrame::Stream(_) | StreamFrame::Error(_) | StreamFrame::Unknown => {}
            }
            next = frames.ready()?;
        }
        self.deliver(batch).await;
        Ok(())
    }

    /// Passes the reader to the source that waits for it.
    fn started(&mut self, id: &str, start: SubscriptionStart) {
        let Some(entry) = self.subscriptions.get_mut(id) else { return };
        let Some((begun, lines)) = entry.beginning.take() else { return };
        let Some(requests) = self.requests.upgrade() else { return };
        let content_type = start.content_type;
        let reader = SubscriptionReader { id: id.to_owned(), lines, requests, content_type };
        // If the subscriber was dropped, the reader is dropped, which unsubscribes.
        let _ = begun.send(SubscriptionOutcome::Begun(Box::new(reader)));
    }

    /// A subscription was refused, or broke. Invalid credentials end the whole connection.
    fn failed(&mut self, id: &str, status: Status) -> Result<(), SourceError> {
        let Some(entry) = self.subscriptions.remove(id) else { return Ok(()) };
        let (code, error) = (status.code, SourceError::from(status));
        match code {
            // Perhaps only here: extension API servers are not in the stream, and the stream may be full.
            400 | 404 | 405 | 406 | 429 if entry.beginning.is_some() => {
                entry.answer(SubscriptionOutcome::Ordinary)
            }
            _ => entry.end(Some(error.clone())),
        }
        if code == 401 { Err(error) } else { Ok(()) }
    }

    /// One bookmark applies to all subscriptions that have begun.
    async fn bookmark(&mut self, revision: Revision) {
        let line = format!(
            "{{\"type\":\"BOOKMARK\",\"object\":{{\"metadata\":{{\"resourceVersion\":\"{revision}\"}}}}}}\n"
        );
        let begun = self.subscriptions.iter().filter(|(_, entry)| entry.beginning.is_none());
        let begun: Vec<String> = begun.map(|(id, _)| id.clone()).collect();
        let line = Bytes::from(line);
        for id in begun {
            self.pass_on(id, line.clone()).await;
        }
    }

    /// Passes a batch on, if there is one.
    async fn deliver(&mut self, batch: LineBatch) {
        if !batch.lines.is_empty() {
            self.pass_on(batch.subscription, batch.lines.freeze()).await;
        }
    }

    /// Sends lines to the source of a subscription. Waits at most [`SLOW_SOURCE`] for room, and the whole connection
    /// with it.
    async fn pass_on(&mut self, id: String, lines: Bytes) {
        let Some(entry) = self.subscriptions.get(&id) else { return };
        match timeout(SLOW_SOURCE, entry.lines.send(Ok(lines))).await {
            Ok(Ok(())) => {}
            // It does not read any more, or too slowly.
            _ => self.unsubscribe(id),
        }
    }
}

impl OpenSubscription {
    /// Reports the outcome of opening; later failures are not reported here.
    fn answer(self, outcome: SubscriptionOutcome) {
        if let Some((begun, _)) = self.beginning {
            let _ = begun.send(outcome);
        }
    }

    /// Ends it, with an error if it did not end gracefully.
    fn end(self, error: Option<SourceError>) {
        match (self.beginning, error) {
            (Some((begun, _)), Some(error @ SourceError::Status(_))) => {
                let _ = begun.send(SubscriptionOutcome::Refused(error));
            }
            // The next attempt uses a separate connection.
            (Some((begun, _)), _) => {
                let _ = begun.send(SubscriptionOutcome::Ordinary);
            }
            (None, Some(error)) => {
                // If there is no room for the error, the end of the stream suffices.
                let _ = self.lines.try_send(Err(error));
            }
            (None, None) => {}
        }
    }
}

/// Lines of one subscription on their way to its source.
#[derive(Default)]
struct LineBatch {
    subscription: String,
    lines: BytesMut,
}

impl LineBatch {
    /// True if the frame can be added, or there is nothing that it could overtake.
    fn takes(&self, frame: &StreamFrame) -> bool {
        let same =
            matches!(frame, StreamFrame::Event { subscription, .. } if *subscription == self.subscription);
        self.lines.is_empty() || same
    }

    /// Adds an event in the form of a line of an ordinary watch.
    fn push(&mut self, subscription: String, event: &[u8]) {
        self.subscription = subscription;
        self.lines.reserve(event.len() + SUFFIX.len());
        self.lines.extend_from_slice(event);
        self.lines.extend_from_slice(b"\n");
    }
}

/// The outcome of the request that is under way, if one is.
async fn change_outcome(
    changing: &mut Option<BoxFuture<'static, Result<(), SourceError>>>,
) -> Result<(), SourceError> {
    match changing {
        Some(changing) => changing.await,
        None => pending().await,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use kube::client::Body;
    use listwatch_wire::stream::FrameDecoder;

    use super::*;
    use crate::kube::body::Chunks;

    fn connection(requests: &mpsc::UnboundedSender<ConnectionRequest>) -> ConnectionTask {
        let (_, asked) = mpsc::unbounded_channel();
        let service = tower::service_fn(|_: http::Request<Body>| async {
            Err::<http::Response<Body>, tower::BoxError>("no server".into())
        });
        ConnectionTask::new(kube::Client::new(service, "default"), requests.downgrade(), asked)
    }

    /// A bookmark must not overtake an event of the same chunk: the watch would resume after a change that was never
    /// delivered.
    #[tokio::test]
    async fn a_bookmark_is_passed_on_after_the_events_before_it() {
        let (requests, _asked) = mpsc::unbounded_channel();
        let mut connection = connection(&requests);
        let (lines, mut read) = mpsc::channel(WAITING_BATCHES);
        connection.subscriptions.insert("1".to_owned(), OpenSubscription { lines, beginning: None });
        let piece = "{\"subscription\":\"1\",\"event\":{\"type\":\"ADDED\",\"object\":{}}}\n{\"bookmark\":{\"resourceVersion\":\"9\"}}\n";
        let chunks = Chunks::new(http::Response::new(Body::from(piece.as_bytes().to_vec())));
        let mut frames = Frames::new(chunks, FrameDecoder::default());
        let first = frames.next().await.unwrap().unwrap();
        connection.receive(first, &mut frames).await.unwrap();
        let mut got = Vec::new();
        while let Ok(line) = read.try_recv() {
            got.push(String::from_utf8(line.unwrap().to_vec()).unwrap());
        }
        let kinds: Vec<_> = got.iter().map(|line| line.contains("BOOKMARK")).collect();
        assert_eq!(kinds, [false, true], "{got:?}");
    }
}
