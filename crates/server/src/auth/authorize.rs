//! [`Authorizer`]: decides if a user may do what a request asks for, and the [`AuthorizerAttributes`] it decides by.
//!
//! An authorizer allows or has no opinion; nothing denies, so the order of authorizers (`modes`) decides only which
//! reason is given. Decisions are made from memory, without waiting, once per request before its body is read.
//! Impersonation, privilege escalation and access reviews ask the same trait, which is why it can also list
//! [`Authorizer::rules`].
//!
//! [`AuthorizerAttributes::refusal`] has the wording of kube-apiserver's 403, which people paste into search engines.
//! Implementations: [`crate::auth::Roles`] (RBAC) and [`crate::auth::NodeAuthorizer`].

use std::fmt::Debug;

use listwatch_wire::Status;
use listwatch_wire::go::quote;
use listwatch_wire::selector::FieldSelector;

use crate::auth::User;
use crate::auth::rbac::{PolicyRule, RoleRef};

/// The attributes of a request that authorizers, flow schemas and audit policies decide by. Borrowed from the
/// request: made per decision and never stored, except by [`crate::auth::Recheck`], which copies them.
#[doc(alias = "authorizer.Attributes")]
#[doc(alias = "AttributesRecord")]
#[derive(Clone, Copy, Debug, Default)]
pub struct AuthorizerAttributes<'a> {
    /// `get`, `list`, `watch`, `create`, … for resources; the lower-case method for other paths.
    pub verb: &'a str,
    /// API group; empty for the core group.
    pub group: &'a str,
    /// Version.
    pub version: &'a str,
    /// Resource; empty for other paths, and for a request that leaves out its name.
    pub resource: &'a str,
    /// Subresource; empty if none.
    pub subresource: &'a str,
    /// Namespace; empty for all, or for cluster-scoped resources.
    pub namespace: &'a str,
    /// Name; empty for collections.
    pub name: &'a str,
    /// The path of requests that are not about resources. Empty with an empty `resource`: only a right to all resources allows it.
    pub path: &'a str,
    /// The fields that the objects of a list, a watch or a deletion are selected by.
    pub fields: Option<&'a FieldSelector>,
}

impl AuthorizerAttributes<'_> {
    /// Returns the 403 for a user that may not do this, with kube-apiserver's text. `reason` is the authorizer's, if
    /// it has one.
    ///
    /// ```
    /// use listwatch_server::auth::{AuthorizerAttributes, User};
    ///
    /// let alice = User { name: "alice".into(), ..User::default() };
    /// let wanted = AuthorizerAttributes {
    ///     verb: "list",
    ///     resource: "pods",
    ///     namespace: "default",
    ///     ..AuthorizerAttributes::default()
    /// };
    /// let status = wanted.refusal(&alice, "");
    /// assert_eq!(status.code, 403);
    /// assert_eq!(
    ///     status.message,
    ///     r#"pods is forbidden: User "alice" cannot list resource "pods" in API group "" in the namespace "default""#
    /// );
    /// ```
    #[must_use]
    pub fn refusal(&self, user: &User, reason: &str) -> Status {
        let AuthorizerAttributes { verb, group, resource, name, .. } = self;
        let user = quote(&user.name);
        let mut why = if resource.is_empty() && !self.path.is_empty() {
            format!("User {user} cannot {verb} path {}", quote(self.path))
        } else {
            let what = quote(&self.full_resource());
            format!(
                "User {user} cannot {verb} resource {what} in API group {} {}",
                quote(group),
                self.place()
            )
        };
        if !reason.is_empty() {
            why = format!("{why}: {reason}");
        }
        Status::forbidden(group, resource, name, &why)
    }

    /// `pods` or `pods/status`, as the refusal shows it.
    fn full_resource(&self) -> String {
        match self.subresource {
            "" => self.resource.to_owned(),
            subresource => format!("{}/{subresource}", self.resource),
        }
    }

    /// The end of the 403 message: a namespace or the whole cluster.
    fn place(&self) -> String {
        match self.namespace {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace {}", quote(namespace)),
        }
    }
}

/// The decision of an authorizer. There is no denial: an authorizer that does not allow leaves the decision to the
/// next.
///
/// kube-apiserver's third decision, `DecisionDeny`, exists for its webhook authorizer, which is not offered here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The action is allowed; no other authorizer is called.
    Allow,
    /// Nothing here allows it. The text may say what went wrong on the way, such as a binding of a role that does not
    /// exist; it becomes part of the 403.
    NoOpinion(String),
}

/// The texts in rules that are compared on a worker: about a tenth of a millisecond. See [`Authorizer::size_in`].
pub(crate) const RULES_AT_ONCE: usize = 20_000;

/// Decides about requests. Asked at the beginning of each request, at intervals during watches, and by impersonation,
/// privilege-escalation checks and access reviews. Implementations answer from memory and never wait.
pub trait Authorizer: Send + Sync + Debug {
    /// Decides if `user` may do it.
    fn authorize(&self, user: &User, attributes: &AuthorizerAttributes<'_>) -> Decision;

    /// The reason why `user` may do it, in words, if it is allowed and there is one to give.
    fn reason(&self, _user: &User, _attributes: &AuthorizerAttributes<'_>) -> Option<String> {
        None
    }

    /// Returns the rules that hold for the user in the namespace. SelfSubjectRulesReview shows them, and
    /// privilege-escalation checks compare with them, so a rule that is missing here makes grants fail and one too
    /// many would let users grant what they do not hold.
    ///
    /// The rules are copied, so the cost is proportional to all that the user holds. No request on the hot path asks
    /// for it.
    fn rules(&self, user: &User, namespace: &str) -> Vec<PolicyRule>;

    /// Returns the reason why [`Authorizer::rules`] is not everything the user may do: not every authorizer works by
    /// rules.
    fn incomplete(&self, _user: &User) -> Option<String> {
        None
    }

    /// The rules of a role, for privilege-escalation checks; `None` if there is no such role.
    ///
    /// `namespace` is the binding's: a `Role` is looked up there, a `ClusterRole` anywhere.
    fn role(&self, role: &RoleRef, namespace: &str) -> Option<Vec<PolicyRule>>;

    /// The number of texts that a decision about a request in the namespace may have to compare. Most namespaces have a few
    /// hundred, but a user who may write Roles can write a million; such decisions are made beside the workers.
    fn size_in(&self, _namespace: &str) -> usize {
        0
    }

    /// Checks that `user` may do it; otherwise returns the 403 to answer with.
    ///
    /// # Errors
    /// 403.
    fn require(&self, user: &User, attributes: &AuthorizerAttributes<'_>) -> Result<(), Status> {
        match self.authorize(user, attributes) {
            Decision::Allow => Ok(()),
            Decision::NoOpinion(reason) => Err(attributes.refusal(user, &reason)),
        }
    }
}
