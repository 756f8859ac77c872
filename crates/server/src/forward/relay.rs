//! The response of another server, returned to the client: its head without hop-by-hop headers, its body streamed.
//!
//! A response that may last for hours is a stream that ends with its client ([`WatchBody`]). The connection to the other
//! server returns to the pool only after its body was read to the end. After an upgrade that both sides accept, the
//! connection is a tunnel.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{StreamExt, stream};
use http::StatusCode;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http_body_util::BodyExt;
use hyper::body::{Frame, Incoming};
use hyper_util::rt::TokioIo;
use smallvec::smallvec;
use tokio::time::Instant;

use super::headers;
use crate::http::body::{Body, BodyPieces, Broken, FrameBytes, PieceStream, Response, WatchBody};
use crate::http::tunnel::ByteTunnel;
use crate::observe::RequestSeries;
use crate::outbound::BusyConnection;
use crate::respond;

/// Time after which a stream from another server is ended. It bounds what a stuck server can hold; clients
/// resume watches anyway.
const LONGEST_STREAM: Duration = Duration::from_secs(24 * 3600);

/// The way in which a response is passed back.
#[derive(Debug)]
pub(super) struct Relay<H> {
    /// The client has asked for an upgrade.
    pub(super) upgrade: bool,
    /// The body may go on for long.
    pub(super) streamed: bool,
    /// The longest pause of a body, if there is a bound.
    pub(super) patience: Option<Duration>,
    /// Dropped with the body.
    pub(super) held: H,
}

/// The response as it is passed back.
///
/// Headers of the connection are dropped, except for an upgrade, which both ends must see.
pub(super) async fn answered<H: Send + 'static>(
    mut answer: http::Response<Incoming>,
    kept: BusyConnection,
    relay: Relay<H>,
) -> Response {
    let mut headers = headers::passed_on(answer.headers());
    let status = answer.status();
    let body = if status == StatusCode::SWITCHING_PROTOCOLS {
        headers::copy_upgrade(answer.headers(), &mut headers);
        match hyper::upgrade::on(&mut answer).await {
            Ok(upgraded) if relay.upgrade => {
                let far = Box::new(TokioIo::new(upgraded));
                Body::Tunnel(Box::new(ByteTunnel { far, held: relay.held }))
            }
            _ => return respond::text(StatusCode::BAD_GATEWAY, "the upgrade failed\n"),
        }
    } else {
        headers.remove(CONTENT_LENGTH);
        headers.remove(TRANSFER_ENCODING);
        let body = RelayedBody::new(answer.into_body(), kept, relay.held);
        RelayedBody { patience: relay.patience, ..body }.into_body(relay.streamed)
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// The body of a response of another server, passed on as it comes.
pub(super) struct RelayedBody<H> {
    body: Incoming,
    /// The connection, which serves others when the body has ended.
    kept: Option<BusyConnection>,
    deadline: Instant,
    patience: Option<Duration>,
    is_broken: bool,
    _held: H,
}

impl<H: Send + 'static> RelayedBody<H> {
    pub(super) fn new(body: Incoming, kept: BusyConnection, held: H) -> Self {
        let deadline = Instant::now() + LONGEST_STREAM;
        Self { body, kept: Some(kept), deadline, patience: None, is_broken: false, _held: held }
    }

    /// The body as a stream of its own connection, or in pieces.
    pub(super) fn into_body(self, streamed: bool) -> Body {
        match streamed {
            true => Body::Watch(Box::new(self)),
            false => Body::Pieces(BodyPieces { stream: self.pieces(), held: 0 }),
        }
    }

    /// The next bytes; `None` at the end.
    async fn data(&mut self) -> Option<Result<Bytes, Broken>> {
        loop {
            match within(self.patience, self.body.frame()).await {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => return Some(Ok(data)),
                    Err(_) => continue,
                },
                Some(Err(why)) => {
                    self.kept = None;
                    self.is_broken = true;
                    return Some(Err(Broken(why)));
                }
                None => {
                    if let Some(kept) = self.kept.take() {
                        kept.keep();
                    }
                    return None;
                }
            }
        }
    }

    /// The body piece by piece, as it comes from the other server.
    fn pieces(self) -> PieceStream {
        stream::unfold(self, |mut passing| async move { passing.data().await.map(|piece| (piece, passing)) })
            .boxed()
    }
}

/// The next frame, or the reason why there is none.
async fn within(
    patience: Option<Duration>,
    frame: impl Future<Output = Option<Result<Frame<Bytes>, hyper::Error>>>,
) -> Option<Result<Frame<Bytes>, String>> {
    let frame = match patience {
        Some(patience) => match tokio::time::timeout(patience, frame).await {
            Ok(frame) => frame,
            Err(_) => return Some(Err("the other server stopped in the middle of its answer".to_owned())),
        },
        None => frame.await,
    };
    frame.map(|frame| frame.map_err(|error| error.to_string()))
}

impl<H: Send + 'static> WatchBody for RelayedBody<H> {
    fn next(&mut self) -> BoxFuture<'_, Option<FrameBytes>> {
        Box::pin(async move {
            let data = tokio::time::timeout_at(self.deadline, self.data()).await.ok()??;
            data.ok().map(|data| smallvec![data])
        })
    }

    fn is_binary(&self) -> bool {
        false
    }

    fn is_broken(&self) -> bool {
        self.is_broken
    }

    fn deadline(&self) -> Instant {
        self.deadline
    }

    fn count_as(&mut self, request: Arc<RequestSeries>, code: StatusCode) {
        // How long another server's stream lasts is not known here.
        request.done(code, Duration::ZERO);
    }
}
