//! WATCH: the initial state if asked for, then every change after a revision, with bookmarks, until the timeout.
//!
//! [`ServedWatch`] is a state machine: initial events from a snapshot, the `k8s.io/initial-events-end` bookmark, then
//! live events from a cursor ([`crate::cache::Cursor`]). The cursor is opened at the snapshot's revision, so nothing
//! is lost or doubled in between. A watch never loses events by being slow: it holds one portion and reads on from
//! memory or from the engine's log; 410 only if history is compacted.
//!
//! Errors after the start are ERROR events, since the status line has been sent. Authorization is repeated at
//! intervals ([`crate::auth::Recheck`]). HTTP framing and WebSocket are [`crate::http`]; encoding is
//! [`mod@format`].

mod format;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use http::StatusCode;
use http::header::{CONTENT_ENCODING, HeaderValue, VARY};
use listwatch_wire::options::ListOptions;
use listwatch_wire::{Revision, Status};
use rand::Rng;
use smallvec::smallvec;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::api::Api;
use crate::api::convert::{self, ConversionFreshness};
use crate::auth::{Recheck, TOKEN_PROTOCOL};
use crate::cache::{Cursor, Lost, Portion, Sight, Snapshot, View, Walk};
use crate::http::body::{Body, FrameBytes, Response, WatchBody};
use crate::http::{gzip, websocket};
use crate::observe::{RequestSeries, WatchBacklog, WatchInfo, WatchTicket};
use crate::request::ResourceRequest;
use crate::request::negotiate::negotiated;
use crate::request::negotiate::{ResponseForm, ResponseSubject};
use crate::request::selectors;
use crate::request::selectors::parse_version;
use crate::respond;
use crate::respond::table::Include;
use crate::verbs::watch::format::EventFormat;

/// Answers a watch with a stream, after everything that can fail with a status code has been checked.
///
/// # Errors
/// 400 for options that contradict each other, 406. A `resourceVersion` that is too old is an ERROR event with 410
/// inside the stream, as in kube-apiserver.
pub(crate) async fn watch(api: &Arc<Api>, target: &ResourceRequest) -> Result<Response, Status> {
    let request = &target.request.http;
    let upgrade = websocket::negotiate(request, TOKEN_PROTOCOL)?;
    let form = negotiated(request, ResponseSubject::Stream, !target.resource.is_custom())?;
    let legacy = target.info.legacy_watch;
    let mut options = ListOptions::parse(&request.query)?;
    if !legacy {
        options.watch = true;
        options.set_watch_defaults();
    }
    options.check()?;
    let include = Include::wanted(form, request)?;
    let start = WatchStart::new(&options, legacy)?;
    let compressed =
        upgrade.is_none() && start.initial && options.allow_watch_bookmarks && gzip::accepted(request);
    let mut stream = open(api, target, &options, start, form, include, compressed).await?;
    stream.guard = api.options.watch.recheck_every.map(|every| Box::new(recheck(api, target, every)));
    stream.schedule(Instant::now());
    Ok(match upgrade {
        Some(upgrade) => upgrade.accept(stream),
        None => {
            let mut response = respond::with_type(StatusCode::OK, form.stream_type(), Body::Watch(stream));
            if compressed {
                response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
                response.headers_mut().insert(VARY, HeaderValue::from_static("Accept-Encoding"));
            }
            response
        }
    })
}

/// The revision that a watch begins at, and whether the state comes first.
#[derive(Clone, Copy, Debug)]
struct WatchStart {
    version: Option<Revision>,
    /// True if the present state comes first.
    initial: bool,
}

impl WatchStart {
    fn new(options: &ListOptions, legacy: bool) -> Result<Self, Status> {
        let version = parse_version(&options.resource_version)?;
        let anywhere = version.is_none_or(|v| v == Revision::ZERO);
        let initial = options.send_initial_events.unwrap_or(legacy && anywhere);
        Ok(Self { version, initial })
    }

    /// Waits for what must be there before the watch can begin.
    async fn ready(self, api: &Api) -> Result<(), Status> {
        match self.version {
            // Without initial events a version of the future is simply waited for by being silent until then.
            Some(version) if version != Revision::ZERO && !self.initial => Ok(()),
            version => api.wait_for(version).await,
        }
    }
}

/// Opens the watch: snapshot and cursor are taken at the same revision, so that nothing is lost or sent twice between
/// initial and live events.
async fn open(
    api: &Arc<Api>,
    target: &ResourceRequest,
    options: &ListOptions,
    start: WatchStart,
    form: ResponseForm,
    include: Include,
    compressed: bool,
) -> Result<Box<ServedWatch>, Status> {
    let resource = &target.resource;
    let collection = &resource.collection;
    let filter = selectors::filter(resource, target.namespace(), target.info.name.as_deref(), options)?;
    let ready = start.ready(api).await;
    let (snapshot, now) = api.cache.read(collection);
    let explicit = start.version.filter(|v| *v != Revision::ZERO && !start.initial);
    let position = explicit.unwrap_or(now);
    let end_bookmark = options.allow_watch_bookmarks && !target.info.legacy_watch;
    let stage = match ready {
        Err(status) => WatchStage::Failed(Box::new(status)),
        Ok(()) if start.initial => {
            let walk = collection.walk(&filter, None);
            WatchStage::Initial(Box::new(InitialState { snapshot, walk, revision: now, end_bookmark }))
        }
        Ok(()) => WatchStage::Live,
    };
    let cursor = api.cache.watch(collection, filter, position);
    let info = describe(target, cursor.view(), options.allow_watch_bookmarks);
    let deadline = Instant::now() + duration(api, options.timeout_seconds);
    let mut stream = Box::new(ServedWatch {
        cursor,
        format: EventFormat::new(Arc::clone(resource), form, include),
        ticket: api.metrics.watches.open(info, position),
        timer: Box::pin(sleep_until(deadline)),
        next_bookmark: options.allow_watch_bookmarks.then_some(deadline),
        told: position,
        api: Arc::clone(api),
        stage,
        deadline,
        gzip: compressed.then(Box::default),
        guard: None,
    });
    stream.schedule(Instant::now());
    Ok(stream)
}

/// The credentials and attributes that the watch was authorized with.
fn recheck(api: &Api, target: &ResourceRequest, every: Duration) -> Recheck {
    let headers = &target.request.http.headers;
    target
        .request
        .with_attributes(|wanted| Recheck::new(&api.authenticator, &target.user, headers, wanted, every))
}

impl WatchBacklog for View {
    fn pending(&self, position: Revision) -> Option<(usize, Option<std::time::Instant>)> {
        View::pending(self, position).ok()
    }
}

/// The identity of a watch, for metrics and debug pages.
fn describe(target: &ResourceRequest, view: &Arc<View>, bookmarks: bool) -> WatchInfo {
    let (labels, fields) = view.filter().describe();
    let resource = &target.resource;
    WatchInfo {
        user: target.user.name.as_str().into(),
        resource: [&resource.group, &resource.version, &resource.plural].map(Arc::clone),
        namespace: target.namespace().map(Into::into),
        labels: labels.into(),
        fields: fields.into(),
        bookmarks,
        backlog: Arc::clone(view) as Arc<dyn WatchBacklog>,
    }
}

/// The duration of a watch: as asked, or long and random, so that watches that began together do not end together.
fn duration(api: &Api, asked: Option<u32>) -> Duration {
    match asked.filter(|s| *s > 0) {
        Some(seconds) => Duration::from_secs(u64::from(seconds)),
        None => api.options.watch.min_timeout.mul_f64(rand::rng().random_range(1.0..2.0)),
    }
}

/// A watch being served. There may be tens of thousands of them, so large or rarely used state is boxed.
#[doc(alias = "WatchServer")]
#[doc(alias = "ServeWatch")]
#[derive(Debug)]
pub(crate) struct ServedWatch {
    api: Arc<Api>,
    /// The position in the log. It is opened before initial events are sent, at their revision.
    cursor: Cursor,
    format: EventFormat,
    /// Initial events, live events, or a last error.
    stage: WatchStage,
    /// The entry among the open watches, for metrics and debug pages.
    ticket: WatchTicket,
    /// Fires at the next bookmark, recheck or the deadline, whichever is first.
    timer: Pin<Box<Sleep>>,
    /// The end of the watch by `timeoutSeconds`, or a random default.
    deadline: Instant,
    /// The time of the next bookmark; `None` if the watcher wants none.
    next_bookmark: Option<Instant>,
    /// The newest revision that the watcher has received. Bookmarks are sent only beyond it.
    told: Revision,
    /// Compresses what is written, if the client takes it.
    gzip: Option<Box<gzip::GzipMember>>,
    /// The authorization of the watch, which ends when it no longer holds.
    guard: Option<Box<Recheck>>,
}

#[derive(Debug)]
enum WatchStage {
    Initial(Box<InitialState>),
    Live,
    Failed(Box<Status>),
    Ended,
}

/// The present state on its way out.
#[derive(Debug)]
struct InitialState {
    snapshot: Arc<Snapshot>,
    walk: Walk,
    revision: Revision,
    end_bookmark: bool,
}

impl WatchBody for ServedWatch {
    fn next(&mut self) -> BoxFuture<'_, Option<FrameBytes>> {
        Box::pin(self.batch())
    }

    fn is_binary(&self) -> bool {
        self.format.is_binary()
    }

    fn deadline(&self) -> Instant {
        self.deadline
    }

    fn count_as(&mut self, request: Arc<RequestSeries>, code: StatusCode) {
        self.ticket.began_as(request, code);
    }
}

impl ServedWatch {
    /// The next frames, compressed if the client asked for it.
    async fn batch(&mut self) -> Option<FrameBytes> {
        let Some(frames) = self.frames().await else {
            return self.gzip.as_mut().and_then(|member| member.end()).map(|end| smallvec![end]);
        };
        if self.format.is_broken() {
            self.stage = WatchStage::Ended;
        }
        self.ticket.sent(&frames, self.cursor.position());
        Some(match &mut self.gzip {
            Some(member) => member.batch(&frames),
            None => frames,
        })
    }

    /// The next frames of any stage; `None` at the end.
    async fn frames(&mut self) -> Option<FrameBytes> {
        loop {
            match &mut self.stage {
                WatchStage::Ended => return None,
                WatchStage::Failed(status) => {
                    let line = self.format.error(status);
                    self.ticket.mark(&line);
                    self.stage = WatchStage::Ended;
                    return Some(smallvec![line]);
                }
                WatchStage::Initial(_) => {
                    let frames = match self.format.resource().conversion {
                        Some(_) => Box::pin(self.initial_converted()).await,
                        None => self.initial(),
                    };
                    if let Some(frames) = frames {
                        return Some(frames);
                    }
                }
                WatchStage::Live => {
                    if let Some(frames) = self.live().await {
                        return Some(frames);
                    }
                }
            }
        }
    }

    /// A batch of the present state; at its end the mark, and over to live events.
    fn initial(&mut self) -> Option<FrameBytes> {
        let WatchStage::Initial(initial) = &mut self.stage else { return None };
        let limit = self.api.options.requests.piece_bytes;
        let mut out = BytesMut::with_capacity(limit + (8 << 10));
        let filter = self.cursor.view().filter();
        let mut last = None;
        for object in initial.snapshot.range(&initial.walk) {
            if filter.matches(object) {
                let before = out.len();
                self.format.initial(object, &mut out);
                self.ticket.initial(out.len() - before);
            }
            last = Some(object.key());
            if out.len() >= limit {
                break;
            }
        }
        match last {
            Some(last) if out.len() >= limit => initial.walk.advance(last),
            _ => {
                if initial.end_bookmark {
                    let bookmark = self.format.bookmark(initial.revision, true);
                    self.ticket.mark(&bookmark);
                    out.extend_from_slice(&bookmark);
                }
                self.stage = WatchStage::Live;
            }
        }
        (!out.is_empty()).then(|| smallvec![out.freeze()])
    }

    /// Returns the next batch of the initial state, converted by a webhook.
    async fn initial_converted(&mut self) -> Option<FrameBytes> {
        let WatchStage::Initial(initial) = &mut self.stage else { return None };
        let (mut looked, limit) = (0, self.api.options.watch.batch_events);
        let mut objects = Vec::new();
        let mut last = None;
        for object in initial.snapshot.range(&initial.walk).take(limit) {
            if self.cursor.view().filter().matches(object) {
                objects.push(Arc::clone(object));
            }
            (last, looked) = (Some(object.key()), looked + 1);
        }
        let (end, revision) = (initial.end_bookmark, initial.revision);
        match last {
            Some(last) if looked == limit => initial.walk.advance(last),
            _ => self.stage = WatchStage::Live,
        }
        let shown =
            convert::shown(&self.api, self.format.resource(), objects, ConversionFreshness::Shared).await;
        let objects = match shown {
            Ok(objects) => objects,
            Err(status) => return self.fail(status),
        };
        let mut out = BytesMut::new();
        for object in &objects {
            let before = out.len();
            self.format.initial(object, &mut out);
            self.ticket.initial(out.len() - before);
        }
        if matches!(self.stage, WatchStage::Live) && end {
            let bookmark = self.format.bookmark(revision, true);
            self.ticket.mark(&bookmark);
            out.extend_from_slice(&bookmark);
        }
        (!out.is_empty()).then(|| smallvec![out.freeze()])
    }

    /// The events of a batch where a webhook converts the objects.
    async fn converted(&mut self, sights: &[Sight]) -> Result<FrameBytes, Status> {
        let subjects = sights.iter().filter_map(|sight| Some((sight, sight.event.subject(sight.change)?)));
        let (sights, objects): (Vec<_>, Vec<_>) =
            subjects.map(|(sight, object)| (sight, Arc::clone(object))).unzip();
        let objects =
            convert::shown(&self.api, self.format.resource(), objects, ConversionFreshness::Shared).await?;
        let events = sights.into_iter().zip(&objects);
        Ok(events
            .map(|(sight, object)| self.format.converted(sight.change.into(), object, sight.event.revision))
            .collect())
    }

    /// Waits for events, a bookmark or the end. `None` if there is nothing to send yet.
    async fn live(&mut self) -> Option<FrameBytes> {
        let limits = &self.api.options.watch;
        let portion = Portion { events: limits.batch_events, bytes: limits.batch_bytes };
        let sights = tokio::select! {
            biased;
            sights = self.cursor.next(portion) => sights,
            () = self.timer.as_mut() => return self.tick(),
        };
        match sights {
            Ok(sights) => {
                self.told = sights.last().map_or(self.told, |last| last.event.revision);
                let frames: FrameBytes = if self.format.resource().conversion.is_some() {
                    match Box::pin(self.converted(&sights)).await {
                        Ok(frames) => frames,
                        Err(status) => return self.fail(status),
                    }
                } else {
                    sights.iter().map(|sight| self.format.event(sight, &self.api.cache.frames)).collect()
                };
                self.compress(&sights, &frames);
                self.ticket.events(&frames, self.format.take_delta_count());
                (!frames.is_empty()).then_some(frames)
            }
            Err(Lost::Ended) => self.end(),
            Err(error @ Lost::Expired { .. }) => self.fail(Status::expired(error.to_string())),
            Err(Lost::Failed(error)) => self.fail(Status::internal(error)),
        }
    }

    /// Compresses the frames of events, once for all watchers that want them so.
    fn compress(&mut self, sights: &[Sight], frames: &[Bytes]) {
        let Some(member) = &mut self.gzip else { return };
        for (sight, frame) in sights.iter().zip(frames) {
            let shared = &self.api.cache.frames;
            let blocks = shared.compressed(&sight.event, sight.change, frame, |frame| {
                gzip::deflate_blocks(std::slice::from_ref(frame))
            });
            member.prepare(frame, blocks);
        }
    }

    fn fail(&mut self, status: Status) -> Option<FrameBytes> {
        self.stage = WatchStage::Failed(Box::new(status));
        None
    }

    /// The last word is a bookmark, so that the client goes on from here and not from its last event.
    fn end(&mut self) -> Option<FrameBytes> {
        self.stage = WatchStage::Ended;
        self.bookmark()
    }

    /// Handles the timer: the recheck of authorization, the deadline, or a bookmark.
    fn tick(&mut self) -> Option<FrameBytes> {
        let now = Instant::now();
        let api = &self.api;
        let allowed =
            self.guard.as_mut().is_none_or(|guard| guard.holds(&api.authenticator, &*api.authorizer, now));
        if now >= self.deadline || !allowed {
            return self.end();
        }
        let due = self.next_bookmark.is_some_and(|due| due <= now);
        let frames = if due { self.bookmark() } else { None };
        self.schedule(now);
        frames
    }

    fn bookmark(&mut self) -> Option<FrameBytes> {
        self.next_bookmark?;
        let position = self.cursor.settle().filter(|position| *position > self.told)?;
        self.told = position;
        let bookmark = self.format.bookmark(position, false);
        self.ticket.mark(&bookmark);
        Some(smallvec![bookmark])
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
