//! One rule of a Role: what it allows, and whether it covers another.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::auth::Attributes;

/// A rule of a Role or ClusterRole, as its JSON says it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyRule {
    /// Verbs allowed; `*` means all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub verbs: Vec<String>,
    /// API groups it speaks of; the core group is the empty string.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    /// Resources, subresources as `pods/status` or `*/scale`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// If not empty, only objects of these names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    /// Paths outside the resource tree, `*` at the end matches any rest.
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "Vec::is_empty")]
    pub non_resource_urls: Vec<String>,
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

    /// Whether this rule alone allows the action.
    #[must_use]
    pub fn allows(&self, wanted: &Attributes<'_>) -> bool {
        let Attributes { verb, group, resource, subresource, name, path, .. } = *wanted;
        if resource.is_empty() {
            return any_or(&self.verbs, verb)
                && self.non_resource_urls.iter().any(|rule| path_matches(rule, path));
        }
        any_or(&self.verbs, verb)
            && any_or(&self.api_groups, group)
            && self.resources.iter().any(|rule| resource_matches(rule, resource, subresource))
            && (self.resource_names.is_empty() || self.resource_names.iter().any(|n| n == name))
    }

    /// The smallest rules this one is made of: one verb on one resource (and name), or on one path.
    fn atoms(&self) -> impl Iterator<Item = PolicyRule> + '_ {
        self.verbs.iter().flat_map(move |verb| self.resource_atoms(verb).chain(self.path_atoms(verb)))
    }

    fn resource_atoms<'a>(&'a self, verb: &'a str) -> impl Iterator<Item = PolicyRule> + 'a {
        self.api_groups.iter().flat_map(move |group| {
            self.resources.iter().flat_map(move |resource| {
                let whole = Self::resources(group, &[resource], &[verb]);
                let named = self.resource_names.iter().map({
                    let whole = whole.clone();
                    move |name| Self { resource_names: vec![name.clone()], ..whole.clone() }
                });
                named.chain(self.resource_names.is_empty().then_some(whole))
            })
        })
    }

    fn path_atoms<'a>(&'a self, verb: &'a str) -> impl Iterator<Item = PolicyRule> + 'a {
        self.non_resource_urls.iter().map(move |url| Self {
            verbs: vec![verb.to_owned()],
            non_resource_urls: vec![url.clone()],
            ..Self::default()
        })
    }

    fn covers_atom(&self, atom: &PolicyRule) -> bool {
        let each = |mine: &[String], theirs: &[String], fits: fn(&str, &str) -> bool| {
            theirs.iter().all(|want| mine.iter().any(|have| fits(have, want)))
        };
        let names = self.resource_names.is_empty()
            || (!atom.resource_names.is_empty()
                && atom.resource_names.iter().all(|n| self.resource_names.contains(n)));
        each(&self.verbs, &atom.verbs, wildcard)
            && each(&self.api_groups, &atom.api_groups, wildcard)
            && each(&self.resources, &atom.resources, resource_covers)
            && each(&self.non_resource_urls, &atom.non_resource_urls, path_matches)
            && names
    }
}

/// What of `wanted` no rule of `held` covers: empty if everything may be granted.
#[must_use]
pub fn uncovered(held: &[PolicyRule], wanted: &[PolicyRule]) -> Vec<PolicyRule> {
    let atoms = wanted.iter().flat_map(PolicyRule::atoms);
    atoms.filter(|atom| !held.iter().any(|rule| rule.covers_atom(atom))).collect()
}

impl fmt::Display for PolicyRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("ResourceNames", &self.resource_names),
            ("NonResourceURLs", &self.non_resource_urls),
            ("Verbs", &self.verbs),
        ];
        let shown = parts.iter().filter(|(_, values)| !values.is_empty());
        let shown: Vec<_> = shown.map(|(label, values)| format!("{label}:[{}]", quoted(values))).collect();
        write!(f, "{{{}}}", shown.join(", "))
    }
}

fn quoted(values: &[String]) -> String {
    values.iter().map(|value| format!("{value:?}")).collect::<Vec<_>>().join(" ")
}

fn owned(values: &[&str]) -> Vec<String> {
    values.iter().map(|&value| value.to_owned()).collect()
}

fn any_or(rules: &[String], value: &str) -> bool {
    rules.iter().any(|rule| wildcard(rule, value))
}

fn wildcard(rule: &str, value: &str) -> bool {
    rule == "*" || rule == value
}

fn resource_matches(rule: &str, resource: &str, subresource: &str) -> bool {
    if rule == "*" {
        return true;
    }
    match (rule.split_once('/'), subresource) {
        (None, "") => rule == resource,
        (None, _) => false,
        (Some((left, right)), _) => right == subresource && wildcard(left, resource),
    }
}

fn resource_covers(rule: &str, wanted: &str) -> bool {
    let (resource, subresource) = wanted.split_once('/').unwrap_or((wanted, ""));
    resource_matches(rule, resource, subresource)
}

fn path_matches(rule: &str, path: &str) -> bool {
    match rule.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None => rule == path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get<'a>(resource: &'a str, subresource: &'a str, name: &'a str) -> Attributes<'a> {
        Attributes { verb: "get", resource, subresource, name, ..Attributes::default() }
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
        let path = |path| Attributes { verb: "get", path, ..Attributes::default() };
        assert!(rule.allows(&path("/healthz")) && rule.allows(&path("/apis/apps")));
        assert!(!rule.allows(&path("/healthz/ping")) && !rule.allows(&path("/api")));
    }

    #[test]
    fn what_is_not_held_is_named_in_the_smallest_terms() {
        let held = [PolicyRule::resources("", &["pods"], &["get", "list"])];
        let wanted = [PolicyRule::resources("", &["pods", "secrets"], &["get"])];
        let missing = uncovered(&held, &wanted);
        let shown: Vec<_> = missing.iter().map(ToString::to_string).collect();
        assert_eq!(shown, [r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}"#]);
    }

    #[test]
    fn a_rule_for_all_names_covers_one_name_but_not_the_reverse() {
        let all = PolicyRule::resources("", &["pods"], &["get"]);
        let one = PolicyRule { resource_names: vec!["a".into()], ..all.clone() };
        assert!(uncovered(std::slice::from_ref(&all), std::slice::from_ref(&one)).is_empty());
        assert_eq!(uncovered(&[one], std::slice::from_ref(&all)), [all]);
    }
}
