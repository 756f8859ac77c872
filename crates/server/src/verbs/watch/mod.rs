//! WATCH: the initial state if asked for, then every change after a revision, with bookmarks, until the timeout.
//!
//! [`ServedWatch`] is a state machine: initial events from a snapshot, the `k8s.io/initial-events-end` bookmark, then
//! live events from a cursor ([`crate::cache::Cursor`]). The cursor is opened at the snapshot's revision, so nothing
//! is lost or doubled in between. A watch never loses events by being slow: it holds one portion and reads on from
//! memory or from the engine's log; 410 only if history is compacted.
//!
//! Errors after the start are ERROR events, since the status line has been sent. Authorization is repeated at
//! intervals ([`crate::auth::Recheck`]). [`plan`] reads the options and begins a watch, [`writer`] and
//! [`mod@format`] encode its events; HTTP framing and WebSocket are [`crate::http`]. Many watches in one stream are
//! [`crate::verbs::stream`].

mod format;
pub(crate) mod plan;
pub(crate) mod writer;

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::StatusCode;
use http::header::{CONTENT_ENCODING, HeaderValue, VARY};
use listwatch_wire::{Revision, Status};
use smallvec::smallvec;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::api::Api;
use crate::auth::{Recheck, TOKEN_PROTOCOL};
use crate::cache::{Cursor, FilteredEvent, FilteredEvents, Lost, Portion};
use crate::http::body::{Body, FrameBytes, Response, WatchBody};
use crate::http::{gzip, websocket};
use crate::observe::RequestSeries;
use crate::request::ResourceRequest;
use crate::respond;
use crate::verbs::watch::plan::{BegunWatch, WatchPlan, duration, recheck};
use crate::verbs::watch::writer::{EventWriter, InitialState};

/// Answers a watch with a stream, after everything that can fail with a status code has been checked.
///
/// # Errors
/// 400 for options that contradict each other, 406. A `resourceVersion` that is too old is an ERROR event with 410
/// inside the stream, as in kube-apiserver.
pub(crate) async fn watch(api: &Arc<Api>, target: &ResourceRequest) -> Result<Response, Status> {
    let request = &target.request.http;
    let upgrade = websocket::negotiate(request, TOKEN_PROTOCOL)?;
    let plan = WatchPlan::new(api, target)?;
    let compressed = upgrade.is_none() && plan.initial && plan.bookmarks && gzip::accepted(request);
    let ready = plan.ready(api).await;
    let mut stream = ServedWatch::new(api, target, &plan, ready);
    stream.gzip = compressed.then(Box::default);
    Ok(match upgrade {
        Some(upgrade) => upgrade.accept(stream),
        None => in_chunks(plan.form.stream_type(), stream, compressed),
    })
}

/// The response whose body is a stream of events.
pub(crate) fn in_chunks(
    content_type: &'static str,
    stream: Box<dyn WatchBody>,
    compressed: bool,
) -> Response {
    let mut response = respond::with_type(StatusCode::OK, content_type, Body::Watch(stream));
    if compressed {
        response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        response.headers_mut().insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    response
}

/// A watch being served. There may be tens of thousands of them, so large or rarely used state is boxed.
#[doc(alias = "WatchServer")]
#[doc(alias = "ServeWatch")]
#[derive(Debug)]
pub(crate) struct ServedWatch {
    api: Arc<Api>,
    /// The position in the log. It is opened before initial events are sent, at their revision.
    cursor: Cursor,
    writer: EventWriter,
    /// Initial events, live events, or a last error.
    stage: WatchStage,
    /// Events that the cursor has passed while they wait to be written: the connection drops the future of a batch when
    /// the client sends something.
    converting: Option<Box<FilteredEvents>>,
    /// Fires at the next bookmark, recheck or the deadline, whichever is first.
    timer: Pin<Box<Sleep>>,
    /// The end of the watch by `timeoutSeconds`, or a random default.
    deadline: Instant,
    /// The time of the next bookmark; `None` without `allowWatchBookmarks`.
    next_bookmark: Option<Instant>,
    /// The newest revision that the watcher has received. Bookmarks are sent only beyond it.
    told: Revision,
    /// Compresses what is written, if the client takes it.
    gzip: Option<Box<gzip::GzipMember>>,
    /// The authorization of the watch, which ends when it no longer holds.
    guard: Option<Box<Recheck>>,
}

/// Boxed variants: a live watch, the state that lasts, needs no room for the others.
#[derive(Debug)]
enum WatchStage {
    Initial(Box<InitialState>),
    Live,
    Failed(Box<Status>),
    Ended,
}

impl WatchBody for ServedWatch {
    fn next(&mut self) -> BoxFuture<'_, Option<FrameBytes>> {
        Box::pin(self.batch())
    }

    fn is_binary(&self) -> bool {
        self.writer.is_binary()
    }

    fn deadline(&self) -> Instant {
        self.deadline
    }

    fn count_as(&mut self, request: Arc<RequestSeries>, code: StatusCode) {
        self.writer.count_as(request, code);
    }
}

impl ServedWatch {
    /// A watch that begins now, or the error that is all it has to say.
    fn new(
        api: &Arc<Api>,
        target: &ResourceRequest,
        plan: &WatchPlan,
        ready: Result<(), Status>,
    ) -> Box<Self> {
        let BegunWatch { cursor, writer, initial, position } = plan.begin(api, target);
        let stage = match (ready, initial) {
            (Err(status), _) => WatchStage::Failed(Box::new(status)),
            (Ok(()), Some(initial)) => WatchStage::Initial(initial),
            (Ok(()), None) => WatchStage::Live,
        };
        let deadline = Instant::now() + duration(api, plan.timeout);
        let mut stream = Box::new(Self {
            api: Arc::clone(api),
            cursor,
            writer,
            stage,
            converting: None,
            timer: Box::pin(sleep_until(deadline)),
            deadline,
            next_bookmark: plan.bookmarks.then_some(deadline),
            told: position,
            gzip: None,
            guard: recheck(api, target),
        });
        stream.schedule(Instant::now());
        stream
    }

    /// The next frames of any stage, compressed if the client asked for it; `None` at the end.
    async fn batch(&mut self) -> Option<FrameBytes> {
        loop {
            let frames = match &mut self.stage {
                WatchStage::Ended => return self.compressed_end(),
                WatchStage::Failed(status) => {
                    let line = self.writer.error(status);
                    self.stage = WatchStage::Ended;
                    Some(smallvec![line])
                }
                // Boxed, as below, so that the long-lived future of a watch has no memory for rare steps.
                WatchStage::Initial(_) => Box::pin(self.initial()).await,
                WatchStage::Live => self.live().await,
            };
            if self.writer.is_broken() {
                self.stage = WatchStage::Ended;
            }
            if let Some(frames) = frames {
                return Some(self.sent(frames));
            }
        }
    }

    /// Counts frames, and compresses them if the client asked for it.
    fn sent(&mut self, frames: FrameBytes) -> FrameBytes {
        self.writer.sent(&frames, self.cursor.position());
        match &mut self.gzip {
            Some(member) => member.batch(&frames),
            None => frames,
        }
    }

    /// The end of what was compressed.
    fn compressed_end(&mut self) -> Option<FrameBytes> {
        self.gzip.as_mut().and_then(|member| member.end()).map(|end| smallvec![end])
    }

    /// A batch of the present state; at its end over to live events.
    async fn initial(&mut self) -> Option<FrameBytes> {
        let WatchStage::Initial(initial) = &mut self.stage else { return None };
        let out = match self.writer.initial(&self.api, initial).await {
            Ok(out) => out,
            Err(status) => return self.fail(status),
        };
        if initial.done {
            self.stage = WatchStage::Live;
        }
        (!out.is_empty()).then(|| smallvec![out.freeze()])
    }

    /// Waits for events, a bookmark or the end. `None` if there is nothing to send yet.
    ///
    /// The timer is looked at first: a watch that always has events must still end, and its rights must still be
    /// checked.
    async fn live(&mut self) -> Option<FrameBytes> {
        if self.converting.is_some() {
            return Box::pin(self.converted()).await;
        }
        let limits = &self.api.options.watch;
        let portion = Portion { events: limits.batch_events, bytes: limits.batch_bytes };
        let events = tokio::select! {
            biased;
            // Checked before events, so that a busy watch cannot outlive its permissions or its timeout.
            () = self.timer.as_mut() => return self.tick(),
            events = self.cursor.next(portion) => events,
        };
        match events {
            Ok(events) if self.writer.waits() => {
                self.converting = Some(Box::new(events));
                Box::pin(self.converted()).await
            }
            Ok(events) => {
                let frames = self.writer.stored_events(&self.api, &events);
                self.written(&events, Ok(frames))
            }
            Err(Lost::Ended) => self.end(),
            Err(error @ Lost::Expired { .. }) => self.fail(Status::expired(error.to_string())),
            Err(Lost::Failed(error)) => self.fail(Status::internal(error)),
        }
    }

    /// The frames of events that had to wait.
    async fn converted(&mut self) -> Option<FrameBytes> {
        let events = self.converting.as_deref()?;
        let frames = self.writer.events(&self.api, events).await;
        let events = self.converting.take()?;
        self.written(&events, frames)
    }

    /// The frames of events, or the end of the watch.
    fn written(
        &mut self,
        events: &[FilteredEvent],
        frames: Result<FrameBytes, Status>,
    ) -> Option<FrameBytes> {
        self.told = events.last().map_or(self.told, |last| last.event.revision);
        match frames {
            Ok(frames) => {
                self.compress(events, &frames);
                (!frames.is_empty()).then_some(frames)
            }
            Err(status) => self.fail(status),
        }
    }

    /// Compresses the frames of events, once for all watchers that accept gzip.
    fn compress(&mut self, events: &[FilteredEvent], frames: &[Bytes]) {
        let Some(member) = &mut self.gzip else { return };
        for (filtered, frame) in events.iter().zip(frames) {
            let shared = &self.api.cache.frames;
            member.prepare(frame, || {
                shared.compressed(&filtered.event, filtered.change, frame, |frame| {
                    gzip::deflate_blocks(std::slice::from_ref(frame))
                })
            });
        }
    }

    /// The status is sent as the last event.
    fn fail(&mut self, status: Status) -> Option<FrameBytes> {
        self.stage = WatchStage::Failed(Box::new(status));
        None
    }

    /// The last event is a bookmark, so that the client resumes from here and not from its last event.
    ///
    /// A clean end of the body; clients reconnect from the bookmark.
    fn end(&mut self) -> Option<FrameBytes> {
        self.stage = WatchStage::Ended;
        self.bookmark()
    }

    /// Handles the timer: the recheck of authorization, the deadline, or a bookmark.
    ///
    /// A watch whose rights were withdrawn ends without an error, as kube-apiserver ends one at its timeout; the next
    /// request is refused.
    fn tick(&mut self) -> Option<FrameBytes> {
        let now = Instant::now();
        let api = &self.api;
        let allowed = self
            .guard
            .as_mut()
            .is_none_or(|guard| guard.check(&api.authenticator, &api.authorizer, now).is_ok());
        if now >= self.deadline || !allowed {
            return self.end();
        }
        let due = self.next_bookmark.is_some_and(|due| due <= now);
        let frames = if due { self.bookmark() } else { None };
        self.schedule(now);
        frames
    }

    /// A bookmark, if the position has moved since the last one.
    fn bookmark(&mut self) -> Option<FrameBytes> {
        self.next_bookmark?;
        let position = self.cursor.settle().filter(|position| *position > self.told)?;
        self.told = position;
        Some(smallvec![self.writer.bookmark(position, false)])
    }

    /// Sets the timer: to the next bookmark, the last of which comes a little before the end, to the next look at rights, or to
    /// the end.
    fn schedule(&mut self, now: Instant) {
        let limits = &self.api.options.watch;
        let last = self.deadline - limits.bookmark_before_end.min(self.deadline - now);
        if let Some(due) = &mut self.next_bookmark
            && (*due <= now || *due == self.deadline)
        {
            *due = if last > now { last.min(now + limits.bookmark_every) } else { self.deadline };
        }
        let next = self.next_bookmark.unwrap_or(self.deadline);
        let next = self.guard.as_ref().map_or(next, |guard| next.min(guard.due()));
        self.timer.as_mut().reset(next);
    }
}
