//! LIST: a collection at one revision, whole or in pages, streamed.
//!
//! [`source`] decides which revision is shown and walks it; this file collects the first page, [`pieces`] writes the list's
//! metadata and frames the items. Metadata precedes the items in the response, so with `limit` the whole page is read
//! before its first byte is sent, to know the continue token and `remainingItemCount`. Without a limit, memory is one
//! piece (`RequestLimits::piece_bytes`) however long the list is.
//!
//! JSON and YAML are written by [`text`], protobuf by [`mod@protobuf`]: it needs the total length first. A WATCH that
//! begins with the state does not come here, see [`super::watch`].

pub(crate) mod continue_token;
mod pieces;
mod protobuf;
pub(crate) mod source;
mod text;

use std::sync::Arc;

use crate::verbs::list::continue_token::{ContinueToken, TokenVersion};
use http::StatusCode;
use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::Value;
use listwatch_wire::options::ListOptions;

use crate::admission::default_class;
use crate::api::convert::{self, ConversionFreshness};
use crate::api::{Api, UserPool, unreadable};
use crate::cache::{CachedObject, Filter};
use crate::http::body::{Body, Response};
use crate::http::gzip;
use crate::pipeline::collected::{CollectedPage, More};
use crate::registry::Resource;
use crate::request::ResourceRequest;
use crate::request::negotiate::{self, Encoding, ResponseForm, ResponseShape, ResponseSubject, Serving};
use crate::request::selectors;
use crate::respond;
use crate::respond::table::Include;
use crate::verbs::list::pieces::{ListPartWriter, ListPieces, OffloadedList, body};
use crate::verbs::list::protobuf::ProtobufListEncoder;
use crate::verbs::list::source::{ListObjects, ListSource, resolve};
use crate::verbs::list::text::Text;
use crate::verbs::slice::TimeSlice;
use crate::verbs::unfit;

/// Objects looked at before the first piece is given out: enough to fill one, few enough not to hold up the thread.
const LOOK: usize = 128;

/// Answers a list.
///
/// Costs what is sent: stored bytes are copied, objects that do not match are looked at. Seats have been taken
/// before, in the handler chain.
///
/// # Errors
/// 400 for options that contradict each other, 406, 410 for a revision or continue token that is too old, 504 for a
/// revision that does not come in time. An error after the first byte breaks the stream instead.
pub(crate) async fn list(api: &Arc<Api>, target: &ResourceRequest) -> Result<Response, Status> {
    let request = &target.request.http;
    let form = negotiate::negotiated(request, ResponseSubject::List, Serving::of(&target.resource))?;
    let options = ListOptions::parse(&request.query)?;
    options.check()?;
    let resource = &target.resource;
    let filter = selectors::filter(resource, target.namespace(), None, &options)?;
    let include = Include::wanted(form, request)?;
    let mut source = resolve(api, &resource.collection, &filter, &options).await?;
    let mut page =
        first(api, resource, &filter, &mut source).await.map_err(|error| source.refusal(&error))?;
    if resource.conversion.is_some() {
        let shown = convert::shown(api, resource, page.objects.clone(), ConversionFreshness::Shared).await;
        page.objects = shown.map_err(|why| unreadable::of_list(resource, &page.objects, &why))?;
    }
    let writer = ListPartWriter { resource: Arc::clone(resource), shape: form.shape, include, default: None };
    let metadata = writer.metadata(source.revision, page.more.as_ref());
    let objects = ListObjects::new(page.objects, page.whole.then_some(source.walker), filter);
    let objects = in_table_order(resource, form.shape, objects.converted_for(api, resource)).await?;
    let blocking = api.blocking_for(&target.user.name);
    let body = encoded(api, &blocking, writer, form, &metadata, objects).await?;
    let response = respond::with_type(StatusCode::OK, form.content_type(), body);
    Ok(gzip::compress(response, request, api.options.requests.gzip_above, &api.compressors))
}

/// The list in the encoding asked for, a long one in pieces.
async fn encoded(
    api: &Api,
    blocking: &UserPool,
    mut writer: ListPartWriter,
    form: ResponseForm,
    metadata: &[u8],
    objects: ListObjects,
) -> Result<Body, Status> {
    if form.shape == ResponseShape::Unfit {
        return Err(unfit::list(&writer.resource));
    }
    writer.default = default_row(&writer, &objects).await?;
    let limits = &api.options.requests;
    match form.encoding {
        Encoding::Protobuf => {
            ProtobufListEncoder::new(&writer.resource, form.shape, metadata)?
                .body(objects, limits, &api.kept_lists, &blocking.turns)
                .await
        }
        _ => {
            let text = Text::new(form);
            // Objects that are sent as they are stored are only copied; all other forms are work for a blocking thread.
            let copied = matches!(
                (&text, form.shape),
                (Text::Compact, ResponseShape::Whole | ResponseShape::Metadata(_))
            );
            let blocking = (!copied).then(|| blocking.clone());
            let pieces = ListPieces::new(writer, metadata, objects, limits.piece_bytes, text);
            body(OffloadedList { pieces, blocking }, limits.gzip_above).await
        }
    }
}

/// Sorts the rows of a table of FlowSchemas by precedence. Tables of other kinds, and lists, are in the order of names.
async fn in_table_order(
    resource: &Resource,
    shape: ResponseShape,
    mut objects: ListObjects,
) -> Result<ListObjects, Status> {
    let is_schema = (&*resource.group, &*resource.plural) == ("flowcontrol.apiserver.k8s.io", "flowschemas");
    if !is_schema || !matches!(shape, ResponseShape::Table(_)) {
        return Ok(objects);
    }
    let mut sorted = Vec::new();
    loop {
        sorted.extend(std::iter::from_fn(|| objects.next_ready()));
        if !objects.refill().await? {
            break;
        }
    }
    sorted.sort_by_cached_key(|schema| {
        let schema = Value::read(schema.stored()).unwrap_or_default();
        schema.at("spec").int("matchingPrecedence")
    });
    Ok(ListObjects::new(sorted, None, Filter::default()))
}

/// The StorageClass of a list that its table marks as the default. Reads the classes twice, of which there are few.
async fn default_row(writer: &ListPartWriter, objects: &ListObjects) -> Result<Option<String>, Status> {
    let is_class =
        (&*writer.resource.group, &*writer.resource.plural) == ("storage.k8s.io", "storageclasses");
    if !is_class || !matches!(writer.shape, ResponseShape::Table(_)) {
        return Ok(None);
    }
    let (mut objects, mut classes) = (objects.clone(), Vec::new());
    loop {
        let ready = std::iter::from_fn(|| objects.next_ready());
        classes.extend(ready.filter_map(|class| Value::read(class.stored()).ok()));
        if !objects.refill().await? {
            return Ok(default_class(&classes).map(str::to_owned));
        }
    }
}

/// The part of a list that is known before the first byte is written.
struct ListPage {
    objects: Vec<Arc<CachedObject>>,
    /// True if the list includes the whole walk.
    whole: bool,
    /// Set if a limit cut the list.
    more: Option<More>,
}

/// Collects all objects that match, or one page of them if there is a limit. Everything is held in memory: deletion
/// of a collection needs the list before it begins.
///
/// # Errors
///
/// As [`list`].
pub(crate) async fn collect(
    api: &Api,
    resource: &Resource,
    filter: &Filter,
    options: &ListOptions,
) -> Result<CollectedPage, Status> {
    let mut source = resolve(api, &resource.collection, filter, options).await?;
    let page = first(api, resource, filter, &mut source).await.map_err(|error| source.refusal(&error))?;
    let (revision, mut objects) = (source.revision, page.objects);
    let mut rest = ListObjects::new(Vec::new(), page.whole.then_some(source.walker), filter.clone());
    while rest.refill().await? {
        objects.extend(std::iter::from_fn(|| rest.next_ready()));
    }
    Ok(CollectedPage { objects, revision, more: page.more })
}

impl CollectedPage {
    /// The list in the form asked for, a long one in pieces.
    pub(crate) async fn body(
        self,
        api: &Api,
        blocking: &UserPool,
        resource: &Arc<Resource>,
        form: ResponseForm,
        include: Include,
    ) -> Result<Body, Status> {
        let writer =
            ListPartWriter { resource: Arc::clone(resource), shape: form.shape, include, default: None };
        let metadata = writer.metadata(self.revision, self.more.as_ref());
        let objects = ListObjects::new(self.objects, None, Filter::default());
        encoded(api, blocking, writer, form, &metadata, objects).await
    }
}

/// Collects the first objects. With `limit` that is the whole page, because the continue token precedes the items in
/// the response.
async fn first(
    api: &Api,
    resource: &Resource,
    filter: &Filter,
    source: &mut ListSource,
) -> Result<ListPage, listwatch_storage::Error> {
    let limit = usize::try_from(source.limit).unwrap_or(usize::MAX);
    let (mut objects, mut slice) = (Vec::new(), TimeSlice::begin());
    loop {
        slice.yield_when_used_up().await;
        // One more than the page, to know whether there is more.
        let wanted =
            if limit == 0 { LOOK } else { LOOK.min(limit.saturating_sub(objects.len()).saturating_add(1)) };
        let found = source.walker.next(wanted).await?;
        if found.is_empty() {
            return Ok(ListPage { objects, whole: false, more: None });
        }
        if limit == 0 {
            objects.extend(found.into_iter().filter(|o| filter.matches(o)));
            return Ok(ListPage { objects, whole: true, more: None });
        }
        for (i, object) in found.iter().enumerate() {
            if objects.len() == limit {
                let held = found.len() - i;
                let more = more(api, resource, filter, source, &objects, held);
                return Ok(ListPage { objects, whole: false, more });
            }
            if filter.matches(object) {
                objects.push(Arc::clone(object));
            }
        }
    }
}

/// The continue token and remaining count of a page. The snapshot is pinned for the next page; the count is kept, so
/// that later pages need not count again.
///
/// Pins are bounded by the cache; a page whose pin was dropped is read from the engine's history.
fn more(
    api: &Api,
    resource: &Resource,
    filter: &Filter,
    source: &ListSource,
    objects: &[Arc<CachedObject>],
    held: usize,
) -> Option<More> {
    let last = objects.last()?;
    let collection = &resource.collection;
    let scope = collection.scope(filter);
    let relative = last.key().strip_prefix(scope.as_str()).unwrap_or(last.path());
    let token = ContinueToken::after(TokenVersion::At(source.revision.0), relative);
    if let Some(snapshot) = source.walker.snapshot() {
        api.cache.pins.keep(collection, source.revision, snapshot);
    }
    let remaining = (!filter.has_selector()).then(|| {
        let known = source
            .from
            .as_deref()
            .and_then(|from| api.cache.pins.remaining(collection, source.revision, from));
        let remaining = match known {
            Some(known) => known.saturating_sub(objects.len() as u64),
            None => source.walker.remaining(held),
        };
        api.cache.pins.remember(collection, source.revision, &format!("{scope}{}", token.start()), remaining);
        remaining
    });
    Some(More { token: token.encode(), remaining })
}
