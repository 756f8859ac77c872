//! [`Authenticator`]: from the credentials of a request to a [`User`]. The union authenticator of kube-apiserver.
//!
//! The order is client certificate, static token, service account token, bootstrap token, OpenID Connect, webhook, then
//! `system:anonymous` if nothing was presented. Credentials that are present and wrong never fall back to anonymous:
//! that would turn an expired token into a request that partly works.
//!
//! Authentication itself never waits. What must be fetched (keys of an issuer, the response of a webhook) is fetched
//! before, by [`Authenticator::prepare`], and then found in a cache. Permissions are not decided here; the next step
//! is impersonation (`impersonate`) and then [`crate::auth::Authorizer`].

use std::collections::HashMap;
use std::sync::Arc;

use http::HeaderMap;
use jiff::Timestamp;
use rustls::pki_types::CertificateDer;

use crate::auth::oidc::Oidc;
use crate::auth::service_account::{ISSUER, wrong_audience};
use crate::auth::webhook::{TokenVerdict, TokenWebhook};
use crate::auth::x509::{CertificateUser, ClientCertificates};
use crate::auth::{BootstrapTokens, ServiceAccounts, Token, User, bearer};

/// Turns credentials into users. Calls are cheap: every source answers from memory, and no method but
/// [`Authenticator::prepare`] waits.
///
/// ```
/// use http::HeaderMap;
/// use http::header::AUTHORIZATION;
/// use listwatch_server::auth::{Authenticator, parse_token_file};
///
/// let tokens = parse_token_file("secret,alice,uid-1,\"devs\"").unwrap();
/// let authenticator = Authenticator::new(tokens, true);
/// let user = |headers: &HeaderMap| authenticator.authenticate(headers).map(|user| user.name.clone());
/// let mut headers = HeaderMap::new();
/// assert_eq!(user(&headers).as_deref(), Some("system:anonymous"));
/// headers.insert(AUTHORIZATION, "Bearer secret".parse().unwrap());
/// assert_eq!(user(&headers).as_deref(), Some("alice"));
/// headers.insert(AUTHORIZATION, "Bearer wrong".parse().unwrap());
/// assert_eq!(user(&headers), None);
/// ```
///
/// The order of sources matters for cost only where two could accept the same token: a static token is a hash lookup, a
/// token of a service account one verification per process, and the rest may need a call. kube-apiserver wraps the same
/// union in a cache of ten seconds; here each source caches what is expensive for it (signatures, answers of the
/// webhook), so a deleted ServiceAccount ends its tokens at the next request.
#[doc(alias = "AuthenticateRequest")]
#[doc(alias = "TokenAuthenticator")]
#[derive(Default)]
pub struct Authenticator {
    /// Static tokens. Looked up by hash of the whole token, so that timing reveals nothing about it.
    tokens: HashMap<String, Arc<User>>,
    service_accounts: Option<ServiceAccounts>,
    client_certificates: Option<ClientCertificates>,
    /// The user of requests without credentials; `None` if those are refused.
    anonymous: Option<Arc<User>>,
    /// Tokens of joining nodes, if they are accepted.
    bootstrap: Option<BootstrapTokens>,
    /// Issuers, in the order they are tried. The first whose URL a token names decides.
    oidc: Vec<Arc<Oidc>>,
    /// Asked last, about tokens that nothing else accepts.
    webhook: Option<Arc<TokenWebhook>>,
}

impl std::fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authenticator").field("tokens", &self.tokens.len()).finish_non_exhaustive()
    }
}

impl Authenticator {
    /// Accepts these static tokens; empty ones are ignored. If `anonymous`, a request without credentials is made by
    /// `system:anonymous`.
    #[must_use]
    pub fn new(tokens: Vec<Token>, anonymous: bool) -> Self {
        let tokens = tokens.into_iter().filter(|token| !token.secret.is_empty());
        let tokens = tokens.map(|token| (token.secret, Arc::new(authenticated(token.user))));
        Self {
            tokens: tokens.collect(),
            anonymous: anonymous.then(|| Arc::new(User::anonymous())),
            ..Self::default()
        }
    }

    /// Accepts tokens of service accounts as well. Without it, the `token` subresource cannot issue any.
    #[must_use]
    pub(crate) fn with_service_accounts(mut self, service_accounts: ServiceAccounts) -> Self {
        self.service_accounts = Some(service_accounts);
        self
    }

    /// Accepts bootstrap tokens as well.
    #[must_use]
    pub(crate) fn with_bootstrap_tokens(mut self, tokens: Option<BootstrapTokens>) -> Self {
        self.bootstrap = tokens;
        self
    }

    /// Accepts client certificates of these CAs as well.
    pub(crate) fn with_client_certificates(mut self, certificates: ClientCertificates) -> Self {
        self.client_certificates = Some(certificates);
        self
    }

    /// Verifies the certificates that a client presented, its own first. The result holds for the whole connection.
    ///
    /// Called once per TLS connection, because path validation costs several signatures; [`CertificateUser::user`]
    /// checks the expiry at each request.
    pub(crate) fn check_certificates(&self, chain: &[CertificateDer<'_>]) -> CertificateUser {
        self.client_certificates.as_ref().map_or(CertificateUser::None, |known| known.check(chain))
    }

    /// Accepts tokens of OpenID Connect issuers, and calls a webhook for tokens that no other source accepts.
    #[must_use]
    pub(crate) fn with_others(mut self, oidc: Vec<Arc<Oidc>>, webhook: Option<Arc<TokenWebhook>>) -> Self {
        (self.oidc, self.webhook) = (oidc, webhook);
        self
    }

    /// The issuer of service account tokens.
    #[must_use]
    pub(crate) fn service_accounts(&self) -> Option<&ServiceAccounts> {
        self.service_accounts.as_ref()
    }

    /// Returns the user that sent these headers; `None` for credentials that are wrong, or missing where they are needed.
    #[must_use]
    pub fn authenticate(&self, headers: &HeaderMap) -> Option<Arc<User>> {
        self.authenticate_peer(headers, None)
    }

    /// Returns the user that sent these headers over a connection with this certificate. A valid certificate comes before
    /// a token. An invalid one counts as wrong credentials, unless the token is right.
    pub(crate) fn authenticate_peer(
        &self,
        headers: &HeaderMap,
        certificate: Option<&CertificateUser>,
    ) -> Option<Arc<User>> {
        if let Some(user) = certificate.and_then(|certificate| certificate.user(Timestamp::now())) {
            return Some(Arc::clone(user));
        }
        match bearer::token(headers) {
            Ok(Some(token)) => self.user_of(&token),
            Ok(None) => self.anonymous.clone().filter(|_| certificate.is_none()),
            Err(bearer::Malformed) => None,
        }
    }

    /// Fetches what [`Authenticator::authenticate`] needs for these headers: keys of an OpenID Connect issuer, the
    /// answer of a webhook. Returns at once if a certificate or one of this server's own tokens already identifies
    /// the user.
    ///
    /// Bounded by the limits of the sources: at most five seconds for keys, and the time limit of the webhook.
    /// Failures are not reported here; authentication finds no answer then and rejects the token.
    pub(crate) async fn prepare(&self, headers: &HeaderMap, certificate: Option<&CertificateUser>) {
        let certified = certificate.is_some_and(|known| known.user(Timestamp::now()).is_some());
        if !self.has_other_issuers() || certified {
            return;
        }
        if let Ok(Some(token)) = bearer::token(headers) {
            Box::pin(self.prepare_token(&token, &[ISSUER])).await;
        }
    }

    /// Fetches what is needed to check a token for these audiences, as [`Authenticator::prepare`] does for a request.
    pub(crate) async fn prepare_token(&self, token: &str, audiences: &[&str]) {
        if !self.has_other_issuers() || self.own(token, audiences).is_ok() {
            return;
        }
        for issuer in &self.oidc {
            issuer.prepare(token).await;
        }
        if let Some(webhook) = &self.webhook
            && self.user_by_oidc(token, audiences).is_none_or(|user| user.is_err())
        {
            webhook.prepare(token, audiences).await;
        }
    }

    /// True if a token may be one of another issuer.
    pub(crate) fn has_other_issuers(&self) -> bool {
        !self.oidc.is_empty() || self.webhook.is_some()
    }

    /// Returns true if a token that was accepted is still valid; used for watches ([`crate::auth::Recheck`]). It
    /// never waits: if a webhook would have to be asked, that happens in the background and the token counts as valid
    /// until the response is there.
    pub(crate) fn still_holds(&self, token: &str) -> bool {
        let audiences = [ISSUER];
        let Some(webhook) = &self.webhook else { return self.user_of(token).is_some() };
        if self.own(token, &audiences).is_ok()
            || self.user_by_oidc(token, &audiences).is_some_and(|user| user.is_ok())
        {
            return true;
        }
        match webhook.cached(token, &audiences) {
            Some(verdict) => verdict.is_ok(),
            None => {
                let (webhook, token) = (Arc::clone(webhook), token.to_owned());
                tokio::spawn(async move { webhook.prepare(&token, &[ISSUER]).await });
                true
            }
        }
    }

    /// Returns true if wrong credentials may be right once the cache has come further: a token of a ServiceAccount that was made a
    /// moment ago.
    ///
    /// The handler chain then waits for the cache and authenticates once more, so that a token works on every replica
    /// as soon as its account is stored.
    pub(crate) fn may_be_behind(&self, headers: &HeaderMap) -> bool {
        let token = bearer::token(headers).ok().flatten();
        let accounts = self.service_accounts.as_ref();
        token.zip(accounts).is_some_and(|(token, accounts)| accounts.misses_objects(&token))
    }

    /// True for a token of the token file, which is valid as long as the server runs.
    pub(crate) fn is_static(&self, token: &str) -> bool {
        self.tokens.contains_key(token)
    }

    /// Returns the user of a token that is meant for this server.
    #[must_use]
    pub(crate) fn user_of(&self, token: &str) -> Option<Arc<User>> {
        self.user_for(token, &[ISSUER]).ok().map(|(user, _)| user)
    }

    /// Returns the user of a token, and those of the `audiences` that it is meant for. Static tokens are meant for this server.
    ///
    /// # Errors
    /// The reason the token is rejected, with kube-apiserver's text.
    pub(crate) fn user_for(
        &self,
        token: &str,
        audiences: &[&str],
    ) -> Result<(Arc<User>, Vec<String>), String> {
        let own = self.own(token, audiences);
        if own.is_ok() || !self.has_other_issuers() {
            return own;
        }
        let by_oidc = self.user_by_oidc(token, audiences);
        let by_webhook = || self.webhook.as_ref()?.cached(token, audiences);
        match (by_oidc, by_webhook) {
            (Some(Ok(user)), _) => Ok(user),
            (None, by_webhook) => by_webhook().unwrap_or(own),
            (Some(Err(why)), by_webhook) => match by_webhook() {
                Some(Ok(user)) => Ok(user),
                Some(Err(more)) => Err(format!("{why}, {more}")),
                None => Err(why),
            },
        }
    }

    /// Returns the user of a token by its issuer; `None` if no issuer claims it.
    fn user_by_oidc(&self, token: &str, audiences: &[&str]) -> Option<TokenVerdict> {
        let now = Timestamp::now();
        let answer = self.oidc.iter().find_map(|issuer| issuer.check(token, now).transpose())?;
        Some(answer.and_then(|user| match audiences.contains(&ISSUER) {
            true => Ok((Arc::new(user), vec![ISSUER.to_owned()])),
            false => Err(wrong_audience(&[ISSUER.to_owned()], audiences)),
        }))
    }

    /// Returns the user of a token that this server made or was given, or keeps in a Secret.
    fn own(&self, token: &str, audiences: &[&str]) -> TokenVerdict {
        self.issued(token, audiences).or_else(|why| {
            let bootstrap = self.bootstrap.as_ref().filter(|_| audiences.contains(&ISSUER));
            let user = bootstrap.and_then(|tokens| tokens.user(token, Timestamp::now()));
            user.map(|user| (Arc::new(user), vec![ISSUER.to_owned()])).ok_or(why)
        })
    }

    /// Returns the user of a token that this server made or was given.
    fn issued(&self, token: &str, audiences: &[&str]) -> TokenVerdict {
        match (self.tokens.get(token), &self.service_accounts) {
            (Some(user), _) if audiences.contains(&ISSUER) => Ok((Arc::clone(user), vec![ISSUER.to_owned()])),
            // A token from the file has no audiences to report.
            (Some(_), _) => Err(crate::auth::UNKNOWN_TOKEN.to_owned()),
            (None, Some(accounts)) => accounts.check(token, audiences, Timestamp::now()),
            (None, None) => Err(crate::auth::UNKNOWN_TOKEN.to_owned()),
        }
    }
}

/// Every authenticated user is in `system:authenticated`.
fn authenticated(mut user: User) -> User {
    if !user.is_in("system:authenticated") {
        user.groups.push("system:authenticated".to_owned());
    }
    user
}

#[cfg(test)]
mod tests {
    use http::header::AUTHORIZATION;

    use super::super::parse_token_file;
    use super::*;

    #[test]
    fn wrong_tokens_are_not_anonymous() {
        let tokens = parse_token_file("t1,admin,1").unwrap();
        let authenticator = Authenticator::new(tokens, true);
        let with = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, value.parse().unwrap());
            authenticator.authenticate(&headers).map(|u| u.name.clone())
        };
        assert_eq!(with("Bearer t1").as_deref(), Some("admin"));
        assert_eq!(with("Bearer t2"), None);
        assert_eq!(with("Bearer ").as_deref(), Some("system:anonymous"));
        assert_eq!(with("Basic eDp5").as_deref(), Some("system:anonymous"));
    }

    /// An empty file for the administrator's token used to make the empty token the administrator's.
    #[test]
    fn the_empty_token_does_not_authenticate() {
        let user = User { name: "admin".to_owned(), ..User::default() };
        let authenticator = Authenticator::new(vec![Token { secret: String::new(), user }], true);
        assert_eq!(authenticator.user_of(""), None);
    }
}
