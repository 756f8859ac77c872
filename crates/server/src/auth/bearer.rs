//! Bearer tokens in the head of a request: the `Authorization` header, or a WebSocket subprotocol for browsers.
//!
//! Absent and malformed credentials are different results. Absent ones may become `system:anonymous`; malformed ones
//! are a 401, because a client that meant to authenticate must not silently act as another user. The rules of both
//! forms are kube-apiserver's, including that a token subprotocol needs a second one to answer with
//! ([`crate::http::websocket`] does the handshake). [`super::Authenticator`] is the caller.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use http::header::{AUTHORIZATION, CONNECTION, HeaderName, SEC_WEBSOCKET_PROTOCOL, UPGRADE};

/// The subprotocol in which browsers send a token, as they cannot set headers on a WebSocket.
pub(crate) const TOKEN_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// Credentials that no authenticator could accept: not UTF-8, or a broken subprotocol. They end in a 401.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// Returns the bearer token of a request; `None` if it has none.
///
/// # Errors
/// [`Malformed`] for credentials that cannot be a token. They must not count as absent, or a broken client would act
/// as `system:anonymous`.
pub(super) fn token(headers: &HeaderMap) -> Result<Option<String>, Malformed> {
    match authorization(headers)? {
        Some(token) => Ok(Some(token)),
        None => websocket(headers),
    }
}

/// The token of an `Authorization: Bearer` header; `None` without a token, or with another scheme.
fn authorization(headers: &HeaderMap) -> Result<Option<String>, Malformed> {
    let Some(header) = headers.get(AUTHORIZATION) else { return Ok(None) };
    let mut words = header.as_bytes().trim_ascii().split(|byte| *byte == b' ');
    let (Some(scheme), Some(token)) = (words.next(), words.next()) else { return Ok(None) };
    if !scheme.eq_ignore_ascii_case(b"bearer") || token.is_empty() {
        return Ok(None);
    }
    String::from_utf8(token.to_vec()).map(Some).map_err(|_| Malformed)
}

/// The token among the subprotocols of a WebSocket. Another one must be there, for the server to answer with: the token is
/// not to be sent back.
///
/// The token is in unpadded URL-safe base64, because a subprotocol may not contain the characters of standard base64.
fn websocket(headers: &HeaderMap) -> Result<Option<String>, Malformed> {
    if !is_upgrade(headers) {
        return Ok(None);
    }
    let lines = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter();
    let lines: Vec<&str> =
        lines.map(|line| line.to_str().map_err(|_| Malformed)).collect::<Result<_, _>>()?;
    let protocols = lines.iter().flat_map(|line| line.split(',')).map(str::trim);
    let (tokens, others): (Vec<&str>, Vec<&str>) =
        protocols.partition(|protocol| protocol.starts_with(TOKEN_PROTOCOL));
    let encoded = match tokens.as_slice() {
        [] => return Ok(None),
        [token] if !others.is_empty() => token.strip_prefix(TOKEN_PROTOCOL).unwrap_or_default(),
        _ => return Err(Malformed),
    };
    let token = URL_SAFE_NO_PAD.decode(encoded).map_err(|_| Malformed)?;
    let token = String::from_utf8(token).map_err(|_| Malformed)?;
    if token.is_empty() { Err(Malformed) } else { Ok(Some(token)) }
}

/// Returns true if the request asks for a WebSocket; in other requests, subprotocols mean nothing.
fn is_upgrade(headers: &HeaderMap) -> bool {
    let says = |name: HeaderName, word: &str| {
        let mut values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.any(|value| value.split(',').any(|part| part.trim().eq_ignore_ascii_case(word)))
    };
    says(CONNECTION, "upgrade") && says(UPGRADE, "websocket")
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn read(name: http::HeaderName, value: &[u8]) -> Result<Option<String>, Malformed> {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_bytes(value).unwrap());
        token(&headers)
    }

    #[test]
    fn the_scheme_is_bearer_and_one_word_follows() {
        for (header, expected) in [
            ("Bearer t", Some("t")),
            ("bearer t", Some("t")),
            ("  BEARER t  ", Some("t")),
            ("Bearer t u", Some("t")),
            ("Bearer  t", None),
            ("Bearer ", None),
            ("Bearer", None),
            ("Basic eDp5", None),
            ("nonsense", None),
            ("", None),
        ] {
            let read = read(AUTHORIZATION, header.as_bytes());
            assert_eq!(read, Ok(expected.map(str::to_owned)), "{header:?}");
        }
    }

    /// A token that is not a text used to count as no token, and the request was served as anonymous.
    #[test]
    fn a_token_that_is_no_text_is_malformed_not_absent() {
        assert_eq!(read(AUTHORIZATION, b"Bearer \xff\xfe"), Err(Malformed));
        for protocols in [
            "base64url.bearer.authorization.k8s.io.!!, x",
            "base64url.bearer.authorization.k8s.io._w, x",
            "base64url.bearer.authorization.k8s.io., x",
            "base64url.bearer.authorization.k8s.io.dA==, x",
            "base64url.bearer.authorization.k8s.io.dA",
            "x, base64url.bearer.authorization.k8s.io.dA,base64url.bearer.authorization.k8s.io.dA",
        ] {
            assert_eq!(of_socket(protocols), Err(Malformed), "{protocols}");
        }
        assert_eq!(of_socket("x, base64url.bearer.authorization.k8s.io.dA"), Ok(Some("t".to_owned())));
        assert_eq!(of_socket("v4.channel.k8s.io"), Ok(None));
    }

    /// A subprotocol of a plain request used to count as credentials. The reference reads it of WebSockets only.
    #[test]
    fn a_token_among_subprotocols_is_for_websockets_only() {
        let good = b"x, base64url.bearer.authorization.k8s.io.dA";
        assert_eq!(read(SEC_WEBSOCKET_PROTOCOL, good), Ok(None));
    }

    fn of_socket(protocols: &str) -> Result<Option<String>, Malformed> {
        let mut headers = HeaderMap::new();
        headers.insert(CONNECTION, HeaderValue::from_static("keep-alive, Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_str(protocols).unwrap());
        token(&headers)
    }
}
