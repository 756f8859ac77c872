//! All roles and bindings at one moment, and what they allow a user.

use std::collections::HashMap;

use serde::Deserialize;

use crate::auth::rbac::rule::PolicyRule;
use crate::auth::{Attributes, User};

/// The roles and bindings of the whole server, compiled for look-up.
///
/// It is immutable: a change of any role or binding makes a new one, so that a request is judged by one moment.
#[derive(Debug, Default)]
pub struct Policy {
    cluster_roles: HashMap<String, Role>,
    /// By namespace, then name: a binding only ever looks for the roles of its own namespace.
    roles: HashMap<String, HashMap<String, Role>>,
    cluster_bindings: Vec<Binding>,
    bindings: HashMap<String, Vec<Binding>>,
}

/// A Role or ClusterRole as its JSON says it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Role {
    metadata: Meta,
    rules: Option<Vec<PolicyRule>>,
    aggregation_rule: Option<Aggregation>,
}

/// A RoleBinding or ClusterRoleBinding as its JSON says it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Binding {
    metadata: Meta,
    role_ref: RoleRef,
    subjects: Option<Vec<BindingSubject>>,
}

/// The role a binding grants.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RoleRef {
    /// `Role` or `ClusterRole`.
    pub kind: String,
    /// The role's name.
    pub name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Meta {
    name: String,
    namespace: String,
    labels: HashMap<String, String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Aggregation {
    cluster_role_selectors: Vec<LabelMatch>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct LabelMatch {
    match_labels: HashMap<String, String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct BindingSubject {
    kind: String,
    name: String,
    namespace: String,
}

impl Policy {
    /// Adds a ClusterRole.
    pub fn add_cluster_role(&mut self, role: Role) {
        self.cluster_roles.insert(role.metadata.name.clone(), role);
    }

    /// Adds a Role.
    pub fn add_role(&mut self, role: Role) {
        let Meta { namespace, name, .. } = role.metadata.clone();
        self.roles.entry(namespace).or_default().insert(name, role);
    }

    /// Adds a ClusterRoleBinding.
    pub fn add_cluster_binding(&mut self, binding: Binding) {
        self.cluster_bindings.push(binding);
    }

    /// Adds a RoleBinding.
    pub fn add_binding(&mut self, binding: Binding) {
        self.bindings.entry(binding.metadata.namespace.clone()).or_default().push(binding);
    }

    /// Whether the user may do this.
    #[must_use]
    pub fn allows(&self, user: &User, wanted: &Attributes<'_>) -> bool {
        self.rules(user, wanted.namespace).any(|rule| rule.allows(wanted))
    }

    /// Every rule that holds for the user in the namespace; an empty namespace means the whole cluster.
    pub fn rules<'a>(&'a self, user: &'a User, namespace: &'a str) -> impl Iterator<Item = &'a PolicyRule> {
        let cluster = self.cluster_bindings.iter();
        let local = self.bindings.get(namespace).into_iter().flatten();
        let granted = cluster.chain(local).filter(move |binding| binding.includes(user));
        granted.flat_map(|binding| self.referenced(&binding.role_ref, &binding.metadata.namespace))
    }

    /// The rules of the role that a binding in `namespace` refers to; none if there is no such role.
    #[must_use]
    pub fn referenced<'a>(&'a self, role: &RoleRef, namespace: &str) -> Vec<&'a PolicyRule> {
        match role.kind.as_str() {
            "ClusterRole" => self.cluster_roles.get(&role.name).map(|role| self.effective(role)),
            _ => self.roles.get(namespace).and_then(|roles| roles.get(&role.name)).map(|r| r.own().collect()),
        }
        .unwrap_or_default()
    }

    /// A ClusterRole's own rules and those of the roles it aggregates. Aggregation is evaluated here rather than
    /// written back by a controller, so that it is never behind.
    fn effective<'a>(&'a self, role: &'a Role) -> Vec<&'a PolicyRule> {
        let selectors = role.aggregation_rule.iter().flat_map(|a| &a.cluster_role_selectors);
        let aggregated =
            selectors.flat_map(|s| self.cluster_roles.values().filter(|r| s.matches(&r.metadata)));
        role.own().chain(aggregated.flat_map(Role::own)).collect()
    }
}

impl Role {
    fn own(&self) -> impl Iterator<Item = &PolicyRule> {
        self.rules.iter().flatten()
    }
}

impl LabelMatch {
    fn matches(&self, meta: &Meta) -> bool {
        !self.match_labels.is_empty() && self.match_labels.iter().all(|(k, v)| meta.labels.get(k) == Some(v))
    }
}

impl Binding {
    fn includes(&self, user: &User) -> bool {
        self.subjects.iter().flatten().any(|subject| subject.is(user, &self.metadata.namespace))
    }
}

impl BindingSubject {
    fn is(&self, user: &User, binding_namespace: &str) -> bool {
        match self.kind.as_str() {
            "User" => user.name == self.name,
            "Group" => user.is_in(&self.name),
            "ServiceAccount" => self.is_account(&user.name, binding_namespace),
            _ => false,
        }
    }

    fn is_account(&self, user: &str, binding_namespace: &str) -> bool {
        let namespace = if self.namespace.is_empty() { binding_namespace } else { &self.namespace };
        let account = user.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
        account.is_some_and(|(ns, name)| ns == namespace && name == self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use listwatch_wire::json::{Value, json};

    fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
        value.to_type().unwrap()
    }

    fn policy() -> Policy {
        let mut policy = Policy::default();
        policy.add_role(object(json!({"metadata": {"name": "reader", "namespace": "a"},
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]})));
        policy.add_binding(object(json!({"metadata": {"name": "b", "namespace": "a"},
            "roleRef": {"kind": "Role", "name": "reader"},
            "subjects": [{"kind": "User", "name": "alice"}, {"kind": "ServiceAccount", "name": "bot"}]})));
        policy
    }

    fn may(policy: &Policy, name: &str, groups: &[&str], namespace: &str) -> bool {
        let groups = groups.iter().map(|&group| group.to_owned()).collect();
        let user = User { name: name.to_owned(), groups, ..User::default() };
        let get =
            Attributes { verb: "get", resource: "configmaps", name: "x", namespace, ..Attributes::default() };
        policy.allows(&user, &get)
    }

    #[test]
    fn a_binding_holds_in_its_own_namespace_only() {
        let policy = policy();
        assert!(may(&policy, "alice", &[], "a"));
        assert!(!may(&policy, "alice", &[], "b") && !may(&policy, "alice", &[], ""));
        assert!(!may(&policy, "bob", &[], "a"));
    }

    #[test]
    fn a_service_account_without_namespace_is_of_the_bindings() {
        let policy = policy();
        assert!(may(&policy, "system:serviceaccount:a:bot", &[], "a"));
        assert!(!may(&policy, "system:serviceaccount:b:bot", &[], "a"));
    }

    #[test]
    fn a_cluster_binding_holds_everywhere_and_roles_aggregate_by_label() {
        let mut policy = Policy::default();
        policy.add_cluster_role(object(json!({"metadata": {"name": "view"},
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"to-view": "true"}}]}})));
        policy.add_cluster_role(object(json!({"metadata": {"name": "part", "labels": {"to-view": "true"}},
            "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get"]}]})));
        policy.add_cluster_binding(object(json!({"metadata": {"name": "b"},
            "roleRef": {"kind": "ClusterRole", "name": "view"}, "subjects": [{"kind": "Group", "name": "devs"}]})));
        assert!(may(&policy, "x", &["devs"], "any") && may(&policy, "x", &["devs"], ""));
        assert!(!may(&policy, "x", &[], "any"));
    }
}
