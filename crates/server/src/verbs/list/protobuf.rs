//! A list in protobuf: [`ProtobufListEncoder`].
//!
//! The envelope has the length of the list before its first item, so everything must be encoded before the first byte
//! is sent. The beginning is kept, up to `RequestLimits::protobuf_bytes` and as far as `RequestLimits::protobuf_lists_bytes`
//! leaves room; of the rest only the length is, and it is encoded once more when it is sent. A list shows one revision, so
//! both passes give the same bytes. Text forms are `text.rs`, single documents [`crate::respond`].

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt, stream};
use listwatch_kinds::proto::ListWriter;
use listwatch_wire::Status;
use listwatch_wire::json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::RequestLimits;
use crate::cache::CachedObject;
use crate::fairness::UserTurns;
use crate::http::body::{Body, BodyPieces, Broken, PieceStream};
use crate::registry::Resource;
use crate::request::negotiate::ResponseShape;
use crate::respond::encode::write_partial;
use crate::verbs::list::source::ListObjects;

/// Encodes the items of a list; the JSON of one object at a time is held beside the output.
///
/// Each object is parsed and encoded, unlike in JSON, where bytes are copied. Clients of built-in types ask for it by
/// default.
pub(crate) struct ProtobufListEncoder {
    resource: Arc<Resource>,
    shape: ResponseShape,
    list: ListWriter,
    /// The JSON of one object at a time.
    scratch: BytesMut,
}

/// The sizes of a list once all of it has been encoded.
struct MeasuredList {
    /// All bytes of all items.
    items: u64,
    /// The first of them, and the room that they take.
    kept: Vec<Bytes>,
    room: Option<OwnedSemaphorePermit>,
    /// The objects after those, to be encoded again.
    rest: Option<ListObjects>,
}

impl ProtobufListEncoder {
    /// An encoder of a list of this resource. `metadata` is that of the list, in JSON.
    pub(crate) fn new(
        resource: &Arc<Resource>,
        shape: ResponseShape,
        metadata: &[u8],
    ) -> Result<Self, Status> {
        let metadata = Value::read(metadata).map_err(Status::internal)?;
        let list = match shape {
            ResponseShape::Metadata(meta) => {
                ListWriter::new(meta.api_version(), "PartialObjectMetadata", &metadata)
            }
            _ => ListWriter::new(&resource.api_version(), &resource.kind, &metadata),
        };
        let list = list.map_err(Status::internal)?;
        Ok(Self { resource: Arc::clone(resource), shape, list, scratch: BytesMut::new() })
    }

    /// Returns the list of these objects. A list above `RequestLimits::protobuf_bytes` is encoded twice: its length
    /// precedes its items.
    ///
    /// # Errors
    /// 500 for an object that does not fit its schema.
    pub(crate) async fn body(
        mut self,
        objects: ListObjects,
        limits: &RequestLimits,
        room: &Arc<Semaphore>,
        turns: &UserTurns,
    ) -> Result<Body, Status> {
        let measured = self.measure(objects, limits, room, turns).await?;
        let head = Bytes::from(self.list.begin(measured.items));
        let held = measured.kept.iter().map(Bytes::len).sum();
        let pieces = [head].into_iter().chain(measured.kept);
        let Some(rest) = measured.rest else {
            let pieces: Vec<Bytes> = pieces.chain([Bytes::from_static(self.list.end())]).collect();
            return Ok(whole(pieces, measured.room, limits));
        };
        let stream = stream::iter(pieces.map(Ok)).chain(self.again(rest, limits.piece_bytes));
        Ok(Body::Pieces(BodyPieces { stream: holding(measured.room, stream), held }))
    }

    /// Encodes the whole list to find its length, keeping the beginning. Yields between pieces, because nothing is
    /// written in that time.
    ///
    /// Memory is bounded by `protobuf_bytes` and what `room` is left for all lists, time by two encodings.
    async fn measure(
        &mut self,
        mut objects: ListObjects,
        limits: &RequestLimits,
        room: &Arc<Semaphore>,
        turns: &UserTurns,
    ) -> Result<MeasuredList, Status> {
        let mut measured = MeasuredList { items: 0, kept: Vec::new(), room: None, rest: None };
        loop {
            turns.enter().await;
            let mut taken = measured.rest.is_none().then(Vec::new);
            let Some(piece) = self.piece(&mut objects, limits.piece_bytes, taken.as_mut()).await? else {
                return Ok(measured);
            };
            let fits = measured.items < limits.protobuf_bytes as u64;
            measured.items += piece.len() as u64;
            if let Some(taken) = taken {
                match fits && measured.reserve(piece.len(), room) {
                    true => measured.kept.push(piece),
                    false => measured.rest = Some(objects.after(taken)),
                }
            }
            // Nothing is written here, so the worker must be released explicitly.
            tokio::task::yield_now().await;
        }
    }

    /// The items that were not kept, encoded again, and the end of the list.
    fn again(self, rest: ListObjects, bytes: usize) -> impl Stream<Item = Result<Bytes, Broken>> {
        stream::unfold(Some((self, rest)), move |state| async move {
            let (mut encoder, mut objects) = state?;
            match encoder.piece(&mut objects, bytes, None).await {
                Ok(Some(piece)) => Some((Ok(piece), Some((encoder, objects)))),
                Ok(None) => Some((Ok(Bytes::from_static(encoder.list.end())), None)),
                Err(status) => Some((Err(Broken(status.message)), None)),
            }
        })
    }

    /// The next items, about so many bytes; `None` at the end. Their objects are added to `taken`.
    async fn piece(
        &mut self,
        objects: &mut ListObjects,
        bytes: usize,
        mut taken: Option<&mut Vec<Arc<CachedObject>>>,
    ) -> Result<Option<Bytes>, Status> {
        // Kept pieces take what they were allocated with; growing would double it.
        let mut out = Vec::with_capacity(bytes.saturating_add(bytes / 16));
        loop {
            while let Some(object) = objects.next_ready() {
                self.item(&object, &mut out)?;
                if let Some(taken) = &mut taken {
                    taken.push(object);
                }
                if out.len() >= bytes {
                    return Ok(Some(out.into()));
                }
            }
            if !objects.refill().await? {
                return Ok((!out.is_empty()).then(|| out.into()));
            }
        }
    }

    /// Encodes one item. Objects are stored as JSON, so that each is parsed for this.
    fn item(&mut self, object: &Arc<CachedObject>, out: &mut Vec<u8>) -> Result<(), Status> {
        let object = self.resource.present(object);
        self.scratch.clear();
        match self.shape {
            ResponseShape::Metadata(meta) => {
                write_partial(&object, &self.resource, (object.revision(), meta), &mut self.scratch);
            }
            _ => object.write(b"{", &mut self.scratch),
        }
        let value = Value::read(&self.scratch).map_err(Status::internal)?;
        self.list.item(&value, out).map_err(Status::internal)
    }
}

impl MeasuredList {
    /// Reserves memory for more of the list. Returns false if there is none.
    fn reserve(&mut self, bytes: usize, room: &Arc<Semaphore>) -> bool {
        let more = u32::try_from(bytes).ok();
        let Some(more) = more.and_then(|bytes| Arc::clone(room).try_acquire_many_owned(bytes).ok()) else {
            return false;
        };
        match &mut self.room {
            Some(room) => room.merge(more),
            none => *none = Some(more),
        }
        true
    }
}

/// A stream that holds its reservation until it is dropped.
fn holding(
    room: Option<OwnedSemaphorePermit>,
    stream: impl Stream<Item = Result<Bytes, Broken>> + Send + 'static,
) -> PieceStream {
    let held = move |_: &_| {
        let _room = &room;
    };
    stream.inspect(held).boxed()
}

/// A list that is all there: as one if it is short.
fn whole(pieces: Vec<Bytes>, room: Option<OwnedSemaphorePermit>, limits: &RequestLimits) -> Body {
    let held = pieces.iter().map(Bytes::len).sum::<usize>();
    if held <= limits.gzip_above {
        return Body::Full(pieces.concat().into());
    }
    Body::Pieces(BodyPieces { stream: holding(room, stream::iter(pieces.into_iter().map(Ok))), held })
}
