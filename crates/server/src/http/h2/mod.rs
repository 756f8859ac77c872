//! HTTP/2, by hyper. client-go keeps all its watches on one such connection.
//!
//! hyper does framing, flow control and header compression; this module sets its windows and limits, and makes the
//! same [`Request`] and body of a stream as HTTP/1.1 does. [`body`] is what hyper sends, [`joined_writes`] writes it,
//! [`stream_deadline`] ends streams whose peer does not read. Shutdown is graceful: GOAWAY, then open streams finish.
//! Without TLS there is no HTTP/2 here: the version is chosen by ALPN ([`crate::listen`]).

mod body;
mod joined_writes;
mod stream_deadline;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::Method;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::http::body::Body;
use crate::http::h2::body::OutBody;
use crate::http::h2::joined_writes::joined;
use crate::http::h2::stream_deadline::{StreamDeadline, Streams};
use crate::http::handler::Handler;
use crate::http::request::{BodyProblem, BodySource, Request};

/// Per-stream flow-control window, as in kube-apiserver: one slow watch must not hold back its neighbours.
const STREAM_WINDOW: u32 = 256 << 10;
/// The bytes that the connection may have in flight for all streams together.
const CONNECTION_WINDOW: u32 = 4 << 20;
/// The bytes that one stream may have waiting to be sent.
const SEND_BUFFER: usize = 256 << 10;

/// Serves one connection until it ends.
pub(crate) async fn serve<S>(io: S, service: Arc<impl Handler>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    joined(io, |io| serve_streams(io, service)).await;
}

/// Serves the streams of a connection until the last has ended.
async fn serve_streams<S>(io: S, service: Arc<impl Handler>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = *service.limits();
    let handler = {
        let service = Arc::clone(&service);
        service_fn(move |request| answer(Arc::clone(&service), request))
    };
    let connection = hyper::server::conn::http2::Builder::new(Streams(Arc::clone(&service)))
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.http2_streams)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        .max_header_list_size(u32::try_from(limits.head_bytes).unwrap_or(u32::MAX))
        .keep_alive_interval(Some(limits.idle_timeout))
        .serve_connection(TokioIo::new(io), handler);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        outcome = connection.as_mut() => return log(outcome, service.peer()),
        () = service.stopping() => connection.as_mut().graceful_shutdown(),
    }
    log(connection.await, service.peer());
}

/// HTTP/1.1 by hyper, to be compared with the server's own.
#[cfg(feature = "bench-http")]
pub(crate) async fn serve_http1<S>(io: S, service: Arc<impl Handler>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (limits, peer) = (*service.limits(), service.peer());
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_timeout)
        .max_headers(limits.head_lines)
        .serve_connection(TokioIo::new(io), service_fn(move |request| answer(Arc::clone(&service), request)));
    log(connection.await, peer);
}

/// Clients end connections in many ways; none is worth more than a debug line.
fn log(outcome: hyper::Result<()>, peer: SocketAddr) {
    if let Err(error) = outcome {
        tracing::debug!(%peer, %error, "connection ended");
    }
}

/// A request of hyper as one of ours, and the response back.
async fn answer(
    service: Arc<impl Handler>,
    request: hyper::Request<Incoming>,
) -> Result<http::Response<OutBody>, Infallible> {
    let (parts, body) = request.into_parts();
    let target = parts.uri.path_and_query().map_or("/", |p| p.as_str());
    let only_head = parts.method == Method::HEAD;
    let request = Request::new(parts.method, target, parts.headers, false);
    let mut body = StreamedBody(Some(body));
    let mut response = Box::pin(service.handle(request, &mut body)).await;
    if only_head {
        response = response.map(Body::without_bytes);
    }
    Ok(response.map(|body| OutBody::new(body, StreamDeadline::current())))
}

/// A body that is read when a verb asks for it.
struct StreamedBody(Option<Incoming>);

impl BodySource for StreamedBody {
    fn most(&self) -> Option<u64> {
        self.0.as_ref().map_or(Some(0), |body| hyper::body::Body::size_hint(body).upper())
    }

    fn discard(&mut self) {
        self.0 = None;
    }

    fn read(&mut self, limit: usize) -> BoxFuture<'_, Result<Bytes, BodyProblem>> {
        let body = self.0.take();
        async move {
            let Some(body) = body else { return Ok(Bytes::new()) };
            match Limited::new(body, limit).collect().await {
                Ok(collected) => Ok(collected.to_bytes()),
                Err(error) if error.is::<http_body_util::LengthLimitError>() => Err(BodyProblem::TooLarge),
                Err(_) => Err(BodyProblem::Cut),
            }
        }
        .boxed()
    }

    fn piece(&mut self) -> BoxFuture<'_, Result<Option<Bytes>, BodyProblem>> {
        async move {
            while let Some(body) = &mut self.0 {
                match body.frame().await {
                    Some(Ok(frame)) => match frame.into_data() {
                        Ok(data) => return Ok(Some(data)),
                        Err(_) => continue,
                    },
                    Some(Err(_)) => return Err(BodyProblem::Cut),
                    None => self.0 = None,
                }
            }
            Ok(None)
        }
        .boxed()
    }
}
