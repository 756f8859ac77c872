//! Gzip: large responses, and watches that begin with the state of a collection, for clients that accept it.
//!
//! Level 1 and the rule for `Accept-Encoding` are kube-apiserver's. Lists are compressed piece by piece, so that
//! memory stays that of the compressor. A watch is one gzip member that is flushed after each batch ([`GzipMember`]);
//! a member per batch would be held back by Go's reader until the next one begins. Small events are in it as they are.
//!
//! The threshold is `RequestLimits::gzip_above`, passed in by the verbs and by OpenAPI. `HEAD` is never compressed,
//! because its `Content-Length` is that of the plain body.

use std::cell::RefCell;
use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use flate2::write::GzEncoder;
use flate2::{Compress, Compression, Crc, FlushCompress};
use futures::{StreamExt, stream};
use http::Method;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, HeaderValue, VARY};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::http::body::{Body, BodyPieces, Broken, FrameBytes, PieceStream, Response};
use crate::http::request::Request;

/// The fastest level: the point is the network, and the CPU is shared with every other client.
const LEVEL: Compression = Compression::new(1);

/// Returns true if the client accepts gzip. Qualities are ignored, as in kube-apiserver.
pub(crate) fn accepted(request: &Request) -> bool {
    let accepted = request.headers.get_all(ACCEPT_ENCODING).iter().filter_map(|v| v.to_str().ok());
    accepted.flat_map(|v| v.split(',')).any(|v| v.split(';').next().is_some_and(|v| v.trim() == "gzip"))
}

/// Compresses a response of more than `above` bytes if the client accepts gzip. Streamed bodies count as large: their
/// length is not known. Watches are left alone; they compress their own batches with [`GzipMember`].
///
/// A compressor is held until its client has read all, so each takes a permit of `room`. Without one the response is sent as it is,
/// which every client accepts.
pub(crate) fn compress(
    mut response: Response,
    request: &Request,
    above: usize,
    room: &Arc<Semaphore>,
) -> Response {
    let large = match response.body() {
        Body::Full(bytes) => bytes.len() > above,
        Body::Pieces(_) => true,
        _ => false,
    };
    // The response to HEAD has the length of the uncompressed body.
    if !large || request.method == Method::HEAD || !accepted(request) {
        return response;
    }
    let Ok(permit) = Arc::clone(room).try_acquire_owned() else { return response };
    response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    response.headers_mut().append(VARY, HeaderValue::from_static("Accept-Encoding"));
    response.map(|body| match body {
        Body::Full(bytes) => {
            let held = bytes.len() + COMPRESSOR;
            Body::Pieces(BodyPieces {
                stream: pieces(stream::iter(cut(bytes).map(Ok)).boxed(), permit),
                held,
            })
        }
        Body::Pieces(BodyPieces { stream, held }) => {
            Body::Pieces(BodyPieces { stream: pieces(stream, permit), held: held + COMPRESSOR })
        }
        other => other,
    })
}

/// About the memory of a compressor: its window and tables.
pub(crate) const COMPRESSOR: usize = 256 << 10;

/// A long response is compressed so many bytes at a time: megabytes at once would hold up the worker.
const PIECE: usize = 64 << 10;

/// Slices of the same memory; nothing is copied.
fn cut(mut bytes: Bytes) -> impl Iterator<Item = Bytes> {
    std::iter::from_fn(move || (!bytes.is_empty()).then(|| bytes.split_to(bytes.len().min(PIECE))))
}

/// Compresses piece by piece, holding only what the compressor holds, and a permit for that.
fn pieces(input: PieceStream, permit: OwnedSemaphorePermit) -> PieceStream {
    let encoder = GzEncoder::new(Vec::new(), LEVEL);
    stream::unfold(Some((input, encoder, permit)), |state| async move {
        let (mut input, mut encoder, permit) = state?;
        loop {
            match input.next().await {
                Some(Ok(piece)) => {
                    if let Err(error) = encoder.write_all(&piece) {
                        return Some((Err(Broken(error.to_string())), None));
                    }
                    let out = std::mem::take(encoder.get_mut());
                    if !out.is_empty() {
                        return Some((Ok(Bytes::from(out)), Some((input, encoder, permit))));
                    }
                }
                Some(Err(error)) => return Some((Err(error), None)),
                None => {
                    let last = encoder.finish().map(Bytes::from).map_err(|e| Broken(e.to_string()));
                    return Some((last, None));
                }
            }
        }
    })
    .boxed()
}

/// The first bytes of a gzip member: deflate, no name, no time, compressed fast, unknown system.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 0xff];
/// The last deflate block of a member, without contents.
const LAST_BLOCK: [u8; 2] = [3, 0];

/// An empty stored block, which is what a flush ends with. Go's reader returns the data before it; the data of a stored block
/// that nothing follows it keeps.
const FLUSH: [u8; 5] = [0, 0, 0, 0xff, 0xff];

/// Frames of up to this many bytes are stored in the member as they are: alone, an object of one or two KiB shrinks by a third, which
/// saves no packet or one, and compressing it costs more than everything else that is done for the event.
const STORED: usize = 4 << 10;

thread_local! {
    /// The compressor of a thread. Making a new one takes longer than compressing an event.
    static THREAD_COMPRESSOR: RefCell<Compress> = RefCell::new(Compress::new(LEVEL, false));
}

/// A watch as one gzip member that grows by batches.
///
/// Go's reader returns the data before the end of a member only after it has seen the next one begin, so a member per batch
/// would withhold each batch until the next. Here the member ends with the watch. What is compressed refers to nothing before
/// it: an idle watch keeps a checksum and a length only, and [`deflate_blocks`] serve any number of watches.
#[derive(Debug, Default)]
pub(crate) struct GzipMember {
    /// Checksum and length of the plain bytes so far, for the end of the member.
    checksum: Crc,
    stage: MemberStage,
    /// Frames of the next batch that are compressed already.
    compressed: FrameBytes,
    /// The last of them is stored as it is, so that a flush has to follow.
    is_unflushed: bool,
}

/// A member that never had a batch is never begun, so an empty watch has an empty body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum MemberStage {
    #[default]
    BeforeHeader,
    Open,
    Ended,
}

/// Frames as deflate blocks that end at a byte and refer to nothing before them, so that any blocks may follow and precede.
pub(crate) fn deflate_blocks(frames: &[Bytes]) -> Bytes {
    let length: usize = frames.iter().map(Bytes::len).sum();
    let mut out = Vec::with_capacity(length / 3 + 64);
    THREAD_COMPRESSOR.with_borrow_mut(|compressor| {
        compressor.reset();
        frames.iter().for_each(|frame| deflate(compressor, frame, FlushCompress::None, &mut out));
        deflate(compressor, &[], FlushCompress::Sync, &mut out);
    });
    out.into()
}

/// Appends the compressed form of the input, as far as the compressor does not hold it back.
fn deflate(compressor: &mut Compress, mut input: &[u8], flush: FlushCompress, out: &mut Vec<u8>) {
    loop {
        out.reserve(64);
        let (before, length) = (compressor.total_in(), out.len());
        // Fails only after the end of a stream, which is never reached here.
        let _ = compressor.compress_vec(input, out, flush);
        let read = usize::try_from(compressor.total_in() - before).unwrap_or(input.len());
        input = input.get(read..).unwrap_or_default();
        // An output with room left means that there was no more to write.
        let is_done = input.is_empty() && out.len() < out.capacity();
        let is_stuck = read == 0 && out.len() == length;
        if is_done || is_stuck {
            return;
        }
    }
}

/// The bytes before so many that a deflate block holds as they are.
fn stored_head(length: u16) -> Bytes {
    let [low, high] = length.to_le_bytes();
    Bytes::copy_from_slice(&[0, low, high, !low, !high])
}

impl GzipMember {
    /// Prepares a frame for the next [`Self::batch`]: in the compressed form that `shared` returns, if there is one. A small
    /// frame stays as it is.
    pub(crate) fn prepare(&mut self, frame: &Bytes, shared: impl FnOnce() -> Option<Bytes>) {
        if !self.store(frame) {
            let blocks = shared().unwrap_or_else(|| deflate_blocks(std::slice::from_ref(frame)));
            self.compressed.push(blocks);
            self.is_unflushed = false;
        }
    }

    /// Stores a frame as it is, if it is small.
    fn store(&mut self, frame: &Bytes) -> bool {
        let Some(length) = u16::try_from(frame.len()).ok().filter(|length| usize::from(*length) <= STORED)
        else {
            return false;
        };
        self.compressed.extend([stored_head(length), frame.clone()]);
        self.is_unflushed = true;
        true
    }

    /// A batch, compressed up to its last byte. The header precedes the first.
    pub(crate) fn batch(&mut self, frames: &[Bytes]) -> FrameBytes {
        frames.iter().for_each(|frame| self.checksum.update(frame));
        if let ([frame], true) = (frames, self.compressed.is_empty()) {
            self.prepare(frame, || None);
        }
        let mut blocks = std::mem::take(&mut self.compressed);
        if blocks.is_empty() {
            blocks.push(deflate_blocks(frames));
        }
        if std::mem::take(&mut self.is_unflushed) {
            blocks.push(Bytes::from_static(&FLUSH));
        }
        if std::mem::replace(&mut self.stage, MemberStage::Open) == MemberStage::BeforeHeader {
            blocks.insert(0, Bytes::from_static(&HEADER));
        }
        blocks
    }

    /// Ends the member: the last block, then checksum and length. `None` if there is nothing to end.
    pub(crate) fn end(&mut self) -> Option<Bytes> {
        if std::mem::replace(&mut self.stage, MemberStage::Ended) != MemberStage::Open {
            return None;
        }
        let mut out = LAST_BLOCK.to_vec();
        out.extend_from_slice(&self.checksum.sum().to_le_bytes());
        out.extend_from_slice(&self.checksum.amount().to_le_bytes());
        Some(out.into())
    }
}

#[cfg(test)]
mod tests {
    use flate2::{Decompress, FlushDecompress, Status};

    use super::*;

    /// Go's `compress/gzip`, which reads on after a member: data before the end of a member is returned only when the next
    /// member's header, or the end of the stream, has been seen. Within a member, data is returned when an empty stored
    /// block follows it.
    #[derive(Default)]
    struct GoReader {
        input: Vec<u8>,
        inflate: Option<Decompress>,
        withheld: Vec<u8>,
        checksum: Crc,
    }

    impl GoReader {
        /// Returns what a read would return after these bytes have arrived.
        fn read(&mut self, bytes: &[u8]) -> Vec<u8> {
            self.input.extend_from_slice(bytes);
            loop {
                if self.inflate.is_none() {
                    if self.input.len() < HEADER.len() {
                        return Vec::new();
                    }
                    self.input.drain(..HEADER.len());
                    self.inflate = Some(Decompress::new(false));
                }
                let inflate = self.inflate.as_mut().unwrap();
                let (mut out, before) = (Vec::with_capacity(4 << 20), inflate.total_in());
                let status = inflate.decompress_vec(&self.input, &mut out, FlushDecompress::Sync).unwrap();
                let read = usize::try_from(inflate.total_in() - before).unwrap();
                self.input.drain(..read);
                self.checksum.update(&out);
                self.withheld.extend(out);
                if status != Status::StreamEnd {
                    let is_flushed = bytes.ends_with(&FLUSH[1..]);
                    return if is_flushed { std::mem::take(&mut self.withheld) } else { Vec::new() };
                }
                let trailer: Vec<u8> = self.input.drain(..8).collect();
                assert_eq!(trailer[..4], self.checksum.sum().to_le_bytes(), "checksum");
                assert_eq!(trailer[4..], self.checksum.amount().to_le_bytes(), "length");
                (self.inflate, self.checksum) = (None, Crc::new());
            }
        }

        /// Returns what was withheld when the stream ends here.
        fn end(self) -> Vec<u8> {
            assert!(self.inflate.is_none() && self.input.is_empty(), "unexpected EOF");
            self.withheld
        }
    }

    /// Go clients hung on their first list: each batch was a separate gzip member, and Go waits for the header of the
    /// next one.
    #[test]
    fn a_reader_like_gos_gets_each_batch_when_it_arrives() {
        let (mut member, mut reader) = (GzipMember::default(), GoReader::default());
        for batch in ["first\n", "second\n", &"third ".repeat(20_000)] {
            let frames = [Bytes::from(batch.to_owned()), Bytes::from_static(b"end\n")];
            let read = reader.read(&member.batch(&frames).concat());
            assert_eq!(String::from_utf8(read).unwrap(), format!("{batch}end\n"));
        }
        let read = reader.read(&member.end().unwrap());
        assert_eq!((read.len(), reader.end().len()), (0, 0));
        assert_eq!(member.end(), None);
    }

    #[test]
    fn blocks_that_were_made_for_others_fit_in_anywhere() {
        let shared = [Bytes::from("an event ".repeat(2000)), Bytes::from_static(b"another\n")];
        let blocks: Vec<_> = shared.iter().map(|frame| deflate_blocks(std::slice::from_ref(frame))).collect();
        for before in ["", "a frame of its own\n"] {
            let (mut member, mut reader) = (GzipMember::default(), GoReader::default());
            let before = Bytes::from_static(before.as_bytes());
            assert_eq!(reader.read(&member.batch(std::slice::from_ref(&before)).concat()), before);
            member.prepare(&shared[0], || Some(blocks[0].clone()));
            member.prepare(&shared[1], || None);
            assert_eq!(reader.read(&member.batch(&shared).concat()), shared.concat());
            reader.read(&member.end().unwrap());
            reader.end();
        }
    }

    /// Two thirds of the instructions of a Pod's way from its creation to its node were spent on compressing its events.
    #[test]
    fn small_events_are_not_compressed_and_large_ones_do_not_depend_on_what_came_before() {
        let (small, large) = (Bytes::from(vec![b'x'; STORED]), Bytes::from(vec![b'x'; STORED + 1]));
        let first = deflate_blocks(std::slice::from_ref(&large));
        let (mut member, mut reader) = (GzipMember::default(), GoReader::default());
        for frame in [&small, &large, &small, &large] {
            member.prepare(frame, || None);
            let blocks = member.batch(std::slice::from_ref(frame));
            assert_eq!(reader.read(&blocks.concat()), **frame);
            match frame.len() <= STORED {
                true => assert!(blocks.iter().any(|block| block.as_ptr() == frame.as_ptr()), "not copied"),
                false => assert_eq!(blocks.last(), Some(&first)),
            }
        }
        reader.read(&member.end().unwrap());
        reader.end();
    }

    /// A list is one member too, so that nothing of it is withheld.
    #[tokio::test]
    async fn a_list_is_one_member() {
        let input = stream::iter((0..200).map(|i| Ok(Bytes::from(format!("{i} ").repeat(2000))))).boxed();
        let permit = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let (mut out, mut reader, mut text) = (pieces(input, permit), GoReader::default(), Vec::new());
        while let Some(piece) = out.next().await {
            text.extend(reader.read(&piece.unwrap()));
        }
        text.extend(reader.end());
        assert_eq!(
            String::from_utf8(text).unwrap(),
            (0..200).map(|i| format!("{i} ").repeat(2000)).collect::<String>()
        );
    }

    /// Four hundred clients that asked for long lists in gzip and read nothing held as many compressors: 250 MB.
    #[test]
    fn no_more_is_compressed_at_a_time_than_there_is_room_for() {
        let mut headers = http::HeaderMap::new();
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        let request = Request::new(Method::GET, "/", headers, true);
        let room = Arc::new(Semaphore::new(1));
        let answer = || compress(Response::new(Body::Full(vec![b'x'; 1000].into())), &request, 100, &room);
        let is_compressed = |response: &Response| response.headers().contains_key(CONTENT_ENCODING);
        let (first, second) = (answer(), answer());
        assert!(is_compressed(&first) && !is_compressed(&second));
        assert!(matches!(second.body(), Body::Full(bytes) if bytes.len() == 1000), "as it is");
        drop(first);
        assert!(is_compressed(&answer()), "the first client has read it, or has gone");
    }

    #[test]
    fn a_watch_without_events_has_nothing_to_end() {
        assert_eq!(GzipMember::default().end(), None);
    }
}
