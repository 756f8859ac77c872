//! What an answer consists of.

use std::time::Duration;

use bytes::Bytes;
use futures::stream::BoxStream;

use crate::verbs::watch::WatchStream;

/// An answer of which nothing can be written for so long is given up: its client holds a snapshot, and does not want it.
pub(crate) const STALL: Duration = Duration::from_secs(60);

/// Why a streamed answer broke off after its first bytes.
#[derive(Debug, thiserror::Error)]
#[error("the answer broke off: {0}")]
pub(crate) struct Broken(pub(crate) String);

/// An answer in pieces of bounded size.
pub(crate) type PieceStream = BoxStream<'static, Result<Bytes, Broken>>;

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
    Watch(Box<WatchStream>),
    /// The same over a WebSocket.
    WebSocket(Box<WatchStream>),
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
