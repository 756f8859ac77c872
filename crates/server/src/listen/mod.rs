//! The listening socket: accepts TCP connections, bounds how many there are, does the TLS handshake and chooses the
//! HTTP version.
//!
//! A connection takes a permit of `HttpLimits::connections` before it is served. If there is none, an unauthenticated
//! connection is closed, or one of the user with the most ([`clients`]); if nobody has many, further clients wait in
//! the kernel's backlog instead of using memory here. ALPN decides between [`crate::http::h2`] and [`crate::http::h1`];
//! without TLS only HTTP/1.1 is served. A plain HTTP request on the TLS port gets the 400 that Go's server sends,
//! because clients print that text.
//!
//! Nothing here reads a request: [`Connect`] makes one [`Handler`] per connection (the handler chain,
//! [`crate::chain::service`]), and [`tls`] holds the serving certificate.

pub(crate) mod clients;
pub(crate) mod tls;

use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::HttpLimits;
use crate::http::body::PIECE_ROOM;
use crate::http::handler::Handler;
use crate::http::hangup::ClientStream;
use crate::http::metered::metered;
use crate::http::{h1, h2};
use crate::listen::clients::{ClientConnections, ClosedForAnother, ConnectionTicket};
use crate::listen::tls::Tls;

/// The pause after a failed accept. Most failures mean that the process has no file descriptors left, and an
/// immediate retry would spin until one is closed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The bound on what is encrypted of a connection and not sent. The default of rustls, 64 KiB, is a little less than a piece of a
/// list, each of which would take two system calls.
const SESSION_BYTES: usize = (64 << 10) + PIECE_ROOM;

/// Makes the handler of each new connection: the interface between the listener and the server above it.
pub(crate) trait Connect: Send + Sync + 'static {
    /// Answers the requests of one connection.
    type Handler: Handler;

    /// Returns the handler for a connection from `peer`. `certificates` is the chain that the client presented, its
    /// own first: possession of the key has been verified, the signer has not. `ticket` is marked when a user
    /// is authenticated.
    fn connect(
        self: &Arc<Self>,
        peer: SocketAddr,
        certificates: Option<&[CertificateDer<'_>]>,
        ticket: ConnectionTicket,
    ) -> Self::Handler;

    /// The bounds of connections.
    fn limits(&self) -> &HttpLimits;
}

/// Accepts connections until `stop` is cancelled. Open connections continue in `connections`: each ends once its
/// handler reports that the server stops.
pub(crate) async fn accept(
    listener: TcpListener,
    tls: Option<Tls>,
    service: Arc<impl Connect>,
    stop: CancellationToken,
    connections: TaskTracker,
) {
    let room = Arc::new(Semaphore::new(service.limits().connections));
    let clients = Arc::new(ClientConnections::new(service.limits().connections));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => return,
        };
        match accepted {
            Ok((stream, peer)) => {
                let permit = tokio::select! {
                    permit = place(&room, &clients) => permit,
                    () = stop.cancelled() => return,
                };
                let (tls, service) = (tls.clone(), Arc::clone(&service));
                let ticket = clients.enter();
                let number = ticket.number();
                let opening = Box::pin(open(stream, peer, tls, service, ticket));
                let task = connections.spawn(serve(opening, permit));
                clients.serve(number, task.abort_handle());
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept connections");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Waits for a permit; if there is none, closes the connection that is the first to go.
async fn place(room: &Arc<Semaphore>, clients: &ClientConnections) -> Option<OwnedSemaphorePermit> {
    loop {
        if let Ok(permit) = Arc::clone(room).try_acquire_owned() {
            return Some(permit);
        }
        let free = Arc::clone(room).acquire_owned();
        match clients.close_one() {
            ClosedForAnother::Absent | ClosedForAnother::Closed => return free.await.ok(),
            ClosedForAnother::TooNew(due) => {
                if let Ok(permit) = tokio::time::timeout_at(due, free).await {
                    return permit.ok();
                }
            }
        }
    }
}

/// Serves one connection until it ends, which frees its place. All that is needed before the first request is in `opening`, and
/// freed with it: the task of a connection is no larger than requests need.
async fn serve(
    opening: Pin<Box<impl Future<Output = Option<BoxFuture<'static, ()>>>>>,
    permit: Option<OwnedSemaphorePermit>,
) {
    if let Some(connection) = opening.await {
        connection.await;
    }
    drop(permit);
}

/// Serves the requests of an HTTP/1.1 connection.
async fn serve_http1<S: ClientStream, H: Handler>(stream: S, handler: Arc<H>) {
    metered(pin!(h1::connection::serve(stream, Arc::clone(&handler))), &*handler).await;
}

/// Serves the requests of an HTTP/2 connection.
async fn serve_http2<H: Handler>(stream: Box<TlsStream<TcpStream>>, handler: Arc<H>) {
    metered(pin!(h2::serve(stream, Arc::clone(&handler))), &*handler).await;
}

/// Does the TLS handshake and makes the handler. Returns what serves the requests; `None` if the client gets no further.
async fn open(
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<Tls>,
    service: Arc<impl Connect>,
    ticket: ConnectionTicket,
) -> Option<BoxFuture<'static, ()>> {
    // Events are written when they are complete; waiting for more to fill a packet would only delay them.
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else {
        return Some(Box::pin(serve_http1(stream, Arc::new(service.connect(peer, None, ticket)))));
    };
    if is_plaintext_request(&stream, service.limits().head_timeout).await {
        refuse_plain(stream).await;
        return None;
    }
    let handshake = tls.acceptor.accept_with(stream, |session| session.set_buffer_limit(Some(SESSION_BYTES)));
    let stream = match timeout(service.limits().head_timeout, handshake).await {
        // Boxed: each future around it would otherwise hold a copy of the state of TLS.
        Ok(Ok(stream)) => Box::new(stream),
        Ok(Err(error)) => {
            tracing::debug!(%peer, %error, "TLS handshake failed");
            return None;
        }
        Err(_) => {
            tracing::debug!(%peer, "TLS handshake took too long");
            return None;
        }
    };
    let session = stream.get_ref().1;
    let is_http2 = session.alpn_protocol() == Some(b"h2");
    let handler = Arc::new(service.connect(peer, session.peer_certificates(), ticket));
    Some(if is_http2 {
        Box::pin(serve_http2(stream, handler))
    } else {
        Box::pin(serve_http1(stream, handler))
    })
}

/// Returns true if the first bytes are those of a request without TLS.
/// Peeks and consumes nothing, so that a handshake finds its first byte.
async fn is_plaintext_request(stream: &TcpStream, patience: Duration) -> bool {
    let mut first = [0; 5];
    let peeked = timeout(patience, stream.peek(&mut first)).await;
    matches!(peeked, Ok(Ok(5))) && matches!(&first, b"GET /" | b"HEAD " | b"POST " | b"PUT /" | b"OPTIO")
}

/// Answers a request without TLS with the 400 that Go's server sends, and closes. Bounded to a second: nothing is
/// known of this client.
async fn refuse_plain(mut stream: TcpStream) {
    /// The response of Go's server to a plain HTTP request on a TLS port.
    const ANSWER: &[u8] =
        b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
    let told = async {
        stream.write_all(ANSWER).await?;
        stream.shutdown().await?;
        // What it sent is read, or the system would reset the connection before the response is.
        let mut ignored = [0; 1024];
        while stream.read(&mut ignored).await? > 0 {}
        std::io::Result::Ok(())
    };
    let _ = timeout(Duration::from_secs(1), told).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RequestLimits;

    /// The largest future whose task takes a block of 256 bytes.
    const TASK: usize = 144;

    #[test]
    fn the_task_of_a_connection_has_no_room_for_its_handshake() {
        let size = size_of_val(&serve(Box::pin(std::future::ready(None)), None));
        assert!(size <= TASK, "{size} bytes");
    }

    #[test]
    fn a_session_has_room_for_a_piece_of_a_list() {
        assert!(SESSION_BYTES >= RequestLimits::default().piece_bytes + PIECE_ROOM);
    }
}
