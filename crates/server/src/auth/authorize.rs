//! Rights.

use std::fmt::Debug;

use crate::auth::User;
use crate::auth::rbac::{PolicyRule, RoleRef};

/// What somebody wants to do.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attributes<'a> {
    /// `get`, `list`, `watch`, `create`, … for resources; the lower-case method for other paths.
    pub verb: &'a str,
    /// API group; empty for the core group.
    pub group: &'a str,
    /// Version.
    pub version: &'a str,
    /// Resource; empty for other paths.
    pub resource: &'a str,
    /// Subresource; empty if none.
    pub subresource: &'a str,
    /// Namespace; empty for all, or for cluster-scoped resources.
    pub namespace: &'a str,
    /// Name; empty for collections.
    pub name: &'a str,
    /// The path of requests that are not about resources.
    pub path: &'a str,
}

/// Whether it may be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Yes.
    Allow,
    /// Nothing allows it; the text may say what went wrong while looking.
    NoOpinion(String),
}

/// Decides. Asked once at the beginning of each request.
pub trait Authorizer: Send + Sync + Debug {
    /// Whether `user` may do it.
    fn authorize(&self, user: &User, attributes: &Attributes<'_>) -> Decision;

    /// The rules that hold for the user in the namespace, for those who ask what they may do.
    fn rules(&self, user: &User, namespace: &str) -> Vec<PolicyRule>;

    /// The rules of a role, for those who grant it.
    fn role(&self, role: &RoleRef, namespace: &str) -> Vec<PolicyRule>;
}
