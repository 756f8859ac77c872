//! Authentication and authorization.
//!
//! [`Authenticator`] turns a request's credentials into a [`User`], who may ask to act as another (`impersonate`);
//! [`ServiceAccounts`] are users that are programs, whose signed tokens this server issues itself (`jwt`); `oidc`
//! accepts tokens of other issuers, `webhook` asks an external service. An [`Authorizer`] decides if the user may do
//! what the [`AuthorizerAttributes`] describe; [`Roles`] is the one that reads roles and bindings from the cache, with the pure
//! rules of [`rbac`], [`NodeAuthorizer`] the one for kubelets, `access_webhook` an external service. [`Authorization`] asks all of
//! them. [`grant`] keeps users who write roles from granting
//! more than they hold; [`review`] answers access and token reviews.
//!
//! Everything decides from memory; what webhooks and issuers must be asked for is fetched before. It is not
//! admission: nothing here looks at the body of a request, except for the questions of [`review`] and [`grant`]. The
//! caller is the handler chain (`chain/service.rs`).

mod access_webhook;
mod answers;
mod authenticate;
mod authorization;
mod authorization_config;
mod authorization_reload;
mod authorize;
mod bearer;
mod bootstrap_tokens;
pub(crate) mod certificates;
pub mod grant;
mod impersonate;
pub(crate) mod jwt;
mod legacy_token;
mod modes;
pub(crate) mod node;
mod oidc;
pub mod rbac;
mod recheck;
pub mod review;
mod review_check;
mod review_selectors;
mod roles;
mod service_account;
mod token_file;
mod user_shares;
mod webhook;
pub(crate) mod x509;

use std::collections::BTreeMap;

use listwatch_wire::json::{Map, Value};

pub use access_webhook::{AccessFailurePolicy, AccessWebhookOptions};
pub(crate) use answers::{Answers, CachedVerdict};
pub use authenticate::Authenticator;
pub use authorization::Authorization;
pub use authorization_config::parse_authorization_config;
pub(crate) use authorization_reload::follow_file;
pub(crate) use authorize::RULES_AT_ONCE;
pub use authorize::{Authorizer, AuthorizerAttributes, Decision, Refusal};
pub(crate) use bearer::TOKEN_PROTOCOL;
pub(crate) use bootstrap_tokens::BootstrapTokens;
pub(crate) use impersonate::{Impersonation, Impersonator};
pub(crate) use jwt::{SigningKey, VerifyingKey};
pub use modes::AuthorizationMode;
pub use node::NodeAuthorizer;
pub(crate) use oidc::Oidc;
pub use oidc::OidcIssuer;
use rbac::quoted;
pub(crate) use recheck::{Recheck, Revoked, credentials_hold};
pub use roles::Roles;
pub(crate) use service_account::UNKNOWN_TOKEN;
pub use service_account::{Bound, ISSUER, Identity, ServiceAccounts, Ticket};
pub use token_file::{Token, parse_token_file};
pub(crate) use user_shares::UserShares;
pub(crate) use webhook::TokenWebhook;
pub use webhook::{ReviewVersion, TokenWebhookOptions};

/// The group whose members bypass authorization, as in kube-apiserver. CertificateSigningRequests for it are refused
/// (`certificates`).
pub(crate) const MASTERS: &str = "system:masters";

/// The key of the node in the extra facts of a service account whose token belongs to a Pod there.
pub(crate) const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

/// An authenticated user, as authorization, admission, audit and fairness see it.
#[doc(alias = "user.Info")]
#[doc(alias = "UserInfo")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// A stable identity, if the authenticator has one.
    ///
    /// Copied into CertificateSigningRequests, admission reviews and audit events. No decision is made by it.
    pub uid: String,
    /// The groups, including `system:authenticated` or `system:unauthenticated`.
    ///
    /// Searched linearly: users have a handful, and a set per request would cost more than it saves.
    pub groups: Vec<String>,
    /// Further facts from the authenticator, for reviews to show.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// The user as reviews, admission requests and audit events show one: authentication.k8s.io/v1 `UserInfo`.
    pub(crate) fn info(&self) -> Value {
        let mut info = Map::new();
        info.insert("username", self.name.as_str().into());
        info.insert("groups", self.groups.clone().into());
        if !self.uid.is_empty() {
            info.insert("uid", self.uid.as_str().into());
        }
        if !self.extra.is_empty() {
            let extra = self.extra.iter().map(|(key, values)| (key.as_str(), Value::from(values.clone())));
            info.insert("extra", Value::Object(extra.collect()));
        }
        info.into()
    }

    /// The user of requests without credentials: `system:anonymous` in `system:unauthenticated`.
    #[must_use]
    pub fn anonymous() -> Self {
        Self {
            name: "system:anonymous".to_owned(),
            groups: vec!["system:unauthenticated".to_owned()],
            ..Self::default()
        }
    }

    /// Returns true if the user is in the group.
    #[must_use]
    pub(crate) fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }
}
