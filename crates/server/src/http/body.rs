//! Bodies of responses: whole, in pieces, or a stream of events.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use http::StatusCode;
use smallvec::SmallVec;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout_at};

use crate::observe::RequestSeries;

/// An answer of which nothing can be written for so long is given up: its client holds a snapshot, and does not want it.
pub(crate) const STALL: Duration = Duration::from_secs(60);

/// Why a streamed answer broke off after its first bytes.
#[derive(Debug, thiserror::Error)]
#[error("the answer broke off: {0}")]
pub(crate) struct Broken(pub(crate) String);

/// An answer in pieces of bounded size.
pub(crate) type PieceStream = BoxStream<'static, Result<Bytes, Broken>>;

/// A write to a client that has stopped reading is given up this long after the end of its event stream.
pub(crate) const WRITE_GRACE: Duration = Duration::from_secs(5);

/// Frames to write at one time. Each may hold several events.
pub(crate) type FrameBytes = SmallVec<[Bytes; 8]>;

/// Events that are sent as they come, until the stream ends. Implemented by watches.
pub(crate) trait WatchBody: Send {
    /// The next frames to write; `None` at the end. Dropping the future loses nothing.
    fn next(&mut self) -> BoxFuture<'_, Option<FrameBytes>>;

    /// True if events are bytes with their length before them, rather than lines of text.
    fn is_binary(&self) -> bool;

    /// The time at which the stream ends by itself.
    fn deadline(&self) -> Instant;

    /// Counts the request, which was answered with `code`, when the stream ends.
    fn count_as(&mut self, request: Arc<RequestSeries>, code: StatusCode);
}

/// Waits for a write, but no longer than [`WRITE_GRACE`] after the end of the stream it belongs to.
pub(crate) fn patiently<W>(stream: &dyn WatchBody, write: W) -> impl Future<Output = io::Result<()>> + use<W>
where
    W: Future<Output = io::Result<()>>,
{
    let until = stream.deadline() + WRITE_GRACE;
    async move { timeout_at(until, write).await? }
}

/// Bytes both ways.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Duplex for T {}

/// The body of an answer.
pub(crate) enum Body {
    /// Nothing.
    Empty,
    /// All of it.
    Full(Bytes),
    /// No bytes, but the length they would have: the answer to HEAD.
    Head(usize),
    /// Piece by piece.
    Pieces(PieceStream),
    /// Events until the watch ends.
    Watch(Box<dyn WatchBody>),
    /// The same over a WebSocket.
    WebSocket(Box<dyn WatchBody>),
    /// Bytes both ways, after an upgrade that somebody else has accepted: HTTP/1.1 only.
    Tunnel(Box<dyn Duplex>),
}

impl Body {
    /// The answer to HEAD: the length the body would have, and no body.
    pub(crate) fn without_bytes(self) -> Self {
        match self {
            Self::Full(bytes) => Self::Head(bytes.len()),
            _ => Self::Empty,
        }
    }
}

/// An answer.
pub(crate) type Response = http::Response<Body>;
