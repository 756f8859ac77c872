//! [`Roles`]: the authorizer that knows the roles and bindings in the cache.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use serde::de::DeserializeOwned;

use crate::auth::rbac::{Policy, PolicyRule, RoleRef};
use crate::auth::{Attributes, Authorizer, Decision, User};
use crate::cache::{Cache, Collection, Filter, Object, Snapshot};

/// What may be read without credentials.
const PUBLIC: &[&str] = &["/healthz", "/livez", "/readyz", "/version", "/version/"];
/// What any user with credentials may read.
const DISCOVERY: &[&str] =
    &["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", "/healthz/*", "/livez/*", "/readyz/*"];
/// What any user with credentials may ask about himself.
const SELF: &[(&str, &str)] = &[
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authentication.k8s.io", "selfsubjectreviews"),
];

const GROUP: &str = "rbac.authorization.k8s.io";
/// The kinds that make the policy, in the order of [`Snapshots`].
const KINDS: [&str; 4] = ["clusterroles", "roles", "clusterrolebindings", "rolebindings"];

type Snapshots = [Arc<Snapshot>; 4];

/// Decides by the roles and bindings in the cache.
///
/// Members of `system:masters` may do everything, and a few paths are open to all: both hold without any object, so
/// that a server whose roles were deleted can still be mended.
#[derive(Debug)]
pub struct Roles {
    collections: [Arc<Collection>; 4],
    /// Compiled from the snapshots beside it; made again when the cache has others. Requests that race to do so make
    /// the same policy twice, which is cheaper than a lock on every request.
    compiled: ArcSwapOption<(Snapshots, Policy)>,
    everyone: Vec<PolicyRule>,
    authenticated: Vec<PolicyRule>,
}

impl Roles {
    /// Follows the roles and bindings of this cache.
    #[must_use]
    pub fn new(cache: &Cache) -> Self {
        Self {
            collections: KINDS.map(|kind| cache.collection(&format!("{kind}.{GROUP}"), &[])),
            compiled: ArcSwapOption::empty(),
            everyone: vec![readable(PUBLIC)],
            authenticated: SELF
                .iter()
                .map(|(group, resource)| PolicyRule::resources(group, &[resource], &["create"]))
                .chain([readable(DISCOVERY)])
                .collect(),
        }
    }

    fn compiled(&self) -> Arc<(Snapshots, Policy)> {
        let snapshots = self.collections.each_ref().map(|collection| collection.snapshot());
        let current = self.compiled.load_full();
        if let Some(current) = current.filter(|c| c.0.iter().zip(&snapshots).all(|(a, b)| Arc::ptr_eq(a, b)))
        {
            return current;
        }
        let policy = self.compile(&snapshots);
        let compiled = Arc::new((snapshots, policy));
        self.compiled.store(Some(Arc::clone(&compiled)));
        compiled
    }

    fn compile(&self, [cluster_roles, roles, cluster_bindings, bindings]: &Snapshots) -> Policy {
        let mut policy = Policy::default();
        let [in_cluster_roles, in_roles, in_cluster_bindings, in_bindings] = &self.collections;
        each(in_cluster_roles, cluster_roles, |role| policy.add_cluster_role(role));
        each(in_roles, roles, |role| policy.add_role(role));
        each(in_cluster_bindings, cluster_bindings, |binding| policy.add_cluster_binding(binding));
        each(in_bindings, bindings, |binding| policy.add_binding(binding));
        policy
    }

    /// The rules that hold without any object.
    fn standing(&self, user: &User) -> impl Iterator<Item = &PolicyRule> {
        let authenticated: &[PolicyRule] =
            if user.is_in("system:authenticated") { &self.authenticated } else { &[] };
        self.everyone.iter().chain(authenticated)
    }
}

impl Authorizer for Roles {
    fn authorize(&self, user: &User, wanted: &Attributes<'_>) -> Decision {
        let allowed = user.is_in(MASTERS)
            || self.standing(user).any(|rule| rule.allows(wanted))
            || self.compiled().1.allows(user, wanted);
        if allowed { Decision::Allow } else { Decision::NoOpinion(String::new()) }
    }

    fn rules(&self, user: &User, namespace: &str) -> Vec<PolicyRule> {
        let masters = user.is_in(MASTERS).then(everything).into_iter().flatten();
        let compiled = self.compiled();
        let granted = compiled.1.rules(user, namespace).cloned();
        masters.chain(self.standing(user).cloned()).chain(granted).collect()
    }

    fn role(&self, role: &RoleRef, namespace: &str) -> Vec<PolicyRule> {
        self.compiled().1.referenced(role, namespace).into_iter().cloned().collect()
    }
}

const MASTERS: &str = "system:masters";

fn everything() -> [PolicyRule; 2] {
    let paths =
        PolicyRule { verbs: vec!["*".into()], non_resource_urls: vec!["*".into()], ..PolicyRule::default() };
    [PolicyRule::resources("*", &["*"], &["*"]), paths]
}

fn readable(paths: &[&str]) -> PolicyRule {
    PolicyRule {
        verbs: vec!["get".into(), "head".into()],
        non_resource_urls: paths.iter().map(|&path| path.to_owned()).collect(),
        ..PolicyRule::default()
    }
}

/// Hands over each object that can be read; one that cannot grants nothing and is worth a line in the log.
fn each<T: DeserializeOwned>(collection: &Collection, snapshot: &Snapshot, mut take: impl FnMut(T)) {
    let walk = collection.walk(&Filter::default(), None);
    for object in snapshot.range(&walk) {
        match read(object) {
            Ok(role) => take(role),
            Err(error) => {
                tracing::warn!(key = %object.key(), %error, "role or binding cannot be read, ignored")
            }
        }
    }
}

fn read<T: DeserializeOwned>(object: &Object) -> Result<T, serde_json::Error> {
    serde_json::from_slice(object.stored())
}
