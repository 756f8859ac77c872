//! [`Modes`]: the union of authorizers that `--authorization-mode` or `--authorization-config` names, in order.
//!
//! The first that allows or denies decides; otherwise the reasons of all are joined for the 403, one per line and with the name of
//! the authorizer, as in kube-apiserver. Two exceptions come before every mode: `system:masters`, so that a cluster whose roles were
//! deleted can be repaired, and the health endpoints, so that probes need no credentials. The authorizers themselves are
//! [`super::roles`], [`super::node`] and [`super::access_webhook`]. A union never waits: verdicts of webhooks come from a
//! [`WebhookSource`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::auth::access_webhook::{AccessWebhook, AccessWebhookMetrics, AccessWebhookOptions};
use crate::auth::rbac::{PolicyRule, RoleRef};
use crate::auth::{
    Authorizer, AuthorizerAttributes, Decision, MASTERS, NodeAuthorizer, Refusal, Roles, User,
};
use crate::cache::Cache;

/// An authorizer with its options, by kube-apiserver's names (`--authorization-mode`, `--authorization-config`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthorizationMode {
    /// `AlwaysAllow`: everything is allowed.
    AlwaysAllow,
    /// `AlwaysDeny`: nothing is allowed, unless a later authorizer allows it.
    AlwaysDeny,
    /// `Node`: kubelets may read what the Pods on their node need.
    Node,
    /// `RBAC`: roles and bindings.
    Rbac,
    /// `Webhook`: an external service.
    Webhook(Box<AccessWebhookOptions>),
}

impl AuthorizationMode {
    /// The name of the mode.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::AlwaysAllow => "AlwaysAllow",
            Self::AlwaysDeny => "AlwaysDeny",
            Self::Node => "Node",
            Self::Rbac => "RBAC",
            Self::Webhook(_) => "Webhook",
        }
    }
}

/// The authorizers that answer from the cache. Made once, because they follow it from then on.
#[derive(Debug)]
pub(crate) struct CacheAuthorizers {
    node: Option<Arc<NodeAuthorizer>>,
    roles: Arc<Roles>,
}

impl CacheAuthorizers {
    /// Follows the objects that these modes decide by. Roles are followed in any case: privilege-escalation checks need them.
    pub(crate) fn new(modes: &[AuthorizationMode], cache: &Cache) -> Self {
        let node = modes.contains(&AuthorizationMode::Node).then(|| NodeAuthorizer::new(cache));
        Self { node, roles: Roles::new(cache) }
    }
}

/// Paths that are allowed to every user in all modes: health probes must work without credentials.
const OPEN: &[&str] = &["/healthz", "/readyz", "/livez"];

/// A union of authorizers.
///
/// Members of `system:masters` may do everything without any object, so that a server whose roles were deleted can still be
/// repaired.
#[doc(alias = "unionAuthzHandler")]
#[derive(Debug)]
pub(crate) struct Modes {
    members: Vec<Member>,
    roles: Arc<Roles>,
}

/// An authorizer of a union, and the number of its decisions.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) type_name: &'static str,
    pub(crate) name: String,
    authorizer: MemberAuthorizer,
    pub(crate) allowed: AtomicU64,
    pub(crate) denied: AtomicU64,
}

#[derive(Debug)]
enum MemberAuthorizer {
    AlwaysAllow,
    AlwaysDeny,
    Memory(Arc<dyn Authorizer>),
    Webhook(Box<AccessWebhook>),
}

impl Member {
    fn new(mode: &AuthorizationMode, local: &CacheAuthorizers) -> Result<Self, String> {
        let type_name = mode.type_name();
        let (name, authorizer) = match mode {
            AuthorizationMode::AlwaysAllow => (type_name.to_lowercase(), MemberAuthorizer::AlwaysAllow),
            AuthorizationMode::AlwaysDeny => (type_name.to_lowercase(), MemberAuthorizer::AlwaysDeny),
            AuthorizationMode::Node => {
                let why =
                    "authorizer type Node is not allowed if it was not enabled at initial server startup";
                let node = local.node.clone().ok_or(why)?;
                (type_name.to_lowercase(), MemberAuthorizer::Memory(node))
            }
            AuthorizationMode::Rbac => {
                (type_name.to_lowercase(), MemberAuthorizer::Memory(Arc::clone(&local.roles) as _))
            }
            AuthorizationMode::Webhook(options) => {
                let webhook = AccessWebhook::new((**options).clone())?;
                (options.name.clone(), MemberAuthorizer::Webhook(Box::new(webhook)))
            }
        };
        Ok(Self { type_name, name, authorizer, allowed: AtomicU64::default(), denied: AtomicU64::default() })
    }

    fn memory(&self) -> Option<&Arc<dyn Authorizer>> {
        match &self.authorizer {
            MemberAuthorizer::Memory(authorizer) => Some(authorizer),
            _ => None,
        }
    }

    pub(crate) fn webhook(&self) -> Option<&AccessWebhook> {
        match &self.authorizer {
            MemberAuthorizer::Webhook(webhook) => Some(webhook),
            _ => None,
        }
    }

    /// Counts a decision that ended the chain.
    pub(crate) fn count(&self, allowed: bool) {
        let counter = if allowed { &self.allowed } else { &self.denied };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// The decision, and the reason for it if it is known already; `None` if a webhook must be asked.
    fn decide(
        &self,
        index: usize,
        source: &dyn WebhookSource,
        user: &User,
        wanted: &AuthorizerAttributes<'_>,
    ) -> Option<(Decision, String)> {
        match &self.authorizer {
            MemberAuthorizer::AlwaysAllow => Some((Decision::Allow, String::new())),
            MemberAuthorizer::AlwaysDeny => {
                Some((Decision::no_opinion("Everything is forbidden."), String::new()))
            }
            MemberAuthorizer::Memory(authorizer) => Some((authorizer.authorize(user, wanted), String::new())),
            MemberAuthorizer::Webhook(webhook) => source.verdict(index, webhook, user, wanted),
        }
    }
}

/// The verdicts of webhooks, for a union that must not wait for them.
pub(crate) trait WebhookSource {
    /// The decision of the webhook at this place and its reason; `None` if it must be asked first.
    fn verdict(
        &self,
        index: usize,
        webhook: &AccessWebhook,
        user: &User,
        wanted: &AuthorizerAttributes<'_>,
    ) -> Option<(Decision, String)>;

    /// Told of each decision that ended the chain.
    fn decided(&self, index: usize, member: &Member, allowed: bool);
}

/// A union without webhooks.
struct NoWebhooks;

impl WebhookSource for NoWebhooks {
    fn verdict(
        &self,
        _index: usize,
        _webhook: &AccessWebhook,
        _user: &User,
        _wanted: &AuthorizerAttributes<'_>,
    ) -> Option<(Decision, String)> {
        None
    }

    fn decided(&self, _index: usize, member: &Member, allowed: bool) {
        member.count(allowed);
    }
}

impl Modes {
    /// The union of these modes.
    ///
    /// # Errors
    /// A webhook whose kubeconfig or conditions cannot be used.
    pub(crate) fn new(modes: &[AuthorizationMode], local: &CacheAuthorizers) -> Result<Self, String> {
        let members: Result<_, _> = modes.iter().map(|mode| Member::new(mode, local)).collect();
        Ok(Self { members: members?, roles: Arc::clone(&local.roles) })
    }

    /// The authorizers, in order.
    pub(crate) fn members(&self) -> &[Member] {
        &self.members
    }

    /// True if a decision may need an answer from elsewhere.
    pub(crate) fn has_webhooks(&self) -> bool {
        self.members.iter().any(|member| member.webhook().is_some())
    }

    /// The counters of the webhooks.
    pub(crate) fn webhook_metrics(&self) -> Vec<&AccessWebhookMetrics> {
        self.members.iter().filter_map(|member| Some(member.webhook()?.metrics())).collect()
    }

    /// Neither exemption depends on stored objects, so both hold before the cache is loaded.
    fn is_exempt(user: &User, wanted: &AuthorizerAttributes<'_>) -> bool {
        user.is_in(MASTERS) || (wanted.resource.is_empty() && OPEN.contains(&wanted.path))
    }

    /// Decides with the verdicts of a source. While one is missing, nothing is allowed.
    pub(crate) fn authorize_by(
        &self,
        source: &dyn WebhookSource,
        user: &User,
        wanted: &AuthorizerAttributes<'_>,
    ) -> Decision {
        if Self::is_exempt(user, wanted) {
            return Decision::Allow;
        }
        let mut refusals = Refusals::default();
        for (index, member) in self.members.iter().enumerate() {
            let Some((decision, _)) = member.decide(index, source, user, wanted) else {
                return Decision::no_opinion("");
            };
            match decision {
                Decision::NoOpinion(refusal) => refusals.add(&member.name, refusal),
                decision => {
                    source.decided(index, member, decision == Decision::Allow);
                    return decision;
                }
            }
        }
        Decision::NoOpinion(refusals.joined())
    }

    /// The reason of the authorizer that allows.
    ///
    /// Decides a second time, since [`Decision::Allow`] carries no text: only access reviews need reasons, and every
    /// other request would pay for them.
    pub(crate) fn reason_by(
        &self,
        source: &dyn WebhookSource,
        user: &User,
        wanted: &AuthorizerAttributes<'_>,
    ) -> Option<String> {
        if user.is_in(MASTERS) {
            return None;
        }
        for (index, member) in self.members.iter().enumerate() {
            match member.decide(index, source, user, wanted)? {
                (Decision::NoOpinion(_), _) => {}
                (Decision::Deny(_), _) => return None,
                (Decision::Allow, reason) => {
                    return member.memory().map_or(Some(reason), |memory| memory.reason(user, wanted));
                }
            }
        }
        None
    }
}

/// The reasons of authorizers without an opinion.
#[derive(Default)]
struct Refusals {
    reasons: String,
    errors: Vec<String>,
}

impl Refusals {
    /// Adds those of the authorizer with this name.
    fn add(&mut self, name: &str, Refusal { reason, error }: Refusal) {
        if !reason.is_empty() {
            if !self.reasons.is_empty() {
                self.reasons.push('\n');
            }
            self.reasons.extend([name, ": ", &reason]);
        }
        self.errors.extend(error);
    }

    fn joined(self) -> Refusal {
        let error = (!self.errors.is_empty()).then(|| listwatch_wire::status::aggregate(self.errors));
        Refusal { reason: self.reasons, error }
    }
}

impl Authorizer for Modes {
    fn authorize(&self, user: &User, wanted: &AuthorizerAttributes<'_>) -> Decision {
        self.authorize_by(&NoWebhooks, user, wanted)
    }

    fn reason(&self, user: &User, wanted: &AuthorizerAttributes<'_>) -> Option<String> {
        self.reason_by(&NoWebhooks, user, wanted)
    }

    fn rules(&self, user: &User, namespace: &str) -> Vec<PolicyRule> {
        let of = |member: &Member| match &member.authorizer {
            MemberAuthorizer::AlwaysAllow => {
                vec![PolicyRule::resources("*", &["*"], &["*"]), PolicyRule::paths(&["*"], &["*"])]
            }
            MemberAuthorizer::Memory(authorizer) => authorizer.rules(user, namespace),
            MemberAuthorizer::AlwaysDeny | MemberAuthorizer::Webhook(_) => Vec::new(),
        };
        self.members.iter().flat_map(of).collect()
    }

    fn incomplete(&self, user: &User) -> Option<String> {
        let of = |member: &Member| match &member.authorizer {
            MemberAuthorizer::Webhook(_) => {
                Some("webhook authorizer does not support user rule resolution".to_owned())
            }
            MemberAuthorizer::Memory(authorizer) => authorizer.incomplete(user),
            MemberAuthorizer::AlwaysAllow | MemberAuthorizer::AlwaysDeny => None,
        };
        let all: Vec<String> = self.members.iter().filter_map(of).collect();
        (!all.is_empty()).then(|| listwatch_wire::status::aggregate(all))
    }

    fn size_in(&self, namespace: &str) -> usize {
        self.members.iter().filter_map(Member::memory).map(|memory| memory.size_in(namespace)).sum()
    }

    fn role(&self, role: &RoleRef, namespace: &str) -> Option<Vec<PolicyRule>> {
        self.roles.role(role, namespace)
    }

    fn held(&self, user: &User, namespace: &str) -> Vec<PolicyRule> {
        self.roles.rules(user, namespace)
    }
}
