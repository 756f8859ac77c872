//! [`Modes`]: the union of authorizers that `--authorization-mode` names, in order.
//!
//! An action is allowed if one mode allows it; otherwise the reasons of all are joined for the 403, one per line, as
//! in kube-apiserver. Two exceptions come before every mode: `system:masters`, so that a cluster whose roles were
//! deleted can be repaired, and the health endpoints, so that probes need no credentials. `AlwaysAllow` and `Webhook`
//! are not offered. The authorizers themselves are [`super::roles`] and [`super::node`].

use std::sync::Arc;

use crate::auth::rbac::{PolicyRule, RoleRef};
use crate::auth::{Authorizer, AuthorizerAttributes, Decision, MASTERS, NodeAuthorizer, Roles, User};
use crate::cache::Cache;

/// An authorization mode, by kube-apiserver's names (`--authorization-mode`). Modes that allow everything are not
/// offered.
///
/// ```
/// use listwatch_server::auth::AuthorizationMode;
///
/// assert_eq!("RBAC".parse::<AuthorizationMode>(), Ok(AuthorizationMode::Rbac));
/// assert!("AlwaysAllow".parse::<AuthorizationMode>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthorizationMode {
    /// `Node`: kubelets may read what the Pods on their node need.
    Node,
    /// `RBAC`: roles and bindings.
    Rbac,
}

impl std::str::FromStr for AuthorizationMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "Node" => Ok(Self::Node),
            "RBAC" => Ok(Self::Rbac),
            _ => Err(format!("authorization mode {text:?} is not supported; Node and RBAC are")),
        }
    }
}

impl AuthorizationMode {
    /// Makes the authorizer of this mode, which follows the cache from now on.
    pub(crate) fn authorizer(self, cache: &Cache) -> Arc<dyn Authorizer> {
        match self {
            Self::Node => NodeAuthorizer::new(cache),
            Self::Rbac => Roles::new(cache),
        }
    }
}

/// Paths that are allowed to every user in all modes: health probes must work without credentials.
const OPEN: &[&str] = &["/healthz", "/readyz", "/livez"];

/// A union of authorizers: what one of them allows is allowed.
///
/// Members of `system:masters` may do everything without any object, so that a server whose roles were deleted can still be
/// repaired.
#[doc(alias = "unionAuthzHandler")]
#[derive(Debug)]
pub(crate) struct Modes(pub(crate) Vec<Arc<dyn Authorizer>>);

impl Modes {
    /// Neither exemption depends on stored objects, so both hold before the cache is loaded.
    fn is_exempt(user: &User, wanted: &AuthorizerAttributes<'_>) -> bool {
        user.is_in(MASTERS) || (wanted.resource.is_empty() && OPEN.contains(&wanted.path))
    }
}

impl Authorizer for Modes {
    fn authorize(&self, user: &User, wanted: &AuthorizerAttributes<'_>) -> Decision {
        if Self::is_exempt(user, wanted) {
            return Decision::Allow;
        }
        let mut reasons = String::new();
        for authorizer in &self.0 {
            match authorizer.authorize(user, wanted) {
                Decision::Allow => return Decision::Allow,
                Decision::NoOpinion(reason) if reason.is_empty() => {}
                Decision::NoOpinion(reason) => {
                    if !reasons.is_empty() {
                        reasons.push('\n');
                    }
                    reasons.push_str(&reason);
                }
            }
        }
        Decision::NoOpinion(reasons)
    }

    /// Decides a second time, since [`Decision::Allow`] carries no text: only access reviews need reasons, and every
    /// other request would pay for them.
    fn reason(&self, user: &User, wanted: &AuthorizerAttributes<'_>) -> Option<String> {
        if user.is_in(MASTERS) {
            return None;
        }
        let mut allowing = self.0.iter().filter(|mode| mode.authorize(user, wanted) == Decision::Allow);
        allowing.next()?.reason(user, wanted)
    }

    fn rules(&self, user: &User, namespace: &str) -> Vec<PolicyRule> {
        self.0.iter().flat_map(|mode| mode.rules(user, namespace)).collect()
    }

    fn incomplete(&self, user: &User) -> Option<String> {
        self.0.iter().find_map(|mode| mode.incomplete(user))
    }

    fn size_in(&self, namespace: &str) -> usize {
        self.0.iter().map(|mode| mode.size_in(namespace)).sum()
    }

    fn role(&self, role: &RoleRef, namespace: &str) -> Option<Vec<PolicyRule>> {
        self.0.iter().find_map(|mode| mode.role(role, namespace))
    }
}
