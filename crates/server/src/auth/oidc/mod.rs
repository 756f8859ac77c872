//! OpenID Connect: authentication by tokens of external issuers.
//!
//! [`Oidc`] verifies the tokens of one issuer with the keys at hand; [`refresh`] fetches keys, off the path of
//! requests. The rest is pure: [`keys`] verifies signatures, `claims` makes users of claims, [`options`] is the
//! configuration. A token whose `iss` is another issuer's is not an error: the next authenticator is asked
//! ([`crate::auth::Authenticator`]). Verified tokens are remembered until the keys change.

mod claims;
mod keys;
mod options;
mod refresh;

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::sync::Notify;

use self::claims::OidcClaims;
use self::keys::KeySet;
pub use self::options::OidcIssuer;
use crate::auth::User;

/// Bytes of the longest token that is looked at. Real ones have a few KB at most.
const MAX_BYTES: usize = 16 << 10;

/// The number of verified tokens that are cached. Beyond it the cache is cleared, which costs one verification each.
const VERIFIED_TOKENS: usize = 4096;

/// Verifies the tokens of one issuer. Verified tokens are cached until the keys change, since verifying a signature
/// costs more than most requests.
#[derive(Debug)]
pub(crate) struct Oidc {
    issuer: OidcIssuer,
    /// The issuer's keys; none until they were fetched for the first time.
    keys: ArcSwapOption<KeySet>,
    /// The claims of tokens that these keys signed.
    verified: Mutex<HashMap<Box<str>, Arc<OidcClaims>>>,
    /// The connection to the issuer, and the progress of the present fetch.
    fetching: refresh::Fetching,
    /// Wakes the task that fetches keys.
    wanted: Notify,
}

/// The protected header of a token. An algorithm that the options do not allow is refused before any cryptography.
#[derive(Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    kid: String,
    /// Extensions that must be understood; none is.
    crit: Option<serde::de::IgnoredAny>,
}

/// A token in its parts.
struct TokenParts<'a> {
    header: Header,
    claims: OidcClaims,
    signed: &'a str,
    signature: Vec<u8>,
}

impl<'a> TokenParts<'a> {
    /// Reads the issuer without verifying anything, to select the authenticator.
    fn read(token: &'a str) -> Option<Self> {
        if token.len() > MAX_BYTES {
            return None;
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).ok();
        Some(Self {
            header: serde_json::from_slice(&decode(header)?).ok()?,
            claims: serde_json::from_slice(&decode(claims)?).ok()?,
            signed,
            signature: decode(signature)?,
        })
    }
}

impl Oidc {
    /// An issuer without keys yet: its tokens are rejected until the first fetch.
    ///
    /// # Errors
    /// The options cannot be used.
    pub(crate) fn new(issuer: OidcIssuer) -> Result<Arc<Self>, String> {
        issuer.check()?;
        let fetching = refresh::Fetching::new(&issuer)?;
        let (keys, verified, wanted) = Default::default();
        Ok(Arc::new(Self { issuer, keys, verified, fetching, wanted }))
    }

    /// Returns the user of a token; `None` if it is not one of this issuer's, which lets the next authenticator
    /// decide.
    ///
    /// # Errors
    /// The reason this issuer's token is rejected.
    pub(crate) fn check(&self, token: &str, now: Timestamp) -> Result<Option<User>, String> {
        let Some(claims) = self.claims(token)? else { return Ok(None) };
        claims::user(&self.issuer, &claims, now.as_second()).map(Some)
    }

    /// Returns the verified claims of a token; `None` if another issuer made it. The algorithm is checked against the
    /// options before the signature.
    ///
    /// The keys are loaded once and passed to [`Oidc::remember`], so that a token verified with keys that were
    /// replaced meanwhile is not kept.
    fn claims(&self, token: &str) -> Result<Option<Arc<OidcClaims>>, String> {
        if let Some(known) = self.verified.lock().get(token) {
            return Ok(Some(Arc::clone(known)));
        }
        let Some(parts) = TokenParts::read(token).filter(|parts| self.issued(parts)) else { return Ok(None) };
        let keys = self.keys.load_full().ok_or("oidc: authenticator not initialized")?;
        if !self.issuer.algorithms.contains(&parts.header.alg) || parts.header.crit.is_some() {
            return Err("oidc: verify token: oidc: malformed jwt: unexpected signature algorithm".to_owned());
        }
        let Header { alg, kid, .. } = &parts.header;
        if !keys.verifies(alg, kid, parts.signed.as_bytes(), &parts.signature) {
            return Err(
                "oidc: verify token: failed to verify signature: failed to verify id token signature"
                    .to_owned(),
            );
        }
        let claims = Arc::new(parts.claims);
        self.remember(token, &claims, &keys);
        Ok(Some(claims))
    }

    /// Exact comparison, including a slash at the end, as OpenID Connect demands.
    fn issued(&self, parts: &TokenParts<'_>) -> bool {
        parts.claims.get("iss").and_then(serde_json::Value::as_str) == Some(&self.issuer.url)
    }

    /// Caches a token, unless the keys were replaced in the meantime.
    fn remember(&self, token: &str, claims: &Arc<OidcClaims>, keys: &Arc<KeySet>) {
        let mut known = self.verified.lock();
        if !self.keys.load().as_ref().is_some_and(|current| Arc::ptr_eq(current, keys)) {
            return;
        }
        if known.len() >= VERIFIED_TOKENS {
            known.clear();
        }
        known.insert(token.into(), Arc::clone(claims));
    }

    /// Replaces the keys. Tokens that were verified with the old ones are verified again.
    fn replace_keys(&self, keys: KeySet) {
        let mut known = self.verified.lock();
        self.keys.store(Some(Arc::new(keys)));
        known.clear();
    }

    /// Returns true if the token is this issuer's, signed with a key that is not known: the issuer may have a new one.
    ///
    /// Nothing is verified at this point: a forged `iss` costs no more than the wait for a fetch that is limited by
    /// itself.
    pub(crate) fn needs_keys(&self, token: &str) -> bool {
        if self.verified.lock().contains_key(token) {
            return false;
        }
        TokenParts::read(token)
            .filter(|parts| self.issued(parts))
            .is_some_and(|parts| self.keys.load().as_ref().is_none_or(|keys| !keys.has(&parts.header.kid)))
    }
}
