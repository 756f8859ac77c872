//! The aggregation layer's proxy: requests for groups of extension API servers, forwarded with the identity of the
//! user.
//!
//! Authentication and authorization happen here first; the extension server trusts the `X-Remote-*` headers because
//! the request comes with this server's client certificate (request-header authentication). Credentials and
//! impersonation headers are removed ([`super::headers`]), so that an extension server cannot act as the user elsewhere.
//!
//! Bodies are streamed through, watches included; upgraded connections become tunnels. An APIService without
//! endpoints or documents answers 503. Which groups are remote is decided by the controller
//! `lifecycle/api_services.rs`; connections are those of [`crate::outbound`].

use std::sync::Arc;

use bytes::Bytes;
use http::header::HOST;
use http::{Request as HttpRequest, StatusCode};
use listwatch_wire::Status;

use super::headers;
use super::relay::{self, Relay};
use crate::api::Api;
use crate::auth::User;
use crate::fairness::Flow;
use crate::http::body::Response;
use crate::http::request::{BodySource, Request};
use crate::outbound::{OutboundBody, WebhookAddress, identity_headers};
use crate::registry::extension::ExtensionServer;
use crate::request::info::{RequestInfo, RequestTarget, parts};
use crate::respond;
use crate::verbs::write::read_body;

/// The extension API server that a path belongs to.
///
/// Looked up by path for each request outside of the core group, in a list that is empty in most clusters.
pub(crate) fn remote(api: &Api, path: &str) -> Option<Arc<ExtensionServer>> {
    if !path.starts_with("/apis/") {
        return None;
    }
    let parts = parts(path);
    let [_, group, version, ..] = parts.as_slice() else { return None };
    api.registry.remotes.find(group, version)
}

/// Returns true if a request to an extension API server has no deadline.
pub(crate) fn is_long_running(request: &RequestInfo) -> bool {
    request.is_long_running()
        || matches!(request.target, RequestTarget::Resource(_)) && headers::is_upgrade(&request.http)
}

/// Forwards a request to an extension API server and returns its response. Its body is read whole first, so that a retry on a
/// new connection is possible and the bounds on bodies hold. An unreachable server is a 503 in plain text, as in
/// kube-apiserver, not an error of this function.
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
    let waits = request.waits_for_body();
    let limit = api.options.requests.body_bytes;
    let (sent, _room) =
        if waits { read_body(api, &user.name, body, limit).await? } else { (Bytes::new(), None) };
    // Long-running requests take no seat, as in kube-apiserver.
    let _seats = if waits && !is_long_running(request) { Some(flow.enter(1).await?) } else { None };
    let forwarded = outgoing(&request.http, &user, sent)?;
    Ok(exchange(api, request, &address, forwarded).await)
}

/// Sends the request, and relays the response.
async fn exchange(
    api: &Api,
    request: &RequestInfo,
    address: &WebhookAddress,
    mut forwarded: HttpRequest<OutboundBody>,
) -> Response {
    if let Ok(host) = address.authority().parse() {
        forwarded.headers_mut().insert(HOST, host);
    }
    match api.webhooks.send(address, forwarded).await {
        Ok((answer, kept)) => {
            let streamed = request.is_long_running() && answer.status().is_success();
            let patience = (!is_long_running(request)).then_some(api.options.requests.timeout);
            let how = Relay { upgrade: headers::is_upgrade(&request.http), streamed, patience, held: () };
            relay::answered(answer, kept, how).await
        }
        Err(why) => {
            let text = format!("error trying to reach service: {why}\n");
            respond::text(StatusCode::SERVICE_UNAVAILABLE, text)
        }
    }
}

/// The request as it is sent on: without credentials and headers of the connection, with the identity of the user.
///
/// Identity goes in headers that the extension server trusts because of this server's certificate. Headers of that
/// form which the client sent must be removed first.
fn outgoing(request: &Request, user: &User, body: Bytes) -> Result<HttpRequest<OutboundBody>, Status> {
    let mut forwarded = HttpRequest::builder()
        .method(request.method.clone())
        .uri(headers::target(&request.path, &request.raw_query))
        .body(body.into())
        .map_err(|error| Status::bad_request(error.to_string()))?;
    let headers = forwarded.headers_mut();
    *headers = headers::outgoing(request);
    identity_headers(headers, &user.name, &user.uid, &user.groups, &user.extra)
        .map_err(|unfit| Status::bad_request(unfit.to_string()))?;
    Ok(forwarded)
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue, Method};

    use super::*;

    /// A client that named the identity as a header of its connection had it removed by a proxy before the extension server.
    #[test]
    fn an_upgrade_is_all_that_is_said_about_the_connection() {
        let mut headers = HeaderMap::new();
        headers.insert("connection", HeaderValue::from_static("upgrade, x-remote-user"));
        headers.insert("upgrade", HeaderValue::from_static("websocket"));
        let request = Request::new(Method::GET, "/apis/g/v/a", headers, true);
        let user = User { name: "ann".to_owned(), ..User::default() };
        let sent = outgoing(&request, &user, Bytes::new()).unwrap();
        let header = |name: &str| sent.headers().get(name).map(HeaderValue::as_bytes);
        assert_eq!(header("connection"), Some(b"Upgrade".as_slice()));
        assert_eq!(header("upgrade"), Some(b"websocket".as_slice()));
        assert_eq!(header("x-remote-user"), Some(b"ann".as_slice()));
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
