//! Bearer tokens.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use http::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL};
use jiff::Timestamp;

use crate::auth::service_account::ISSUER;
use crate::auth::{ServiceAccounts, User};

/// The subprotocol in which browsers send a token, as they cannot set headers on a WebSocket.
pub(crate) const TOKEN_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// A static token and whose it is.
#[derive(Clone)]
pub struct Token {
    /// The secret.
    pub secret: String,
    /// Whose it is.
    pub user: User,
}

impl std::fmt::Debug for Token {
    /// Without the secret, which has no place in logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Token").field("user", &self.user).finish_non_exhaustive()
    }
}

/// Turns credentials into users.
#[derive(Default)]
pub struct Authenticator {
    tokens: HashMap<String, Arc<User>>,
    service_accounts: Option<ServiceAccounts>,
    anonymous: Option<Arc<User>>,
}

impl std::fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authenticator").field("tokens", &self.tokens.len()).finish_non_exhaustive()
    }
}

impl Authenticator {
    /// Knows these tokens. If `anonymous`, a request without credentials is made by `system:anonymous`.
    #[must_use]
    pub fn new(tokens: Vec<Token>, anonymous: bool) -> Self {
        let tokens = tokens.into_iter().map(|t| (t.secret, Arc::new(authenticated(t.user))));
        Self {
            tokens: tokens.collect(),
            service_accounts: None,
            anonymous: anonymous.then(|| Arc::new(User::anonymous())),
        }
    }

    /// Knows the tokens of service accounts too.
    #[must_use]
    pub fn with_service_accounts(mut self, service_accounts: ServiceAccounts) -> Self {
        self.service_accounts = Some(service_accounts);
        self
    }

    /// Who issues tokens for service accounts.
    #[must_use]
    pub fn service_accounts(&self) -> Option<&ServiceAccounts> {
        self.service_accounts.as_ref()
    }

    /// Who sent these headers. `None` for credentials that are wrong, or missing where they are needed.
    #[must_use]
    pub fn authenticate(&self, headers: &HeaderMap) -> Option<Arc<User>> {
        match bearer(headers).or_else(|| websocket_bearer(headers)) {
            Some(token) => self.user_of(&token),
            None => self.anonymous.clone(),
        }
    }

    /// Whose token this is.
    #[must_use]
    pub fn user_of(&self, token: &str) -> Option<Arc<User>> {
        self.user_for(token, &[ISSUER]).map(|(user, _)| user)
    }

    /// Whose token this is, and for which of these audiences it is meant. Static tokens are meant for this server.
    #[must_use]
    pub fn user_for(&self, token: &str, audiences: &[&str]) -> Option<(Arc<User>, Vec<String>)> {
        match self.tokens.get(token) {
            Some(user) => audiences.contains(&ISSUER).then(|| (Arc::clone(user), vec![ISSUER.to_owned()])),
            None => self.service_accounts.as_ref()?.check(token, audiences, Timestamp::now()),
        }
    }
}

fn authenticated(mut user: User) -> User {
    if !user.is_in("system:authenticated") {
        user.groups.push("system:authenticated".to_owned());
    }
    user
}

/// The token of an `Authorization: Bearer` header. An empty token, or another scheme, counts as no credentials.
fn bearer(headers: &HeaderMap) -> Option<String> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then(|| token.to_owned())
}

fn websocket_bearer(headers: &HeaderMap) -> Option<String> {
    let protocols = headers.get(SEC_WEBSOCKET_PROTOCOL)?.to_str().ok()?;
    let encoded = protocols.split(',').find_map(|p| p.trim().strip_prefix(TOKEN_PROTOCOL))?;
    String::from_utf8(URL_SAFE_NO_PAD.decode(encoded).ok()?).ok()
}

/// Reads kube-apiserver's CSV: `token,user,uid` and optionally `"group1,group2"`. Lines that begin with `#` are comments.
///
/// # Errors
/// The line and what is wrong with it.
pub fn parse_token_file(text: &str) -> Result<Vec<Token>, String> {
    let lines = text.lines().enumerate().map(|(i, l)| (i + 1, l.trim()));
    lines
        .filter(|(_, l)| !l.is_empty() && !l.starts_with('#'))
        .map(|(number, line)| token(line, number))
        .collect()
}

fn token(line: &str, number: usize) -> Result<Token, String> {
    let fields = csv_fields(line).ok_or_else(|| format!("line {number}: a quote is not closed"))?;
    let mut fields = fields.into_iter();
    let (Some(secret), Some(name), Some(uid)) = (fields.next(), fields.next(), fields.next()) else {
        return Err(format!("line {number}: needs at least token, user and uid"));
    };
    if secret.is_empty() || name.is_empty() {
        return Err(format!("line {number}: token and user must not be empty"));
    }
    let groups = fields.next().unwrap_or_default();
    let groups = groups.split(',').map(str::trim).filter(|g| !g.is_empty()).map(str::to_owned).collect();
    Ok(Token { secret, user: User { name, uid, groups, ..User::default() } })
}

/// Commas inside quotes do not separate; a doubled quote inside quotes is one quote.
fn csv_fields(line: &str) -> Option<Vec<String>> {
    let (mut fields, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(std::mem::take(&mut field).trim().to_owned()),
            c => field.push(c),
        }
    }
    fields.push(field.trim().to_owned());
    (!quoted).then_some(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_files_are_read_as_kube_apiserver_reads_them() {
        let tokens =
            parse_token_file("# people\nt1,admin,1,\"system:masters,devs\"\n\nt2, alice ,2\n").unwrap();
        assert_eq!(tokens[0].user.groups, ["system:masters", "devs"]);
        assert_eq!((tokens[1].secret.as_str(), tokens[1].user.name.as_str()), ("t2", "alice"));
        assert!(parse_token_file("t1,admin").unwrap_err().starts_with("line 1"));
        assert!(parse_token_file("a,b,c,\"x").unwrap_err().contains("quote"));
    }

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
        assert_eq!(with("bearer  t1").as_deref(), Some("admin"));
        assert_eq!(with("Bearer t2"), None);
        assert_eq!(with("Bearer ").as_deref(), Some("system:anonymous"));
        assert_eq!(with("Basic eDp5").as_deref(), Some("system:anonymous"));
    }
}
