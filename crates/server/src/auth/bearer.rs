//! Bearer tokens in the head of a request.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use http::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL};

/// The subprotocol in which browsers send a token, as they cannot set headers on a WebSocket.
pub(crate) const TOKEN_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// Credentials that are there and cannot be right, whoever would be asked about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// The token a request carries; `None` if it carries none.
///
/// # Errors
/// If it carries something that can be no token. It must not count as none: who sends wrong credentials is nobody, not anybody.
pub(super) fn token(headers: &HeaderMap) -> Result<Option<String>, Malformed> {
    match authorization(headers)? {
        Some(token) => Ok(Some(token)),
        None => websocket(headers),
    }
}

/// The token of an `Authorization: Bearer` header. Without a token, or with another scheme, it says nothing.
fn authorization(headers: &HeaderMap) -> Result<Option<String>, Malformed> {
    let Some(header) = headers.get(AUTHORIZATION) else { return Ok(None) };
    let mut words = header.as_bytes().trim_ascii().split(|byte| *byte == b' ');
    let (Some(scheme), Some(token)) = (words.next(), words.next()) else { return Ok(None) };
    if !scheme.eq_ignore_ascii_case(b"bearer") || token.is_empty() {
        return Ok(None);
    }
    String::from_utf8(token.to_vec()).map(Some).map_err(|_| Malformed)
}

fn websocket(headers: &HeaderMap) -> Result<Option<String>, Malformed> {
    let lines = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter();
    let lines: Vec<&str> =
        lines.map(|line| line.to_str().map_err(|_| Malformed)).collect::<Result<_, _>>()?;
    let mut protocols = lines.iter().flat_map(|line| line.split(',')).map(str::trim);
    let mut tokens = protocols.by_ref().filter_map(|protocol| protocol.strip_prefix(TOKEN_PROTOCOL));
    let Some(encoded) = tokens.next() else { return Ok(None) };
    if tokens.next().is_some() {
        return Err(Malformed);
    }
    let token = URL_SAFE_NO_PAD.decode(encoded.trim_end_matches('=')).map_err(|_| Malformed)?;
    let token = String::from_utf8(token).map_err(|_| Malformed)?;
    if token.is_empty() { Err(Malformed) } else { Ok(Some(token)) }
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

    /// A token that is no text used to count as no token, and the request was served as anonymous.
    #[test]
    fn a_token_that_is_no_text_is_malformed_not_absent() {
        assert_eq!(read(AUTHORIZATION, b"Bearer \xff\xfe"), Err(Malformed));
        for protocols in [
            "base64url.bearer.authorization.k8s.io.!!",
            "base64url.bearer.authorization.k8s.io._w, x",
            "base64url.bearer.authorization.k8s.io.",
            "base64url.bearer.authorization.k8s.io.dA,base64url.bearer.authorization.k8s.io.dA",
        ] {
            assert_eq!(read(SEC_WEBSOCKET_PROTOCOL, protocols.as_bytes()), Err(Malformed), "{protocols}");
        }
        let good = b"x, base64url.bearer.authorization.k8s.io.dA";
        assert_eq!(read(SEC_WEBSOCKET_PROTOCOL, good), Ok(Some("t".to_owned())));
        assert_eq!(read(SEC_WEBSOCKET_PROTOCOL, b"v4.channel.k8s.io"), Ok(None));
    }
}
