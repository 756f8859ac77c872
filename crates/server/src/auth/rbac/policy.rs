//! [`Policy`]: all roles and bindings at one moment, and the decisions that follow from them. Pure.
//!
//! It is a persistent structure: the task that follows the cache clones it, changes the clone and publishes it, so
//! that requests read without a lock and each is decided by one consistent state. [`Policy::decide`] looks up the
//! user's grants ([`super::grants`]), then the rules of each role ([`super::aggregate`] for ClusterRoles that take
//! from others). [`crate::auth::Roles`] feeds and asks it; `rbac/naive_tests.rs` is the slow model that tests compare it
//! with.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use foldhash::fast::RandomState;
use imbl::OrdSet;
use imbl::shared_ptr::DefaultSharedPtr;
use listwatch_wire::go::quote;

use crate::auth::rbac::aggregate::ClusterRole;
use crate::auth::rbac::grants::{GrantScope, Granted};
use crate::auth::rbac::object::{Binding, Role, RoleRef};
use crate::auth::rbac::rule::PolicyRule;
use crate::auth::{AuthorizerAttributes, User};

/// A persistent hash map: a clone shares all nodes, so that publishing a changed policy costs the path to the change.
pub(super) type PolicyMap<K, V> = imbl::GenericHashMap<K, V, RandomState, DefaultSharedPtr>;

/// The roles and bindings of the whole server, indexed for decisions.
///
/// A clone costs a few pointers, and a change costs as much as the changed object is long, however many others there
/// are. Decisions are made on a clone, so that each sees one consistent state.
///
/// ```
/// use listwatch_server::auth::rbac::{Binding, Policy, Role};
/// use listwatch_server::auth::{AuthorizerAttributes, User};
/// use serde_json::{from_value, json};
///
/// let mut policy = Policy::default();
/// let role: Role = from_value(json!({
///     "metadata": {"name": "reader"},
///     "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
/// }))?;
/// policy.set_cluster_role(role);
/// let binding: Binding = from_value(json!({
///     "metadata": {"name": "readers", "namespace": "default"},
///     "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
///     "subjects": [{"kind": "User", "name": "alice"}],
/// }))?;
/// policy.set_binding(binding);
///
/// let alice = User { name: "alice".into(), ..User::default() };
/// let get = |namespace| AuthorizerAttributes {
///     verb: "get",
///     resource: "pods",
///     namespace,
///     ..AuthorizerAttributes::default()
/// };
/// assert!(policy.decide(&alice, &get("default")).is_ok());
/// assert!(policy.decide(&alice, &get("kube-system")).is_err(), "a RoleBinding grants in its own namespace only");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// ClusterRoles by name, each with the roles it aggregates.
    pub(super) cluster_roles: PolicyMap<Arc<str>, Arc<ClusterRole>>,
    /// The ClusterRoles that aggregate others.
    pub(super) aggregating: OrdSet<Arc<str>>,
    /// Roles by namespace and name: a binding only refers to roles of its own namespace.
    roles: PolicyMap<Arc<str>, PolicyMap<Arc<str>, Arc<Role>>>,
    /// The size of all Roles of a namespace.
    sizes: PolicyMap<Arc<str>, usize>,
    /// The grants, by the namespace they hold in; the empty one is the whole cluster.
    pub(super) scopes: PolicyMap<Arc<str>, GrantScope>,
    /// All bindings, by namespace and name.
    ///
    /// Needed to remove the old grants when a binding changes, and to name it in reasons.
    bindings: PolicyMap<Arc<str>, PolicyMap<Arc<str>, Arc<Binding>>>,
}

/// The reason an action is allowed: a binding and the subject in it. Printed as kube-apiserver's `RBAC: allowed by …`
/// reason.
#[derive(Debug)]
pub struct RuleSource<'a> {
    binding: &'a Binding,
    user: &'a User,
}

impl Policy {
    /// Adds or replaces a Role.
    pub(crate) fn set_role(&mut self, role: Role) {
        let (namespace, name) = (Arc::clone(&role.metadata.namespace), Arc::clone(&role.metadata.name));
        let size = role.size();
        let former = self.roles.entry(Arc::clone(&namespace)).or_default().insert(name, Arc::new(role));
        let all = self.sizes.entry(namespace).or_default();
        *all = (*all + size).saturating_sub(former.map_or(0, |former| former.size()));
    }

    /// Removes a Role. Bindings of it stay and grant nothing.
    pub(crate) fn remove_role(&mut self, namespace: &str, name: &str) {
        let Some(role) = remove(&mut self.roles, namespace, name) else { return };
        let left = self.size_in(namespace).saturating_sub(role.size());
        match self.roles.contains_key(namespace) {
            true => drop(self.sizes.insert(namespace.into(), left)),
            false => drop(self.sizes.remove(namespace)),
        }
    }

    /// The number of texts in the rules of all Roles of a namespace: what a decision there may have to compare.
    #[must_use]
    pub(crate) fn size_in(&self, namespace: &str) -> usize {
        self.sizes.get(namespace).copied().unwrap_or_default()
    }

    /// Adds or replaces a RoleBinding, or a ClusterRoleBinding, which has no namespace.
    pub fn set_binding(&mut self, binding: Binding) {
        let (namespace, name) = (Arc::clone(&binding.metadata.namespace), Arc::clone(&binding.metadata.name));
        self.remove_binding(&namespace, &name);
        self.scopes.entry(Arc::clone(&namespace)).or_default().add(&binding);
        self.bindings.entry(namespace).or_default().insert(name, Arc::new(binding));
    }

    /// Removes a binding; an empty namespace names a ClusterRoleBinding.
    pub fn remove_binding(&mut self, namespace: &str, name: &str) {
        let Some(binding) = remove(&mut self.bindings, namespace, name) else { return };
        let Some(scope) = self.scopes.get_mut(namespace) else { return };
        scope.remove(&binding);
        if scope.is_empty() {
            self.scopes.remove(namespace);
        }
    }

    /// Returns the binding that allows the user to do this.
    ///
    /// Stops at the first rule that allows. Otherwise the cost is the number of rules of all roles that the user was
    /// given, which is why refusals cost more than permissions.
    ///
    /// # Errors
    /// The roles that bindings of the user name and that do not exist, if nothing allows it.
    pub fn decide<'a>(
        &'a self,
        user: &'a User,
        wanted: &AuthorizerAttributes<'a>,
    ) -> Result<RuleSource<'a>, Vec<&'a RoleRef>> {
        let mut missing = Vec::new();
        for granted in self.granted(user, wanted.namespace) {
            let Some(mut rules) = self.rules_of(granted.role, granted.namespace) else {
                missing.push(granted.role);
                continue;
            };
            if rules.any(|rule| rule.allows(wanted)) {
                return self.source(user, &granted).ok_or(missing);
            }
        }
        Err(missing)
    }

    /// The binding that a right comes from, for the reason in audit events.
    fn source<'a>(&'a self, user: &'a User, granted: &Granted<'a>) -> Option<RuleSource<'a>> {
        let binding = self.bindings.get(granted.namespace)?.get(granted.binding)?;
        Some(RuleSource { binding, user })
    }

    /// Every rule that holds for the user in the namespace; an empty namespace means the whole cluster.
    pub fn rules<'a>(&'a self, user: &'a User, namespace: &'a str) -> impl Iterator<Item = &'a PolicyRule> {
        self.granted(user, namespace)
            .filter_map(|granted| self.rules_of(granted.role, granted.namespace))
            .flatten()
    }

    /// The rules of the role that a binding in `namespace` refers to.
    ///
    /// `None` if the role does not exist; a `Role` is never looked for outside the namespace of its binding.
    #[must_use]
    pub(crate) fn rules_of<'a>(
        &'a self,
        role: &RoleRef,
        namespace: &str,
    ) -> Option<impl Iterator<Item = &'a PolicyRule>> {
        let parts: &[Arc<Role>] = if role.is_cluster_role() {
            self.effective(self.cluster_roles.get(&role.name)?)
        } else {
            std::slice::from_ref(self.roles.get(namespace)?.get(&role.name)?)
        };
        Some(parts.iter().flat_map(|role| role.rules()))
    }
}

/// Removes an entry, and the namespace when it has become empty.
fn remove<V: Clone>(
    map: &mut PolicyMap<Arc<str>, PolicyMap<Arc<str>, V>>,
    namespace: &str,
    name: &str,
) -> Option<V> {
    let inside = map.get_mut(namespace)?;
    let removed = inside.remove(name);
    if inside.is_empty() {
        map.remove(namespace);
    }
    removed
}

impl fmt::Display for RuleSource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Binding { metadata, role_ref, subjects } = self.binding;
        let namespace = &*metadata.namespace;
        let (kind, name) = match namespace {
            "" => ("ClusterRoleBinding", metadata.name.to_string()),
            _ => ("RoleBinding", format!("{}/{namespace}", metadata.name)),
        };
        write!(f, "{kind} {} of {} {}", quote(&name), role_ref.kind, quote(&role_ref.name))?;
        // A review may name as many groups as a binding has subjects.
        let groups: HashSet<&str> = self.user.groups.iter().map(String::as_str).collect();
        match subjects.iter().find(|subject| subject.includes(&self.user.name, &groups, namespace)) {
            Some(subject) => write!(f, " to {}", subject.describe(namespace)),
            None => Ok(()),
        }
    }
}
