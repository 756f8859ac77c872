//! Compression of large answers.

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::{StreamExt, stream};
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, HeaderValue, VARY};

use super::body::{Body, Broken, PieceStream, Response};
use super::request::Request;

/// The fastest level: the point is the network, and the CPU is shared with every other client.
const LEVEL: Compression = Compression::new(1);

/// Whether the client takes gzip. Qualities are ignored, as in the reference.
pub(crate) fn accepted(request: &Request) -> bool {
    let accepted = request.headers.get_all(ACCEPT_ENCODING).iter().filter_map(|v| v.to_str().ok());
    accepted.flat_map(|v| v.split(',')).any(|v| v.split(';').next().is_some_and(|v| v.trim() == "gzip"))
}

/// Compresses an answer that is large enough, if the client takes it.
pub(crate) fn compress(mut response: Response, request: &Request, above: usize) -> Response {
    let large = match response.body() {
        Body::Full(bytes) => bytes.len() > above,
        Body::Pieces(_) => true,
        _ => false,
    };
    if !large || !accepted(request) {
        return response;
    }
    response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    response.map(|body| match body {
        Body::Full(bytes) => Body::Pieces(pieces(stream::iter([Ok(bytes)]).boxed())),
        Body::Pieces(stream) => Body::Pieces(pieces(stream)),
        other => other,
    })
}

/// Compresses piece by piece, holding only what the compressor holds.
fn pieces(input: PieceStream) -> PieceStream {
    let encoder = GzEncoder::new(Vec::new(), LEVEL);
    stream::unfold(Some((input, encoder)), |state| async move {
        let (mut input, mut encoder) = state?;
        loop {
            match input.next().await {
                Some(Ok(piece)) => {
                    if let Err(error) = encoder.write_all(&piece) {
                        return Some((Err(Broken(error.to_string())), None));
                    }
                    let out = std::mem::take(encoder.get_mut());
                    if !out.is_empty() {
                        return Some((Ok(Bytes::from(out)), Some((input, encoder))));
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

/// One self-contained gzip member: a watch sends one per batch, and keeps no compressor while it is idle.
pub(crate) fn member(frames: &[Bytes]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), LEVEL);
    // Writing to memory does not fail.
    let _ = frames.iter().try_for_each(|frame| encoder.write_all(frame));
    encoder.finish().unwrap_or_default().into()
}
