//! [`Roles`]: the RBAC authorizer, fed from the watch cache.
//!
//! It follows four collections as a `Follower`, in the task that feeds the cache, so the policy is never behind what
//! clients can read: after a binding is visible, requests are decided by it. An object that cannot be read grants
//! nothing and is logged. The pure part, decisions and aggregation, is [`super::rbac`].

use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use crate::auth::rbac::{Policy, PolicyRule, RoleRef};
use crate::auth::{Authorizer, AuthorizerAttributes, Decision, User};
use crate::cache::{Cache, CacheEvent, CachedObject, Collection, CollectionSnapshot, Filter, Follower};

const GROUP: &str = "rbac.authorization.k8s.io";

/// Decides by the roles and bindings in the cache.
///
/// The policy follows the cache object by object, in the task that feeds the cache: a request finds it ready.
#[doc(alias = "RBACAuthorizer")]
#[derive(Debug, Default)]
pub struct Roles {
    /// The policy that decisions read, without a lock.
    current: ArcSwap<Policy>,
    /// The one that is being changed.
    ///
    /// Locked by the tasks that feed the four collections, for the time of one batch. Publishing is a clone of
    /// pointers.
    next: Mutex<Policy>,
}

/// The kinds that make the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PolicyPart {
    ClusterRole,
    Role,
    ClusterRoleBinding,
    RoleBinding,
}

/// The follower that feeds one kind of objects to the policy.
#[derive(Debug)]
struct PolicyFeed {
    part: PolicyPart,
    roles: Arc<Roles>,
}

impl Roles {
    /// Follows the roles and bindings of this cache. Before the cache is loaded, nothing is allowed.
    #[must_use]
    pub fn new(cache: &Cache) -> Arc<Self> {
        let roles = Arc::new(Self::default());
        for part in [
            PolicyPart::ClusterRole,
            PolicyPart::Role,
            PolicyPart::ClusterRoleBinding,
            PolicyPart::RoleBinding,
        ] {
            let collection = cache.collection(&format!("{}.{GROUP}", part.plural()), &[]);
            collection.follow(Arc::new(PolicyFeed { part, roles: Arc::clone(&roles) }));
        }
        roles
    }
}

impl PolicyPart {
    /// The resource name, as in the keys of the store.
    fn plural(self) -> &'static str {
        match self {
            Self::ClusterRole => "clusterroles",
            Self::Role => "roles",
            Self::ClusterRoleBinding => "clusterrolebindings",
            Self::RoleBinding => "rolebindings",
        }
    }

    /// Puts an object into the policy. One that cannot be read grants nothing and is logged.
    ///
    /// The old version is removed in that case: keeping it would let a narrowed role keep its old permissions.
    fn put(self, policy: &mut Policy, object: &CachedObject) {
        let put = match self {
            Self::ClusterRole => read(object).map(|role| policy.set_cluster_role(role)),
            Self::Role => read(object).map(|role| policy.set_role(role)),
            Self::ClusterRoleBinding | Self::RoleBinding => {
                read(object).map(|binding| policy.set_binding(binding))
            }
        };
        if let Err(error) = put {
            tracing::warn!(key = %object.key(), %error, "role or binding cannot be read, ignored");
            self.remove(policy, object);
        }
    }

    /// Takes an object out of the policy, by its name.
    fn remove(self, policy: &mut Policy, object: &CachedObject) {
        let (namespace, name) = (object.namespace(), object.name());
        match self {
            Self::ClusterRole => policy.remove_cluster_role(name),
            Self::Role => policy.remove_role(namespace, name),
            Self::ClusterRoleBinding | Self::RoleBinding => policy.remove_binding(namespace, name),
        }
    }
}

impl Follower for PolicyFeed {
    fn loaded(&self, collection: &Collection, before: &CollectionSnapshot, now: &CollectionSnapshot) {
        let mut policy = self.roles.next.lock();
        let all = collection.walk(&Filter::default(), None);
        before.range(&all).for_each(|object| self.part.remove(&mut policy, object));
        now.range(&all).for_each(|object| self.part.put(&mut policy, object));
        self.roles.current.store(Arc::new(policy.clone()));
    }

    fn changed(&self, events: &[Arc<CacheEvent>]) {
        let mut policy = self.roles.next.lock();
        for event in events {
            match (&event.object, &event.previous) {
                (Some(object), _) => self.part.put(&mut policy, object),
                (None, Some(previous)) => self.part.remove(&mut policy, previous),
                (None, None) => {}
            }
        }
        self.roles.current.store(Arc::new(policy.clone()));
    }
}

impl Authorizer for Roles {
    fn authorize(&self, user: &User, wanted: &AuthorizerAttributes<'_>) -> Decision {
        match self.current.load().decide(user, wanted) {
            Ok(_) => Decision::Allow,
            Err(missing) => Decision::no_opinion(not_found(&missing)),
        }
    }

    fn reason(&self, user: &User, wanted: &AuthorizerAttributes<'_>) -> Option<String> {
        let policy = self.current.load();
        let source = policy.decide(user, wanted).ok()?;
        Some(format!("RBAC: allowed by {source}"))
    }

    fn rules(&self, user: &User, namespace: &str) -> Vec<PolicyRule> {
        self.current.load().rules(user, namespace).cloned().collect()
    }

    fn size_in(&self, namespace: &str) -> usize {
        self.current.load().size_in(namespace)
    }

    fn role(&self, role: &RoleRef, namespace: &str) -> Option<Vec<PolicyRule>> {
        Some(self.current.load().rules_of(role, namespace)?.cloned().collect())
    }
}

/// The part of a refusal about roles that bindings name and that do not exist.
fn not_found(missing: &[&RoleRef]) -> String {
    let texts = missing.iter().map(|role| {
        let kind = role.kind.to_ascii_lowercase();
        format!("{kind}.{GROUP} {} not found", listwatch_wire::go::quote(&role.name))
    });
    match missing.len() {
        0 => String::new(),
        _ => format!("RBAC: {}", listwatch_wire::status::aggregate(texts)),
    }
}

/// An object that cannot be read grants nothing.
fn read<T: DeserializeOwned>(object: &CachedObject) -> Result<T, serde_json::Error> {
    serde_json::from_slice(object.stored())
}
