//! Roles, bindings and their selectors as they are read from stored JSON.
//!
//! Only the fields that decisions need, and tolerant where kube-apiserver is: a list may be `null`, an invalid
//! selector selects nothing. These objects were validated when they were written, but another version or a direct
//! write to the store may have left anything; what cannot be read grants nothing. [`super::policy`] keeps them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use listwatch_wire::go::quote;
use listwatch_wire::selector::{LabelSelector, Operator, Requirement};
use serde::{Deserialize, Deserializer};

use crate::auth::rbac::rule::{PolicyRule, or_empty};

/// A Role or ClusterRole as stored; its place in the [`crate::auth::rbac::Policy`] decides which of them it is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Role {
    pub(super) metadata: RbacMetadata,
    /// Rules in the role itself; those it aggregates are found in `aggregate.rs`.
    #[serde(deserialize_with = "or_empty")]
    pub(super) rules: Vec<PolicyRule>,
    pub(super) aggregation_rule: Option<Aggregation>,
}

/// A RoleBinding, or a ClusterRoleBinding, which has an empty namespace.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Binding {
    pub(super) metadata: RbacMetadata,
    /// Shared with the grants of all subjects.
    pub(super) role_ref: Arc<RoleRef>,
    /// Subjects as written. Several may mean the same user.
    #[serde(deserialize_with = "or_empty")]
    pub(super) subjects: Vec<RbacSubject>,
}

/// The role that a binding grants. It is immutable, so a binding is indexed by it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RoleRef {
    /// The API group of roles.
    pub api_group: String,
    /// `Role` or `ClusterRole`.
    pub kind: String,
    /// The role's name.
    pub name: Arc<str>,
}

/// The metadata that decisions need: identity, and labels for aggregation.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RbacMetadata {
    pub(super) name: Arc<str>,
    pub(super) namespace: Arc<str>,
    pub(super) labels: Option<BTreeMap<String, String>>,
}

/// The selectors of the ClusterRoles that are aggregated: a role is taken if any of them matches.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Aggregation {
    #[serde(deserialize_with = "or_empty")]
    pub(super) cluster_role_selectors: Vec<RoleSelector>,
}

/// A label selector; `None` if it makes no sense, and then it takes nothing.
#[derive(Clone, Debug)]
pub(super) struct RoleSelector(pub(super) Option<LabelSelector>);

/// A label selector of an aggregated ClusterRole, as written.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SelectorText {
    match_labels: Option<BTreeMap<String, String>>,
    #[serde(deserialize_with = "or_empty")]
    match_expressions: Vec<SelectorExpression>,
}

/// One requirement of it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SelectorExpression {
    key: String,
    operator: String,
    #[serde(deserialize_with = "or_empty")]
    values: Vec<String>,
}

/// A subject of a binding, as stored. [`RbacSubject::principal`] resolves it to a user or group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct RbacSubject {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) namespace: String,
}

impl<'de> Deserialize<'de> for RoleSelector {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        SelectorText::deserialize(from).map(|text| Self(text.parse()))
    }
}

impl SelectorText {
    /// Returns the selector, or none if a part of it is not valid: such an aggregation rule selects nothing.
    fn parse(self) -> Option<LabelSelector> {
        let labels = self.match_labels.unwrap_or_default().into_iter();
        let labels = labels.map(|(key, value)| Requirement::new(&key, Operator::In, vec![value]).ok());
        let expressions = self.match_expressions.into_iter().map(SelectorExpression::parse);
        labels.chain(expressions).collect::<Option<Vec<_>>>().map(LabelSelector::new)
    }
}

impl SelectorExpression {
    /// Returns the requirement, or none for an unknown operator or values that do not fit it.
    fn parse(self) -> Option<Requirement> {
        let operator = match self.operator.as_str() {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            _ => return None,
        };
        Requirement::new(&self.key, operator, self.values).ok()
    }
}

impl RbacMetadata {
    /// A label of the role, for selectors of aggregation.
    pub(super) fn label(&self, key: &str) -> Option<&str> {
        self.labels.as_ref()?.get(key).map(String::as_str)
    }
}

impl Role {
    /// The number of texts in its rules.
    pub(super) fn size(&self) -> usize {
        self.rules.iter().map(PolicyRule::size).sum()
    }

    /// Returns true if it aggregates rules of other roles.
    #[must_use]
    pub(crate) fn aggregates(&self) -> bool {
        self.aggregation_rule.is_some()
    }

    /// The rules in the role itself, without those it aggregates.
    #[must_use]
    pub fn rules(&self) -> &[PolicyRule] {
        &self.rules
    }

    /// The selectors of the aggregation rule that can be read. One that cannot selects nothing.
    pub(super) fn selectors(&self) -> impl Iterator<Item = &LabelSelector> {
        let selectors = self.aggregation_rule.iter().flat_map(|rule| &rule.cluster_role_selectors);
        selectors.filter_map(|selector| selector.0.as_ref())
    }

    /// Returns true if this role aggregates the other one. No role aggregates itself.
    pub(super) fn takes(&self, other: &Self) -> bool {
        self.metadata.name != other.metadata.name
            && self.selectors().any(|selector| selector.matches(|key| other.metadata.label(key)))
    }
}

impl RoleRef {
    pub(super) fn is_cluster_role(&self) -> bool {
        self.kind == "ClusterRole"
    }
}

/// The user or group of a subject. ServiceAccounts are users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Principal {
    User(Arc<str>),
    Group(Arc<str>),
}

impl RbacSubject {
    /// The user or group this means in a binding of the namespace; service accounts are users with a telling name.
    pub(super) fn principal(&self, binding_namespace: &str) -> Option<Principal> {
        match self.kind.as_str() {
            "User" => Some(Principal::User(self.name.as_str().into())),
            "Group" => Some(Principal::Group(self.name.as_str().into())),
            "ServiceAccount" => {
                let namespace = self.account_namespace(binding_namespace);
                let user = format!("system:serviceaccount:{namespace}:{}", self.name);
                (!namespace.is_empty()).then(|| Principal::User(user.into()))
            }
            _ => None,
        }
    }

    /// A ServiceAccount without a namespace is one of the namespace of the binding.
    fn account_namespace<'a>(&'a self, binding_namespace: &'a str) -> &'a str {
        if self.namespace.is_empty() { binding_namespace } else { &self.namespace }
    }

    /// The subject as reasons name it.
    pub(super) fn describe(&self, binding_namespace: &str) -> impl fmt::Display {
        let name = match self.kind.as_str() {
            "ServiceAccount" => format!("{}/{}", self.name, self.account_namespace(binding_namespace)),
            _ => self.name.clone(),
        };
        format!("{} {}", self.kind, quote(&name))
    }
}
