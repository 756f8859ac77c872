//! [`PolicyRule`]: one rule of a Role, and the requests it allows. Pure.
//!
//! The matching is kube-apiserver's, with its asymmetries: `*` in `resources` includes subresources, `pods` does not
//! include `pods/status`, a rule with `resourceNames` never allows a request without a name, and `nonResourceURLs`
//! match by prefix only with a star at the end. Comparing rules with each other is [`super::cover`].

use std::fmt;

use listwatch_wire::go::quote;
use serde::{Deserialize, Deserializer, Serialize};

use crate::auth::AuthorizerAttributes;

/// A rule of a Role or ClusterRole, as in its JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyRule {
    /// Verbs allowed; `*` means all.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "or_empty")]
    pub verbs: Vec<String>,
    /// API groups that it covers; the core group is the empty string.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "or_empty")]
    pub api_groups: Vec<String>,
    /// Resources, subresources as `pods/status` or `*/scale`.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "or_empty")]
    pub resources: Vec<String>,
    /// Names of the objects that it is about; all objects if it is empty.
    ///
    /// Verbs on collections have no name, so such a rule allows `list` and `watch` only with a field selector on
    /// `metadata.name`, from which the request gets one.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "or_empty")]
    pub resource_names: Vec<String>,
    /// Paths outside the resource tree, `*` at the end matches any rest.
    #[serde(
        rename = "nonResourceURLs",
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "or_empty"
    )]
    pub non_resource_urls: Vec<String>,
}

/// A list, or `null` for the empty one.
pub(super) fn or_empty<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    let mut list = Option::<Vec<T>>::deserialize(from)?.unwrap_or_default();
    // Most have one element and are kept; serde leaves room for four.
    list.shrink_to_fit();
    Ok(list)
}

impl PolicyRule {
    /// A rule that lets `verbs` happen to `resources` of `group`.
    #[must_use]
    pub fn resources(group: &str, resources: &[&str], verbs: &[&str]) -> Self {
        Self {
            verbs: owned(verbs),
            api_groups: vec![group.to_owned()],
            resources: owned(resources),
            ..Self::default()
        }
    }

    /// A rule that lets `verbs` happen to paths outside the resource tree.
    #[must_use]
    pub fn paths(paths: &[&str], verbs: &[&str]) -> Self {
        Self { verbs: owned(verbs), non_resource_urls: owned(paths), ..Self::default() }
    }

    /// The number of texts in it.
    pub(super) fn size(&self) -> usize {
        let lists =
            [&self.verbs, &self.api_groups, &self.resources, &self.resource_names, &self.non_resource_urls];
        lists.iter().map(|list| list.len()).sum()
    }

    /// Returns true if this rule alone allows the action.
    ///
    /// ```
    /// use listwatch_server::auth::AuthorizerAttributes;
    /// use listwatch_server::auth::rbac::PolicyRule;
    ///
    /// let rule = PolicyRule::resources("", &["pods"], &["get", "list"]);
    /// let wanted = |verb, subresource| AuthorizerAttributes { verb, resource: "pods", subresource, ..AuthorizerAttributes::default() };
    /// assert!(rule.allows(&wanted("get", "")));
    /// assert!(!rule.allows(&wanted("delete", "")));
    /// assert!(!rule.allows(&wanted("get", "status")), "a resource does not include its subresources");
    /// ```
    #[must_use]
    pub fn allows(&self, wanted: &AuthorizerAttributes<'_>) -> bool {
        let AuthorizerAttributes { verb, group, resource, subresource, name, path, .. } = *wanted;
        if resource.is_empty() && !path.is_empty() {
            return any_or(&self.verbs, verb)
                && self.non_resource_urls.iter().any(|rule| path_matches(rule, path));
        }
        any_or(&self.verbs, verb)
            && any_or(&self.api_groups, group)
            && self.resources.iter().any(|rule| resource_matches(rule, resource, subresource))
            && (self.resource_names.is_empty() || self.resource_names.iter().any(|n| n == name))
    }
}

impl fmt::Display for PolicyRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        let shown = parts.iter().filter(|(_, values)| !values.is_empty());
        let shown: Vec<_> = shown.map(|(label, values)| format!("{label}:[{}]", quoted(values))).collect();
        write!(f, "{{{}}}", shown.join(", "))
    }
}

/// Texts as Go's `%q` prints a list of them, without the brackets.
pub(in crate::auth) fn quoted(values: &[String]) -> String {
    values.iter().map(|value| quote(value)).collect::<Vec<_>>().join(" ")
}

fn owned(values: &[&str]) -> Vec<String> {
    values.iter().map(|&value| value.to_owned()).collect()
}

/// A star among the values means all.
fn any_or(rules: &[String], value: &str) -> bool {
    rules.iter().any(|rule| rule == "*" || rule == value)
}

/// `*`, the resource with its subresource, or `*/subresource`.
fn resource_matches(rule: &str, resource: &str, subresource: &str) -> bool {
    if rule == "*" {
        return true;
    }
    if subresource.is_empty() {
        return rule == resource;
    }
    let Some(owner) = rule.strip_suffix(subresource).and_then(|rest| rest.strip_suffix('/')) else {
        return false;
    };
    owner == "*" || owner == resource
}

/// Matches a path exactly, or by the prefix before a `*` at the end of the rule.
pub(super) fn path_matches(rule: &str, path: &str) -> bool {
    rule == path || (rule.ends_with('*') && path.starts_with(rule.trim_end_matches('*')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get<'a>(resource: &'a str, subresource: &'a str, name: &'a str) -> AuthorizerAttributes<'a> {
        AuthorizerAttributes { verb: "get", resource, subresource, name, ..AuthorizerAttributes::default() }
    }

    #[test]
    fn a_right_to_a_resource_is_no_right_to_its_subresources() {
        let rule = PolicyRule::resources("", &["pods"], &["get"]);
        assert!(rule.allows(&get("pods", "", "a")));
        assert!(!rule.allows(&get("pods", "status", "a")));
    }

    #[test]
    fn a_starred_resource_may_name_one_subresource_of_all() {
        let rule = PolicyRule::resources("", &["*/scale"], &["get"]);
        assert!(rule.allows(&get("deployments", "scale", "a")));
        assert!(!rule.allows(&get("deployments", "", "a")));
    }

    #[test]
    fn resource_names_narrow_a_rule() {
        let rule =
            PolicyRule { resource_names: vec!["a".into()], ..PolicyRule::resources("", &["pods"], &["*"]) };
        assert!(rule.allows(&get("pods", "", "a")));
        assert!(!rule.allows(&get("pods", "", "b")));
        assert!(!rule.allows(&get("pods", "", "")), "a list without a name is not covered");
    }

    #[test]
    fn paths_match_exactly_or_by_prefix() {
        let rule = PolicyRule {
            verbs: vec!["get".into()],
            non_resource_urls: vec!["/healthz".into(), "/apis/*".into()],
            ..PolicyRule::default()
        };
        let path = |path| AuthorizerAttributes { verb: "get", path, ..AuthorizerAttributes::default() };
        assert!(rule.allows(&path("/healthz")) && rule.allows(&path("/apis/apps")));
        assert!(!rule.allows(&path("/healthz/ping")) && !rule.allows(&path("/api")));
    }
}
