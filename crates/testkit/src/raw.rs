//! [`RawClient`]: requests and watches as they go over the wire, without retries or decoding by a client library.
//!
//! Validators must see what the server sent: kube's client would retry, and an informer would repair. It shares the TLS
//! and credentials of a `kube::Config` and nothing else. Watch frames are decoded with the decoder of `listwatch_wire`,
//! which has tests of its own.

use futures::TryStreamExt;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, BodyStream};
use kube::client::Body;
use listwatch_wire::Revision;
use listwatch_wire::delta;
use listwatch_wire::event::{Decoder, DecoderOptions, EventType, WireEvent};
use serde_json::Value;

use crate::held::DeltaBases;
use crate::history::{Frame, Seen};

/// Sends requests to one server as one user.
///
/// Cloning shares the connections. Requests have no deadline of their own: tests bound what they wait for.
///
/// ```
/// use http::{Method, StatusCode};
/// use listwatch_testkit::TestServer;
/// use serde_json::json;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = TestServer::start().await?;
/// let raw = server.raw()?;
///
/// let map = json!({"metadata": {"name": "a"}, "data": {"k": "v"}});
/// let path = "/api/v1/namespaces/default/configmaps";
/// let created = raw.done(Method::POST, path, Some(&map)).await?;
/// assert_eq!(created["data"]["k"], "v");
///
/// // A refusal is a response, with the code and the Status as the server sent them.
/// let (code, status) = raw.call(Method::POST, path, Some(&map)).await?;
/// assert_eq!((code, &status["reason"]), (StatusCode::CONFLICT, &json!("AlreadyExists")));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RawClient(kube::Client);

impl std::fmt::Debug for RawClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RawClient")
    }
}

/// The reason for which a request or a stream failed. A refusal is kept apart from a failed connection, since tests
/// expect one or the other.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RawError {
    /// The connection could not be made or broke.
    #[error("connection: {0}")]
    Connection(String),
    /// The server refused; the status code and what it said.
    #[error("refused with {0}: {1}")]
    Refused(StatusCode, Value),
    /// The response is not what the API promises.
    #[error("malformed: {0}")]
    Malformed(String),
    /// A delta does not fit what its stream sent before, or does not make of it what the server has.
    #[error("delta: {0}")]
    Delta(String),
}

impl RawClient {
    /// Sends through this client; every failure is returned, none is retried.
    ///
    /// # Errors
    /// If the configuration is invalid.
    pub fn new(mut config: kube::Config) -> Result<Self, RawError> {
        config.default_retry = false;
        config.read_timeout = None;
        kube::Client::try_from(config).map(Self).map_err(connection)
    }

    /// One request; the response's code and its body (null if there is none, text if it is not JSON).
    ///
    /// # Errors
    /// Only if no whole response came; a refusal is a response.
    pub async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(StatusCode, Value), RawError> {
        let content_type = if method == Method::PATCH { "application/merge-patch+json" } else { JSON };
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let response = self.send(method, path, JSON, content_type, body).await?;
        let status = response.status();
        let bytes = response.into_body().collect().await.map_err(connection)?.to_bytes();
        let text = || Value::String(String::from_utf8_lossy(&bytes).into_owned());
        let value = if bytes.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(&bytes).unwrap_or_else(|_| text())
        };
        Ok((status, value))
    }

    /// Sends one request as [`call`](Self::call) does. Anything but success is an error.
    ///
    /// # Errors
    /// As [`RawClient::call`], and [`RawError::Refused`].
    pub async fn done(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, RawError> {
        match self.call(method, path, body).await? {
            (status, value) if status.is_success() => Ok(value),
            (status, value) => Err(RawError::Refused(status, value)),
        }
    }

    /// Opens a watch; the path has its query.
    ///
    /// # Errors
    /// If the server refuses or cannot be reached.
    pub async fn watch(&self, path: &str) -> Result<RawWatch, RawError> {
        self.open_watch(path, JSON, None).await
    }

    /// Opens a watch that may send deltas of what is held; its frames show whole objects all the same.
    ///
    /// # Errors
    /// As [`RawClient::watch`].
    pub async fn watch_deltas(&self, path: &str, held: DeltaBases) -> Result<RawWatch, RawError> {
        self.open_watch(path, delta::ACCEPT, Some(held)).await
    }

    /// A response that is not a stream is an error with its status.
    async fn open_watch(
        &self,
        path: &str,
        accept: &str,
        held: Option<DeltaBases>,
    ) -> Result<RawWatch, RawError> {
        let response = self.send(Method::GET, path, accept, JSON, Vec::new()).await?;
        let status = response.status();
        if !status.is_success() {
            let bytes = response.into_body().collect().await.map_err(connection)?.to_bytes();
            return Err(RawError::Refused(status, serde_json::from_slice(&bytes).unwrap_or_default()));
        }
        let decoder = Decoder::new(DecoderOptions { deltas: held.is_some(), ..DecoderOptions::default() });
        Ok(RawWatch { body: BodyStream::new(response.into_body()), decoder, held, deltas: Vec::new() })
    }

    /// Sends one request, without retries, so that a test gets each response.
    async fn send(
        &self,
        method: Method,
        path: &str,
        accept: &str,
        content_type: &str,
        body: Vec<u8>,
    ) -> Result<http::Response<Body>, RawError> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, content_type)
            .header(header::ACCEPT, accept)
            .body(Body::from(body))
            .map_err(|error| RawError::Malformed(error.to_string()))?;
        self.0.send(request).await.map_err(connection)
    }
}

/// A watch as it comes in.
///
/// Dropping it hangs up, as a client that loses interest does.
#[derive(Debug)]
pub struct RawWatch {
    body: BodyStream<Body>,
    decoder: Decoder,
    /// The objects that deltas are applied to, if they were requested.
    held: Option<DeltaBases>,
    deltas: Vec<Revision>,
}

impl RawWatch {
    /// The next frame; `None` when the stream ended in due form. Dropping the future loses nothing.
    ///
    /// # Errors
    /// [`RawError::Refused`] with the Status of an ERROR event; otherwise if the stream broke or is malformed.
    pub async fn next(&mut self) -> Result<Option<Frame>, RawError> {
        loop {
            if let Some(event) = self.decoder.next_event().map_err(malformed)? {
                return self.frame(&event).map(Some);
            }
            let Some(frame) = self.body.try_next().await.map_err(connection)? else { return Ok(None) };
            if let Ok(data) = frame.into_data() {
                self.decoder.push(data);
            }
        }
    }

    /// Resolves a delta against what is held, so that the checks see whole objects.
    fn frame(&mut self, event: &WireEvent) -> Result<Frame, RawError> {
        let Some(held) = &mut self.held else { return frame(event.event_type, &event.object) };
        if !event.is_delta {
            held.take(event);
            return frame(event.event_type, &event.object);
        }
        let (object, at) = held.apply(event).map_err(|error| RawError::Delta(error.to_string()))?;
        self.deltas.push(at);
        let mut frame = frame(event.event_type, &object)?;
        if let Frame::Event { object, .. } = &mut frame {
            object.revision = at;
        }
        Ok(frame)
    }

    /// The revisions of the events that came as deltas, and what is held after them.
    #[must_use]
    pub fn into_deltas(self) -> (Vec<Revision>, DeltaBases) {
        (self.deltas, self.held.unwrap_or_default())
    }
}

const JSON: &str = "application/json";

fn frame(kind: EventType, object: &[u8]) -> Result<Frame, RawError> {
    let object: Value = serde_json::from_slice(object).map_err(malformed)?;
    match kind {
        EventType::Error => {
            let code = object.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
            let status = code
                .and_then(|code| StatusCode::from_u16(code).ok())
                .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            Err(RawError::Refused(status, object))
        }
        EventType::Bookmark => {
            let revision = object
                .pointer("/metadata/resourceVersion")
                .and_then(Value::as_str)
                .and_then(|text| text.parse().ok());
            let mark =
                object.pointer("/metadata/annotations/k8s.io~1initial-events-end").and_then(Value::as_str);
            let revision = revision
                .ok_or_else(|| RawError::Malformed(format!("a bookmark without version: {object}")))?;
            Ok(Frame::Bookmark { revision, ends_initial: mark == Some("true") })
        }
        kind => {
            let text = object.to_string();
            let object = Seen::from_object(object)
                .ok_or_else(|| RawError::Malformed(format!("not an object: {text}")))?;
            Ok(Frame::Event { kind, object })
        }
    }
}

fn connection(error: impl std::fmt::Display) -> RawError {
    RawError::Connection(error.to_string())
}

fn malformed(error: impl std::fmt::Display) -> RawError {
    RawError::Malformed(error.to_string())
}
