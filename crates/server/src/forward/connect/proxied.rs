//! The proxies of nodes, Pods and Services: any request, forwarded to the server behind.
//!
//! The path after `proxy` and the query are forwarded unchanged; method, body and headers without credentials. Bodies are
//! streamed in both directions. Redirects are returned with the path of the proxy as a prefix, and never followed.
//! Unlike kube-apiserver this server does not rewrite the links of HTML pages.

use std::net::IpAddr;
use std::time::Duration;

use http::header::{CONTENT_LENGTH, HOST, HeaderName, HeaderValue, LOCATION};
use http::{Method, Request as HttpRequest, StatusCode};
use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::json;

use super::address::{self, ProxyName};
use super::kubelet::Kubelet;
use super::location::{self, Redirects};
use super::{NodeRequest, request, service};
use crate::forward::headers;
use crate::forward::relay::{self, Relay};
use crate::http::body::{Body, Response};
use crate::http::hangup::hung_up;
use crate::http::request::BodySource;
use crate::outbound::{BodySender, BusyConnection, OutboundBody, WebhookAddress};
use crate::respond;

/// Response headers that a proxied server must not set on behalf of this one.
const CORS: [HeaderName; 4] = [
    http::header::ACCESS_CONTROL_ALLOW_CREDENTIALS,
    http::header::ACCESS_CONTROL_ALLOW_HEADERS,
    http::header::ACCESS_CONTROL_ALLOW_METHODS,
    http::header::ACCESS_CONTROL_ALLOW_ORIGIN,
];
/// The header with the path as the client sees it.
const FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");
/// Answers up to this length leave the connection of the client as it was. Longer ones, and those of unknown length, are
/// written as they come and end with their client, however long it takes.
const SHORT_BYTES: u64 = 64 << 10;

/// Time for a response to a request with a body.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3600);

/// Answers a request to a proxy.
///
/// # Errors
/// 400 for a name or an address that is not proxied to, 404 for an object that does not exist, 503 if nothing answers.
#[doc(alias = "UpgradeAwareHandler")]
pub(super) async fn answer(asked: NodeRequest<'_>, body: &mut dyn BodySource) -> Result<Response, Status> {
    let sent = asked.http();
    let behind = location::behind_proxy(&sent.path, asked.target.resource.namespaced);
    let kind = asked.target.resource.subresource("proxy").map(|sub| sub.kind.to_string()).unwrap_or_default();
    asked.admit(json!({"kind": kind, "apiVersion": "v1", "path": behind.clone()})).await?;
    let place = place(asked).await?;
    if headers::is_upgrade(sent) {
        let path = if behind.is_empty() { "/" } else { &behind };
        return asked.upgrade(&place, headers::target(path, &sent.raw_query)).await;
    }
    if behind.is_empty() && matches!(sent.method, Method::GET | Method::HEAD) {
        return moved(asked);
    }
    forward(asked, &place, &behind, body).await
}

/// A client that asks for the proxy itself is sent to its root, or relative links would lead beside it.
fn moved(asked: NodeRequest<'_>) -> Result<Response, Status> {
    let sent = asked.http();
    let location = headers::target(&format!("{}/", sent.path), &sent.raw_query);
    let mut response = respond::empty(StatusCode::MOVED_PERMANENTLY);
    let location = HeaderValue::try_from(location).map_err(|error| Status::bad_request(error.to_string()))?;
    response.headers_mut().insert(LOCATION, location);
    Ok(response)
}

/// The server behind a proxy.
async fn place(asked: NodeRequest<'_>) -> Result<WebhookAddress, Status> {
    match &*asked.target.resource.plural {
        "nodes" => node(asked).await,
        "services" => {
            let wanted = ProxyName::read(asked.name, "service")?;
            let (address, port) = service::endpoint(asked, &wanted).await?;
            Ok(proxied_address(asked, address, port, wanted.https))
        }
        _ => pod(asked).await,
    }
}

fn proxied_address(asked: NodeRequest<'_>, address: IpAddr, port: u16, https: bool) -> WebhookAddress {
    let within = asked.api.options.nodes.proxy_timeout;
    asked.api.nodes.tls.proxied(address.to_string(), port, https, within)
}

/// A port of a Pod; by default the first that one of its containers declares.
#[doc(alias = "ResourceLocation")]
async fn pod(asked: NodeRequest<'_>) -> Result<WebhookAddress, Status> {
    let wanted = ProxyName::read(asked.name, "pod")?;
    let pod = asked.object("pods", wanted.name).await?;
    let containers = pod.at("spec").list("containers");
    let declared = || {
        let first = containers.iter().find_map(|container| container.list("ports").first());
        first.and_then(|port| port.int("containerPort")).and_then(|port| u16::try_from(port).ok())
    };
    let first = pod.at("status").list("podIPs").first().map(|own| own.text("ip"));
    let address: IpAddr = first.and_then(|ip| ip.parse().ok()).ok_or_else(address::not_allowed)?;
    if !asked.api.options.nodes.special_addresses && !address::is_global_unicast(address) {
        return Err(address::not_allowed());
    }
    let usual = if wanted.https { 443 } else { 80 };
    let port = match wanted.port {
        "" => declared().unwrap_or(usual),
        text => number(text)?,
    };
    Ok(proxied_address(asked, address, port, wanted.https))
}

/// The kubelet of a node, or another port of it.
async fn node(asked: NodeRequest<'_>) -> Result<WebhookAddress, Status> {
    let wanted = ProxyName::read(asked.name, "node")?;
    let kubelet = Kubelet::find(asked, wanted.name).await?;
    let address = address::proxyable(&kubelet.host, asked.api.options.nodes.special_addresses).await?;
    if wanted.port.is_empty() || wanted.port == kubelet.port.to_string() {
        let resolved = kubelet.address(asked, true);
        return Ok(WebhookAddress { address: address.to_string(), ..resolved });
    }
    Ok(proxied_address(asked, address, number(wanted.port)?, wanted.https))
}

fn number(port: &str) -> Result<u16, Status> {
    port.parse().map_err(|_| Status::bad_request(format!("invalid port {port:?}")))
}

/// Passes a request on and its response back.
async fn forward(
    asked: NodeRequest<'_>,
    place: &WebhookAddress,
    behind: &str,
    body: &mut dyn BodySource,
) -> Result<Response, Status> {
    let sent = asked.http();
    let held = asked.open()?;
    let path = if behind.is_empty() { "/" } else { behind };
    let mut forwarded =
        request(sent.method.clone(), headers::target(path, &sent.raw_query), asked.outgoing())?;
    if let Ok(uri) = HeaderValue::try_from(headers::target(&sent.path, "")) {
        forwarded.headers_mut().insert(FORWARDED_URI, uri);
    }
    let (answer, kept) = exchange(asked, place, forwarded, body).await?;
    let length = hyper::body::Body::size_hint(answer.body()).exact();
    let told: Option<usize> =
        answer.headers().get(CONTENT_LENGTH).and_then(|told| told.to_str().ok()?.parse().ok());
    let streamed = length.is_none_or(|length| length > SHORT_BYTES);
    let mut response =
        relay::answered(answer, kept, Relay { upgrade: false, streamed, patience: None, held }).await;
    if sent.method == Method::HEAD {
        response = response.map(|_| told.map_or(Body::Empty, Body::Head));
    }
    CORS.iter().for_each(|name| drop(response.headers_mut().remove(name)));
    rewrite_location(asked, place, behind, &mut response);
    Ok(response)
}

/// Puts the path of the proxy before the path of a redirect.
fn rewrite_location(asked: NodeRequest<'_>, place: &WebhookAddress, behind: &str, response: &mut Response) {
    let sent = asked.http();
    let Some(location) = response.headers().get(LOCATION).and_then(|location| location.to_str().ok()) else {
        return;
    };
    let before = sent.path.strip_suffix(behind).unwrap_or(&sent.path);
    let backend = place.authority();
    let host = sent.header(HOST).unwrap_or_default();
    let rewritten = Redirects { backend: &backend, host, before }.rewritten(location);
    if let Ok(value) = HeaderValue::try_from(rewritten) {
        response.headers_mut().insert(LOCATION, value);
    }
}

/// Sends a request with its body, as that comes; returns the head of the response.
///
/// # Errors
/// 503 if nothing answers, 400 if the body breaks off.
async fn exchange(
    asked: NodeRequest<'_>,
    place: &WebhookAddress,
    forwarded: HttpRequest<OutboundBody>,
    body: &mut dyn BodySource,
) -> Result<(http::Response<hyper::body::Incoming>, BusyConnection), Status> {
    let unreachable = |error| Status::service_unavailable(format!("error trying to reach service: {error}"));
    let length = body.most();
    if length == Some(0) {
        return asked.api.webhooks.send(place, forwarded).await.map_err(unreachable);
    }
    let (sender, streamed) = OutboundBody::streamed(length);
    let mut sending = std::pin::pin!(asked.api.webhooks.send(place, forwarded.map(|_| streamed)));
    let answered = {
        let mut pumping = std::pin::pin!(pump(asked, body, sender));
        tokio::select! {
            answer = &mut sending => {
                let answer = answer.map_err(unreachable)?;
                // The rest of the body must be read before the response can be written.
                pumping.await?;
                Some(answer)
            }
            pumped = &mut pumping => {
                pumped?;
                None
            }
        }
    };
    if let Some(answer) = answered {
        return Ok(answer);
    }
    let late = |_| Status::timeout("the server behind the proxy did not answer", 0);
    tokio::select! {
        answer = tokio::time::timeout(ANSWER_TIMEOUT, sending) => answer.map_err(late)?.map_err(unreachable),
        status = left(asked, body) => Err(status),
    }
}

/// Waits until the client has disconnected. Nothing is read from it while the server behind the proxy neither reads nor writes.
async fn left(asked: NodeRequest<'_>, body: &mut dyn BodySource) -> Status {
    hung_up(move || body.is_hung_up(), asked.api.options.http.body_timeout).await;
    Status::bad_request("the client has gone")
}

/// Passes on a body piece by piece. A body that breaks off breaks off there as well.
async fn pump(asked: NodeRequest<'_>, body: &mut dyn BodySource, sender: BodySender) -> Result<(), Status> {
    let patience = asked.api.options.http.body_timeout;
    loop {
        match tokio::time::timeout(patience, body.piece()).await {
            Ok(Ok(Some(piece))) => {
                let passed = tokio::select! {
                    passed = sender.send(Ok(piece)) => passed,
                    status = left(asked, body) => return Err(status),
                };
                if passed.is_err() {
                    return Ok(());
                }
            }
            Ok(Ok(None)) => return Ok(()),
            Ok(Err(_)) => {
                drop(sender.send(Err(std::io::ErrorKind::UnexpectedEof.into())).await);
                return Err(Status::bad_request("the request body broke off"));
            }
            Err(_) => {
                drop(sender.send(Err(std::io::ErrorKind::TimedOut.into())).await);
                return Err(Status::timeout("the request body took too long to arrive", 0));
            }
        }
    }
}
