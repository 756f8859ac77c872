//! WATCH: the present state if asked for, then every change, until the time is up.

mod format;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http::header::{CONTENT_ENCODING, HeaderValue, VARY};
use listwatch_wire::options::ListOptions;
use listwatch_wire::{Revision, Status};
use rand::Rng;
use smallvec::{SmallVec, smallvec};
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};

use crate::api::Api;
use crate::cache::{Cursor, Lost, Portion, Snapshot, Walk};
use crate::chain::route::Target;
use crate::chain::service::Service;
use crate::http::body::{Body, Response};
use crate::http::request::Request;
use crate::http::{gzip, websocket};
use crate::observe::{Series, WatchInfo, WatchTicket};
use crate::request::negotiate::{Form, Subject};
use crate::request::selectors;
use crate::respond;
use crate::respond::table::Include;
use crate::verbs::get::{negotiated, parse_version, wait_for};
use crate::verbs::watch::format::Format;

/// A watch that cannot be written is cut so long after its deadline: its client has stopped reading, and its turn is over.
pub(crate) const WRITE_GRACE: Duration = Duration::from_secs(5);

/// Lines to write at one time. Each may hold several events.
pub(crate) type Frames = SmallVec<[Bytes; 8]>;

/// Answers a watch.
pub(crate) async fn watch(service: &Service, request: &Request, target: &Target) -> Result<Response, Status> {
    let upgrade = websocket::negotiate(request)?;
    let form = negotiated(request, Subject::Stream, !target.resource.is_custom())?;
    let legacy = target.info.legacy_watch;
    let mut options = ListOptions::parse(&request.query())?;
    if !legacy {
        options.watch = true;
        options.set_watch_defaults();
    }
    options.check()?;
    let include = Include::wanted(form, request)?;
    let start = Start::new(&options, legacy)?;
    let compressed =
        upgrade.is_none() && start.initial && options.allow_watch_bookmarks && gzip::accepted(request);
    let stream = open(&service.api, target, &options, start, form, include, compressed).await?;
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

/// Where a watch begins.
#[derive(Clone, Copy, Debug)]
struct Start {
    version: Option<Revision>,
    /// Whether the present state comes first.
    initial: bool,
}

impl Start {
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
            version => wait_for(api, version).await,
        }
    }
}

async fn open(
    api: &Arc<Api>,
    target: &Target,
    options: &ListOptions,
    start: Start,
    form: Form,
    include: Include,
    compressed: bool,
) -> Result<Box<WatchStream>, Status> {
    let resource = &target.resource;
    let collection = &resource.collection;
    let filter = selectors::filter(resource, target.namespace(), target.info.name.as_deref(), options)?;
    let ready = start.ready(api).await;
    let (snapshot, now) = api.cache.read(collection);
    let explicit = start.version.filter(|v| *v != Revision::ZERO && !start.initial);
    let position = explicit.unwrap_or(now);
    let end_bookmark = options.allow_watch_bookmarks && !target.info.legacy_watch;
    let stage = match ready {
        Err(status) => Stage::Failed(Box::new(status)),
        Ok(()) if start.initial => {
            let walk = collection.walk(&filter, None);
            Stage::Initial(Box::new(Initial { snapshot, walk, revision: now, end_bookmark }))
        }
        Ok(()) => Stage::Live,
    };
    let cursor = api.cache.watch(collection, filter, position);
    let info = WatchInfo::new(target, cursor.view(), options.allow_watch_bookmarks);
    let deadline = Instant::now() + duration(api, options.timeout_seconds);
    let mut stream = Box::new(WatchStream {
        cursor,
        format: Format::new(Arc::clone(resource), form, include),
        ticket: api.metrics.watches.open(info, position),
        timer: Box::pin(sleep_until(deadline)),
        next_bookmark: options.allow_watch_bookmarks.then_some(deadline),
        told: position,
        api: Arc::clone(api),
        stage,
        deadline,
        gzip: compressed.then(gzip::Member::default),
    });
    stream.schedule(Instant::now());
    Ok(stream)
}

/// How long a watch lasts: as asked, or long and random, so that watches that began together do not end together.
fn duration(api: &Api, asked: Option<u32>) -> Duration {
    match asked.filter(|s| *s > 0) {
        Some(seconds) => Duration::from_secs(u64::from(seconds)),
        None => api.options.watch.min_timeout.mul_f64(rand::rng().random_range(1.0..2.0)),
    }
}

/// A watch being served.
#[derive(Debug)]
pub(crate) struct WatchStream {
    api: Arc<Api>,
    cursor: Cursor,
    format: Format,
    stage: Stage,
    ticket: WatchTicket,
    /// Goes off at the next bookmark or at the end, whichever is sooner.
    timer: Pin<Box<Sleep>>,
    deadline: Instant,
    /// When the next bookmark is due; `None` if the watcher does not want any.
    next_bookmark: Option<Instant>,
    /// The newest version the watcher has been told.
    told: Revision,
    /// Compresses what is written, if the client takes it.
    gzip: Option<gzip::Member>,
}

#[derive(Debug)]
enum Stage {
    Initial(Box<Initial>),
    Live,
    Failed(Box<Status>),
    Ended,
}

/// The present state on its way out.
#[derive(Debug)]
struct Initial {
    snapshot: Arc<Snapshot>,
    walk: Walk,
    revision: Revision,
    end_bookmark: bool,
}

impl WatchStream {
    /// Counts the request when the watch ends.
    pub(crate) fn began_as(&mut self, request: Arc<Series>, code: StatusCode) {
        self.ticket.began_as(request, code);
    }

    /// When a client that has stopped reading is not waited for any more.
    pub(crate) fn given_up_at(&self) -> Instant {
        self.deadline + WRITE_GRACE
    }

    /// Waits for something to be written, but not for a client that has stopped reading and whose turn is over.
    pub(crate) fn patiently<W>(&self, write: W) -> impl Future<Output = io::Result<()>> + use<W>
    where
        W: Future<Output = io::Result<()>>,
    {
        let until = self.given_up_at();
        async move { timeout_at(until, write).await? }
    }

    /// Whether events are bytes with their length before them, rather than lines of text.
    pub(crate) fn is_binary(&self) -> bool {
        self.format.is_binary()
    }

    /// The next lines to write; `None` at the end. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Option<Frames> {
        let Some(frames) = self.frames().await else {
            return self.gzip.as_mut().and_then(gzip::Member::end).map(|end| smallvec![end]);
        };
        if self.format.is_broken() {
            self.stage = Stage::Ended;
        }
        self.ticket.sent(&frames, self.cursor.position());
        Some(match &mut self.gzip {
            Some(member) => smallvec![member.batch(&frames)],
            None => frames,
        })
    }

    async fn frames(&mut self) -> Option<Frames> {
        loop {
            match &mut self.stage {
                Stage::Ended => return None,
                Stage::Failed(status) => {
                    let line = self.format.error(status);
                    self.ticket.mark(&line);
                    self.stage = Stage::Ended;
                    return Some(smallvec![line]);
                }
                Stage::Initial(_) => {
                    if let Some(frames) = self.initial() {
                        return Some(frames);
                    }
                }
                Stage::Live => {
                    if let Some(frames) = self.live().await {
                        return Some(frames);
                    }
                }
            }
        }
    }

    /// A batch of the present state; at its end the mark, and over to live events.
    fn initial(&mut self) -> Option<Frames> {
        let Stage::Initial(initial) = &mut self.stage else { return None };
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
                self.stage = Stage::Live;
            }
        }
        (!out.is_empty()).then(|| smallvec![out.freeze()])
    }

    async fn live(&mut self) -> Option<Frames> {
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
                let frames: Frames =
                    sights.iter().map(|sight| self.format.event(sight, &self.api.cache.frames)).collect();
                self.ticket.events(&frames);
                (!frames.is_empty()).then_some(frames)
            }
            Err(Lost::Ended) => self.end(),
            Err(error @ Lost::Expired { .. }) => self.fail(Status::expired(error.to_string())),
            Err(Lost::Failed(error)) => self.fail(Status::internal(error)),
        }
    }

    fn fail(&mut self, status: Status) -> Option<Frames> {
        self.stage = Stage::Failed(Box::new(status));
        None
    }

    /// The last word is a bookmark, so that the client goes on from here and not from its last event.
    fn end(&mut self) -> Option<Frames> {
        self.stage = Stage::Ended;
        self.bookmark()
    }

    fn tick(&mut self) -> Option<Frames> {
        let now = Instant::now();
        if now >= self.deadline {
            return self.end();
        }
        let frames = self.bookmark();
        self.schedule(now);
        frames
    }

    fn bookmark(&mut self) -> Option<Frames> {
        self.next_bookmark?;
        let position = self.cursor.settle().filter(|position| *position > self.told)?;
        self.told = position;
        let bookmark = self.format.bookmark(position, false);
        self.ticket.mark(&bookmark);
        Some(smallvec![bookmark])
    }

    /// Sets the timer: to the next bookmark, the last of which comes a little before the end, or to the end.
    fn schedule(&mut self, now: Instant) {
        let limits = &self.api.options.watch;
        let last = self.deadline - limits.bookmark_before_end.min(self.deadline - now);
        let next = match self.next_bookmark {
            Some(_) if last > now => last.min(now + limits.bookmark_every),
            _ => self.deadline,
        };
        if let Some(due) = &mut self.next_bookmark {
            *due = next;
        }
        self.timer.as_mut().reset(next);
    }
}
