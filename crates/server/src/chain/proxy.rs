//! The aggregation layer's proxy: requests for groups of extension API servers, forwarded with the identity of the
//! user.
//!
//! Authentication and authorization happen here first; the extension server trusts the `X-Remote-*` headers because
//! the request comes with this server's client certificate (request-header authentication). Credentials and
//! impersonation headers are removed, so that an extension server cannot act as the user elsewhere. Hop-by-hop
//! headers are removed in both directions, except for an upgrade that both sides accept.
//!
//! Bodies are streamed through, watches included; upgraded connections become tunnels. An APIService without
//! endpoints or documents answers 503. Which groups are remote is decided by the controller
//! `lifecycle/api_services.rs`; connections are those of [`crate::outbound`].

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{StreamExt, stream};
use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue,
    SEC_WEBSOCKET_PROTOCOL, TRANSFER_ENCODING, UPGRADE,
};
use http::{Request as HttpRequest, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use listwatch_wire::Status;
use smallvec::smallvec;
use tokio::time::Instant;

use crate::api::Api;
use crate::auth::{TOKEN_PROTOCOL, User};
use crate::fairness::Flow;
use crate::http::body::{Body, BodyPieces, Broken, FrameBytes, Response, WatchBody};
use crate::http::request::{BodySource, Request};
use crate::observe::RequestSeries;
use crate::outbound::{BusyConnection, identity_headers};
use crate::registry::extension::ExtensionServer;
use crate::request::info::{RequestInfo, RequestTarget, Verb, parts};
use crate::respond;
use crate::verbs::write::{body_bytes, read_body};

/// Time after which a stream from an extension API server is ended. It bounds what a stuck server can hold; clients
/// resume watches anyway.
const LONGEST_STREAM: Duration = Duration::from_secs(24 * 3600);
/// Headers about one connection, which are not passed on.
const HOP_BY_HOP: [&str; 8] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
/// Subresources that are connections rather than requests: they have no deadline.
const CONNECTIONS: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];

/// The extension API server that a path belongs to.
///
/// Looked up by path for each request outside of the core group, in a list that is empty in most clusters.
pub(crate) fn remote(api: &Api, path: &str) -> Option<Arc<ExtensionServer>> {
    let parts = parts(path);
    let [first, group, version, ..] = parts.as_slice() else { return None };
    (*first == "apis").then(|| api.registry.remotes.find(group, version)).flatten()
}

/// Returns true if a request to an extension API server has no deadline.
pub(crate) fn is_long_running(request: &RequestInfo) -> bool {
    let RequestTarget::Resource(info) = &request.target else { return false };
    info.verb == Verb::Watch
        || is_upgrade(&request.http)
        || info.subresource.as_deref().is_some_and(|name| CONNECTIONS.contains(&name))
}

/// Only HTTP/1.1 can be upgraded, which the connection has noted in the request.
fn is_upgrade(request: &Request) -> bool {
    let connection = request.header(CONNECTION).unwrap_or_default().to_ascii_lowercase();
    request.upgradable && request.headers.contains_key(UPGRADE) && connection.contains("upgrade")
}

/// Forwards a request to an extension API server and returns its response. Its body is read whole first, so that a retry on a new
/// connection is possible and the bounds of bodies hold. An unreachable server is a 503 in plain
/// text, as in kube-apiserver, not an error of this function.
///
/// # Errors
/// 413, 400 or 408 for a body that cannot be read, 429 without seats.
#[doc(alias = "proxyHandler")]
pub(crate) async fn forward(
    api: &Api,
    remote: &ExtensionServer,
    request: &RequestInfo,
    (user, flow): (Arc<User>, Flow),
    body: &mut dyn BodySource,
) -> Result<Response, Status> {
    let unavailable = || respond::text(StatusCode::SERVICE_UNAVAILABLE, "service unavailable\n");
    let (namespace, name, port) = &remote.service;
    let (Some(_), Ok(place)) = (remote.documents(), api.locate(namespace, name, *port)) else {
        return Ok(unavailable());
    };
    let address = match remote.address(place) {
        Ok(address) => address,
        Err(why) => return Ok(respond::text(StatusCode::INTERNAL_SERVER_ERROR, format!("{why}\n"))),
    };
    let waits = super::route::waits_for_body(request);
    let limit = api.options.requests.body_bytes;
    let room = if waits { body_bytes(body, limit) } else { 0 };
    let _room = api.bodies.enter(&user.name, room).await;
    let sent = if waits { read_body(api, body, limit).await? } else { Bytes::new() };
    let _seats = if waits { Some(flow.enter(1).await?) } else { None };
    let mut forwarded = outgoing(&request.http, &user, sent)?;
    if let Ok(host) = address.authority().parse() {
        forwarded.headers_mut().insert(HOST, host);
    }
    match api.webhooks.send(&address, forwarded).await {
        Ok((answer, kept)) => Ok(answered(request, answer, kept).await),
        Err(why) => {
            let text = format!("error trying to reach service: {why}\n");
            Ok(respond::text(StatusCode::SERVICE_UNAVAILABLE, text))
        }
    }
}

/// The request as it is sent on: without credentials and headers of the connection, with the identity of the user.
///
/// Identity goes in headers that the extension server trusts because of this server's certificate. Headers of that
/// form which the client sent must be removed first.
fn outgoing(request: &Request, user: &User, body: Bytes) -> Result<HttpRequest<Full<Bytes>>, Status> {
    let path = percent_encoding::utf8_percent_encode(&request.path, PATH).to_string();
    let target = if request.raw_query.is_empty() { path } else { format!("{path}?{}", request.raw_query) };
    let mut forwarded = HttpRequest::builder()
        .method(request.method.clone())
        .uri(target)
        .body(Full::new(body))
        .map_err(|error| Status::bad_request(error.to_string()))?;
    let headers = forwarded.headers_mut();
    *headers = passed_on(&request.headers);
    headers.remove(AUTHORIZATION);
    headers.remove(CONTENT_LENGTH);
    remove_token_protocol(headers);
    let impersonating: Vec<HeaderName> =
        headers.keys().filter(|name| name.as_str().starts_with("impersonate-")).cloned().collect();
    impersonating.iter().for_each(|name| drop(headers.remove(name)));
    identity_headers(headers, &user.name, &user.uid, &user.groups, &user.extra)
        .map_err(|unfit| Status::bad_request(unfit.to_string()))?;
    if is_upgrade(request) {
        // Other names in the client's header would have the identity removed on the way, as headers of the connection.
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        if let Some(value) = request.headers.get(UPGRADE) {
            headers.insert(UPGRADE, value.clone());
        }
    }
    Ok(forwarded)
}

/// Removes the subprotocol in which browsers send a token, and leaves the others.
fn remove_token_protocol(headers: &mut HeaderMap) {
    let sent = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|line| line.to_str().ok());
    let protocols = sent.flat_map(|line| line.split(',')).map(str::trim);
    let others: Vec<&str> = protocols.filter(|protocol| !protocol.starts_with(TOKEN_PROTOCOL)).collect();
    let others = Some(others.join(", ")).filter(|others| !others.is_empty());
    headers.remove(SEC_WEBSOCKET_PROTOCOL);
    if let Some(others) = others.and_then(|others| HeaderValue::try_from(others).ok()) {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, others);
    }
}

/// Characters of a path that are written as they are; a slash inside a name was none.
const PATH: &percent_encoding::AsciiSet = &percent_encoding::CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'`')
    .add(b'{')
    .add(b'}');

/// `Host` goes too, since it names this server.
fn passed_on(headers: &HeaderMap) -> HeaderMap {
    let of_connection = |name: &HeaderName| HOP_BY_HOP.contains(&name.as_str()) || *name == HOST;
    let kept = headers.iter().filter(|(name, _)| !of_connection(name));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The answer as it is passed back.
///
/// Headers of the connection are dropped, except for an upgrade, which both ends must see.
async fn answered(
    request: &RequestInfo,
    mut answer: http::Response<Incoming>,
    kept: BusyConnection,
) -> Response {
    let mut headers = passed_on(answer.headers());
    let status = answer.status();
    let body = if status == StatusCode::SWITCHING_PROTOCOLS {
        for name in [CONNECTION, UPGRADE] {
            if let Some(value) = answer.headers().get(&name) {
                headers.insert(name, value.clone());
            }
        }
        match hyper::upgrade::on(&mut answer).await {
            Ok(upgraded) if is_upgrade(&request.http) => Body::Tunnel(Box::new(TokioIo::new(upgraded))),
            _ => return respond::text(StatusCode::BAD_GATEWAY, "the upgrade failed\n"),
        }
    } else {
        headers.remove(CONTENT_LENGTH);
        headers.remove(TRANSFER_ENCODING);
        let long = request.is_long_running() && status.is_success();
        let stream = ProxiedBody {
            body: answer.into_body(),
            kept: Some(kept),
            deadline: Instant::now() + LONGEST_STREAM,
        };
        if long {
            Body::Watch(Box::new(stream))
        } else {
            Body::Pieces(BodyPieces { stream: stream.pieces(), held: 0 })
        }
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// The body of a response of an extension API server, passed on as it comes.
///
/// The connection goes back to the pool only after the body was read to its end.
struct ProxiedBody {
    body: Incoming,
    /// The connection, which serves others when the body has ended.
    kept: Option<BusyConnection>,
    deadline: Instant,
}

impl ProxiedBody {
    /// The next bytes; `None` at the end.
    async fn data(&mut self) -> Option<Result<Bytes, Broken>> {
        loop {
            match self.body.frame().await {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => return Some(Ok(data)),
                    Err(_) => continue,
                },
                Some(Err(error)) => {
                    self.kept = None;
                    return Some(Err(Broken(error.to_string())));
                }
                None => {
                    if let Some(kept) = self.kept.take() {
                        kept.keep();
                    }
                    return None;
                }
            }
        }
    }

    /// The body piece by piece, as it comes from the extension API server.
    fn pieces(self) -> crate::http::body::PieceStream {
        stream::unfold(self, |mut passing| async move { passing.data().await.map(|piece| (piece, passing)) })
            .boxed()
    }
}

impl WatchBody for ProxiedBody {
    fn next(&mut self) -> BoxFuture<'_, Option<FrameBytes>> {
        Box::pin(async move {
            let data = tokio::time::timeout_at(self.deadline, self.data()).await.ok()??;
            data.ok().map(|data| smallvec![data])
        })
    }

    fn is_binary(&self) -> bool {
        false
    }

    fn deadline(&self) -> Instant {
        self.deadline
    }

    fn count_as(&mut self, request: Arc<RequestSeries>, code: StatusCode) {
        // How long another server's watch lasts is not known here.
        request.done(code, Duration::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    /// A client that named the identity as a header of its connection had it removed by whatever stood before the extension server.
    #[test]
    fn an_upgrade_is_all_that_is_said_about_the_connection() {
        let mut headers = HeaderMap::new();
        headers.insert("connection", HeaderValue::from_static("upgrade, x-remote-user"));
        headers.insert("upgrade", HeaderValue::from_static("websocket"));
        let request = Request::new(Method::GET, "/apis/g/v/a", headers, true);
        let user = User { name: "ann".to_owned(), ..User::default() };
        let sent = outgoing(&request, &user, Bytes::new()).unwrap();
        assert_eq!(sent.headers()["connection"], "Upgrade");
        assert_eq!(
            (&sent.headers()["upgrade"], &sent.headers()["x-remote-user"]),
            (&"websocket".parse().unwrap(), &"ann".parse().unwrap())
        );
    }

    /// A name that is not ASCII was left out, so that the extension server took the request for one of this server itself.
    #[test]
    fn an_identity_is_sent_as_a_whole_or_not_at_all() {
        let request = Request::new(Method::GET, "/apis/g/v/a", HeaderMap::new(), true);
        let mut user = User { name: "zoë".to_owned(), groups: vec!["ø".to_owned()], ..User::default() };
        let sent = outgoing(&request, &user, Bytes::new()).unwrap();
        assert_eq!(sent.headers()["x-remote-user"].as_bytes(), "zoë".as_bytes());
        assert_eq!(sent.headers()["x-remote-group"].as_bytes(), "ø".as_bytes());
        user.groups.push("a\nb".to_owned());
        assert_eq!(outgoing(&request, &user, Bytes::new()).unwrap_err().code, 400);
    }

    #[test]
    fn credentials_and_claimed_identities_stay_here() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("authorization", "Bearer secret"),
            ("impersonate-user", "eve"),
            ("x-remote-user", "root"),
            ("x-remote-group", "system:masters"),
            ("x-remote-extra-scopes", "all"),
            ("connection", "keep-alive"),
            ("accept", "application/json"),
            ("sec-websocket-protocol", "v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.c2VjcmV0,x"),
        ] {
            headers.insert(name, value.parse().unwrap());
        }
        let request = Request::new(Method::GET, "/apis/g/v/a%20b?x=1", headers, true);
        let extra = [("example.com/a%b".to_owned(), vec!["1".to_owned(), "2".to_owned()])];
        let user = User {
            name: "ann".to_owned(),
            groups: vec!["a".to_owned(), "b".to_owned()],
            extra: extra.into(),
            ..User::default()
        };
        let sent = outgoing(&request, &user, Bytes::new()).unwrap();
        assert_eq!(sent.uri(), "/apis/g/v/a%20b?x=1");
        let mut found: Vec<String> = sent
            .headers()
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        found.sort();
        assert_eq!(
            found,
            [
                "accept: application/json",
                "sec-websocket-protocol: v5.channel.k8s.io, x",
                "x-remote-extra-example.com%2fa%25b: 1",
                "x-remote-extra-example.com%2fa%25b: 2",
                "x-remote-group: a",
                "x-remote-group: b",
                "x-remote-user: ann",
            ]
        );
    }
}
