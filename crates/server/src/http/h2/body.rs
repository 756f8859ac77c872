//! [`OutBody`]: a response body as hyper polls it, in pieces that know when they were written.
//!
//! The end of the stream is reported only after its last piece was written: a stream that has ended cannot be reset any
//! more, and data for a peer that does not read would stay in memory as long as the connection. Responses of one frame are
//! exempt, since they are small. The time that a piece may take is set in the stream's [`StreamDeadline`]
//! (`stream_deadline.rs`).

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use futures::stream;
use futures::task::AtomicWaker;
use futures::{StreamExt, TryStreamExt};
use http_body::{Frame, SizeHint};
use tokio::time::Instant;

use crate::http::body::{Body, Broken, FrameBytes, PieceStream, STALL, WRITE_GRACE, WatchBody};
use crate::http::h2::stream_deadline::StreamDeadline;

/// A response that fits into one frame goes out with its end, in one write. It is small enough to be left to a peer that
/// does not want it: there are no more such than streams.
const ONE_FRAME: usize = 16 << 10;
/// Events are copied together up to this, to save frames: as much as a frame of the peer holds without being asked.
const JOINED: usize = 16 << 10;
/// Longer ones are cut so, and each piece has [`STALL`] to be taken.
const PIECE: usize = 64 << 10;

/// A response body as hyper polls it. It ends only after its last piece was written, so that a stalled stream can
/// still be reset.
pub(super) struct OutBody {
    source: BodyState,
    /// The time at which the stream is reset; moved on whenever a piece is given out.
    deadline: StreamDeadline,
    /// Pieces that hyper holds and has not written.
    waiting: Arc<UnwrittenPieces>,
}

/// A body that is all there goes out in one frame or in pieces; the others are made while they are sent.
enum BodyState {
    OneFrame(Bytes),
    Full(Bytes),
    Pieces(PieceStream),
    Watch(PieceStream),
    Ended,
}

impl OutBody {
    /// A body whose stream is given up at its deadline. WebSocket bodies do not occur: HTTP/2 requests cannot be
    /// upgraded.
    pub(super) fn new(body: Body, deadline: StreamDeadline) -> Self {
        let source = match body {
            Body::Empty | Body::Head(_) | Body::Tunnel(_) => BodyState::OneFrame(Bytes::new()),
            Body::Full(bytes) if bytes.len() <= ONE_FRAME => BodyState::OneFrame(bytes),
            Body::Full(bytes) => BodyState::Full(bytes),
            Body::Pieces(pieces) => BodyState::Pieces(pieces.stream),
            Body::Watch(watch) | Body::WebSocket(watch) => {
                deadline.set(watch.deadline() + WRITE_GRACE);
                BodyState::Watch(events(watch))
            }
        };
        Self { source, deadline, waiting: Arc::default() }
    }

    /// Restarts the clock of a stream that makes progress.
    fn piece(&self, bytes: Bytes) -> Frame<ResponsePiece> {
        match self.source {
            BodyState::OneFrame(_) => return Frame::data(ResponsePiece { bytes, waiting: None }),
            // A watch has its own deadline.
            BodyState::Watch(_) => {}
            _ => self.deadline.set(Instant::now() + STALL),
        }
        Frame::data(ResponsePiece::new(bytes, &self.waiting))
    }

    /// Ends the source. Pieces that are not written yet have this long.
    fn last_call(&mut self) {
        let patience = if matches!(self.source, BodyState::Watch(_)) { WRITE_GRACE } else { STALL };
        self.deadline.set_earlier(Instant::now() + patience);
        self.source = BodyState::Ended;
    }
}

impl http_body::Body for OutBody {
    type Data = ResponsePiece;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<ResponsePiece>, Broken>>> {
        let next = match self.source.poll_next(cx) {
            Poll::Ready(next) => next,
            Poll::Pending => {
                if matches!(self.source, BodyState::Pieces(_)) {
                    self.deadline.clear();
                }
                return Poll::Pending;
            }
        };
        match next {
            Some(bytes) => Poll::Ready(Some(bytes.map(|bytes| self.piece(bytes)))),
            None => {
                if !matches!(self.source, BodyState::Ended) {
                    self.last_call();
                }
                ready!(self.waiting.poll_none(cx));
                Poll::Ready(None)
            }
        }
    }

    /// True only for bodies without bytes: an early end would take away the possibility of a reset.
    fn is_end_stream(&self) -> bool {
        matches!(&self.source, BodyState::OneFrame(rest) if rest.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            BodyState::OneFrame(rest) | BodyState::Full(rest) => SizeHint::with_exact(rest.len() as u64),
            _ => SizeHint::default(),
        }
    }
}

impl BodyState {
    /// Returns the next piece. Whole bodies are sent in pieces as well, so that one response does not fill the window
    /// of a connection.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Broken>>> {
        match self {
            Self::OneFrame(rest) | Self::Full(rest) if rest.is_empty() => Poll::Ready(None),
            Self::OneFrame(rest) | Self::Full(rest) => {
                Poll::Ready(Some(Ok(rest.split_to(rest.len().min(PIECE)))))
            }
            Self::Pieces(pieces) | Self::Watch(pieces) => pieces.try_poll_next_unpin(cx),
            Self::Ended => Poll::Ready(None),
        }
    }
}

/// Sends a batch in as few DATA frames as the peer's window allows. Unsent bytes stay shared with other watches.
fn events(watch: Box<dyn WatchBody>) -> PieceStream {
    stream::unfold((Some(watch), FrameBytes::new().into_iter()), |(watch, mut frames)| async move {
        let mut watch = watch?;
        if frames.as_slice().is_empty() {
            frames = match watch.next().await {
                Some(frames) => frames.into_iter(),
                None if watch.is_broken() => return Some((Err(ended_early()), (None, frames))),
                None => return None,
            };
        }
        let next = joined(&mut frames);
        Some((Ok(next), (Some(watch), frames)))
    })
    .boxed()
}

fn ended_early() -> Broken {
    Broken("its source ended early".to_owned())
}

/// The next frames, copied together up to [`JOINED`] bytes; a longer one by itself, as it is.
fn joined(frames: &mut <FrameBytes as IntoIterator>::IntoIter) -> Bytes {
    let mut length = 0;
    let fits = |frame: &&Bytes| {
        length += frame.len();
        length <= JOINED
    };
    let count = frames.as_slice().iter().take_while(fits).count();
    if count <= 1 {
        return frames.next().unwrap_or_default();
    }
    let mut all = BytesMut::with_capacity(JOINED.min(length));
    frames.by_ref().take(count).for_each(|frame| all.extend_from_slice(&frame));
    all.freeze()
}

/// A part of a response on its way; dropped once it is written, or never will be.
#[derive(Debug)]
pub(super) struct ResponsePiece {
    bytes: Bytes,
    waiting: Option<Arc<UnwrittenPieces>>,
}

impl ResponsePiece {
    fn new(bytes: Bytes, waiting: &Arc<UnwrittenPieces>) -> Self {
        waiting.pieces.fetch_add(1, Ordering::Relaxed);
        Self { bytes, waiting: Some(Arc::clone(waiting)) }
    }
}

impl Buf for ResponsePiece {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
    }
}

impl Drop for ResponsePiece {
    fn drop(&mut self) {
        if let Some(waiting) = &self.waiting
            && waiting.pieces.fetch_sub(1, Ordering::AcqRel) == 1
        {
            waiting.stream.wake();
        }
    }
}

/// The number of pieces of a stream that are not written yet, and the waker for when none is left.
#[derive(Debug, Default)]
struct UnwrittenPieces {
    pieces: AtomicUsize,
    stream: AtomicWaker,
}

impl UnwrittenPieces {
    /// Ready when the last piece was written or dropped.
    fn poll_none(&self, cx: &Context<'_>) -> Poll<()> {
        // Registered before the check, so that a piece that is written in between is not missed.
        self.stream.register(cx.waker());
        if self.pieces.load(Ordering::Acquire) == 0 { Poll::Ready(()) } else { Poll::Pending }
    }
}
