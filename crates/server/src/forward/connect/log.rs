//! Logs: the response of a kubelet, streamed to the client.
//!
//! Only the piece that is being written is held in memory: a slow client slows down the kubelet. The log of a Pod without a
//! node is empty.

use bytes::BytesMut;
use http::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderValue, LOCATION};
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::status::{StatusDetails, StatusReason};

use super::kubelet::Kubelet;
use super::options::LogOptions;
use super::{NodeRequest, container, request};
use crate::forward::relay::RelayedBody;
use crate::http::body::Response;
use crate::outbound::describe_answer;
use crate::request::negotiate::{self, ResponseSubject, Serving};
use crate::respond;

/// Bytes of a kubelet's error that a Status repeats, as in kube-apiserver.
const ERROR_BYTES: usize = 50_000;

/// Answers a request for the log of a container.
///
/// # Errors
/// 400 or 422 for parameters, 404 for the Pod or its node, 500 if the kubelet cannot be reached, and the kubelet's own.
#[doc(alias = "LogLocation")]
pub(super) async fn answer(asked: NodeRequest<'_>) -> Result<Response, Status> {
    negotiate::negotiated(asked.http(), ResponseSubject::Log, Serving::Routed)?;
    let options = LogOptions::read(&asked.http().query, asked.name)?;
    let pod = asked.object("pods", asked.name).await?;
    let container = container::choose(options.container(), &pod)?;
    let node = pod.at("spec").text("nodeName");
    if node.is_empty() {
        return Ok(respond::empty(StatusCode::NO_CONTENT));
    }
    let kubelet = Kubelet::find(asked, node).await?;
    let place = kubelet.address(asked, !options.is_insecure());
    let held = asked.open()?;
    let (namespace, query) = (asked.target.namespace().unwrap_or_default(), options.kubelet_query());
    let path = format!("/containerLogs/{namespace}/{}/{container}", asked.name);
    let target = if query.is_empty() { path } else { format!("{path}?{query}") };
    let mut headers = HeaderMap::new();
    if let Ok(host) = HeaderValue::try_from(place.authority()) {
        headers.insert(HOST, host);
    }
    let url = format!("https://{}{target}", place.authority());
    let sent = asked.api.webhooks.send(&place, request(Method::GET, target, headers)?).await;
    let (answer, kept) = sent.map_err(|error| unanswered(&url, &error.to_string()))?;
    if !(200..=206).contains(&answer.status().as_u16()) {
        return Err(refused(answer, asked.name).await);
    }
    let mut response = Response::new(RelayedBody::new(answer.into_body(), kept, held).into_body(true));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    Ok(response)
}

/// The error text of Go's client for a failed GET, with its special case for a server that does not use TLS.
fn unanswered(url: &str, why: &str) -> Status {
    let why = match why {
        "tls: first record does not look like a TLS handshake" => {
            "http: server gave HTTP response to HTTPS client"
        }
        why => why,
    };
    Status::unknown_reason(format!("Get {url:?}: {why}"))
}

/// The error of a kubelet as a Status.
#[doc(alias = "GenericHttpResponseChecker")]
async fn refused(answer: http::Response<Incoming>, pod: &str) -> Status {
    let (head, body) = answer.into_parts();
    let elsewhere = head.headers.get(LOCATION).and_then(|location| location.to_str().ok());
    if let Some(location) = elsewhere.filter(|_| head.status.is_redirection()) {
        return Status::unknown_reason(format!("Get {location:?}: redirects forbidden"));
    }
    // The client has asked for no other protocol, and a proxy in front of this server would take the connection for a tunnel.
    if head.status.is_informational() {
        return Status::unknown_reason(format!(
            "unexpected status code {} from the kubelet",
            head.status.as_u16()
        ));
    }
    let body = beginning(body).await;
    let text = String::from_utf8_lossy(&body);
    let reason = match head.status.as_u16() {
        500 => return Status::internal(text),
        400 => return Status::bad_request(text),
        401 => StatusReason::Unauthorized,
        403 => StatusReason::Forbidden,
        404 => StatusReason::NotFound,
        405 => StatusReason::MethodNotAllowed,
        406 => StatusReason::NotAcceptable,
        409 => StatusReason::Conflict,
        415 => StatusReason::UnsupportedMediaType,
        422 => StatusReason::Invalid,
        429 => StatusReason::TooManyRequests,
        503 => StatusReason::ServiceUnavailable,
        504 => StatusReason::Timeout,
        501.. => StatusReason::InternalError,
        _ => StatusReason::Unknown,
    };
    let message = format!("{} ( pods/log {pod})", describe_answer(head.status, &head.headers, &body));
    let details =
        StatusDetails { name: pod.to_owned(), kind: "pods/log".to_owned(), ..StatusDetails::default() };
    Status::failure(head.status.as_u16(), reason, message).with_details(details)
}

/// The first bytes of a body.
async fn beginning(mut body: Incoming) -> BytesMut {
    let mut read = BytesMut::new();
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(data) = frame.into_data() else { continue };
        let left = ERROR_BYTES.saturating_sub(read.len());
        read.extend_from_slice(data.get(..left.min(data.len())).unwrap_or_default());
        if read.len() == ERROR_BYTES {
            break;
        }
    }
    read
}
