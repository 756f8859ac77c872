//! [`AuditPolicy`]: the audit policy file of kube-apiserver: rules, of which the first that matches decides the
//! level.
//!
//! Unknown fields are errors, because a misspelt rule would silently record less or more than was meant. Matching is
//! by user, group, verb, resource, namespace and path; a request that no rule matches is not recorded. Evaluated once
//! per request, after authentication ([`super::draft`]).

use serde::{Deserialize, Serialize};

use crate::auth::{AuthorizerAttributes, User};
use crate::files;

/// The audit level: how much is recorded about a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub(crate) enum AuditLevel {
    /// Nothing.
    #[default]
    None,
    /// User, attributes and response code.
    Metadata,
    /// The body of the request as well.
    Request,
    /// The body of the response as well.
    RequestResponse,
}

/// Rules, of which the first that fits a request counts.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct AuditPolicy {
    api_version: String,
    kind: String,
    #[serde(rename = "metadata")]
    _metadata: Option<serde::de::IgnoredAny>,
    rules: Vec<AuditRule>,
    omit_stages: Vec<String>,
    omit_managed_fields: bool,
}

/// Empty lists match everything. `resources` and `nonResourceURLs` exclude each other.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct AuditRule {
    level: AuditLevel,
    users: Vec<String>,
    user_groups: Vec<String>,
    verbs: Vec<String>,
    resources: Vec<Resources>,
    namespaces: Vec<String>,
    #[serde(rename = "nonResourceURLs")]
    non_resource_urls: Vec<String>,
    omit_stages: Vec<String>,
    omit_managed_fields: Option<bool>,
}

/// An empty list of resources means all resources of the group.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct Resources {
    group: String,
    resources: Vec<String>,
    resource_names: Vec<String>,
}

/// The decision of the policy about one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AuditDecision {
    pub(super) level: AuditLevel,
    pub(super) omitted: Vec<String>,
    /// Bodies are recorded without `metadata.managedFields`.
    pub(super) omit_managed_fields: bool,
}

impl AuditPolicy {
    /// Reads a policy file.
    ///
    /// # Errors
    /// The problem with the policy.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let policy: Self = files::parse_yaml(text)?;
        if policy.kind != "Policy" || policy.api_version != "audit.k8s.io/v1" {
            return Err(format!(
                "expected an audit.k8s.io/v1 Policy, found {} {}",
                policy.api_version, policy.kind
            ));
        }
        if policy.rules.is_empty() {
            return Err("a policy needs at least one rule".to_owned());
        }
        Ok(policy)
    }

    /// Returns the level and the omitted stages of a request: those of the first rule that matches.
    ///
    /// Proportional to the rules before the one that matches.
    pub(super) fn decide(&self, user: &User, wanted: &AuthorizerAttributes<'_>) -> AuditDecision {
        let Some(rule) = self.rules.iter().find(|rule| rule.fits(user, wanted)) else {
            return AuditDecision::default();
        };
        let omitted = self.omit_stages.iter().chain(&rule.omit_stages).cloned().collect();
        let omit_managed_fields = rule.omit_managed_fields.unwrap_or(self.omit_managed_fields);
        AuditDecision { level: rule.level, omitted, omit_managed_fields }
    }
}

impl AuditRule {
    /// Returns true if all conditions of the rule match. A rule with resources never matches a path, nor one with
    /// paths a resource.
    fn fits(&self, user: &User, wanted: &AuthorizerAttributes<'_>) -> bool {
        let listed = |list: &[String], value: &str| list.is_empty() || list.iter().any(|item| item == value);
        let grouped = self.user_groups.is_empty() || self.user_groups.iter().any(|group| user.is_in(group));
        if !listed(&self.users, &user.name) || !grouped || !listed(&self.verbs, wanted.verb) {
            return false;
        }
        if !self.namespaces.is_empty() || !self.resources.is_empty() {
            return !wanted.resource.is_empty()
                && listed(&self.namespaces, wanted.namespace)
                && (self.resources.is_empty() || self.resources.iter().any(|part| part.fits(wanted)));
        }
        if !self.non_resource_urls.is_empty() {
            return wanted.resource.is_empty()
                && self.non_resource_urls.iter().any(|url| path(url, wanted.path));
        }
        true
    }
}

impl Resources {
    /// True if a rule is about the resource of a request. Names count only together with resources, as in
    /// kube-apiserver.
    fn fits(&self, wanted: &AuthorizerAttributes<'_>) -> bool {
        let named =
            self.resource_names.is_empty() || self.resource_names.iter().any(|name| name == wanted.name);
        self.group == wanted.group
            && (self.resources.is_empty()
                || (named && self.resources.iter().any(|rule| resource(rule, wanted))))
    }
}

/// `pods`, `pods/log`, `*`, `*/log` or `pods/*`.
fn resource(rule: &str, wanted: &AuthorizerAttributes<'_>) -> bool {
    if rule == "*" {
        return true;
    }
    match (rule.split_once('/'), wanted.subresource) {
        (None, "") => rule == wanted.resource,
        (Some((owner, "*")), _) => owner == wanted.resource,
        (Some((owner, sub)), subresource) => {
            !subresource.is_empty() && sub == subresource && (owner == "*" || owner == wanted.resource)
        }
        (None, _) => false,
    }
}

/// A star is special at the end only.
fn path(rule: &str, path: &str) -> bool {
    rule == path || (rule.ends_with('*') && path.starts_with(rule.trim_end_matches('*')))
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = r#"
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  users: ["system:kube-proxy"]
  verbs: ["watch"]
  resources:
  - group: ""
    resources: ["endpoints", "services"]
- level: None
  nonResourceURLs: ["/healthz*", "/version"]
- level: Request
  resources:
  - group: ""
    resources: ["configmaps"]
  namespaces: ["kube-system"]
- level: Metadata
  resources:
  - group: ""
    resources: ["secrets", "*/log"]
- level: RequestResponse
  userGroups: ["auditors"]
  omitStages: [ResponseStarted]
- level: Metadata
  resources:
  - group: "apps"
"#;

    fn level(user: &str, groups: &[&str], wanted: AuthorizerAttributes<'_>) -> AuditLevel {
        let groups = groups.iter().map(|&group| group.to_owned()).collect();
        let user = User { name: user.to_owned(), groups, ..User::default() };
        AuditPolicy::parse(POLICY).unwrap().decide(&user, &wanted).level
    }

    #[test]
    fn the_first_rule_that_fits_counts() {
        let of = |resource| AuthorizerAttributes {
            verb: "get",
            resource,
            namespace: "a",
            ..AuthorizerAttributes::default()
        };
        assert_eq!(level("x", &[], of("secrets")), AuditLevel::Metadata);
        assert_eq!(level("x", &[], of("pods")), AuditLevel::None);
        assert_eq!(level("x", &["auditors"], of("pods")), AuditLevel::RequestResponse);
        assert_eq!(
            level("x", &[], AuthorizerAttributes { subresource: "log", ..of("pods") }),
            AuditLevel::Metadata
        );
        assert_eq!(level("x", &[], of("configmaps")), AuditLevel::None);
        assert_eq!(
            level("x", &[], AuthorizerAttributes { namespace: "kube-system", ..of("configmaps") }),
            AuditLevel::Request
        );
        assert_eq!(
            level("x", &[], AuthorizerAttributes { group: "apps", ..of("deployments") }),
            AuditLevel::Metadata
        );
        let watch = AuthorizerAttributes { verb: "watch", ..of("services") };
        assert_eq!(level("system:kube-proxy", &["auditors"], watch), AuditLevel::None);
        assert_eq!(level("x", &["auditors"], watch), AuditLevel::RequestResponse);
        let path = |path| AuthorizerAttributes { verb: "get", path, ..AuthorizerAttributes::default() };
        assert_eq!(level("x", &["auditors"], path("/healthz/ping")), AuditLevel::None);
        assert_eq!(level("x", &["auditors"], path("/metrics")), AuditLevel::RequestResponse);
    }

    #[test]
    fn invalid_policies_are_refused() {
        for text in [
            "",
            "kind: Policy",
            "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: []",
            "a: [",
            "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Loud",
        ] {
            assert!(AuditPolicy::parse(text).is_err(), "{text:?}");
        }
    }
}
