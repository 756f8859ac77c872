//! [`ServiceAccounts`]: authentication by service account tokens, which expire and may be bound to an object.
//!
//! A token names its account, expiry, audiences and the objects it is bound to. It is accepted as long as the account and
//! the bound object exist with the same uid. `subresources/tokens.rs` issues tokens at the `token` subresource of an
//! account. Tokens in Secrets are in [`super::legacy_token`].

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::auth::jwt::{SigningKey, VerifyingKey};
use crate::auth::legacy_token::LegacyClaims;
use crate::auth::{User, quoted};
use crate::cache::{Cache, Collection};

/// The issuer of the tokens, which is also the audience of this server.
pub const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// The message for a token that no authenticator accepts.
pub(crate) const UNKNOWN_TOKEN: &str = "unknown token";

/// The number of verified tokens that are cached. A program sends the same token with each request, and verifying a
/// signature costs more than most requests. Beyond this number the cache is cleared, which costs one verification each.
const VERIFIED_TOKENS: usize = 4096;

/// Seconds that something may have been deleted before tokens bound to it no longer hold.
const LEEWAY: i64 = 60;

/// The object that a token may be bound to besides its account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// A Pod of the account's namespace.
    Pod,
    /// A Secret of the account's namespace.
    Secret,
    /// A Node.
    Node,
}

/// One object, and not another of the same name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Its name.
    pub name: String,
    /// Its uid; empty if it was not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

/// The contents of a token to issue. Everything has been checked by the caller (`subresources/tokens.rs`); signing
/// checks nothing.
#[derive(Clone, Debug)]
pub struct Ticket {
    /// The account's namespace.
    pub namespace: String,
    /// The account.
    pub account: Identity,
    /// The audiences that it is valid for.
    pub audiences: Vec<String>,
    /// The object that it is bound to.
    pub bound: Option<(Bound, Identity)>,
    /// The node that the Pod it is bound to runs on.
    ///
    /// Shown in the user's `extra` and used by the impersonation mode `associated-node`; the token does not end with
    /// the node.
    pub runs_on: Option<Identity>,
    /// The time from which it is valid, in seconds since 1970.
    pub issued: i64,
    /// The time of its expiry, in seconds since 1970.
    ///
    /// The bounds of a lifetime are the caller's: ten minutes at least, as in kube-apiserver.
    pub expires: i64,
}

/// The claims in the names of RFC 7519 and of Kubernetes. Tokens of kube-apiserver with the same key and issuer are
/// accepted.
#[derive(Debug, Serialize, Deserialize)]
struct Claims {
    aud: Vec<String>,
    exp: i64,
    iat: i64,
    iss: String,
    jti: String,
    #[serde(rename = "kubernetes.io")]
    kubernetes: Kubernetes,
    nbf: i64,
    sub: String,
}

/// The private claims of a token: its account and bound objects.
#[derive(Debug, Serialize, Deserialize)]
struct Kubernetes {
    namespace: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<Identity>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pod: Option<Identity>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    secret: Option<Identity>,
    serviceaccount: Identity,
}

/// The claims of either kind of token.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum AnyClaims {
    Issued(Box<Claims>),
    Legacy(LegacyClaims),
}

/// The claims of a token with a good signature, and its user.
#[derive(Debug)]
struct Verified {
    claims: AnyClaims,
    user: Arc<User>,
}

/// Issues and checks tokens of service accounts. Signatures are verified once per token; expiry and bound objects at
/// each use.
#[doc(alias = "JWTTokenAuthenticator")]
#[doc(alias = "TokenGenerator")]
#[derive(Debug)]
pub struct ServiceAccounts {
    /// The key that signs new tokens.
    key: SigningKey,
    /// Keys that signed before a rotation, and are still accepted.
    former: Vec<VerifyingKey>,
    /// The collections in which accounts and bound objects are looked up at each use of a token.
    accounts: Arc<Collection>,
    pods: Arc<Collection>,
    secrets: Arc<Collection>,
    nodes: Arc<Collection>,
    /// Tokens whose signature was verified, bounded by [`VERIFIED_TOKENS`]. Held for a lookup or an insertion.
    verified: Mutex<HashMap<Box<str>, Arc<Verified>>>,
}

impl ServiceAccounts {
    /// Signs with `key`, accepts tokens of `key` and of the `former` keys, and looks up bound objects in the cache.
    pub(crate) fn new(key: SigningKey, former: Vec<VerifyingKey>, cache: &Cache) -> Self {
        let [accounts, pods, secrets, nodes] =
            ["serviceaccounts", "pods", "secrets", "nodes"].map(|name| cache.collection(name, &[]));
        Self { key, former, accounts, pods, secrets, nodes, verified: Mutex::default() }
    }

    /// The public keys that check these tokens, as JSON Web Keys.
    pub(crate) fn public_keys(&self) -> Vec<listwatch_wire::json::Value> {
        std::iter::once(self.key.public()).chain(self.former.iter().map(VerifyingKey::public)).collect()
    }

    /// A signed token.
    ///
    /// # Errors
    /// The reason why the server cannot sign.
    pub fn issue(&self, ticket: Ticket) -> Result<String, String> {
        let Ticket { namespace, account, audiences, bound, runs_on, issued, expires } = ticket;
        let bound_to =
            |kind| bound.as_ref().filter(|(k, _)| *k == kind).map(|(_, identity)| identity.clone());
        let claims = Claims {
            aud: audiences,
            exp: expires,
            iat: issued,
            nbf: issued,
            iss: ISSUER.to_owned(),
            jti: uuid::Uuid::new_v4().to_string(),
            sub: username(&namespace, &account.name),
            kubernetes: Kubernetes {
                node: bound_to(Bound::Node).or(runs_on),
                pod: bound_to(Bound::Pod),
                secret: bound_to(Bound::Secret),
                serviceaccount: account,
                namespace,
            },
        };
        self.key.sign(&claims)
    }

    /// Returns the user of a token that is valid now for one of these audiences, and those audiences.
    ///
    /// # Errors
    /// The reason the token is rejected, for TokenReviews and logs.
    pub fn check(
        &self,
        token: &str,
        audiences: &[&str],
        now: Timestamp,
    ) -> Result<(Arc<User>, Vec<String>), String> {
        let verified = self.verified(token).ok_or(crate::auth::UNKNOWN_TOKEN)?;
        let claims = match &verified.claims {
            AnyClaims::Issued(claims) => claims,
            AnyClaims::Legacy(claims) => {
                let meant = self.check_legacy(claims, token, audiences, now)?;
                return Ok((Arc::clone(&verified.user), meant));
            }
        };
        let meant: Vec<String> =
            claims.aud.iter().filter(|a| audiences.contains(&a.as_str())).cloned().collect();
        let now = now.as_second();
        if meant.is_empty() {
            return Err(wrong_audience(&claims.aud, audiences));
        }
        if now >= claims.exp {
            return Err("service account token has expired".to_owned());
        }
        if now < claims.nbf {
            return Err("service account token is not valid yet".to_owned());
        }
        if !self.is_alive(claims, now) {
            return Err("service account token has been invalidated".to_owned());
        }
        Ok((Arc::clone(&verified.user), meant))
    }

    /// Checks a token that is in a Secret. It is for this server only. Returns its audiences.
    fn check_legacy(
        &self,
        claims: &LegacyClaims,
        token: &str,
        audiences: &[&str],
        now: Timestamp,
    ) -> Result<Vec<String>, String> {
        let own = vec![ISSUER.to_owned()];
        if !audiences.contains(&ISSUER) {
            return Err(wrong_audience(&own, audiences));
        }
        claims.check(token, &self.secrets)?;
        let account = claims.account();
        if !is_there(&self.accounts, Some(&claims.namespace), &account, now.as_second() + LEEWAY) {
            return Err(format!("ServiceAccount {}/{} has been deleted", claims.namespace, account.name));
        }
        Ok(own)
    }

    /// Returns true if a token is good but for the object it is bound to, which is not there: the cache may be a moment behind.
    pub(super) fn misses_objects(&self, token: &str) -> bool {
        let time = Timestamp::now();
        let now = time.as_second();
        self.verified(token).is_some_and(|verified| match &verified.claims {
            AnyClaims::Issued(claims) => {
                (claims.nbf..claims.exp).contains(&now) && !self.is_alive(claims, now)
            }
            AnyClaims::Legacy(claims) => self.check_legacy(claims, token, &[ISSUER], time).is_err(),
        })
    }

    /// Returns the claims of a token whose signature is good: from memory, or by trying the current key and then
    /// former ones.
    fn verified(&self, token: &str) -> Option<Arc<Verified>> {
        if let Some(known) = self.verified.lock().get(token) {
            return Some(Arc::clone(known));
        }
        let claims: AnyClaims = self.key.verify(token).or_else(|| {
            let former = self.former.iter();
            former.filter_map(|key| key.verify(token)).next()
        })?;
        let user = match &claims {
            AnyClaims::Issued(claims) if claims.iss == ISSUER => user(claims),
            AnyClaims::Legacy(claims) if claims.are_valid() => {
                user_of(&claims.namespace, &claims.account(), BTreeMap::new())
            }
            _ => return None,
        };
        let verified = Arc::new(Verified { user: Arc::new(user), claims });
        let mut known = self.verified.lock();
        if known.len() >= VERIFIED_TOKENS {
            known.clear();
        }
        known.insert(token.into(), Arc::clone(&verified));
        Some(verified)
    }

    /// Checks that the account and the object the token is bound to still exist and are the same.
    ///
    /// Up to four lookups in snapshots of the cache, at each use of a token. kube-apiserver asks its informers, or
    /// the store if they do not have the object.
    fn is_alive(&self, claims: &Claims, now: i64) -> bool {
        let Kubernetes { namespace, node, pod, secret, serviceaccount } = &claims.kubernetes;
        let inside = Some(namespace.as_str());
        let bound = |collection, namespace, to: &Option<Identity>| {
            to.as_ref().is_none_or(|identity| is_there(collection, namespace, identity, now))
        };
        // The node of a Pod is information only; the token is bound to the Pod.
        let node = if pod.is_some() { &None } else { node };
        is_there(&self.accounts, inside, serviceaccount, now)
            && bound(&self.pods, inside, pod)
            && bound(&self.secrets, inside, secret)
            && bound(&self.nodes, None, node)
    }
}

/// Returns true if an object exists, is the same, and was not deleted for longer than clocks differ.
fn is_there(collection: &Collection, namespace: Option<&str>, identity: &Identity, now: i64) -> bool {
    let snapshot = collection.snapshot();
    let Some(object) = snapshot.get(&collection.key(namespace, &identity.name)) else { return false };
    let deleted = object.field("metadata.deletionTimestamp").and_then(|time| time.parse::<Timestamp>().ok());
    object.field("metadata.uid") == Some(identity.uid.as_str())
        && deleted.is_none_or(|time| time.as_second() >= now - LEEWAY)
}

/// The error for a token that is meant for other audiences.
pub(super) fn wrong_audience(own: &[String], wanted: &[&str]) -> String {
    let wanted: Vec<String> = wanted.iter().map(|&audience| audience.to_owned()).collect();
    let (own, wanted) = (quoted(own), quoted(&wanted));
    format!("token audiences [{own}] is invalid for the target audiences [{wanted}]")
}

/// The user name of an account, in all of Kubernetes.
pub(super) fn username(namespace: &str, name: &str) -> String {
    format!("system:serviceaccount:{namespace}:{name}")
}

/// Made once per verified token and shared by its requests.
fn user(claims: &Claims) -> User {
    let account = &claims.kubernetes;
    user_of(&account.namespace, &account.serviceaccount, extra(claims))
}

fn user_of(namespace: &str, account: &Identity, extra: BTreeMap<String, Vec<String>>) -> User {
    User {
        extra,
        name: username(namespace, &account.name),
        uid: account.uid.clone(),
        groups: vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
            "system:authenticated".to_owned(),
        ],
    }
}

/// The `extra` fields of a user that come from its token.
fn extra(claims: &Claims) -> BTreeMap<String, Vec<String>> {
    let Kubernetes { node, pod, .. } = &claims.kubernetes;
    let mut extra = BTreeMap::new();
    let mut tell = |key: &str, value: &str| {
        if !value.is_empty() {
            extra.insert(format!("authentication.kubernetes.io/{key}"), vec![value.to_owned()]);
        }
    };
    tell("credential-id", &format!("JTI={}", claims.jti));
    for (kind, identity) in [("pod", pod), ("node", node)] {
        if let Some(identity) = identity {
            tell(&format!("{kind}-name"), &identity.name);
            tell(&format!("{kind}-uid"), &identity.uid);
        }
    }
    extra
}
