//! [`OutboundBody`]: the body of an outgoing request, whole or streamed.
//!
//! A proxied upload is forwarded piece by piece, with at most one piece in memory. A body that breaks off aborts the
//! request, so that the target does not take a part for the whole.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

/// The body of an outgoing request.
#[derive(Debug)]
pub(crate) enum OutboundBody {
    /// Bytes that are all there.
    Whole(Bytes),
    /// Bytes that are sent as they come, and how many there will be, if that is known.
    Streamed {
        /// The pieces that have come.
        pieces: mpsc::Receiver<io::Result<Bytes>>,
        /// The bytes that are left.
        left: Option<u64>,
    },
}

/// The end of a streamed body at which its pieces go in. Dropped after the last piece, it ends the body.
pub(crate) type BodySender = mpsc::Sender<io::Result<Bytes>>;

impl OutboundBody {
    /// A body that is sent as it comes, of a length that may be known.
    pub(crate) fn streamed(length: Option<u64>) -> (BodySender, Self) {
        let (sender, pieces) = mpsc::channel(1);
        (sender, Self::Streamed { pieces, left: length })
    }

    /// A copy of a body that can be sent again.
    pub(super) fn again(&self) -> Option<Self> {
        match self {
            Self::Whole(bytes) => Some(Self::Whole(bytes.clone())),
            Self::Streamed { .. } => None,
        }
    }
}

impl From<Bytes> for OutboundBody {
    fn from(bytes: Bytes) -> Self {
        Self::Whole(bytes)
    }
}

impl Body for OutboundBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match &mut *self {
            Self::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Streamed { pieces, left } => pieces.poll_recv(context).map(|piece| {
                let piece = piece?;
                if let (Ok(piece), Some(left)) = (&piece, left) {
                    *left = left.saturating_sub(piece.len() as u64);
                }
                Some(piece.map(Frame::data))
            }),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_empty(),
            Self::Streamed { left, .. } => *left == Some(0),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Streamed { left: Some(left), .. } => SizeHint::with_exact(*left),
            Self::Streamed { left: None, .. } => SizeHint::default(),
        }
    }
}
