//! Response bodies: bytes in memory, a stream of pieces, a watch, or an upgraded connection.
//!
//! [`Body`] is what both HTTP versions write ([`super::h1`], [`super::h2`]); the variants differ in how length,
//! compression and deadlines are handled. A watch is an object ([`WatchBody`]) rather than a stream of bytes, so that a
//! connection drops its read buffer and its handler's future before hours of events begin. [`STALL`] and
//! [`WRITE_GRACE`] bound the memory that a client holds by not reading.
//!
//! The contents are made elsewhere: lists by [`crate::verbs::list`], watches by [`crate::verbs::watch`], statuses by
//! [`crate::respond`].

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

use crate::http::tunnel::TunnelBody;
use crate::observe::RequestSeries;

/// The longest time in which none of a response can be written before it is given up. Until then the client holds a
/// snapshot of the collection in memory; 60 seconds is kube-apiserver's request timeout.
pub(crate) const STALL: Duration = Duration::from_secs(60);

/// The reason a streamed response ended early. Its head has been sent with 200, so the only signal left is to break
/// the connection (HTTP/1.1) or reset the stream (HTTP/2).
#[derive(Debug, thiserror::Error)]
#[error("the answer broke off: {0}")]
pub(crate) struct Broken(pub(crate) String);

/// Pieces of bounded size: a large list is never held as a whole.
pub(crate) type PieceStream = BoxStream<'static, Result<Bytes, Broken>>;

/// A response that is made piece by piece, as the client takes it.
pub(crate) struct BodyPieces {
    pub(crate) stream: PieceStream,
    /// About the bytes that it holds for the client until that has taken them: pieces that are made already, and the memory of
    /// a compressor.
    pub(crate) held: usize,
}

/// The bytes by which a piece may exceed its size: the object that it ends with, in most clusters. A piece that is made with room
/// for it is not copied, and one that a connection has room for is sent by one system call.
pub(crate) const PIECE_ROOM: usize = 8 << 10;

/// The time a write may take after the deadline of its watch. A client that has stopped reading cannot keep a watch
/// open beyond it.
pub(crate) const WRITE_GRACE: Duration = Duration::from_secs(5);

/// Frames to write at one time. Each may hold several events.
pub(crate) type FrameBytes = SmallVec<[Bytes; 4]>;

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

    /// True if the stream has ended before its time. The response is then broken off rather than ended.
    fn is_broken(&self) -> bool {
        false
    }

    /// The longest message that the client may send over a WebSocket. Zero if it has none to send: then what it sends is passed
    /// over.
    fn message_bytes(&self) -> usize {
        0
    }

    /// Returns false while another message would have to wait too long. The connection is not read meanwhile.
    fn has_room(&self) -> bool {
        true
    }

    /// Takes a message of the client.
    fn receive(&mut self, _message: Bytes) {}
}

/// Waits for a write, but no longer than [`WRITE_GRACE`] after the end of the stream it belongs to.
pub(crate) fn with_write_grace<W>(
    stream: &dyn WatchBody,
    write: W,
) -> impl Future<Output = io::Result<()>> + use<W>
where
    W: Future<Output = io::Result<()>>,
{
    let until = stream.deadline() + WRITE_GRACE;
    async move { timeout_at(until, write).await? }
}

/// A byte stream in both directions: a connection of a client, or the far end of one that was upgraded at another server.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Duplex for T {}

/// The body of a response, by the way it is written.
pub(crate) enum Body {
    /// Nothing.
    Empty,
    /// Bytes that are all there.
    Full(Bytes),
    /// No bytes, but the length that they would have: the response to HEAD.
    Head(usize),
    /// Piece by piece.
    Pieces(BodyPieces),
    /// Events until the watch ends.
    Watch(Box<dyn WatchBody>),
    /// A watch over a WebSocket, one message per event.
    WebSocket(Box<dyn WatchBody>),
    /// Bytes in both directions, after an upgrade that another server has accepted. HTTP/1.1 only.
    Tunnel(Box<dyn TunnelBody>),
}

impl Body {
    /// The response to HEAD: the length the body would have, and no body.
    pub(crate) fn without_bytes(self) -> Self {
        match self {
            Self::Full(bytes) => Self::Head(bytes.len()),
            Self::Head(length) => Self::Head(length),
            _ => Self::Empty,
        }
    }
}

/// A response with its headers, before framing: `Content-Length`, `Transfer-Encoding` and `Connection` are set by the
/// HTTP version.
pub(crate) type Response = http::Response<Body>;
