//! Response bodies read piece by piece, plain or gzip.
//!
//! A watch must be decoded as it arrives, so the decompressor is fed each frame and flushed; servers end a gzip member or flush
//! after every event. A frame may expand a thousandfold: it is decompressed in pieces of bounded size. The `Content-Type` of
//! the response says whether events are deltas, which the server decides. Frames are not events: splitting into events is
//! `listwatch_wire::event::Decoder`, into list items `list_decoder`.
//!
//! Connection errors become [`SourceError`] here. `ConnectionRefused` is kept apart from other failures because the
//! reflector then retries the same watch instead of relisting, like client-go's `IsConnectionRefused`.

use std::error::Error as StdError;
use std::io::Write as _;

use bytes::{Buf, Bytes};
use flate2::write::MultiGzDecoder;
use http_body_util::BodyExt;
use kube::client::Body;
use listwatch_wire::delta;

use super::stream::SubscriptionReader;
use crate::lister_watcher::SourceError;

/// The response to a list or watch, as it comes.
pub(super) struct Chunks {
    source: ChunkSource,
    /// True if the `Content-Type` of the response is that of deltas.
    pub(super) deltas: bool,
}

/// The origin of the bytes of a watch.
enum ChunkSource {
    /// A body, decompressed as it comes. Servers compress a watch as one gzip member per event, so that each event can be
    /// read when it arrives: members are decoded one after the other, however many there are.
    Body { body: Body, gzip: Option<Box<Inflater>> },
    /// A part of a stream that carries many watches.
    Subscription(SubscriptionReader),
}

impl Chunks {
    /// Reads the body of a response, by its `Content-Encoding` and media type.
    pub(super) fn new(response: http::Response<Body>) -> Self {
        let encoding = response.headers().get(http::header::CONTENT_ENCODING);
        let compressed = encoding.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"gzip"));
        let gzip = compressed.then(Box::<Inflater>::default);
        let media_type = response.headers().get(http::header::CONTENT_TYPE);
        let deltas = media_type.is_some_and(|value| value.as_bytes() == delta::MEDIA_TYPE.as_bytes());
        Self { source: ChunkSource::Body { body: response.into_body(), gzip }, deltas }
    }

    /// The watch of a subscription.
    pub(super) fn of_subscription(reader: SubscriptionReader) -> Self {
        let deltas = reader.content_type == delta::MEDIA_TYPE;
        Self { source: ChunkSource::Subscription(reader), deltas }
    }

    /// The next piece, which may be empty; none at the end.
    pub(super) async fn next(&mut self) -> Option<Result<Bytes, SourceError>> {
        let (body, gzip) = match &mut self.source {
            ChunkSource::Body { body, gzip } => (body, gzip),
            ChunkSource::Subscription(reader) => return reader.next().await,
        };
        loop {
            if let Some(gzip) = gzip
                && !gzip.rest.is_empty()
            {
                return Some(gzip.next());
            }
            let frame = match body.frame().await? {
                Ok(frame) => frame,
                Err(error) => return Some(Err(transport(&error))),
            };
            // Trailers are not used here.
            if let Ok(data) = frame.into_data() {
                let Some(gzip) = gzip else { return Some(Ok(data)) };
                gzip.rest = data;
            }
        }
    }

    /// The rest, up to a bound: for error pages.
    pub(super) async fn collect(mut self, max: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(Ok(chunk)) = self.next().await {
            let room = max.saturating_sub(all.len());
            all.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
            if room == 0 {
                break;
            }
        }
        all
    }
}

/// A piece of decompressed data has hardly more than this for any input: the decoders behind it bound what they
/// keep, and can only do so for what they are given.
const INFLATED_PIECE: usize = 256 << 10;

/// Decompresses a body piece by piece.
struct Inflater {
    gzip: MultiGzDecoder<Vec<u8>>,
    /// Compressed bytes that have come and are not decompressed yet.
    rest: Bytes,
}

impl Default for Inflater {
    fn default() -> Self {
        Self { gzip: MultiGzDecoder::new(Vec::new()), rest: Bytes::new() }
    }
}

impl Inflater {
    /// The next piece of what has come, which may be empty.
    fn next(&mut self) -> Result<Bytes, SourceError> {
        self.inflate().map_err(|error| SourceError::Malformed(format!("gzip: {error}")))?;
        Ok(std::mem::take(self.gzip.get_mut()).into())
    }

    /// Decompresses until a piece is full or nothing is left. One call of `write` fills one buffer of the decompressor.
    fn inflate(&mut self) -> std::io::Result<()> {
        while !self.rest.is_empty() {
            if self.gzip.get_ref().len() >= INFLATED_PIECE {
                return Ok(());
            }
            match self.gzip.write(&self.rest)? {
                0 => return Err(std::io::ErrorKind::WriteZero.into()),
                taken => self.rest.advance(taken),
            }
        }
        self.gzip.flush()
    }
}

/// Sorts an error of the connection.
pub(super) fn transport(error: &(dyn StdError + 'static)) -> SourceError {
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
    let mut text = String::new();
    while let Some(error) = cause {
        let io = error.downcast_ref::<std::io::Error>();
        if io.is_some_and(|io| io.kind() == std::io::ErrorKind::ConnectionRefused) {
            return SourceError::Refused(error.to_string());
        }
        if !text.is_empty() {
            text += ": ";
        }
        text += &error.to_string();
        cause = error.source();
    }
    SourceError::Transport(text)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    /// A frame of gzip made as much memory as it expanded to, before anything could refuse it.
    #[tokio::test]
    async fn gzip_is_expanded_in_bounded_pieces() {
        let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        bomb.write_all(&vec![b' '; 64 << 20]).unwrap();
        let response = http::Response::builder().header("content-encoding", "gzip");
        let mut chunks = Chunks::new(response.body(Body::from(bomb.finish().unwrap())).unwrap());
        let (mut all, mut largest) = (0, 0);
        while let Some(chunk) = chunks.next().await {
            let length = chunk.unwrap().len();
            (all, largest) = (all + length, largest.max(length));
        }
        assert_eq!(all, 64 << 20);
        assert!(largest <= 2 * INFLATED_PIECE, "a piece of {largest} bytes");
    }
}
