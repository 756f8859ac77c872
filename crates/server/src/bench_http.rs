//! The two implementations of HTTP/1.1 that `cargo xtask bench http` compares: the server's own, and hyper's with the same
//! handler behind it. Built with the feature `bench-http` only.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::StatusCode;
use smallvec::smallvec;
use tokio::net::TcpListener;
use tokio::time::Instant;

use crate::HttpLimits;
use crate::http::body::{Body, FrameBytes, Response, WatchBody};
use crate::http::handler::Handler;
use crate::http::metered::ProcessorMeter;
use crate::http::request::{BodySource, Request};
use crate::http::{h1, h2};
use crate::observe::RequestSeries;

/// An implementation of HTTP/1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Http1 {
    /// The server's own.
    Own,
    /// hyper's.
    Hyper,
}

/// Answers every request with the same bytes, and `/watch` with one event and then silence, until the process ends.
///
/// # Errors
/// Those of accepting connections.
pub async fn serve(which: Http1, listener: TcpListener, body: Bytes) -> std::io::Result<()> {
    loop {
        let (io, peer) = listener.accept().await?;
        io.set_nodelay(true)?;
        let service = Arc::new(Fixed { body: body.clone(), peer, limits: HttpLimits::default() });
        match which {
            Http1::Own => drop(tokio::spawn(h1::connection::serve(io, service))),
            Http1::Hyper => drop(tokio::spawn(h2::serve_http1(io, service))),
        }
    }
}

struct Fixed {
    body: Bytes,
    peer: SocketAddr,
    limits: HttpLimits,
}

impl ProcessorMeter for Fixed {}

impl Handler for Fixed {
    async fn handle(&self, request: Request, _body: &mut dyn BodySource) -> Response {
        http::Response::new(match request.path.as_str() {
            "/watch" => Body::Watch(Box::new(Silent { told: false, deadline: Instant::now() + HOUR })),
            _ => Body::Full(self.body.clone()),
        })
    }

    fn peer(&self) -> SocketAddr {
        self.peer
    }

    fn limits(&self) -> &HttpLimits {
        &self.limits
    }

    fn is_stopping(&self) -> bool {
        false
    }

    async fn stopping(&self) {
        std::future::pending().await
    }
}

const HOUR: Duration = Duration::from_secs(3600);

/// A watch of something that changed once.
struct Silent {
    told: bool,
    deadline: Instant,
}

impl WatchBody for Silent {
    fn next(&mut self) -> BoxFuture<'_, Option<FrameBytes>> {
        Box::pin(async {
            if std::mem::replace(&mut self.told, true) {
                std::future::pending::<()>().await;
            }
            Some(smallvec![Bytes::from_static(b"{}\n")])
        })
    }

    fn is_binary(&self) -> bool {
        false
    }

    fn deadline(&self) -> Instant {
        self.deadline
    }

    fn count_as(&mut self, _request: Arc<RequestSeries>, _code: StatusCode) {}
}
