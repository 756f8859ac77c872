//! Headers of forwarded requests and responses: without hop-by-hop headers and credentials.
//!
//! The receiver must not be able to act as the user elsewhere: the bearer token is removed wherever it was sent, and so are
//! impersonation and `X-Remote-*` headers of the client. Hop-by-hop headers are removed in both directions, except for an
//! upgrade that both sides accept.

use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue,
    SEC_WEBSOCKET_PROTOCOL, UPGRADE,
};

use crate::auth::TOKEN_PROTOCOL;
use crate::http::request::Request;
use crate::http::websocket;

/// Headers about one connection, which are not passed on.
const HOP_BY_HOP: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Returns true for a request to upgrade its connection. Only HTTP/1.1 can be upgraded, which the connection has noted in
/// the request.
pub(super) fn is_upgrade(request: &Request) -> bool {
    let connection = request.header(CONNECTION).unwrap_or_default().to_ascii_lowercase();
    request.upgradable && request.headers.contains_key(UPGRADE) && connection.contains("upgrade")
}

/// The headers of a request as they are passed on: without credentials and headers of the connection.
pub(super) fn outgoing(request: &Request) -> HeaderMap {
    let mut headers = passed_on(&request.headers);
    headers.remove(AUTHORIZATION);
    headers.remove(CONTENT_LENGTH);
    remove_token_protocol(&mut headers);
    let claims =
        |name: &&HeaderName| ["impersonate-", "x-remote-"].iter().any(|p| name.as_str().starts_with(p));
    let claimed: Vec<HeaderName> = headers.keys().filter(claims).cloned().collect();
    claimed.iter().for_each(|name| drop(headers.remove(name)));
    if is_upgrade(request) {
        // Replaced: headers that the client names in `Connection` are removed by the next hop, identity headers included.
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        if let Some(value) = request.headers.get(UPGRADE) {
            headers.insert(UPGRADE, value.clone());
        }
    }
    headers
}

/// Copies the headers of an upgrade, which both ends must see.
pub(super) fn copy_upgrade(from: &HeaderMap, to: &mut HeaderMap) {
    for name in [CONNECTION, UPGRADE] {
        if let Some(value) = from.get(&name) {
            to.insert(name, value.clone());
        }
    }
}

/// Removes the subprotocol in which browsers send a token, and leaves the others.
fn remove_token_protocol(headers: &mut HeaderMap) {
    let others: Vec<&str> =
        websocket::offered(headers).filter(|protocol| !protocol.starts_with(TOKEN_PROTOCOL)).collect();
    let others = Some(others.join(", ")).filter(|others| !others.is_empty());
    headers.remove(SEC_WEBSOCKET_PROTOCOL);
    if let Some(others) = others.and_then(|others| HeaderValue::try_from(others).ok()) {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, others);
    }
}

/// Headers that are not about the connection: those that `Connection` names go as well. `Host` goes too, since it names this
/// server.
pub(super) fn passed_on(headers: &HeaderMap) -> HeaderMap {
    let named: Vec<String> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    let of_connection = |name: &HeaderName| {
        HOP_BY_HOP.contains(&name.as_str())
            || *name == HOST
            || named.iter().any(|known| known == name.as_str())
    };
    let kept = headers.iter().filter(|(name, _)| !of_connection(name));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
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

/// The target of a request line: a decoded path, encoded again, and the query as it was sent.
pub(super) fn target(path: &str, raw_query: &str) -> String {
    let path = percent_encoding::utf8_percent_encode(path, PATH).to_string();
    if raw_query.is_empty() { path } else { format!("{path}?{raw_query}") }
}
