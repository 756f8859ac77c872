//! Rights.

use std::fmt::Debug;

use super::User;

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
}

/// Members of `system:masters` may do everything; everyone may see health and version; whoever has credentials may read
/// discovery.
#[derive(Clone, Copy, Debug, Default)]
pub struct Administrators;

/// What may be read without credentials.
const PUBLIC: &[&str] = &["/healthz", "/livez", "/readyz", "/version"];
/// What any user with credentials may read.
const DISCOVERY: &[&str] = &["/api", "/apis", "/openapi"];

impl Authorizer for Administrators {
    fn authorize(&self, user: &User, attributes: &Attributes<'_>) -> Decision {
        let reads = matches!(attributes.verb, "get" | "head");
        let under = |roots: &[&str]| {
            let path = attributes.path;
            roots.iter().any(|r| path.strip_prefix(r).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
        };
        let allowed = user.is_in("system:masters")
            || (reads && under(PUBLIC))
            || (reads && under(DISCOVERY) && user.is_in("system:authenticated"));
        if allowed { Decision::Allow } else { Decision::NoOpinion(String::new()) }
    }
}
