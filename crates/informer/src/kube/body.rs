//! Response bodies read piece by piece, plain or gzip.
//!
//! A watch must be decoded as it arrives, so the decompressor is fed each frame and flushed; servers end a gzip member
//! or flush after every event. The `Content-Type` of the response says whether events are deltas, which the server
//! decides. Frames are not events: splitting into events is `listwatch_wire::event::Decoder`, into list items
//! `list_decoder`.
//!
//! Connection errors become [`SourceError`] here. `ConnectionRefused` is kept apart from other failures because the
//! reflector then retries the same watch instead of relisting, like client-go's `IsConnectionRefused`.

use std::error::Error as StdError;
use std::io::Write as _;

use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use http_body_util::BodyExt;
use kube::client::Body;
use listwatch_wire::delta;

use super::stream::SubscriptionReader;
use crate::lister_watcher::SourceError;

/// The answer to a list or watch, as it comes.
pub(super) struct Chunks {
    source: ChunkSource,
    /// The server says that it sends changes as patches.
    pub(super) deltas: bool,
}

/// The origin of the bytes of a watch.
enum ChunkSource {
    /// A body, decompressed as it comes. Servers compress a watch as one gzip member per event, so that each event can be
    /// read when it arrives: members are decoded one after the other, however many there are.
    Body { body: Body, gzip: Option<Box<MultiGzDecoder<Vec<u8>>>> },
    /// A part of a stream that carries many watches.
    Subscription(SubscriptionReader),
}

impl Chunks {
    /// Reads the body of a response, by its `Content-Encoding` and media type.
    pub(super) fn new(response: http::Response<Body>) -> Self {
        let encoding = response.headers().get(http::header::CONTENT_ENCODING);
        let compressed = encoding.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"gzip"));
        let gzip = compressed.then(|| Box::new(MultiGzDecoder::new(Vec::new())));
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
            let frame = match body.frame().await? {
                Ok(frame) => frame,
                Err(error) => return Some(Err(transport(&error))),
            };
            // Trailers say nothing that matters here.
            if let Ok(data) = frame.into_data() {
                return Some(match gzip {
                    Some(gzip) => decompress(gzip, &data),
                    None => Ok(data),
                });
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

fn decompress(gzip: &mut MultiGzDecoder<Vec<u8>>, data: &[u8]) -> Result<Bytes, SourceError> {
    let malformed = |error: std::io::Error| SourceError::Malformed(format!("gzip: {error}"));
    gzip.write_all(data).and_then(|()| gzip.flush()).map_err(malformed)?;
    Ok(std::mem::take(gzip.get_mut()).into())
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
