//! The loop over one HTTP/1.1 connection: head, handler, response, repeated until it closes or is taken over by a watch or
//! a tunnel.
//!
//! Memory is the reason for its form. The request phase owns the read buffer and the handler's future; when a watch
//! begins, that phase has returned and both are freed. Each phase is boxed, so the task is as large as the phase it
//! is in, not as the largest one.
//!
//! Every wait has a bound: `idle_timeout` before a head, `head_timeout` from its first byte to its last,
//! `body_timeout`, [`STALL`] for responses and the deadline of a watch plus [`WRITE_GRACE`] for events. Requests are
//! not pipelined in parallel: the next head is read after the response is written. Parsing is [`super::head`],
//! closing with unread bytes [`super::linger`].

use std::future::ready;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use futures::{StreamExt, TryFutureExt};
use http::header::{CONTENT_TYPE, UPGRADE};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout, timeout_at};

use crate::http::body::{Body, BodyPieces, PieceStream, Response, STALL, WRITE_GRACE, WatchBody};
use crate::http::h1::body::RequestBody;
use crate::http::h1::head;
use crate::http::h1::head::{Delimiter, Framing, Refused, RequestHead};
use crate::http::h1::linger::linger;
use crate::http::h1::output::{END, write_chunk, write_pieces};
use crate::http::h1::watch;
use crate::http::handler::Handler;
use crate::http::hangup::{ClientStream, hung_up};
use crate::http::request::Request;
use crate::http::tunnel::{self, TunnelBody};
use crate::http::websocket;

/// The first read of a head: most fit, and the buffer goes away before a watch begins.
const HEAD_BUFFER: usize = 2048;

/// The time after which a request is worth a look whether its client is still there. Most are answered long before.
const LONG_WORK: Duration = Duration::from_millis(200);

/// The state of a connection after a request.
enum AfterRequest {
    Again,
    Close,
    /// Close, although the client may still be sending: unread bytes are discarded first.
    Linger,
    /// The connection now belongs to a watch.
    Watch(Box<dyn WatchBody>, ConnectionFlow),
    /// The connection is now a tunnel to another server, to which its client may have sent something already.
    Tunnel(Box<dyn TunnelBody>, BytesMut),
}

/// The framing of events on a connection that belongs to a watch.
enum ConnectionFlow {
    /// A response of HTTP/1.1, after which the connection may serve further requests.
    Chunks {
        /// The connection stays open if the watch ends as a whole.
        keep: bool,
    },
    WebSocket,
}

/// Serves one connection until it ends. Errors are logged at debug level only: they concern one client, and that
/// client has seen them.
pub(crate) async fn serve<S>(mut io: S, service: Arc<impl Handler>)
where
    S: ClientStream,
{
    // The exchange keeps a read buffer and a handler's future; a watch needs neither. Boxing all phases keeps this
    // task as small as the phase it is in.
    let mut unread = false;
    while {
        let next = Box::pin(requests(&mut io, &*service)).await;
        unread |= matches!(next, Ok(AfterRequest::Linger));
        handed_over(&mut io, next, &*service).await.unwrap_or_else(|error| {
            tracing::debug!(peer = %service.peer(), %error, "connection ended");
            false
        })
    } {}
    Box::pin(close(&mut io, unread, &*service)).await;
}

/// Serves the watch or the tunnel that took over a connection, if one did. Returns true if further requests may follow. It takes
/// `next` before it is awaited, so that the task of an idle watch has no room for it.
fn handed_over<'a, S>(
    io: &'a mut S,
    next: io::Result<AfterRequest>,
    service: &'a impl Handler,
) -> BoxFuture<'a, io::Result<bool>>
where
    S: ClientStream,
{
    match next {
        Ok(AfterRequest::Watch(body, ConnectionFlow::Chunks { keep })) => {
            Box::pin(watch::write_events(io, body, keep))
        }
        Ok(AfterRequest::Watch(body, ConnectionFlow::WebSocket)) => {
            Box::pin(websocket::run(io, body).map_ok(|()| false))
        }
        Ok(AfterRequest::Tunnel(body, begun)) => {
            Box::pin(tunnel::serve(io, body, begun, service).map_ok(|()| false))
        }
        Ok(AfterRequest::Again | AfterRequest::Close | AfterRequest::Linger) => Box::pin(ready(Ok(false))),
        Err(error) => Box::pin(ready(Err(error))),
    }
}

/// Closes a connection; reads first what its client is still sending, if it has not read the response yet.
async fn close<S: ClientStream>(io: &mut S, unread: bool, service: &impl Handler) {
    let closed = timeout(WRITE_GRACE, io.shutdown()).await;
    if unread && matches!(closed, Ok(Ok(()))) {
        tokio::select! {
            () = linger(io) => {}
            () = service.stopping() => {}
        }
    }
}

/// Requests one after the other, until the connection ends or a watch takes it over.
async fn requests<S>(io: &mut S, service: &impl Handler) -> io::Result<AfterRequest>
where
    S: ClientStream,
{
    let mut buf = BytesMut::with_capacity(HEAD_BUFFER);
    loop {
        let head = match next_head(io, &mut buf, service).await? {
            Some(Ok(head)) => head,
            Some(Err(refused)) => return refuse(io, refused).await.map(|()| AfterRequest::Linger),
            None => return Ok(AfterRequest::Close),
        };
        match exchange(io, &mut buf, head, service).await? {
            AfterRequest::Again => {}
            AfterRequest::Tunnel(tunnel, _) => return Ok(AfterRequest::Tunnel(tunnel, buf)),
            last => return Ok(last),
        }
    }
}

/// Waits for a head. `None` at the end of the connection, after idling too long, or when the server stops.
///
/// The idle timeout holds up to the first byte of a head, and the shorter one for heads from then on, so that a
/// client cannot send one byte a minute.
async fn next_head<S: AsyncRead + Unpin>(
    io: &mut S,
    buf: &mut BytesMut,
    service: &impl Handler,
) -> io::Result<Option<Result<RequestHead, Refused>>> {
    let limits = service.limits();
    let mut deadline = Instant::now() + limits.idle_timeout;
    let mut begun = false;
    let mut scanner = head::Scanner::default();
    loop {
        let complete = scanner.look(buf, limits);
        if !buf.is_empty() {
            // From its first byte on a head has so long in all: one byte now and then does not buy more.
            if !std::mem::replace(&mut begun, true) {
                deadline = Instant::now() + limits.head_timeout;
            }
            match complete.then(|| head::parse(buf, limits)) {
                Some(Ok(Some(head))) => return Ok(Some(Ok(head))),
                Some(Ok(None)) | None => {}
                Some(Err(refused)) => return Ok(Some(Err(refused))),
            }
        }
        buf.reserve(HEAD_BUFFER);
        tokio::select! {
            read = timeout_at(deadline, io.read_buf(buf)) => match read {
                Ok(Ok(0)) | Err(_) => return Ok(None),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Err(error),
            },
            () = service.stopping() => return Ok(None),
        }
    }
}

/// Plain text as Go's server sends it, since the request was never one of Kubernetes. The connection closes
/// afterwards.
async fn refuse<S: AsyncWrite + Unpin>(io: &mut S, refused: Refused) -> io::Result<()> {
    let status = match refused {
        Refused::Malformed | Refused::NoHost | Refused::SeveralHosts => StatusCode::BAD_REQUEST,
        Refused::TooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        Refused::Version => StatusCode::HTTP_VERSION_NOT_SUPPORTED,
    };
    let mut out = BytesMut::new();
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    let text = refused.text();
    head::write(&mut out, status, &headers, Delimiter::Length(text.len()), false);
    write_short(io, &[&out, text.as_bytes()]).await
}

/// One request and its response.
///
/// The part of the body that the handler has not read is read before the response is written, within `body_timeout`; a
/// body that does not end makes this the last request of the connection.
///
/// Read requests end when their client disconnects, as in Go's server: clients that request long lists and disconnect would
/// otherwise keep the server busy. Writes are finished.
async fn exchange<S>(
    io: &mut S,
    buf: &mut BytesMut,
    head: RequestHead,
    service: &impl Handler,
) -> io::Result<AfterRequest>
where
    S: ClientStream,
{
    let (keep_alive, version, framing) = (head.keep_alive, head.version, head.framing);
    let only_head = head.method == Method::HEAD;
    // A connection that is to become a tunnel changes nothing here.
    let tunnels = head.method == Method::POST && head.headers.contains_key(UPGRADE);
    let reads = only_head || head.method == Method::GET || tunnels;
    let request = Request::new(head.method, &head.target, head.headers, version == Version::HTTP_11);
    let (mut response, whole) = if reads && framing == Framing::Length(0) {
        match answer_unless_gone(io, buf, request, service).await {
            Some(response) => (response, true),
            None => return Ok(AfterRequest::Close),
        }
    } else {
        let expects_continue = head.expects_continue;
        let mut body = RequestBody { io: &mut *io, buf: &mut *buf, framing, expects_continue, done: false };
        let response = Box::pin(service.handle(request, &mut body)).await;
        // A client that announces a body and never sends it must not delay the response.
        (response, timeout(service.limits().body_timeout, body.finish()).await.unwrap_or(false))
    };
    if only_head {
        response = response.map(Body::without_bytes);
    }
    let keep = keep_alive && !service.is_stopping() && whole;
    match respond(io, buf, response, keep, version).await? {
        AfterRequest::Close if !whole => Ok(AfterRequest::Linger),
        next => Ok(next),
    }
}

/// The response to a request without a body; `None` if its client has disconnected.
async fn answer_unless_gone<S>(
    io: &mut S,
    buf: &mut BytesMut,
    request: Request,
    service: &impl Handler,
) -> Option<Response>
where
    S: ClientStream,
{
    let (mut nothing, mut unread) = (tokio::io::empty(), BytesMut::new());
    let (io_of_body, framing) = (&mut nothing, Framing::Length(0));
    let mut body =
        RequestBody { io: io_of_body, buf: &mut unread, framing, expects_continue: false, done: true };
    tokio::select! {
        biased;
        response = Box::pin(service.handle(request, &mut body)) => Some(response),
        () = gone(io, buf) => None,
    }
}

/// Waits until the client closes the connection. The beginning of its next request is kept; behind more than that its end is
/// only looked for.
async fn gone<S: ClientStream>(io: &mut S, buf: &mut BytesMut) {
    tokio::time::sleep(LONG_WORK).await;
    while buf.len() < HEAD_BUFFER {
        buf.reserve(HEAD_BUFFER);
        match io.read_buf(buf).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
    hung_up(|| io.is_hung_up(), STALL).await;
}

/// Writes a response by the kind of its body, and decides what becomes of the connection.
///
/// `buf` keeps what the client sends meanwhile.
async fn respond<S>(
    io: &mut S,
    buf: &mut BytesMut,
    response: Response,
    keep: bool,
    version: Version,
) -> io::Result<AfterRequest>
where
    S: ClientStream,
{
    let (parts, mut body) = response.into_parts();
    if has_no_body(parts.status) {
        body = Body::Empty;
    }
    let chunked = version == Version::HTTP_11;
    let keep = match body {
        // HTTP/1.0 has no chunks: the end of the connection is the end of the body.
        Body::Pieces(_) => keep && chunked,
        // A watch frees the buffer: a request that was sent ahead would be lost on an open connection.
        Body::Watch(_) => keep && buf.is_empty(),
        Body::Tunnel(_) | Body::WebSocket(_) => true,
        _ => keep,
    };
    let mut out = BytesMut::with_capacity(512);
    head::write(&mut out, parts.status, &parts.headers, delimiter(&body, parts.status, chunked), keep);
    let full: &[u8] = if let Body::Full(bytes) = &body { bytes } else { &[] };
    write_short(io, &[&out, full]).await?;
    match body {
        Body::Watch(watch) => return Ok(AfterRequest::Watch(watch, ConnectionFlow::Chunks { keep })),
        Body::WebSocket(watch) => return Ok(AfterRequest::Watch(watch, ConnectionFlow::WebSocket)),
        Body::Tunnel(tunnel) => return Ok(AfterRequest::Tunnel(tunnel, BytesMut::new())),
        Body::Pieces(BodyPieces { stream: pieces, .. }) => stream_pieces(io, buf, pieces, chunked).await?,
        Body::Empty | Body::Full(_) | Body::Head(_) => {}
    }
    Ok(if keep { AfterRequest::Again } else { AfterRequest::Close })
}

/// The end of a body, as its head announces it.
fn delimiter(body: &Body, status: StatusCode, chunked: bool) -> Delimiter {
    match body {
        Body::Empty if has_no_body(status) || status.is_informational() => Delimiter::None,
        Body::Empty => Delimiter::Length(0),
        Body::Full(bytes) => Delimiter::Length(bytes.len()),
        Body::Head(length) => Delimiter::Length(*length),
        Body::Pieces(_) if chunked => Delimiter::Chunked,
        Body::Watch(_) => Delimiter::Chunked,
        Body::Pieces(_) | Body::Tunnel(_) | Body::WebSocket(_) => Delimiter::None,
    }
}

/// Returns true for a code whose responses end with their head, even with a length in it. Bytes after it would be taken for
/// the next response.
fn has_no_body(status: StatusCode) -> bool {
    matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}

/// Writes a response that is completely in memory.
///
/// # Errors
///
/// The client reads nothing for [`STALL`], or has disconnected.
pub(super) async fn write_short<S: AsyncWrite + Unpin>(io: &mut S, pieces: &[&[u8]]) -> io::Result<()> {
    // Pinned: by value, the future around it would have room for another one.
    let write = pin!(async {
        write_pieces(io, pieces).await?;
        io.flush().await
    });
    timeout(STALL, write).await?
}

/// An error in the middle breaks the connection, the only sign HTTP has for a response that is not whole. So does a client that
/// leaves: the pieces may be those of another server, which may never send the next.
async fn stream_pieces<S: ClientStream>(
    io: &mut S,
    buf: &mut BytesMut,
    mut pieces: PieceStream,
    chunked: bool,
) -> io::Result<()> {
    loop {
        let piece = tokio::select! {
            biased;
            piece = pieces.next() => piece,
            () = gone(io, buf) => return Err(io::ErrorKind::ConnectionAborted.into()),
        };
        let Some(piece) = piece else { break };
        let piece: Bytes = piece.map_err(io::Error::other)?;
        let write = pin!(async {
            match chunked {
                true => write_chunk(io, std::slice::from_ref(&piece)).await,
                false => io.write_all(&piece).await,
            }
        });
        timeout(STALL, write).await??;
    }
    write_short(io, if chunked { &[END] } else { &[] }).await
}
