//! Tokens in Secrets of type `kubernetes.io/service-account-token`, which kube-controller-manager makes with the key of this
//! server. They have no expiry and no audience: such a token holds as long as its Secret has it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use listwatch_wire::json;
use serde::Deserialize;

use crate::auth::service_account::Identity;
use crate::cache::{CachedObject, Collection};

/// The issuer in these tokens.
const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";
/// The label of a Secret whose token was unused for a year.
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";

/// The claims of a token in a Secret.
#[doc(alias = "legacyPrivateClaims")]
#[derive(Debug, Deserialize)]
pub(super) struct LegacyClaims {
    iss: String,
    sub: String,
    #[serde(rename = "kubernetes.io/serviceaccount/namespace")]
    pub(super) namespace: String,
    #[serde(rename = "kubernetes.io/serviceaccount/secret.name")]
    secret: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.name")]
    account: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.uid")]
    uid: String,
}

impl LegacyClaims {
    /// Returns true if the claims are complete and agree with each other.
    pub(super) fn are_valid(&self) -> bool {
        let Self { namespace, secret, account, uid, .. } = self;
        self.iss == LEGACY_ISSUER
            && [namespace, secret, account, uid].iter().all(|claim| !claim.is_empty())
            && self.sub == super::service_account::username(namespace, account)
    }

    /// The account that the token stands for.
    pub(super) fn account(&self) -> Identity {
        Identity { name: self.account.clone(), uid: self.uid.clone() }
    }

    /// Checks the Secret that the token is in.
    ///
    /// # Errors
    /// The reason the token is rejected.
    pub(super) fn check(&self, token: &str, secrets: &Collection) -> Result<(), String> {
        let key = secrets.key(Some(&self.namespace), &self.secret);
        let snapshot = secrets.snapshot();
        let invalidated = || "Token has been invalidated".to_owned();
        let secret = snapshot.get(&key).ok_or_else(invalidated)?;
        if secret.field("metadata.deletionTimestamp").is_some() {
            return Err(invalidated());
        }
        if !has_token(secret, token) {
            return Err("Token does not match server's copy".to_owned());
        }
        match json::raw::lookup(secret.stored(), &["metadata", "labels", INVALID_SINCE]) {
            Some(since) if since != b"\"\"" => Err(self.marked_invalid()),
            _ => Ok(()),
        }
    }

    fn marked_invalid(&self) -> String {
        let Self { namespace, secret, account, .. } = self;
        format!(
            "the token in secret {namespace}/{secret} for service account {namespace}/{account} has been marked invalid. Use tokens \
             from the TokenRequest API or manually created secret-based tokens, or remove the '{INVALID_SINCE}' label from the secret \
             to temporarily allow use of this token"
        )
    }
}

/// The signature of the token was verified before, so that the comparison tells nobody anything new.
fn has_token(secret: &CachedObject, token: &str) -> bool {
    let kept = secret.raw("data.token").and_then(json::raw::scalar);
    kept.and_then(|kept| STANDARD.decode(kept).ok()).is_some_and(|kept| kept == token.as_bytes())
}
