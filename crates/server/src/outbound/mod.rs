//! [`WebhookClient`]: HTTPS requests to webhooks, token issuers and extension API servers, over connections that are
//! kept.
//!
//! Written on hyper's connection level instead of a general client, because certificates are verified per target (the
//! CA bundle of a webhook or APIService), responses are bounded in bytes, and the messages are those of Go's client:
//! they end up in Status messages and conditions that users know. A request on a kept connection that fails before
//! any answer is sent once more on a new one, since the other end may just have closed it; nothing else is retried
//! here.
//!
//! Unlike in kube-apiserver, redirects are not followed: a webhook could make this server send requests to any address
//! that it reaches.
//!
//! [`Endpoint`] is the webhook of an object's client configuration, [`Remote`] a service at a fixed URL, [`tls`] the
//! verification, [`words`] the texts of failures. Deadlines are the callers': `admission/webhook`, `api/convert.rs`, `chain/proxy.rs`,
//! `lifecycle/api_services.rs` and `auth`.

mod closed;
mod endpoint;
mod identity;
mod idle;
mod limits;
mod remote;
pub(crate) mod tls;
mod words;

use std::io::Read as _;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HOST};
use http::{HeaderValue, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use closed::ClosedByEof;
pub(crate) use endpoint::Endpoint;
pub(crate) use identity::identity_headers;
use idle::IdleConnections;
pub use limits::WebhookLimits;
pub(crate) use remote::{ClientIdentity, Remote};
pub(crate) use words::CallError;

/// A resolved target: where to connect, the name to verify and the TLS configuration. Connections are kept per target
/// and trust, so a changed CA bundle never reuses a connection that an older one verified.
#[derive(Debug)]
pub(crate) struct WebhookAddress {
    /// The name in the certificate.
    pub(crate) server_name: String,
    /// The host or address to connect to.
    pub(crate) address: String,
    pub(crate) port: u16,
    pub(crate) tls: Arc<ClientConfig>,
    /// Identifies the TLS configuration.
    pub(crate) trust: String,
}

impl WebhookAddress {
    /// Host and port for the `Host` header: the name that is verified, not the address that is connected to.
    pub(crate) fn authority(&self) -> String {
        let host = &self.server_name;
        if host.contains(':') { format!("[{host}]:{}", self.port) } else { format!("{host}:{}", self.port) }
    }

    /// Everything that a connection was verified for.
    fn key(&self) -> String {
        format!("{} {} {} {}", self.server_name, self.address, self.port, self.trust)
    }
}

/// One request with a JSON body or none.
#[derive(Debug)]
pub(crate) struct OutboundCall<'a> {
    pub(crate) method: Method,
    pub(crate) path: &'a str,
    pub(crate) body: Bytes,
    pub(crate) authorization: Option<&'a HeaderValue>,
    /// The time by which the response must have been read, unless the caller enforces it.
    pub(crate) deadline: Option<Instant>,
}

impl OutboundCall<'_> {
    /// Builds the request. `Host` is the name of the target, also where the connection goes to another address.
    fn request(&self, target: &WebhookAddress) -> Result<Request<Full<Bytes>>, http::Error> {
        let mut request = Request::builder()
            .method(self.method.clone())
            .uri(self.path)
            .header(HOST, target.authority())
            .header(ACCEPT, "application/json, */*");
        if self.method == Method::POST {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if let Some(value) = self.authorization {
            request = request.header(AUTHORIZATION, value);
        }
        request.body(Full::new(self.body.clone()))
    }
}

type WebhookConnection = SendRequest<Full<Bytes>>;

/// A connection whose response is still being read. Dropped without [`BusyConnection::keep`], it is closed.
pub(crate) struct BusyConnection {
    connection: WebhookConnection,
    key: String,
    idle: Arc<IdleConnections>,
}

impl BusyConnection {
    /// Leaves the connection to others: its answer has been read to the end.
    pub(crate) fn keep(self) {
        self.idle.put(self.key, self.connection);
    }
}

/// Makes requests to webhooks and keeps the connections.
#[derive(Debug)]
pub(crate) struct WebhookClient {
    limits: WebhookLimits,
    /// Connections that are not in use, shared with those that are.
    idle: Arc<IdleConnections>,
}

impl WebhookClient {
    pub(crate) fn new(limits: WebhookLimits) -> Self {
        Self { limits, idle: Arc::new(IdleConnections::new(limits.idle_connections, limits.idle_timeout)) }
    }

    /// Makes a request and returns the body of an answer with a code of success.
    ///
    /// # Errors
    /// The target cannot be reached, the response is larger than [`WebhookLimits::response_bytes`], or the code is
    /// another.
    pub(crate) async fn call(
        &self,
        target: &WebhookAddress,
        call: &OutboundCall<'_>,
    ) -> Result<Bytes, CallError> {
        let kept = self.idle.take(&target.key());
        if let Some(connection) = kept {
            // The peer may have closed the connection; it has read nothing of a request that failed this early.
            match self.exchange(target, connection, call).await {
                Err(ExchangeError::Unsent(_)) => {}
                Err(ExchangeError::Failed(why)) => return Err(why),
                Ok(answer) => return words::successful(answer),
            }
        }
        let connection = within(call.deadline, connect(target)).await.ok_or_else(too_late)?;
        let connection = connection.map_err(CallError::Transport)?;
        let answer = self.exchange(target, connection, call).await;
        answer.map_err(ExchangeError::into_call).and_then(words::successful)
    }

    /// Sends a request; returns the head of the answer, and the connection for when its body has been read.
    ///
    /// # Errors
    ///
    /// The target cannot be reached. A kept connection that fails before an answer is replaced by a new one, once.
    pub(crate) async fn send(
        &self,
        target: &WebhookAddress,
        request: Request<Full<Bytes>>,
    ) -> Result<(Response<Incoming>, BusyConnection), String> {
        let mut kept = self.idle.take(&target.key());
        loop {
            let fresh = kept.is_none();
            let mut connection = match kept.take() {
                Some(connection) => connection,
                None => connect(target).await?,
            };
            match connection.send_request(request.clone()).await {
                Ok(answer) => {
                    let (key, idle) = (target.key(), Arc::clone(&self.idle));
                    return Ok((answer, BusyConnection { connection, key, idle }));
                }
                // The peer may have closed the connection.
                Err(error) if !fresh && is_unsent(&error) => {}
                Err(error) => return Err(describe(&error)),
            }
        }
    }

    /// Sends a request and reads the answer.
    pub(crate) async fn fetch(
        &self,
        target: &WebhookAddress,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Bytes>, String> {
        let (answer, kept) = self.send(target, request).await?;
        let (head, body) = answer.into_parts();
        let body = self.read(body).await.map_err(CallError::into_text)?;
        kept.keep();
        Ok(Response::from_parts(head, body))
    }

    /// Sends a request and reads its answer; the connection is kept only after the body was read to its end.
    async fn exchange(
        &self,
        target: &WebhookAddress,
        mut connection: WebhookConnection,
        call: &OutboundCall<'_>,
    ) -> Result<Response<Bytes>, ExchangeError> {
        let failed = |why: String| ExchangeError::Failed(CallError::Transport(why));
        let request = call.request(target).map_err(|error| failed(error.to_string()))?;
        let response = within(call.deadline, connection.send_request(request)).await;
        let response = response.ok_or_else(|| ExchangeError::Failed(too_late()))?.map_err(|error| {
            let text = describe(&error);
            if is_unsent(&error) { ExchangeError::Unsent(text) } else { failed(text) }
        })?;
        let (head, body) = response.into_parts();
        let body = within(call.deadline, self.read(body)).await;
        let body = body.unwrap_or_else(|| Err(CallError::unread(LATE))).map_err(ExchangeError::Failed)?;
        self.idle.put(target.key(), connection);
        let body = match head.headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding == "gzip") {
            true => self.inflate(&body).map_err(ExchangeError::Failed)?,
            false => body,
        };
        Ok(Response::from_parts(head, body))
    }

    /// Inflates a body; the limit is that of bodies.
    fn inflate(&self, body: &[u8]) -> Result<Bytes, CallError> {
        let limit = self.limits.response_bytes;
        let mut all = Vec::new();
        let enough = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
        let mut inflated = flate2::read::MultiGzDecoder::new(body).take(enough);
        inflated.read_to_end(&mut all).map_err(|_| CallError::unread("gzip: invalid header"))?;
        if all.len() > limit { Err(too_large(limit)) } else { Ok(all.into()) }
    }

    /// Reads a body of at most [`WebhookLimits::response_bytes`].
    async fn read(&self, mut body: Incoming) -> Result<Bytes, CallError> {
        let mut all = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| CallError::unread("unexpected EOF"))?;
            let Ok(data) = frame.into_data() else { continue };
            if all.len().saturating_add(data.len()) > self.limits.response_bytes {
                return Err(too_large(self.limits.response_bytes));
            }
            all.extend_from_slice(&data);
        }
        Ok(all.freeze())
    }
}

/// The failure of an exchange.
enum ExchangeError {
    /// The connection was closed before an answer began: a kept connection may have been too old.
    Unsent(String),
    Failed(CallError),
}

impl ExchangeError {
    fn into_call(self) -> CallError {
        match self {
            Self::Unsent(why) => CallError::Transport(why),
            Self::Failed(error) => error,
        }
    }
}

/// Go's message for an expired deadline.
const LATE: &str = "context deadline exceeded";

fn too_late() -> CallError {
    CallError::Transport(LATE.to_owned())
}

fn too_large(limit: usize) -> CallError {
    CallError::Answer(format!("the response is larger than {limit} bytes"))
}

/// Waits for a result until a deadline; `None` if that has passed.
async fn within<T>(deadline: Option<Instant>, work: impl Future<Output = T>) -> Option<T> {
    match deadline {
        Some(deadline) => tokio::time::timeout_at(deadline, work).await.ok(),
        None => Some(work.await),
    }
}

/// Returns true if a request failed before any part of an answer came.
fn is_unsent(error: &hyper::Error) -> bool {
    error.is_canceled() || error.is_closed() || error.is_incomplete_message()
}

/// `EOF` is what Go's client says of a connection that ends, and what users search for.
fn describe(error: &hyper::Error) -> String {
    if error.is_incomplete_message() || error.is_closed() {
        "EOF".to_owned()
    } else if error.is_parse() {
        format!("net/http: HTTP/1.x transport connection broken: {error}")
    } else {
        error.to_string()
    }
}

/// Connects and does the TLS handshake. Errors are worded as Go's, since they end up in Status messages.
///
/// It has no timeout: every caller has one around the whole call.
async fn connect(target: &WebhookAddress) -> Result<WebhookConnection, String> {
    let WebhookAddress { address, port, .. } = target;
    let stream = TcpStream::connect((address.as_str(), *port)).await;
    let stream = stream.map_err(|error| words::unconnected(&error, address, *port))?;
    let _ = stream.set_nodelay(true);
    let name = ServerName::try_from(target.server_name.clone()).map_err(|error| error.to_string())?;
    let tls = TlsConnector::from(Arc::clone(&target.tls)).connect(name, stream).await;
    let tls = tls.map_err(|error| words::unverified(&error))?;
    let (sender, connection) =
        http1::handshake(TokioIo::new(ClosedByEof(tls))).await.map_err(|error| error.to_string())?;
    // Ends when the peer closes, or when the last sender is dropped.
    tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "a connection to a webhook ended");
        }
    });
    Ok(sender)
}
