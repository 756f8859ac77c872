//! [`BootstrapTokens`]: tokens of nodes that join a cluster, kept in Secrets of `kube-system` (`--enable-bootstrap-token-auth`).
//!
//! A token is `ID.SECRET`, and its Secret `bootstrap-token-ID`. The Secret is read from the cache at each use, so that a token ends
//! when it expires or its Secret is deleted. Creating and signing with such tokens is kubeadm's and a controller's.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use listwatch_kinds::tree::Tree;
use listwatch_wire::json::Value;
use sha2::{Digest as _, Sha256};

use crate::auth::User;
use crate::cache::{Cache, Collection};

const NAMESPACE: &str = "kube-system";
const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";
const DEFAULT_GROUP: &str = "system:bootstrappers";

/// Checks bootstrap tokens by the Secrets in the cache.
#[derive(Debug)]
pub(crate) struct BootstrapTokens {
    secrets: Arc<Collection>,
}

impl BootstrapTokens {
    pub(crate) fn new(cache: &Cache) -> Self {
        Self { secrets: cache.collection("secrets", &[]) }
    }

    /// Returns the user of a token; `None` for text that is no valid token.
    pub(super) fn user(&self, token: &str, now: Timestamp) -> Option<User> {
        let (id, secret) = parse(token)?;
        let snapshot = self.secrets.snapshot();
        let stored = snapshot.get(&self.secrets.key(Some(NAMESPACE), &format!("bootstrap-token-{id}")))?;
        let user = user_of(&Value::read(stored.stored()).ok()?, (id, secret), now);
        user.inspect_err(|why| tracing::debug!(id, why, "a bootstrap token is not accepted")).ok()
    }
}

/// The ID and the secret of a token.
fn parse(token: &str) -> Option<(&str, &str)> {
    let (id, secret) = token.split_once('.')?;
    let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase());
    (id.len() == 6 && secret.len() == 16 && is_plain(id) && is_plain(secret)).then_some((id, secret))
}

/// A value of the Secret as text; empty if it is not there.
fn data(object: &Value, key: &str) -> String {
    let decoded = STANDARD.decode(object.at("data").text(key)).unwrap_or_default();
    String::from_utf8(decoded).unwrap_or_default()
}

/// Decides by the Secret of a token.
///
/// # Errors
/// The reason why the token is not accepted; it contains nothing of the token or of the Secret.
fn user_of(object: &Value, (id, secret): (&str, &str), now: Timestamp) -> Result<User, &'static str> {
    if object.at("metadata").has("deletionTimestamp") {
        return Err("its Secret is deleted and awaiting removal");
    }
    if object.text("type") != SECRET_TYPE {
        return Err("its Secret has another type");
    }
    // Digests are compared, so that the time of it tells nothing about the secret.
    if Sha256::digest(data(object, "token-secret")) != Sha256::digest(secret) {
        return Err("invalid value for key token-secret");
    }
    if data(object, "token-id") != id {
        return Err("invalid value for key token-id");
    }
    let expiration = data(object, "expiration");
    // A time that cannot be read counts as passed.
    if !expiration.is_empty() && expiration.parse::<Timestamp>().ok().is_none_or(|time| time <= now) {
        return Err("it has expired");
    }
    if data(object, "usage-bootstrap-authentication") != "true" {
        return Err("it is not marked usage-bootstrap-authentication=true");
    }
    let groups =
        groups(&data(object, "auth-extra-groups")).ok_or("invalid value for key auth-extra-groups")?;
    Ok(User { name: format!("system:bootstrap:{id}"), groups, ..User::default() })
}

/// The groups of a token, sorted; `None` if a group of the Secret is none for bootstrapping.
fn groups(extra: &str) -> Option<Vec<String>> {
    let mut groups = vec![DEFAULT_GROUP.to_owned()];
    for group in extra.split(',').filter(|_| !extra.is_empty()) {
        let name = group.strip_prefix("system:bootstrappers:")?;
        let is_known = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_lowercase() || b":-".contains(&byte);
        let ends_well = name.bytes().last().is_some_and(|byte| byte.is_ascii_alphanumeric());
        if name.len() > 256 || !name.bytes().all(is_known) || !ends_well {
            return None;
        }
        groups.push(group.to_owned());
    }
    groups.sort_unstable();
    groups.dedup();
    groups.push("system:authenticated".to_owned());
    Some(groups)
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    const TOKEN: (&str, &str) = ("abcdef", "0123456789abcdef");

    fn secret(changes: &[(&str, &str)]) -> Value {
        let mut data = json!({});
        let fine =
            [("token-id", TOKEN.0), ("token-secret", TOKEN.1), ("usage-bootstrap-authentication", "true")];
        for (key, value) in fine.iter().chain(changes) {
            data.put(key, STANDARD.encode(value));
        }
        json!({"metadata": {"name": "bootstrap-token-abcdef"}, "type": SECRET_TYPE, "data": data})
    }

    fn decide(object: &Value) -> Result<User, &'static str> {
        user_of(object, TOKEN, "2026-01-01T00:00:00Z".parse().unwrap())
    }

    #[test]
    fn a_token_is_a_user_in_the_groups_of_its_secret() {
        let user = decide(&secret(&[])).unwrap();
        assert_eq!(user.name, "system:bootstrap:abcdef");
        assert_eq!(user.groups, ["system:bootstrappers", "system:authenticated"]);
        let groups = "system:bootstrappers:b,system:bootstrappers:a,system:bootstrappers:a";
        let more = decide(&secret(&[("auth-extra-groups", groups), ("expiration", "2026-01-01T00:00:01Z")]));
        assert_eq!(
            more.unwrap().groups,
            [
                "system:bootstrappers",
                "system:bootstrappers:a",
                "system:bootstrappers:b",
                "system:authenticated"
            ]
        );
    }

    #[test]
    fn secrets_that_do_not_fit_are_refused() {
        for (key, value) in [
            ("token-secret", "0123456789abcdee"),
            ("token-secret", ""),
            ("token-id", "abcdeg"),
            ("expiration", "2026-01-01T00:00:00Z"),
            ("expiration", "tomorrow"),
            ("usage-bootstrap-authentication", "yes"),
            ("auth-extra-groups", "system:masters"),
            ("auth-extra-groups", "system:bootstrappers:a,"),
            ("auth-extra-groups", "system:bootstrappers:a-"),
            ("auth-extra-groups", "system:bootstrappers:A"),
        ] {
            assert!(decide(&secret(&[(key, value)])).is_err(), "{key}: {value}");
        }
        let mut deleted = secret(&[]);
        deleted.inner("metadata").unwrap().put("deletionTimestamp", "2026-01-01T00:00:00Z");
        assert!(decide(&deleted).is_err());
        let mut opaque = secret(&[]);
        opaque.put("type", "Opaque");
        assert!(decide(&opaque).is_err());
        for text in
            ["abcdef", "abcdef.0123456789abcdef.", "ABCDEF.0123456789abcdef", "abcdef.0123456789abcde", "."]
        {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse("abcdef.0123456789abcdef"), Some(TOKEN));
    }
}
