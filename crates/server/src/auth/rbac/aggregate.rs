//! Aggregated ClusterRoles: those that take rules from other ClusterRoles by label selectors.
//!
//! kube-controller-manager writes the gathered rules into the role; here they are found when a decision needs them,
//! so that a role is never behind and no controller is necessary. Rules that such a controller has written count as
//! well. Aggregation is followed through several roles, with protection against cycles, and the result is kept until
//! one of the roles changes.

use std::sync::{Arc, OnceLock};

use imbl::OrdSet;

use crate::auth::rbac::object::Role;
use crate::auth::rbac::policy::Policy;

/// A ClusterRole with the roles that it aggregates.
#[derive(Debug)]
pub(super) struct ClusterRole {
    role: Arc<Role>,
    /// The names of the roles its selectors take.
    members: OrdSet<Arc<str>>,
    /// The role itself and all roles it aggregates, transitively; computed on first use.
    parts: OnceLock<Box<[Arc<Role>]>>,
}

impl ClusterRole {
    /// A role whose rules are joined on first use: most are never asked about.
    fn new(role: Arc<Role>, members: OrdSet<Arc<str>>) -> Arc<Self> {
        Arc::new(Self { role, members, parts: OnceLock::new() })
    }
}

impl Policy {
    /// Adds or replaces a ClusterRole, and updates the membership of every role that aggregates.
    pub fn set_cluster_role(&mut self, role: Role) {
        let name = Arc::clone(&role.metadata.name);
        let role = Arc::new(role);
        let members = if role.aggregates() {
            self.aggregating.insert(Arc::clone(&name));
            self.taken_by(&role)
        } else {
            self.aggregating.remove(&name);
            OrdSet::new()
        };
        self.cluster_roles.insert(Arc::clone(&name), ClusterRole::new(Arc::clone(&role), members));
        self.update_aggregating_roles(&name, Some(&role));
    }

    /// Removes a ClusterRole, also from the roles that aggregate it. Bindings of it stay and grant nothing.
    pub(crate) fn remove_cluster_role(&mut self, name: &str) {
        self.cluster_roles.remove(name);
        self.aggregating.remove(name);
        self.update_aggregating_roles(name, None);
    }

    /// Visits every ClusterRole. Only a write of a role that aggregates costs this.
    fn taken_by(&self, role: &Role) -> OrdSet<Arc<str>> {
        let others = self.cluster_roles.values().filter(|other| role.takes(&other.role));
        others.map(|other| Arc::clone(&other.role.metadata.name)).collect()
    }

    /// Updates the members of all aggregating roles after a role changed, and drops their cached results.
    ///
    /// Proportional to the number of aggregating roles, which is a handful. All get a fresh entry and not only those
    /// that gain or lose a member, because results may have passed through several roles.
    fn update_aggregating_roles(&mut self, name: &str, role: Option<&Role>) {
        for other in self.aggregating.clone() {
            let Some(known) = self.cluster_roles.get(&other) else { continue };
            let mut members = known.members.clone();
            match role.filter(|role| known.role.takes(role)) {
                Some(role) => members.insert(Arc::clone(&role.metadata.name)),
                None => members.remove(name),
            };
            let fresh = ClusterRole::new(Arc::clone(&known.role), members);
            self.cluster_roles.insert(other, fresh);
        }
    }

    /// A ClusterRole and every role it takes, directly or through others.
    ///
    /// Computed by the first decision that needs it and kept with the entry, hence until any ClusterRole changes.
    pub(super) fn effective<'a>(&'a self, role: &'a ClusterRole) -> &'a [Arc<Role>] {
        role.parts.get_or_init(|| self.collect(role))
    }

    /// Collects a role and all roles it aggregates, directly or through others. Each is visited once, so cycles end.
    fn collect(&self, role: &ClusterRole) -> Box<[Arc<Role>]> {
        let mut found = vec![Arc::clone(&role.role)];
        let mut seen: std::collections::HashSet<&str> = [&*role.role.metadata.name].into();
        let mut waiting: Vec<&Arc<str>> = role.members.iter().collect();
        while let Some(name) = waiting.pop() {
            if !seen.insert(name) {
                continue;
            }
            let Some(member) = self.cluster_roles.get(name) else { continue };
            found.push(Arc::clone(&member.role));
            waiting.extend(&member.members);
        }
        found.into()
    }
}
