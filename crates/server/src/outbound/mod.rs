//! [`WebhookClient`]: requests to webhooks, token issuers, extension API servers, kubelets and Pods, over connections
//! that are kept.
//!
//! Written on hyper's connection level instead of a general client, because certificates are verified per target (the
//! CA bundle of a webhook or APIService), responses are bounded in bytes, and the messages are those of Go's client:
//! they end up in Status messages and conditions that users know. A request on a kept connection that fails before
//! any response is sent once more on a new one, since the other end may just have closed it; nothing else is retried
//! here.
//!
//! Unlike in kube-apiserver, redirects are not followed: a webhook could make this server send requests to any address
//! that it reaches.
//!
//! [`Endpoint`] is the webhook of an object's client configuration, [`Remote`] a service at a fixed URL, [`KubeletTls`]
//! what kubelets are shown, [`tls`] the verification, [`dial`] makes connections, [`words`] has the texts of failures.
//! Deadlines are the callers': `admission/webhook`, `api/convert.rs`, `forward/`, `lifecycle/api_services.rs` and
//! `auth`.

mod body;
mod closed;
mod dial;
mod endpoint;
mod identity;
mod idle;
mod kubeconfig;
mod kubelet;
mod limits;
mod remote;
mod retry;
pub(crate) mod tls;
mod values;
mod words;

use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderValue, Method, Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use rustls::ClientConfig;
use tokio::time::Instant;

pub(crate) use body::{BodySender, OutboundBody};
pub(crate) use dial::CONNECT_TIMEOUT;
use dial::connect;
pub(crate) use endpoint::{Endpoint, clean_path};
pub(crate) use identity::identity_headers;
use idle::IdleConnections;
pub(crate) use kubelet::KubeletTls;
pub use limits::WebhookLimits;
pub(crate) use remote::{ClientIdentity, Remote, go_duration};
pub(crate) use retry::{FIRST_PAUSE, is_passing, with_retries};
pub(crate) use values::has_more_values;
pub(crate) use words::{CallError, SendError, generic as describe_answer};

/// A resolved target: where to connect, the name to verify and the TLS configuration. Connections are kept per target
/// and trust, so a changed CA bundle never reuses a connection that an older one verified.
#[derive(Clone, Debug)]
pub(crate) struct WebhookAddress {
    /// The name in the certificate.
    pub(crate) server_name: String,
    /// The host or address to connect to.
    pub(crate) address: String,
    pub(crate) port: u16,
    /// `None` for plain HTTP, which only Pods, Services and ports of nodes are asked by.
    pub(crate) tls: Option<Arc<ClientConfig>>,
    /// Identifies the TLS configuration.
    pub(crate) trust: String,
    /// Time to connect, the TLS handshake included.
    pub(crate) connect_timeout: Duration,
}

impl WebhookAddress {
    /// Host and port for the `Host` header: the name that is verified, not the address that is connected to.
    pub(crate) fn authority(&self) -> String {
        words::host_port(&self.server_name, self.port)
    }

    /// Everything that a connection was verified for.
    fn key(&self) -> String {
        format!("{} {} {} {}", self.server_name, self.address, self.port, self.trust)
    }
}

/// The name that webhooks know kube-apiserver by.
const CALLER: &str = "kube-apiserver-admission";

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
    fn request(&self, target: &WebhookAddress) -> Result<Request<OutboundBody>, http::Error> {
        let mut request = Request::builder()
            .method(self.method.clone())
            .uri(self.path)
            .header(HOST, target.authority())
            .header(ACCEPT, "application/json, */*")
            .header(USER_AGENT, CALLER);
        if self.method == Method::POST {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if let Some(value) = self.authorization {
            request = request.header(AUTHORIZATION, value);
        }
        request.body(self.body.clone().into())
    }
}

/// An HTTP/1.1 connection, which takes one request at a time.
type WebhookConnection = SendRequest<OutboundBody>;

/// A connection whose response is still being read. Dropped without [`BusyConnection::keep`], it is closed.
pub(crate) struct BusyConnection {
    connection: WebhookConnection,
    key: String,
    idle: Arc<IdleConnections>,
}

impl BusyConnection {
    /// Leaves the connection to others: its response has been read to the end.
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
    /// A client without connections; targets are not known to it before the first call.
    pub(crate) fn new(limits: WebhookLimits) -> Self {
        Self { limits, idle: Arc::new(IdleConnections::new(limits.idle_connections, limits.idle_timeout)) }
    }

    /// Makes a request and returns the body of a response with a code of success.
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
        // Boxed here and below: callers should not be as large as a TLS handshake for a connection that is seldom made.
        let connection = within(call.deadline, Box::pin(connect(target))).await.ok_or_else(too_late)?;
        let connection = connection.map_err(CallError::Transport)?;
        let answer = self.exchange(target, connection, call).await;
        answer.map_err(ExchangeError::into_call).and_then(words::successful)
    }

    /// Sends a request; returns the head of the response, and the connection for when its body has been read.
    ///
    /// # Errors
    ///
    /// The target cannot be reached. A kept connection that fails before a response is replaced by a new one, once. A body
    /// that comes while it is sent cannot be sent twice, so that its request takes no kept connection.
    pub(crate) async fn send(
        &self,
        target: &WebhookAddress,
        request: Request<OutboundBody>,
    ) -> Result<(Response<Incoming>, BusyConnection), SendError> {
        let again = request.body().again().map(|body| repeated(&request, body));
        if let Some(first) = again
            && let Some(connection) = self.idle.take(&target.key())
        {
            match self.ask(target, connection, first).await {
                // The peer may have closed the connection.
                Err(error) if is_unsent(&error) => {}
                answer => return answer.map_err(|error| SendError::Failed(describe(&error))),
            }
        }
        self.send_alone(target, request).await
    }

    /// Sends a request on a connection of its own, which an upgrade may take over.
    ///
    /// # Errors
    /// The target cannot be reached.
    pub(crate) async fn send_alone(
        &self,
        target: &WebhookAddress,
        request: Request<OutboundBody>,
    ) -> Result<(Response<Incoming>, BusyConnection), SendError> {
        let connection = Box::pin(connect(target)).await.map_err(SendError::Unconnected)?;
        self.ask(target, connection, request).await.map_err(|error| SendError::Failed(describe(&error)))
    }

    /// Sends a request over a connection and returns the head of the response.
    async fn ask(
        &self,
        target: &WebhookAddress,
        mut connection: WebhookConnection,
        request: Request<OutboundBody>,
    ) -> Result<(Response<Incoming>, BusyConnection), hyper::Error> {
        let answer = connection.send_request(request).await?;
        Ok((answer, BusyConnection { connection, key: target.key(), idle: Arc::clone(&self.idle) }))
    }

    /// Sends a request and reads the response.
    pub(crate) async fn fetch(
        &self,
        target: &WebhookAddress,
        request: Request<OutboundBody>,
    ) -> Result<Response<Bytes>, String> {
        let (answer, kept) = self.send(target, request).await.map_err(|error| error.to_string())?;
        let (head, body) = answer.into_parts();
        let body = self.read(body).await.map_err(CallError::into_text)?;
        kept.keep();
        Ok(Response::from_parts(head, body))
    }

    /// Sends a request and reads its response; the connection is kept only after the body was read to its end.
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
    /// The connection was closed before a response began: a kept connection may have been too old.
    Unsent(String),
    Failed(CallError),
}

impl ExchangeError {
    /// For callers that make no difference between a request that was not sent and one that failed.
    fn into_call(self) -> CallError {
        match self {
            Self::Unsent(why) => CallError::Transport(why),
            Self::Failed(error) => error,
        }
    }
}

/// Go's message for an expired deadline.
const LATE: &str = "context deadline exceeded";

/// The error of a deadline that has passed, with Go's text.
fn too_late() -> CallError {
    CallError::Transport(LATE.to_owned())
}

/// Larger responses are not read to their end: the server must not be made to hold what a webhook sends.
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

/// A copy of a request whose body can be sent again.
fn repeated(request: &Request<OutboundBody>, body: OutboundBody) -> Request<OutboundBody> {
    let mut again = Request::new(body);
    *again.method_mut() = request.method().clone();
    *again.uri_mut() = request.uri().clone();
    *again.headers_mut() = request.headers().clone();
    again
}

/// Returns true if a request failed before any part of a response came.
fn is_unsent(error: &hyper::Error) -> bool {
    error.is_canceled() || error.is_closed() || error.is_incomplete_message()
}

/// `EOF` is the text of Go's client for a connection that ends, and what users search for.
fn describe(error: &hyper::Error) -> String {
    if error.is_incomplete_message() || error.is_closed() {
        "EOF".to_owned()
    } else if error.is_parse() {
        format!("net/http: HTTP/1.x transport connection broken: {error}")
    } else {
        error.to_string()
    }
}
