//! [`WatchPlan`]: a watch with its parsed options, and its start.
//!
//! An ordinary watch begins as soon as its plan is made; one of many in a stream when its turn comes. All errors that
//! can be detected early are returned here, before the response begins: afterwards only an `ERROR` event is possible.
//! Writing events is `writer`.

use std::sync::Arc;
use std::time::Duration;

use listwatch_wire::options::ListOptions;
use listwatch_wire::{Revision, Status};
use rand::RngExt;

use crate::api::{Api, MemoryReservation};
use crate::auth::Recheck;
use crate::cache::{Cursor, Filter, View};
use crate::http::request::Request;
use crate::observe::{WatchBacklog, WatchInfo};
use crate::request::ResourceRequest;
use crate::request::negotiate::{ResponseForm, ResponseSubject, Serving, is_stream_refusal, negotiated};
use crate::request::selectors;
use crate::request::selectors::parse_version;
use crate::respond::table::Include;
use crate::verbs::watch::format::EventFormat;
use crate::verbs::watch::writer::{EventWriter, InitialState};

/// A valid watch request.
///
/// Parsing and starting are separate because a stream admits several watches before the first starts.
#[derive(Debug)]
pub(crate) struct WatchPlan {
    pub(crate) form: ResponseForm,
    include: Include,
    filter: Filter,
    version: Option<Revision>,
    /// True if the present state comes first.
    pub(super) initial: bool,
    pub(super) bookmarks: bool,
    /// After what time it shall end.
    pub(crate) timeout: Option<Duration>,
    /// The memory of a long selector, for as long as the watch is open.
    selector: Option<Arc<MemoryReservation>>,
}

/// Selectors up to this length are not counted: a watch takes up more than they do.
const SHORT_SELECTOR: usize = 1 << 10;

/// A watch that has begun.
///
/// Holds a snapshot only while initial events are to be sent.
pub(crate) struct BegunWatch {
    pub(crate) cursor: Cursor,
    pub(crate) writer: EventWriter,
    /// The present state, if it comes first.
    pub(crate) initial: Option<Box<InitialState>>,
    /// The revision after which its events begin.
    pub(crate) position: Revision,
}

impl WatchPlan {
    /// Reads the options of a watch.
    ///
    /// # Errors
    /// 400, 406 or 422; 429 if the user has too many watches with long selectors.
    pub(crate) fn new(api: &Api, target: &ResourceRequest) -> Result<Self, Status> {
        let request = &target.request.http;
        let form = negotiated(request, ResponseSubject::Stream, Serving::of(&target.resource));
        let form = match form {
            Err(status) if !is_stream_refusal(&status) => return Err(status),
            later => later,
        };
        let legacy = target.info.legacy_watch;
        let mut options = ListOptions::parse(&request.query)?;
        if !legacy {
            options.watch = true;
            options.set_watch_defaults();
        }
        options.check()?;
        let (namespace, name) = (target.namespace(), target.info.name.as_deref());
        let filter = selectors::filter(&target.resource, namespace, name, &options)?;
        let form = form?;
        let include = Include::wanted(form, request)?;
        let version = parse_version(&options.resource_version)?;
        let anywhere = version.is_none_or(|v| v == Revision::ZERO);
        Ok(Self {
            form,
            include,
            filter,
            version,
            initial: options.send_initial_events.unwrap_or(legacy && anywhere),
            bookmarks: options.allow_watch_bookmarks,
            selector: reserve(api, target)?,
            timeout: timeout(request, &options)?,
        })
    }

    /// Waits for what must be there before the watch can begin.
    ///
    /// # Errors
    /// 504 if that takes too long.
    pub(crate) async fn ready(&self, api: &Api) -> Result<(), Status> {
        match self.version {
            // Without initial events a version of the future is simply waited for by being silent until then.
            Some(version) if version != Revision::ZERO && !self.initial => Ok(()),
            version => api.wait_for(version).await,
        }
    }

    /// Begins the watch: snapshot and cursor are taken at the same revision, so that nothing is lost or sent twice between
    /// initial and live events.
    ///
    /// Does not wait and does not fail: a position that history no longer has shows when the cursor is read.
    pub(crate) fn begin(&self, api: &Api, target: &ResourceRequest) -> BegunWatch {
        let resource = &target.resource;
        let collection = &resource.collection;
        let (snapshot, now) = api.cache.read(collection);
        let explicit = self.version.filter(|v| *v != Revision::ZERO && !self.initial);
        let position = explicit.unwrap_or(now);
        let walk = collection.walk(&self.filter, None);
        let cursor = api.cache.watch(collection, self.filter.clone(), position);
        let end_bookmark = self.bookmarks && !target.info.legacy_watch;
        let view = Arc::clone(cursor.view());
        let initial =
            self.initial.then(|| Box::new(InitialState::new(snapshot, walk, view, now, end_bookmark)));
        let info = describe(target, cursor.view(), self.bookmarks);
        let format = EventFormat::new(Arc::clone(resource), self.form, self.include);
        let turns = api.fairness.turns_for_pieces(&target.user.name);
        let ticket = api.metrics.watches.open(info, position);
        let writer = EventWriter::new(format, ticket, turns, self.selector.clone());
        BegunWatch { cursor, writer, initial, position }
    }
}

/// Takes the memory of the selectors of a watch, if they are long.
///
/// # Errors
/// 429 if the selectors of the user's open watches leave no room.
fn reserve(api: &Api, target: &ResourceRequest) -> Result<Option<Arc<MemoryReservation>>, Status> {
    let query = &target.request.http.query;
    let bytes = query.text("labelSelector").len() + query.text("fieldSelector").len();
    if bytes <= SHORT_SELECTOR {
        return Ok(None);
    }
    let full =
        || Status::too_many_requests("too many open watches have long selectors, please try again later", 1);
    api.selectors.try_enter(&target.user.name, bytes).map(|held| Some(Arc::new(held))).ok_or_else(full)
}

/// The duration of a watch or a stream: as asked, or long and random, so that those that began together do not end together.
///
/// Returns the time that a client asks for. Zero is none; a negative one is over when the watch begins, as in kube-apiserver.
fn timeout(request: &Request, options: &ListOptions) -> Result<Option<Duration>, Status> {
    if request.query.integer("timeoutSeconds")?.is_some_and(|seconds| seconds < 0) {
        return Ok(Some(Duration::ZERO));
    }
    Ok(options.timeout_seconds.filter(|s| *s > 0).map(|s| Duration::from_secs(u64::from(s))))
}

/// Between one and two times `WatchLimits::min_timeout`, as kube-apiserver's `--min-request-timeout`.
pub(crate) fn duration(api: &Api, asked: Option<Duration>) -> Duration {
    asked.unwrap_or_else(|| api.options.watch.min_timeout.mul_f64(rand::rng().random_range(1.0..2.0)))
}

/// The credentials and attributes that the watch was authorized with, to be checked again.
pub(crate) fn recheck(api: &Api, target: &ResourceRequest) -> Option<Box<Recheck>> {
    let every = api.options.watch.recheck_every?;
    let headers = &target.request.http.headers;
    let recheck =
        target.request.with_attributes(|a| Recheck::new(&api.authenticator, &target.user, headers, a, every));
    Some(Box::new(recheck))
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
