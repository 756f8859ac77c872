//! The source of a list: which revision it shows, and a walk over it in key order.
//!
//! The semantics of `resourceVersion`, `resourceVersionMatch`, `limit` and `continue` are kube-apiserver's: absent is
//! a consistent read, 0 is any state, a number is a lower bound, exact with `Exact`, a limit or a continue token. The
//! current state is a snapshot in memory; an older one is a pinned snapshot ([`crate::cache`]) or, failing that, a
//! range read at that revision in the engine's history, until it is compacted (410 with a token to continue at the
//! latest revision).
//!
//! Encoding is [`super`]; the token's format is `continue_token.rs`.

use std::sync::Arc;

use crate::verbs::list::continue_token::{ContinueToken, TokenVersion};
use listwatch_storage::{Engine, Range};
use listwatch_wire::options::{ListOptions, VersionMatch};
use listwatch_wire::{Revision, Status};

use crate::api::Api;
use crate::api::convert::{self, ConversionFreshness};
use crate::cache::fresh::storage_status;
use crate::cache::{CachedObject, Collection, CollectionSnapshot, Filter, Walk};
use crate::registry::Resource;
use crate::request::selectors::parse_version;
use crate::verbs::slice::TimeSlice;

/// The resource that kube-apiserver does not serve from its watch cache: version 0 is not "any state" and a limit
/// always holds for it.
const UNCACHED: &str = "events";

/// Objects read in one go: few enough not to hold up the thread when none of them match.
const REFILL: usize = 32;

/// The revision that a list shows, and where its objects come from.
#[derive(Debug)]
pub(crate) struct ListSource {
    /// The revision that the list shows.
    pub(crate) revision: Revision,
    /// The storage key a continued list begins at.
    pub(crate) from: Option<String>,
    pub(crate) walker: Walker,
    /// The limit to keep to; zero for none.
    pub(crate) limit: u64,
    /// The token that led here.
    token: Option<ContinueToken>,
}

/// A walk over a state in key order. A clone walks the same state from the same position.
///
/// Cloning a walk in memory shares the snapshot; one in history shares the engine. Protobuf lists are walked twice
/// that way.
#[derive(Clone, Debug)]
pub(crate) enum Walker {
    /// In memory.
    Memory { snapshot: Arc<CollectionSnapshot>, walk: Walk },
    /// In the engine's history.
    History { engine: Arc<dyn Engine>, collection: Arc<Collection>, next: Option<Range>, remaining: u64 },
}

/// The objects of a list, a few of them at hand and the others still in the state.
///
/// Converts in the background of the list where a webhook is needed, one refill at a time.
#[derive(Clone, Debug)]
pub(crate) struct ListObjects {
    /// Objects that were read and match.
    ready: std::vec::IntoIter<Arc<CachedObject>>,
    /// The source of further objects, until its end.
    walker: Option<Walker>,
    filter: Filter,
    /// The resource that shows them, if a webhook converts them.
    converted: Option<(Arc<Api>, Arc<Resource>)>,
    slice: TimeSlice,
}

/// The meaning of a position in the state.
enum ListMoment {
    /// At least as new as the revision that was waited for.
    Now,
    /// Exactly then.
    Exactly(Revision),
}

/// Decides which state the options ask for, and waits for it.
///
/// Waiting is bounded by `RequestLimits::version_wait`.
///
/// # Errors
/// 400 for invalid options or tokens, 500 if an object of it cannot be read, 410 for a compacted revision, 504 for a
/// revision that does not come in time.
pub(crate) async fn resolve(
    api: &Api,
    collection: &Arc<Collection>,
    filter: &Filter,
    options: &ListOptions,
) -> Result<ListSource, Status> {
    let version = parse_version(&options.resource_version)?;
    let token = continued(options, version)?;
    let uncached = collection.name() == UNCACHED;
    let wanted = version.filter(|version| !(uncached && *version == Revision::ZERO));
    let moment = moment(api, options, wanted, token.as_ref()).await;
    let moment = moment.map_err(|status| about_version(collection, status))?;
    api.cache.damage.check(&collection.scope(filter))?;
    let from = token.as_ref().map(|token| format!("{}{}", collection.scope(filter), token.start()));
    let (revision, walker) = open(api, collection, filter, moment, from.as_deref());
    // With `resourceVersion=0` the limit is ignored, because one response from memory is cheaper than pages; kube-apiserver
    // does so for resources with a watch cache.
    let any = version == Some(Revision::ZERO) && !uncached;
    let limit = if any { 0 } else { options.limit };
    Ok(ListSource { revision, from, walker, limit, token })
}

/// The error of a version that does not come in time, about a collection.
pub(crate) fn about_version(collection: &Collection, status: Status) -> Status {
    if collection.name() == UNCACHED { without_retry(status) } else { status }
}

/// Where kube-apiserver asks its store instead of its watch cache, it does not ask clients to try again.
fn without_retry(mut status: Status) -> Status {
    if let Some(details) = status.details.as_mut() {
        details.retry_after_seconds = 0;
    }
    status
}

/// The continue token, checked against the other options.
fn continued(options: &ListOptions, version: Option<Revision>) -> Result<Option<ContinueToken>, Status> {
    if options.continue_token.is_empty() {
        return Ok(None);
    }
    if version.is_some_and(|v| v != Revision::ZERO) {
        return Err(Status::bad_request("specifying resource version is not allowed when using continue"));
    }
    let token = ContinueToken::decode(&options.continue_token);
    token.map(Some).map_err(|error| Status::bad_request(format!("invalid continue token: {error}")))
}

/// The revision that the options ask for, after waiting until the cache has it. A limit makes a resourceVersion
/// exact, so that pages of one list fit together.
async fn moment(
    api: &Api,
    options: &ListOptions,
    version: Option<Revision>,
    token: Option<&ContinueToken>,
) -> Result<ListMoment, Status> {
    match token.map(ContinueToken::version) {
        Some(TokenVersion::At(revision)) => return exactly(api, Revision(revision)).await,
        Some(TokenVersion::Latest) => {
            api.wait_for(None).await?;
            return Ok(ListMoment::Now);
        }
        None => {}
    }
    match (version, &options.resource_version_match) {
        (Some(version), Some(VersionMatch::Exact)) => exactly(api, version).await,
        // A limit makes a version exact, so that the pages of old clients fit together.
        (Some(version), None) if version != Revision::ZERO && options.limit > 0 => {
            exactly(api, version).await
        }
        (version, _) => {
            api.wait_for(version).await?;
            Ok(ListMoment::Now)
        }
    }
}

/// Waits until the cache has reached the revision.
async fn exactly(api: &Api, revision: Revision) -> Result<ListMoment, Status> {
    api.wait_for(Some(revision)).await?;
    Ok(ListMoment::Exactly(revision))
}

/// Opens the state: the current snapshot if it is or still equals the revision, a pinned one, or the engine's
/// history.
///
/// A collection that has not changed since the asked revision is that revision: most continued lists end here.
fn open(
    api: &Api,
    collection: &Arc<Collection>,
    filter: &Filter,
    moment: ListMoment,
    from: Option<&str>,
) -> (Revision, Walker) {
    let walk = collection.walk(filter, from);
    let (snapshot, now) = api.cache.read(collection);
    let ListMoment::Exactly(revision) = moment else { return (now, Walker::Memory { snapshot, walk }) };
    // Without a change since the revision, the present state is the state at it.
    if snapshot.revision() <= revision {
        return (revision, Walker::Memory { snapshot, walk });
    }
    if let Some(snapshot) = api.cache.pins.get(collection, revision) {
        return (revision, Walker::Memory { snapshot, walk });
    }
    let (start, end) = walk.bounds();
    let range = Range { start, end, limit: api.options.cache.engine_page, at: Some(revision) };
    let (engine, collection) = (Arc::clone(&api.engine), Arc::clone(collection));
    (revision, Walker::History { engine, collection, next: Some(range), remaining: 0 })
}

impl ListSource {
    /// The error for a state that is no longer kept. A continued list may resume at the latest one.
    pub(crate) fn refusal(&self, error: &listwatch_storage::Error) -> Status {
        let mut status = storage_status(error);
        if let (true, Some(token)) = (status.is_expired(), &self.token) {
            status.message = "The provided continue parameter is too old to display a consistent list result. \
                 You can start a new list without the continue parameter, or use the continue token in this response \
                 to retrieve the remainder of the results. Continuing with the provided token results in an \
                 inconsistent list - objects that were created, modified, or deleted between the time the first \
                 chunk was returned and now may show up in the list."
                .to_owned();
            status.metadata.continue_token = token.at_latest().encode();
        }
        status
    }
}

impl ListObjects {
    /// The objects in `ready`, then those of the walk that match.
    pub(crate) fn new(ready: Vec<Arc<CachedObject>>, walker: Option<Walker>, filter: Filter) -> Self {
        Self { ready: ready.into_iter(), walker, filter, converted: None, slice: TimeSlice::begin() }
    }

    /// Converts objects that are read later to the version of the resource, if a webhook does that.
    pub(crate) fn converted_for(mut self, api: &Arc<Api>, resource: &Arc<Resource>) -> Self {
        let wanted = resource.conversion.is_some();
        self.converted = wanted.then(|| (Arc::clone(api), Arc::clone(resource)));
        self
    }

    /// Returns all objects that are left, after those that the caller has taken out already.
    pub(crate) fn after(&self, mut taken: Vec<Arc<CachedObject>>) -> Self {
        taken.extend(self.ready.clone());
        let (walker, converted) = (self.walker.clone(), self.converted.clone());
        Self { converted, ..Self::new(taken, walker, self.filter.clone()) }
    }

    /// Returns the next object that is already read; `None` means that [`ListObjects::refill`] should be tried.
    pub(crate) fn next_ready(&mut self) -> Option<Arc<CachedObject>> {
        self.ready.next()
    }

    /// The bytes of all that are at hand, of which there are some if there are more.
    pub(crate) async fn ready_bytes(&mut self) -> Result<usize, Status> {
        self.largest_ready().await?;
        Ok(self.ready.as_slice().iter().map(|object| object.stored().len()).sum())
    }

    /// The bytes of the largest one at hand, of which there are some if there are more.
    pub(crate) async fn largest_ready(&mut self) -> Result<usize, Status> {
        if self.ready.as_slice().is_empty() {
            self.refill().await?;
        }
        Ok(self.ready.as_slice().iter().map(|object| object.stored().len()).max().unwrap_or(0))
    }

    /// Gets more to hand, if only to find that none of them match; false at the end.
    pub(crate) async fn refill(&mut self) -> Result<bool, Status> {
        let Some(walker) = &mut self.walker else { return Ok(false) };
        self.slice.yield_when_used_up().await;
        let found = walker.next(REFILL).await.map_err(|error| storage_status(&error))?;
        if found.is_empty() {
            self.walker = None;
        }
        let mut wanted: Vec<_> = found.into_iter().filter(|object| self.filter.matches(object)).collect();
        if let Some((api, resource)) = &self.converted {
            wanted = convert::shown(api, resource, wanted, ConversionFreshness::Shared).await?;
        }
        self.ready = wanted.into_iter();
        Ok(true)
    }
}

impl Walker {
    /// The next objects in key order, whether they match or not, about `max` of them. None at the end.
    ///
    /// # Errors
    ///
    /// Those of the engine, for a walk in history.
    pub(crate) async fn next(
        &mut self,
        max: usize,
    ) -> Result<Vec<Arc<CachedObject>>, listwatch_storage::Error> {
        match self {
            Self::Memory { snapshot, walk } => {
                let objects: Vec<_> = snapshot.range(walk).take(max).cloned().collect();
                if let Some(last) = objects.last() {
                    walk.advance(last.key());
                }
                Ok(objects)
            }
            Self::History { engine, collection, next, remaining } => loop {
                let Some(range) = next.take() else { return Ok(Vec::new()) };
                let page = engine.range(range.clone()).await?;
                let read = page.items.len() as u64;
                *remaining = page.count.saturating_sub(read);
                if let (Some(last), true) = (page.items.last(), *remaining > 0) {
                    *next = Some(Range { start: format!("{}\0", last.key).into(), ..range });
                }
                let objects: Vec<_> = page
                    .items
                    .into_iter()
                    .filter_map(|i| collection.object(&i.key, i.value, i.revision))
                    .collect();
                if !objects.is_empty() {
                    return Ok(objects);
                }
            },
        }
    }

    /// The number of objects after the last key that was returned; `held` were returned after it.
    ///
    /// Counts keys of the snapshot, a walk without looking at objects.
    pub(crate) fn remaining(&self, held: usize) -> u64 {
        match self {
            Self::Memory { snapshot, walk } => (snapshot.count(walk) + held) as u64,
            Self::History { remaining, .. } => remaining + held as u64,
        }
    }

    /// The snapshot it goes through, if it is one.
    pub(crate) fn snapshot(&self) -> Option<&Arc<CollectionSnapshot>> {
        match self {
            Self::Memory { snapshot, .. } => Some(snapshot),
            Self::History { .. } => None,
        }
    }
}
