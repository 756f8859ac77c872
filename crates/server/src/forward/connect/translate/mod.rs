//! Translation between WebSocket clients and kubelets that support only SPDY.
//!
//! [`tunnel`] is for port-forward: the client sends SPDY inside WebSocket messages, which are unwrapped. [`mod@channels`] is for
//! exec and attach: the client sends messages with a channel number, and each channel is a stream of SPDY ([`spdy`]) to the
//! kubelet. Kubelets that declare `ExtendWebSocketsToKubelet` need neither.

mod channels;
mod spdy;

use std::sync::Arc;

use http::header::{CONNECTION, HeaderMap, HeaderName, HeaderValue, UPGRADE};
use http::{Method, StatusCode};
use hyper_util::rt::TokioIo;
use listwatch_wire::Status;

use super::command::{CHANNELS, SPDY_PREFIX, is_tunnelled_spdy};
use super::{NodeRequest, request};
use crate::forward::relay::{self, Relay};
use crate::http::body::Response;
use crate::http::tunnel::WebSocketTunnel;
use crate::http::websocket;
use crate::outbound::WebhookAddress;

/// The header that offers and chooses the protocol inside of SPDY.
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("x-stream-protocol-version");
/// The protocol of the upgraded connection.
const SPDY: &str = "SPDY/3.1";

/// The headers of a request for an upgrade to SPDY, in place of one for WebSocket.
fn spdy_headers<'p>(asked: NodeRequest<'_>, protocols: impl Iterator<Item = &'p str>) -> HeaderMap {
    let mut headers = asked.outgoing();
    let websocket = |name: &&HeaderName| name.as_str().starts_with("sec-websocket-");
    let names: Vec<HeaderName> = headers.keys().filter(websocket).cloned().collect();
    names.iter().for_each(|name| drop(headers.remove(name)));
    headers.remove(PROTOCOL_VERSION);
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static(SPDY));
    for protocol in protocols.filter_map(|protocol| HeaderValue::try_from(protocol).ok()) {
        headers.append(PROTOCOL_VERSION, protocol);
    }
    headers
}

/// Returns true for a response that accepts an upgrade to SPDY.
fn is_spdy(headers: &HeaderMap) -> bool {
    let has = |name, wanted: &str| {
        let value = headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        value.is_some_and(|value| value.to_ascii_lowercase().contains(wanted))
    };
    has(CONNECTION, "upgrade") && has(UPGRADE, "spdy/3.1")
}

/// Forwards ports for a client that sends SPDY in WebSocket messages.
///
/// # Errors
/// As [`NodeRequest::upgrade`].
#[doc(alias = "TunnelingHandler")]
pub(super) async fn tunnel(
    asked: NodeRequest<'_>,
    place: &WebhookAddress,
    target: String,
) -> Result<Response, Status> {
    // The handshake is checked before the kubelet is called.
    let mut upgrade = websocket::upgrade(asked.http(), None)?;
    let held = asked.open()?;
    let offered = websocket::offered(&asked.http().headers).filter(|protocol| is_tunnelled_spdy(protocol));
    let headers = spdy_headers(asked, offered.filter_map(|protocol| protocol.strip_prefix(SPDY_PREFIX)));
    let (mut answer, kept) = asked.upgraded(place, request(Method::POST, target, headers)?).await?;
    if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Ok(relay::answered(
            answer,
            kept,
            Relay { upgrade: false, streamed: true, patience: None, held },
        )
        .await);
    }
    if !is_spdy(answer.headers()) {
        return Err(Status::unknown_reason("unable to upgrade: missing upgrade headers in response"));
    }
    let chosen = answer.headers().get(PROTOCOL_VERSION).and_then(|chosen| chosen.to_str().ok());
    let chosen = chosen.map(|chosen| format!("{SPDY_PREFIX}{}", chosen.trim()));
    upgrade.choose(chosen.and_then(|chosen| HeaderValue::try_from(chosen).ok()));
    let far =
        hyper::upgrade::on(&mut answer).await.map_err(|error| Status::unknown_reason(error.to_string()))?;
    Ok(upgrade.tunnel(Box::new(WebSocketTunnel { far: Box::new(TokioIo::new(far)), held })))
}

/// Runs a command, or attaches to one, for a client that sends numbered channels over WebSocket.
///
/// The client is answered before the kubelet is called, as by kube-apiserver: a failure is sent on the error channel, where
/// clients look for it.
///
/// # Errors
/// 400 for a malformed handshake, 429 if there are too many connections.
#[doc(alias = "StreamTranslatorHandler")]
pub(super) async fn channels(
    asked: NodeRequest<'_>,
    place: &WebhookAddress,
    target: String,
) -> Result<Response, Status> {
    let mut upgrade = websocket::upgrade(asked.http(), None)?;
    upgrade.choose(Some(HeaderValue::from_static(CHANNELS)));
    let held = asked.open()?;
    let headers = spdy_headers(asked, channels::PROTOCOLS.into_iter());
    Ok(upgrade.tunnel(Box::new(channels::ChannelTunnel {
        api: Arc::clone(asked.api),
        place: place.clone(),
        request: request(Method::POST, target, headers)?,
        wanted: channels::WantedStreams::read(&asked.http().query),
        held,
    })))
}
