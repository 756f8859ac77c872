//! Claims of an OpenID Connect token to a [`User`]: times, audience, user name, groups, uid, required claims. Pure.
//!
//! The order of checks and the messages are those of kube-apiserver's OIDC authenticator, since both appear in audit
//! logs and TokenReviews. The signature has been verified before ([`super::keys`]); time is passed in. Expiry is
//! exact, `nbf` has five minutes of leeway, as in the Go library. The rules of which claim means what are
//! [`super::options`].

use std::collections::BTreeMap;

use listwatch_wire::go::quote;
use serde_json::{Map, Value};

use super::options::OidcIssuer;
use crate::auth::User;

/// The claims of a token, as JSON. Claims that no option names are ignored.
pub(super) type OidcClaims = Map<String, Value>;

/// Seconds by which a token may be from the future: clocks differ.
const LEEWAY: i64 = 300;

/// Returns the user of verified claims. `now` is in seconds since 1970.
///
/// # Errors
/// The reason the claims are rejected.
pub(super) fn user(issuer: &OidcIssuer, claims: &OidcClaims, now: i64) -> Result<User, String> {
    check_time(claims, now)?;
    check_audience(issuer, claims)?;
    let mut groups = groups(issuer, claims)?;
    if !groups.iter().any(|group| group == "system:authenticated") {
        groups.push("system:authenticated".to_owned());
    }
    let user =
        User { name: username(issuer, claims)?, groups, uid: uid(issuer, claims)?, extra: extra(claims) };
    check_required(issuer, claims)?;
    Ok(user)
}

/// Expiry is required: a token without `exp` would be valid for ever.
fn check_time(claims: &OidcClaims, now: i64) -> Result<(), String> {
    let expires = seconds(claims, "exp").ok_or("oidc: verify token: oidc: token has no expiry")?;
    if expires < now {
        return Err(format!("oidc: verify token: oidc: token is expired (Token Expiry: {expires})"));
    }
    let begins = match claims.get("nbf") {
        None | Some(Value::Null) => return Ok(()),
        // An unreadable `nbf` must not be treated as absent.
        Some(_) => {
            seconds(claims, "nbf").ok_or("oidc: verify token: oidc: failed to unmarshal claims: nbf")?
        }
    };
    if begins > now.saturating_add(LEEWAY) {
        return Err("oidc: verify token: oidc: current time before the nbf (not before) time".to_owned());
    }
    Ok(())
}

/// A time in seconds; issuers write fractions, too.
pub(super) fn seconds(claims: &OidcClaims, name: &str) -> Option<i64> {
    let value = claims.get(name)?;
    value.as_i64().or_else(|| {
        let fraction = value.as_f64().filter(|seconds| seconds.abs() < 1e15)?;
        format!("{:.0}", fraction.trunc()).parse().ok()
    })
}

/// One match suffices, which is `MatchAny` of the configuration file and the only policy there is.
fn check_audience(issuer: &OidcIssuer, claims: &OidcClaims) -> Result<(), String> {
    let meant = texts(claims.get("aud").unwrap_or(&Value::Null)).unwrap_or_default();
    let known = meant.iter().any(|audience| issuer.audiences.contains(audience));
    if known { Ok(()) } else { Err("oidc: verify token: oidc: expected audience in the token".to_owned()) }
}

/// One text, or a list of them.
fn texts(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::String(text) => Some(vec![text.clone()]),
        Value::Array(items) => items.iter().map(|item| item.as_str().map(str::to_owned)).collect(),
        _ => None,
    }
}

fn text<'a>(claims: &'a OidcClaims, name: &str) -> Option<&'a str> {
    claims.get(name)?.as_str()
}

/// The user name claim with its prefix. An email must not be marked as unverified, since anybody could claim it.
fn username(issuer: &OidcIssuer, claims: &OidcClaims) -> Result<String, String> {
    let claim = &issuer.username_claim;
    let name = text(claims, claim).filter(|name| !name.is_empty());
    let name =
        name.ok_or_else(|| format!("oidc: parse username claims {}: claim not present", quote(claim)))?;
    if claim == "email" {
        match claims.get("email_verified") {
            None | Some(Value::Bool(true)) => {}
            Some(Value::Bool(false)) => return Err("oidc: email not verified".to_owned()),
            Some(_) => return Err("oidc: parse 'email_verified' claim: not a boolean".to_owned()),
        }
    }
    Ok(format!("{}{name}", issuer.username_prefix))
}

/// One text counts as a list of one, because some issuers leave out the brackets for a single group.
fn groups(issuer: &OidcIssuer, claims: &OidcClaims) -> Result<Vec<String>, String> {
    let claim = &issuer.groups_claim;
    let Some(value) = claims.get(claim).filter(|_| !claim.is_empty()) else { return Ok(Vec::new()) };
    let groups =
        texts(value).ok_or_else(|| format!("oidc: parse groups claim {}: not text", quote(claim)))?;
    Ok(groups.iter().map(|group| format!("{}{group}", issuer.groups_prefix)).collect())
}

/// A configured claim that is missing rejects the token: an empty uid would be shared by all users without it.
fn uid(issuer: &OidcIssuer, claims: &OidcClaims) -> Result<String, String> {
    if issuer.uid_claim.is_empty() {
        return Ok(String::new());
    }
    let uid = text(claims, &issuer.uid_claim).map(str::to_owned);
    uid.ok_or_else(|| {
        format!("oidc: error unmarshalling uid claim: {} not present", quote(&issuer.uid_claim))
    })
}

/// The `credential-id` of the token, for audit logs.
fn extra(claims: &OidcClaims) -> BTreeMap<String, Vec<String>> {
    let id = text(claims, "jti").filter(|id| !id.is_empty());
    let credential = id.map(|id| vec![format!("JTI={id}")]);
    credential.map(|id| ("authentication.kubernetes.io/credential-id".to_owned(), id)).into_iter().collect()
}

/// Compared as texts. A number or boolean never matches, as in kube-apiserver.
fn check_required(issuer: &OidcIssuer, claims: &OidcClaims) -> Result<(), String> {
    issuer.required_claims.iter().try_for_each(|(claim, wanted)| match claims.get(claim) {
        None => Err(format!("oidc: required claim {claim} not present in ID token")),
        Some(Value::String(value)) if value == wanted => Ok(()),
        Some(Value::String(_)) => Err(format!("oidc: required claim {claim} value does not match")),
        Some(_) => Err(format!("oidc: parse claim {claim}: not text")),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn issuer() -> OidcIssuer {
        OidcIssuer {
            username_claim: "sub".to_owned(),
            username_prefix: "oidc:".to_owned(),
            groups_claim: "groups".to_owned(),
            groups_prefix: "oidc:".to_owned(),
            required_claims: [("tenant".to_owned(), "us".to_owned())].into(),
            ..OidcIssuer::new("https://issuer", "client")
        }
    }

    fn read(issuer: &OidcIssuer, change: Value) -> Result<User, String> {
        let mut claims = json!({"sub": "jane", "aud": "client", "exp": 1000, "groups": ["a", "b"], "tenant": "us", "jti": "7"});
        for (key, value) in change.as_object().unwrap() {
            match value {
                Value::Null => claims.as_object_mut().unwrap().remove(key),
                value => claims.as_object_mut().unwrap().insert(key.clone(), value.clone()),
            };
        }
        user(issuer, claims.as_object().unwrap(), 500)
    }

    #[test]
    fn claims_are_a_user_with_prefixes() {
        let user = read(&issuer(), json!({})).unwrap();
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("oidc:jane", ""));
        assert_eq!(user.groups, ["oidc:a", "oidc:b", "system:authenticated"]);
        assert_eq!(user.extra["authentication.kubernetes.io/credential-id"], ["JTI=7"]);
        let one = read(&issuer(), json!({"groups": "a", "aud": ["x", "client"], "exp": 1000.5})).unwrap();
        assert_eq!(one.groups, ["oidc:a", "system:authenticated"]);
    }

    #[test]
    fn wrong_or_absent_claims_do_not_authenticate() {
        for (change, why) in [
            (json!({"exp": 400}), "token is expired"),
            (json!({"exp": null}), "no expiry"),
            (json!({"exp": "1000"}), "no expiry"),
            (json!({"nbf": 900}), "nbf"),
            (json!({"nbf": "900"}), "nbf"),
            (json!({"nbf": 1e30}), "nbf"),
            (json!({"aud": "other"}), "audience"),
            (json!({"aud": null}), "audience"),
            (json!({"sub": null}), "username"),
            (json!({"sub": ""}), "username"),
            (json!({"sub": 5}), "username"),
            (json!({"groups": [1]}), "groups"),
            (json!({"tenant": null}), "required claim tenant not present"),
            (json!({"tenant": "eu"}), "required claim tenant value does not match"),
            (json!({"tenant": ["us"]}), "parse claim tenant"),
        ] {
            let error = read(&issuer(), change.clone()).unwrap_err();
            assert!(error.contains(why), "{change}: {error}");
        }
        assert!(read(&issuer(), json!({"nbf": 700})).is_ok(), "clocks differ");
    }

    #[test]
    fn an_unverified_email_does_not_authenticate() {
        let issuer = OidcIssuer { username_claim: "email".to_owned(), ..issuer() };
        let mail = |verified: Value| read(&issuer, json!({"email": "j@x", "email_verified": verified}));
        assert_eq!(mail(Value::Null).unwrap().name, "oidc:j@x");
        assert_eq!(mail(json!(true)).unwrap().name, "oidc:j@x");
        assert!(mail(json!(false)).is_err() && mail(json!("true")).is_err());
    }
}
