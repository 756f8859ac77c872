//! LIST: a collection at one revision, whole or in pages, streamed.
//!
//! [`source`] decides which revision is shown and walks it; this file collects the first page, writes the list's
//! metadata and frames the items. Metadata precedes the items in the response, so with `limit` the whole page is read
//! before its first byte is sent, to know the continue token and `remainingItemCount`. Without a limit, memory is one
//! piece (`RequestLimits::piece_bytes`) however long the list is.
//!
//! JSON and YAML are written by [`text`], protobuf by [`mod@protobuf`]: it needs the total length first. A WATCH that
//! begins with the state does not come here, see [`super::watch`].

mod continue_token;
mod protobuf;
mod slice;
mod source;
mod text;

use std::sync::Arc;

use crate::verbs::list::continue_token::{ContinueToken, TokenVersion};
use bytes::{Bytes, BytesMut};
use futures::{StreamExt, stream};
use http::StatusCode;
use listwatch_wire::options::ListOptions;
use listwatch_wire::{Revision, Status};

use crate::api::convert::{self, ConversionFreshness};
use crate::api::{Api, BlockingPool};
use crate::cache::{Filter, Object, push_number};
use crate::http::body::{Body, Broken, PieceStream, Response};
use crate::http::gzip;
use crate::pipeline::collected::{CollectedPage, More};
use crate::registry::Resource;
use crate::request::ResourceRequest;
use crate::request::negotiate::{self, Encoding, ResponseForm, ResponseShape, ResponseSubject};
use crate::request::selectors;
use crate::respond;
use crate::respond::encode;
use crate::respond::table;
use crate::respond::table::Include;
use crate::verbs::list::protobuf::ProtobufListEncoder;
use crate::verbs::list::slice::TimeSlice;
use crate::verbs::list::source::{ListObjects, ListSource, resolve};
use crate::verbs::list::text::Text;

/// Objects looked at before the first piece is given out: enough to fill one, few enough not to hold up the thread.
const LOOK: usize = 128;

/// Answers a list.
///
/// # Errors
/// 400 for options that contradict each other, 406, 410 for a revision or continue token that is too old, 504 for a
/// revision that does not come in time. An error after the first byte breaks the stream instead.
///
/// Costs what is sent: stored bytes are copied, objects that do not match are looked at. Seats have been taken
/// before, in the handler chain.
pub(crate) async fn list(api: &Arc<Api>, target: &ResourceRequest) -> Result<Response, Status> {
    let request = &target.request.http;
    let form = negotiate::negotiated(request, ResponseSubject::List, !target.resource.is_custom())?;
    let options = ListOptions::parse(&request.query)?;
    options.check()?;
    let resource = &target.resource;
    let filter = selectors::filter(resource, target.namespace(), None, &options)?;
    let include = Include::wanted(form, request)?;
    let mut source = resolve(api, &resource.collection, &filter, &options).await?;
    let mut page =
        first(api, resource, &filter, &mut source).await.map_err(|error| source.refusal(&error))?;
    page.objects = convert::shown(api, resource, page.objects, ConversionFreshness::Shared).await?;
    let writer = ListPartWriter { resource: Arc::clone(resource), shape: form.shape, include };
    let metadata = writer.metadata(source.revision, page.more.as_ref());
    let objects = ListObjects::new(page.objects, page.whole.then_some(source.walker), filter);
    let objects = objects.converted_for(api, resource);
    let body = encoded(api, writer, form, &metadata, objects).await?;
    let response = respond::with_type(StatusCode::OK, form.content_type(), body);
    Ok(gzip::compress(response, request, api.options.requests.gzip_above))
}

/// The list in the encoding asked for, a long one in pieces.
async fn encoded(
    api: &Api,
    writer: ListPartWriter,
    form: ResponseForm,
    metadata: &[u8],
    objects: ListObjects,
) -> Result<Body, Status> {
    let limits = &api.options.requests;
    match form.encoding {
        Encoding::Protobuf => {
            ProtobufListEncoder::new(&writer.resource, form.shape, metadata)?.body(objects, limits).await
        }
        _ => {
            let text = Text::new(form);
            // Only what is sent as it is stored costs no more than a copy.
            let copied = matches!(
                (&text, form.shape),
                (Text::Compact, ResponseShape::Whole | ResponseShape::Metadata(_))
            );
            let blocking = (!copied).then(|| api.blocking.clone());
            let pieces = ListPieces::new(writer, metadata, objects, limits.piece_bytes, text);
            body(OffloadedList { pieces, blocking }, limits.gzip_above).await
        }
    }
}

/// The part of a list that is known before the first byte is written.
struct ListPage {
    objects: Vec<Arc<Object>>,
    /// True if the list goes on to the end of the walk.
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
        resource: &Arc<Resource>,
        form: ResponseForm,
        include: Include,
    ) -> Result<Body, Status> {
        let writer = ListPartWriter { resource: Arc::clone(resource), shape: form.shape, include };
        let metadata = writer.metadata(self.revision, self.more.as_ref());
        let objects = ListObjects::new(self.objects, None, Filter::default());
        encoded(api, writer, form, &metadata, objects).await
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

/// The continue token and remaining count of a page. The snapshot is pinned for the next page; the count is
/// remembered, so that pages do not count again and again.
///
/// Pins are bounded by the cache; a page after a pin is gone is read from the engine's history.
fn more(
    api: &Api,
    resource: &Resource,
    filter: &Filter,
    source: &ListSource,
    objects: &[Arc<Object>],
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

/// Writes the parts of a list.
///
/// Shared by lists and by the answer of a deleted collection.
struct ListPartWriter {
    resource: Arc<Resource>,
    shape: ResponseShape,
    include: Include,
}

impl ListPartWriter {
    fn head(&self, metadata: &[u8]) -> BytesMut {
        let mut out = BytesMut::with_capacity(1024);
        let (kind, version) = match self.shape {
            ResponseShape::Table(meta) => {
                table::head(&mut out, meta, metadata, &table::columns(&self.resource));
                return out;
            }
            ResponseShape::Metadata(meta) => ("PartialObjectMetadataList", meta.api_version().to_owned()),
            ResponseShape::Whole => (&*self.resource.list_kind, self.resource.api_version()),
        };
        for part in [b"{\"kind\":\"", kind.as_bytes(), b"\",\"apiVersion\":\"", version.as_bytes()] {
            out.extend_from_slice(part);
        }
        out.extend_from_slice(b"\",\"metadata\":");
        out.extend_from_slice(metadata);
        out.extend_from_slice(b",\"items\":[");
        out
    }

    /// The `metadata` of the list; empty for objects that are not stored. Lists of custom resources spell out an empty
    /// continue token, as in kube-apiserver.
    fn metadata(&self, revision: Revision, more: Option<&More>) -> BytesMut {
        if revision == Revision(0) {
            return BytesMut::from(&b"{}"[..]);
        }
        let mut out = BytesMut::from(&b"{\"resourceVersion\":\""[..]);
        push_number(&mut out, revision.0);
        out.extend_from_slice(b"\"");
        // Lists of custom resources spell out an empty token.
        let spelled = self.resource.is_custom() && self.shape == ResponseShape::Whole;
        if more.is_some() || spelled {
            out.extend_from_slice(b",\"continue\":\"");
            out.extend_from_slice(more.map_or("", |m| m.token.as_str()).as_bytes());
            out.extend_from_slice(b"\"");
        }
        if let Some(remaining) = more.and_then(|m| m.remaining) {
            out.extend_from_slice(b",\"remainingItemCount\":");
            push_number(&mut out, remaining);
        }
        out.extend_from_slice(b"}");
        out
    }

    /// Stored bytes are copied with the metadata put in; only tables parse the object.
    fn item(&self, object: &Arc<Object>, out: &mut BytesMut) {
        let object = self.resource.present(object);
        match self.shape {
            // Items of built-in kinds leave out what the list already says.
            ResponseShape::Whole if !self.resource.is_custom() => object.write(b"{", out),
            ResponseShape::Whole => object.write(&self.resource.type_prefix, out),
            ResponseShape::Metadata(meta) => {
                object.write_metadata(object.revision(), meta.partial_prefix(), out)
            }
            ResponseShape::Table(meta) => {
                let whole = encode::object(&object, &self.resource);
                table::row(&self.resource, &whole, (meta, self.include), out);
            }
        }
    }
}

/// A list on its way out. Holds one batch of objects, one item and one piece of output, however long the list is.
struct ListPieces {
    /// Everything before the first item; taken by the first piece.
    head: Option<BytesMut>,
    writer: ListPartWriter,
    objects: ListObjects,
    text: Text,
    /// The JSON of one item at a time, where it is not what is sent.
    scratch: BytesMut,
    /// True if no object has been written yet.
    first: bool,
    finished: bool,
    /// Bytes after which a piece is given out. One object more may be in it.
    piece_bytes: usize,
}

impl ListPieces {
    fn new(
        writer: ListPartWriter,
        metadata: &[u8],
        objects: ListObjects,
        piece_bytes: usize,
        text: Text,
    ) -> Self {
        let head = Some(writer.head(metadata));
        Self {
            head,
            writer,
            objects,
            text,
            scratch: BytesMut::new(),
            first: true,
            finished: false,
            piece_bytes,
        }
    }

    /// The next piece; the last one sets `finished`.
    async fn next(&mut self) -> Result<Bytes, Broken> {
        let mut out = self.begin();
        out.reserve(self.piece_bytes);
        loop {
            while let Some(object) = self.objects.next_ready() {
                self.item(&object, &mut out);
                if out.len() >= self.piece_bytes {
                    return Ok(out.freeze());
                }
            }
            if !self.objects.refill().await.map_err(|status| Broken(status.message))? {
                break;
            }
        }
        self.text.end(self.first, &mut out);
        self.finished = true;
        Ok(out.freeze())
    }

    fn begin(&mut self) -> BytesMut {
        match (self.head.take(), &mut self.text) {
            (None, _) => BytesMut::new(),
            (Some(head), Text::Compact) => head,
            (Some(head), text) => {
                let mut out = BytesMut::new();
                text.begin(&head, &mut out);
                out
            }
        }
    }

    fn item(&mut self, object: &Arc<Object>, out: &mut BytesMut) {
        let first = std::mem::replace(&mut self.first, false);
        if let Text::Compact = self.text {
            if !first {
                out.extend_from_slice(b",");
            }
            return self.writer.item(object, out);
        }
        self.scratch.clear();
        self.writer.item(object, &mut self.scratch);
        self.text.item(&self.scratch, first, out);
    }
}

/// A list whose large objects are encoded beside the async workers.
struct OffloadedList {
    pieces: ListPieces,
    /// The threads for encoding; `None` if bytes are only copied.
    blocking: Option<BlockingPool>,
}

impl OffloadedList {
    async fn next(self) -> Result<(Self, Bytes), Broken> {
        let Self { mut pieces, blocking } = self;
        let large = pieces.objects.largest_ready().await.map_err(|status| Broken(status.message))?;
        let Some(beside) = blocking.as_ref().filter(|blocking| blocking.takes(large)) else {
            let piece = pieces.next().await?;
            return Ok((Self { pieces, blocking }, piece));
        };
        let work = async move {
            let piece = pieces.next().await;
            Ok((pieces, piece))
        };
        let (pieces, piece) = beside.run(work).await.map_err(|status| Broken(status.message))?;
        Ok((Self { pieces, blocking }, piece?))
    }
}

/// A short list as one body, a long one in pieces.
///
/// `short` is where compression and chunking begin to pay.
///
/// At most `short` bytes and one piece are held before the response begins, and from then on one piece.
async fn body(mut list: OffloadedList, short: usize) -> Result<Body, Status> {
    let mut begun = BytesMut::new();
    while !list.pieces.finished && begun.len() <= short {
        let piece;
        (list, piece) = list.next().await.map_err(Status::internal)?;
        if list.pieces.finished && begun.is_empty() {
            return Ok(Body::Full(piece));
        }
        begun.extend_from_slice(&piece);
    }
    if list.pieces.finished {
        return Ok(Body::Full(begun.freeze()));
    }
    Ok(Body::Pieces(stream::iter([Ok(begun.freeze())]).chain(rest(list)).boxed()))
}

/// A list whose connection ends is dropped between two pieces.
fn rest(list: OffloadedList) -> PieceStream {
    stream::unfold(Some(list), |state| async move {
        let list = state.filter(|list| !list.pieces.finished)?;
        match list.next().await {
            Ok((list, piece)) => Some((Ok(piece), Some(list))),
            Err(error) => Some((Err(error), None)),
        }
    })
    .boxed()
}
