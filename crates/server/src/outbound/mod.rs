//! [`WebhookClient`]: HTTPS requests to webhooks, token issuers and extension API servers, over connections that are
//! kept.
//!
//! Written on hyper's connection level instead of a general client, because certificates are verified per target (the
//! CA bundle of a webhook or APIService), responses are bounded in bytes, and the messages are those of Go's client:
//! they end up in Status messages and conditions that users know. A request on a kept connection that fails before
//! any answer is sent once more on a new one, since the other end may just have closed it; nothing else is retried
//! here.
//!
//! [`Endpoint`] is the webhook of an object's client configuration, [`Remote`] a service at a fixed URL, [`tls`] the
//! verification. Deadlines are the callers': `admission/webhook`, `api/convert.rs`, `chain/proxy.rs`,
//! `lifecycle/api_services.rs` and `auth`.

mod endpoint;
mod remote;
pub(crate) mod tls;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderName};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

pub(crate) use endpoint::Endpoint;
pub(crate) use remote::{ClientIdentity, Remote};

/// Bounds of what webhooks may cost.
///
/// All of them hold per call or per target. The number of calls at one time is bounded by the requests that make
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WebhookLimits {
    /// Bytes of an answer. A patch may replace a whole object, which has at most 3 MiB, in base64 and with its old values.
    pub response_bytes: usize,
    /// Connections kept per webhook between calls. More may be open while they are used.
    pub idle_connections: usize,
    /// Objects in one review of a conversion webhook, and how many bytes of them: one that does not fit goes alone.
    pub conversion_objects: usize,
    /// See `conversion_objects`.
    pub conversion_bytes: usize,
    /// Time that a conversion webhook has to answer, as in kube-apiserver.
    pub conversion_timeout: Duration,
}

impl Default for WebhookLimits {
    fn default() -> Self {
        Self {
            response_bytes: 16 << 20,
            idle_connections: 32,
            conversion_objects: 100,
            conversion_bytes: 1 << 20,
            conversion_timeout: Duration::from_secs(30),
        }
    }
}

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
}

impl OutboundCall<'_> {
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
    limit: usize,
    idle: Arc<Idle>,
}

impl BusyConnection {
    /// Leaves the connection to others: its answer has been read to the end.
    pub(crate) fn keep(self) {
        self.idle.put(self.key, self.connection, self.limit);
    }
}

/// Writes the identity of a user as extension API servers read it, in place of any that the headers claim.
pub(crate) fn identity_headers(
    headers: &mut HeaderMap,
    name: &str,
    uid: &str,
    groups: &[String],
    extra: &BTreeMap<String, Vec<String>>,
) {
    let claimed: Vec<HeaderName> =
        headers.keys().filter(|name| name.as_str().starts_with("x-remote-")).cloned().collect();
    claimed.iter().for_each(|name| drop(headers.remove(name)));
    let single = [("x-remote-user".to_owned(), name), ("x-remote-uid".to_owned(), uid)];
    let single = single.into_iter().filter(|(_, value)| !value.is_empty());
    let groups = groups.iter().map(|group| ("x-remote-group".to_owned(), group.as_str()));
    let extra = extra.iter().flat_map(|(key, values)| {
        let key = format!("x-remote-extra-{}", percent_encoding::utf8_percent_encode(key, HEADER_KEY));
        values.iter().map(move |value| (key.clone(), value.as_str()))
    });
    for (name, value) in single.chain(groups).chain(extra) {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            headers.append(name, value);
        }
    }
}

/// The characters that the name of a header cannot have, and the sign that escapes begin with.
const HEADER_KEY: &percent_encoding::AsciiSet = &percent_encoding::NON_ALPHANUMERIC
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'*')
    .remove(b'+')
    .remove(b'-')
    .remove(b'.')
    .remove(b'^')
    .remove(b'_')
    .remove(b'`')
    .remove(b'|')
    .remove(b'~');

/// Connections that are not in use, by target and trust.
#[derive(Debug, Default)]
struct Idle(Mutex<HashMap<String, Vec<WebhookConnection>>>);

impl Idle {
    /// The one that was used last, since it is the least likely to be closed. Closed ones are dropped on the way.
    fn take(&self, key: &str) -> Option<WebhookConnection> {
        let mut idle = self.0.lock();
        let connections = idle.get_mut(key)?;
        while let Some(connection) = connections.pop() {
            if connection.is_ready() {
                return Some(connection);
            }
        }
        None
    }

    /// Beyond the limit a connection is closed. Entries of targets that are never asked again are not removed.
    fn put(&self, key: String, connection: WebhookConnection, limit: usize) {
        let mut idle = self.0.lock();
        let connections = idle.entry(key).or_default();
        if connections.len() < limit {
            connections.push(connection);
        }
    }
}

/// Makes requests to webhooks and keeps the connections.
#[derive(Debug)]
pub(crate) struct WebhookClient {
    limits: WebhookLimits,
    /// Connections that are not in use, shared with those that are.
    idle: Arc<Idle>,
}

impl WebhookClient {
    pub(crate) fn new(limits: WebhookLimits) -> Self {
        Self { limits, idle: Arc::default() }
    }

    /// Posts a JSON body; returns the body of the answer.
    pub(crate) async fn post(
        &self,
        target: &WebhookAddress,
        path: &str,
        body: Bytes,
    ) -> Result<Bytes, String> {
        self.call(target, &OutboundCall { method: Method::POST, path, body, authorization: None }).await
    }

    /// Makes a request and returns the body of a 200.
    ///
    /// # Errors
    /// The text for the user if the target cannot be reached, the response is larger than
    /// [`WebhookLimits::response_bytes`], or the code is another.
    pub(crate) async fn call(
        &self,
        target: &WebhookAddress,
        call: &OutboundCall<'_>,
    ) -> Result<Bytes, String> {
        let kept = self.idle.take(&target.key());
        if let Some(connection) = kept {
            // The other end may have closed it meanwhile; nothing was read from a request that failed this early.
            match self.exchange(target, connection, call).await {
                Err(ExchangeError::Unsent(_)) => {}
                Err(ExchangeError::Failed(why)) => return Err(why),
                Ok(answer) => return Ok(answer),
            }
        }
        let connection = connect(target).await?;
        self.exchange(target, connection, call).await.map_err(ExchangeError::text)
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
                    let (key, limit) = (target.key(), self.limits.idle_connections);
                    return Ok((
                        answer,
                        BusyConnection { connection, key, limit, idle: Arc::clone(&self.idle) },
                    ));
                }
                // The other end may have closed it meanwhile.
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
    ) -> Result<(StatusCode, Bytes), String> {
        let (answer, kept) = self.send(target, request).await?;
        let status = answer.status();
        let body = self.read(answer.into_body()).await.map_err(ExchangeError::text)?;
        kept.keep();
        Ok((status, body))
    }

    /// Sends a request and reads its answer; the connection is kept only after the body was read to its end.
    async fn exchange(
        &self,
        target: &WebhookAddress,
        mut connection: WebhookConnection,
        call: &OutboundCall<'_>,
    ) -> Result<Bytes, ExchangeError> {
        let request = call.request(target).map_err(|error| ExchangeError::Failed(error.to_string()))?;
        let response = connection.send_request(request).await.map_err(|error| {
            let text = describe(&error);
            if is_unsent(&error) { ExchangeError::Unsent(text) } else { ExchangeError::Failed(text) }
        })?;
        let status = response.status();
        let answer = self.read(response.into_body()).await?;
        self.idle.put(target.key(), connection, self.limits.idle_connections);
        if status == StatusCode::OK {
            return Ok(answer);
        }
        let text = String::from_utf8_lossy(answer.get(..256.min(answer.len())).unwrap_or_default());
        Err(ExchangeError::Failed(match status {
            StatusCode::NOT_FOUND => "the server could not find the requested resource".to_owned(),
            _ => format!("an error on the server ({text:?}) has prevented the request from succeeding"),
        }))
    }

    /// Reads a body of at most [`WebhookLimits::response_bytes`].
    async fn read(&self, mut body: Incoming) -> Result<Bytes, ExchangeError> {
        let mut all = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| ExchangeError::Failed(describe(&error)))?;
            let Ok(data) = frame.into_data() else { continue };
            if all.len().saturating_add(data.len()) > self.limits.response_bytes {
                let limit = self.limits.response_bytes;
                return Err(ExchangeError::Failed(format!("the response is larger than {limit} bytes")));
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
    Failed(String),
}

impl ExchangeError {
    fn text(self) -> String {
        match self {
            Self::Unsent(why) | Self::Failed(why) => why,
        }
    }
}

/// Returns true if a request failed before any part of an answer came.
fn is_unsent(error: &hyper::Error) -> bool {
    error.is_canceled() || error.is_closed() || error.is_incomplete_message()
}

/// `EOF` is what Go's client says of a connection that ends, and what users search for.
fn describe(error: &hyper::Error) -> String {
    if error.is_incomplete_message() || error.is_closed() { "EOF".to_owned() } else { error.to_string() }
}

/// Connects and does the TLS handshake. Errors are worded as Go's, since they end up in Status messages.
///
/// No timeout of its own: every caller has one around the whole call.
async fn connect(target: &WebhookAddress) -> Result<WebhookConnection, String> {
    let WebhookAddress { address, port, .. } = target;
    let stream = TcpStream::connect((address.as_str(), *port)).await.map_err(|error| {
        let why = match error.kind() {
            std::io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
            _ => error.to_string(),
        };
        format!("dial tcp {address}:{port}: {why}")
    })?;
    let _ = stream.set_nodelay(true);
    let name = ServerName::try_from(target.server_name.clone()).map_err(|error| error.to_string())?;
    let tls = TlsConnector::from(Arc::clone(&target.tls)).connect(name, stream).await;
    let tls = tls.map_err(|error| format!("tls: failed to verify certificate: {error}"))?;
    let (sender, connection) =
        http1::handshake(TokioIo::new(tls)).await.map_err(|error| error.to_string())?;
    // Ends when the other end closes, or when nobody holds the sender any more.
    tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "a connection to a webhook ended");
        }
    });
    Ok(sender)
}
