//! [`OidcIssuer`]: an issuer of OpenID Connect tokens, from the `--oidc-*` flags or from an
//! AuthenticationConfiguration file.
//!
//! Both sources end in one type, with kube-apiserver's defaults for each: the flags default to a user name prefix of
//! the issuer's URL, while the file must state its prefixes. Unknown fields and CEL expressions of the file are
//! errors: a rule that is ignored would authenticate users that the administrator meant to reject. The options are
//! applied in `claims.rs`.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::keys::ALGORITHMS;
use crate::files;

/// An issuer of OpenID Connect tokens, and how they are read.
#[doc(alias = "JWTAuthenticator")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OidcIssuer {
    /// Its URL, as tokens name it.
    pub url: String,
    /// The URL of its discovery document, if that is not below `url`.
    pub discovery_url: Option<String>,
    /// The CAs that the issuer's certificate is verified with, in PEM; those of the system if empty.
    pub ca: String,
    /// The audiences, of which a token must have one: the client ID.
    pub audiences: Vec<String>,
    /// The claim that is the user's name.
    pub username_claim: String,
    /// The prefix of user names, so that they clash with no others.
    ///
    /// Without it, an issuer could name a user `system:admin`.
    pub username_prefix: String,
    /// The claim that has the groups; none if it is empty.
    pub groups_claim: String,
    /// The prefix of groups.
    ///
    /// Without it, an issuer could put users into `system:masters`. The flags default to none, as in kube-apiserver.
    pub groups_prefix: String,
    /// The claim that is the user's uid; none if it is empty.
    pub uid_claim: String,
    /// Claims that a token must have, with these values.
    ///
    /// All must match. `claimValidationRules` of the file and `--oidc-required-claim` end here.
    pub required_claims: BTreeMap<String, String>,
    /// The algorithms that tokens may be signed with.
    ///
    /// From `RS256` … `ES384`; kube-apiserver's default is `RS256` alone. No symmetric algorithm can be named.
    pub algorithms: Vec<String>,
}

impl OidcIssuer {
    /// An issuer whose tokens are read as kube-apiserver does without further flags.
    #[must_use]
    pub fn new(url: &str, client_id: &str) -> Self {
        Self {
            url: url.to_owned(),
            discovery_url: None,
            ca: String::new(),
            audiences: vec![client_id.to_owned()],
            username_claim: "sub".to_owned(),
            username_prefix: format!("{url}#"),
            groups_claim: String::new(),
            groups_prefix: String::new(),
            uid_claim: String::new(),
            required_claims: BTreeMap::new(),
            algorithms: vec!["RS256".to_owned()],
        }
    }

    /// Checks that the issuer can be used: an `https` URL, an audience, a user name claim and known algorithms.
    ///
    /// # Errors
    /// The first problem, as a message for the operator.
    pub fn check(&self) -> Result<(), String> {
        if !self.url.starts_with("https://") {
            return Err("the URL of an issuer must begin with https://".to_owned());
        }
        if self.audiences.iter().all(String::is_empty) {
            return Err("an issuer needs a client ID".to_owned());
        }
        if self.username_claim.is_empty() {
            return Err("an issuer needs a claim for user names".to_owned());
        }
        match self.algorithms.iter().find(|algorithm| !ALGORITHMS.contains(&algorithm.as_str())) {
            Some(unknown) => Err(format!("signing algorithm {unknown:?} is not one of {ALGORITHMS:?}")),
            None => Ok(()),
        }
    }

    /// The URL of the issuer's discovery document, unless the options name another.
    pub(super) fn discovery(&self) -> String {
        let standard = || format!("{}/.well-known/openid-configuration", self.url.trim_end_matches('/'));
        self.discovery_url.clone().unwrap_or_else(standard)
    }

    /// Reads the issuers of an AuthenticationConfiguration, in YAML.
    ///
    /// ```
    /// use listwatch_server::auth::OidcIssuer;
    ///
    /// let text = r#"
    /// apiVersion: apiserver.config.k8s.io/v1
    /// kind: AuthenticationConfiguration
    /// jwt:
    /// - issuer: {url: "https://issuer.example.com", audiences: [my-app]}
    ///   claimMappings: {username: {claim: email, prefix: "oidc:"}}
    /// "#;
    /// let issuers = OidcIssuer::parse_configuration(text).unwrap();
    /// assert_eq!(issuers[0].username_claim, "email");
    /// ```
    ///
    /// # Errors
    /// The problem with the configuration. Expressions are not supported; they are refused rather than ignored.
    pub fn parse_configuration(text: &str) -> Result<Vec<Self>, String> {
        let read: Configuration = files::parse_yaml(text)?;
        if read.kind != "AuthenticationConfiguration"
            || !read.api_version.starts_with("apiserver.config.k8s.io/v1")
        {
            return Err("not an AuthenticationConfiguration of apiserver.config.k8s.io/v1".to_owned());
        }
        read.jwt.into_iter().map(Jwt::issuer).collect()
    }
}

/// The file as written. Every struct below denies unknown fields, because a rule that is not understood must not be
/// dropped silently.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Configuration {
    api_version: String,
    kind: String,
    #[serde(default)]
    jwt: Vec<Jwt>,
}

/// One issuer of the file with its rules.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Jwt {
    issuer: Issuer,
    #[serde(default)]
    claim_validation_rules: Vec<ClaimRule>,
    claim_mappings: Mappings,
}

/// `audienceMatchPolicy` must be given as soon as there are several audiences.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Issuer {
    url: String,
    #[serde(rename = "discoveryURL")]
    discovery_url: Option<String>,
    #[serde(default)]
    certificate_authority: String,
    audiences: Vec<String>,
    audience_match_policy: Option<String>,
}

/// A claim that a token must have. The CEL form is an error.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ClaimRule {
    claim: String,
    #[serde(default)]
    required_value: String,
}

/// The claims that become the user.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Mappings {
    username: Prefixed,
    groups: Option<Prefixed>,
    uid: Option<Claim>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Prefixed {
    claim: String,
    /// Must be there, even if it is empty: that names may clash is to be said.
    prefix: String,
}

/// A claim without a prefix.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Claim {
    claim: String,
}

impl Jwt {
    /// Moves the file's form into the one that flags have, and checks it with [`OidcIssuer::check`].
    fn issuer(self) -> Result<OidcIssuer, String> {
        let Issuer { url, discovery_url, certificate_authority, audiences, audience_match_policy } =
            self.issuer;
        if audiences.len() > 1 && audience_match_policy.as_deref() != Some("MatchAny") {
            return Err("audienceMatchPolicy must be MatchAny for multiple audiences".to_owned());
        }
        let groups =
            self.claim_mappings.groups.unwrap_or(Prefixed { claim: String::new(), prefix: String::new() });
        let required = self.claim_validation_rules.into_iter().map(|rule| (rule.claim, rule.required_value));
        let issuer = OidcIssuer {
            discovery_url,
            ca: certificate_authority,
            audiences,
            username_claim: self.claim_mappings.username.claim,
            username_prefix: self.claim_mappings.username.prefix,
            groups_claim: groups.claim,
            groups_prefix: groups.prefix,
            uid_claim: self.claim_mappings.uid.map(|uid| uid.claim).unwrap_or_default(),
            required_claims: required.collect(),
            // As in kube-apiserver, which has no field for them here.
            algorithms: ALGORITHMS.map(str::to_owned).to_vec(),
            ..OidcIssuer::new(&url, "")
        };
        issuer.check().map(|()| issuer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n\
        - issuer: {url: https://a, audiences: [x, z], audienceMatchPolicy: MatchAny}\n\
        \x20 claimValidationRules: [{claim: hd, requiredValue: example.com}]\n\
        \x20 claimMappings:\n\
        \x20   username: {claim: email, prefix: \"\"}\n\
        \x20   groups: {claim: roles, prefix: \"a:\"}\n\
        \x20   uid: {claim: sub}\n";

    #[test]
    fn a_configuration_names_issuers() {
        let issuers = OidcIssuer::parse_configuration(GOOD).unwrap();
        let [issuer] = issuers.as_slice() else { panic!("{issuers:?}") };
        assert_eq!((issuer.url.as_str(), issuer.audiences.join(",")), ("https://a", "x,z".to_owned()));
        assert_eq!((issuer.username_claim.as_str(), issuer.groups_prefix.as_str()), ("email", "a:"));
        assert_eq!(issuer.required_claims["hd"], "example.com");
    }

    /// An unknown rule must not be ignored: it may be the one that rejects a user.
    #[test]
    fn configurations_that_are_not_understood_are_refused() {
        for (from, to) in [
            ("{claim: email, prefix: \"\"}", "{expression: claims.email}"),
            ("{claim: email, prefix: \"\"}", "{claim: email}"),
            (
                "claimValidationRules: [{claim: hd, requiredValue: example.com}]",
                "userValidationRules: [{expression: x}]",
            ),
            ("{claim: hd, requiredValue: example.com}", "{expression: claims.hd == 'x'}"),
            ("https://a", "http://a"),
            (", audienceMatchPolicy: MatchAny", ""),
            ("AuthenticationConfiguration", "AuthorizationConfiguration"),
        ] {
            let text = GOOD.replace(from, to);
            assert_ne!(text, GOOD);
            assert!(OidcIssuer::parse_configuration(&text).is_err(), "{text}");
        }
    }

    #[test]
    fn algorithms_that_need_a_shared_secret_cannot_be_allowed() {
        let mut issuer = OidcIssuer::new("https://a", "x");
        assert_eq!(issuer.check(), Ok(()));
        for algorithm in ["HS256", "none", ""] {
            issuer.algorithms = vec![algorithm.to_owned()];
            assert!(issuer.check().is_err(), "{algorithm}");
        }
    }
}
