//! [`ListPieces`]: a list as JSON, tables or YAML, written piece by piece.
//!
//! Memory is one batch of objects and one piece, however long the list is. Large objects are encoded in the blocking pool
//! ([`OffloadedList`]), so that a list holds up no other request. Protobuf is [`mod@super::protobuf`].

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::{StreamExt, stream};
use listwatch_kinds::columns::are_default;
use listwatch_wire::{Revision, Status};

use crate::api::UserPool;
use crate::cache::{CachedObject, push_number};
use crate::http::body::{Body, BodyPieces, Broken, PIECE_ROOM, PieceStream};
use crate::pipeline::collected::More;
use crate::registry::Resource;
use crate::request::negotiate::ResponseShape;
use crate::respond::encode;
use crate::respond::table::{self, Include};
use crate::verbs::list::source::ListObjects;
use crate::verbs::list::text::Text;

/// Writes the parts of a list.
///
/// Shared by lists and by the response of a deleted collection.
pub(super) struct ListPartWriter {
    pub(super) resource: Arc<Resource>,
    pub(super) shape: ResponseShape,
    pub(super) include: Include,
    /// The name of the object that a table marks as the default.
    pub(super) default: Option<String>,
}

impl ListPartWriter {
    /// The text before the first item.
    fn head(&self, metadata: &[u8]) -> BytesMut {
        let mut out = BytesMut::with_capacity(1024);
        let (kind, version) = match self.shape {
            ResponseShape::Table(meta) => {
                table::head(&mut out, meta, metadata, &table::columns(&self.resource));
                return out;
            }
            ResponseShape::Metadata(meta) => ("PartialObjectMetadataList", meta.api_version().to_owned()),
            ResponseShape::Whole | ResponseShape::Unfit => {
                (&*self.resource.list_kind, self.resource.api_version())
            }
        };
        for part in [b"{\"kind\":\"", kind.as_bytes(), b"\",\"apiVersion\":\"", version.as_bytes()] {
            out.extend_from_slice(part);
        }
        out.extend_from_slice(b"\",\"metadata\":");
        out.extend_from_slice(metadata);
        out.extend_from_slice(b",\"items\":");
        out
    }

    /// The `metadata` of the list; empty for objects that are not stored. Lists of custom resources spell out an empty
    /// continue token, as in kube-apiserver.
    pub(super) fn metadata(&self, revision: Revision, more: Option<&More>) -> BytesMut {
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

    /// The items of a list that has none, in JSON. kube-apiserver leaves those of metadata-only lists unset, and the rows of
    /// kinds without columns of their own.
    fn nothing(&self) -> &'static str {
        let unset = match self.shape {
            ResponseShape::Metadata(_) => true,
            ResponseShape::Table(_) => self.resource.builtin.is_some_and(are_default),
            _ => false,
        };
        if unset { "null" } else { "[]" }
    }

    /// One item in the shape of the response.
    fn item(&self, object: &Arc<CachedObject>, out: &mut BytesMut) {
        let object = self.resource.present(object);
        match self.shape {
            // Items of built-in kinds leave out what the list already says.
            ResponseShape::Whole if !self.resource.is_custom() => object.write(b"{", out),
            ResponseShape::Whole | ResponseShape::Unfit => object.write(&self.resource.type_prefix, out),
            ResponseShape::Metadata(meta) => {
                encode::write_partial(&object, &self.resource, (object.revision(), meta), out);
            }
            ResponseShape::Table(meta) => {
                let whole = encode::object(&object, &self.resource);
                let is_default = self.default.as_deref() == Some(object.name());
                table::row(&self.resource, &whole, (meta, self.include), is_default, out);
            }
        }
    }
}

/// A list on its way out. Holds one batch of objects, one item and one piece of output, however long the list is.
pub(super) struct ListPieces {
    head: Option<BytesMut>,
    writer: ListPartWriter,
    objects: ListObjects,
    text: Text,
    /// The JSON of one item at a time, where it is not what is sent.
    scratch: BytesMut,
    /// True if no object has been written yet.
    first: bool,
    finished: bool,
    piece_bytes: usize,
}

impl ListPieces {
    /// A list that is written while it is sent, in pieces of about `piece_bytes`.
    pub(super) fn new(
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

    /// Returns true if the list is longer than this whatever its form adds: rows of tables may have little of their objects.
    async fn is_surely_above(&mut self, bytes: usize) -> Result<bool, Status> {
        let whole = self.writer.shape == ResponseShape::Whole;
        Ok(whole && self.objects.ready_bytes().await? > bytes.saturating_mul(2))
    }

    /// The next piece; the last one sets `finished`.
    async fn next(&mut self) -> Result<Bytes, Broken> {
        let mut out = self.begin();
        out.reserve(self.piece_bytes + PIECE_ROOM);
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
        self.text.end(self.first.then(|| self.writer.nothing()), &mut out);
        self.finished = true;
        Ok(out.freeze())
    }

    /// The head, once.
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

    /// Writes one item. Compact JSON goes straight to the output; other texts are made from it.
    fn item(&mut self, object: &Arc<CachedObject>, out: &mut BytesMut) {
        let first = std::mem::replace(&mut self.first, false);
        if let Text::Compact = self.text {
            out.extend_from_slice(if first { b"[" } else { b"," });
            return self.writer.item(object, out);
        }
        self.scratch.clear();
        self.writer.item(object, &mut self.scratch);
        self.text.item(&self.scratch, first, out);
    }
}

/// A list whose large objects are encoded beside the async workers.
pub(super) struct OffloadedList {
    pub(super) pieces: ListPieces,
    /// The threads for encoding; `None` if bytes are only copied.
    pub(super) blocking: Option<UserPool>,
}

impl OffloadedList {
    /// The next piece. Large objects are written in the blocking pool, so that they hold up no other connection.
    async fn next(self) -> Result<(Self, Bytes), Broken> {
        let Self { mut pieces, blocking } = self;
        let large = pieces.objects.largest_ready().await.map_err(|status| Broken(status.message))?;
        let Some(beside) = blocking.as_ref().filter(|blocking| blocking.takes(large)) else {
            if let Some(blocking) = &blocking {
                blocking.turns.enter().await;
            }
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
/// Where encoding waits for threads or turns, and the objects at hand alone are long, nothing is encoded here: a
/// request holds its seats until its response begins, and other requests of its level would wait for them.
pub(super) async fn body(mut list: OffloadedList, short: usize) -> Result<Body, Status> {
    if list.blocking.is_some() && list.pieces.is_surely_above(short).await? {
        return Ok(Body::Pieces(BodyPieces { stream: rest(list), held: 0 }));
    }
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
    let held = begun.len();
    let stream = stream::iter([Ok(begun.freeze())]).chain(rest(list)).boxed();
    Ok(Body::Pieces(BodyPieces { stream, held }))
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

#[cfg(test)]
mod tests {
    use futures::{FutureExt, TryStreamExt};
    use listwatch_storage::MemoryEngine;

    use super::*;
    use crate::CacheLimits;
    use crate::api::BlockingPool;
    use crate::cache::{Cache, Filter};
    use crate::fairness::UserTurns;
    use crate::registry::Registry;
    use crate::request::negotiate::{Encoding, ResponseForm};

    /// A list as YAML whose objects have so many bytes each, and threads to encode them.
    fn list_of_large_objects(count: usize, bytes: usize) -> OffloadedList {
        let cache = Cache::new(Arc::new(MemoryEngine::default()), CacheLimits::default());
        let resource = Registry::builtin(&cache).served().find("", "v1", "configmaps").unwrap();
        let object = |n: usize| {
            let (key, data) = (format!("/registry/configmaps/ns/c{n}"), "v".repeat(bytes));
            let value =
                format!(r#"{{"metadata":{{"name":"c{n}","namespace":"ns"}},"data":{{"k":"{data}"}}}}"#);
            Arc::new(CachedObject::new(key.into(), 21, value.into(), Revision(7)).unwrap())
        };
        let objects = ListObjects::new((0..count).map(object).collect(), None, Filter::default());
        let shape = ResponseShape::Whole;
        let writer = ListPartWriter { resource, shape, include: Include::Metadata, default: None };
        let text = Text::new(ResponseForm { encoding: Encoding::Yaml, pretty: false, shape, delta: false });
        let blocking = BlockingPool::new(0, 1).of("", UserTurns::unlimited());
        let pieces = ListPieces::new(writer, b"{}", objects, 64 << 10, text);
        OffloadedList { pieces, blocking: Some(blocking) }
    }

    /// A request has its seats until its response begins. Two hundred lists as YAML kept those of their level while they
    /// waited for the few encoding threads, and all other requests of that level waited with them.
    #[tokio::test]
    async fn a_long_list_begins_before_anything_is_encoded() {
        let body = body(list_of_large_objects(10, 100_000), 128 << 10);
        let body = body.now_or_never().expect("it waited for a thread").unwrap();
        let Body::Pieces(BodyPieces { stream, held }) = body else { panic!("it is not short") };
        assert_eq!(held, 0);
        let pieces: Vec<Bytes> = stream.map_err(|broken| broken.0).try_collect().await.unwrap();
        let text = String::from_utf8(pieces.concat()).unwrap();
        assert!((0..10).all(|n| text.contains(&format!("name: c{n}\n"))), "all of it follows");
    }

    #[tokio::test]
    async fn a_short_list_is_one_body() {
        let body = body(list_of_large_objects(1, 1000), 128 << 10).await.unwrap();
        assert!(matches!(body, Body::Full(_)));
    }
}
