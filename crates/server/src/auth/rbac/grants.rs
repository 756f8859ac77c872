//! The bindings of a [`Policy`], indexed by subject: from a user and their groups to the roles they were given.
//!
//! A decision looks at the bindings of one user, not at all of them, so its cost does not grow with the cluster.
//! Bindings of the same role to the same subject share an entry: a role is evaluated once however many bindings there
//! are. The maps are persistent, because each change of a binding makes a new policy that shares the rest. Roles are
//! resolved in [`super::policy`].

use std::collections::HashSet;
use std::sync::Arc;

use crate::auth::User;
use crate::auth::rbac::granted_roles::GrantedRoles;
use crate::auth::rbac::object::{Binding, Principal, RbacSubject, RoleRef};
use crate::auth::rbac::policy::{Policy, PolicyMap};

/// The bindings of one namespace, or those of the whole cluster, by subject.
#[derive(Clone, Debug, Default)]
pub(super) struct GrantScope {
    /// Roles by user name; service accounts are users.
    users: PolicyMap<Arc<str>, GrantedRoles>,
    /// Roles by group.
    groups: PolicyMap<Arc<str>, GrantedRoles>,
}

/// A role that a user was given.
#[derive(Debug)]
pub(super) struct Granted<'a> {
    /// The namespace of the binding.
    pub(super) namespace: &'a str,
    /// The name of one of the bindings.
    pub(super) binding: &'a str,
    pub(super) role: &'a RoleRef,
}

impl GrantScope {
    /// Adds the role of a binding to each of its subjects.
    pub(super) fn add(&mut self, binding: &Binding) {
        for principal in binding.principals() {
            let (map, key) = self.place(principal);
            map.entry(key).or_default().add(&binding.role_ref, &binding.metadata.name);
        }
    }

    /// Removes a binding. A role stays with a subject while another binding grants it.
    pub(super) fn remove(&mut self, binding: &Binding) {
        for principal in binding.principals() {
            let (map, key) = self.place(principal);
            let Some(roles) = map.get_mut(&key) else { continue };
            roles.remove(&binding.role_ref, &binding.metadata.name);
            if roles.is_empty() {
                map.remove(&key);
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.users.is_empty() && self.groups.is_empty()
    }

    /// Users, groups and service accounts have maps of their own.
    fn place(&mut self, principal: Principal) -> (&mut PolicyMap<Arc<str>, GrantedRoles>, Arc<str>) {
        match principal {
            Principal::User(name) => (&mut self.users, name),
            Principal::Group(name) => (&mut self.groups, name),
        }
    }

    /// The user's own entry, then one lookup per group.
    fn of<'a>(&'a self, user: &'a User) -> impl Iterator<Item = (&'a RoleRef, &'a str)> {
        let named = self.users.get(user.name.as_str()).into_iter();
        let grouped = distinct(&user.groups).filter_map(|group| self.groups.get(group));
        named.chain(grouped).flat_map(GrantedRoles::iter)
    }
}

/// Each of many groups once: a review may name one group a hundred thousand times, and the roles of that group would be
/// compared as often. Few are not worth a set.
fn distinct(groups: &[String]) -> impl Iterator<Item = &str> {
    /// The groups of an ordinary user at most.
    const FEW: usize = 16;
    let (is_few, mut seen) = (groups.len() <= FEW, HashSet::new());
    groups.iter().map(String::as_str).filter(move |group| is_few || seen.insert(*group))
}

impl Policy {
    /// Every role the user was given: in the whole cluster, and in the namespace if there is one.
    ///
    /// Cluster-wide grants come first, so that reasons name a ClusterRoleBinding if both allow. kube-apiserver visits
    /// every binding of the namespace and of the cluster at this point.
    pub(super) fn granted<'a>(
        &'a self,
        user: &'a User,
        namespace: &'a str,
    ) -> impl Iterator<Item = Granted<'a>> {
        let local = (!namespace.is_empty()).then_some(namespace);
        std::iter::once("").chain(local).flat_map(move |namespace| {
            let scope = self.scopes.get(namespace).into_iter();
            let roles = scope.flat_map(move |scope| scope.of(user));
            roles.map(move |(role, binding)| Granted { namespace, role, binding })
        })
    }
}

impl Binding {
    fn principals(&self) -> impl Iterator<Item = Principal> {
        self.subjects.iter().filter_map(|subject| subject.principal(&self.metadata.namespace))
    }
}

impl RbacSubject {
    /// Returns true if a binding of the namespace has as a subject the user of that name or one of the groups.
    pub(super) fn includes(&self, user: &str, groups: &HashSet<&str>, binding_namespace: &str) -> bool {
        match self.principal(binding_namespace) {
            Some(Principal::User(name)) => *user == *name,
            Some(Principal::Group(name)) => groups.contains(&*name),
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_groups_are_looked_up_once_each() {
        let groups = |names: &[&str], times: usize| -> Vec<String> {
            (0..times).flat_map(|_| names).map(|name| (*name).to_owned()).collect()
        };
        assert_eq!(distinct(&groups(&["a", "b"], 1000)).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(distinct(&groups(&["b", "a"], 1)).collect::<Vec<_>>(), ["b", "a"]);
    }
}
