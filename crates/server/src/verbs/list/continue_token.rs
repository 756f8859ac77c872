//! [`ContinueToken`]: the position at which a paged list continues.
//!
//! The format is kube-apiserver's, byte for byte, so that pages of one list may be fetched through different servers
//! that share a store. A token is input from outside: its start key must stay within the listed range, or a client
//! could page through another namespace. The revision in it decides which state is shown (`source.rs`); -1 means the
//! latest, for lists that continue inconsistently after a 410.

use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD, URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};

use listwatch_wire::json;

/// A base64 decoder that ignores trailing bits, as Go does.
const LENIENT: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));

/// The version in tokens, which is the one of kube-apiserver: clients pass tokens between servers behind one address.
const VERSION: &str = "meta.k8s.io/v1";

/// A position in a list: the version the list shows, and the first key of the next page.
///
/// Not signed and not secret: everything in it is checked against the request that brings it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContinueToken {
    version: TokenVersion,
    start: String,
}

/// The version that a continued list shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenVersion {
    /// The version of the first page.
    At(u64),
    /// The latest one: the first page's is no longer there, and the caller agreed to an inconsistent list.
    Latest,
}

/// The reason a token is refused, sent in a 400 after `invalid continue token: `.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ContinueTokenError {
    /// Not base64, or not the JSON of a token.
    #[error("continue key is not valid: {0}")]
    Undecodable(String),
    /// Another format than the one known.
    #[error("continue key is not valid: server does not recognize this encoded version {0}")]
    UnknownVersion(String),
    /// A token without a revision.
    #[error("continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)")]
    NoVersion,
    /// Without a start key the list would start over.
    #[error("continue key is not valid: encoded start key empty (version meta.k8s.io/v1)")]
    NoStart,
    /// A start key that would leave the listed range.
    #[error("continue key is not valid: {0}")]
    Unclean(String),
}

/// The JSON inside of the token: version, revision and the key to continue at, as in kube-apiserver.
#[derive(Serialize, Deserialize)]
struct EncodedToken {
    #[serde(default)]
    v: String,
    #[serde(default)]
    rv: i64,
    #[serde(default)]
    start: String,
}

impl ContinueToken {
    /// The position just after a key, which is relative to the listed range.
    ///
    /// The key itself need not exist any more when the list continues.
    #[must_use]
    pub(crate) fn after(version: TokenVersion, key: &str) -> Self {
        // The least text greater than the key is the key and a NUL.
        Self { version, start: format!("{}\0", key.trim_start_matches('/')) }
    }

    /// The version to continue with.
    #[must_use]
    pub(crate) fn version(&self) -> TokenVersion {
        self.version
    }

    /// The first key of the next page, relative to the listed range and without a leading slash.
    #[must_use]
    pub(crate) fn start(&self) -> &str {
        &self.start
    }

    /// Returns a token with this position and the latest version.
    #[must_use]
    pub(crate) fn at_latest(&self) -> Self {
        Self { version: TokenVersion::Latest, start: self.start.clone() }
    }

    /// The text sent to the client.
    #[must_use]
    pub(crate) fn encode(&self) -> String {
        let rv = match self.version {
            TokenVersion::At(revision) => i64::try_from(revision).unwrap_or(i64::MAX),
            TokenVersion::Latest => -1,
        };
        let encoded = EncodedToken { v: VERSION.to_owned(), rv, start: self.start.clone() };
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&encoded).unwrap_or_default())
    }

    /// The position a client sent.
    ///
    /// # Errors
    /// See [`ContinueTokenError`].
    pub(crate) fn decode(text: &str) -> Result<Self, ContinueTokenError> {
        let bytes = LENIENT.decode(text).map_err(|_| ContinueTokenError::Undecodable(base64_error(text)))?;
        let encoded = decode_json(&bytes)?;
        if encoded.v != VERSION {
            return Err(ContinueTokenError::UnknownVersion(encoded.v));
        }
        let version = match encoded.rv {
            0 => return Err(ContinueTokenError::NoVersion),
            rv => u64::try_from(rv).map_or(TokenVersion::Latest, TokenVersion::At),
        };
        let start = clean(&encoded.start)?;
        Ok(Self { version, start: start.to_owned() })
    }
}

/// Errors are those of Go's decoder.
fn decode_json(bytes: &[u8]) -> Result<EncodedToken, ContinueTokenError> {
    json::check_syntax(bytes).map_err(|e| ContinueTokenError::Undecodable(e.to_string()))?;
    serde_json::from_slice(bytes).map_err(|e| ContinueTokenError::Undecodable(e.to_string()))
}

/// Go's message, with the position of the first illegal byte.
fn base64_error(text: &str) -> String {
    let valid = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    let at = text.as_bytes().iter().take_while(|b| valid(b)).count();
    // All bytes are legal, but one alone at the end makes no byte of data: Go names the begin of the last four.
    let at = if at == text.len() { at - at % 4 } else { at };
    format!("illegal base64 data at input byte {at}")
}

/// Tokens minted by a cache have one leading slash, those of a store none; both are taken. Whatever a path cleaner
/// would change could leave the range (`..`) or name another key, and is refused.
///
/// `start` is joined with the prefix of the listed range, so nothing in it may lead out of that range.
fn clean(start: &str) -> Result<&str, ContinueTokenError> {
    if start.is_empty() {
        return Err(ContinueTokenError::NoStart);
    }
    let relative = start.strip_prefix('/').unwrap_or(start);
    // The begin of the range.
    if start == "/" {
        return Ok(relative);
    }
    let mut segments = relative.split('/');
    let trailing_slash = relative.ends_with('/');
    if relative.is_empty() || trailing_slash || segments.any(|s| matches!(s, "" | "." | "..")) {
        return Err(ContinueTokenError::Unclean(start.escape_default().to_string()));
    }
    Ok(relative)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn token(json: &str) -> String {
        URL_SAFE_NO_PAD.encode(json)
    }

    #[test]
    fn recorded_refusals() {
        assert_eq!(
            ContinueToken::decode("garbage").unwrap_err().to_string(),
            "continue key is not valid: invalid character '\\x81' looking for beginning of value"
        );
        assert_eq!(
            ContinueToken::decode("eyJ2IjoiYmFkIn0").unwrap_err().to_string(),
            "continue key is not valid: server does not recognize this encoded version bad"
        );
    }

    #[test]
    fn keys_that_leave_the_range_are_refused() {
        for start in ["../secrets/x", "/../x", "a/../b", "a//b", ".", "..", "//", "a/"] {
            let text = token(&format!(r#"{{"v":"meta.k8s.io/v1","rv":5,"start":"{start}"}}"#));
            assert!(matches!(ContinueToken::decode(&text), Err(ContinueTokenError::Unclean(_))), "{start}");
        }
        let begin = ContinueToken::decode(&token(r#"{"v":"meta.k8s.io/v1","rv":5,"start":"/"}"#)).unwrap();
        assert_eq!(begin.start(), "");
    }

    #[test]
    fn both_mints_and_both_versions_are_taken() {
        let cache =
            ContinueToken::decode(&token(r#"{"v":"meta.k8s.io/v1","rv":5,"start":"/a\u0000"}"#)).unwrap();
        assert_eq!((cache.start(), cache.version()), ("a\0", TokenVersion::At(5)));
        let latest =
            ContinueToken::decode(&token(r#"{"v":"meta.k8s.io/v1","rv":-1,"start":"a\u0000"}"#)).unwrap();
        assert_eq!(latest.version(), TokenVersion::Latest);
        assert_eq!(latest, cache.at_latest());
    }

    #[test]
    fn zero_versions_and_empty_starts_are_refused() {
        let zero = token(r#"{"v":"meta.k8s.io/v1","rv":0,"start":"a"}"#);
        assert_eq!(ContinueToken::decode(&zero), Err(ContinueTokenError::NoVersion));
        let empty = token(r#"{"v":"meta.k8s.io/v1","rv":1}"#);
        assert_eq!(ContinueToken::decode(&empty), Err(ContinueTokenError::NoStart));
    }

    #[test]
    fn encoding_has_the_bytes_of_kube_apiserver() {
        assert_eq!(
            URL_SAFE_NO_PAD.decode(ContinueToken::after(TokenVersion::At(7), "ns/a").encode()).unwrap(),
            br#"{"v":"meta.k8s.io/v1","rv":7,"start":"ns/a\u0000"}"#
        );
    }

    proptest! {
        #[test]
        fn continue_tokens_read_back(rv in 1..i64::MAX as u64, key in "[a-z.]{1,5}[a-z](/[a-z]{1,5})?") {
            prop_assume!(!key.split('/').any(|s| s.chars().all(|c| c == '.')));
            let token = ContinueToken::after(TokenVersion::At(rv), &key);
            prop_assert_eq!(ContinueToken::decode(&token.encode()).unwrap(), token);
        }

        #[test]
        fn no_text_makes_decoding_panic(text in "[a-zA-Z0-9_=-]{0,80}", json in "[{}\":,a-z0-9/.]{0,40}") {
            let _ = ContinueToken::decode(&text);
            if let Ok(token) = ContinueToken::decode(&URL_SAFE_NO_PAD.encode(json)) {
                prop_assert!(ContinueToken::decode(&token.encode()).is_ok());
            }
        }
    }
}
