//! Streams of many watches: `/listwatch/v1/watch`, as `docs/many-kinds.md` specifies it.
//!
//! A subscription is admitted ([`admit`]) like an ordinary watch, with the same authorization, seats, audit and
//! options. [`serve`] is the response body with the events of all subscriptions in the order of revisions.
//! `verbs/watch` encodes the events.

mod admit;
mod serve;
mod subscriptions;

use std::sync::Arc;

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, StatusCode};
use listwatch_wire::Status;
use listwatch_wire::options::ListOptions;
use listwatch_wire::stream::ClientMessage;

use crate::api::Api;
use crate::auth::{TOKEN_PROTOCOL, User};
use crate::http::body::Response;
use crate::http::request::{BodySource, Request};
use crate::http::{gzip, websocket};
use crate::request::UserFlow;
use crate::request::info::RequestInfo;
use crate::respond;
use crate::verbs::watch::in_chunks;
use crate::verbs::write::read_body;

use admit::StreamAdmission;
use serve::ServedStream;

/// The media type of a stream: lines of JSON.
const MEDIA_TYPE: &str = "application/json;stream=watch";

/// Opens a stream: over a WebSocket if requested, else in chunks.
///
/// Seats are held only while the first message is read; the watches take their own.
///
/// # Errors
///
/// 400, 413 or 415 for the message. Errors of single subscriptions are frames of the stream.
pub(crate) async fn open(
    api: &Arc<Api>,
    request: &Arc<RequestInfo>,
    (user, flow): UserFlow,
    body: &mut dyn BodySource,
) -> Result<Response, Status> {
    let http = &request.http;
    let upgrade = websocket::negotiate(http, TOKEN_PROTOCOL)?;
    let options = ListOptions::parse(&http.query)?;
    let first = match http.method {
        Method::POST => Some(message(api, http, &user, body).await?),
        _ => None,
    };
    let _seats = if first.is_some() { Some(flow.enter(1).await?) } else { None };
    let compressed = upgrade.is_none() && gzip::accepted(http);
    let admission = StreamAdmission { api: Arc::clone(api), stream: Arc::clone(request), user };
    let stream = ServedStream::new(admission, options.timeout_seconds, first, compressed);
    Ok(match upgrade {
        Some(upgrade) => upgrade.accept(stream),
        None => {
            let mut response = in_chunks(MEDIA_TYPE, stream, compressed);
            // Proxies that collect a response before they pass it on would hold back what is meant to arrive at once.
            response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
            response
        }
    })
}

/// Changes the subscriptions of a stream that is open already. The stream answers.
///
/// # Errors
///
/// 404 for a stream that is not this user's, 429 if its inbox is full.
pub(crate) async fn change(
    api: &Arc<Api>,
    request: &Arc<RequestInfo>,
    id: &str,
    (user, flow): UserFlow,
    body: &mut dyn BodySource,
) -> Result<Response, Status> {
    let message = message(api, &request.http, &user, body).await?;
    let _seats = flow.enter(1).await?;
    // A stream of another user gets the same response as one that does not exist.
    let inbox = api.streams.find(id, &user).ok_or_else(Status::no_such_path)?;
    inbox.put(message).map_err(|full| Status::too_many_requests(full.to_string(), 1))?;
    Ok(respond::json(StatusCode::ACCEPTED, &b"{}\n"[..]))
}

/// Reads the body of a request as a message.
async fn message(
    api: &Api,
    request: &Request,
    user: &User,
    body: &mut dyn BodySource,
) -> Result<ClientMessage, Status> {
    let media_type = request.header(CONTENT_TYPE).unwrap_or_default();
    if media_type.split(';').next().map(str::trim) != Some("application/json") {
        return Err(Status::unsupported_media_type(&["application/json"]));
    }
    let limit = api.options.stream.message_bytes;
    let (body, _room) = read_body(api, &user.name, body, limit).await?;
    ClientMessage::parse(&body).map_err(Status::bad_request)
}
